/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_scaling: see replay_scaling.h. A row is a series of runs that differ in their number of
 * threads, a column a number of threads; the last columns are of the run with the most.
 */
#include "replay_scaling.h"

#include <math.h>
#include <string.h>

#include "cli.h"

#define COUNTS_MAX 32
#define CELL       9

struct counts {
	unsigned of[COUNTS_MAX];
	size_t n;
};

static void collect(const struct gp_report *report, struct counts *c)
{
	c->n = 0;
	for (size_t i = 0; i < report->n_runs; i++) {
		unsigned threads = report->runs[i]->threads;
		size_t at = 0;

		while (at < c->n && c->of[at] < threads)
			at++;
		if ((at < c->n && c->of[at] == threads) || c->n == COUNTS_MAX)
			continue;
		memmove(&c->of[at + 1], &c->of[at], (c->n - at) * sizeof(c->of[0]));
		c->of[at] = threads;
		c->n++;
	}
}

bool replay_scaling_shown(const struct gp_report *report)
{
	struct counts c;

	collect(report, &c);
	return c.n > 1 || (c.n && report->runs[0]->threads_mode != GP_THREADS_SHARE);
}

static bool is_series(const struct gp_run *run, const char *series)
{
	return strcmp(run->series ? run->series : run->label, series) == 0;
}

static const struct gp_run *find(const struct gp_report *report, const char *series,
				 unsigned threads)
{
	for (size_t i = 0; i < report->n_runs; i++)
		if (is_series(report->runs[i], series) && report->runs[i]->threads == threads &&
		    report->runs[i]->status == GP_STATUS_OK &&
		    report->runs[i]->throughput.ops_per_s > 0)
			return report->runs[i];
	return NULL;
}

static bool is_first(const struct gp_report *report, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (is_series(report->runs[j], report->runs[i]->series))
			return false;
	return true;
}

/* "1.23 M" */
static void print_rate(FILE *out, double rate)
{
	static const char *const units[] = { " ", "k", "M", "G" };
	unsigned u = 0;

	while (rate >= 999.5 && u < 3) {
		rate /= 1000;
		u++;
	}
	fprintf(out, "%*.*f %s", CELL - 2, rate < 9.995 ? 2 : rate < 99.95 ? 1 : 0, rate, units[u]);
}

static void print_last(FILE *out, const struct gp_report *report, const struct gp_run *run)
{
	char p99[32];
	double speedup = gp_report_speedup(report, run), rate = run->throughput.ops_per_s;

	if (isfinite(speedup))
		fprintf(out, "%9.2f", speedup);
	else
		fprintf(out, "%9s", "-");
	fprintf(out, "   -%2.0f .. +%2.0f %%", 100 * (1 - run->throughput.ops_per_s_min / rate),
		100 * (run->throughput.ops_per_s_max / rate - 1));
	fprintf(out, "%11s",
		run->alloc_ns.count ? cli_time(p99, (double)gp_hist_percentile(&run->alloc_ns, 99))
				    : "-");
	if (run->memory.load)
		fprintf(out, "%10.3f", 1 + run->memory.overhead);
}

static void print_series(FILE *out, const struct gp_report *report, const struct counts *c,
			 const char *series, int width)
{
	const struct gp_run *last = NULL;

	fprintf(out, "%-*s", width, series);
	for (size_t i = 0; i < c->n; i++) {
		const struct gp_run *run = find(report, series, c->of[i]);

		if (run)
			print_rate(out, run->throughput.ops_per_s);
		else
			fprintf(out, "%*s", CELL, "-");
		last = run ? run : last;
	}
	if (last)
		print_last(out, report, last);
	fputc('\n', out);
}

static const char *mode_text(enum gp_threads_mode mode)
{
	if (mode == GP_THREADS_EACH)
		return "each replays the whole trace";
	return mode == GP_THREADS_CHAIN
		       ? "each replays the whole trace, and frees what the one before it allocated"
		       : "each has a share of the trace";
}

void replay_scaling_print(FILE *out, const struct gp_report *report, const char *bold,
			  const char *plain)
{
	struct counts c;
	int width = 9;

	collect(report, &c);
	for (size_t i = 0; i < report->n_runs; i++)
		width = (int)gp_max_u64((uint64_t)width, strlen(report->runs[i]->series));
	fprintf(out, "Operations per second by threads (%s)\n%s%-*s",
		mode_text(report->runs[0]->threads_mode), bold, width, "allocator");
	for (size_t i = 0; i < c.n; i++)
		fprintf(out, "%*u", CELL, c.of[i]);
	fprintf(out, "  speed-up        spread  alloc p99  res/load%s\n", plain);
	for (size_t i = 0; i < report->n_runs; i++)
		if (is_first(report, i))
			print_series(out, report, &c, report->runs[i]->series, width);
	fprintf(out,
		"\nspeed-up (over one thread), spread (of the repetitions), p99 and reserved / load"
		" are of the most threads.\n");
}
