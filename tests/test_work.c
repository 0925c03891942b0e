/* SPDX-License-Identifier: Apache-2.0
 *
 * test_work: what calls cost while the device has work to do, through the engine, on the simulated
 * device. Simulated time passes by modelled calls alone: stalls are exact.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "engine_job.h"
#include "replay/engine.h"

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)

static struct gp_engine_config working(enum gp_work_kind kind, uint64_t busy_ns)
{
	struct gp_engine_config cfg = sim(GP_PASS_LATENCY);

	cfg.device_config.capacity = 0;
	cfg.work = (struct gp_work){ kind, busy_ns };
	return cfg;
}

static uint64_t stalled(const struct gp_run *r, enum gp_metered which)
{
	return r->work->stall_ns[which].sum;
}

static uint64_t idle(const struct gp_run *r, enum gp_metered which)
{
	return r->work->idle_ns[which].sum;
}

static void none_is_none(void **state)
{
	struct gp_trace *t = churn(3, 2 * MIB, 0);
	struct gp_engine_config cfg = working(GP_WORK_NONE, 0);
	struct gp_run *r = run(t, "raw", &cfg);

	(void)state;
	assert_null(r->work);
	assert_int_equal(r->free_ns.count, 3);
	finish(r, t);
}

static void a_free_waits_for_the_work(void **state)
{
	struct gp_trace *t = churn(10, 2 * MIB, 0);
	struct gp_engine_config cfg = working(GP_WORK_BUSY, 20 * MS);
	struct gp_run *r = run(t, "raw", &cfg);

	(void)state;
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(r->work->n_pieces, 10);
	assert_int_equal(r->work->stall_ns[GP_METERED_FREE].count, 10);
	assert_int_equal(r->work->stall_ns[GP_METERED_FREE].min, 20 * MS);
	assert_int_equal(r->work->stall_ns[GP_METERED_FREE].max, 20 * MS);
	assert_int_equal(stalled(r, GP_METERED_FREE), 200 * MS);
	assert_int_equal(stalled(r, GP_METERED_ALLOC), 0);
	assert_int_equal(r->work->stall_ns[GP_METERED_TRIM].count, 0);
	/* The host waits for the device, then the device for the host. */
	assert_true(r->free_ns.min >= 20 * MS);
	assert_true(idle(r, GP_METERED_FREE) > 0 && idle(r, GP_METERED_FREE) < 10 * MS);
	assert_true(idle(r, GP_METERED_ALLOC) > 0 && idle(r, GP_METERED_ALLOC) < 10 * MS);
	finish(r, t);
}

/* A pool frees nothing until it is trimmed. */
static void a_pool_waits_when_it_is_trimmed(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB), FREE(.id = 1),
				      ALLOC(.id = 2, .size = 2 * MIB), FREE(.id = 2), TRIM(.id = 0),
				      ALLOC(.id = 3, .size = 2 * MIB));
	static const char *const pools[] = { "segregated", "buddy", "hybrid", "torch" };

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(pools); i++) {
		struct gp_engine_config cfg = working(GP_WORK_BUSY, 20 * MS);
		struct gp_run *r = run(t, pools[i], &cfg);
		uint64_t waited = stalled(r, GP_METERED_TRIM);

		assert_int_equal(r->status, GP_STATUS_OK);
		assert_int_equal(stalled(r, GP_METERED_ALLOC), 0);
		assert_int_equal(stalled(r, GP_METERED_FREE), 0);
		assert_int_equal(r->work->stall_ns[GP_METERED_TRIM].count, 1);
		/* Both pieces, one after the other, but for the launch of the second. */
		assert_true(waited <= 40 * MS && waited > 39 * MS);
		assert_true(idle(r, GP_METERED_TRIM) > 0);
		gp_run_destroy(r);
	}
	gp_trace_destroy(t);
}

static void every_stream_is_waited_for(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB, .stream = 1),
				      ALLOC(.id = 2, .size = 2 * MIB, .stream = 2), FREE(.id = 2));
	struct gp_engine_config cfg = working(GP_WORK_BUSY, 20 * MS);
	struct gp_run *r = run(t, "raw", &cfg);

	(void)state;
	/* Side by side: the later one is the last. */
	assert_int_equal(stalled(r, GP_METERED_FREE), 20 * MS);
	finish(r, t);
}

/* A block that another stream takes over: a wait that is counted, after which that stream's work
 * comes behind what the block was used for. */
static void taking_over_waits_for_the_other_stream(void **state)
{
	static const char *const pools[] = { "fixed:count=1", "segregated", "buddy", "slab",
					     "hybrid" };
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB), FREE(.id = 1),
				      ALLOC(.id = 2, .size = 2 * MIB, .stream = 1), FREE(.id = 2),
				      TRIM(.id = 0));

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(pools); i++) {
		struct gp_engine_config cfg = working(GP_WORK_BUSY, 20 * MS);
		struct gp_run *r;

		cfg.passes = GP_PASS_CURVE | GP_PASS_LATENCY;
		r = run(t, pools[i], &cfg);
		assert_int_equal(r->status, GP_STATUS_OK);
		assert_int_equal(r->driver.event_waits, 1);
		assert_true(stalled(r, GP_METERED_TRIM) > 39 * MS);
		assert_true(stalled(r, GP_METERED_TRIM) <= 40 * MS);
		gp_run_destroy(r);
	}
	gp_trace_destroy(t);
}

static void a_memset_takes_its_time(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * GP_GIB), FREE(.id = 1),
				      ALLOC(.id = 2, .size = 4 * GP_GIB), FREE(.id = 2));
	struct gp_engine_config cfg = working(GP_WORK_MEMSET, 0);
	struct gp_run *r = run(t, "raw", &cfg);
	const struct gp_hist *h = &r->work->stall_ns[GP_METERED_FREE];

	(void)state;
	assert_int_equal(h->count, 2);
	assert_true(h->min > MS / 10 && h->max > h->min && h->max < 1000 * MS);
	finish(r, t);
}

/* Until the next event of the stream, not of others; at most a millisecond. */
static void recorded_time_is_used(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB, .t_ns = 0),
			 ALLOC(.id = 2, .size = 2 * MIB, .stream = 1, .t_ns = 100 * US),
			 FREE(.id = 1, .t_ns = 250 * US), FREE(.id = 2, .t_ns = 9000 * US),
			 ALLOC(.id = 3, .size = 2 * MIB, .t_ns = 9000 * US),
			 FREE(.id = 3, .t_ns = 9001 * US));
	struct gp_engine_config cfg = working(GP_WORK_RECORDED, 0);
	struct gp_run *r = run(t, "raw", &cfg);
	const struct gp_hist *h = &r->work->stall_ns[GP_METERED_FREE];

	(void)state;
	assert_int_equal(r->work->n_pieces, 3);
	/* The first free waits for the millisecond of the second stream, too; the second finds
	 * nothing to wait for; the third waits for a microsecond. */
	assert_int_equal(h->max, MS);
	assert_int_equal(h->min, 0);
	assert_int_equal(h->sum, MS + US);
	finish(r, t);
}

/* A block that another stream still uses is free for `raw` at its reclaim, and waits there. */
static void a_deferred_free_waits_at_its_reclaim(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB), FREE(.id = 1),
				      ALLOC(.id = 2, .size = 2 * MIB, .stream = 1),
				      RECLAIM(.id = 1), FREE(.id = 2));
	struct gp_engine_config cfg = working(GP_WORK_BUSY, 20 * MS);
	struct gp_run *r = run(t, "raw", &cfg);

	(void)state;
	assert_int_equal(r->work->stall_ns[GP_METERED_FREE].count, 2);
	assert_int_equal(stalled(r, GP_METERED_FREE), 20 * MS);
	gp_run_destroy(r);
	r = run(t, "torch", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(r->work->stall_ns[GP_METERED_FREE].count, 3); /* defer, complete, free */
	assert_int_equal(stalled(r, GP_METERED_FREE), 0);
	finish(r, t);
}

/* More lulls than can be open at once; and a second run has the same to the nanosecond. */
static void runs_are_alike(void **state)
{
	struct gp_trace *t = churn(1000, 3 * MIB, 0);
	struct gp_engine_config cfg = working(GP_WORK_MEMSET, 0);
	struct gp_run *a = run(t, "raw", &cfg), *b = run(t, "raw", &cfg);

	(void)state;
	assert_int_equal(a->work->stall_ns[GP_METERED_FREE].count, 1000);
	for (unsigned i = 0; i < GP_METERED_N; i++) {
		assert_memory_equal(&a->work->stall_ns[i], &b->work->stall_ns[i],
				    sizeof(struct gp_hist));
		assert_memory_equal(&a->work->idle_ns[i], &b->work->idle_ns[i],
				    sizeof(struct gp_hist));
	}
	assert_true(stalled(a, GP_METERED_FREE) > 0);
	gp_run_destroy(b);
	finish(a, t);
}

static void refused_requests_have_no_work(void **state)
{
	static const char *const wraps[] = { "fault:every=3" };
	struct gp_trace *t = churn(30, 2 * MIB, 0);
	struct gp_engine_config cfg = working(GP_WORK_BUSY, MS);
	struct gp_run *r;

	(void)state;
	cfg.wraps = wraps;
	cfg.n_wraps = 1;
	r = run(t, "raw", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(r->work->n_pieces, 20);
	assert_int_equal(stalled(r, GP_METERED_FREE), 20 * MS);
	finish(r, t);
}

/* Paced, the work goes on while the program waits for its next deadline: of 150 ms, 50 are over
 * when the free is due. On a busy machine the calls are late, which the run itself tells. */
static void pace_leaves_the_device_time(void **state)
{
	struct gp_trace *t = churn(1, 2 * MIB, 50 * MS);
	struct gp_engine_config cfg = working(GP_WORK_BUSY, 150 * MS);
	uint64_t waited, late;
	struct gp_run *r;

	(void)state;
	cfg.pace = 1;
	r = run(t, "raw", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_int_equal(r->work->n_pieces, 1);
	waited = stalled(r, GP_METERED_FREE);
	late = r->lateness_ns.max;
	/* Up to a millisecond of the first 50 is spent in the allocation itself. */
	assert_true(waited <= 101 * MS + late);
	assert_true(waited + late >= 99 * MS);
	assert_true(r->response_free_ns.max >= waited);
	finish(r, t);
}

static void expect_refusal(const struct gp_trace *t, const struct gp_engine_config *cfg,
			   const char *words)
{
	struct gp_run *r = NULL;
	char why[200] = "";

	assert_int_equal(gp_engine_run(t, "raw", cfg, &r, why, sizeof(why)), -EINVAL);
	assert_null(r);
	assert_non_null(strstr(why, words));
}

static void nonsense_is_refused(void **state)
{
	static const char *const check[] = { "check" };
	struct gp_trace *t = churn(2, 512, 0);
	struct gp_engine_config cfg = working(GP_WORK_BUSY, 0);

	(void)state;
	expect_refusal(t, &cfg, "some time");
	cfg = working(GP_WORK_RECORDED, 0);
	expect_refusal(t, &cfg, "no times");
	cfg = working(GP_WORK_MEMSET, 0);
	cfg.wraps = check;
	cfg.n_wraps = 1;
	expect_refusal(t, &cfg, "pattern");
	cfg = working(GP_WORK_MEMSET, 0);
	cfg.threads = 2;
	expect_refusal(t, &cfg, "one thread");
	gp_trace_destroy(t);
}

/* The device breaks while work is being queued: the run says so. */
static void a_broken_device_ends_the_run(void **state)
{
	struct gp_trace *t = churn(100, 2 * MIB, 0);
	struct gp_engine_config cfg = working(GP_WORK_BUSY, MS);
	struct gp_run *r;

	(void)state;
	cfg.device_config.inject.lost_call = 50;
	r = run(t, "raw", &cfg);
	assert_int_equal(r->status, GP_STATUS_ERROR);
	assert_int_equal(r->blame, GP_BLAME_DEVICE);
	assert_true(r->work->n_pieces > 5 && r->work->n_pieces < 50);
	finish(r, t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_is_none),
		cmocka_unit_test(a_free_waits_for_the_work),
		cmocka_unit_test(a_pool_waits_when_it_is_trimmed),
		cmocka_unit_test(every_stream_is_waited_for),
		cmocka_unit_test(taking_over_waits_for_the_other_stream),
		cmocka_unit_test(a_memset_takes_its_time),
		cmocka_unit_test(recorded_time_is_used),
		cmocka_unit_test(a_deferred_free_waits_at_its_reclaim),
		cmocka_unit_test(runs_are_alike),
		cmocka_unit_test(refused_requests_have_no_work),
		cmocka_unit_test(pace_leaves_the_device_time),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(a_broken_device_ends_the_run),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
