/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and queued work on a real GPU, through the engine: who waits for the device and about how
 * long, that streams run side by side, and that reuse across streams, reclaim, sync and trim do on
 * the GPU what they do on the simulated device. Bounds are such that a busy machine keeps them.
 * Skips where there is no GPU. Takes less than 2 GiB of the card.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine_job.h"
#include "replay/engine.h"
#include "without_gpu.h"

#define MS UINT64_C(1000000)

static struct gp_engine_config on(const char *device, unsigned passes)
{
	return (struct gp_engine_config){ .device = device, .passes = passes, .repeat = 1 };
}

static struct gp_engine_config working(enum gp_work_kind kind, uint64_t busy_ns)
{
	struct gp_engine_config cfg = on("cuda", GP_PASS_LATENCY);

	cfg.work = (struct gp_work){ kind, busy_ns };
	return cfg;
}

static struct gp_run *run_ok(struct gp_trace *t, const char *spec,
			     const struct gp_engine_config *cfg)
{
	struct gp_run *r = run(t, spec, cfg);

	if (r->status != GP_STATUS_OK)
		fail_msg("%s: %s", spec, r->why);
	return r;
}

static void say(const char *what, const struct gp_hist *h)
{
	print_message("# %s: %llu calls, p50 %.1f us, max %.1f us, total %.1f us\n", what,
		      (unsigned long long)h->count, (double)gp_hist_percentile(h, 50) / 1e3,
		      (double)(h->count ? h->max : 0) / 1e3, (double)h->sum / 1e3);
}

static void say_work(const char *who, const struct gp_run *r)
{
	print_message("# %s, %llu pieces of work\n", who, (unsigned long long)r->work->n_pieces);
	say("  alloc: call", &r->alloc_ns);
	say("  alloc: stall", &r->work->stall_ns[GP_METERED_ALLOC]);
	say("  alloc: device idle", &r->work->idle_ns[GP_METERED_ALLOC]);
	say("  free: call", &r->free_ns);
	say("  free: stall", &r->work->stall_ns[GP_METERED_FREE]);
	say("  free: device idle", &r->work->idle_ns[GP_METERED_FREE]);
}

/* Behind a kernel of 20 ms cudaFree waits about that long, and cudaMalloc not at all. */
static void a_free_waits_for_the_kernel(void **state)
{
	struct gp_trace *t = churn(10, 2 * MIB, 0);
	struct gp_engine_config cfg = working(GP_WORK_BUSY, 20 * MS);
	struct gp_run *r = run_ok(t, "raw", &cfg);
	const struct gp_run_work *w = r->work;

	(void)state;
	say_work("raw behind kernels of 20 ms", r);
	assert_int_equal(w->n_pieces, 10);
	assert_int_equal(w->stall_ns[GP_METERED_FREE].count, 10);
	assert_true(w->stall_ns[GP_METERED_FREE].min >= 10 * MS);
	assert_true(r->free_ns.min >= 10 * MS);
	assert_true(w->stall_ns[GP_METERED_FREE].sum <= r->free_ns.sum);
	assert_int_equal(w->stall_ns[GP_METERED_ALLOC].sum, 0);
	assert_true(w->idle_ns[GP_METERED_FREE].sum > 0);
	assert_true(w->idle_ns[GP_METERED_ALLOC].sum > 0);
	finish(r, t);
}

/* Pools wait when they give memory back, and no sooner. */
static void a_pool_waits_when_it_is_trimmed(void **state)
{
	static const char *const pools[] = { "segregated", "buddy", "hybrid", "torch" };
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB), FREE(.id = 1),
				      ALLOC(.id = 2, .size = 2 * MIB), FREE(.id = 2), TRIM(.id = 0),
				      ALLOC(.id = 3, .size = 2 * MIB));

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(pools); i++) {
		struct gp_engine_config cfg = working(GP_WORK_BUSY, 20 * MS);
		struct gp_run *r = run_ok(t, pools[i], &cfg);

		assert_int_equal(r->work->stall_ns[GP_METERED_FREE].sum, 0);
		assert_int_equal(r->work->stall_ns[GP_METERED_ALLOC].sum, 0);
		assert_true(r->work->stall_ns[GP_METERED_TRIM].sum >= 20 * MS);
		gp_run_destroy(r);
	}
	gp_trace_destroy(t);
}

/* Kernels of 30 ms on four streams of the trace end together, not one after the other. */
static void streams_run_side_by_side(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB, .stream = 7),
				      ALLOC(.id = 2, .size = 2 * MIB, .stream = 8),
				      ALLOC(.id = 3, .size = 2 * MIB, .stream = 9),
				      ALLOC(.id = 4, .size = 2 * MIB, .stream = 0), FREE(.id = 4));
	struct gp_engine_config cfg = working(GP_WORK_BUSY, 30 * MS);
	struct gp_run *r = run_ok(t, "raw", &cfg);

	(void)state;
	say("free behind 30 ms on four streams: stall", &r->work->stall_ns[GP_METERED_FREE]);
	assert_true(r->work->stall_ns[GP_METERED_FREE].max >= 15 * MS);
	assert_true(r->work->stall_ns[GP_METERED_FREE].max < 100 * MS);
	finish(r, t);
}

/* A block that changes streams, a deferred free, a sync and a trim: as on the simulated device, in
 * waits made, synchronisations and memory; memory that only one device shares pages of apart. */
static void events_act_as_on_the_simulated_device(void **state)
{
	static const char *const specs[] = {
		"fixed:when_empty=refuse,count=2", "segregated", "buddy", "slab", "hybrid", "torch"
	};
	struct gp_trace *t = TRACE_OF(
		ALLOC(.id = 1, .size = 4 * MIB), ALLOC(.id = 2, .size = 4 * MIB), FREE(.id = 1),
		FREE(.id = 2), ALLOC(.id = 3, .size = 4 * MIB, .stream = 1), SYNC(.id = 0),
		FREE(.id = 3), ALLOC(.id = 4, .size = 4 * MIB, .stream = 1), RECLAIM(.id = 3),
		FREE(.id = 4), TRIM(.id = 0), ALLOC(.id = 5, .size = 4 * MIB, .stream = 2));

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(specs); i++) {
		struct gp_engine_config cfg = on("sim", GP_PASS_ALL);
		struct gp_run *sim = run_ok(t, specs[i], &cfg), *cuda;

		cfg = on("cuda", GP_PASS_ALL);
		cuda = run_ok(t, specs[i], &cfg);
		print_message("# %s: %llu event waits, %llu syncs, peak %llu, end %llu\n", specs[i],
			      (unsigned long long)cuda->driver.event_waits,
			      (unsigned long long)cuda->driver.syncs,
			      (unsigned long long)cuda->memory.peak_reserved,
			      (unsigned long long)cuda->memory.end_reserved);
		if (strcmp(specs[i], "torch"))
			assert_true(cuda->driver.event_waits >= 1);
		assert_true(cuda->driver.syncs >= 2); /* the event, and the trim's own */
		assert_int_equal(cuda->driver.event_waits, sim->driver.event_waits);
		assert_int_equal(cuda->driver.syncs, sim->driver.syncs);
		assert_int_equal(cuda->memory.peak_reserved, sim->memory.peak_reserved);
		assert_int_equal(cuda->memory.end_reserved, sim->memory.end_reserved);
		gp_run_destroy(sim);
		gp_run_destroy(cuda);
	}
	gp_trace_destroy(t);
}

/* Blocks of two streams, written to when they are handed out, and all given back again and again:
 * memory that is unmapped under queued work would break the device. */
static struct gp_trace *two_streams(size_t rounds, size_t blocks)
{
	size_t n = rounds * (2 * blocks + 1), k = 0;
	struct gp_trace_record *records = calloc(n, sizeof(*records));
	struct gp_trace *t;

	assert_non_null(records);
	for (size_t round = 0; round < rounds; round++) {
		for (size_t i = 0; i < blocks; i++)
			records[k++] = (struct gp_trace_record)ALLOC(.id = round * blocks + i,
								     .size = (1 + (round + i) % 7) *
									     5 * MIB,
								     .stream = i % 2);
		for (size_t i = 0; i < blocks; i++)
			records[k++] = (struct gp_trace_record)FREE(.id = round * blocks + i);
		records[k++] = (struct gp_trace_record)TRIM(.id = 0);
	}
	t = trace_of(records, n);
	free(records);
	return t;
}

static void no_memory_goes_under_queued_work(void **state)
{
	struct gp_trace *t = two_streams(20, 16);

	(void)state;
	for (size_t i = 0; i < gp_allocator_count(); i++) {
		const struct gp_allocator_ops *ops = gp_allocator_at(i);
		struct gp_engine_config cfg = working(GP_WORK_MEMSET, 0);
		char spec[96];

		if (ops->caps & (GP_CAP_DECORATOR | GP_CAP_OFFLINE))
			continue;
		gp_run_destroy(run_ok(t, ops->name, &cfg));
		snprintf(spec, sizeof(spec), "%s:%s", ops->name,
			 strcmp(ops->name, "torch") ? "grow=vmm" : "expandable_segments=true");
		if (ops->caps & GP_CAP_GROWS || !strcmp(ops->name, "torch"))
			gp_run_destroy(run_ok(t, spec, &cfg));
	}
	gp_trace_destroy(t);
}

/* Work that ends before the next call: what the device then waits for is the host. */
static void a_call_with_an_idle_device_does_not_stall(void **state)
{
	struct gp_trace *t = churn(200, 2 * MIB, 1000000);
	struct gp_engine_config cfg = working(GP_WORK_BUSY, 1000);
	struct gp_run *r;

	(void)state;
	cfg.pace = 5; /* 200 us from call to call, of which the work takes 1 */
	r = run_ok(t, "raw", &cfg);
	say_work("raw behind kernels of 1 us, calls 200 us apart", r);
	/* Most of them: a machine under load may be late and make two calls in a row. */
	assert_true(gp_hist_percentile(&r->work->stall_ns[GP_METERED_FREE], 50) < 20000);
	assert_true(gp_hist_percentile(&r->work->idle_ns[GP_METERED_FREE], 50) > 10000);
	finish(r, t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_free_waits_for_the_kernel),
		cmocka_unit_test(a_pool_waits_when_it_is_trimmed),
		cmocka_unit_test(streams_run_side_by_side),
		cmocka_unit_test(events_act_as_on_the_simulated_device),
		cmocka_unit_test(no_memory_goes_under_queued_work),
		cmocka_unit_test(a_call_with_an_idle_device_does_not_stall),
	};
	int code;

	if (without_gpu(&code))
		return code;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
