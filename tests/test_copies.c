/* SPDX-License-Identifier: Apache-2.0
 *
 * test_copies: threads that each replay the whole trace, and traces of other sizes. On the
 * simulated device with `toy` (toy/); windows are short, and nothing is said of speed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "engine_job.h"
#include "replay/engine.h"
#include "replay/trace_sizes.h"

static const enum gp_threads_mode modes[] = { GP_THREADS_EACH, GP_THREADS_CHAIN };

static struct gp_engine_config copies(enum gp_threads_mode mode, unsigned threads)
{
	static const char *const wraps[] = { "check" };
	struct gp_engine_config cfg = sim(GP_PASS_ALL);

	cfg.repeat = 2;
	cfg.threads = threads;
	cfg.threads_mode = mode;
	cfg.window_ms = 100; /* a thread may have to wait for a processor */
	cfg.wraps = wraps;
	cfg.n_wraps = 1;
	return cfg;
}

/* Two streams, a block that the trace keeps, one deferred, one of no bytes; 256 KiB at
 * once. */
static struct gp_trace *small(void)
{
	return TRACE_OF(ALLOC(.id = 1, .size = MIB / 8),
			ALLOC(.id = 2, .size = MIB / 16, .stream = 1),
			ALLOC(.id = 3, .size = MIB / 16), FREE(.id = 2), RECLAIM(.id = 2),
			ALLOC(.id = 4, .size = 0), FREE(.id = 4), FREE(.id = 1), SYNC(.t_ns = 0),
			TRIM(.t_ns = 0));
}

static void each_thread_replays_all(void **state)
{
	(void)state;
	for (size_t m = 0; m < GP_ARRAY_LEN(modes); m++)
		for (unsigned n = 1; n <= 3; n++) {
			struct gp_engine_config cfg = copies(modes[m], n);
			struct gp_trace *t = small();
			struct gp_run *r = run(t, "toy", &cfg);

			if (r->status != GP_STATUS_OK)
				fail_msg("mode %u, %u threads: %s", modes[m], n, r->why);
			assert_int_equal(r->threads, n);
			assert_int_equal(r->threads_mode, modes[m]);
			assert_int_equal(r->memory.load, n * MIB / 4);
			/* One copy at least was at its peak; the toy never gives back. */
			assert_true(r->memory.peak_reserved >= MIB / 4);
			assert_true(r->memory.end_reserved <= r->memory.peak_reserved);
			assert_true(isnan(r->fragmentation.internal_mean));
			assert_int_equal(r->failures.count, 0);
			assert_int_equal(r->n_windows, 0);
			assert_true(r->throughput.ops > 0);
			assert_true(r->throughput.ops_per_s_min <= r->throughput.ops_per_s);
			assert_true(r->throughput.ops_per_s <= r->throughput.ops_per_s_max);
			assert_true(r->alloc_ns.count > 0 && r->free_ns.count > 0);
			finish(r, t);
		}
}

/* The copies do not fit the card together. */
static void requests_that_fail_are_counted(void **state)
{
	(void)state;
	for (size_t m = 0; m < GP_ARRAY_LEN(modes); m++) {
		struct gp_engine_config cfg = copies(modes[m], 2);
		struct gp_trace *t =
			TRACE_OF(ALLOC(.id = 1, .size = 48 * MIB), ALLOC(.id = 2, .size = 30 * MIB),
				 FREE(.id = 1), FREE(.id = 2));
		struct gp_run *r = run(t, "toy", &cfg);

		assert_int_equal(r->status, GP_STATUS_OK);
		assert_true(r->failures.count > 0);
		assert_int_equal(r->failures.count, r->failures.reasons[GP_REASON_OVER_CAPACITY]);
		assert_true(r->failures.bytes >= r->failures.count * 30 * MIB);
		assert_true(r->failures.first_event <= 1);
		gp_run_destroy(r);
		cfg.stop_on_oom = true;
		r = run(t, "toy", &cfg);
		assert_int_equal(r->status, GP_STATUS_STOPPED);
		finish(r, t);
	}
}

static void fault_ends_all_copies(void **state)
{
	(void)state;
	for (size_t m = 0; m < GP_ARRAY_LEN(modes); m++) {
		struct gp_engine_config cfg = copies(modes[m], 3);
		struct gp_trace *t = churn(100, 512, 0);
		struct gp_run *r;

		cfg.n_wraps = 0;
		r = run(t, "toy:defect=fault_alloc", &cfg);
		assert_int_equal(r->status, GP_STATUS_ERROR);
		assert_non_null(strstr(r->why, "Input/output error"));
		finish(r, t);
	}
}

static void interruption_ends_all_copies(void **state)
{
	static volatile sig_atomic_t interrupted = 1;

	(void)state;
	for (size_t m = 0; m < GP_ARRAY_LEN(modes); m++) {
		struct gp_engine_config cfg = copies(modes[m], 2);
		struct gp_trace *t = small();
		struct gp_run *r;

		cfg.interrupted = &interrupted;
		r = run(t, "toy", &cfg);
		assert_int_equal(r->status, GP_STATUS_PARTIAL);
		finish(r, t);
	}
}

static void copies_need_threads(void **state)
{
	struct gp_engine_config cfg = copies(GP_THREADS_EACH, 0);
	struct gp_trace *t = small();
	struct gp_run *r;
	char why[200] = "";

	(void)state;
	assert_int_equal(gp_engine_run(t, "toy", &cfg, &r, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "how many threads"));
	gp_trace_destroy(t);
}

static void env_is_of_all_copies(void **state)
{
	struct gp_trace *t = small();
	struct gp_env one, env;

	(void)state;
	gp_engine_env(t, &one);
	gp_engine_env_threads(t, 5, GP_THREADS_EACH, &env);
	assert_int_equal(env.threads, 5);
	assert_int_equal(env.streams, 5 * one.streams);
	assert_int_equal(env.typical_live, 5 * one.typical_live);
	gp_engine_env_threads(t, 5, GP_THREADS_SHARE, &env);
	assert_int_equal(env.threads, 5);
	assert_int_equal(env.streams, one.streams);
	assert_int_equal(env.typical_live, one.typical_live);
	gp_trace_destroy(t);
}

/* ---- other sizes ---- */

static void sizes_change(void **state)
{
	static const struct gp_trace_sizes how = { 1, 16, 3000 };
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 7, .size = 160, .addr = 4096),
			 ALLOC(.id = 8, .size = 161, .stream = 9, .align = 1024),
			 ALLOC(.id = 9, .size = 0), ALLOC(.id = 10, .size = MIB),
			 { .op = GP_OP_SEGMENT_ALLOC, .size = MIB, .addr = 4096 }, FREE(.id = 8),
			 MARK(.mark = "here"), RECLAIM(.id = 8), FREE(.id = 7), TRIM(.t_ns = 9));
	static const uint64_t sizes[] = { 10, 11, 0, 3000 };
	struct gp_trace *c = NULL;
	char why[200] = "";

	(void)state;
	assert_int_equal(gp_trace_scale(t, &how, &c, why, sizeof(why)), 0);
	assert_int_equal(c->n_events, t->n_events - 1); /* without the segment */
	assert_null(c->addrs);
	for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++)
		assert_int_equal(c->events[i].size, sizes[i]);
	assert_int_equal(c->load_bytes, 3021);
	assert_int_equal(gp_event_lg_align(&c->events[1]), 10);
	assert_int_equal(c->n_streams, t->n_streams);
	assert_true(gp_event_flags(&c->events[4]) & GP_EVENT_DEFERRED);
	assert_string_equal(c->marks[0], "here");
	assert_int_equal(c->n_notes, 2);
	gp_trace_destroy(c);
	gp_trace_destroy(t);
}

static void sizes_too_large_are_refused(void **state)
{
	static const struct gp_trace_sizes how = { 1000000, 1, 0 };
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = UINT64_C(1) << 50)), *c = NULL;
	char why[200] = "";

	(void)state;
	assert_int_equal(gp_trace_scale(t, &how, &c, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "event 1"));
	assert_null(c);
	gp_trace_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_thread_replays_all),
		cmocka_unit_test(requests_that_fail_are_counted),
		cmocka_unit_test(fault_ends_all_copies),
		cmocka_unit_test(interruption_ends_all_copies),
		cmocka_unit_test(copies_need_threads),
		cmocka_unit_test(env_is_of_all_copies),
		cmocka_unit_test(sizes_change),
		cmocka_unit_test(sizes_too_large_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
