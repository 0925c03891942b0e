/* SPDX-License-Identifier: Apache-2.0
 *
 * test_conformance SPEC [PATTERN]: holds one allocator to the contract of allocators/allocator.h. Where it
 * takes the options of pool.h and SPEC does not say how it grows, every way of growing. PATTERN
 * ("*double*") picks tests by name.
 *
 * Nearly everything runs below the `check` decorator, on a simulated device that a spy listens to
 * (support.h): each block is judged as it is handed out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const checked[] = { "check", NULL };
static const char *const filled[] = { "check:fill=true", NULL };

#define N_BLOCKS 300

/* A heap with holes: n requests of mixed sizes and streams, about every third freed again. */
static void make_holes(struct pool *p, uint64_t *seed, unsigned n, uint64_t largest)
{
	uint64_t addr;

	for (unsigned i = 0; i < n; i++) {
		pool_alloc(p, test_log_uniform(seed, 1, largest), 0, (uint32_t)test_below(seed, 3),
			   &addr);
		if (i % 3 == 2 && p->live.n)
			pool_free(p, p->live.at[test_below(seed, p->live.n)].addr);
	}
	pool_audit(p);
}

/* Asks for blocks of one size until there are no more; how many came. */
static size_t fill_up(struct pool *p, uint64_t size, uint32_t stream)
{
	uint64_t addr;
	size_t n = 0;

	while (!pool_alloc(p, size, 0, stream, &addr))
		n++;
	return n;
}

/* What one block may be in this pool at all: a pool that took its memory beforehand has no more. */
static uint64_t largest_request(const struct pool *p)
{
	uint64_t reserved = pool_usage(p).reserved_bytes;

	return gp_min_u64(TEST_CAPACITY / 2, reserved ? reserved : TEST_CAPACITY / 2);
}

/* ---- single calls ---- */

static void ops_are_complete(void **state)
{
	struct pool p;
	const struct gp_allocator_ops *ops;

	pool_open(&p, *state, NULL, TEST_CAPACITY, 1);
	ops = p.a->ops;
	assert_true(ops->name[0] >= 'a' && ops->name[0] <= 'z');
	assert_int_equal(strspn(ops->name, "abcdefghijklmnopqrstuvwxyz0123456789_"),
			 strlen(ops->name));
	assert_true(ops->summary && *ops->summary && !strchr(ops->summary, '\n'));
	assert_ptr_equal(gp_allocator_find(ops->name), ops);
	assert_true(ops->init && ops->fini && ops->alloc && ops->free && ops->usage);
	assert_non_null(ops->check);
	for (const struct gp_option *o = ops->options; o && o->name; o++)
		assert_true(o->help && o->default_text && o->offset < ops->state_size);
	pool_close(&p);
}

static void zero_bytes_are_address_zero(void **state)
{
	struct gp_request req = { .size = 0 };
	struct gp_block block = { 1, 1 };
	struct gp_usage before, after;
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	before = pool_usage(&p);
	assert_int_equal(gp_alloc(p.a, &req, &block), 0);
	assert_true(block.addr == 0 && block.granted == 0);
	assert_int_equal(gp_free(p.a, 0), 0);
	after = pool_usage(&p);
	assert_memory_equal(&before, &after, sizeof(before));
	pool_close(&p);
}

static void too_large_is_an_outcome(void **state)
{
	static const uint64_t sizes[] = { UINT64_MAX,	     GP_SIZE_MAX + 1,
					  GP_SIZE_MAX,	     GP_SIZE_MAX - 1,
					  UINT64_C(1) << 59, UINT64_C(1) << 48,
					  TEST_CAPACITY + 1 };
	struct gp_usage before, after;
	uint64_t addr;
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	assert_int_equal(pool_alloc(&p, 1000, 0, 0, &addr), 0);
	for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++) {
		before = pool_usage(&p);
		assert_true(pool_alloc(&p, sizes[i], 0, 0, &addr) > 0);
		assert_true(pool_alloc(&p, sizes[i], 12, 1, &addr) > 0);
		after = pool_usage(&p);
		assert_memory_equal(&before, &after, sizeof(before));
		pool_audit(&p);
	}
	assert_int_equal(pool_alloc(&p, 1000, 0, 0, &addr), 0);
	pool_close(&p);
}

/* An alignment that the allocator does not serve is refused, never ignored (pool_alloc looks). */
static void alignment_is_kept(void **state)
{
	uint64_t seed = 1, addr;
	struct pool p;
	int r;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	for (unsigned lg = 0; lg <= 27; lg++)
		for (unsigned i = 0; i < 6; i++) {
			r = pool_alloc(&p, test_log_uniform(&seed, 1, 60 * GP_KIB), lg, i % 2,
				       &addr);
			if (lg <= 8)
				assert_int_equal(r, 0);
			if (!r && i % 2)
				pool_free(&p, addr);
		}
	for (unsigned lg = 28; lg < 64; lg++)
		pool_alloc(&p, 1000, lg, 0, &addr);
	pool_audit(&p);
	pool_free_all(&p);
	pool_audit(&p);
	pool_close(&p);
}

/* By who claims to; who does not may refuse, and then says that it is a rule. */
static void every_size_is_served(void **state)
{
	uint64_t addr, limit;
	struct pool p;
	int r;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	limit = largest_request(&p);
	for (unsigned lg = 0; UINT64_C(1) << lg <= limit; lg++)
		for (int d = -1; d <= 1; d++) {
			uint64_t size = (UINT64_C(1) << lg) + (uint64_t)d;

			if (!size || size > limit)
				continue;
			r = pool_alloc(&p, size, 0, 0, &addr);
			if (r && (r != GP_REFUSED || pool_has(&p, GP_CAP_ANY_SIZE)))
				fail_msg("%" PRIu64 " bytes: %s", size, gp_result_text(r));
			if (!r)
				pool_free(&p, addr);
			assert_int_equal(gp_trim(p.a, 0, NULL), 0);
		}
	pool_audit(&p);
	pool_close(&p);
}

/* ---- many blocks ---- */

static void blocks_stay_apart_and_usage_adds_up(void **state)
{
	uint64_t seed = 2, addr;
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		pool_alloc(&p, test_log_uniform(&seed, 1, 60 * GP_KIB), 0, i % 4, &addr);
		pool_audit(&p);
	}
	assert_true(p.live.n > N_BLOCKS / 2);
	while (p.live.n) {
		pool_free(&p, p.live.at[test_below(&seed, p.live.n)].addr);
		pool_audit(&p);
	}
	pool_close(&p);
}

static void contents_are_nobody_elses(void **state)
{
	uint64_t seed = 3;
	struct pool p;

	pool_open(&p, *state, filled, TEST_CAPACITY, 1);
	make_holes(&p, &seed, N_BLOCKS, 8 * GP_MIB);
	pool_free_all(&p);
	make_holes(&p, &seed, N_BLOCKS, 8 * GP_MIB);
	pool_free_all(&p);
	pool_audit(&p);
	pool_close(&p);
}

/* Until the device is full, twice, for several sizes; a refusal changes nothing. */
static void out_of_memory_leaves_all_intact(void **state)
{
	static const uint64_t sizes[] = { 60 * GP_KIB, GP_MIB, 3 * GP_MIB + 512, 40 * GP_MIB };
	struct gp_usage before, after;
	uint64_t addr;
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++) {
		size_t first = fill_up(&p, sizes[i], 0), again;

		before = pool_usage(&p);
		assert_true(pool_alloc(&p, sizes[i], 0, 0, &addr) > 0);
		assert_true(pool_alloc(&p, sizes[i] + 1, 0, 1, &addr) > 0);
		after = pool_usage(&p);
		assert_int_equal(after.live_blocks, before.live_blocks);
		assert_int_equal(after.granted_bytes, before.granted_bytes);
		assert_true(after.reserved_bytes <= before.reserved_bytes);
		pool_audit(&p);
		if (pool_has(&p, GP_CAP_ANY_SIZE))
			assert_true(first * sizes[i] >= TEST_CAPACITY / 4);
		pool_free_all(&p);
		pool_audit(&p);
		again = fill_up(&p, sizes[i], 0);
		assert_true(again >= first);
		pool_free_all(&p);
	}
	pool_close(&p);
}

static void free_and_trim_return_everything(void **state)
{
	uint64_t seed = 4, at_start, released = 0, addr;
	struct gp_usage before, after;
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	at_start = pool_usage(&p).reserved_bytes;
	for (unsigned round = 0; round < 3; round++) {
		make_holes(&p, &seed, N_BLOCKS, GP_MIB << round);
		pool_free_all(&p);
		before = pool_usage(&p);
		released = 0;
		assert_int_equal(gp_trim(p.a, 0, &released), 0);
		after = pool_usage(&p);
		assert_int_equal(before.reserved_bytes - after.reserved_bytes, released);
		if (pool_has(&p, GP_CAP_COALESCES))
			assert_true(after.reserved_bytes <= at_start);
		pool_audit(&p);
	}
	assert_int_equal(pool_alloc(&p, 1000, 0, 0, &addr), 0);
	pool_close(&p);
}

static void trim_keeps_what_it_is_told_to(void **state)
{
	uint64_t seed = 5, released = 0, reserved;
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	make_holes(&p, &seed, N_BLOCKS, 4 * GP_MIB);
	for (unsigned i = 0; i < 200 && p.live.n; i++)
		pool_free(&p, p.live.at[test_below(&seed, p.live.n)].addr);
	reserved = pool_usage(&p).reserved_bytes;
	assert_int_equal(gp_trim(p.a, reserved, &released), 0);
	assert_int_equal(released, 0);
	assert_int_equal(pool_usage(&p).reserved_bytes, reserved);
	assert_int_equal(gp_trim(p.a, reserved / 2, NULL), 0);
	pool_audit(&p);
	assert_int_equal(gp_trim(p.a, 0, NULL), 0);
	pool_audit(&p);
	make_holes(&p, &seed, N_BLOCKS, 4 * GP_MIB);
	pool_close(&p);
}

static void destroying_returns_live_blocks_too(void **state)
{
	uint64_t seed = 6;
	struct pool p;

	pool_open(&p, *state, NULL, TEST_CAPACITY, 1);
	make_holes(&p, &seed, N_BLOCKS, 4 * GP_MIB);
	assert_true(p.live.n);
	pool_close(&p);
}

/* ---- frees that must be refused ---- */

static uint64_t given_back(const struct pool *p)
{
	struct gp_device_stats stats;

	gp_device_stats(p->dev, &stats);
	return stats.calls[GP_CALL_RELEASE] + stats.calls[GP_CALL_UNMAP];
}

/* Where the memory went back to the device the pool cannot know the address any more. */
static void refuse_second_free(struct pool *p, uint64_t addr)
{
	uint64_t before = given_back(p);

	pool_free(p, addr);
	pool_refuses_free(p, addr, given_back(p) != before ? 0 : -EALREADY);
}

static void double_free_is_refused(void **state)
{
	uint64_t addr[8], seed = 7;
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	for (unsigned round = 0; round < 3; round++) {
		for (size_t i = 0; i < 8; i++)
			assert_int_equal(pool_alloc(&p, 700 + 7777 * i, 0, 0, &addr[i]), 0);
		refuse_second_free(&p, addr[3]);
		refuse_second_free(&p, addr[0]);
		refuse_second_free(&p, addr[7]);
		refuse_second_free(&p, addr[2]);
		/* Merged with its neighbours by now, perhaps: no block, or a free one. */
		pool_refuses_free(&p, addr[3], 0);
		pool_free_all(&p);
		for (size_t i = 0; i < 8; i++)
			pool_refuses_free(&p, addr[i], 0);
		make_holes(&p, &seed, 60, GP_MIB);
	}
	pool_close(&p);
}

static void foreign_addresses_are_refused(void **state)
{
	static const uint64_t nowhere[] = { 1, 255, 256, 4096, UINT64_C(1) << 47, GP_SIZE_MAX,
					    UINT64_MAX, UINT64_MAX & ~UINT64_C(255) };
	static const uint64_t inside[] = { 1, 128, 255, 256, 512, 4096, 30 * GP_KIB };
	struct gp_allocator *other;
	struct gp_request req = { .size = 5000 };
	struct gp_block theirs;
	uint64_t addr[16];
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	for (size_t i = 0; i < GP_ARRAY_LEN(nowhere); i++)
		pool_refuses_free(&p, nowhere[i], -EINVAL);
	for (size_t i = 0; i < GP_ARRAY_LEN(addr); i++)
		assert_int_equal(pool_alloc(&p, 60 * GP_KIB, 0, 0, &addr[i]), 0);
	for (size_t i = 0; i < GP_ARRAY_LEN(addr); i++)
		for (size_t k = 0; k < GP_ARRAY_LEN(inside); k++)
			pool_refuses_free(&p, addr[i] + inside[k], -EINVAL);
	for (size_t i = 0; i < GP_ARRAY_LEN(nowhere); i++)
		pool_refuses_free(&p, nowhere[i], -EINVAL);

	/* Another pool's, on the same device. */
	if (!gp_allocator_create("raw", p.dev, NULL, &other, NULL, 0) ||
	    !gp_allocator_create(*state, p.dev, NULL, &other, NULL, 0)) {
		if (!gp_alloc(other, &req, &theirs)) {
			pool_refuses_free(&p, theirs.addr, -EINVAL);
			assert_int_equal(gp_free(other, addr[0]), -EINVAL);
			assert_int_equal(gp_free(other, theirs.addr), 0);
		}
		gp_allocator_destroy(other);
	}
	pool_free_all(&p);
	pool_audit(&p);
	pool_close(&p);
}

/* ---- streams ---- */

static void same_stream_reuses_without_a_wait(void **state)
{
	uint64_t addr, first;
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	for (unsigned i = 0; i < 50; i++) {
		assert_int_equal(pool_alloc(&p, 50 * GP_KIB, 0, 1, &addr), 0);
		if (!i)
			first = pool_usage(&p).reserved_bytes;
		assert_true(pool_usage(&p).reserved_bytes <= first);
		pool_free(&p, addr);
	}
	assert_int_equal(p.spy.waits, 0);
	pool_close(&p);
}

/* An allocator made of others waits once in each that memory passes through. */
#define MAX_TIERS 3

/* All memory was last used on stream 1: stream 2 gets some of it only behind a wait (pool_alloc
 * asks the spy), and the same stream needs no second wait until something new is freed. */
static void another_stream_waits_before_it_takes(void **state)
{
	uint64_t addr, seed = 8, waits;
	struct gp_device_stats stats;
	struct pool p;
	size_t n;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	n = fill_up(&p, 60 * GP_KIB, 1);
	assert_true(n > 100);
	pool_free_all(&p);
	assert_int_equal(p.spy.waits, 0);
	for (size_t i = 0; i < n / 2; i++)
		assert_int_equal(pool_alloc(&p, 60 * GP_KIB, 0, 2, &addr), 0);
	waits = p.spy.waits;
	assert_true(waits <= MAX_TIERS);
	pool_audit(&p);
	pool_free_all(&p);
	for (unsigned i = 0; i < 2000; i++) {
		if (p.live.n && test_below(&seed, 100) < 45)
			pool_free(&p, p.live.at[test_below(&seed, p.live.n)].addr);
		else
			pool_alloc(&p, test_log_uniform(&seed, 1, 4 * GP_MIB), 0,
				   (uint32_t)test_below(&seed, 4), &addr);
	}
	pool_audit(&p);
	gp_device_stats(p.dev, &stats);
	assert_int_equal(stats.calls[GP_CALL_EVENT_WAIT], pool_usage(&p).event_waits);
	pool_close(&p);
}

/* ---- a driver that fails ---- */

/* Grows, shrinks and grows; returns how many requests were refused or failed. */
static unsigned work_with_faults(struct pool *p)
{
	uint64_t seed = 9;
	unsigned failed = 0;

	for (unsigned i = 0; i < 60; i++) {
		struct gp_request req = { .size = test_log_uniform(&seed, 1, 12 * GP_MIB),
					  .stream = i % 3 };
		struct gp_block block;
		int r = gp_alloc(p->a, &req, &block);

		failed += r != 0;
		if (!r)
			assert_true(test_intervals_add(&p->live, block.addr, block.granted,
						       req.stream));
		if (i % 4 == 3 && p->live.n) {
			uint64_t addr = p->live.at[test_below(&seed, p->live.n)].addr;

			assert_int_equal(gp_free(p->a, addr), 0);
			assert_true(test_intervals_remove(&p->live, addr));
		}
		pool_audit(p);
		if (i % 20 == 19) {
			assert_int_equal(gp_trim(p->a, 0, NULL), 0);
			pool_audit(p);
		}
	}
	while (p->live.n) {
		assert_int_equal(gp_free(p->a, p->live.at[0].addr), 0);
		assert_true(test_intervals_remove(&p->live, p->live.at[0].addr));
	}
	pool_audit(p);
	return failed;
}

/* The n-th reservation, creation or mapping finds no memory, for every n until none is left. */
static void one_call_without_memory(void **state)
{
	struct gp_device_config cfg = { .capacity = TEST_CAPACITY };
	struct gp_device_stats stats;
	struct pool p;

	for (cfg.fail_call = 1; cfg.fail_call < 2000; cfg.fail_call++) {
		int r = pool_try_open(&p, *state, &cfg, SPY_HOOK_N, 0);

		if (r) {
			assert_int_equal(r, GP_NOMEM);
			continue;
		}
		work_with_faults(&p);
		gp_device_stats(p.dev, &stats);
		pool_close(&p);
		if (!stats.failures)
			return;
	}
	fail_msg("still failing at call %" PRIu64, cfg.fail_call);
}

/* The n-th call of each kind breaks with a fault, which is passed on and harms nothing else. */
static void one_call_with_a_fault(void **state)
{
	const struct gp_device_config cfg = { .capacity = TEST_CAPACITY };
	struct pool p;

	for (int hook = 0; hook < SPY_HOOK_N; hook++)
		for (uint64_t nth = 1;; nth++) {
			bool reached;
			int r = pool_try_open(&p, *state, &cfg, (enum spy_hook)hook, nth);

			if (r) {
				assert_int_equal(r, -EIO);
				continue;
			}
			work_with_faults(&p);
			reached = p.spy.n_calls[hook] >= nth;
			pool_close(&p);
			if (!reached)
				break;
			assert_true(nth < 2000);
		}
}

static void card_with_next_to_no_memory(void **state)
{
	struct gp_device_config cfg = { 0 };
	struct pool p;

	for (cfg.capacity = 2 * GP_MIB; cfg.capacity <= 64 * GP_MIB; cfg.capacity *= 2) {
		uint64_t seed = 10;

		if (pool_try_open(&p, *state, &cfg, SPY_HOOK_N, 0))
			continue;
		make_holes(&p, &seed, N_BLOCKS, 16 * GP_MIB);
		pool_free_all(&p);
		pool_audit(&p);
		pool_close(&p);
	}
}

/* ---- the heap map ---- */

struct map {
	struct pool *p;
	struct test_intervals seen; /* tag: live */
};

static int map_range(void *arg, struct gp_range range, bool live)
{
	struct map *m = arg;

	assert_true(range.size > 0);
	if (!test_intervals_add(&m->seen, range.addr, range.size, live))
		fail_msg("0x%" PRIx64 " + %" PRIu64 " is shown twice", range.addr, range.size);
	return 0;
}

static int map_stop(void *arg, struct gp_range range, bool live)
{
	(void)range;
	(void)live;
	return --*(int *)arg ? 0 : 77;
}

static void walk_once(struct pool *p)
{
	struct map m = { .p = p };
	int left = 3;

	assert_int_equal(gp_walk(p->a, map_range, &m), 0);
	assert_int_equal(test_intervals_bytes(&m.seen), pool_usage(p).reserved_bytes);
	for (size_t i = 0; i < m.seen.n; i++)
		if (!test_intervals_overlap(&p->spy.held, m.seen.at[i].addr, m.seen.at[i].size))
			fail_msg("0x%" PRIx64 " is shown, but not held", m.seen.at[i].addr);
	for (size_t i = 0; i < p->live.n; i++) {
		const struct test_interval *b = &p->live.at[i];
		const struct test_interval *v = test_intervals_overlap(&m.seen, b->addr, b->size);

		if (!v || !v->tag || v->addr > b->addr || v->addr + v->size < b->addr + b->size)
			fail_msg("the block 0x%" PRIx64 " is not shown live", b->addr);
	}
	if (m.seen.n >= 3)
		assert_int_equal(gp_walk(p->a, map_stop, &left), 77);
	test_intervals_fini(&m.seen);
}

static void walk_tiles_what_is_reserved(void **state)
{
	uint64_t seed = 11;
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, 1);
	if (!pool_bare(&p)->ops->walk) {
		assert_int_equal(gp_walk(p.a, map_stop, NULL), -ENOTSUP);
		pool_close(&p);
		return;
	}
	walk_once(&p);
	for (unsigned i = 0; i < 10; i++) {
		make_holes(&p, &seed, 100, 2 * GP_MIB);
		walk_once(&p);
	}
	pool_free_all(&p);
	walk_once(&p);
	assert_int_equal(gp_trim(p.a, 0, NULL), 0);
	walk_once(&p);
	pool_close(&p);
}

/* ---- threads: by its own claim, or with the decorator that the core puts on top ---- */

#define N_THREADS 4

struct worker {
	pthread_t thread;
	struct gp_allocator *a;
	unsigned index;
	int fault;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t seed = 100 + w->index, addr[64] = { 0 };

	for (unsigned i = 0; i < 3000 && !w->fault; i++) {
		size_t k = test_below(&seed, GP_ARRAY_LEN(addr));
		struct gp_request req = { .size = test_log_uniform(&seed, 1, 60 * GP_KIB),
					  .stream = w->index % 4,
					  .thread = (uint16_t)w->index };
		struct gp_block block;
		int r;

		if (addr[k]) {
			r = gp_free(w->a, addr[k]);
			addr[k] = 0;
		} else {
			r = gp_alloc(w->a, &req, &block);
			if (!r)
				addr[k] = block.addr;
		}
		w->fault = r < 0 ? r : 0;
	}
	for (size_t k = 0; k < GP_ARRAY_LEN(addr); k++)
		if (addr[k] && !w->fault)
			w->fault = gp_free(w->a, addr[k]);
	return NULL;
}

static void threads_at_once(void **state)
{
	struct worker workers[N_THREADS];
	struct pool p;

	pool_open(&p, *state, checked, TEST_CAPACITY, N_THREADS);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < N_THREADS; i++) {
			workers[i] = (struct worker){ .a = p.a, .index = i };
			assert_int_equal(pthread_create(&workers[i].thread, NULL, work,
							&workers[i]), 0);
		}
		for (unsigned i = 0; i < N_THREADS; i++)
			pthread_join(workers[i].thread, NULL);
		for (unsigned i = 0; i < N_THREADS; i++)
			if (workers[i].fault)
				fail_msg("thread %u: %d: %s", i, workers[i].fault, p.a->why);
		pool_audit(&p);
		assert_int_equal(gp_trim(p.a, 0, NULL), 0);
		pool_audit(&p);
	}
	pool_close(&p);
}

/* ---- */

static const struct {
	const char *name;
	CMUnitTestFunction run;
} suite[] = {
	{ "ops are complete", ops_are_complete },
	{ "zero bytes are address zero", zero_bytes_are_address_zero },
	{ "too large is an outcome", too_large_is_an_outcome },
	{ "alignment is kept", alignment_is_kept },
	{ "every size is served", every_size_is_served },
	{ "blocks stay apart and usage adds up", blocks_stay_apart_and_usage_adds_up },
	{ "contents are nobody else's", contents_are_nobody_elses },
	{ "out of memory leaves all intact", out_of_memory_leaves_all_intact },
	{ "free and trim return everything", free_and_trim_return_everything },
	{ "trim keeps what it is told to", trim_keeps_what_it_is_told_to },
	{ "destroying returns live blocks too", destroying_returns_live_blocks_too },
	{ "double free is refused", double_free_is_refused },
	{ "foreign addresses are refused", foreign_addresses_are_refused },
	{ "same stream reuses without a wait", same_stream_reuses_without_a_wait },
	{ "another stream waits before it takes", another_stream_waits_before_it_takes },
	{ "one call without memory", one_call_without_memory },
	{ "one call with a fault", one_call_with_a_fault },
	{ "card with next to no memory", card_with_next_to_no_memory },
	{ "walk tiles what is reserved", walk_tiles_what_is_reserved },
	{ "threads at once", threads_at_once },
};

#define N_SUITE GP_ARRAY_LEN(suite)
int main(int argc, char **argv)
{
	static char specs[TEST_SPECS][TEST_SPEC_SIZE], names[TEST_SPECS * N_SUITE][240];
	struct CMUnitTest tests[TEST_SPECS * N_SUITE] = { 0 };
	size_t n_specs = argc >= 2 ? test_specs(argv[1], specs) : 0, n = 0;

	if (!n_specs) {
		fprintf(stderr, "usage: %s ALLOCATOR[:key=value,...] [PATTERN]\n", argv[0]);
		return 2;
	}
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	for (size_t i = 0; i < n_specs; i++)
		for (size_t k = 0; k < N_SUITE; k++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s: %s", specs[i], suite[k].name);
			tests[n] = (struct CMUnitTest){ .name = names[n],
							.test_func = suite[k].run,
							.initial_state = specs[i] };
		}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests(argv[1], tests, n, NULL, NULL);
}
