/* SPDX-License-Identifier: Apache-2.0
 *
 * test_golden: what each allocator does with a few requests, worked out by hand beforehand. Addresses
 * are told as offsets from the first one, which is all that a reader can check on paper.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "allocators/allocator.h"

#define CAPACITY (256 * GP_MIB)

struct bench {
	struct gp_device *dev;
	struct gp_allocator *a;
};

static struct bench bench_open(const char *spec, uint64_t capacity)
{
	struct gp_device_config cfg = { .capacity = capacity };
	struct bench b;
	char why[256] = "";

	if (gp_device_open_sim(&cfg, &b.dev, why, sizeof(why)))
		fail_msg("%s", why);
	if (gp_allocator_create(spec, b.dev, NULL, &b.a, why, sizeof(why)))
		fail_msg("%s", why);
	return b;
}

static void bench_close(struct bench *b)
{
	assert_int_equal(gp_check(b->a, stderr), 0);
	gp_allocator_destroy(b->a);
	gp_device_close(b->dev);
}

static int try_alloc(struct bench *b, uint64_t size, uint32_t stream, struct gp_block *out)
{
	struct gp_request req = { .size = size, .stream = stream };

	return gp_alloc(b->a, &req, out);
}

static struct gp_block take_on(struct bench *b, uint64_t size, uint32_t stream)
{
	struct gp_block block = { 0, 0 };

	assert_int_equal(try_alloc(b, size, stream, &block), 0);
	return block;
}

static struct gp_block take(struct bench *b, uint64_t size)
{
	return take_on(b, size, 0);
}

static void give(struct bench *b, struct gp_block block)
{
	assert_int_equal(gp_free(b->a, block.addr), 0);
}

static uint64_t driver_allocs(struct bench *b)
{
	struct gp_device_stats s;

	gp_device_stats(b->dev, &s);
	return s.calls[GP_CALL_RESERVE] + s.calls[GP_CALL_CREATE];
}

/* As the device counts: whole pages. */
static uint64_t reserved(struct bench *b)
{
	struct gp_device_stats s;

	gp_device_stats(b->dev, &s);
	return s.reserved_bytes;
}

/* ---- fixed ---- */

static void fixed_is_a_stack(void **state)
{
	struct bench b = bench_open("fixed:block=1M,count=4,when_empty=refuse", CAPACITY);
	struct gp_block x[4], more;

	(void)state;
	for (int i = 0; i < 4; i++)
		x[i] = take(&b, GP_MIB);
	for (int i = 1; i < 4; i++)
		assert_int_equal(x[i].addr, x[0].addr + (uint64_t)i * GP_MIB);
	assert_int_equal(try_alloc(&b, 1, 0, &more), GP_REFUSED);
	give(&b, x[1]);
	give(&b, x[3]);
	give(&b, x[0]);
	/* The block freed last comes back first. */
	assert_int_equal(take(&b, 5).addr, x[0].addr);
	assert_int_equal(take(&b, 5).addr, x[3].addr);
	assert_int_equal(take(&b, 5).addr, x[1].addr);
	assert_int_equal(try_alloc(&b, GP_MIB + 1, 0, &more), GP_REFUSED);
	assert_int_equal(reserved(&b), 4 * GP_MIB);
	bench_close(&b);
}

static void fixed_grows_by_a_slab(void **state)
{
	struct bench b = bench_open("fixed:block=1M,count=2,when_empty=grow", CAPACITY);
	uint64_t released = 0;
	struct gp_block x[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		x[i] = take(&b, GP_MIB);
	assert_int_equal(reserved(&b), 4 * GP_MIB);
	for (int i = 0; i < 3; i++)
		give(&b, x[i]);
	assert_int_equal(gp_trim(b.a, 0, &released), 0);
	assert_int_equal(released, 2 * GP_MIB); /* the second slab; the first is preallocated */
	assert_int_equal(reserved(&b), 2 * GP_MIB);
	bench_close(&b);
}

static void fixed_passes_on_to_the_device(void **state)
{
	struct bench b = bench_open("fixed:block=1M,count=2,when_empty=device", CAPACITY);
	struct gp_block big, third;

	(void)state;
	big = take(&b, 3 * GP_MIB);
	take(&b, 1);
	take(&b, 1);
	third = take(&b, 1);
	assert_int_equal(third.granted, 512);
	/* 2 MiB of slab, 4 MiB of pages for 3, and one page for the last. */
	assert_int_equal(reserved(&b), 8 * GP_MIB);
	give(&b, third);
	give(&b, big);
	assert_int_equal(reserved(&b), 2 * GP_MIB);
	bench_close(&b);
}

/* ---- buddy ---- */

static void buddy_of_1_mib_at_1_mib_is_0(void **state)
{
	struct bench b = bench_open("buddy:min_block=1M,arena=4M", CAPACITY);
	struct gp_block first = take(&b, GP_MIB), second = take(&b, GP_MIB), both;
	uint64_t calls = driver_allocs(&b);

	(void)state;
	assert_int_equal(second.addr - first.addr, 0x100000);
	/* 0x100000 XOR 0x100000 = 0: they merge, and the pair is one block of 2 MiB at 0. */
	give(&b, second);
	give(&b, first);
	both = take(&b, 2 * GP_MIB);
	assert_int_equal(both.addr, first.addr);
	assert_int_equal(driver_allocs(&b), calls);
	bench_close(&b);
}

static void buddy_does_not_merge_strangers(void **state)
{
	struct bench b = bench_open("buddy:min_block=1M,arena=4M", CAPACITY);
	struct gp_block x[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		x[i] = take(&b, GP_MIB);
	/* Blocks 1 and 2 are neighbours, but 1's buddy is 0 and 2's is 3. */
	give(&b, x[1]);
	give(&b, x[2]);
	assert_int_equal(take(&b, 2 * GP_MIB).addr, x[0].addr + 4 * GP_MIB);
	bench_close(&b);
}

static void buddy_rounds_3_mib_to_4(void **state)
{
	struct bench b = bench_open("buddy", CAPACITY);
	struct gp_usage u;

	(void)state;
	assert_int_equal(take(&b, 3 * GP_MIB).granted, 4 * GP_MIB);
	assert_int_equal(take(&b, 4 * GP_MIB).granted, 4 * GP_MIB);
	assert_int_equal(take(&b, 4 * GP_MIB + 1).granted, 8 * GP_MIB);
	gp_usage(b.a, &u);
	assert_int_equal(u.granted_bytes, 16 * GP_MIB);
	assert_int_equal(u.reserved_bytes, 16 * GP_MIB);
	bench_close(&b);
}

/* ---- segregated ---- */

static void segregated_serves_a_new_class_after_a_merge(void **state)
{
	struct bench b = bench_open("segregated:chunk=4M", CAPACITY);
	struct gp_block x = take(&b, GP_MIB), y = take(&b, GP_MIB), both;
	uint64_t calls;

	(void)state;
	take(&b, 2 * GP_MIB); /* the rest of the chunk */
	calls = driver_allocs(&b);
	give(&b, x);
	give(&b, y);
	/* No block of this class was ever free before: x and y joined. */
	both = take(&b, 2 * GP_MIB - 256);
	assert_int_equal(both.addr, x.addr);
	assert_int_equal(both.granted, 2 * GP_MIB - 256);
	assert_int_equal(driver_allocs(&b), calls);
	/* The last 256 bytes are still there. */
	assert_int_equal(take(&b, 1).addr, x.addr + 2 * GP_MIB - 256);
	assert_int_equal(driver_allocs(&b), calls);
	bench_close(&b);
}

static void segregated_never_hands_out_less(void **state)
{
	struct bench b = bench_open("segregated:chunk=2M,fit=class", CAPACITY);
	struct gp_block hole, guard, got;

	(void)state;
	/* 1 280 and 1 536 bytes are in one class of 4 to a doubling (1 280 .. 1 535 is step 1 of
	 * 1 024): a hole of 1 280 must not serve 1 500. */
	hole = take(&b, 1280);
	guard = take(&b, 256);
	give(&b, hole);
	got = take(&b, 1500);
	assert_true(got.granted >= 1500);
	assert_true(got.addr != hole.addr);
	assert_int_equal(got.addr, guard.addr + 256);
	bench_close(&b);
}

static void segregated_grows_by_what_the_tail_lacks(void **state)
{
	struct bench b = bench_open("segregated:chunk=2M", CAPACITY);
	struct gp_block x = take(&b, GP_MIB), y;

	(void)state;
	assert_int_equal(reserved(&b), 2 * GP_MIB);
	/* 1 MiB is free at the end of what is mapped: 3 MiB need only one page more. */
	y = take(&b, 3 * GP_MIB);
	assert_int_equal(y.addr, x.addr + GP_MIB);
	assert_int_equal(reserved(&b), 4 * GP_MIB);
	bench_close(&b);
}

/* ---- slab ---- */

static void slab_goes_full_partial_empty(void **state)
{
	struct bench b = bench_open("slab:slab=4K,max_object=2K,keep_empty=0", CAPACITY);
	struct gp_block x = take(&b, 2048), y = take(&b, 2000), z, again, large;

	(void)state;
	assert_int_equal(y.addr, x.addr + 2048);
	assert_int_equal(y.granted, 2048);
	z = take(&b, 2048); /* the first slab is full */
	assert_int_equal(z.addr & ~UINT64_C(4095), z.addr);
	assert_true(z.addr != x.addr);
	give(&b, x); /* partial again, and first in its list */
	again = take(&b, 1900);
	assert_int_equal(again.addr, x.addr);
	give(&b, y);
	give(&b, again); /* empty: back to the parent, which can use it for anything */
	large = take(&b, 4096);
	assert_int_equal(large.addr, x.addr);
	give(&b, z);
	bench_close(&b);
}

static void slab_colours(void **state)
{
	/* 4096 = 2 * 1792 + 512: two colours of 256 beside none. */
	struct bench b = bench_open("slab:slab=4K,max_object=1792,colour=true", CAPACITY);
	uint64_t starts[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		starts[i] = take(&b, 1792).addr;
		take(&b, 1792);
	}
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(starts[i] & 4095, i * 256);
	bench_close(&b);
}

/* ---- hybrid ---- */

static void hybrid_sends_sizes_to_their_tiers(void **state)
{
	struct bench b = bench_open("hybrid", CAPACITY);
	struct gp_block small = take(&b, 1023), next = take(&b, 1023), kib = take(&b, 1024);
	struct gp_block large = take(&b, 64 * GP_KIB + 1), again;
	uint64_t slab = small.addr & ~(64 * GP_KIB - 1), chunk = small.addr & ~(2 * GP_MIB - 1);

	(void)state;
	/* The slab tier: objects of 1 KiB side by side in a slab of 64 KiB. */
	assert_int_equal(small.granted, 1024);
	assert_int_equal(next.addr, small.addr + 1024);
	/* Small blocks: exact, in the same chunk of 2 MiB, outside the slab. */
	assert_int_equal(kib.granted, 1024);
	assert_true(kib.addr < slab || kib.addr >= slab + 64 * GP_KIB);
	assert_int_equal(kib.addr & ~(2 * GP_MIB - 1), chunk);
	/* Large ones: exact too, behind the chunk. */
	assert_int_equal(large.granted, 64 * GP_KIB + 256);
	assert_int_equal(large.addr, chunk + 2 * GP_MIB);
	/* A small block waits for the next of its size, though lower memory is free. */
	give(&b, small);
	give(&b, next);
	give(&b, kib);
	again = take(&b, 1024);
	assert_int_equal(again.addr, kib.addr);
	bench_close(&b);
}

static void hybrid_chunks_go_back_to_large_blocks(void **state)
{
	struct bench b = bench_open("hybrid", CAPACITY);
	struct gp_block kib = take(&b, 4 * GP_KIB), other = take(&b, 64 * GP_KIB), large;

	(void)state;
	assert_int_equal(reserved(&b), 2 * GP_MIB);
	give(&b, kib);
	give(&b, other);
	large = take(&b, 2 * GP_MIB);
	assert_int_equal(large.addr, kib.addr);
	assert_int_equal(reserved(&b), 2 * GP_MIB);
	bench_close(&b);
}

/* Memory that a sawtooth gives up and wants again stays; trim, and a request that does not fit
 * otherwise, give it back. */
static void hybrid_does_not_thrash_the_device(void **state)
{
	struct bench b = bench_open("hybrid", 64 * GP_MIB);
	struct gp_block blocks[40];
	uint64_t calls = 0, released = 0;

	(void)state;
	for (int tooth = 0; tooth < 10; tooth++) {
		for (int i = 0; i < 40; i++)
			blocks[i] = take(&b, (uint64_t)(i + 1) * 32 * GP_KIB);
		for (int i = 0; i < 40; i++)
			give(&b, blocks[i]);
		if (!tooth)
			calls = driver_allocs(&b);
	}
	assert_true(calls > 1);
	assert_int_equal(driver_allocs(&b), calls);
	assert_int_equal(gp_trim(b.a, 0, &released), 0);
	assert_int_equal(reserved(&b), 0);
	assert_true(released >= 26 * GP_MIB);
	/* Pages of 2 MiB: the last growth is exact where the rounded one does not fit. */
	take(&b, 60 * GP_MIB);
	take(&b, 4 * GP_MIB);
	assert_int_equal(reserved(&b), 64 * GP_MIB);
	bench_close(&b);
}

static void hybrid_with_a_buddy_sends_sizes_to_their_tiers(void **state)
{
	struct bench b = bench_open("hybrid:large=buddy", CAPACITY);
	struct gp_block small = take(&b, 1023), next = take(&b, 1023), kib = take(&b, 1024);
	struct gp_block mib = take(&b, GP_MIB), large = take(&b, GP_MIB + 1);
	uint64_t slab = small.addr & ~(64 * GP_KIB - 1), chunk = small.addr & ~(8 * GP_MIB - 1);

	(void)state;
	/* The slab tier: objects of 1 KiB side by side in a slab of 64 KiB. */
	assert_int_equal(small.granted, 1024);
	assert_int_equal(next.addr, small.addr + 1024);
	/* The segregated tier: exact, in the same chunk of 8 MiB, outside the slab. */
	assert_int_equal(kib.granted, 1024);
	assert_true(kib.addr < slab || kib.addr >= slab + 64 * GP_KIB);
	assert_int_equal(kib.addr & ~(8 * GP_MIB - 1), chunk);
	assert_int_equal(mib.granted, GP_MIB);
	assert_int_equal(mib.addr & ~(8 * GP_MIB - 1), chunk);
	/* The buddy tier: a power of two, aligned to itself, in none of the chunks. */
	assert_int_equal(large.granted, 2 * GP_MIB);
	assert_true(large.addr >= chunk + 8 * GP_MIB);
	bench_close(&b);
}

static void hybrid_fits_after_tiers_give_back(void **state)
{
	struct bench b = bench_open("hybrid:large=buddy", 16 * GP_MIB);
	struct gp_block small = take(&b, 100), all;

	(void)state;
	assert_int_equal(reserved(&b), 8 * GP_MIB);
	give(&b, small);
	/* The slab tier keeps the empty slab, so the segregated tier keeps its chunk. */
	assert_int_equal(reserved(&b), 8 * GP_MIB);
	all = take(&b, 16 * GP_MIB);
	assert_int_equal(all.granted, 16 * GP_MIB);
	assert_int_equal(reserved(&b), 16 * GP_MIB);
	bench_close(&b);
}

/* ---- raw ---- */

static void raw_shares_pages(void **state)
{
	struct bench b = bench_open("raw", CAPACITY);
	struct gp_block x = take(&b, 100), y = take(&b, 1000);

	(void)state;
	assert_int_equal(x.granted, 512);
	assert_int_equal(y.granted, 1024);
	assert_int_equal(reserved(&b), 2 * GP_MIB);
	take(&b, 3 * GP_MIB);
	assert_int_equal(reserved(&b), 6 * GP_MIB);
	give(&b, x);
	assert_int_equal(gp_free(b.a, x.addr), -EINVAL);
	give(&b, y);
	assert_int_equal(reserved(&b), 4 * GP_MIB);
	bench_close(&b);
}

/* ---- streams: the same for each pool ---- */

static uint64_t waits(struct bench *b)
{
	struct gp_usage u;

	gp_usage(b->a, &u);
	return u.event_waits;
}

static void memory_changes_streams_with_one_wait(void **state)
{
	static const char *const specs[] = { "fixed:block=1M,count=2,when_empty=refuse",
					     "segregated:grow=prealloc,initial=2M",
					     "buddy:grow=prealloc,initial=2M",
					     "slab:grow=prealloc,initial=2M",
					     "hybrid:grow=prealloc,initial=2M",
					     "hybrid:large=buddy,grow=prealloc,initial=2M" };

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(specs); i++) {
		struct bench b = bench_open(specs[i], CAPACITY);
		uint64_t size = i ? 2 * GP_MIB : GP_MIB;
		struct gp_block x = take_on(&b, size, 1), y;

		give(&b, x);
		x = take_on(&b, size, 1); /* its own: nothing to wait for */
		assert_int_equal(waits(&b), 0);
		give(&b, x);
		if (!i)
			take_on(&b, size, 2); /* the block no stream has used */
		y = take_on(&b, size, 2);
		assert_int_equal(y.addr, x.addr);
		assert_int_equal(waits(&b), 1);
		bench_close(&b);
	}
}

/* Waits are told apart by a count of 16 bits: no wait is missed when it begins anew. */
static void waits_are_made_however_many_there_were(void **state)
{
	static const char *const specs[] = { "segregated:grow=prealloc,initial=2M",
					     "buddy:grow=prealloc,initial=2M" };

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(specs); i++) {
		struct bench b = bench_open(specs[i], CAPACITY);
		uint64_t n;

		for (n = 0; n < UINT16_MAX + 5000; n++) {
			give(&b, take_on(&b, 2 * GP_MIB, (uint32_t)(n % 2)));
			if (waits(&b) != n)
				break;
		}
		assert_int_equal(waits(&b), UINT16_MAX + 4999);
		assert_int_equal(n, UINT16_MAX + 5000);
		bench_close(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fixed_is_a_stack),
		cmocka_unit_test(fixed_grows_by_a_slab),
		cmocka_unit_test(fixed_passes_on_to_the_device),
		cmocka_unit_test(buddy_of_1_mib_at_1_mib_is_0),
		cmocka_unit_test(buddy_does_not_merge_strangers),
		cmocka_unit_test(buddy_rounds_3_mib_to_4),
		cmocka_unit_test(segregated_serves_a_new_class_after_a_merge),
		cmocka_unit_test(segregated_never_hands_out_less),
		cmocka_unit_test(segregated_grows_by_what_the_tail_lacks),
		cmocka_unit_test(slab_goes_full_partial_empty),
		cmocka_unit_test(slab_colours),
		cmocka_unit_test(hybrid_sends_sizes_to_their_tiers),
		cmocka_unit_test(hybrid_chunks_go_back_to_large_blocks),
		cmocka_unit_test(hybrid_does_not_thrash_the_device),
		cmocka_unit_test(hybrid_with_a_buddy_sends_sizes_to_their_tiers),
		cmocka_unit_test(hybrid_fits_after_tiers_give_back),
		cmocka_unit_test(raw_shares_pages),
		cmocka_unit_test(memory_changes_streams_with_one_wait),
		cmocka_unit_test(waits_are_made_however_many_there_were),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
