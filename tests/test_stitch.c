/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stitch: blocks made of several holes: what they are made of, what they cost, what becomes of
 * the mappings. That no two blocks share memory is what the conformance and model suites look at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MIB GP_MIB
/* Nothing may be held beside what was granted. */
#define TIGHT "stitch:slack=0,slack_min=0,large=1M"
#define WORD  UINT64_C(0x1122334455667788)

static struct gp_device_stats stats_of(const struct pool *p)
{
	struct gp_device_stats stats;

	gp_device_stats(p->dev, &stats);
	return stats;
}

static uint64_t take(struct pool *p, uint64_t size, uint32_t stream)
{
	uint64_t addr = 0;

	if (pool_alloc(p, size, 0, stream, &addr))
		fail_msg("no %" PRIu64 " bytes", size);
	pool_audit(p);
	return addr;
}

static void give(struct pool *p, uint64_t addr)
{
	pool_free(p, addr);
	pool_audit(p);
}

/* Blocks of `size`, each a handle, of which those with an even number are free again. */
#define N_BLOCKS 6

static void open_with_holes(struct pool *p, const char *spec, uint64_t size,
			    uint64_t blocks[N_BLOCKS], uint32_t stream)
{
	pool_open(p, spec, NULL, TEST_CAPACITY, 1);
	for (unsigned i = 0; i < N_BLOCKS; i++)
		blocks[i] = take(p, size, stream);
	for (unsigned i = 0; i < N_BLOCKS; i += 2)
		give(p, blocks[i]);
}

static void expect_word(struct pool *p, uint64_t addr, uint64_t size, uint64_t word)
{
	uint64_t bad = 0, found = 0;

	if (gp_device_verify(p->dev, addr, size, word, 0, &bad, &found))
		fail_msg("0x%" PRIx64 " + %" PRIu64 " has 0x%" PRIx64, addr, bad, found);
}

/* |free|used|free|used|free|used|: three holes of 8 MiB are one block of 24 MiB, with no more
 * memory; what is written there is written in the holes, and nowhere else. */
static void holes_are_one_block(void **state)
{
	uint64_t b[N_BLOCKS], block;
	struct pool p;

	(void)state;
	open_with_holes(&p, TIGHT, 8 * MIB, b, 0);
	for (unsigned i = 0; i < N_BLOCKS; i++)
		assert_int_equal(gp_device_fill(p.dev, b[i], 8 * MIB, i, 0), 0);
	block = take(&p, 24 * MIB, 0);
	assert_int_equal(pool_usage(&p).reserved_bytes, 48 * MIB);
	assert_int_equal(stats_of(&p).calls[GP_CALL_MAP], N_BLOCKS + 3);
	assert_int_equal(stats_of(&p).calls[GP_CALL_CREATE], N_BLOCKS);
	assert_int_equal(stats_of(&p).calls[GP_CALL_SYNC], 0);
	assert_int_equal(gp_device_fill(p.dev, block, 24 * MIB, WORD, 0), 0);
	for (unsigned i = 0; i < N_BLOCKS; i++)
		expect_word(&p, b[i], 8 * MIB, i % 2 ? i : WORD);
	/* In use through the view, they are in use at home. */
	pool_refuses_free(&p, b[0], -EINVAL);
	pool_refuses_free(&p, block + 8 * MIB, -EINVAL);
	give(&p, block);
	pool_refuses_free(&p, block, -EALREADY);
	/* At home again, each of its own. */
	for (unsigned i = 0; i < N_BLOCKS; i += 2)
		take(&p, 8 * MIB, 0);
	assert_int_equal(pool_usage(&p).reserved_bytes, 48 * MIB);
	pool_close(&p);
}

/* A view stays: the next block of its size costs no call of the driver, and what part of it is free
 * serves a smaller one. */
static void views_serve_again(void **state)
{
	uint64_t b[N_BLOCKS], block;
	struct gp_device_stats before;
	struct pool p;

	(void)state;
	open_with_holes(&p, TIGHT, 8 * MIB, b, 0);
	block = take(&p, 24 * MIB, 0);
	give(&p, block);
	before = stats_of(&p);
	assert_int_equal(take(&p, 24 * MIB, 0), block);
	give(&p, block);
	assert_int_equal(take(&p, 20 * MIB - 256, 0), block);
	give(&p, block);
	for (unsigned i = 0; i < 2; i++) {
		/* The view's first or its last handle is used at home. */
		uint64_t at_home = take(&p, 8 * MIB, 0);

		assert_true(at_home == b[0] || at_home == b[2] || at_home == b[4]);
		if (at_home == b[2]) {
			uint64_t other = take(&p, 8 * MIB, 0);

			give(&p, at_home);
			at_home = other;
		}
		block = take(&p, 16 * MIB, 0);
		assert_true(at_home != b[0] || block > b[5] + 8 * MIB);
		give(&p, block);
		give(&p, at_home);
	}
	assert_int_equal(stats_of(&p).calls[GP_CALL_MAP], before.calls[GP_CALL_MAP]);
	assert_int_equal(stats_of(&p).calls[GP_CALL_UNMAP], 0);
	assert_int_equal(stats_of(&p).calls[GP_CALL_SYNC], 0);
	pool_close(&p);
}

/* Just what is missing to the holes is bought. */
static void missing_memory_is_added(void **state)
{
	uint64_t b[N_BLOCKS], block;
	struct pool p;

	(void)state;
	open_with_holes(&p, TIGHT, 8 * MIB, b, 0);
	give(&p, take(&p, 24 * MIB, 0));
	block = take(&p, 29 * MIB, 0);
	assert_int_equal(pool_usage(&p).reserved_bytes, 54 * MIB);
	give(&p, block);
	/* Within the slack nothing is stitched: it grows by what is missing to the hole at the end. */
	pool_close(&p);
	open_with_holes(&p, "stitch:slack=1,large=1M", 8 * MIB, b, 0);
	block = take(&p, 29 * MIB, 0);
	assert_int_equal(pool_usage(&p).reserved_bytes, 78 * MIB);
	assert_int_equal(stats_of(&p).calls[GP_CALL_MAP], stats_of(&p).calls[GP_CALL_CREATE]);
	pool_close(&p);
}

/* The block begins in the free end of one handle and ends in the free start of another, whose rest is
 * used by others. Guards of one page keep the holes apart. */
static void ends_are_shared(void **state)
{
	uint64_t first, middle, last, start, guard[2], block;
	struct pool p;

	(void)state;
	pool_open(&p, TIGHT, NULL, TEST_CAPACITY, 1);
	first = take(&p, 10 * MIB, 0);
	guard[0] = take(&p, 2 * MIB, 0);
	middle = take(&p, 10 * MIB, 0);
	guard[1] = take(&p, 2 * MIB, 0);
	last = take(&p, 10 * MIB, 0);
	give(&p, last);
	start = take(&p, 3 * MIB, 0);
	assert_int_equal(start, last);
	last = take(&p, 7 * MIB, 0);
	assert_int_equal(last, start + 3 * MIB);
	give(&p, first);
	assert_int_equal(take(&p, 6 * MIB, 0), first);
	give(&p, middle);
	give(&p, start);
	/* 4 + 10 + 3 */
	block = take(&p, 17 * MIB, 0);
	assert_int_equal(pool_usage(&p).reserved_bytes, 34 * MIB);
	assert_int_equal(gp_device_fill(p.dev, first, 6 * MIB, 1, 0), 0);
	assert_int_equal(gp_device_fill(p.dev, block, 17 * MIB, WORD, 0), 0);
	assert_int_equal(gp_device_fill(p.dev, last, 7 * MIB, 2, 0), 0);
	expect_word(&p, block, 17 * MIB, WORD);
	expect_word(&p, first, 6 * MIB, 1);
	expect_word(&p, first + 6 * MIB, 4 * MIB, WORD);
	expect_word(&p, start, 3 * MIB, WORD);
	(void)guard;
	pool_close(&p);
}

/* On a full card, where no handle can go back, holes serve blocks of any size. */
static void full_card_stitches_small_blocks(void **state)
{
	uint64_t a, b, c, block;
	struct pool p;

	(void)state;
	pool_open(&p, "stitch", NULL, 24 * MIB, 1);
	a = take(&p, 8 * MIB, 0);
	b = take(&p, 8 * MIB, 0);
	c = take(&p, 8 * MIB, 0);
	give(&p, c);
	c = take(&p, 2 * MIB, 0);
	take(&p, 6 * MIB, 0);
	give(&p, a);
	assert_int_equal(take(&p, 6 * MIB, 0), a);
	give(&p, c);
	assert_int_equal(pool_alloc(&p, 5 * MIB, 0, 0, &block), GP_NOMEM);
	assert_int_equal(pool_alloc(&p, 4 * MIB, 22, 0, &block), GP_NOMEM); /* no view begins so */
	block = take(&p, 4 * MIB, 0);
	assert_true(block < a || block >= b + 16 * MIB);
	assert_int_equal(pool_usage(&p).granted_bytes, 24 * MIB);
	pool_close(&p);
}

/* With as many views as there may be, half of those without a block go, behind one wait. */
static void views_are_few(void **state)
{
	uint64_t b[N_BLOCKS], block[3];
	struct pool p;

	(void)state;
	open_with_holes(&p, TIGHT ",views=2", 4 * MIB, b, 0);
	block[0] = take(&p, 8 * MIB, 0);
	block[1] = take(&p, 6 * MIB, 0);
	give(&p, block[0]);
	give(&p, block[1]);
	assert_int_equal(stats_of(&p).calls[GP_CALL_SYNC], 0);
	block[2] = take(&p, 12 * MIB, 0);
	assert_int_equal(stats_of(&p).calls[GP_CALL_SYNC], 1);
	assert_int_equal(stats_of(&p).calls[GP_CALL_UNMAP], 1);
	/* All live: there are more, rather than a block less. */
	give(&p, block[2]);
	for (unsigned i = 0; i < 3; i++)
		take(&p, 4 * MIB, 0);
	for (unsigned i = 0; i < 3; i++)
		block[i] = take(&p, 4 * MIB, 0);
	pool_free_all(&p);
	assert_int_equal(gp_trim(p.a, 0, NULL), 0);
	assert_int_equal(pool_usage(&p).reserved_bytes, 0);
	assert_int_equal(p.spy.same.n, 0);
	pool_close(&p);
}

/* A view made for a larger block lets go of the handles that its block does not need. */
static void trim_takes_what_a_live_view_does_not_use(void **state)
{
	uint64_t b[N_BLOCKS], block, released = 0;
	struct pool p;

	(void)state;
	open_with_holes(&p, TIGHT, 8 * MIB, b, 0);
	give(&p, take(&p, 24 * MIB, 0));
	block = take(&p, 12 * MIB, 0);
	assert_int_equal(gp_device_fill(p.dev, block, 12 * MIB, WORD, 0), 0);
	assert_int_equal(gp_trim(p.a, 0, &released), 0);
	assert_int_equal(released, 8 * MIB);
	pool_audit(&p);
	expect_word(&p, block, 12 * MIB, WORD);
	give(&p, block);
	pool_close(&p);
}

/* The holes were left by stream 1: stream 2 waits for it, once. */
static void another_streams_holes_need_a_wait(void **state)
{
	uint64_t b[N_BLOCKS];
	struct pool p;

	(void)state;
	open_with_holes(&p, TIGHT, 8 * MIB, b, 1);
	take(&p, 24 * MIB, 2); /* pool_alloc asks the spy */
	assert_int_equal(p.spy.waits, 1);
	pool_close(&p);
}

/* Every block is written and looked at again by the check decorator. */
static void contents_are_nobody_elses(void **state)
{
	static const char *const checked[] = { "check", NULL };
	uint64_t seed = 5, addr;
	struct gp_device_stats stats;
	struct pool p;

	(void)state;
	pool_open(&p, TIGHT ",handle=6M,views=8", checked, TEST_CAPACITY, 1);
	for (unsigned i = 0; i < 1500; i++) {
		if (p.live.n > 24 || (p.live.n && test_below(&seed, 5) < 2))
			pool_free(&p, p.live.at[test_below(&seed, p.live.n)].addr);
		else
			pool_alloc(&p, test_log_uniform(&seed, 64 * GP_KIB, 48 * MIB), 0,
				   (uint32_t)test_below(&seed, 3), &addr);
	}
	pool_audit(&p);
	stats = stats_of(&p);
	assert_true(stats.calls[GP_CALL_MAP] > stats.calls[GP_CALL_CREATE] + 100);
	pool_free_all(&p);
	pool_audit(&p);
	pool_close(&p);
}

/* Makes views, uses them again, has too many of them and trims, whatever fails on the way. */
static void work_whatever_fails(struct gp_allocator *a)
{
	uint64_t at[10] = { 0 };
	struct gp_block block;

	for (unsigned i = 0; i < 60; i++) {
		struct gp_request req = { .size = (4 + 4 * (i * 7 % 5)) * MIB, .stream = i % 2 };
		uint64_t *slot = &at[i * 3 % GP_ARRAY_LEN(at)];

		if (*slot && gp_free(a, *slot) != -EALREADY)
			*slot = 0;
		if (i % 3 && !gp_alloc(a, &req, &block))
			*slot = block.addr;
		if (i == 40)
			gp_trim(a, 0, NULL);
	}
}

/* The n-th call of the driver finds no memory, or breaks and all after it, for every n. */
static void any_call_may_fail(void **state)
{
	struct gp_injection inject = { 0 };
	uint64_t *const kinds[] = { &inject.fail_call, &inject.lost_call, &inject.sticky_call };

	(void)state;
	for (size_t k = 0; k < GP_ARRAY_LEN(kinds); k++) {
		struct gp_device_stats stats = { .failures = 1 };

		for (uint64_t n = 1; stats.failures; n++) {
			struct gp_device_config cfg = { .capacity = 96 * MIB };
			struct gp_allocator *a = NULL;
			struct gp_device *dev;
			char why[160] = "";

			inject = (struct gp_injection){ 0 };
			*kinds[k] = n;
			cfg.inject = inject;
			assert_int_equal(gp_device_open_sim(&cfg, &dev, why, sizeof(why)), 0);
			if (!gp_allocator_create(TIGHT ",handle=6M,views=2", dev, NULL, &a, why,
						 sizeof(why)))
				work_whatever_fails(a);
			if (a && !gp_device_broken(dev) && gp_check(a, stderr))
				fail_msg("call %" PRIu64 ": check", n);
			gp_allocator_destroy(a);
			gp_device_stats(dev, &stats);
			assert_int_equal(stats.reserved_bytes, 0);
			assert_true(n < 2000);
			gp_device_close(dev);
		}
	}
}

/* A device without virtual memory is named as the reason. */
static void needs_virtual_memory(void **state)
{
	struct gp_device_config cfg = { 0 };
	struct gp_allocator *a = NULL;
	struct gp_device *dev;
	char why[160] = "";

	(void)state;
	assert_int_equal(gp_device_open_sim(&cfg, &dev, why, sizeof(why)), 0);
	dev->info.vmm = false;
	assert_int_equal(gp_allocator_create("stitch", dev, NULL, &a, why, sizeof(why)), -ENOTSUP);
	assert_non_null(strstr(why, "maps no memory"));
	gp_device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holes_are_one_block),
		cmocka_unit_test(views_serve_again),
		cmocka_unit_test(missing_memory_is_added),
		cmocka_unit_test(ends_are_shared),
		cmocka_unit_test(full_card_stitches_small_blocks),
		cmocka_unit_test(views_are_few),
		cmocka_unit_test(trim_takes_what_a_live_view_does_not_use),
		cmocka_unit_test(another_streams_holes_need_a_wait),
		cmocka_unit_test(contents_are_nobody_elses),
		cmocka_unit_test(any_call_may_fail),
		cmocka_unit_test(needs_virtual_memory),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
