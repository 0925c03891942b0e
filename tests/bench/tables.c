/* SPDX-License-Identifier: Apache-2.0
 *
 * tables: what the allocators make of the recordings.
 *
 *   cold      the first replay in a fresh allocator: growth, first touch of the tables
 *   warm      later replays in the same allocator, whose memory is all there by then. The
 *             allocators take turns, so that what disturbs the machine meets them all.
 *   latency   every call by itself, over what the timer costs, without those that made a call of
 *             the device. "again" is the slowest call of the recording, counting of each call
 *             the fastest of LATENCIES replays: what is slow each time, not what was disturbed.
 */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replay/clock.h"
#include "replay/hist.h"

#define COLDS     3
#define TURNS     7
#define WARMS     4 /* replays in a turn, after one that fills the processor's caches */
#define LATENCIES 7

static const char timing[] = "Recordings";
static const char latency[] = "Latency of a call without device calls, ns";

/* ---- time ---- */

static double cold_ns(struct bench_job *job, const char *spec)
{
	double ns[COLDS];

	for (size_t i = 0; i < COLDS; i++) {
		struct bench_subject s;

		bench_subject_open(&s, job, spec, false);
		bench_subject_setup(&s);
		ns[i] = bench_replay_ns(&s);
		bench_subject_between(&s);
		bench_subject_close(&s);
	}
	return bench_median(ns, COLDS);
}

static void turn(struct bench_subject *s, double *ns)
{
	for (size_t i = 0; i <= WARMS; i++) {
		double v = bench_replay_ns(s);

		bench_subject_between(s);
		if (i)
			ns[i - 1] = v;
	}
}

static void warm_ns(struct bench_subject *subjects, size_t n, double *out)
{
	static double ns[BENCH_SPECS_MAX][TURNS * WARMS];

	for (size_t t = 0; t < TURNS; t++)
		for (size_t i = 0; i < n; i++)
			turn(&subjects[i], ns[i] + t * WARMS);
	for (size_t i = 0; i < n; i++)
		out[i] = bench_median(ns[i], TURNS * WARMS);
}

static void open_all(struct bench_subject *subjects, struct bench_job *job,
		     const char *const *specs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bench_subject_open(&subjects[i], job, specs[i], false);
		bench_subject_setup(&subjects[i]);
	}
}

/* ---- latency ---- */

struct latencies {
	struct gp_hist alloc_ns, free_ns;
	uint32_t *least; /* [operation]: ticks; LEAST_DEVICE: made a call of the device */
};

#define LEAST_DEVICE UINT32_MAX
#define LEAST_NONE   (UINT32_MAX - 1)

static void latency_note(struct latencies *l, size_t i, bool allocates, uint64_t ticks)
{
	uint64_t ns = gp_clock_ns(gp_clock_get(), ticks);

	gp_hist_record(allocates ? &l->alloc_ns : &l->free_ns, ns);
	if (l->least[i] != LEAST_DEVICE)
		l->least[i] = (uint32_t)gp_min_u64(l->least[i], ticks);
}

static void latency_replay(struct bench_subject *s, struct latencies *l)
{
	const struct gp_clock *clock = gp_clock_get();
	const struct gp_program *p = &s->job->program;
	struct gp_block block = { 0, 0 };

	for (size_t i = 0; i < p->n_ops; i++) {
		const struct gp_action_op *op = &p->ops[i];
		uint64_t *addr = &s->job->addrs[op->id], before = s->dev->host_ticks, t0, t1;
		bool allocates = op->action == GP_ACTION_ALLOC;
		int r;

		t0 = gp_ticks();
		r = allocates ? gp_alloc(s->a, &op->req, &block) : gp_free(s->a, *addr);
		t1 = gp_ticks();
		bench_must(s, r);
		if (allocates)
			*addr = block.addr;
		if (s->dev->host_ticks == before)
			latency_note(l, i, allocates, gp_clock_call(clock, t0, t1));
		else
			l->least[i] = LEAST_DEVICE;
	}
	bench_subject_between(s);
}

static double latency_again(const struct latencies *l, size_t n)
{
	uint64_t most = 0;

	for (size_t i = 0; i < n; i++)
		if (l->least[i] < LEAST_NONE)
			most = gp_max_u64(most, l->least[i]);
	return (double)most * gp_clock_get()->ns_per_tick;
}

static void latency_figures(const char *group, const char *row, const char *call,
			    const struct gp_hist *h)
{
	static const double at[] = { 50, 99, 99.9, 100 };
	static const char *const names[] = { "p50", "p99", "p99.9", "max" };

	for (size_t i = 0; i < GP_ARRAY_LEN(at); i++) {
		char column[32];

		snprintf(column, sizeof(column), "%s %s", call, names[i]);
		bench_figure(latency, group, row, column, (double)gp_hist_percentile(h, at[i]));
	}
}

static void latency_measure(struct bench_subject *s)
{
	size_t n = s->job->program.n_ops;
	struct latencies *l = bench_memory(malloc(sizeof(*l)));

	gp_hist_init(&l->alloc_ns);
	gp_hist_init(&l->free_ns);
	l->least = bench_memory(malloc(n * sizeof(*l->least)));
	for (size_t i = 0; i < n; i++)
		l->least[i] = LEAST_NONE;
	for (size_t i = 0; i < LATENCIES; i++)
		latency_replay(s, l);
	latency_figures(s->job->name, s->spec, "alloc", &l->alloc_ns);
	latency_figures(s->job->name, s->spec, "free", &l->free_ns);
	bench_figure(latency, s->job->name, s->spec, "again", latency_again(l, n));
	free(l->least);
	free(l);
}

/* ---- what comes out the same each time ---- */

static double cold_calls(struct bench_job *job, const char *spec)
{
	struct bench_subject s;
	double n;

	bench_subject_open(&s, job, spec, false);
	bench_subject_setup(&s);
	n = bench_replay_calls(&s);
	bench_subject_between(&s);
	bench_subject_close(&s);
	return n;
}

static double warm_calls(struct bench_subject *s)
{
	double n = bench_replay_calls(s);

	bench_subject_between(s);
	return n;
}

static void steady_figures(struct bench_subject *s)
{
	const char *column = s->job->name, *row = s->spec;

	double peak = bench_peak(s->job, row);

	bench_figure(timing, "peak reserved / load", row, column, peak);
	if (isnan(peak))
		return; /* its memory is no device's */
	bench_figure(timing, "device calls per 1000, cold", row, column, cold_calls(s->job, row));
	bench_figure(timing, "device calls per 1000, warm", row, column, warm_calls(s));
	bench_figure(timing, "host bytes per live block", row, column, bench_metadata(s->job, row));
}

static void instructions_figure(struct bench_subject *s)
{
	double n = bench_replay_instructions(s);

	if (isnan(n)) {
		bench_remark(timing,
			     "No instructions: the counter of the processor cannot be had (%s).",
			     bench_counter_why());
		return;
	}
	bench_figure(timing, "instructions per call", s->spec, s->job->name, n);
	bench_subject_between(s);
}

/* ---- tables ---- */

static void recording(const struct bench_plan *plan, struct bench_job *job)
{
	struct bench_subject subjects[BENCH_SPECS_MAX];
	double ns[BENCH_SPECS_MAX];
	size_t n = plan->n_specs;

	open_all(subjects, job, plan->specs, n);
	warm_ns(subjects, n, ns);
	for (size_t i = 0; i < n; i++) {
		const char *spec = plan->specs[i];

		bench_figure(timing, "warm, ns per call", spec, job->name, ns[i]);
		bench_figure(timing, "cold, ns per call", spec, job->name, cold_ns(job, spec));
		instructions_figure(&subjects[i]);
		if (!plan->run)
			steady_figures(&subjects[i]);
		latency_measure(&subjects[i]);
		bench_subject_close(&subjects[i]);
	}
}

void bench_recordings(const struct bench_plan *plan)
{
	for (size_t i = 0; i < plan->n_jobs; i++)
		recording(plan, &plan->jobs[i]);
}

static void compare_on(const struct bench_plan *plan, struct bench_job *job, const char *table,
		       const char *const *specs, size_t n)
{
	struct bench_subject subjects[BENCH_SPECS_MAX];
	double ns[BENCH_SPECS_MAX];

	open_all(subjects, job, specs, n);
	warm_ns(subjects, n, ns);
	for (size_t i = 0; i < n; i++) {
		bench_figure(table, "warm, ns per call", specs[i], job->name, ns[i]);
		if (!plan->run)
			bench_figure(table, "peak reserved / load", specs[i], job->name,
				     bench_peak(job, specs[i]));
		bench_subject_close(&subjects[i]);
	}
}

void bench_compare(const struct bench_plan *plan, const char *table, const char *const *specs,
		   size_t n)
{
	for (size_t i = 0; i < plan->n_jobs; i++)
		compare_on(plan, &plan->jobs[i], table, specs, n);
}
