/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated device: books, placement, cost, defects, faults, observer; and the profile that
 * its cost comes from. No figure of the built-in profile is repeated here: costs are compared with
 * one another, or with a small profile written by the test itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "allocators/device/device.h"
#include "allocators/device/device_profile.h"
#include "allocators/range_set.h"

#define PAGE (2 * GP_MIB)
#define UNIT (32 * GP_MIB)

static struct gp_device *open_with(const struct gp_device_config *cfg)
{
	struct gp_device *dev = NULL;
	char why[200] = "";
	int r = gp_device_open_sim(cfg, &dev, why, sizeof(why));

	if (r)
		print_message("# %s\n", why);
	assert_int_equal(r, 0);
	return dev;
}

static struct gp_device *open_capacity(uint64_t capacity)
{
	struct gp_device_config cfg = { .capacity = capacity };

	return open_with(&cfg);
}

static uint64_t reserve(struct gp_device *dev, uint64_t size)
{
	uint64_t addr = 0;

	assert_int_equal(gp_device_reserve(dev, size, &addr), 0);
	assert_int_not_equal(addr, 0);
	return addr;
}

static struct gp_device_stats stats_of(struct gp_device *dev)
{
	struct gp_device_stats s;

	gp_device_stats(dev, &s);
	return s;
}

/* What the device charges for the next call. */
static uint64_t model_ns(struct gp_device *dev)
{
	return stats_of(dev).model_ns;
}

static void default_device_is_the_profiles_card(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t free_bytes, total;

	(void)state;
	assert_true(dev->info.simulated && dev->info.vmm && dev->info.async);
	assert_string_equal(dev->info.driver, "h200");
	assert_non_null(strstr(dev->info.name, "simulated NVIDIA"));
	assert_int_equal(dev->info.page_bytes, PAGE);
	assert_int_equal(gp_device_mem_info(dev, &free_bytes, &total), 0);
	assert_int_equal(total, dev->info.total_bytes);
	assert_true(free_bytes < total && free_bytes > 100 * GP_GIB);
	assert_null(gp_device_close(dev));
	assert_null(gp_device_close(NULL));
}

static void small_reservations_share_pages(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t a = reserve(dev, 256), b = reserve(dev, 1), c = reserve(dev, GP_MIB);

	(void)state;
	assert_int_equal(stats_of(dev).reserved_bytes, PAGE);
	assert_int_equal(a % 512, 0);
	assert_int_equal(b - a, 512);
	assert_int_equal(gp_align_down(a, PAGE), gp_align_down(c, PAGE));
	/* No second MiB fits beside the two small ones. */
	assert_int_not_equal(gp_align_down(reserve(dev, GP_MIB), PAGE), gp_align_down(a, PAGE));
	assert_int_equal(stats_of(dev).reserved_bytes, 2 * PAGE);
	/* A byte more than half a page is a page of its own. */
	assert_int_equal(reserve(dev, GP_MIB + 1) % PAGE, 0);
	assert_int_equal(stats_of(dev).reserved_bytes, 3 * PAGE);
	assert_int_equal(gp_device_release(dev, a), 0);
	assert_int_equal(stats_of(dev).reserved_bytes, 3 * PAGE);
	assert_int_equal(gp_device_release(dev, b), 0);
	assert_int_equal(gp_device_release(dev, c), 0);
	assert_int_equal(stats_of(dev).reserved_bytes, 2 * PAGE);
	gp_device_close(dev);
}

/* Random sizes in shared pages: no overlap, all inside pages, all of it gone at the end. */
static void shared_blocks_never_overlap(void **state)
{
	enum { N = 3000 };
	struct gp_device *dev = open_capacity(0);
	static uint64_t addr[N];
	struct gp_range_set shadow;
	uint32_t seed = 12345;

	(void)state;
	gp_range_set_init(&shadow);
	for (int round = 0; round < 20000; round++) {
		seed = seed * 1664525 + 1013904223;
		uint64_t *slot = &addr[(seed >> 8) % N];
		uint64_t size = 1 + ((uint64_t)1 << (seed >> 27) % 20) + (seed >> 12 & 0xff);

		if (*slot) {
			assert_int_equal(gp_device_release(dev, *slot), 0);
			assert_int_equal(gp_range_set_remove(&shadow, *slot, NULL), 0);
			*slot = 0;
		} else {
			*slot = reserve(dev, size);
			assert_int_equal(gp_range_set_insert(&shadow, *slot, size, 0), 0);
		}
	}
	assert_true(stats_of(dev).reserved_bytes >= shadow.bytes);
	for (int i = 0; i < N; i++) {
		if (addr[i])
			assert_int_equal(gp_device_release(dev, addr[i]), 0);
	}
	assert_int_equal(stats_of(dev).reserved_bytes, 0);
	gp_range_set_fini(&shadow);
	gp_device_close(dev);
}

static void ranges_go_top_down_in_units(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t a = reserve(dev, 148 * GP_MIB), b = reserve(dev, 20 * GP_MIB);

	(void)state;
	assert_true(a < UINT64_C(0x7fff00000000));
	assert_int_equal(a % UNIT, 0);
	assert_int_equal(b, a - UNIT);
	/* Tails: b's 12 MiB is the most recent, a's is as large. */
	assert_int_equal(reserve(dev, 8 * GP_MIB), b + 20 * GP_MIB);
	assert_int_equal(reserve(dev, 12 * GP_MIB), a + 148 * GP_MIB);
	assert_int_equal(reserve(dev, 4 * GP_MIB), b + 28 * GP_MIB);
	assert_int_equal(reserve(dev, 2 * GP_MIB), b - UNIT);
	gp_device_close(dev);
}

static void given_back_ranges_are_taken_again(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t a = reserve(dev, UNIT), b = reserve(dev, UNIT), c = reserve(dev, UNIT);
	uint64_t d = reserve(dev, UNIT);

	(void)state;
	assert_int_equal(gp_device_release(dev, a), 0);
	assert_int_equal(gp_device_release(dev, c), 0);
	assert_int_equal(reserve(dev, UNIT), c); /* the most recent */
	assert_int_equal(gp_device_release(dev, c), 0);
	assert_int_equal(gp_device_release(dev, b), 0); /* a, b, c are neighbours: one hole */
	assert_int_equal(reserve(dev, 3 * UNIT), c);
	assert_int_equal(d, c - UNIT);
	gp_device_close(dev);
}

static void capacity_is_a_limit_in_pages(void **state)
{
	struct gp_device *dev = open_capacity(3 * PAGE + GP_MIB);
	uint64_t addr = 77, handle = 77, a, free_bytes, total;

	(void)state;
	assert_int_equal(gp_device_reserve(dev, 3 * PAGE + 1, &addr), GP_NOMEM);
	a = reserve(dev, PAGE + 1);
	assert_int_equal(gp_device_create(dev, 2 * PAGE, &handle), GP_NOMEM);
	reserve(dev, 512);
	assert_int_equal(gp_device_reserve(dev, PAGE, &addr), GP_NOMEM);
	assert_int_equal(gp_device_reserve(dev, UINT64_MAX, &addr), GP_NOMEM);
	assert_int_equal(addr, 77);
	assert_int_equal(handle, 77);
	assert_int_equal(stats_of(dev).failures, 4);
	assert_int_equal(gp_device_mem_info(dev, &free_bytes, &total), 0);
	assert_int_equal(free_bytes, GP_MIB);
	assert_int_equal(total, 3 * PAGE + GP_MIB);
	assert_int_equal(gp_device_release(dev, a), 0);
	reserve(dev, 2 * PAGE);
	gp_device_close(dev);
}

static void bad_releases_are_faults(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t big = reserve(dev, 3 * PAGE), small = reserve(dev, 2048), other = reserve(dev, 9);

	(void)state;
	assert_string_equal(gp_device_error(dev), "");
	assert_int_equal(gp_device_release(dev, 4096), -EINVAL);
	assert_non_null(strstr(gp_device_error(dev), "0x1000"));
	assert_int_equal(gp_device_release(dev, big + PAGE), -EINVAL);
	assert_int_equal(gp_device_release(dev, small + 512), -EINVAL); /* inside a block */
	assert_int_equal(gp_device_release(dev, small + 1), -EINVAL);
	assert_int_equal(gp_device_release(dev, other + 512), -EINVAL); /* behind the last */
	assert_int_equal(gp_device_release(dev, small), 0);
	assert_int_equal(gp_device_release(dev, small), -EINVAL);
	assert_int_equal(gp_device_release(dev, big), 0);
	assert_int_equal(gp_device_release(dev, big), -EINVAL);
	assert_int_equal(gp_device_reserve(dev, 0, &big), -EINVAL);
	assert_int_equal(stats_of(dev).calls[GP_CALL_RELEASE], 2);
	assert_int_equal(stats_of(dev).reserved_bytes, PAGE);
	gp_device_close(dev);
}

static void vmm_maps_and_unmaps(void **state)
{
	struct gp_device *dev = open_capacity(8 * PAGE);
	uint64_t va, h1, h2;

	(void)state;
	assert_int_equal(gp_device_va_reserve(dev, 1024 * GP_GIB, &va), 0); /* needs no memory */
	assert_int_equal(gp_device_create(dev, 2 * PAGE, &h1), 0);
	assert_int_equal(gp_device_create(dev, 6 * PAGE, &h2), 0);
	assert_int_equal(gp_device_map(dev, va, 2 * PAGE, h1), 0);
	assert_int_equal(gp_device_map(dev, va + 2 * PAGE, 6 * PAGE, h2), 0);
	assert_int_equal(stats_of(dev).reserved_bytes, 8 * PAGE);
	assert_int_equal(gp_device_va_release(dev, va, 1024 * GP_GIB), -EINVAL);
	assert_int_equal(gp_device_unmap(dev, va, 4 * PAGE), -EINVAL); /* cuts the second one */
	assert_int_equal(gp_device_unmap(dev, va, 10 * PAGE), -EINVAL);
	assert_int_equal(gp_device_unmap(dev, va + PAGE, PAGE), -EINVAL);
	assert_int_equal(gp_device_unmap(dev, va, 2 * PAGE), 0);
	assert_int_equal(gp_device_unmap(dev, va, 2 * PAGE), -EINVAL);
	assert_int_equal(gp_device_destroy(dev, h1, 2 * PAGE), 0);
	assert_int_equal(gp_device_destroy(dev, h1, 2 * PAGE), -EINVAL);
	/* Destroyed while mapped: the capacity stays taken until the unmap. */
	assert_int_equal(gp_device_destroy(dev, h2, 6 * PAGE), 0);
	assert_int_equal(gp_device_create(dev, 3 * PAGE, &h1), GP_NOMEM);
	assert_int_equal(stats_of(dev).reserved_bytes, 6 * PAGE);
	assert_int_equal(gp_device_unmap(dev, va + 2 * PAGE, 6 * PAGE), 0);
	assert_int_equal(stats_of(dev).reserved_bytes, 0);
	assert_int_equal(gp_device_create(dev, 3 * PAGE, &h1), 0);
	assert_int_equal(stats_of(dev).reserved_bytes, 3 * PAGE);        /* mapped or not */
	assert_int_equal(gp_device_destroy(dev, h2, 6 * PAGE), -EINVAL); /* stale */
	assert_int_equal(gp_device_destroy(dev, h1, 3 * PAGE), 0);
	assert_int_equal(gp_device_va_release(dev, va, 1024 * GP_GIB), 0);
	assert_int_equal(gp_device_va_release(dev, va, 1024 * GP_GIB), -EINVAL);
	assert_int_equal(stats_of(dev).reserved_bytes, 0);
	gp_device_close(dev);
}

static uint8_t byte_at(struct gp_device *dev, uint64_t addr)
{
	uint8_t byte = 0;

	assert_int_equal(gp_device_read(dev, addr, &byte, 1), 0);
	return byte;
}

/* One memory at three places: written through any, read through all; and its contents stay when
 * all mappings are gone. */
static void memory_is_the_same_everywhere(void **state)
{
	struct gp_device *dev = open_capacity(8 * PAGE);
	uint64_t va, h1, h2, bad, found;

	(void)state;
	assert_int_equal(gp_device_va_reserve(dev, 16 * PAGE, &va), 0);
	assert_int_equal(gp_device_create(dev, PAGE, &h1), 0);
	assert_int_equal(gp_device_create(dev, 2 * PAGE, &h2), 0);
	assert_int_equal(gp_device_map(dev, va, PAGE, h1), 0);
	assert_int_equal(gp_device_map(dev, va + PAGE, 2 * PAGE, h2), 0);
	assert_int_equal(gp_device_map(dev, va + 8 * PAGE, 2 * PAGE, h2), 0);
	assert_int_equal(gp_device_map(dev, va + 10 * PAGE, PAGE, h1), 0);
	assert_int_equal(gp_device_map(dev, va + 12 * PAGE, PAGE, h1), 0);
	assert_int_equal(stats_of(dev).reserved_bytes, 3 * PAGE);
	/* Over the seam between the two: the last 256 bytes of h2, the first of h1. */
	assert_int_equal(gp_device_memset(dev, va + 10 * PAGE - 256, 7, 512), 0);
	assert_int_equal(byte_at(dev, va + 3 * PAGE - 257), 0xAA);
	assert_int_equal(byte_at(dev, va + 3 * PAGE - 1), 7);
	assert_int_equal(byte_at(dev, va), 7);
	assert_int_equal(byte_at(dev, va + 12 * PAGE + 255), 7);
	assert_int_equal(byte_at(dev, va + 12 * PAGE + 256), 0xAA);
	assert_int_equal(gp_device_fill(dev, va + 9 * PAGE, 2 * PAGE, 0x0807060504030201, 0), 0);
	assert_int_equal(gp_device_verify(dev, va, PAGE, 0x0807060504030201, 0, &bad, &found), 0);
	assert_int_equal(gp_device_fill(dev, va + 12 * PAGE + 8, 8, 0, 0), 0);
	assert_int_equal(
		gp_device_verify(dev, va + 9 * PAGE, 2 * PAGE, 0x0807060504030201, 0, &bad, &found),
		GP_DIFFERS);
	assert_int_equal(bad, PAGE + 8);
	assert_int_equal(found, 0);
	/* Several at once; the first place last. */
	assert_int_equal(gp_device_unmap(dev, va, 3 * PAGE), -EINVAL);
	assert_non_null(strstr(gp_device_error(dev), "still mapped elsewhere"));
	assert_int_equal(gp_device_unmap(dev, va + 8 * PAGE, 3 * PAGE), 0);
	assert_int_equal(gp_device_unmap(dev, va + 12 * PAGE, PAGE), 0);
	assert_int_equal(gp_device_unmap(dev, va, 3 * PAGE), 0);
	assert_int_equal(stats_of(dev).reserved_bytes, 3 * PAGE);
	assert_int_equal(gp_device_map(dev, va + 15 * PAGE, PAGE, h1), 0);
	assert_int_equal(byte_at(dev, va + 15 * PAGE + 1), 2);
	assert_int_equal(gp_device_unmap(dev, va + 15 * PAGE, PAGE), 0);
	assert_int_equal(gp_device_destroy(dev, h1, PAGE), 0);
	assert_int_equal(gp_device_destroy(dev, h2, 2 * PAGE), 0);
	/* New memory has nobody's contents. */
	assert_int_equal(gp_device_create(dev, 3 * PAGE, &h1), 0);
	assert_int_equal(gp_device_map(dev, va, 3 * PAGE, h1), 0);
	assert_int_equal(byte_at(dev, va), 0xAA);
	assert_int_equal(gp_device_unmap(dev, va, 3 * PAGE), 0);
	assert_int_equal(gp_device_destroy(dev, h1, 3 * PAGE), 0);
	gp_device_close(dev);
}

static void vmm_refuses_what_the_driver_would(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t va, h, h2, out = 0;

	(void)state;
	assert_int_equal(gp_device_va_reserve(dev, 16 * PAGE, &va), 0);
	assert_int_equal(gp_device_create(dev, 4 * PAGE, &h), 0);
	assert_int_equal(gp_device_create(dev, 4 * PAGE, &h2), 0);
	assert_int_equal(gp_device_va_reserve(dev, PAGE + 1, &out), -EINVAL);
	assert_int_equal(gp_device_create(dev, 4096, &out), -EINVAL);
	assert_int_equal(gp_device_create(dev, 0, &out), -EINVAL);
	assert_int_equal(gp_device_map(dev, va + 4096, 4 * PAGE, h), -EINVAL);
	assert_int_equal(gp_device_map(dev, va, 2 * PAGE, h), -EINVAL); /* not its size */
	assert_int_equal(gp_device_map(dev, va, 4 * PAGE, h + 100), -EINVAL);
	assert_int_equal(gp_device_map(dev, va, 4 * PAGE, 0), -EINVAL);
	assert_int_equal(gp_device_map(dev, va + 14 * PAGE, 4 * PAGE, h), -EINVAL);
	assert_int_equal(gp_device_map(dev, va - 64 * PAGE, 4 * PAGE, h), -EINVAL);
	assert_int_equal(gp_device_map(dev, va, 4 * PAGE, h), 0);
	assert_int_equal(gp_device_map(dev, va + 2 * PAGE, 4 * PAGE, h2), -EINVAL);
	assert_non_null(strstr(gp_device_error(dev), "overlaps"));
	assert_int_equal(gp_device_destroy(dev, h2, 2 * PAGE), -EINVAL);
	assert_int_equal(gp_device_va_reserve(dev, GP_SIZE_MAX, &out), GP_NOMEM);
	assert_int_equal(gp_device_va_reserve(dev, gp_align_down(UINT64_MAX, PAGE), &out),
			 GP_NOMEM);
	assert_int_equal(out, 0);
	gp_device_close(dev);
}

static void many_handles_are_all_different(void **state)
{
	enum { N = 200 };
	struct gp_device *dev = open_capacity(0);
	uint64_t h[N];

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++) {
			assert_int_equal(gp_device_create(dev, PAGE, &h[i]), 0);
			for (int k = 0; k < i; k++)
				assert_int_not_equal(h[i], h[k]);
		}
		for (int i = 0; i < N; i++)
			assert_int_equal(gp_device_destroy(dev, h[i], PAGE), 0);
	}
	gp_device_close(dev);
}

static void memset_is_read_back(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t a = reserve(dev, 4096), va, h;
	unsigned char buf[300], expect[300];

	(void)state;
	memset(expect, 0xAA, sizeof(expect));
	assert_int_equal(gp_device_read(dev, a, buf, 300), 0);
	assert_memory_equal(buf, expect, 300);
	assert_int_equal(gp_device_memset(dev, a + 50, 1, 200), 0);
	assert_int_equal(gp_device_memset(dev, a + 100, 2, 10), 0);
	assert_int_equal(gp_device_memset(dev, a + 240, 3, 20), 0);
	memset(expect + 50, 1, 200);
	memset(expect + 100, 2, 10);
	memset(expect + 240, 3, 20);
	assert_int_equal(gp_device_read(dev, a, buf, 300), 0);
	assert_memory_equal(buf, expect, 300);
	assert_int_equal(gp_device_read(dev, a + 105, buf, 100), 0);
	assert_memory_equal(buf, expect + 105, 100);
	assert_int_equal(gp_device_read(dev, 4096, buf, 1), -EINVAL);
	assert_int_equal(gp_device_memset(dev, a, 0, 64 * GP_GIB), -EINVAL);
	assert_int_equal(gp_device_memset(dev, a, 0, UINT64_MAX), -EINVAL);
	assert_int_equal(gp_device_memset(dev, a, 0, 0), -EINVAL);
	/* A page that was given back and came again is as new. */
	assert_int_equal(gp_device_release(dev, a), 0);
	assert_int_equal(reserve(dev, 4096), a);
	assert_int_equal(gp_device_read(dev, a + 50, buf, 1), 0);
	assert_int_equal(buf[0], 0xAA);
	/* Across two mappings. */
	assert_int_equal(gp_device_va_reserve(dev, 2 * PAGE, &va), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(gp_device_create(dev, PAGE, &h), 0);
		assert_int_equal(gp_device_memset(dev, va, 9, 2 * PAGE), -EINVAL);
		assert_int_equal(gp_device_map(dev, va + (uint64_t)i * PAGE, PAGE, h), 0);
	}
	assert_int_equal(gp_device_memset(dev, va, 9, 2 * PAGE), 0);
	assert_int_equal(gp_device_read(dev, va + PAGE - 1, buf, 2), 0);
	assert_int_equal(buf[0] + buf[1], 18);
	gp_device_close(dev);
}

static void defects_strike_once(void **state)
{
	struct gp_device_config cfg = {
		.inject = { .fail_call = 3, .slow_call = 2, .slow_ns = 1000000000 }
	};
	struct gp_device *dev = open_with(&cfg);
	uint64_t h, va, t0;

	(void)state;
	reserve(dev, PAGE);
	t0 = model_ns(dev);
	assert_int_equal(gp_device_create(dev, PAGE, &h), 0);
	assert_true(model_ns(dev) - t0 >= 1000000000);
	assert_int_equal(gp_device_va_reserve(dev, PAGE, &va), 0); /* not counted */
	assert_int_equal(gp_device_map(dev, va, PAGE, h), GP_NOMEM);
	t0 = model_ns(dev);
	assert_int_equal(gp_device_map(dev, va, PAGE, h), 0);
	assert_true(model_ns(dev) - t0 < 1000000000);
	gp_device_close(dev);
}

static void lost_memory_stays_lost(void **state)
{
	struct gp_device_config cfg = { .capacity = 8 * PAGE, .inject.lose_bytes = 3 * PAGE };
	struct gp_device *dev = open_with(&cfg);
	uint64_t addr, h, free_bytes, total;

	(void)state;
	addr = reserve(dev, 8 * PAGE);
	assert_int_equal(gp_device_release(dev, addr), 0);
	assert_int_equal(gp_device_reserve(dev, 8 * PAGE, &addr), GP_NOMEM);
	assert_int_equal(gp_device_create(dev, 5 * PAGE, &h), 0);
	assert_int_equal(gp_device_destroy(dev, h, 5 * PAGE), 0);
	addr = reserve(dev, 2 * PAGE);
	assert_int_equal(gp_device_release(dev, addr), 0);
	assert_int_equal(gp_device_mem_info(dev, &free_bytes, &total), 0);
	assert_int_equal(free_bytes, 0);
	gp_device_close(dev);
}

struct seen {
	struct gp_range_set ranges;
	unsigned added, gone, joins;
	uint64_t same;
	struct gp_device *dev;
};

static void observe(void *arg, bool added, struct gp_range range, bool joins, uint64_t same)
{
	struct seen *seen = arg;
	uint64_t free_bytes, total;

	/* No lock is held that this call needs. */
	assert_int_equal(gp_device_mem_info(seen->dev, &free_bytes, &total), 0);
	seen->joins += joins;
	seen->same = same;
	if (added) {
		seen->added++;
		assert_int_equal(gp_range_set_insert(&seen->ranges, range.addr, range.size, 0), 0);
	} else {
		seen->gone++;
		assert_int_equal(gp_range_set_remove(&seen->ranges, range.addr, NULL), 0);
	}
}

static void observer_hears_of_pages(void **state)
{
	struct seen seen = { .dev = open_capacity(0) };
	struct gp_device *dev = seen.dev;
	uint64_t a, b, c, va, h;

	(void)state;
	gp_range_set_init(&seen.ranges);
	gp_device_observe(dev, observe, &seen);
	a = reserve(dev, 512);
	b = reserve(dev, 512);
	c = reserve(dev, 5 * GP_MIB);
	assert_int_equal(seen.added, 2);
	assert_int_equal(seen.ranges.bytes, PAGE + 6 * GP_MIB);
	assert_int_equal(gp_device_va_reserve(dev, 4 * PAGE, &va), 0);
	assert_int_equal(gp_device_create(dev, PAGE, &h), 0);
	assert_int_equal(seen.added, 2);
	assert_int_equal(gp_device_map(dev, va, PAGE, h), 0);
	assert_int_equal(seen.added, 3);
	assert_int_equal(seen.joins, 1);
	assert_int_equal(seen.same, 0);
	assert_int_equal(gp_device_map(dev, va + 2 * PAGE, PAGE, h), 0);
	assert_int_equal(seen.same, va);
	assert_int_equal(gp_device_unmap(dev, va + 2 * PAGE, PAGE), 0);
	assert_int_equal(seen.same, va);
	seen.added--;
	seen.gone--;
	assert_int_equal(gp_device_unmap(dev, va, PAGE), 0);
	assert_int_equal(seen.same, 0);
	assert_int_equal(gp_device_destroy(dev, h, PAGE), 0);
	assert_int_equal(gp_device_release(dev, a), 0);
	assert_int_equal(seen.gone, 1);
	assert_int_equal(gp_device_release(dev, b), 0);
	assert_int_equal(gp_device_release(dev, c), 0);
	assert_int_equal(seen.gone, 3);
	assert_int_equal(seen.ranges.n, 0);
	gp_device_observe(dev, NULL, NULL);
	reserve(dev, PAGE);
	assert_int_equal(seen.added, 3);
	gp_range_set_fini(&seen.ranges);
	gp_device_close(dev);
}

static void calls_are_counted_and_timed(void **state)
{
	struct gp_device *dev = open_capacity(0);
	struct gp_device_stats s;
	uint64_t a = reserve(dev, PAGE);

	(void)state;
	assert_int_equal(gp_device_stream_wait(dev, 0, 3), 0);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(gp_device_release(dev, a), 0);
	gp_device_stats(dev, &s);
	for (unsigned i = 0; i < GP_CALL_N; i++) {
		bool used = i == GP_CALL_RESERVE || i == GP_CALL_RELEASE ||
			    i == GP_CALL_EVENT_WAIT || i == GP_CALL_SYNC;

		assert_int_equal(s.calls[i], used);
		assert_string_not_equal(gp_call_name((enum gp_call)i), "unknown");
	}
	assert_string_equal(gp_call_name(GP_CALL_N), "unknown");
	assert_true(s.host_ticks > 0);
	gp_device_close(dev);
}

/* -- the profile ------------------------------------------------------------------------------ */

/* Two rows of each call that must be there, each time with one value: nothing to draw from. */
static const struct gp_profile_row simple_rows[] = {
	{ "cudaMalloc.held", 256, 10, 2000, 2000, 2000, 2000, 2000, 0 },
	{ "cudaMalloc.held", GP_MIB, 10, 777000, 777000, 777000, 777000, 777000, 0 },
	{ "cudaMalloc.pair", 2 * GP_MIB, 10, 10000, 10000, 10000, 10000, 10000, 0 },
	{ "cudaMalloc.pair", 8 * GP_MIB, 10, 30000, 30000, 30000, 30000, 30000, 0 },
	{ "cudaFree.held", 256, 10, 3000, 3000, 3000, 3000, 3000, 0 },
	{ "cudaFree.pair", 2 * GP_MIB, 10, 20000, 20000, 20000, 20000, 20000, 0 },
};

static void profile_sets_costs(void **state)
{
	struct gp_profile profile = {
		.card = "NVIDIA Test",
		.total_bytes = 2000000000,
		.free_bytes = 1000000000,
		.page_bytes = PAGE,
		.rows = simple_rows,
		.n_rows = GP_ARRAY_LEN(simple_rows),
	};
	struct gp_device_config cfg = { .profile = &profile };
	struct gp_device *dev;
	char why[100];
	uint64_t t0, addr,
		steps[][2] = {
			{ 4 * GP_MIB, 20000 },  /* half way in the logarithm */
			{ 16 * GP_MIB, 60000 }, /* beyond the table: in proportion */
			{ 2 * GP_MIB, 10000 },  { 256, 10000 }, /* a new page */
			{ 256, 2000 },                          /* in that page */
			{ 4096, 2000 },                         /* flat */
		};
	struct gp_async *pool;

	(void)state;
	assert_int_equal(gp_profile_price(&profile, why, sizeof(why)), 0);
	dev = open_with(&cfg);
	assert_string_equal(dev->info.name, "simulated NVIDIA Test");
	assert_false(dev->info.async);
	assert_false(dev->info.vmm);
	assert_int_equal(dev->info.total_bytes, 2000000000);
	for (size_t i = 0; i < GP_ARRAY_LEN(steps); i++) {
		t0 = model_ns(dev);
		addr = reserve(dev, steps[i][0]);
		assert_int_equal(model_ns(dev) - t0, steps[i][1]);
	}
	t0 = model_ns(dev);
	assert_int_equal(gp_device_release(dev, addr), 0);
	assert_int_equal(model_ns(dev) - t0, 3000);
	assert_int_equal(gp_device_async_open(dev, &(struct gp_async_config){ 0 }, &pool),
			 -ENOTSUP);
	assert_int_equal(gp_device_va_reserve(dev, PAGE, &addr), -ENOTSUP);
	assert_int_equal(gp_device_va_release(dev, PAGE, PAGE), -ENOTSUP);
	assert_int_equal(gp_device_create(dev, PAGE, &addr), -ENOTSUP);
	assert_int_equal(gp_device_destroy(dev, 1, PAGE), -ENOTSUP);
	assert_int_equal(gp_device_map(dev, PAGE, PAGE, 1), -ENOTSUP);
	assert_int_equal(gp_device_unmap(dev, PAGE, PAGE), -ENOTSUP);
	gp_device_close(dev);
}

/* -- threads ---------------------------------------------------------------------------------- */

static void *hammer(void *arg)
{
	struct gp_device *dev = arg;
	uint64_t addr[64], h, va;
	int bad = gp_device_va_reserve(dev, PAGE, &va);

	for (int round = 0; round < 200; round++) {
		for (unsigned i = 0; i < GP_ARRAY_LEN(addr); i++)
			bad |= gp_device_reserve(dev, UINT64_C(256) << i % 16, &addr[i]);
		for (unsigned i = 0; i < GP_ARRAY_LEN(addr); i++)
			bad |= gp_device_release(dev, addr[i]);
		bad |= gp_device_create(dev, PAGE, &h);
		bad |= gp_device_map(dev, va, PAGE, h);
		bad |= gp_device_unmap(dev, va, PAGE);
		bad |= gp_device_destroy(dev, h, PAGE);
	}
	bad |= gp_device_va_release(dev, va, PAGE);
	return bad ? arg : NULL;
}

static void threads_leave_the_books_right(void **state)
{
	struct gp_device *dev = open_capacity(0);
	pthread_t thread[4];
	uint64_t free_before, free_after, total;

	(void)state;
	assert_int_equal(gp_device_mem_info(dev, &free_before, &total), 0);
	for (unsigned i = 0; i < GP_ARRAY_LEN(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, dev), 0);
	for (unsigned i = 0; i < GP_ARRAY_LEN(thread); i++) {
		void *bad;

		assert_int_equal(pthread_join(thread[i], &bad), 0);
		assert_null(bad);
	}
	assert_int_equal(gp_device_mem_info(dev, &free_after, &total), 0);
	assert_int_equal(free_before, free_after);
	assert_int_equal(stats_of(dev).reserved_bytes, 0);
	assert_int_equal(stats_of(dev).calls[GP_CALL_RELEASE], 4 * 200 * 64);
	gp_device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(default_device_is_the_profiles_card),
		cmocka_unit_test(small_reservations_share_pages),
		cmocka_unit_test(shared_blocks_never_overlap),
		cmocka_unit_test(ranges_go_top_down_in_units),
		cmocka_unit_test(given_back_ranges_are_taken_again),
		cmocka_unit_test(capacity_is_a_limit_in_pages),
		cmocka_unit_test(bad_releases_are_faults),
		cmocka_unit_test(vmm_maps_and_unmaps),
		cmocka_unit_test(memory_is_the_same_everywhere),
		cmocka_unit_test(vmm_refuses_what_the_driver_would),
		cmocka_unit_test(many_handles_are_all_different),
		cmocka_unit_test(memset_is_read_back),
		cmocka_unit_test(defects_strike_once),
		cmocka_unit_test(lost_memory_stays_lost),
		cmocka_unit_test(observer_hears_of_pages),
		cmocka_unit_test(calls_are_counted_and_timed),
		cmocka_unit_test(profile_sets_costs),
		cmocka_unit_test(threads_leave_the_books_right),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
