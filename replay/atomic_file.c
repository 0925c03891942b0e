/* SPDX-License-Identifier: Apache-2.0
 *
 * atomic_file: see atomic_file.h.
 *
 * Invariants  1. the name asked for never shows an unfinished file.
 *             2. no temporary file outlives discard or publish. (A killed program leaves one; its
 *                name ends in .tmp and begins with a dot.)
 * Cost        one fsync per file, so that a rename cannot overtake the data in a power cut
 * Threads     any, each with its own file
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic_file.h"

#define TEMP_TRIES 100u /* names left by killed programs of the same process id */

/* "DIR/.NAME.PID-N.tmp" */
static char *atomic_temp_name(const char *path, unsigned n)
{
	const char *slash = strrchr(path, '/');
	int dir = slash ? (int)(slash - path) + 1 : 0;
	size_t size = strlen(path) + 48;
	char *name = malloc(size);

	/* A name may be 255 bytes long; the temporary one must not pass that. */
	if (name)
		snprintf(name, size, "%.*s.%.200s.%ld-%u.tmp", dir, path, path + dir,
			 (long)getpid(), n);
	return name;
}

static int atomic_open_temp(struct gp_atomic_file *f)
{
	for (unsigned n = 0; n < TEMP_TRIES; n++) {
		f->temp = atomic_temp_name(f->path, n);
		if (!f->temp)
			return -ENOMEM;
		/* O_EXCL: never through a link that somebody placed under this name. */
		int fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		int err = errno;

		if (fd >= 0)
			return fd;
		free(f->temp);
		f->temp = NULL;
		if (err != EEXIST)
			return -err;
	}
	return -EEXIST;
}

/* Finds out what stands at `path`: sets f->path, and *direct where a rename would be wrong. */
static int atomic_target(struct gp_atomic_file *f, const char *path, bool *direct)
{
	struct stat st;
	bool exists = stat(path, &st) == 0;

	*direct = exists && !S_ISREG(st.st_mode);
	/* A name too long, a link that leads to itself: a rename would find out too late. */
	if (!exists && errno != ENOENT)
		return -errno;
	if (exists && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (exists && access(path, W_OK) != 0)
		return -errno;
	/* Replace what a link points at, not the link. */
	f->path = exists && !*direct ? realpath(path, NULL) : strdup(path);
	return f->path ? 0 : -errno;
}

int gp_atomic_open(struct gp_atomic_file *f, const char *path)
{
	bool direct;
	int fd, r;

	*f = (struct gp_atomic_file){ 0 };
	r = atomic_target(f, path, &direct);
	if (r < 0)
		goto fail;
	if (direct) {
		fd = open(f->path, O_WRONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : fd;
	} else {
		r = atomic_open_temp(f);
	}
	if (r < 0)
		goto fail;
	fd = r;
	f->stream = fdopen(fd, "w");
	if (f->stream)
		return 0;
	r = -errno;
	close(fd);
fail:
	gp_atomic_discard(f);
	return r;
}

/* Writes what is still buffered. A stream remembers that a write failed but not why: where one
 * did, another byte asks again, and a disk that was full says so. */
static int atomic_flush(FILE *stream)
{
	bool failed = ferror(stream);

	errno = 0;
	if (failed)
		fputc('\n', stream);
	if (fflush(stream) != 0)
		return errno ? -errno : -EIO;
	return failed ? -EIO : 0;
}

int gp_atomic_finish(struct gp_atomic_file *f)
{
	int r = atomic_flush(f->stream);

	if (!r && f->temp && fsync(fileno(f->stream)) != 0)
		r = -errno;
	if (fclose(f->stream) != 0 && !r)
		r = -errno;
	f->stream = NULL;
	return r;
}

int gp_atomic_publish(struct gp_atomic_file *f)
{
	if (f->temp && rename(f->temp, f->path) != 0)
		return -errno;
	free(f->temp);
	f->temp = NULL;
	gp_atomic_discard(f);
	return 0;
}

void gp_atomic_discard(struct gp_atomic_file *f)
{
	if (f->stream)
		fclose(f->stream);
	if (f->temp)
		unlink(f->temp);
	free(f->temp);
	free(f->path);
	*f = (struct gp_atomic_file){ 0 };
}

int gp_atomic_close(struct gp_atomic_file *f)
{
	int r = gp_atomic_finish(f);

	if (!r)
		r = gp_atomic_publish(f);
	if (r)
		gp_atomic_discard(f);
	return r;
}

/* ---- folders ---- */

static int folder_make(const char *dir, unsigned *n_made)
{
	struct stat st;

	if (mkdir(dir, 0777) == 0) {
		++*n_made;
		return 0;
	}
	int err = errno;

	/* A read-only file system says EROFS of a folder that exists. */
	if (stat(dir, &st) == 0)
		return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
	return -err;
}

/* Room for a file in this folder? The probe leaves nothing behind. */
static int folder_try(const char *dir)
{
	struct gp_atomic_file f;
	size_t size = strlen(dir) + sizeof("/.gpupool");
	char *path = malloc(size);
	int r;

	if (!path)
		return -ENOMEM;
	snprintf(path, size, "%s/.gpupool", dir);
	r = gp_atomic_open(&f, path);
	if (!r)
		gp_atomic_discard(&f);
	free(path);
	return r;
}

int gp_folder_create(const char *dir, unsigned *n_made)
{
	char *path = strdup(dir);
	int r = path ? 0 : -ENOMEM;

	*n_made = 0;
	if (!r && !path[0])
		r = -ENOENT;
	for (char *p = r ? NULL : path + 1; p && !r; p++) {
		char c = *p;

		/* A parent ends where a slash follows something else; the last one ends too. */
		if (c && (c != '/' || p[-1] == '/'))
			continue;
		*p = '\0';
		if (c || p[-1] != '/' || p == path + 1)
			r = folder_make(path, n_made);
		*p = c;
		if (!c)
			break;
	}
	if (!r)
		r = folder_try(dir);
	if (r && path)
		gp_folder_remove(dir, *n_made);
	free(path);
	return r;
}

/* Is this the name of a folder that was never made, or of none at all ("a/.")? */
static bool folder_skips(int err)
{
	return err == ENOENT || err == ENAMETOOLONG || err == EINVAL;
}

void gp_folder_remove(const char *dir, unsigned n_made)
{
	char *path = strdup(dir);
	size_t length = path ? strlen(path) : 0;

	while (length && n_made) {
		while (length > 1 && path[length - 1] == '/')
			path[--length] = '\0';
		if (rmdir(path) == 0)
			n_made--;
		else if (!folder_skips(errno))
			break;
		while (length && path[length - 1] != '/')
			path[--length] = '\0';
	}
	free(path);
}
