/* SPDX-License-Identifier: Apache-2.0
 *
 * test_conformance SPEC [PATTERN]: holds one allocator to the contract of allocators/allocator.h.
 * Where it takes the options of pool.h and SPEC does not say how it grows, every way of growing.
 * PATTERN ("*double*") picks tests by name. Blocks and frees are here; streams, a failing driver,
 * the heap map and threads in conformance_device.c.
 *
 * Nearly everything runs below the `check` decorator, on a simulated device that a spy listens to
 * (support.h): each block is judged as it is handed out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conformance.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const conformance_checked[] = { "check", NULL };

void conformance_holes(struct pool *p, uint64_t *seed, unsigned n, uint64_t largest)
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

size_t conformance_fill(struct pool *p, uint64_t size, uint32_t stream)
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

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
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
	static const uint64_t sizes[] = { UINT64_MAX,       GP_SIZE_MAX + 1,   GP_SIZE_MAX,
					  GP_SIZE_MAX - 1,  UINT64_C(1) << 59, UINT64_C(1) << 48,
					  TEST_CAPACITY + 1 };
	struct gp_usage before, after;
	uint64_t addr;
	struct pool p;

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
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

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
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

/* By an allocator that claims to; another may refuse, and then says that it is a rule. */
static void every_size_is_served(void **state)
{
	uint64_t addr, limit;
	bool any_size;
	struct pool p;
	int r;

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
	limit = largest_request(&p);
	any_size = pool_has(&p, GP_CAP_ANY_SIZE) && test_spec_is_default(*state);
	for (unsigned lg = 0; UINT64_C(1) << lg <= limit; lg++)
		for (int d = -1; d <= 1; d++) {
			uint64_t size = (UINT64_C(1) << lg) + (uint64_t)d;

			if (!size || size > limit)
				continue;
			r = pool_alloc(&p, size, 0, 0, &addr);
			if (r && (r != GP_REFUSED || any_size))
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

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
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

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
	conformance_holes(&p, &seed, N_BLOCKS, 8 * GP_MIB);
	pool_free_all(&p);
	conformance_holes(&p, &seed, N_BLOCKS, 8 * GP_MIB);
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

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
	for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++) {
		size_t first = conformance_fill(&p, sizes[i], 0), again;

		before = pool_usage(&p);
		assert_true(pool_alloc(&p, sizes[i], 0, 0, &addr) > 0);
		assert_true(pool_alloc(&p, sizes[i] + 1, 0, 1, &addr) > 0);
		after = pool_usage(&p);
		assert_int_equal(after.live_blocks, before.live_blocks);
		assert_int_equal(after.granted_bytes, before.granted_bytes);
		assert_true(after.reserved_bytes <= before.reserved_bytes);
		pool_audit(&p);
		if (pool_has(&p, GP_CAP_ANY_SIZE) && test_spec_is_default(*state))
			assert_true(first * sizes[i] >= TEST_CAPACITY / 4);
		pool_free_all(&p);
		pool_audit(&p);
		again = conformance_fill(&p, sizes[i], 0);
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

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
	at_start = pool_usage(&p).reserved_bytes;
	for (unsigned round = 0; round < 3; round++) {
		conformance_holes(&p, &seed, N_BLOCKS, GP_MIB << round);
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

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
	conformance_holes(&p, &seed, N_BLOCKS, 4 * GP_MIB);
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
	conformance_holes(&p, &seed, N_BLOCKS, 4 * GP_MIB);
	pool_close(&p);
}

static void destroying_returns_live_blocks_too(void **state)
{
	uint64_t seed = 6;
	struct pool p;

	pool_open(&p, *state, NULL, TEST_CAPACITY, 1);
	conformance_holes(&p, &seed, N_BLOCKS, 4 * GP_MIB);
	assert_true(p.live.n);
	pool_close(&p);
}

/* ---- frees that must be refused ---- */

static uint64_t given_back(const struct pool *p)
{
	struct gp_device_stats stats;

	gp_device_stats(p->dev, &stats);
	return stats.calls[GP_CALL_RELEASE] + stats.calls[GP_CALL_ASYNC_FREE] +
	       stats.calls[GP_CALL_UNMAP];
}

/* Where the memory went back to the device the pool cannot know the address any more; with other
 * settings (slab:keep_empty=0) that may happen between its tiers, unseen. */
static void refuse_second_free(struct pool *p, uint64_t addr, const char *spec)
{
	uint64_t before = given_back(p);
	bool known;

	pool_free(p, addr);
	known = given_back(p) == before && test_spec_is_default(spec);
	pool_refuses_free(p, addr, known ? -EALREADY : 0);
}

static void double_free_is_refused(void **state)
{
	uint64_t addr[8], seed = 7;
	struct pool p;

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
	for (unsigned round = 0; round < 3; round++) {
		for (size_t i = 0; i < 8; i++)
			assert_int_equal(pool_alloc(&p, 700 + 7777 * i, 0, 0, &addr[i]), 0);
		refuse_second_free(&p, addr[3], *state);
		refuse_second_free(&p, addr[0], *state);
		refuse_second_free(&p, addr[7], *state);
		refuse_second_free(&p, addr[2], *state);
		/* Merged with its neighbours by now, perhaps: no block, or a free one. */
		pool_refuses_free(&p, addr[3], 0);
		pool_free_all(&p);
		for (size_t i = 0; i < 8; i++)
			pool_refuses_free(&p, addr[i], 0);
		conformance_holes(&p, &seed, 60, GP_MIB);
	}
	pool_close(&p);
}

static void foreign_addresses_are_refused(void **state)
{
	static const uint64_t nowhere[] = { 1,
					    255,
					    256,
					    4096,
					    UINT64_C(1) << 47,
					    GP_SIZE_MAX,
					    UINT64_MAX,
					    UINT64_MAX & ~UINT64_C(255) };
	static const uint64_t inside[] = { 1, 128, 255, 256, 512, 4096, 30 * GP_KIB };
	struct gp_allocator *other;
	struct gp_request req = { .size = 5000 };
	struct gp_block theirs;
	uint64_t addr[16];
	struct pool p;

	pool_open(&p, *state, conformance_checked, TEST_CAPACITY, 1);
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
