/* SPDX-License-Identifier: Apache-2.0
 *
 * child: runs gnuplot and waits for it.
 *
 * Shape     fork, exec, wait. Both output streams of the child go to an unnamed temporary file: a
 *           pipe would have to be drained while waiting. A failed exec tells its errno through a
 *           pipe that a successful one closes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "tools/cli.h"

#define SHOWN_LINES 12 /* the rest of a long complaint repeats it */

/* In the child: never returns. */
static void child_exec(const char *const *argv, int said_fd, int errno_fd)
{
	int null_fd = open("/dev/null", O_RDONLY);

	if (null_fd >= 0 && dup2(null_fd, STDIN_FILENO) >= 0 && dup2(said_fd, STDOUT_FILENO) >= 0 &&
	    dup2(said_fd, STDERR_FILENO) >= 0)
		/* exec's declaration lacks the const that it keeps. */
		execvp(argv[0], (char *const *)(const void *)argv);
	int err = errno;

	if (write(errno_fd, &err, sizeof(err)) != sizeof(err))
		_exit(126);
	_exit(127);
}

static int child_missing(const char *name, int err)
{
	if (err == ENOENT && !strchr(name, '/'))
		cli_error("%s: not found; install it (Debian, Ubuntu: apt install gnuplot-nox; "
			  "Fedora: dnf install gnuplot) or name it with --gnuplot=PATH",
			  name);
	else
		cli_error("%s: cannot run it: %s", name, strerror(err));
	return CLI_FAILED;
}

static void child_show(FILE *said)
{
	char line[512];
	int shown = 0;

	rewind(said);
	while (shown < SHOWN_LINES && fgets(line, sizeof(line), said)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[strspn(line, " \t^")]) {
			cli_error("gnuplot: %s", line);
			shown++;
		}
	}
}

static int child_wait(pid_t pid, const char *name, FILE *said)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR) {
			cli_error("%s: %s", name, strerror(errno));
			return CLI_FAILED;
		}
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return CLI_OK;
	child_show(said);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT)
		return CLI_INTERRUPTED;
	if (WIFSIGNALED(status))
		cli_error("%s: ended by signal %d", name, WTERMSIG(status));
	else
		cli_error("%s: exit code %d", name, WEXITSTATUS(status));
	return CLI_FAILED;
}

int plot_run_child(const char *const *argv)
{
	FILE *said = tmpfile();
	int fds[2] = { -1, -1 };
	int r = CLI_FAILED;
	int err = 0;
	pid_t pid;

	/* Nothing that waits in our own buffers may come out twice. */
	fflush(stdout);
	if (!said || pipe(fds) != 0 || fcntl(fds[1], F_SETFD, FD_CLOEXEC) != 0 ||
	    (pid = fork()) < 0) {
		cli_error("%s: %s", argv[0], strerror(errno));
		goto out;
	}
	if (pid == 0)
		child_exec(argv, fileno(said), fds[1]);
	close(fds[1]);
	fds[1] = -1;
	if (read(fds[0], &err, sizeof(err)) == sizeof(err)) {
		waitpid(pid, NULL, 0);
		r = child_missing(argv[0], err);
	} else {
		r = child_wait(pid, argv[0], said);
	}
out:
	if (fds[0] >= 0)
		close(fds[0]);
	if (fds[1] >= 0)
		close(fds[1]);
	if (said)
		fclose(said);
	return r;
}
