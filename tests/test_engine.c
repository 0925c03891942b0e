/* SPDX-License-Identifier: Apache-2.0
 *
 * test_engine: whole runs on the simulated device with `toy`, an allocator whose every step can be
 * foretold and which can be told to misbehave. Built with a registry of its own (toy/).
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
#include <time.h>

#include "replay/clock.h"
#include "replay/engine.h"
#include "trace_of.h"

#define MIB GP_MIB
#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-12)

static struct gp_engine_config sim(unsigned passes)
{
	return (struct gp_engine_config){ .device = "sim",
					  .device_config.capacity = 64 * MIB,
					  .passes = passes,
					  .repeat = 3 };
}

static struct gp_run *run(struct gp_trace *trace, const char *spec,
			  const struct gp_engine_config *cfg)
{
	char why[200] = "";
	struct gp_run *r = NULL;

	if (gp_engine_run(trace, spec, cfg, &r, why, sizeof(why)))
		fail_msg("%s: %s", spec, why);
	return r;
}

static void finish(struct gp_run *r, struct gp_trace *t)
{
	gp_run_destroy(r);
	gp_trace_destroy(t);
}

/* n blocks of `size` bytes, one alive at a time. */
static struct gp_trace *churn(size_t n, uint64_t size, uint64_t step_ns)
{
	struct gp_trace_record *records = calloc(2 * n, sizeof(*records));
	struct gp_trace *t;

	assert_non_null(records);
	for (size_t i = 0; i < n; i++) {
		records[2 * i] = (struct gp_trace_record)ALLOC(.id = i, .size = size,
							       .t_ns = 2 * i * step_ns);
		records[2 * i + 1] = (struct gp_trace_record)FREE(.id = i,
								  .t_ns = (2 * i + 1) * step_ns);
	}
	t = trace_of(records, 2 * n);
	free(records);
	return t;
}

/* ---- the clock ---- */

static void clock_tells_time(void **state)
{
	const struct gp_clock *c = gp_clock_get();
	const struct timespec ts = { 0, 5000000 };
	struct timespec a, b;
	uint64_t t0, t1;
	double truth;

	(void)state;
	assert_non_null(c);
	assert_ptr_equal(c, gp_clock_get());
	clock_gettime(CLOCK_MONOTONIC_RAW, &a);
	t0 = gp_ticks();
	nanosleep(&ts, NULL);
	t1 = gp_ticks();
	clock_gettime(CLOCK_MONOTONIC_RAW, &b);
	truth = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
	assert_true(gp_clock_ns(c, t1 - t0) >= 4990000);
	assert_true((double)gp_clock_ns(c, t1 - t0) <= truth * 1.001);
	assert_int_equal(gp_clock_between(5, 3), 0);
	assert_int_equal(gp_clock_call(c, 1000, 1000 + c->overhead_ticks), 0);
	assert_int_equal(gp_clock_call(c, 1000, 1007 + c->overhead_ticks), 7);
}

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
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 3 * MIB),
				      ALLOC(.id = 2, .size = 2 * MIB, .t_ns = 10),
				      FREE(.id = 1, .t_ns = 20),
				      ALLOC(.id = 3, .size = 2 * MIB, .t_ns = 30),
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
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 4 * MIB), FREE(.id = 1), SYNC(), SYNC(),
				      TRIM(), ALLOC(.id = 2, .size = 2 * MIB));
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
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 40 * MIB), ALLOC(.id = 2, .size = 30 * MIB),
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
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 1 * MIB), FREE(.id = 1),
				      ALLOC(.id = 2, .size = 70 * MIB), ALLOC(.id = 3, .size = 1 * MIB),
				      FREE(.id = 3));
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;

	(void)state;
	cfg.stop_on_oom = true;
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
	cfg.threads = 0;
	cfg.passes = GP_PASS_THROUGHPUT; /* stops there by itself too */
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_STOPPED);
	assert_int_equal(r->throughput.ops, 3);
	finish(r, t);
}

/* ---- allocators that break the contract ---- */

static void defects_are_errors(void **state)
{
	static const struct {
		const char *spec, *why;
		unsigned passes;
	} cases[] = {
		{ "toy:defect=overlap", "event 2: overlaps a live block", GP_PASS_CURVE },
		{ "toy:defect=small", "event 2: smaller than asked for", GP_PASS_CURVE },
		{ "toy:defect=fault_alloc", "event 2: alloc of 768 bytes: Input/output error",
		  GP_PASS_CURVE },
		{ "toy:defect=fault_alloc", "allocator: the toy is broken", GP_PASS_LATENCY },
		{ "toy:defect=fault_alloc", "the toy is broken", GP_PASS_THROUGHPUT },
		{ "toy:defect=fault_free", "event 3: free of block 1", GP_PASS_CURVE },
		{ "toy:defect=fault_free", "event 3: free of block 1", GP_PASS_LATENCY },
		{ "toy:defect=fault_free", "event 3: free of block 1", GP_PASS_THROUGHPUT },
		{ "toy:defect=usage", "event 2: usage says", GP_PASS_CURVE },
		{ "toy:defect=early", "event 2: memory went back to the device", GP_PASS_CURVE },
		{ "toy:defect=leak", "leaks 2097152 bytes", GP_PASS_CURVE },
		{ "toy:defect=leak", "leaks 2097152 bytes", GP_PASS_THROUGHPUT },
		{ "toy:defect=stuck", "still reserved", GP_PASS_CURVE },
		{ "toy:defect=audit", "check failed: toy: the toy is sad", GP_PASS_CURVE },
		{ "toy:defect=init", "no room for the toy", GP_PASS_ALL },
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
		assert_string_equal(r->allocator, "toy");
		gp_run_destroy(r);
	}
	gp_trace_destroy(t);
}

static void curve_keeps_what_came_before_a_fault(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB), FREE(.id = 1),
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

/* ---- latency and throughput ---- */

static void modelled_time_is_told_apart(void **state)
{
	const uint64_t slow_ns = UINT64_C(3000000000);
	struct gp_trace *t = churn(100, 2 * MIB, 0);
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;

	(void)state;
	/* Only the first allocation reaches the driver; there it costs three seconds, not waited. */
	cfg.device_config.slow_call = 1;
	cfg.device_config.slow_ns = slow_ns;
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_true(r->driver.time_ns >= slow_ns && r->driver.time_ns < slow_ns + 1000000);
	assert_int_equal(r->alloc_ns.count, 100);
	assert_int_equal(r->free_ns.count, 100);
	assert_true(r->alloc_ns.max >= slow_ns);
	assert_true(gp_hist_percentile(&r->alloc_ns, 98) < 1000000);
	assert_true(r->free_ns.max < slow_ns);
	assert_int_equal(r->throughput.ops, 200);
	assert_true(r->throughput.ns_per_op < 100000);
	assert_true(r->throughput.ns_per_op_min <= r->throughput.ns_per_op);
	assert_true(r->throughput.ns_per_op <= r->throughput.ns_per_op_max);
	assert_true(r->throughput.ops_per_s > 0);
	assert_true(r->throughput.device_ns_per_op >= (double)slow_ns / 200);
	assert_true(r->throughput.device_ns_per_op < (double)slow_ns / 199);
	finish(r, t);
}

static void passes_are_chosen(void **state)
{
	struct gp_trace *t = churn(10, 512, 0);
	struct gp_engine_config cfg = sim(GP_PASS_LATENCY);
	struct gp_run *r = run(t, "toy", &cfg);

	(void)state;
	assert_int_equal(r->alloc_ns.count, 10);
	assert_int_equal(r->n_windows, 0);
	assert_int_equal(r->throughput.ops, 0);
	finish(r, t);
}

/* ---- threads ---- */

/* Blocks handed from thread to thread: allocated by one, freed by another. */
static struct gp_trace *handed_over(size_t n, unsigned threads)
{
	struct gp_trace_record *records = calloc(2 * n, sizeof(*records));
	struct gp_trace *t;

	assert_non_null(records);
	for (size_t i = 0; i < n; i++) {
		records[2 * i] = (struct gp_trace_record)ALLOC(.id = i, .size = 256 * (1 + i % 40),
							       .thread = i % threads);
		records[2 * i + 1] = (struct gp_trace_record)FREE(.id = i,
								  .thread = (i + 1) % threads);
	}
	t = trace_of(records, 2 * n);
	free(records);
	return t;
}

static void threads_share_the_work(void **state)
{
	struct gp_trace *t = handed_over(3000, 4);
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;

	(void)state;
	for (unsigned n = 1; n <= 4; n++) {
		cfg.threads = n;
		r = run(t, "toy", &cfg);
		if (r->status != GP_STATUS_OK)
			fail_msg("%u threads: %s", n, r->why);
		assert_int_equal(r->threads, n);
		assert_int_equal(r->alloc_ns.count, 3000);
		assert_int_equal(r->free_ns.count, 3000);
		assert_int_equal(r->throughput.ops, 6000);
		assert_true(r->throughput.ops_per_s > 0);
		assert_int_equal(r->failures.count, 0);
		gp_run_destroy(r);
	}
	gp_trace_destroy(t);
}

static void threads_skip_what_failed(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 70 * MIB), ALLOC(.id = 2, .size = 512),
				      ALLOC(.id = 3, .size = 0), FREE(.id = 1, .thread = 1),
				      FREE(.id = 2, .thread = 1), FREE(.id = 3, .thread = 1));
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;

	(void)state;
	cfg.threads = 2;
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(r->alloc_ns.count, 1);
	assert_int_equal(r->free_ns.count, 1);
	assert_int_equal(r->throughput.ops, 3);
	finish(r, t);
}

/* A thread that waits for a block must not wait for ever when another one breaks. */
static void fault_ends_all_threads(void **state)
{
	struct gp_trace *t = handed_over(100, 2);
	struct gp_engine_config cfg = sim(GP_PASS_LATENCY);
	struct gp_run *r;

	(void)state;
	cfg.threads = 2;
	r = run(t, "toy:defect=fault_alloc", &cfg);
	assert_int_equal(r->status, GP_STATUS_ERROR);
	assert_non_null(strstr(r->why, "Input/output error"));
	finish(r, t);
}

/* ---- pace ---- */

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void paced_keeps_time(void **state)
{
	struct gp_trace *t = churn(20, 512, 2000000); /* 39 steps of 2 ms */
	struct gp_engine_config cfg = sim(GP_PASS_LATENCY);
	struct gp_run *r;
	double start;

	(void)state;
	gp_clock_get();
	cfg.pace = 2;
	start = seconds();
	r = run(t, "toy", &cfg);
	assert_true(seconds() - start >= 39 * 0.002 / 2);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_true(r->paced);
	assert_int_equal(r->alloc_ns.count, 20);
	assert_int_equal(r->lateness_ns.count, 40);
	assert_int_equal(r->response_alloc_ns.count, 20);
	assert_int_equal(r->response_free_ns.count, 20);
	/* A machine under load may be late now and then, but not all the time. */
	assert_true(gp_hist_percentile(&r->lateness_ns, 25) < 1000000);
	finish(r, t);
}

/* One call of 30 ms delays the 29 that were due meanwhile. They are not slow themselves, but a
 * program would have waited: response time and lateness must show it. */
static void paced_shows_who_waited(void **state)
{
	struct gp_trace *t = churn(30, 2 * MIB, 1000000);
	struct gp_engine_config cfg = sim(GP_PASS_LATENCY);
	struct gp_run *r;

	(void)state;
	cfg.pace = 1;
	cfg.device_config.slow_call = 1;
	cfg.device_config.slow_ns = 30000000;
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_true(r->alloc_ns.max >= 30000000);
	assert_true(gp_hist_percentile(&r->alloc_ns, 90) < 1000000);
	assert_true(gp_hist_percentile(&r->response_alloc_ns, 45) >= 1000000);
	assert_true(r->response_free_ns.max >= 28000000);
	assert_true(r->lateness_ns.max >= 28000000);
	finish(r, t);
}

/* ---- interruption and progress ---- */

static volatile sig_atomic_t interrupted;

struct watcher {
	unsigned calls, phases;
	const char *phase;
	const char *interrupt_at; /* phase; NULL: never */
};

static void watch(void *arg, const char *phase, uint64_t done, uint64_t total)
{
	struct watcher *w = arg;

	assert_true(done <= total);
	w->calls++;
	if (!w->phase || strcmp(w->phase, phase))
		w->phases++;
	w->phase = phase;
	if (w->interrupt_at && !strcmp(w->interrupt_at, phase))
		interrupted = 1;
}

static void progress_is_rare(void **state)
{
	struct gp_trace *t = churn(50000, 512, 0);
	struct watcher w = { 0 };
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;
	double start = seconds();

	(void)state;
	cfg.progress = watch;
	cfg.progress_arg = &w;
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(w.phases, 3);
	/* At most four a second, one to start with and the end of each pass. */
	assert_true(w.calls >= 3 && w.calls <= 4 + (unsigned)(5 * (seconds() - start)));
	finish(r, t);
}

static void interrupted_keeps_what_it_has(void **state)
{
	struct gp_trace *t = churn(20000, 512, 0);
	struct watcher w = { .interrupt_at = "curve" };
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;

	(void)state;
	cfg.progress = watch;
	cfg.progress_arg = &w;
	cfg.interrupted = &interrupted;
	interrupted = 0;
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_PARTIAL);
	assert_int_equal(r->n_windows, 1);
	assert_true(r->memory.peak_reserved > 0);
	assert_int_equal(r->alloc_ns.count, 0);
	gp_run_destroy(r);

	/* By a signal that came before, in each kind of pass. */
	interrupted = 1;
	cfg.progress = NULL;
	for (unsigned pass = GP_PASS_CURVE; pass <= GP_PASS_THROUGHPUT; pass *= 2) {
		for (unsigned threads = 0; threads <= 2; threads += 2) {
			cfg.passes = pass;
			cfg.threads = threads;
			r = run(t, "toy", &cfg);
			assert_int_equal(r->status, GP_STATUS_PARTIAL);
			gp_run_destroy(r);
		}
	}
	interrupted = 0;
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
		cmocka_unit_test(clock_tells_time),
		cmocka_unit_test(env_of_a_trace),
		cmocka_unit_test(typical_size_is_the_90th_percentile),
		cmocka_unit_test(memory_by_hand),
		cmocka_unit_test(internal_fragmentation),
		cmocka_unit_test(empty_trace),
		cmocka_unit_test(trim_and_sync_are_executed),
		cmocka_unit_test(failures_are_explained),
		cmocka_unit_test(stop_ends_all_passes_there),
		cmocka_unit_test(defects_are_errors),
		cmocka_unit_test(curve_keeps_what_came_before_a_fault),
		cmocka_unit_test(wraps_are_put_on),
		cmocka_unit_test(options_in_force),
		cmocka_unit_test(bad_jobs_are_refused),
		cmocka_unit_test(modelled_time_is_told_apart),
		cmocka_unit_test(passes_are_chosen),
		cmocka_unit_test(threads_share_the_work),
		cmocka_unit_test(threads_skip_what_failed),
		cmocka_unit_test(fault_ends_all_threads),
		cmocka_unit_test(paced_keeps_time),
		cmocka_unit_test(paced_shows_who_waited),
		cmocka_unit_test(progress_is_rare),
		cmocka_unit_test(interrupted_keeps_what_it_has),
		cmocka_unit_test(names),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
