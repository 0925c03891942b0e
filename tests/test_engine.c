/* SPDX-License-Identifier: Apache-2.0
 *
 * test_engine: what a run says of memory, failures and broken allocators, and which jobs are
 * refused: on the simulated device with `toy`, an allocator whose every step can be foretold and
 * which can be told to misbehave. Built with a registry of its own (toy/). test_passes: time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_job.h"
#include "replay/engine.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-12)

/* ---- the environment ---- */

static void env_of_a_trace(void **state)
{
	struct gp_trace_record r[20];
	struct gp_trace *t;
	struct gp_env env;

	(void)state;
	/* Nine of ten requests are at most 1000 bytes. All live at once but for two. */
	for (uint64_t i = 0; i < 10; i++)
		r[i] = (struct gp_trace_record)ALLOC(.id = i, .size = i < 9 ? 1000 - i : 5 * MIB,
						     .stream = i % 2 ? 77 : 0);
	r[10] = (struct gp_trace_record)FREE(.id = 3);
	r[11] = (struct gp_trace_record)ALLOC(.id = 30, .size = 0);
	r[12] = (struct gp_trace_record)FREE(.id = 30);
	t = trace_of(r, 13);
	gp_engine_env(t, &env);
	assert_int_equal(env.typical_size, 1024);
	assert_int_equal(env.typical_live, 9);
	assert_int_equal(env.streams, 2);
	assert_int_equal(env.threads, 1);
	gp_trace_destroy(t);
	t = TRACE_OF(ALLOC(.id = 1, .size = 0));
	gp_engine_env(t, &env);
	assert_int_equal(env.typical_size, 0);
	assert_int_equal(env.typical_live, 0);
	gp_trace_destroy(t);
}

/* The 90th percentile by radix selection against a sort. */
static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void typical_size_is_the_90th_percentile(void **state)
{
	static uint64_t sizes[777];
	static struct gp_trace_record r[777];
	uint64_t x = 12345;
	struct gp_trace *t;
	struct gp_env env;

	(void)state;
	for (size_t i = 0; i < 777; i++) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		sizes[i] = 1 + (x >> 20) % (UINT64_C(1) << (8 + x % 29));
		r[i] = (struct gp_trace_record)ALLOC(.id = i, .size = sizes[i]);
	}
	t = trace_of(r, 777);
	gp_engine_env(t, &env);
	qsort(sizes, 777, sizeof(sizes[0]), compare_u64);
	assert_int_equal(env.typical_size, (sizes[699] + 255) / 256 * 256); /* 0.9 * 777 = 699.3 */
	gp_trace_destroy(t);
}

/* ---- curve ---- */

static void memory_by_hand(void **state)
{
	/* R in MiB after each event: 4 6 6 8 8 8; Q: 3 5 2 4 4 1.5 (deferred until the reclaim) */
	struct gp_trace *t = TRACE_OF(
		ALLOC(.id = 1, .size = 3 * MIB), ALLOC(.id = 2, .size = 2 * MIB, .t_ns = 10),
		FREE(.id = 1, .t_ns = 20), ALLOC(.id = 3, .size = 2 * MIB, .t_ns = 30),
		FREE(.id = 2, .t_ns = 40), ALLOC(.id = 4, .size = 0, .t_ns = 50),
		RECLAIM(.id = 2, .t_ns = 60), FREE(.id = 4, .t_ns = 100));
	struct gp_engine_config cfg = sim(GP_PASS_CURVE);
	struct gp_run *r = run(t, "toy", &cfg);

	(void)state;
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_string_equal(r->why, "");
	assert_string_equal(r->allocator, "toy");
	assert_string_equal(r->device, "sim");
	assert_int_equal(r->memory.load, 5 * MIB);
	assert_int_equal(r->memory.load, t->load_bytes);
	assert_int_equal(r->memory.peak_granted, 5 * MIB);
	assert_int_equal(r->memory.peak_reserved, 8 * MIB);
	assert_int_equal(r->memory.end_reserved, 8 * MIB);
	NEAR(r->memory.utilization, 5.0 / 8);
	NEAR(r->memory.overhead, 8.0 / 5 - 1);
	/* At the peak the holes are the first block and the rest of its second page: one of 4. */
	NEAR(r->fragmentation.internal_at_peak, 0);
	NEAR(r->fragmentation.external_at_peak, 0);
	/* From 60 ns on the second block is free as well: holes of 4 and 2, for 40 of 100 ns. */
	NEAR(r->fragmentation.external_mean, 0.4 * (1 - 4.0 / 6));
	assert_int_equal(r->driver.allocs, 3);
	assert_int_equal(r->driver.frees, 0);
	assert_true(r->driver.time_ns > 0);
	assert_int_equal(r->n_windows, 8);
	assert_int_equal(r->windows[4].requested.last, 4 * MIB);
	assert_int_equal(r->windows[6].requested.last, 2 * MIB);
	assert_int_equal(r->windows[2].reserved.max, 6 * MIB);
	finish(r, t);
}

static void internal_fragmentation(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 100), ALLOC(.id = 2, .size = 200));
	struct gp_engine_config cfg = sim(GP_PASS_CURVE);
	struct gp_run *r = run(t, "toy", &cfg);

	(void)state;
	assert_int_equal(r->status, GP_STATUS_OK);
	NEAR(r->fragmentation.internal_at_peak, 1 - 300.0 / 512);
	NEAR(r->fragmentation.internal_mean, ((1 - 100.0 / 256) + (1 - 300.0 / 512)) / 2);
	finish(r, t);
}

static void empty_trace(void **state)
{
	struct gp_trace *t = TRACE_OF(MARK(.mark = "a"));
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;

	(void)state;
	t->n_events = 0;
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(r->n_windows, 0);
	assert_true(r->memory.utilization == 1 && r->memory.overhead == 0);
	assert_int_equal(r->throughput.ops, 0);
	assert_true(r->throughput.ns_per_op == 0 && r->throughput.ops_per_s == 0);
	finish(r, t);
}

static void trim_and_sync_are_executed(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 4 * MIB), FREE(.id = 1), SYNC(),
				      SYNC(), TRIM(), ALLOC(.id = 2, .size = 2 * MIB));
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r = run(t, "toy", &cfg);

	(void)state;
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(r->memory.peak_reserved, 4 * MIB);
	assert_int_equal(r->memory.end_reserved, 2 * MIB);
	assert_int_equal(r->driver.syncs, 2);
	assert_int_equal(r->driver.frees, 1);
	assert_int_equal(r->alloc_ns.count, 2);
	assert_int_equal(r->throughput.ops, 3);
	finish(r, t);
}

/* ---- failures ---- */

static void failures_are_explained(void **state)
{
	/* 64 MiB of device. The freed 40 MiB stay with the toy, who reuses exact sizes only. */
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 40 * MIB), ALLOC(.id = 2, .size = 30 * MIB),
			 FREE(.id = 2), FREE(.id = 1), ALLOC(.id = 3, .size = 50 * MIB),
			 ALLOC(.id = 4, .size = UINT64_C(1) << 62), FREE(.id = 3),
			 ALLOC(.id = 5, .size = 40 * MIB));
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r = run(t, "toy", &cfg);

	(void)state;
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(r->failures.count, 3);
	assert_int_equal(r->failures.first_event, 1);
	assert_true(r->failures.bytes == 80 * MIB + (UINT64_C(1) << 62));
	assert_int_equal(r->failures.reasons[GP_REASON_OVER_CAPACITY], 2);
	assert_int_equal(r->failures.reasons[GP_REASON_FRAGMENTED], 1);
	assert_int_equal(r->memory.load, 40 * MIB);
	/* Failures are not timed; frees of what failed are not made. */
	assert_int_equal(r->alloc_ns.count, 2);
	assert_int_equal(r->free_ns.count, 1);
	assert_int_equal(r->throughput.ops, 5 + 1);
	finish(r, t);

	t = TRACE_OF(ALLOC(.id = 1, .size = 1 * MIB), ALLOC(.id = 2, .size = 3 * MIB),
		     ALLOC(.id = 3, .size = 5 * MIB));
	r = run(t, "toy:hold_above=2M,refuse_above=4M", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(r->failures.reasons[GP_REASON_STREAM_HELD], 1);
	assert_int_equal(r->failures.reasons[GP_REASON_REFUSED], 1);
	assert_int_equal(r->failures.count, 2);
	finish(r, t);
}

static void stop_ends_all_passes_there(void **state)
{
	struct gp_trace *t = TRACE_OF(
		ALLOC(.id = 1, .size = 1 * MIB), FREE(.id = 1), ALLOC(.id = 2, .size = 70 * MIB),
		ALLOC(.id = 3, .size = 1 * MIB, .thread = 1), FREE(.id = 3, .thread = 1));
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;

	(void)state;
	cfg.stop_on_oom = true;
	/* With two threads the second one is not to run ahead of the stop either. */
	for (unsigned threads = 0; threads <= 2; threads += 2) {
		cfg.threads = threads;
		r = run(t, "toy", &cfg);
		assert_int_equal(r->status, GP_STATUS_STOPPED);
		assert_int_equal(r->failures.count, 1);
		assert_int_equal(r->failures.first_event, 2);
		assert_int_equal(r->n_windows, 3);
		assert_int_equal(r->alloc_ns.count, 1);
		assert_true(r->throughput.ns_per_op > 0);
		gp_run_destroy(r);
	}
	gp_trace_destroy(t);
}

/* Without a curve pass, which would have cut the program. */
static void each_pass_stops_by_itself(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 1 * MIB), FREE(.id = 1),
			 ALLOC(.id = 2, .size = 70 * MIB), ALLOC(.id = 3, .size = 512));
	struct gp_engine_config cfg = sim(GP_PASS_THROUGHPUT);
	struct gp_run *r;

	(void)state;
	cfg.stop_on_oom = true;
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_STOPPED);
	assert_int_equal(r->throughput.ops, 3);
	gp_run_destroy(r);
	cfg.passes = GP_PASS_LATENCY;
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_STOPPED);
	assert_int_equal(r->alloc_ns.count, 1);
	gp_run_destroy(r);
	cfg.threads = 1;
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_STOPPED);
	assert_int_equal(r->alloc_ns.count, 1);
	finish(r, t);
}

/* ---- allocators that break the contract ---- */

static void defects_are_errors(void **state)
{
	static const struct {
		const char *spec, *why;
		unsigned passes;
		enum gp_blame blame;
	} cases[] = {
		{ "toy:defect=overlap", "event 2: overlaps a live block", GP_PASS_CURVE,
		  GP_BLAME_ALLOCATOR },
		{ "toy:defect=small", "event 2: smaller than asked for", GP_PASS_CURVE,
		  GP_BLAME_ALLOCATOR },
		{ "toy:defect=fault_alloc", "event 2: alloc of 768 bytes: Input/output error",
		  GP_PASS_CURVE, GP_BLAME_ALLOCATOR },
		{ "toy:defect=fault_alloc", "allocator: the toy is broken", GP_PASS_LATENCY,
		  GP_BLAME_ALLOCATOR },
		{ "toy:defect=fault_alloc", "the toy is broken", GP_PASS_THROUGHPUT,
		  GP_BLAME_ALLOCATOR },
		{ "toy:defect=fault_free", "event 3: free of block 1", GP_PASS_CURVE,
		  GP_BLAME_ALLOCATOR },
		{ "toy:defect=fault_free", "event 3: free of block 1", GP_PASS_LATENCY,
		  GP_BLAME_ALLOCATOR },
		{ "toy:defect=fault_free", "event 3: free of block 1", GP_PASS_THROUGHPUT,
		  GP_BLAME_ALLOCATOR },
		{ "toy:defect=usage", "event 2: usage says", GP_PASS_CURVE, GP_BLAME_ALLOCATOR },
		{ "toy:defect=early", "event 2: memory went back to the device", GP_PASS_CURVE,
		  GP_BLAME_ALLOCATOR },
		{ "toy:defect=leak", "leaks 2097152 bytes", GP_PASS_CURVE, GP_BLAME_ALLOCATOR },
		{ "toy:defect=leak", "leaks 2097152 bytes", GP_PASS_THROUGHPUT,
		  GP_BLAME_ALLOCATOR },
		{ "toy:defect=stuck", "still reserved", GP_PASS_CURVE, GP_BLAME_ALLOCATOR },
		{ "toy:defect=audit", "check failed: toy: the toy is sad", GP_PASS_CURVE,
		  GP_BLAME_ALLOCATOR },
		{ "toy:defect=init", "no room for the toy", GP_PASS_ALL, GP_BLAME_NO_ROOM },
		{ "toy:defect=dead",
		  "event 0: alloc of 2097152 bytes: Input/output error; device: the "
		  "card fell out",
		  GP_PASS_CURVE, GP_BLAME_DEVICE },
	};
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 7, .size = 2 * MIB), ALLOC(.id = 8, .size = 512),
				      ALLOC(.id = 9, .size = 768), FREE(.id = 8), FREE(.id = 7));

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		struct gp_engine_config cfg = sim(cases[i].passes);
		struct gp_run *r = run(t, cases[i].spec, &cfg);

		if (r->status != GP_STATUS_ERROR || !strstr(r->why, cases[i].why))
			fail_msg("%s: status %s, why \"%s\", expected \"%s\"", cases[i].spec,
				 gp_status_name(r->status), r->why, cases[i].why);
		assert_null(strchr(r->why, '\n'));
		assert_int_equal(r->blame, cases[i].blame);
		assert_string_equal(r->allocator, "toy");
		gp_run_destroy(r);
	}
	gp_trace_destroy(t);
}

/* Where more is reserved than granted, only the sum over the live blocks tells. */
static void usage_must_add_up(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB), FREE(.id = 1),
				      ALLOC(.id = 2, .size = 512), ALLOC(.id = 3, .size = 768));
	struct gp_engine_config cfg = sim(GP_PASS_CURVE);
	struct gp_run *r = run(t, "toy:defect=usage", &cfg);

	(void)state;
	assert_int_equal(r->status, GP_STATUS_ERROR);
	assert_non_null(strstr(r->why, "event 3: usage says 1281 bytes granted"));
	finish(r, t);
}

static void curve_keeps_what_came_before_a_fault(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB), FREE(.id = 1),
			 ALLOC(.id = 2, .size = 4 * MIB), ALLOC(.id = 3, .size = 8 * MIB));
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r = run(t, "toy:defect=fault_free", &cfg);

	(void)state;
	assert_int_equal(r->status, GP_STATUS_ERROR);
	assert_int_equal(r->n_windows, 2);
	assert_int_equal(r->memory.peak_reserved, 2 * MIB);
	/* Later passes have not run. */
	assert_int_equal(r->alloc_ns.count, 0);
	finish(r, t);
}

static void wraps_are_put_on(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 7, .size = 2 * MIB), ALLOC(.id = 8, .size = 512),
				      ALLOC(.id = 9, .size = 700), FREE(.id = 8));
	const char *wraps[] = { "check" };
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;

	(void)state;
	cfg.wraps = wraps;
	cfg.n_wraps = 1;
	r = run(t, "toy:defect=overlap", &cfg);
	assert_int_equal(r->status, GP_STATUS_ERROR);
	assert_non_null(strstr(r->why, "event 2: alloc of 700 bytes"));
	gp_run_destroy(r);
	r = run(t, "toy:count=9", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	/* Options are the allocator's, not the decorator's. */
	assert_int_equal(r->n_options, 5);
	assert_string_equal(r->options[3].name, "count");
	assert_string_equal(r->options[3].value, "9");
	finish(r, t);
}

/* `check` counts requests; what it says of them is looked up in the program. */
static void owners_are_named_by_event(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 6, .size = 0), ALLOC(.id = 7, .size = 2 * MIB),
				      ALLOC(.id = 8, .size = 512), ALLOC(.id = 9, .size = 700));
	const char *wraps[] = { "check" }, *more[] = { "fault", "check" };
	struct gp_engine_config cfg = sim(GP_PASS_CURVE);
	struct gp_run *r;

	(void)state;
	cfg.wraps = wraps;
	cfg.n_wraps = 1;
	r = run(t, "toy:defect=overlap", &cfg);
	assert_non_null(strstr(r->why, "over the live block of request 1 (event 1, 0x"));
	assert_non_null(strstr(r->why, ", 2097152 bytes, stream 0)"));
	gp_run_destroy(r);
	/* Where another decorator may refuse requests, it is not known which they are. */
	cfg.wraps = more;
	cfg.n_wraps = 2;
	r = run(t, "toy:defect=overlap", &cfg);
	assert_non_null(strstr(r->why, "over the live block of request 1 (0x"));
	finish(r, t);
}

/* ---- options and refusals ---- */

static void options_in_force(void **state)
{
	struct gp_trace *t = churn(1, 512, 0);
	struct gp_engine_config cfg = sim(GP_PASS_CURVE);
	struct gp_run *r = run(t, "toy:refuse_above=3M,unused=yes,hold_above=1000", &cfg);

	(void)state;
	assert_int_equal(r->n_options, 5);
	assert_string_equal(r->options[0].value, "none");
	assert_string_equal(r->options[1].value, "3M");
	assert_string_equal(r->options[2].value, "1000");
	assert_string_equal(r->options[3].value, "0");
	assert_string_equal(r->options[4].value, "true");
	assert_string_equal(r->spec, "toy:refuse_above=3M,unused=yes,hold_above=1000");
	assert_string_equal(r->label, "toy");
	finish(r, t);
}

static void refuses(struct gp_trace *t, const char *spec, const struct gp_engine_config *cfg,
		    const char *expected)
{
	struct gp_run *r = (struct gp_run *)&t;
	char why[200] = "";

	assert_int_equal(gp_engine_run(t, spec, cfg, &r, why, sizeof(why)), -EINVAL);
	assert_null(r);
	if (!strstr(why, expected))
		fail_msg("%s: \"%s\", expected \"%s\"", spec, why, expected);
	assert_int_equal(gp_engine_run(t, spec, cfg, &r, NULL, 0), -EINVAL);
}

static void bad_jobs_are_refused(void **state)
{
	struct gp_trace *t = churn(2, 512, 0);
	const char *wraps[] = { "toy" };
	struct gp_engine_config cfg = sim(GP_PASS_ALL);

	(void)state;
	refuses(t, "toi", &cfg, "toy");
	refuses(t, "toy:cuont=3", &cfg, "count");
	refuses(t, "toy:count=1", &cfg, "count=1 is too few");
	refuses(t, "check", &cfg, "check");
	cfg.wraps = wraps;
	cfg.n_wraps = 1;
	refuses(t, "toy", &cfg, "toy");
	cfg.n_wraps = 0;
	cfg.pace = 1;
	refuses(t, "toy", &cfg, "no times");
	cfg.pace = -1;
	refuses(t, "toy", &cfg, "pace");
	cfg.pace = NAN;
	refuses(t, "toy", &cfg, "pace");
	cfg.pace = 1;
	cfg.threads = 2;
	refuses(t, "toy", &cfg, "one thread");
	cfg.pace = 0;
	cfg.threads = 1025;
	refuses(t, "toy", &cfg, "threads");
	cfg.threads = 0;
	cfg.device = "tpu";
	refuses(t, "toy", &cfg, "device");
	gp_trace_destroy(t);
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(gp_reason_name(GP_REASON_OVER_CAPACITY), "over_capacity");
	assert_string_equal(gp_reason_name(GP_REASON_FRAGMENTED), "fragmented");
	assert_string_equal(gp_reason_name(GP_REASON_STREAM_HELD), "stream_held");
	assert_string_equal(gp_reason_name(GP_REASON_REFUSED), "refused");
	assert_string_equal(gp_status_name(GP_STATUS_STOPPED), "stopped");
	assert_string_equal(gp_status_name(GP_STATUS_ERROR), "error");
	assert_null(gp_run_destroy(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(env_of_a_trace),
		cmocka_unit_test(typical_size_is_the_90th_percentile),
		cmocka_unit_test(memory_by_hand),
		cmocka_unit_test(internal_fragmentation),
		cmocka_unit_test(empty_trace),
		cmocka_unit_test(trim_and_sync_are_executed),
		cmocka_unit_test(failures_are_explained),
		cmocka_unit_test(stop_ends_all_passes_there),
		cmocka_unit_test(each_pass_stops_by_itself),
		cmocka_unit_test(defects_are_errors),
		cmocka_unit_test(usage_must_add_up),
		cmocka_unit_test(curve_keeps_what_came_before_a_fault),
		cmocka_unit_test(wraps_are_put_on),
		cmocka_unit_test(owners_are_named_by_event),
		cmocka_unit_test(options_in_force),
		cmocka_unit_test(bad_jobs_are_refused),
		cmocka_unit_test(names),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
