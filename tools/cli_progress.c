/* SPDX-License-Identifier: Apache-2.0
 *
 * cli_progress: the progress bar on standard error, and SIGINT.
 *
 *   hybrid: latency  [############........]  61 %   41.2 M/s   0:07 left
 *
 * Shape     one line, redrawn in place at most ten times a second, so that a caller may report as
 *           often as it likes; a phase that is over within the first tenth never shows.
 * Cost      one clock reading per call that is not drawn
 * Threads   main thread only; a SIGINT handler only sets a flag
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define BAR_CELLS 20u
#define REDRAW_NS 100000000u /* ten times a second: as fast as a person reads */

static struct {
	char phase[64];
	uint64_t done;
	uint64_t start_ns, drawn_ns;
	bool shown;
	signed char terminal; /* is standard error one? 0: not asked yet; -1: no */
} bar;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void cli_progress_clear(void)
{
	if (!bar.shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	bar.shown = false;
}

/* "41.2 M" events or bytes a second */
static void rate_text(char *buf, size_t size, double per_s)
{
	const char *unit = "";

	if (per_s >= 1e9) {
		per_s /= 1e9;
		unit = "G";
	} else if (per_s >= 1e6) {
		per_s /= 1e6;
		unit = "M";
	} else if (per_s >= 1e3) {
		per_s /= 1e3;
		unit = "k";
	}
	snprintf(buf, size, "%.*f %s/s", per_s < 99.95 ? 1 : 0, per_s, unit);
}

static void draw(uint64_t done, uint64_t total, double elapsed_s)
{
	char cells[BAR_CELLS + 1], rate[32];
	double per_s = (double)done / elapsed_s;
	double share = (double)done / (double)total;
	unsigned full = (unsigned)(share * BAR_CELLS);
	unsigned long left_s = done ? (unsigned long)((double)(total - done) / per_s + 0.5) : 0;

	memset(cells, '.', BAR_CELLS);
	memset(cells, '#', full);
	cells[BAR_CELLS] = '\0';
	rate_text(rate, sizeof(rate), per_s);
	fprintf(stderr, "\r%s  [%s] %3.0f %%   %s   %lu:%02lu left\033[K", bar.phase, cells,
		share * 100, rate, left_s / 60, left_s % 60);
}

void cli_progress(const char *phase, uint64_t done, uint64_t total)
{
	char rate[32];
	uint64_t now;
	double elapsed_s;

	if (!bar.terminal)
		bar.terminal = isatty(STDERR_FILENO) ? 1 : -1;
	if (bar.terminal < 0 || cli_is_quiet())
		return;
	now = now_ns();
	/* The same phase from the start again is a new one: repetitions. */
	if (done < bar.done || strncmp(phase, bar.phase, sizeof(bar.phase) - 1) != 0) {
		snprintf(bar.phase, sizeof(bar.phase), "%s", phase);
		bar.start_ns = bar.drawn_ns = now;
	}
	bar.done = done;
	if (total && done >= total) {
		cli_progress_clear();
		bar.phase[0] = '\0';
		return;
	}
	if (now - bar.drawn_ns < REDRAW_NS)
		return;
	bar.drawn_ns = now;
	bar.shown = true;
	elapsed_s = (double)(now - bar.start_ns) / 1e9;
	if (total) {
		draw(done, total, elapsed_s);
	} else {
		rate_text(rate, sizeof(rate), (double)done / elapsed_s);
		fprintf(stderr, "\r%s  %s\033[K", bar.phase, rate);
	}
	fflush(stderr);
}

/* ---- SIGINT ---- */

static volatile sig_atomic_t interrupted;

static void on_sigint(int sig)
{
	(void)sig;
	interrupted = 1;
}

const volatile sig_atomic_t *cli_interrupted(void)
{
	/* SA_RESETHAND: the second signal meets the default action and ends the program.
	 * SA_RESTART: the first one must not fail the writing of what there is. */
	struct sigaction action = { .sa_flags = (int)SA_RESETHAND | SA_RESTART };

	action.sa_handler = on_sigint;
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	return &interrupted;
}
