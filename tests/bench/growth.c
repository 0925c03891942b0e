/* SPDX-License-Identifier: Apache-2.0
 *
 * growth: how cost and memory grow: with live blocks, with the age of the heap, with threads.
 *
 *   live      blocks freed and allocated by chance among 10^2 to 10^6 live ones. The blocks of the
 *             loop itself are 8 bytes each: `lists` shows how much of the growth is theirs.
 *   age       10^4 live blocks, after 10^5 to 10^7 operations
 *   threads   each thread a whole recording, on streams of its own (replay/pass_copies.c)
 */
#include "bench.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "replay/engine.h"

#define LIVE_LEAST  100
#define LIVE_MOST   1000000
#define COUNT_MOST  100000 /* callgrind takes fifty times as long */
#define SPARE_LIVE  1000
#define PAIRS       50000
#define REPLAYS     15
#define AGE_LIVE    10000
#define AGE_MOST    100 /* replays: 2 * PAIRS operations each */
#define AGE_REPLAYS 3
#define THREADS_MAX 64

/* The fastest: tables as large as the caches feel every neighbour, who only ever adds. */
static double replays_ns(struct bench_subject *s, size_t n)
{
	double least = bench_replay_ns(s);

	for (size_t i = 1; i < n; i++)
		least = fmin(least, bench_replay_ns(s));
	return least;
}

/* "10^3" */
static const char *power_text(char *text, size_t size, double n)
{
	snprintf(text, size, "10^%.0f", log10(n));
	return text;
}

/* ---- live blocks ---- */

static void live_memory(const char *table, struct bench_subject *s, const char *column)
{
	double reserved = bench_reserved(s);

	if (isnan(reserved))
		return; /* its memory is no device's */
	bench_figure(table, "reserved / load, afterwards", s->spec, column, reserved);
	bench_figure(table, "device calls per 1000", s->spec, column, bench_replay_calls(s));
	bench_figure(table, "host bytes per live block", s->spec, column,
		     bench_metadata(s->job, s->spec));
}

static const char live_table[] = "Live blocks";

static void live_of(const struct bench_plan *plan, const char *spec, struct bench_job *job)
{
	const char *table = live_table;
	struct bench_subject s;
	double filling;
	char column[16];

	power_text(column, sizeof(column), (double)job->most_live);
	bench_subject_open(&s, job, spec, false);
	filling = bench_subject_setup(&s);
	bench_replay_ns(&s);
	bench_figure(table, "ns per call", spec, column, replays_ns(&s, REPLAYS));
	bench_figure(table, "ns per call, the first ones", spec, column, filling);
	bench_figure(table, "instructions per call", spec, column, bench_replay_instructions(&s));
	if (!plan->run)
		live_memory(table, &s, column);
	bench_subject_close(&s);
}

void bench_live(const struct bench_plan *plan)
{
	for (uint32_t live = LIVE_LEAST; live <= LIVE_MOST; live *= 10) {
		struct bench_job job;

		bench_job_churn(&job, live, 0, PAIRS);
		for (size_t i = 0; i < plan->n_specs; i++)
			live_of(plan, plan->specs[i], &job);
		bench_job_close(&job);
	}
}

void bench_count_live(const struct bench_plan *plan)
{
	for (uint32_t live = LIVE_LEAST; live <= COUNT_MOST; live *= 10) {
		struct bench_job job;
		char column[16];

		bench_job_churn(&job, live, 0, PAIRS);
		bench_count(plan, live_table, power_text(column, sizeof(column), live), &job);
		bench_job_close(&job);
	}
}

static void spare_of(const char *table, const char *spec, struct bench_job *job, uint32_t spare)
{
	struct bench_subject s;
	char column[16];

	power_text(column, sizeof(column), spare);
	bench_subject_open(&s, job, spec, false);
	bench_subject_setup(&s);
	bench_replay_ns(&s);
	bench_figure(table, "ns per call", spec, column, replays_ns(&s, REPLAYS));
	bench_subject_close(&s);
}

void bench_by_spare(const char *table, const char *const *specs, size_t n)
{
	for (uint32_t spare = LIVE_LEAST; spare <= LIVE_MOST; spare *= 10) {
		struct bench_job job;

		bench_job_churn(&job, SPARE_LIVE, spare, PAIRS);
		for (size_t i = 0; i < n; i++)
			spare_of(table, specs[i], &job, spare);
		bench_job_close(&job);
	}
}

/* ---- age ---- */

static void age_of(const char *spec, struct bench_job *job)
{
	static const char table[] = "Age: operations so far";
	struct bench_subject s;
	unsigned done = 0;

	bench_subject_open(&s, job, spec, false);
	bench_subject_setup(&s);
	for (unsigned due = 1; due <= AGE_MOST; due *= 10) {
		char column[16];

		for (; done + 1 < due; done++)
			bench_replay_ns(&s);
		power_text(column, sizeof(column), 2.0 * PAIRS * due);
		bench_figure(table, "ns per call", spec, column, replays_ns(&s, AGE_REPLAYS));
		bench_figure(table, "reserved / load", spec, column, bench_reserved(&s));
		done += AGE_REPLAYS;
	}
	bench_subject_close(&s);
}

void bench_age(const struct bench_plan *plan)
{
	struct bench_job job;

	bench_job_churn(&job, AGE_LIVE, 0, PAIRS);
	for (size_t i = 0; i < plan->n_specs; i++)
		age_of(plan->specs[i], &job);
	bench_job_close(&job);
}

/* ---- threads ---- */

static void threads_of(const char *table, const char *row, const char *spec,
		       const struct bench_job *job, unsigned threads, const char *wrap)
{
	const struct gp_engine_config cfg = { .device = "sim",
					      .device_config = { .capacity = 4096 * GP_GIB },
					      .passes = GP_PASS_THROUGHPUT,
					      .repeat = 1,
					      .wraps = &wrap,
					      .n_wraps = wrap ? 1 : 0,
					      .threads = threads,
					      .threads_mode = GP_THREADS_EACH,
					      .window_ms = 100 };
	struct gp_run *run;
	char why[256], column[16];

	if (gp_engine_run(job->trace, spec, &cfg, &run, why, sizeof(why)))
		bench_die(spec, why);
	if (run->status != GP_STATUS_OK)
		bench_die(spec, run->why);
	snprintf(column, sizeof(column), "%u", threads);
	bench_figure(table, job->name, row, column, run->throughput.ops_per_s / 1e6);
	gp_run_destroy(run);
}

static unsigned threads_here(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (unsigned)n;
}

/* 1, 2, 4, ... and all of them. */
static unsigned threads_next(unsigned n, unsigned all)
{
	return n < all && 2 * n > all ? all : 2 * n;
}

void bench_threads(const struct bench_plan *plan)
{
	for (size_t i = 0; i < plan->n_specs; i++)
		for (unsigned n = 1; n <= threads_here(); n = threads_next(n, threads_here()))
			threads_of("Threads: million calls per second in all", plan->specs[i],
				   plan->specs[i], &plan->jobs[0], n, NULL);
}

void bench_caches(const struct bench_plan *plan, const char *table, const char *spec)
{
	char row[64];

	for (unsigned n = 1; n <= threads_here(); n = threads_next(n, threads_here())) {
		snprintf(row, sizeof(row), "%s, an arena each", spec);
		threads_of(table, row, spec, &plan->jobs[0], n, NULL);
		/* With a decorator on, `threads` puts one lock around it all. */
		snprintf(row, sizeof(row), "%s, one lock", spec);
		threads_of(table, row, spec, &plan->jobs[0], n, "fault");
	}
}
