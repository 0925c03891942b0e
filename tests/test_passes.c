/* SPDX-License-Identifier: Apache-2.0
 *
 * test_passes: time. The clock, what of a call's time is whose, threads, pace, progress and
 * interruption: on the simulated device with `toy` (toy/). Bounds are such that a busy machine
 * keeps them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "engine_job.h"
#include "replay/clock.h"
#include "replay/engine.h"

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
	/* A step is at least a tick, and no clock that is worth it has one of a microsecond. */
	assert_true(c->step_ns >= c->ns_per_tick * 0.99 && c->step_ns < 1000);
	/* A deadline in another age of the world is still one. */
	assert_int_equal(gp_clock_ticks(c, 1e30), UINT64_C(1) << 62);
	assert_int_equal(gp_clock_ticks(c, 0), 0);
}

/* ---- latency and throughput ---- */

static void modelled_time_is_told_apart(void **state)
{
	const uint64_t slow_ns = UINT64_C(3000000000);
	struct gp_trace *t = churn(100, 2 * MIB, 0);
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;

	(void)state;
	/* Only the first allocation reaches the driver, where it costs three seconds of no
	 * real time. */
	cfg.device_config.inject.slow_call = 1;
	cfg.device_config.inject.slow_ns = slow_ns;
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

/* By kind it is that of one run, whatever number of them makes a repetition. */
static void device_time_is_told_by_kind(void **state)
{
	struct gp_trace *t = churn(100, 2 * MIB, 0);
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r = run(t, "toy", &cfg);
	double all = 0;

	(void)state;
	for (unsigned i = 0; i < GP_CALL_N; i++)
		all += r->calls[i].time_ns;
	assert_int_equal(r->calls[GP_CALL_RESERVE].count, 1);
	assert_int_equal(r->calls[GP_CALL_RELEASE].count, 0);
	assert_true(r->calls[GP_CALL_RESERVE].time_ns > 0);
	assert_true(r->calls[GP_CALL_RESERVE].time_ns == all);
	assert_true(fabs(all - r->throughput.device_ns_per_op * 200) < 1);
	gp_run_destroy(r);
	/* Without that pass, the curve's. */
	cfg.passes = GP_PASS_CURVE;
	r = run(t, "toy", &cfg);
	assert_true(r->calls[GP_CALL_RESERVE].time_ns == (double)r->driver.time_ns);
	finish(r, t);
}

/* Each reservation takes the simulator 2 ms, of which nothing may be seen. */
static void simulators_own_work_is_left_out(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 1 * MIB), ALLOC(.id = 2, .size = 2 * MIB),
			 ALLOC(.id = 3, .size = 3 * MIB), ALLOC(.id = 4, .size = 4 * MIB),
			 ALLOC(.id = 5, .size = 5 * MIB));
	struct gp_engine_config cfg = sim(GP_PASS_LATENCY | GP_PASS_THROUGHPUT);
	struct gp_run *r;

	(void)state;
	cfg.repeat = 1;
	r = run(t, "toy:defect=dawdle", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(r->alloc_ns.count, 5);
	assert_true(gp_hist_percentile(&r->alloc_ns, 50) < 1000000);
	assert_true(r->throughput.ns_per_op < 1000000);
	assert_true(r->throughput.device_ns_per_op < 1000000);
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
		records[2 * i + 1] =
			(struct gp_trace_record)FREE(.id = i, .thread = (i + 1) % threads);
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
	cfg.device_config.inject.slow_call = 1;
	cfg.device_config.inject.slow_ns = 30000000;
	r = run(t, "toy", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_true(r->alloc_ns.max >= 30000000);
	assert_true(gp_hist_percentile(&r->alloc_ns, 90) < 1000000);
	assert_true(gp_hist_percentile(&r->response_alloc_ns, 60) >= 1000000);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clock_tells_time),
		cmocka_unit_test(modelled_time_is_told_apart),
		cmocka_unit_test(device_time_is_told_by_kind),
		cmocka_unit_test(simulators_own_work_is_left_out),
		cmocka_unit_test(passes_are_chosen),
		cmocka_unit_test(threads_share_the_work),
		cmocka_unit_test(threads_skip_what_failed),
		cmocka_unit_test(fault_ends_all_threads),
		cmocka_unit_test(paced_keeps_time),
		cmocka_unit_test(paced_shows_who_waited),
		cmocka_unit_test(progress_is_rare),
		cmocka_unit_test(interrupted_keeps_what_it_has),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
