/* SPDX-License-Identifier: Apache-2.0
 *
 * subject: an allocator on a device of its own, and the loop that is measured.
 *
 * Time        of the allocator's own code: what is spent inside the simulated device is taken off
 */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replay/clock.h"

#define CAPACITY   (4096 * GP_GIB) /* of the device: `fixed` sets all blocks aside as the largest */
#define FIXED_SLAB (1024 * GP_GIB) /* and no slab of it is larger */

static inline int loop(struct gp_allocator *a, const struct gp_action_op *op, size_t n,
		       uint64_t *addrs)
{
	const struct gp_action_op *end = op + n;
	struct gp_block block = { 0, 0 };
	int r = 0;

	for (; op != end && !r; op++) {
		if (op->action == GP_ACTION_ALLOC) {
			r = gp_alloc(a, &op->req, &block);
			addrs[op->id] = block.addr;
		} else {
			r = gp_free(a, addrs[op->id]);
		}
	}
	return r;
}

__attribute__((noinline)) int bench_loop(struct gp_allocator *a, const struct gp_action_op *op,
					 size_t n, uint64_t *addrs)
{
	return loop(a, op, n, addrs);
}

__attribute__((noinline)) int bench_counted(struct gp_allocator *a, const struct gp_action_op *op,
					    size_t n, uint64_t *addrs)
{
	return loop(a, op, n, addrs);
}

_Noreturn void bench_die(const char *what, const char *why)
{
	fprintf(stderr, "bench_hotpath: %s: %s\n", what, why);
	exit(2);
}

void bench_must(const struct bench_subject *s, int r)
{
	if (r)
		bench_die(s->spec, gp_result_text(r));
}

/* ---- opening ---- */

/* Out of memory is no part of the hot path: blocks that serve every request, all at once. */
static const char *subject_spec(const struct bench_job *job, const char *spec, char *text,
				size_t size)
{
	uint64_t block = gp_align_up(job->largest, GP_ALIGN);
	uint64_t count = gp_min_u64(job->most_live, (FIXED_SLAB - 1) / block);

	if (strcmp(spec, "fixed"))
		return spec;
	snprintf(text, size, "fixed:when_empty=grow,block=%llu,count=%llu",
		 (unsigned long long)block, (unsigned long long)count);
	return text;
}

static int subject_create(struct bench_subject *s, bool bare, char *why, size_t why_size)
{
	struct gp_device_config cfg = { .capacity = CAPACITY };
	char text[160];
	int r = 0;

	if (bare)
		bench_bare_device(&s->dev);
	else
		r = gp_device_open_sim(&cfg, &s->dev, why, why_size);
	if (r)
		return r;
	return gp_allocator_create(subject_spec(s->job, s->spec, text, sizeof(text)), s->dev,
				   &s->job->env, &s->a, why, why_size);
}

void bench_subject_open(struct bench_subject *s, struct bench_job *job, const char *spec, bool bare)
{
	char why[256];

	*s = (struct bench_subject){ .spec = spec, .job = job };
	if (subject_create(s, bare, why, sizeof(why)))
		bench_die(spec, why);
}

bool bench_available(const char *table, const char *spec)
{
	struct bench_job none = { .largest = GP_ALIGN, .most_live = 1 };
	struct bench_subject s = { .spec = spec, .job = &none };
	char why[256];
	int r = subject_create(&s, false, why, sizeof(why));

	if (r && r != -ENOENT)
		bench_die(spec, why);
	if (r)
		bench_remark(table, "Without %s.", why);
	gp_allocator_destroy(s.a);
	gp_device_close(s.dev);
	return !r;
}

static void subject_free_kept(struct bench_subject *s)
{
	const struct bench_job *job = s->job;

	for (size_t i = 0; i < job->n_kept; i++)
		bench_must(s, gp_free(s->a, job->addrs[job->kept[i]]));
}

void bench_subject_close(struct bench_subject *s)
{
	if (!s->job->trace)
		subject_free_kept(s);
	gp_allocator_destroy(s->a);
	gp_device_close(s->dev);
}

void bench_subject_between(struct bench_subject *s)
{
	if (s->job->trace)
		subject_free_kept(s);
}

/* ---- replays ---- */

static size_t subject_n_ops(const struct bench_subject *s)
{
	return s->job->program.n_ops - s->job->n_setup;
}

/* Operations [from, to): ns for each, without the device's time. */
static double subject_ns(struct bench_subject *s, size_t from, size_t to)
{
	struct gp_device_stats before, after;
	uint64_t t0, ticks;
	int r;

	gp_device_stats(s->dev, &before);
	t0 = gp_ticks();
	r = bench_loop(s->a, s->job->program.ops + from, to - from, s->job->addrs);
	ticks = gp_clock_between(t0, gp_ticks());
	gp_device_stats(s->dev, &after);
	bench_must(s, r);
	ticks -= gp_min_u64(ticks, after.host_ticks - before.host_ticks);
	return (double)ticks * gp_clock_get()->ns_per_tick / (double)(to - from);
}

static int subject_replay(struct bench_subject *s)
{
	const struct bench_job *job = s->job;

	return bench_loop(s->a, job->program.ops + job->n_setup, subject_n_ops(s), job->addrs);
}

double bench_subject_setup(struct bench_subject *s)
{
	return s->job->n_setup ? subject_ns(s, 0, s->job->n_setup) : NAN;
}

double bench_replay_ns(struct bench_subject *s)
{
	return subject_ns(s, s->job->n_setup, s->job->program.n_ops);
}

double bench_replay_instructions(struct bench_subject *s)
{
	uint64_t n;
	int r;

	if (!bench_counter_open())
		return NAN;
	bench_counter_start();
	r = subject_replay(s);
	n = bench_counter_stop();
	bench_must(s, r);
	return (double)n / (double)subject_n_ops(s);
}

static uint64_t subject_calls(struct bench_subject *s)
{
	struct gp_device_stats st;
	uint64_t n = 0;

	gp_device_stats(s->dev, &st);
	for (unsigned i = 0; i < GP_CALL_N; i++)
		n += st.calls[i];
	return n;
}

double bench_replay_calls(struct bench_subject *s)
{
	uint64_t before = subject_calls(s);

	bench_must(s, subject_replay(s));
	return 1000.0 * (double)(subject_calls(s) - before) / (double)subject_n_ops(s);
}

static void count_one(struct bench_job *job, const char *spec)
{
	const struct gp_action_op *ops = job->program.ops + job->n_setup;
	struct bench_subject s;
	int r;

	bench_subject_open(&s, job, spec, false);
	bench_subject_setup(&s);
	for (int warm = 0; warm < 2; warm++) {
		bench_must(&s, subject_replay(&s));
		bench_subject_between(&s);
	}
	r = bench_counted(s.a, ops, subject_n_ops(&s), job->addrs);
	bench_must(&s, r);
	bench_subject_between(&s);
	bench_subject_close(&s);
}

void bench_count(const struct bench_plan *plan, const char *table, const char *column,
		 struct bench_job *job)
{
	for (size_t i = 0; i < plan->n_specs; i++) {
		count_one(job, plan->specs[i]);
		printf("%s\t%s\t%s\t%zu\n", table, plan->specs[i], column,
		       job->program.n_ops - job->n_setup);
	}
}

/* ---- memory of the device ---- */

double bench_reserved(const struct bench_subject *s)
{
	struct gp_usage u = { 0 };

	gp_usage(s->a, &u);
	return u.reserved_bytes ? (double)u.reserved_bytes / (double)s->job->load : NAN;
}

double bench_peak(struct bench_job *job, const char *spec)
{
	struct bench_subject s;
	double peak = NAN;

	bench_subject_open(&s, job, spec, false);
	for (size_t i = 0; i < job->program.n_ops; i++) {
		bench_must(&s, bench_loop(s.a, job->program.ops + i, 1, job->addrs));
		peak = fmax(peak, bench_reserved(&s));
	}
	bench_subject_between(&s);
	bench_subject_close(&s);
	return peak;
}
