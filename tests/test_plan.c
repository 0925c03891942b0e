/* SPDX-License-Identifier: Apache-2.0
 *
 * test_plan: packings of random blocks against every order there is, the search against the same,
 * plans of recordings, and the back end that replays one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine_job.h"
#include "replay/packing.h"
#include "replay/plan.h"

static uint64_t rng;

static uint32_t below(uint32_t n)
{
	rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(rng >> 33) % n;
}

static uint32_t random_blocks(struct gp_pack_block *b, uint32_t n_max, uint32_t size_max)
{
	uint32_t n = 1 + below(n_max);

	for (uint32_t i = 0; i < n; i++)
		b[i] = (struct gp_pack_block){
			.size = (1 + below(size_max)) * GP_ALIGN,
			.life = 1 + below(9),
			.time = 1 + below(9),
			.end = i + 1 + below(n - i),
			.lg_align = 8,
		};
	return n;
}

/* The height of a packing in which nothing overlaps. */
static uint64_t sound_height(const struct gp_pack_block *b, uint32_t n)
{
	uint64_t top = 0;

	for (uint32_t i = 0; i < n; i++) {
		top = gp_max_u64(top, b[i].offset + b[i].size);
		assert_int_equal(b[i].offset & ((UINT64_C(1) << b[i].lg_align) - 1), 0);
		for (uint32_t k = 0; k < i; k++)
			assert_true(b[k].end <= i || b[i].offset >= b[k].offset + b[k].size ||
				    b[k].offset >= b[i].offset + b[i].size);
	}
	return top;
}

static void greedy_never_overlaps(void **state)
{
	struct gp_pack_block b[300];

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct gp_packing p;
		uint64_t height, lowest;

		rng = seed;
		print_message("# seed %llu\n", (unsigned long long)seed);
		assert_int_equal(gp_packing_init(&p, b, random_blocks(b, 300, 40)), 0);
		for (unsigned o = 0; o < GP_PACK_ORDER_N; o++) {
			for (uint32_t i = 0; i < p.n; i++)
				b[i].lg_align = (uint8_t)(8 + below(4));
			assert_int_equal(gp_packing_greedy(&p, o, UINT64_MAX, &height), 0);
			assert_int_equal(height, sound_height(b, p.n));
			assert_true(height >= p.bound);
			assert_int_equal(gp_packing_greedy(&p, o, height, &lowest), GP_NOMEM);
		}
		gp_packing_fini(&p);
	}
}

/* The lowest height of all orders: one of them is that of an optimum, from bottom to top. */
static uint64_t exhaust(struct gp_pack_block *b, uint32_t n, uint32_t placed, uint64_t best)
{
	if (placed == (1u << n) - 1)
		return gp_min_u64(best, sound_height(b, n));
	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = 0;
		bool moved = true;

		if (placed >> i & 1)
			continue;
		while (moved) {
			moved = false;
			for (uint32_t k = 0; k < n; k++) {
				bool together = i < b[k].end && k < b[i].end;

				if (placed >> k & 1 && together && at < b[k].offset + b[k].size &&
				    b[k].offset < at + b[i].size) {
					at = gp_pack_align(&b[i], b[k].offset + b[k].size);
					moved = true;
				}
			}
		}
		b[i].offset = at;
		best = exhaust(b, n, placed | 1u << i, best);
	}
	return best;
}

static void search_finds_the_lowest_and_proves_it(void **state)
{
	struct gp_pack_block b[7];
	unsigned above_bound = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct gp_packing p;
		uint64_t best;

		rng = seed;
		assert_int_equal(gp_packing_init(&p, b, random_blocks(b, 7, 6)), 0);
		/* Alignments make gaps; without them the bound is nearly always reached. */
		for (uint32_t i = 0; i < p.n; i++)
			b[i].lg_align = (uint8_t)(8 + below(3));
		best = exhaust(b, p.n, 0, UINT64_MAX);
		above_bound += best > p.bound;
		if (gp_packing_search(&p, best) || sound_height(b, p.n) > best ||
		    gp_packing_search(&p, best - 1) != GP_REFUSED)
			fail_msg("seed %llu: best is %llu", (unsigned long long)seed,
				 (unsigned long long)best);
		gp_packing_fini(&p);
	}
	/* Else the bound alone would have told. */
	assert_true(above_bound > 0);
}

static bool soon(void *arg)
{
	return ++*(unsigned *)arg > 200;
}

static void improvement_only_lowers(void **state)
{
	static struct gp_pack_block b[300];
	unsigned asked = 0;
	struct gp_packing p;
	uint64_t height, before;
	int r;

	(void)state;
	rng = 7;
	assert_int_equal(gp_packing_init(&p, b, random_blocks(b, 300, 40)), 0);
	assert_int_equal(gp_packing_greedy(&p, GP_PACK_BY_AREA, UINT64_MAX, &height), 0);
	before = height;
	p.expired = soon;
	p.expired_arg = &asked;
	r = gp_packing_improve(&p, GP_PACK_BY_AREA, &height);
	assert_int_equal(r, 0);
	assert_true(height < before && height >= p.bound);
	assert_int_equal(sound_height(b, p.n), height);
	gp_packing_fini(&p);
}

static void what_cannot_be_searched_is_said(void **state)
{
	static struct gp_pack_block b[GP_PACK_SEARCH_MAX + 1];
	struct gp_packing p;

	(void)state;
	for (uint32_t i = 0; i <= GP_PACK_SEARCH_MAX; i++)
		b[i] = (struct gp_pack_block){ .size = 256, .end = i + 1, .lg_align = 8 };
	assert_int_equal(gp_packing_init(&p, b, GP_PACK_SEARCH_MAX + 1), 0);
	assert_int_equal(p.bound, 256);
	assert_int_equal(gp_packing_search(&p, 255), GP_REFUSED);
	assert_int_equal(gp_packing_search(&p, 256), GP_NOMEM);
	gp_packing_fini(&p);
	assert_int_equal(gp_packing_init(&p, b, 0), 0);
	assert_int_equal(gp_packing_search(&p, 0), 0);
	gp_packing_fini(&p);
}

/* ---- plans of traces ---- */

static struct gp_plan *plan_of(const struct gp_trace *t, double seconds)
{
	struct gp_plan_config cfg = { .seconds = seconds };
	struct gp_plan *plan = NULL;

	assert_int_equal(gp_plan_make(t, &cfg, &plan), 0);
	return plan;
}

static void a_plan_of_a_small_trace(void **state)
{
	/* 1 and 2 leave a hole that 3 fits in only when 1 is not between: an allocator that does not
	 * know needs 4 pages, the plan 3. */
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB), ALLOC(.id = 2, .size = 2 * MIB),
			 FREE(.id = 1), ALLOC(.id = 3, .size = 4 * MIB), FREE(.id = 2),
			 ALLOC(.id = 4, .size = 0), FREE(.id = 3));
	struct gp_plan *plan = plan_of(t, 60);

	(void)state;
	assert_int_equal(plan->placement.n, 3);
	assert_int_equal(plan->bound, 6 * MIB);
	assert_int_equal(plan->placement.height, 6 * MIB);
	assert_true(gp_plan_above(plan, 9 * MIB) == 0.5);
	gp_plan_destroy(plan);
	gp_trace_destroy(t);
}

static void a_plan_of_nothing(void **state)
{
	struct gp_trace *t = TRACE_OF(SYNC(0));
	struct gp_plan *plan = plan_of(t, 60);
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_run *r;

	(void)state;
	assert_int_equal(plan->placement.height, 0);
	assert_true(gp_plan_above(plan, 0) == 0);
	cfg.plan = plan;
	r = run(t, "plan", &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	gp_plan_destroy(plan);
	finish(r, t);
}

static void no_time_no_plan(void **state)
{
	struct gp_trace *t = churn(1000, 512, 1);
	struct gp_plan_config cfg = { .seconds = 1e-9 };
	struct gp_plan *plan = NULL;

	(void)state;
	assert_int_equal(gp_plan_make(t, &cfg, &plan), GP_NOMEM);
	assert_null(plan);
	gp_trace_destroy(t);
}

#ifdef GP_TEST_ZLIB
/* These end at the bound, and then by themselves: the time is for machines far slower than any. */
static void recordings_are_planned_to_the_bound(void **state)
{
	static const char *const names[] = { "llm_serve", "multi_stream" };
	const char *dir = getenv("GPUPOOL_TRACE_DIR");

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(names); i++) {
		struct gp_plan *plan;
		struct gp_trace *t;
		char path[512], why[256];

		snprintf(path, sizeof(path), "%s/%s.jsonl.gz", dir ? dir : "traces", names[i]);
		assert_int_equal(gp_trace_load(path, NULL, &t, why, sizeof(why)), 0);
		plan = plan_of(t, 3600);
		print_message("# %s: %llu of %llu, %s, %.2f s\n", names[i],
			      (unsigned long long)plan->placement.height,
			      (unsigned long long)plan->bound, plan->how, plan->seconds);
		assert_int_equal(plan->placement.height, plan->bound);
		assert_true(plan->bound >= t->load_bytes &&
			    plan->bound < t->load_bytes + t->load_bytes / 1000);
		gp_plan_destroy(plan);
		gp_trace_destroy(t);
	}
}
#endif

/* ---- the back end ---- */

static void the_plan_is_replayed(void **state)
{
	static const char *const wraps[] = { "check" };
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB, .stream = 0),
				      ALLOC(.id = 2, .size = 2 * MIB, .stream = 0), FREE(.id = 1),
				      ALLOC(.id = 3, .size = 1 * MIB, .stream = 1, .align = 4096),
				      ALLOC(.id = 4, .size = 1 * MIB, .stream = 1), FREE(.id = 2),
				      FREE(.id = 3), FREE(.id = 4));
	struct gp_engine_config cfg = sim(GP_PASS_ALL);
	struct gp_plan *plan = plan_of(t, 60);
	struct gp_run *r;

	(void)state;
	cfg.plan = plan;
	cfg.wraps = wraps;
	cfg.n_wraps = 1;
	r = run(t, "plan", &cfg);
	if (r->status != GP_STATUS_OK)
		fail_msg("%s", r->why);
	assert_int_equal(r->memory.peak_reserved, 4 * MIB);
	assert_int_equal(r->driver.allocs, 1);
	/* Both blocks of stream 1 lie where stream 0 was; it frees nothing in between. */
	assert_int_equal(r->driver.event_waits, 1);
	gp_plan_destroy(plan);
	finish(r, t);
}

static void what_is_not_planned_is_refused(void **state)
{
	static const uint64_t offsets[] = { 0, 512 }, sizes[] = { 512, 256 };
	static const struct gp_placement placement = { offsets, sizes, 2, 768 };
	struct gp_device_config config = { .capacity = 64 * MIB };
	struct gp_env env = { .placement = &placement };
	struct gp_request req = { .size = 400 };
	struct gp_device *dev;
	struct gp_allocator *a;
	struct gp_block b1, b2;
	char why[160];

	(void)state;
	assert_int_equal(gp_device_open_sim(&config, &dev, why, sizeof(why)), 0);
	assert_int_equal(gp_allocator_create("plan", dev, NULL, &a, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "whole trace"));
	env.threads = 2;
	assert_int_equal(gp_allocator_create("plan", dev, &env, &a, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "one thread"));
	env.threads = 1;
	assert_int_equal(gp_allocator_create("plan", dev, &env, &a, why, sizeof(why)), 0);
	assert_int_equal(gp_alloc(a, &req, &b1), 0);
	assert_int_equal(b1.granted, 512);
	assert_int_equal(gp_alloc(a, &req, &b2), -EINVAL); /* 256 are planned */
	req.size = 256;
	req.lg_align = 10;
	assert_int_equal(gp_alloc(a, &req, &b2), GP_REFUSED); /* offset 512 */
	req.lg_align = 0;
	assert_int_equal(gp_alloc(a, &req, &b2), 0);
	assert_int_equal(b2.addr, b1.addr + 512);
	assert_int_equal(gp_alloc(a, &req, &b2), -EINVAL); /* none is left */
	assert_int_equal(gp_free(a, b1.addr + 256), -EINVAL);
	assert_int_equal(gp_free(a, b1.addr), 0);
	assert_int_equal(gp_free(a, b1.addr), -EALREADY);
	gp_allocator_destroy(a);
	gp_device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(greedy_never_overlaps),
		cmocka_unit_test(search_finds_the_lowest_and_proves_it),
		cmocka_unit_test(improvement_only_lowers),
		cmocka_unit_test(what_cannot_be_searched_is_said),
		cmocka_unit_test(a_plan_of_a_small_trace),
		cmocka_unit_test(a_plan_of_nothing),
		cmocka_unit_test(no_time_no_plan),
#ifdef GP_TEST_ZLIB
		cmocka_unit_test(recordings_are_planned_to_the_bound),
#endif
		cmocka_unit_test(the_plan_is_replayed),
		cmocka_unit_test(what_is_not_planned_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
