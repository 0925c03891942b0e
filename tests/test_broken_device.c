/* SPDX-License-Identifier: Apache-2.0
 *
 * test_broken_device: the device fails at every call that there is, one after the other, under
 * every allocator and in every pass. The run ends, says that it was the device, keeps what it has,
 * and nobody complains of a leak.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "engine_job.h"
#include "replay/explain.h"

#define CALLS_MAX  2000 /* of one run over the trace; more: it never gets to the end */
#define PATIENCE_S 240

struct way {
	const char *name;
	unsigned passes, threads;
	double pace;
	enum gp_work_kind work;
	enum gp_threads_mode mode;
	uint64_t calls; /* to try; 0: all, until a run gets to its end */
};

static const struct way ways[] = {
	{ "curve", .passes = GP_PASS_CURVE },
	{ "latency", .passes = GP_PASS_LATENCY },
	{ "throughput", .passes = GP_PASS_THROUGHPUT },
	{ "all", .passes = GP_PASS_ALL },
	{ "paced", .passes = GP_PASS_LATENCY, .pace = 1e3 },
	{ "work", .passes = GP_PASS_LATENCY, .work = GP_WORK_MEMSET },
	{ "work, paced", .passes = GP_PASS_LATENCY, .pace = 1e3, .work = GP_WORK_RECORDED },
	{ "threads, latency", .passes = GP_PASS_LATENCY, .threads = 3 },
	{ "threads, throughput", .passes = GP_PASS_THROUGHPUT, .threads = 3 },
	/* These go on for as long as they are let. */
	{ "each", .passes = GP_PASS_ALL, .threads = 2, .mode = GP_THREADS_EACH, .calls = 12 },
	{ "chain", .passes = GP_PASS_ALL, .threads = 3, .mode = GP_THREADS_CHAIN, .calls = 12 },
};

/* Small and large blocks of three threads on two streams; frees by other threads, a deferred one,
 * and all the rare operations. */
static struct gp_trace *motley(void)
{
	/* clang-format off */
	return TRACE_OF(
		ALLOC(.id = 1, .size = 3 * MIB, .thread = 0),
		ALLOC(.id = 2, .size = 700, .thread = 1),
		ALLOC(.id = 3, .size = 300 * GP_KIB, .thread = 2, .stream = 1),
		ALLOC(.id = 4, .size = 9 * MIB, .thread = 0, .stream = 1),
		FREE(.id = 1, .thread = 2, .t_ns = 1000),
		ALLOC(.id = 5, .size = 40000, .thread = 1, .t_ns = 2000),
		FREE(.id = 3, .thread = 1, .t_ns = 2000),
		RECLAIM(.id = 3, .thread = 1, .t_ns = 3000),
		ALLOC(.id = 6, .size = 2 * MIB, .thread = 0, .t_ns = 3000),
		SYNC(.t_ns = 3000),
		FREE(.id = 4, .thread = 0, .t_ns = 4000),
		TRIM(.t_ns = 4000),
		ALLOC(.id = 7, .size = 5 * MIB, .thread = 2, .stream = 1, .t_ns = 5000),
		ALLOC(.id = 8, .size = 512, .thread = 0, .t_ns = 5000),
		FREE(.id = 2, .thread = 0, .t_ns = 6000),
		FREE(.id = 7, .thread = 1, .t_ns = 6000),
		ALLOC(.id = 9, .size = 6 * MIB, .thread = 1, .t_ns = 7000),
		FREE(.id = 5, .thread = 2, .t_ns = 8000),
		FREE(.id = 6, .thread = 0, .t_ns = 9000),
		FREE(.id = 8, .thread = 1, .t_ns = 9000),
		FREE(.id = 9, .thread = 1, .t_ns = 9000));
	/* clang-format on */
}

static struct gp_engine_config config_of(const struct way *way)
{
	struct gp_engine_config cfg = sim(way->passes);

	cfg.repeat = 1;
	cfg.device_config.capacity = GP_GIB;
	cfg.threads = way->threads;
	cfg.pace = way->pace;
	cfg.work.kind = way->work;
	cfg.threads_mode = way->mode;
	cfg.window_ms = 1;
	return cfg;
}

static void expect_error(const struct gp_run *r, const char *name)
{
	if (r->status != GP_STATUS_ERROR)
		fail_msg("%s: status %s, expected error", r->spec, gp_status_name(r->status));
	if (r->blame != GP_BLAME_DEVICE || !strstr(r->why, name))
		fail_msg("%s: blames %d: %s", r->spec, r->blame, r->why);
}

/* Breaks the device at its n-th call; false: the run never made so many. */
static bool broken_at(struct gp_trace *t, const char *spec, const struct gp_engine_config *cfg,
		      const char *name)
{
	struct gp_run *r = run(t, spec, cfg);
	bool broken = r->status != GP_STATUS_OK;

	if (broken)
		expect_error(r, name);
	gp_run_destroy(r);
	return broken;
}

static void sweep(struct gp_trace *t, const char *spec, const struct way *way, const char *wrap)
{
	struct gp_engine_config cfg = config_of(way);
	struct gp_injection *inject = &cfg.device_config.inject;
	uint64_t n = 1;

	cfg.wraps = &wrap;
	cfg.n_wraps = wrap != NULL;
	alarm(PATIENCE_S);
	for (inject->lost_call = n; broken_at(t, spec, &cfg, "cudaErrorDevicesUnavailable");
	     inject->lost_call = ++n) {
		if (n == CALLS_MAX)
			fail_msg("%s, %s: still breaks at call %d", spec, way->name, CALLS_MAX);
		if (n == way->calls)
			break;
	}
	assert_true(n > 1);
	inject->lost_call = 0;
	for (inject->sticky_call = 1; inject->sticky_call < n; inject->sticky_call++)
		broken_at(t, spec, &cfg, "cudaErrorIllegalAddress");
	inject->sticky_call = 0;
	/* Not enough memory once: a result, whatever becomes of it. */
	for (inject->fail_call = 1; inject->fail_call < n; inject->fail_call++) {
		struct gp_run *r = run(t, spec, &cfg);

		if (r->status == GP_STATUS_ERROR && r->blame != GP_BLAME_NO_ROOM)
			fail_msg("%s, %s: out of memory at %d: %s", spec, way->name,
				 (int)inject->fail_call, r->why);
		gp_run_destroy(r);
	}
	alarm(0);
}

/* What a decorator has to say of an end that nobody can report goes to standard error. */
static void every_call_can_be_the_last(const char *wrap)
{
	struct gp_trace *t = motley();
	FILE *said = tmpfile();
	int stderr_fd = dup(STDERR_FILENO);
	char line[200] = "";

	assert_non_null(said);
	dup2(fileno(said), STDERR_FILENO);
	for (size_t i = 0; i < gp_allocator_count(); i++) {
		const struct gp_allocator_ops *ops = gp_allocator_at(i);

		for (size_t k = 0; k < GP_ARRAY_LEN(ways); k++)
			if (!(ops->caps & (GP_CAP_DECORATOR | GP_CAP_OFFLINE)))
				sweep(t, ops->name, &ways[k], wrap);
	}
	dup2(stderr_fd, STDERR_FILENO);
	close(stderr_fd);
	rewind(said);
	if (fgets(line, sizeof(line), said))
		fail_msg("said: %s", line);
	fclose(said);
	gp_trace_destroy(t);
}

static void plain_runs_end(void **state)
{
	(void)state;
	every_call_can_be_the_last(NULL);
}

static void checked_runs_end(void **state)
{
	(void)state;
	every_call_can_be_the_last("check:leaks=true,contents=false");
}

/* The pass before the break is not lost with it. */
static void what_was_measured_is_kept(void **state)
{
	struct gp_trace *t = motley();
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *whole = run(t, "raw", &cfg), *r;

	(void)state;
	cfg.device_config.inject.lost_call = 6;
	r = run(t, "raw", &cfg);
	expect_error(r, "cudaErrorDevicesUnavailable");
	assert_true(r->n_windows > 0);
	assert_true(r->memory.peak_reserved > 0);
	assert_true(r->memory.peak_reserved <= whole->memory.peak_reserved);
	assert_non_null(strstr(r->why, "event 5"));
	gp_run_destroy(whole);
	finish(r, t);
}

/* --explain tries other settings on a device that is whole. */
static void settings_are_tried_on_a_whole_device(void **state)
{
	struct gp_trace *t = TRACE_OF(
		ALLOC(.id = 1, .size = 10 * MIB), ALLOC(.id = 2, .size = 8192),
		ALLOC(.id = 3, .size = 33 * MIB), FREE(.id = 1), ALLOC(.id = 4, .size = 30 * MIB));
	struct gp_engine_config cfg = sim(GP_PASS_CURVE);
	struct gp_run *r;

	(void)state;
	cfg.explain = true;
	cfg.device_config.inject.fail_call = 1;
	r = run(t, "torch", &cfg);
	assert_non_null(r->oom);
	assert_true(r->oom->n_settings > 0);
	finish(r, t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_runs_end),
		cmocka_unit_test(checked_runs_end),
		cmocka_unit_test(what_was_measured_is_kept),
		cmocka_unit_test(settings_are_tried_on_a_whole_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
