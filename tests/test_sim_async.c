/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools of stream-ordered allocations on the simulated device against what a driver did (H200,
 * driver 580, CUDA 13.0): each number here was read off that card, for the same calls in the same
 * order. Where a test queues work, the card had memsets of some milliseconds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "allocators/device/device.h"

#define CHUNK   32                   /* MiB */
#define WORK_NS UINT64_C(4000000000) /* more than all calls of a test cost */

enum { M, G, D }; /* streams: main, gradients, and one that only waits for others */

struct bench {
	struct gp_device *dev;
	struct gp_async *pool;
	uint64_t base; /* of the first block */
};

static const struct gp_async_config keep_all = { UINT64_MAX, true, true, true };

static struct bench bench_open(const struct gp_async_config *cfg, uint64_t capacity)
{
	struct gp_device_config device = { .capacity = capacity };
	struct bench b = { 0 };
	char why[200] = "";

	if (gp_device_open_sim(&device, &b.dev, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(gp_device_async_open(b.dev, cfg, &b.pool), 0);
	return b;
}

static struct gp_async_counts counts(struct bench *b)
{
	struct gp_async_counts c;

	assert_int_equal(gp_device_async_counts(b->dev, b->pool, &c), 0);
	return c;
}

/* MiB */
static uint64_t reserved(struct bench *b)
{
	assert_int_equal(gp_device_reserved(b->dev), counts(b).reserved);
	return counts(b).reserved / GP_MIB;
}

static void bench_close(struct bench *b)
{
	gp_device_async_close(b->dev, b->pool);
	assert_int_equal(gp_device_reserved(b->dev), 0);
	gp_device_close(b->dev);
}

static uint64_t take_bytes(struct bench *b, uint64_t size, uint32_t stream)
{
	uint64_t addr;

	assert_int_equal(gp_device_async_alloc(b->dev, b->pool, size, stream, &addr), 0);
	if (!b->base)
		b->base = addr;
	return addr;
}

static uint64_t take(struct bench *b, uint64_t mib, uint32_t stream)
{
	return take_bytes(b, mib * GP_MIB, stream);
}

static void give(struct bench *b, uint64_t addr, uint32_t stream)
{
	assert_int_equal(gp_device_async_free(b->dev, b->pool, addr, stream), 0);
}

/* Where a block lies, in MiB from the first one. */
static uint64_t at(const struct bench *b, uint64_t addr)
{
	return (addr - b->base) / GP_MIB;
}

static void work(struct bench *b, uint32_t stream)
{
	assert_int_equal(gp_device_busy(b->dev, stream, WORK_NS), 0);
}

static void join(struct bench *b, uint32_t from, uint32_t to)
{
	assert_int_equal(gp_device_stream_wait(b->dev, from, to), 0);
}

/* Time passes until all queued work is done, and nobody synchronises. */
static void spin(struct bench *b)
{
	gp_device_elapse(b->dev, 50 * WORK_NS);
}

static void sync_all(struct bench *b)
{
	assert_int_equal(gp_device_sync(b->dev), 0);
}

/* ---- growth and fit ---- */

static void expect_growth(const uint64_t *kib, const uint64_t *held, size_t n)
{
	struct bench b = bench_open(&keep_all, 0);

	for (size_t i = 0; i < n; i++) {
		take_bytes(&b, kib[i] * GP_KIB, M);
		assert_int_equal(reserved(&b), held[i]);
	}
	bench_close(&b);
}

static void grows_by_what_the_tail_lacks(void **state)
{
	static const uint64_t mixed[] = { 512,   512,   512,   512,   1024,   1024,   2048,
					  2048,  3072,  5120,  10240, 20480,  30720,  31744,
					  33792, 40960, 65536, 66560, 102400, 204800, 307200 };
	static const uint64_t mixed_held[] = { 32, 32, 32,  32,  32,  32,  32,  32,  32,  32, 32,
					       64, 96, 128, 160, 192, 256, 320, 416, 640, 928 };
	static const uint64_t large[] = { 33792, 33792, 33792, 33792 };
	static const uint64_t large_held[] = { 64, 96, 128, 160 };
	static const uint64_t small[] = { 40960, 20480, 4096, 2048, 31744, 2048 };
	static const uint64_t small_held[] = { 64, 64, 64, 96, 128, 128 };

	(void)state;
	expect_growth(mixed, mixed_held, GP_ARRAY_LEN(mixed));
	expect_growth(large, large_held, GP_ARRAY_LEN(large));
	expect_growth(small, small_held, GP_ARRAY_LEN(small));
}

static void blocks_are_multiples_of_512(void **state)
{
	static const uint64_t sizes[] = { 1, 100, 512, 513, 4097, GP_MIB + 1, 10 * GP_MIB + 1, 1 };
	struct bench b = bench_open(&keep_all, 0);
	uint64_t expect = 0, used = 0;

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++) {
		assert_int_equal(take_bytes(&b, sizes[i], M) - b.base, expect);
		expect += gp_align_up(sizes[i], 512);
		used += sizes[i];
	}
	assert_int_equal(counts(&b).used, used); /* as asked for, not rounded */
	assert_int_equal(counts(&b).used_high, used);
	bench_close(&b);
}

static void holes_are_not_stitched(void **state)
{
	static const uint64_t mib[] = { 20, 12, 20, 12 };
	struct bench b = bench_open(&keep_all, 0);
	uint64_t x[4], e;

	(void)state;
	for (int i = 0; i < 4; i++)
		x[i] = take(&b, mib[i], M);
	assert_int_equal(reserved(&b), 64);
	give(&b, x[0], M);
	give(&b, x[2], M);
	sync_all(&b);
	e = take(&b, 40, M);
	assert_int_equal(at(&b, e), 64);
	assert_int_equal(reserved(&b), 128);
	give(&b, e, M);
	give(&b, x[1], M);
	give(&b, x[3], M);
	sync_all(&b);
	assert_int_equal(at(&b, take(&b, 64, M)), 0);
	assert_int_equal(reserved(&b), 128);
	bench_close(&b);
}

static void best_fit_and_of_equals_the_first_freed(void **state)
{
	struct bench b = bench_open(&keep_all, 0);
	uint64_t x[8];

	(void)state;
	for (int i = 0; i < 8; i++)
		x[i] = take(&b, 4, M);
	give(&b, x[1], M);
	give(&b, x[5], M);
	give(&b, x[3], M);
	assert_int_equal(at(&b, take(&b, 4, M)), 4);
	assert_int_equal(at(&b, take(&b, 4, M)), 20);
	assert_int_equal(at(&b, take(&b, 4, M)), 12);
	bench_close(&b);

	b = bench_open(&keep_all, 0);
	x[0] = take(&b, 8, M);
	x[1] = take(&b, 19, M);
	give(&b, x[0], M);
	/* What was never used comes after every hole, however well it would fit. */
	assert_int_equal(at(&b, take(&b, 4, M)), 0);
	assert_int_equal(at(&b, take(&b, 4, M)), 4);
	assert_int_equal(at(&b, take(&b, 1, M)), 27);
	bench_close(&b);
}

/* A hole without memory is a hole: what lies in it whole was mapped where it was needed. */
static void free_chunks_are_mapped_elsewhere(void **state)
{
	struct bench b = bench_open(&keep_all, 0);
	uint64_t a = take(&b, 96, M), c = take(&b, 16, M), big;

	(void)state;
	assert_int_equal(reserved(&b), 128);
	give(&b, a, M);
	big = take(&b, 112, M); /* three chunks come from the hole, one is new */
	assert_int_equal(at(&b, big), 112);
	assert_int_equal(reserved(&b), 7 * CHUNK - 3 * CHUNK);
	assert_int_equal(at(&b, take(&b, 40, M)), 0);
	assert_int_equal(reserved(&b), 4 * CHUNK + 2 * CHUNK);
	give(&b, c, M);
	bench_close(&b);
}

/* ---- other streams ---- */

static void flags_say_when_another_stream_may_take(void **state)
{
	static const struct {
		bool follow, opportunistic, internal;
		uint64_t pending, over; /* where a block on another stream lies */
	} cases[] = {
		{ false, false, false, 64, 128 }, { true, false, false, 64, 128 },
		{ false, true, false, 64, 0 },    { false, false, true, 64, 128 },
		{ true, true, true, 64, 0 },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		const struct gp_async_config cfg = { UINT64_MAX, cases[i].follow,
						     cases[i].opportunistic, cases[i].internal };
		struct bench b = bench_open(&cfg, 0);
		uint64_t a = take(&b, 64, M);

		work(&b, M);
		give(&b, a, M);
		assert_int_equal(at(&b, take(&b, 64, G)), cases[i].pending);
		spin(&b);
		assert_int_equal(at(&b, take(&b, 64, G)), cases[i].over);
		/* A synchronisation makes memory free for all, whatever the flags. */
		a = take(&b, 64, M);
		give(&b, a, M);
		sync_all(&b);
		assert_int_equal(take(&b, 64, G), a);
		bench_close(&b);
	}
}

static void events_are_followed(void **state)
{
	const struct gp_async_config none = { UINT64_MAX, false, true, true };
	struct bench b = bench_open(&keep_all, 0);
	uint64_t a, c;

	(void)state;
	a = take(&b, 32, M);
	work(&b, M);
	give(&b, a, M);
	join(&b, M, D);
	join(&b, D, G); /* through a third stream */
	assert_int_equal(take(&b, 32, G), a);
	bench_close(&b);

	b = bench_open(&none, 0);
	a = take(&b, 32, M);
	work(&b, M);
	give(&b, a, M);
	join(&b, M, G);
	assert_int_equal(at(&b, take(&b, 32, G)), 32);
	bench_close(&b);

	/* One neighbour freed before the event, one after it: joined, and too new. */
	b = bench_open(&keep_all, 0);
	a = take(&b, 16, M);
	c = take(&b, 16, M);
	work(&b, M);
	give(&b, a, M);
	join(&b, M, G);
	give(&b, c, M);
	assert_int_equal(at(&b, take(&b, 16, G)), 32);
	assert_int_equal(at(&b, take(&b, 16, G)), 48);
	bench_close(&b);
}

static void neighbours_of_two_streams_join_when_both_are_done(void **state)
{
	struct bench b = bench_open(&keep_all, 0);
	uint64_t a = take(&b, 16, M), c = take(&b, 16, M);

	(void)state;
	work(&b, M);
	give(&b, a, M);
	join(&b, M, D);
	give(&b, c, D);
	assert_int_equal(at(&b, take(&b, 16, M)), 0);
	give(&b, a, M);
	assert_int_equal(at(&b, take(&b, 32, M)), 32);
	spin(&b);
	assert_int_equal(at(&b, take(&b, 32, M)), 0);
	assert_int_equal(reserved(&b), 64);
	bench_close(&b);
}

static void neighbours_of_a_busy_stream_join_on_it(void **state)
{
	struct bench b = bench_open(&keep_all, 0);
	uint64_t a = take(&b, 20, M), c = take(&b, 12, M);

	(void)state;
	work(&b, M);
	give(&b, a, M);
	work(&b, M);
	give(&b, c, M);
	assert_int_equal(at(&b, take(&b, 32, M)), 0);
	bench_close(&b);
}

static void before_memory_runs_out_the_taker_waits(void **state)
{
	for (int internal = 0; internal < 2; internal++) {
		const struct gp_async_config cfg = { UINT64_MAX, true, true, internal };
		struct bench b = bench_open(&cfg, 128 * GP_MIB);
		uint64_t a = take(&b, 64, M), c;

		take(&b, 64, M);
		work(&b, M);
		give(&b, a, M);
		if (internal)
			assert_int_equal(take(&b, 64, G), a);
		else
			assert_int_equal(gp_device_async_alloc(b.dev, b.pool, 64 * GP_MIB, G, &c),
					 GP_NOMEM);
		assert_int_equal(reserved(&b), 128);
		bench_close(&b);
	}
	(void)state;
}

/* ---- blocks left to the helper ---- */

static void retired_blocks_wait_for_the_word(void **state)
{
	struct bench b = bench_open(&keep_all, 0);
	uint64_t a = take(&b, 64, M), c = take(&b, 64, M), n[2];

	(void)state;
	work(&b, M);
	assert_int_equal(gp_device_async_retire(b.dev, b.pool, a, M, &n[0]), 0);
	assert_int_equal(gp_device_async_retire(b.dev, b.pool, c, M, &n[1]), 0);
	assert_true(n[0] == 1 && n[1] == 2);
	assert_int_equal(gp_device_async_retire(b.dev, b.pool, a, M, &n[0]), -EINVAL);
	assert_int_equal(counts(&b).used, 0);
	assert_int_equal(at(&b, take(&b, 64, M)), 128);
	spin(&b);
	gp_device_async_settle(b.dev, b.pool, 1);
	/* As a whole: the second is not over. */
	assert_int_equal(at(&b, take(&b, 64, M)), 192);
	gp_device_async_settle(b.dev, b.pool, 2);
	assert_int_equal(at(&b, take(&b, 64, M)), 0);
	assert_int_equal(at(&b, take(&b, 64, M)), 64);
	assert_int_equal(gp_device_async_retire(b.dev, b.pool, a, M, &n[0]), 0);
	sync_all(&b);
	assert_int_equal(at(&b, take(&b, 64, M)), 0);
	bench_close(&b);
}

/* ---- a training program ---- */

/* One step: activations and gradients on M; buckets on G, left to D as PyTorch leaves blocks that
 * were used on two streams. */
static void train(struct bench *b, uint64_t act)
{
	uint64_t a[19], m[12], g[12];

	for (int i = 0; i < 19; i++)
		a[i] = take_bytes(b, act, M);
	for (int i = 0; i < 12; i++) {
		uint64_t t, u;

		m[i] = take(b, 16, M);
		if (!i) /* on the card: a memset of each m, so that M is at work until the last */
			work(b, M);
		t = take(b, 39, M);
		u = take_bytes(b, act, M);
		give(b, t, M);
		give(b, a[i], M);
		give(b, u, M);
	}
	spin(b); /* then M is done with them */
	work(b, M);
	join(b, M, G);
	for (int i = 0; i < 12; i++) {
		g[i] = take(b, 16, G);
		join(b, G, D);
		join(b, M, D);
		give(b, g[i], D);
	}
	join(b, G, M);
	for (int i = 12; i < 19; i++)
		give(b, a[i], M);
	for (int i = 0; i < 12; i++) {
		join(b, M, D);
		join(b, G, D);
		give(b, m[i], D);
	}
}

static uint64_t next_activation(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (2 + (*seed >> 40) % 28) * GP_MIB + 65536 * (*seed >> 50 & 7);
}

/* What was reserved after the steps 1 to 6, 8, 16, 24, 32 and 40, in MiB. */
static void expect_training(bool wait, bool vary, const uint64_t *held)
{
	struct bench b = bench_open(&keep_all, 0);
	uint64_t seed = 1, act = 19 * GP_MIB;

	for (unsigned k = 0, i = 0; k < 40; k++) {
		if (vary)
			act = next_activation(&seed);
		train(&b, act);
		if (wait)
			spin(&b);
		if (k < 6 || k % 8 == 7)
			assert_int_equal(reserved(&b), held[i++]);
	}
	bench_close(&b);
}

static void three_streams_grow_without_end(void **state)
{
	static const uint64_t same[] = {
		544, 640, 736, 864, 992, 1120, 1376, 2368, 3392, 4416, 5440
	};
	static const uint64_t varying[] = { 448,  640,  768,  864,  992, 1088,
					    1248, 2080, 2560, 2944, 3776 };

	(void)state;
	expect_training(true, false, same);
	expect_training(true, true, varying);
}

/* ---- giving back ---- */

static void threshold_0_gives_back_at_a_synchronisation(void **state)
{
	const struct gp_async_config cfg = { 0, true, true, true };
	struct bench b = bench_open(&cfg, 0);
	uint64_t a = take(&b, 64, M), c, t0;
	struct gp_device_stats before, after;

	(void)state;
	give(&b, a, M);
	assert_int_equal(reserved(&b), 64);
	gp_device_stats(b.dev, &before);
	sync_all(&b);
	gp_device_stats(b.dev, &after);
	assert_int_equal(reserved(&b), 0);
	assert_true(after.model_ns - before.model_ns > 10000); /* two mappings: 76 us on the card */
	t0 = after.model_ns;
	sync_all(&b);
	gp_device_stats(b.dev, &after);
	assert_true(after.model_ns - t0 < 10000);
	a = take(&b, 64, M);
	c = take(&b, 8, M);
	assert_int_equal(reserved(&b), 96);
	give(&b, a, M);
	sync_all(&b);
	assert_int_equal(reserved(&b), 32);
	give(&b, c, M);
	sync_all(&b);
	assert_int_equal(reserved(&b), 0);
	bench_close(&b);
}

static void threshold_is_what_stays(void **state)
{
	const struct gp_async_config cfg = { 40 * GP_MIB, true, true, true };
	struct bench b = bench_open(&cfg, 0);
	uint64_t a = take(&b, 64, M), c = take(&b, 32, M);

	(void)state;
	give(&b, a, M);
	sync_all(&b);
	assert_int_equal(reserved(&b), 32);
	give(&b, c, M);
	sync_all(&b);
	assert_int_equal(reserved(&b), 32);
	bench_close(&b);
}

static void trim_gives_back_whole_free_chunks(void **state)
{
	struct bench b = bench_open(&keep_all, 0);
	uint64_t a = take(&b, 40, M), c = take(&b, 40, M), d = take(&b, 40, M);

	(void)state;
	assert_int_equal(reserved(&b), 128);
	give(&b, c, M);
	sync_all(&b);
	assert_int_equal(gp_device_async_trim(b.dev, b.pool, 0), 0);
	assert_int_equal(reserved(&b), 128); /* no chunk lies all in the hole */
	assert_int_equal(at(&b, take(&b, 40, M)), 40);
	give(&b, c, M);
	give(&b, a, M);
	give(&b, d, M);
	/* Nobody has synchronised since. */
	assert_int_equal(gp_device_async_trim(b.dev, b.pool, 0), 0);
	assert_int_equal(reserved(&b), 128);
	sync_all(&b);
	assert_int_equal(gp_device_async_trim(b.dev, b.pool, 64 * GP_MIB), 0);
	assert_int_equal(reserved(&b), 64);
	assert_int_equal(at(&b, take(&b, 70, M)), 0);
	assert_int_equal(reserved(&b), 96);
	assert_int_equal(counts(&b).reserved_high, 128 * GP_MIB);
	bench_close(&b);
}

static void trim_keeps_at_least_what_it_is_told(void **state)
{
	struct bench b = bench_open(&keep_all, 0);
	uint64_t a = take(&b, 128, M), c;

	(void)state;
	give(&b, a, M);
	sync_all(&b);
	assert_int_equal(gp_device_async_trim(b.dev, b.pool, 100 * GP_MIB), 0);
	assert_int_equal(reserved(&b), 128);
	assert_int_equal(gp_device_async_trim(b.dev, b.pool, 50 * GP_MIB), 0);
	assert_int_equal(reserved(&b), 64);
	assert_int_equal(at(&b, take(&b, 20, M)), 0);
	assert_int_equal(at(&b, take(&b, 60, M)), 20);
	assert_int_equal(reserved(&b), 96);
	bench_close(&b);

	b = bench_open(&keep_all, 0);
	a = take(&b, 64, M);
	c = take(&b, 40, M);
	give(&b, a, M);
	sync_all(&b);
	assert_int_equal(gp_device_async_trim(b.dev, b.pool, 0), 0);
	assert_int_equal(reserved(&b), 64);
	assert_int_equal(at(&b, take(&b, 30, M)), 0);
	assert_int_equal(reserved(&b), 96);
	assert_int_equal(at(&b, take(&b, 60, M)), 104);
	assert_int_equal(reserved(&b), 160);
	give(&b, c, M);
	bench_close(&b);

	/* Before it says that there is no more, a pool maps what lies free elsewhere. */
	b = bench_open(&keep_all, 128 * GP_MIB);
	a = take(&b, 40, M);
	take(&b, 8, M);
	take(&b, 40, M);
	give(&b, a, M);
	sync_all(&b);
	assert_int_equal(at(&b, take(&b, 56, M)), 88);
	assert_int_equal(reserved(&b), 128);
	bench_close(&b);
}

/* ---- */

static void bad_calls_are_refused(void **state)
{
	struct bench b = bench_open(&keep_all, 100 * GP_MIB);
	uint64_t a = take(&b, 1, M), addr = 77;

	(void)state;
	assert_int_equal(gp_device_async_alloc(b.dev, b.pool, 0, M, &addr), -EINVAL);
	assert_int_equal(gp_device_async_alloc(b.dev, b.pool, UINT64_MAX, M, &addr), GP_NOMEM);
	assert_int_equal(gp_device_async_alloc(b.dev, b.pool, GP_GIB, M, &addr), GP_NOMEM);
	assert_int_equal(addr, 77);
	assert_int_equal(gp_device_async_free(b.dev, b.pool, a + 512, M), -EINVAL);
	assert_non_null(strstr(gp_device_error(b.dev), "async_free"));
	give(&b, a, M);
	assert_int_equal(gp_device_async_free(b.dev, b.pool, a, M), -EINVAL);
	assert_int_equal(gp_device_release(b.dev, a), -EINVAL);
	assert_int_equal(reserved(&b), 32);
	bench_close(&b);
}

static void pools_are_apart(void **state)
{
	struct bench b = bench_open(&keep_all, 0);
	struct gp_async *other;
	uint64_t a = take(&b, 1, M), c;

	(void)state;
	assert_int_equal(gp_device_async_open(b.dev, &keep_all, &other), 0);
	assert_int_equal(gp_device_async_alloc(b.dev, other, GP_MIB, M, &c), 0);
	assert_int_equal(gp_device_reserved(b.dev), 64 * GP_MIB);
	assert_int_equal(gp_device_async_free(b.dev, b.pool, c, M), -EINVAL);
	assert_int_equal(gp_device_async_free(b.dev, other, c, M), 0);
	gp_device_async_close(b.dev, other);
	assert_int_equal(reserved(&b), 32);
	assert_int_equal(gp_device_memset(b.dev, a, 5, GP_MIB), 0);
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_by_what_the_tail_lacks),
		cmocka_unit_test(blocks_are_multiples_of_512),
		cmocka_unit_test(holes_are_not_stitched),
		cmocka_unit_test(best_fit_and_of_equals_the_first_freed),
		cmocka_unit_test(free_chunks_are_mapped_elsewhere),
		cmocka_unit_test(flags_say_when_another_stream_may_take),
		cmocka_unit_test(events_are_followed),
		cmocka_unit_test(neighbours_of_two_streams_join_when_both_are_done),
		cmocka_unit_test(neighbours_of_a_busy_stream_join_on_it),
		cmocka_unit_test(before_memory_runs_out_the_taker_waits),
		cmocka_unit_test(retired_blocks_wait_for_the_word),
		cmocka_unit_test(three_streams_grow_without_end),
		cmocka_unit_test(threshold_0_gives_back_at_a_synchronisation),
		cmocka_unit_test(threshold_is_what_stays),
		cmocka_unit_test(trim_gives_back_whole_free_chunks),
		cmocka_unit_test(trim_keeps_at_least_what_it_is_told),
		cmocka_unit_test(bad_calls_are_refused),
		cmocka_unit_test(pools_are_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
