/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA device on a real GPU: every hook, contents read back, the capacity limit, the texts of
 * faults, and that no error is left behind. Skips where there is no GPU, no driver or
 * no CUDA in the build; what the refusal to open looks like is checked even then. Takes less than
 * 2 GiB of the card.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "allocators/device/device.h"
#include "without_gpu.h"

static struct gp_device *open_capacity(uint64_t capacity)
{
	struct gp_device_config cfg = { .capacity = capacity };
	struct gp_device *dev = NULL;
	char why[200] = "";

	if (gp_device_open_cuda(&cfg, &dev, why, sizeof(why)))
		fail_msg("cannot open: %s", why);
	return dev;
}

static uint64_t reserved(struct gp_device *dev)
{
	struct gp_device_stats s;

	gp_device_stats(dev, &s);
	return s.reserved_bytes;
}

/* Every byte of a range has the value; looks at both ends and a few places between. */
static void expect_bytes(struct gp_device *dev, uint64_t addr, uint64_t size, uint8_t value)
{
	unsigned char buf[256], expect[256];
	size_t n = (size_t)gp_min_u64(size, sizeof(buf));

	memset(expect, value, sizeof(expect));
	for (uint64_t at = 0; at + n <= size; at += gp_max_u64(size / 8, 1)) {
		assert_int_equal(gp_device_read(dev, addr + at, buf, n), 0);
		assert_memory_equal(buf, expect, n);
	}
	assert_int_equal(gp_device_read(dev, addr + size - n, buf, n), 0);
	assert_memory_equal(buf, expect, n);
}

static void device_describes_itself(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t free_bytes, total;

	(void)state;
	assert_true(strlen(dev->info.name) > 0 && strlen(dev->info.driver) > 0);
	assert_false(dev->info.simulated);
	assert_true(gp_is_pow2(dev->info.page_bytes));
	assert_int_equal(gp_device_mem_info(dev, &free_bytes, &total), 0);
	assert_true(free_bytes > 0 && free_bytes <= total);
	assert_int_equal(total, dev->info.total_bytes);
	print_message("# %s, driver %s, page %llu, vmm %d, async %d\n", dev->info.name,
		      dev->info.driver, (unsigned long long)dev->info.page_bytes, dev->info.vmm,
		      dev->info.async);
	gp_device_close(dev);
}

static void reservations_hold_contents(void **state)
{
	static const uint64_t sizes[] = { 1, 512, 65536, GP_MIB, GP_MIB + 1, 50 * GP_MIB };
	struct gp_device *dev = open_capacity(0);
	uint64_t addr[GP_ARRAY_LEN(sizes)];

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++) {
		assert_int_equal(gp_device_reserve(dev, sizes[i], &addr[i]), 0);
		assert_int_equal(addr[i] % GP_ALIGN, 0);
		if (sizes[i] > dev->info.page_bytes / 2)
			assert_int_equal(addr[i] % dev->info.page_bytes, 0);
		assert_int_equal(gp_device_memset(dev, addr[i], (uint8_t)(i + 1), sizes[i]), 0);
	}
	assert_true(reserved(dev) >= 52 * GP_MIB);
	for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++)
		expect_bytes(dev, addr[i], sizes[i], (uint8_t)(i + 1));
	for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++)
		assert_int_equal(gp_device_release(dev, addr[i]), 0);
	assert_int_equal(reserved(dev), 0);
	gp_device_close(dev);
}

/* A fault names itself, and the next call is not troubled by it. */
static void faults_have_texts_and_do_not_stick(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t addr, free_bytes, total;
	unsigned char byte;

	(void)state;
	assert_int_equal(gp_device_reserve(dev, 4096, &addr), 0);
	assert_int_equal(gp_device_release(dev, addr + 256), -EINVAL);
	assert_int_equal(gp_device_release(dev, addr), 0);
	assert_int_equal(gp_device_release(dev, addr), -EINVAL);
	assert_non_null(strstr(gp_device_error(dev), "cudaFree"));
	/* An address that never was the device's: CUDA itself objects. */
	assert_true(gp_device_memset(dev, 4096, 1, 64) < 0);
	assert_non_null(strstr(gp_device_error(dev), "cudaError"));
	assert_true(gp_device_read(dev, 4096, &byte, 1) < 0);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(gp_device_mem_info(dev, &free_bytes, &total), 0);
	assert_int_equal(gp_device_reserve(dev, 4096, &addr), 0);
	assert_int_equal(gp_device_release(dev, addr), 0);
	gp_device_close(dev);
}

static const struct gp_async_config keep_all = { UINT64_MAX, true, true, true };

static void expect_no_async(struct gp_device *dev, uint64_t size)
{
	struct gp_async *pool;
	uint64_t addr = 77;

	assert_int_equal(gp_device_async_open(dev, &keep_all, &pool), 0);
	assert_int_equal(gp_device_async_alloc(dev, pool, size, 0, &addr), GP_NOMEM);
	assert_int_equal(addr, 77);
	gp_device_async_close(dev, pool);
}

static void out_of_memory_is_an_outcome(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t addr = 77, total = dev->info.total_bytes;
	uint64_t page = dev->info.page_bytes;

	(void)state;
	assert_int_equal(gp_device_reserve(dev, total + GP_GIB, &addr), GP_NOMEM);
	assert_int_equal(gp_device_reserve(dev, GP_SIZE_MAX, &addr), GP_NOMEM);
	if (dev->info.async)
		expect_no_async(dev, total + GP_GIB);
	if (dev->info.vmm)
		assert_int_equal(gp_device_create(dev, gp_align_up(total + GP_GIB, page), &addr),
				 GP_NOMEM);
	assert_int_equal(addr, 77);
	assert_int_equal(gp_device_sync(dev), 0); /* the last error is cleared */
	assert_int_equal(gp_device_reserve(dev, 4096, &addr), 0);
	assert_int_equal(gp_device_release(dev, addr), 0);
	assert_int_equal(reserved(dev), 0);
	gp_device_close(dev);
}

static void capacity_is_a_limit(void **state)
{
	struct gp_device *dev = open_capacity(64 * GP_MIB);
	uint64_t a, b = 77, free_bytes, total;

	(void)state;
	assert_int_equal(gp_device_reserve(dev, 65 * GP_MIB, &b), GP_NOMEM);
	assert_int_equal(gp_device_reserve(dev, 40 * GP_MIB, &a), 0);
	assert_int_equal(gp_device_reserve(dev, 32 * GP_MIB, &b), GP_NOMEM);
	if (dev->info.vmm)
		assert_int_equal(gp_device_create(dev, 32 * GP_MIB, &b), GP_NOMEM);
	if (dev->info.async)
		expect_no_async(dev, 32 * GP_MIB);
	assert_int_equal(b, 77);
	assert_int_equal(gp_device_mem_info(dev, &free_bytes, &total), 0);
	assert_int_equal(total, 64 * GP_MIB);
	assert_int_equal(free_bytes, 24 * GP_MIB);
	assert_int_equal(gp_device_release(dev, a), 0);
	assert_int_equal(gp_device_reserve(dev, 64 * GP_MIB, &a), 0);
	assert_int_equal(gp_device_release(dev, a), 0);
	gp_device_close(dev);
}

static void vmm_joins_what_is_mapped_side_by_side(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t page = dev->info.page_bytes, va, h[2], out;

	(void)state;
	if (!dev->info.vmm) {
		gp_device_close(dev);
		print_message("# this device maps no memory\n");
		return;
	}
	assert_int_equal(gp_device_va_reserve(dev, 64 * page, &va), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(gp_device_create(dev, page, &h[i]), 0);
		assert_int_equal(gp_device_map(dev, va + i * page, page, h[i]), 0);
	}
	assert_int_equal(reserved(dev), 2 * page);
	assert_int_equal(gp_device_memset(dev, va, 0x5A, 2 * page), 0);
	expect_bytes(dev, va, 2 * page, 0x5A);
	assert_true(gp_device_map(dev, va, page, h[0]) < 0);
	assert_non_null(strstr(gp_device_error(dev), "cuMemMap"));
	assert_int_equal(gp_device_map(dev, va + 1, page, h[0]), -EINVAL);
	assert_int_equal(gp_device_unmap(dev, va, 3 * page), -EINVAL);
	assert_int_equal(gp_device_unmap(dev, va, 2 * page), 0);
	assert_int_equal(reserved(dev), 2 * page);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(gp_device_destroy(dev, h[i], page), 0);
	assert_int_equal(gp_device_unmap(dev, va, page), -EINVAL);
	assert_int_equal(gp_device_va_release(dev, va, 64 * page), 0);
	assert_int_equal(gp_device_create(dev, page + 1, &out), -EINVAL);
	assert_int_equal(reserved(dev), 0);
	gp_device_close(dev);
}

/* Two handles, each at two places, in the other order: one memory, no more of it, and the first
 * place is the last to go. */
static void memory_is_the_same_everywhere(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t page = dev->info.page_bytes, va, h[2];

	(void)state;
	if (!dev->info.vmm) {
		gp_device_close(dev);
		print_message("# this device maps no memory\n");
		return;
	}
	assert_int_equal(gp_device_va_reserve(dev, 64 * page, &va), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(gp_device_create(dev, page, &h[i]), 0);
		assert_int_equal(gp_device_map(dev, va + i * page, page, h[i]), 0);
		assert_int_equal(gp_device_map(dev, va + (11 - i) * page, page, h[i]), 0);
	}
	assert_int_equal(reserved(dev), 2 * page);
	assert_int_equal(gp_device_memset(dev, va + 10 * page, 0, 2 * page), 0);
	/* Over the seam of the second place: the end of h[1] and the start of h[0]. */
	assert_int_equal(gp_device_memset(dev, va + 11 * page - 4096, 0x5A, 8192), 0);
	expect_bytes(dev, va + 2 * page - 4096, 4096, 0x5A);
	expect_bytes(dev, va, 4096, 0x5A);
	expect_bytes(dev, va + 4096, 4096, 0);
	assert_int_equal(gp_device_unmap(dev, va, page), -EINVAL);
	assert_non_null(strstr(gp_device_error(dev), "mapped elsewhere"));
	assert_int_equal(gp_device_unmap(dev, va + 10 * page, 2 * page), 0);
	expect_bytes(dev, va, 4096, 0x5A);
	/* Destroyed while it is mapped: held until it is not. */
	assert_int_equal(gp_device_destroy(dev, h[0], page), 0);
	assert_int_equal(gp_device_destroy(dev, h[0], page), -EINVAL);
	assert_int_equal(reserved(dev), 2 * page);
	assert_int_equal(gp_device_unmap(dev, va, 2 * page), 0);
	assert_int_equal(reserved(dev), page);
	assert_int_equal(gp_device_destroy(dev, h[1], page), 0);
	assert_int_equal(gp_device_va_release(dev, va, 64 * page), 0);
	assert_int_equal(reserved(dev), 0);
	gp_device_close(dev);
}

/* ---- pools: the same calls as in test_sim_async.c, so the same numbers on this driver ---- */

#define WORK_NS UINT64_C(20000000)

/* NULL: this device has no stream-ordered allocations. */
static struct gp_device *open_async(const struct gp_async_config *cfg, struct gp_async **pool)
{
	struct gp_device *dev = open_capacity(0);

	if (dev->info.async) {
		assert_int_equal(gp_device_async_open(dev, cfg, pool), 0);
		return dev;
	}
	gp_device_close(dev);
	print_message("# this device has no stream-ordered allocations\n");
	return NULL;
}

static void close_async(struct gp_device *dev, struct gp_async *pool)
{
	gp_device_async_close(dev, pool);
	assert_int_equal(reserved(dev), 0);
	gp_device_close(dev);
}

static uint64_t take(struct gp_device *dev, struct gp_async *pool, uint64_t mib, uint32_t stream)
{
	uint64_t addr;

	assert_int_equal(gp_device_async_alloc(dev, pool, mib * GP_MIB, stream, &addr), 0);
	return addr;
}

static struct gp_async_counts counts(struct gp_device *dev, struct gp_async *pool)
{
	struct gp_async_counts c;

	assert_int_equal(gp_device_async_counts(dev, pool, &c), 0);
	return c;
}

static void async_blocks_come_and_go(void **state)
{
	struct gp_async *pool;
	struct gp_device *dev = open_async(&keep_all, &pool);
	uint64_t a, b;

	(void)state;
	if (!dev)
		return;
	a = take(dev, pool, 3, 0);
	b = take(dev, pool, 3, 2);
	assert_int_equal(counts(dev, pool).used, 6 * GP_MIB);
	assert_int_equal(counts(dev, pool).reserved, reserved(dev));
	assert_true(reserved(dev) >= 6 * GP_MIB);
	assert_int_equal(gp_device_stream_wait(dev, 2, 0), 0);
	assert_int_equal(gp_device_memset(dev, a, 1, 3 * GP_MIB), 0);
	assert_int_equal(gp_device_memset(dev, b, 2, 3 * GP_MIB), 0);
	expect_bytes(dev, a, 3 * GP_MIB, 1);
	expect_bytes(dev, b, 3 * GP_MIB, 2);
	assert_int_equal(gp_device_async_free(dev, pool, a, 0), 0);
	assert_int_equal(gp_device_async_free(dev, pool, a, 0), -EINVAL);
	assert_int_equal(gp_device_async_free(dev, pool, b, 2), 0);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(counts(dev, pool).used, 0);
	assert_int_equal(counts(dev, pool).used_high, 6 * GP_MIB);
	assert_true(reserved(dev) >= 6 * GP_MIB); /* kept, not given back at the sync */
	assert_int_equal(counts(dev, pool).reserved_high, reserved(dev));
	assert_int_equal(gp_device_async_trim(dev, pool, 0), 0);
	assert_int_equal(reserved(dev), 0);
	close_async(dev, pool);
}

static void async_threshold_0_keeps_nothing(void **state)
{
	const struct gp_async_config cfg = { 0, true, true, true };
	struct gp_async *pool;
	struct gp_device *dev = open_async(&cfg, &pool);
	uint64_t a, b;

	(void)state;
	if (!dev)
		return;
	a = take(dev, pool, 64, 0);
	b = take(dev, pool, 8, 0);
	assert_int_equal(gp_device_async_free(dev, pool, a, 0), 0);
	assert_true(reserved(dev) >= 72 * GP_MIB);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_true(reserved(dev) >= 8 * GP_MIB && reserved(dev) < 72 * GP_MIB);
	assert_int_equal(gp_device_async_free(dev, pool, b, 0), 0);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(reserved(dev), 0);
	close_async(dev, pool);
}

/* Freed on a stream at work: does another one get it, after it has waited for an event? */
static void async_flags_decide_about_other_streams(void **state)
{
	(void)state;
	for (int follow = 0; follow < 2; follow++) {
		const struct gp_async_config cfg = { UINT64_MAX, follow, false, false };
		struct gp_async *pool;
		struct gp_device *dev = open_async(&cfg, &pool);
		uint64_t a, b;

		if (!dev)
			return;
		a = take(dev, pool, 64, 1);
		assert_int_equal(gp_device_busy(dev, 1, WORK_NS), 0);
		assert_int_equal(gp_device_async_free(dev, pool, a, 1), 0);
		assert_int_equal(gp_device_stream_wait(dev, 1, 2), 0);
		b = take(dev, pool, 64, 2);
		assert_int_equal(b == a, follow);
		assert_int_equal(gp_device_async_free(dev, pool, b, 2), 0);
		assert_int_equal(gp_device_sync(dev), 0);
		b = take(dev, pool, 64, 3); /* after a synchronisation anybody may have it */
		assert_true(reserved(dev) <= 128 * GP_MIB);
		assert_int_equal(gp_device_async_free(dev, pool, b, 3), 0);
		close_async(dev, pool);
	}
}

/* The helper is at work until it is told, and no longer than until a synchronisation. */
static void async_retired_blocks_wait_for_the_word(void **state)
{
	struct gp_async *pool;
	struct gp_device *dev = open_async(&keep_all, &pool);
	const struct timespec moment = { 0, 20000000 };
	uint64_t a, b, n;

	(void)state;
	if (!dev)
		return;
	a = take(dev, pool, 64, 1);
	assert_int_equal(gp_device_async_retire(dev, pool, a, 1, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(counts(dev, pool).used, 0);
	nanosleep(&moment, NULL);
	b = take(dev, pool, 64, 1);
	assert_true(b != a);
	gp_device_async_settle(dev, pool, 1);
	nanosleep(&moment, NULL);
	assert_int_equal(take(dev, pool, 64, 1), a);
	assert_int_equal(gp_device_async_retire(dev, pool, a, 1, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(take(dev, pool, 64, 1), a);
	assert_int_equal(gp_device_async_retire(dev, pool, a, 1, &n), 0);
	assert_int_equal(gp_device_async_free(dev, pool, b, 1), 0);
	close_async(dev, pool); /* which waits for nobody's word */
}

/* Chunks that lie all in a hole are mapped where they are needed. */
static void async_free_chunks_are_mapped_elsewhere(void **state)
{
	struct gp_async *pool;
	struct gp_device *dev = open_async(&keep_all, &pool);
	uint64_t a, b, c;

	(void)state;
	if (!dev)
		return;
	a = take(dev, pool, 96, 1);
	b = take(dev, pool, 16, 1);
	assert_int_equal(gp_device_async_free(dev, pool, a, 1), 0);
	assert_int_equal(gp_device_sync(dev), 0);
	c = take(dev, pool, 112, 1);
	print_message("# 112 MiB behind a hole of 96: %llu MiB reserved\n",
		      (unsigned long long)(reserved(dev) / GP_MIB));
	assert_true(reserved(dev) < (96 + 16 + 112 + 64) * GP_MIB);
	assert_int_equal(gp_device_async_free(dev, pool, b, 1), 0);
	assert_int_equal(gp_device_async_free(dev, pool, c, 1), 0);
	close_async(dev, pool);
}

static void streams_are_made_at_first_use(void **state)
{
	struct gp_device *dev = open_capacity(0);
	struct gp_device_stats s;

	(void)state;
	assert_int_equal(gp_device_stream_wait(dev, 0, 5), 0);
	assert_int_equal(gp_device_stream_wait(dev, 5, 0), 0);
	assert_int_equal(gp_device_stream_wait(dev, 9, 2), 0);
	assert_int_equal(gp_device_stream_wait(dev, 3, 3), 0);
	assert_int_equal(gp_device_stream_wait(dev, 1u << 31, 0), -EINVAL);
	assert_int_equal(gp_device_sync(dev), 0);
	gp_device_stats(dev, &s);
	assert_int_equal(s.calls[GP_CALL_EVENT_WAIT], 4);
	assert_int_equal(s.failures, 1);
	assert_int_equal(s.model_ns, 0);
	assert_true(s.host_ticks > 0);
	gp_device_close(dev);
}

/* A thread that never called CUDA before may use every hook. */
static void *new_thread(void *arg)
{
	struct gp_device *dev = arg;
	uint64_t page = dev->info.page_bytes, va, h, addr;
	int bad = 0;

	for (int i = 0; i < 20; i++) {
		if (dev->info.vmm) {
			bad |= gp_device_va_reserve(dev, page, &va);
			bad |= gp_device_create(dev, page, &h);
			bad |= gp_device_map(dev, va, page, h);
			bad |= gp_device_unmap(dev, va, page);
			bad |= gp_device_destroy(dev, h, page);
			bad |= gp_device_va_release(dev, va, page);
		}
		bad |= gp_device_reserve(dev, 3 * page, &addr);
		bad |= gp_device_memset(dev, addr, 1, 3 * page);
		bad |= gp_device_stream_wait(dev, 1, 2);
		bad |= gp_device_release(dev, addr);
	}
	return bad ? arg : NULL;
}

static void threads_share_the_device(void **state)
{
	struct gp_device *dev = open_capacity(0);
	pthread_t thread[4];

	(void)state;
	for (unsigned i = 0; i < GP_ARRAY_LEN(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, new_thread, dev), 0);
	for (unsigned i = 0; i < GP_ARRAY_LEN(thread); i++) {
		void *bad;

		assert_int_equal(pthread_join(thread[i], &bad), 0);
		assert_null(bad);
	}
	assert_int_equal(reserved(dev), 0);
	gp_device_close(dev);
}

/* The program's own streams: here the legacy and the per-thread default stream, which every
 * context has. */
static void streams_can_be_the_programs(void **state)
{
	struct gp_device *dev = open_capacity(0);

	(void)state;
	assert_int_equal(gp_device_use_stream(dev, 1, (void *)(uintptr_t)0x1), 0);
	assert_int_equal(gp_device_use_stream(dev, 2, (void *)(uintptr_t)0x2), 0);
	assert_int_equal(gp_device_use_stream(dev, 2, (void *)(uintptr_t)0x1), -EBUSY);
	assert_int_equal(gp_device_stream_wait(dev, 1, 2), 0);
	assert_int_equal(gp_device_stream_wait(dev, 3, 1), 0);
	assert_int_equal(gp_device_use_stream(dev, 3, (void *)(uintptr_t)0x1), -EBUSY);
	gp_device_close(dev);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* How long the GPU has been idle, with and without work to wait for. */
static void lulls_begin_where_work_ends(void **state)
{
	const uint64_t ms = 1000000;
	struct gp_device *dev = open_capacity(0);
	uint64_t addr, ns = 0, start, call;

	(void)state;
	assert_int_equal(gp_device_lull(dev, 0), -EINVAL); /* no marks */
	assert_int_equal(gp_device_lull_ns(dev, 0, &ns), -EINVAL);
	assert_int_equal(gp_device_busy(dev, 1, 1000), 0); /* loads the kernels */
	assert_int_equal(gp_device_sync(dev), 0);
	for (unsigned slot = 0; slot < GP_LULLS; slot += GP_LULLS - 1) {
		assert_int_equal(gp_device_reserve(dev, 4096, &addr), 0);
		assert_int_equal(gp_device_busy(dev, 3, 5 * ms), 0);
		assert_int_equal(gp_device_mark(dev, 3), 0);
		assert_int_equal(gp_device_busy(dev, 1, 40 * ms), 0);
		assert_int_equal(gp_device_mark(dev, 1), 0);
		assert_int_equal(gp_device_lull(dev, slot), GP_WORKING);
		start = now_ns();
		assert_int_equal(gp_device_release(dev, addr), 0);
		call = now_ns() - start;
		assert_int_equal(gp_device_lull(dev, slot), 0);
		assert_int_equal(gp_device_lull_ns(dev, slot, &ns), 0);
		print_message("# cudaFree behind 40 ms: %.3f ms, of which idle %.3f ms\n",
			      (double)call / 1e6, (double)ns / 1e6);
		assert_true(call >= 20 * ms && ns < call);
		assert_int_equal(gp_device_lull(dev, slot), -EINVAL);
	}
	/* A program that is away for 20 ms leaves the device idle for longer. */
	assert_int_equal(gp_device_busy(dev, 0, 1000), 0);
	assert_int_equal(gp_device_mark(dev, 0), 0);
	start = now_ns();
	while (now_ns() - start < 20 * ms)
		;
	assert_int_equal(gp_device_lull(dev, 7), 0);
	assert_int_equal(gp_device_lull_ns(dev, 7, &ns), 0);
	assert_true(ns >= 15 * ms);
	gp_device_close(dev);
}

/* Says how many launches a stream takes before the next one waits (sim_queue.h). */
static void a_full_queue_lets_launches_wait(void **state)
{
	const uint64_t ms = 1000000;
	struct gp_device *dev = open_capacity(0);
	unsigned n = 0, full = 0;
	uint64_t start, launch;

	(void)state;
	assert_int_equal(gp_device_busy(dev, 1, 1000), 0);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(gp_device_busy(dev, 1, 400 * ms), 0);
	while (!full && ++n < 4000) {
		start = now_ns();
		assert_int_equal(gp_device_busy(dev, 1, 1000), 0);
		launch = now_ns() - start;
		if (launch > 20 * ms)
			full = n;
	}
	print_message("# launches behind 400 ms until one waits: %u (0: none of 4000)\n", full);
	assert_int_equal(gp_device_sync(dev), 0);
	gp_device_close(dev);
}

struct seen {
	uint64_t bytes;
	unsigned joins;
};

static void observe(void *arg, bool added, struct gp_range range, bool joins, uint64_t same)
{
	struct seen *seen = arg;

	if (!same)
		seen->bytes += added ? range.size : 0 - range.size;
	seen->joins += joins;
}

static void observer_agrees_with_the_books(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t page = dev->info.page_bytes, addr, va, h;
	struct seen seen = { 0, 0 };

	(void)state;
	gp_device_observe(dev, observe, &seen);
	assert_int_equal(gp_device_reserve(dev, 2 * page, &addr), 0);
	assert_int_equal(seen.bytes, 2 * page);
	if (dev->info.vmm) {
		assert_int_equal(gp_device_va_reserve(dev, page, &va), 0);
		assert_int_equal(gp_device_create(dev, page, &h), 0);
		assert_int_equal(gp_device_map(dev, va, page, h), 0);
		assert_int_equal(seen.bytes, 3 * page);
		assert_int_equal(gp_device_unmap(dev, va, page), 0);
		assert_int_equal(gp_device_destroy(dev, h, page), 0);
		assert_int_equal(gp_device_va_release(dev, va, page), 0);
		assert_int_equal(seen.joins, 2);
	}
	assert_int_equal(gp_device_release(dev, addr), 0);
	assert_int_equal(seen.bytes, 0);
	gp_device_close(dev);
}

/* Where the driver puts a small reservation is its business: perhaps into what a larger one leaves
 * of its last page. Each page counts once, until the last one that uses it is gone. */
static void shared_pages_count_once(void **state)
{
	struct gp_device *dev = open_capacity(0);
	uint64_t page = dev->info.page_bytes, large, small[16];
	struct seen seen = { 0, 0 };

	(void)state;
	gp_device_observe(dev, observe, &seen);
	assert_int_equal(gp_device_reserve(dev, page + 512, &large), 0);
	assert_int_equal(seen.bytes, 2 * page);
	for (unsigned i = 0; i < GP_ARRAY_LEN(small); i++)
		assert_int_equal(gp_device_reserve(dev, 4096, &small[i]), 0);
	assert_true(seen.bytes >= 2 * page && seen.bytes <= 4 * page);
	assert_int_equal(seen.bytes % page, 0);
	assert_int_equal(seen.bytes, reserved(dev));
	assert_int_equal(gp_device_release(dev, large), 0);
	assert_true(seen.bytes >= page && seen.bytes <= 3 * page);
	for (unsigned i = 0; i < GP_ARRAY_LEN(small); i++)
		assert_int_equal(gp_device_release(dev, small[i]), 0);
	assert_int_equal(seen.bytes, 0);
	assert_int_equal(reserved(dev), 0);
	gp_device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_describes_itself),
		cmocka_unit_test(reservations_hold_contents),
		cmocka_unit_test(faults_have_texts_and_do_not_stick),
		cmocka_unit_test(out_of_memory_is_an_outcome),
		cmocka_unit_test(capacity_is_a_limit),
		cmocka_unit_test(vmm_joins_what_is_mapped_side_by_side),
		cmocka_unit_test(memory_is_the_same_everywhere),
		cmocka_unit_test(async_blocks_come_and_go),
		cmocka_unit_test(async_threshold_0_keeps_nothing),
		cmocka_unit_test(async_flags_decide_about_other_streams),
		cmocka_unit_test(async_retired_blocks_wait_for_the_word),
		cmocka_unit_test(async_free_chunks_are_mapped_elsewhere),
		cmocka_unit_test(streams_are_made_at_first_use),
		cmocka_unit_test(streams_can_be_the_programs),
		cmocka_unit_test(lulls_begin_where_work_ends),
		cmocka_unit_test(a_full_queue_lets_launches_wait),
		cmocka_unit_test(threads_share_the_device),
		cmocka_unit_test(observer_agrees_with_the_books),
		cmocka_unit_test(shared_pages_count_once),
	};
	int code;

	if (without_gpu(&code))
		return code;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
