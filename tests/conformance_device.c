/* SPDX-License-Identifier: Apache-2.0
 *
 * conformance_device: the part of the conformance suite (test_conformance.c) about what lies around
 * an allocator: streams, a driver that fails, the heap map, threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conformance.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

/* ---- streams ---- */

void same_stream_reuses_without_a_wait(void **state)
{
	uint64_t addr, first;
	struct pool p;

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
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
void another_stream_waits_before_it_takes(void **state)
{
	uint64_t addr, seed = 8, waits;
	struct gp_device_stats stats;
	struct pool p;
	size_t n;

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
	n = conformance_fill(&p, 60 * GP_KIB, 1);
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
void one_call_without_memory(void **state)
{
	struct gp_device_config cfg = { .capacity = TEST_CAPACITY };
	struct gp_device_stats stats;
	struct pool p;

	for (cfg.inject.fail_call = 1; cfg.inject.fail_call < 2000; cfg.inject.fail_call++) {
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
	fail_msg("still failing at call %" PRIu64, cfg.inject.fail_call);
}

/* The n-th call of each kind breaks with a fault, which is passed on and harms nothing else. */
void one_call_with_a_fault(void **state)
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

void card_with_next_to_no_memory(void **state)
{
	struct gp_device_config cfg = { 0 };
	struct pool p;

	for (cfg.capacity = 2 * GP_MIB; cfg.capacity <= 64 * GP_MIB; cfg.capacity *= 2) {
		uint64_t seed = 10;

		if (pool_try_open(&p, *state, &cfg, SPY_HOOK_N, 0))
			continue;
		conformance_holes(&p, &seed, N_BLOCKS, 16 * GP_MIB);
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

/* A block is shown live, or the pieces that it is made of are. */
static void walk_has(const struct pool *p, const struct test_intervals *seen,
		     const struct test_interval *block)
{
	for (uint64_t at = 0, left; at < block->size; at += left) {
		const struct test_interval *v;
		uint64_t addr;

		left = block->size - at;
		addr = spy_place(&p->spy, block->addr + at, &left);
		v = test_intervals_overlap(seen, addr, left);
		if (!v || !v->tag || v->addr > addr || v->addr + v->size < addr + left)
			fail_msg("the block 0x%" PRIx64 " is not shown live", block->addr);
	}
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
	for (size_t i = 0; i < p->live.n; i++)
		walk_has(p, &m.seen, &p->live.at[i]);
	if (m.seen.n >= 3)
		assert_int_equal(gp_walk(p->a, map_stop, &left), 77);
	test_intervals_fini(&m.seen);
}

void walk_tiles_what_is_reserved(void **state)
{
	uint64_t seed = 11;
	struct pool p;

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
	if (!pool_bare(&p)->ops->walk) {
		assert_int_equal(gp_walk(p.a, map_stop, NULL), -ENOTSUP);
		pool_close(&p);
		return;
	}
	walk_once(&p);
	for (unsigned i = 0; i < 10; i++) {
		conformance_holes(&p, &seed, 100, 2 * GP_MIB);
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

void threads_at_once(void **state)
{
	struct worker workers[N_THREADS];
	struct pool p;

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, N_THREADS);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < N_THREADS; i++) {
			workers[i] = (struct worker){ .a = p.a, .index = i };
			assert_int_equal(
				pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
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
