/* SPDX-License-Identifier: Apache-2.0
 *
 * test_baselines: two textbook allocators in one arena without an end, on the five recordings,
 * against figures that another program computed from the same recordings: highest address ever
 * used over load, with 512-byte rounding and streams ignored. And the default, which must hold
 * hardly more than best fit in one arena without an end would, and no more than PyTorch's expandable
 * segments did: its peak of memory reserved, in whole pages, streams kept apart; and `stitch`, which
 * must stay below that and 5 % above the load. And the driver's own pool, simulated, against what it
 * held under PyTorch (backend:cudaMallocAsync) in a run of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "allocators/allocator.h"
#include "replay/trace.h"

static const struct baseline {
	const char *trace;
	uint64_t load_bytes;
	double buddy;        /* binary buddy, lowest address first */
	double power_of_two; /* power-of-two classes, never returned */
	double best_fit;     /* best fit in one arena */
	double expandable;   /* PyTorch with expandable segments, reserved */
	double async;        /* PyTorch with cudaMallocAsync, reserved */
	/* How far off the simulated pool may be. The last program but one waits between its streams in
	 * ways of which a recording tells nothing. */
	double async_error;
} baselines[] = {
	{ "llm_train", 9961490336, 1.940, 2.526, 1.075, 1.077, 1.091, 0.10 },
	{ "llm_serve", 688460032, 1.267, 1.863, 1.000, 1.036, 1.023, 0.10 },
	{ "vision_train", 4069464604, 1.055, 1.246, 1.002, 1.013, 1.031, 0.10 },
	{ "multi_stream", 1717075968, 1.016, 1.832, 1.039, 1.236, 4.397, 0.13 },
	{ "diffusion", 522007744, 1.703, 1.869, 1.024, 1.069, 1.157, 0.10 },
};

static struct gp_trace *load(const char *name)
{
	const char *dir = getenv("GPUPOOL_TRACE_DIR");
	struct gp_trace *t;
	char path[512], why[256];

	snprintf(path, sizeof(path), "%s/%s.jsonl.gz", dir ? dir : "traces", name);
	if (gp_trace_load(path, NULL, &t, why, sizeof(why)))
		fail_msg("%s", why);
	return t;
}

/* Over load: the highest address from the first one on (the first request always gets the lowest),
 * and the most that was reserved. */
struct peak {
	double address, reserved;
};

/* What an event asks of an allocator that keeps deferred frees, or does not. */
static int replay_free(struct gp_allocator *a, const struct gp_event *e, uint64_t addr)
{
	bool deferred = e->op == GP_OP_FREE && gp_event_flags(e) & GP_EVENT_DEFERRED;

	if (deferred)
		return gp_can_defer(a) ? gp_defer(a, addr, e->id) : 0;
	if (e->op == GP_OP_RECLAIM && gp_can_defer(a))
		return gp_complete(a, addr, e->id);
	return gp_free(a, addr);
}

static struct peak replay(const struct gp_trace *t, const char *spec)
{
	/* A card that nothing recorded here can fill. */
	struct gp_device_config cfg = { .capacity = 512 * GP_GIB };
	uint64_t *addrs = calloc(t->n_ids, sizeof(*addrs)), first = 0, top = 0, most = 0;
	struct gp_usage u;
	struct gp_allocator *a;
	struct gp_device *dev;
	char why[256];

	if (gp_device_open_sim(&cfg, &dev, why, sizeof(why)) ||
	    gp_allocator_create(spec, dev, NULL, &a, why, sizeof(why)))
		fail_msg("%s", why);
	for (size_t i = 0; i < t->n_events; i++) {
		const struct gp_event *e = &t->events[i];
		struct gp_request req = { .size = e->size, .stream = e->stream };
		struct gp_block block;

		if (e->op == GP_OP_ALLOC) {
			assert_int_equal(gp_alloc(a, &req, &block), 0);
			addrs[e->id] = block.addr;
			first = first ? first : block.addr;
			top = block.addr + block.granted > top ? block.addr + block.granted : top;
			gp_usage(a, &u);
			most = u.reserved_bytes > most ? u.reserved_bytes : most;
		} else if (e->op == GP_OP_RECLAIM || e->op == GP_OP_FREE) {
			assert_int_equal(replay_free(a, e, addrs[e->id]), 0);
		}
	}
	gp_allocator_destroy(a);
	gp_device_close(dev);
	free(addrs);
	return (struct peak){ (double)(top - first) / (double)t->load_bytes,
			      (double)most / (double)t->load_bytes };
}

static void one(const char *trace, const char *what, double got, double expected)
{
	print_message("# %-14s %-14s %.4f, expected %.3f\n", trace, what, got, expected);
	assert_true(fabs(got / expected - 1) <= 0.02);
}

static void recordings_agree(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(baselines); i++) {
		const struct baseline *b = &baselines[i];
		struct gp_trace *t = load(b->trace);

		assert_int_equal(t->load_bytes, b->load_bytes);
		one(b->trace, "buddy",
		    replay(t, "buddy:grow=prealloc,initial=256GiB,streams=ignore").address,
		    b->buddy);
		one(b->trace, "power of two",
		    replay(t, "segregated:classes=1,coalesce=false,grow=prealloc,"
			      "initial=256GiB,streams=ignore")
			    .address,
		    b->power_of_two);
		gp_trace_destroy(t);
	}
}

static void default_is_tight(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(baselines); i++) {
		const struct baseline *b = &baselines[i];
		struct gp_trace *t = load(b->trace);
		double got = replay(t, "hybrid").reserved;

		print_message("# %-14s %-14s %.4f, at most %.4f and %.3f\n", b->trace, "hybrid",
			      got, 1.02 * b->best_fit, b->expandable);
		assert_true(got <= 1.02 * b->best_fit && got <= b->expandable);
		gp_trace_destroy(t);
	}
}

/* With blocks of several holes no heap needs the holes that best fit leaves. */
static void stitch_is_tighter(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(baselines); i++) {
		const struct baseline *b = &baselines[i];
		struct gp_trace *t = load(b->trace);
		double got = replay(t, "stitch").reserved, hybrid = replay(t, "hybrid").reserved;

		print_message("# %-14s %-14s %.4f, at most 1.05 and hybrid's %.4f\n", b->trace,
			      "stitch", got, hybrid);
		assert_true(got <= 1.05 && got <= hybrid);
		gp_trace_destroy(t);
	}
}

static void driver_pool_holds_what_it_did(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(baselines); i++) {
		const struct baseline *b = &baselines[i];
		struct gp_trace *t = load(b->trace);
		double got = replay(t, "async").reserved;

		print_message("# %-14s %-14s %.4f, on the card %.3f\n", b->trace, "async", got,
			      b->async);
		assert_true(fabs(got / b->async - 1) <= b->async_error);
		gp_trace_destroy(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(recordings_agree),
					    cmocka_unit_test(default_is_tight),
					    cmocka_unit_test(stitch_is_tighter),
					    cmocka_unit_test(driver_pool_holds_what_it_did) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
