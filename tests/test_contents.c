/* SPDX-License-Identifier: Apache-2.0
 *
 * Contents of device memory, the same cases on the simulated device and on a GPU: fill and verify
 * at odd sizes and places, their order within a stream, work that takes its time. Takes less than
 * 1 GiB of the card and some seconds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "both_devices.h"

#include <errno.h>
#include <string.h>

#define WORD  UINT64_C(0x1122334455667788)
#define OTHER UINT64_C(0xFFEEDDCCBBAA9977)

static void fill(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word)
{
	good(dev, gp_device_fill(dev, addr, size, word, 0));
}

static void expect_word(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word)
{
	uint64_t bad = 77, found = 77;
	int r = gp_device_verify(dev, addr, size, word, 0, &bad, &found);

	if (r)
		fail_msg("%d at + %llu of %llu: %llx", r, (unsigned long long)bad,
			 (unsigned long long)size, (unsigned long long)found);
	assert_true(bad == 77 && found == 77);
}

static void expect_differs(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
			   uint64_t want_bad, uint64_t want_found)
{
	uint64_t bad = 77, found = 77;
	int r = gp_device_verify(dev, addr, size, word, 0, &bad, &found);

	if (r != GP_DIFFERS || bad != want_bad || found != want_found)
		fail_msg("%d at + %llu of %llu: %llx, expected + %llu: %llx", r,
			 (unsigned long long)bad, (unsigned long long)size,
			 (unsigned long long)found, (unsigned long long)want_bad,
			 (unsigned long long)want_found);
}

/* Every byte of the range is the word's, and those around it are as they were. */
static void fills_exactly_the_range(void **state)
{
	enum { ROOM = 1024 };
	struct gp_device *dev = open_device();
	uint64_t addr = reserve(dev, ROOM);
	unsigned char got[ROOM], want[ROOM];

	(void)state;
	for (unsigned at = 8; at <= 24; at += 8) {
		for (unsigned size = 1; size <= 80; size++) {
			good(dev, gp_device_memset(dev, addr, 0x5A, ROOM));
			fill(dev, addr + at, size, WORD);
			expect_word(dev, addr + at, size, WORD);
			memset(want, 0x5A, ROOM);
			for (unsigned i = 0; i < size; i++)
				want[at + i] = (unsigned char)(WORD >> 8 * (i % 8));
			good(dev, gp_device_read(dev, addr, got, ROOM));
			assert_memory_equal(got, want, ROOM);
		}
	}
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

/* One wrong byte, wherever it is, is found, and named to the byte. */
static void finds_every_wrong_byte(void **state)
{
	struct gp_device *dev = open_device();
	uint64_t addr = reserve(dev, 1024);

	(void)state;
	for (unsigned at = 0; at <= 8; at += 8) {
		static const unsigned sizes[] = { 1, 7, 8, 15, 16, 17, 40, 63, 71 };

		for (size_t s = 0; s < GP_ARRAY_LEN(sizes); s++) {
			unsigned size = sizes[s];

			for (unsigned bad = 0; bad < size; bad++) {
				uint64_t found = WORD ^ (WORD >> 8 * (bad % 8) & 0xFF)
								<< 8 * (bad % 8);

				found |= UINT64_C(0xC3) << 8 * (bad % 8);
				fill(dev, addr + at, size, WORD);
				good(dev, gp_device_memset(dev, addr + at + bad, 0xC3, 1));
				expect_differs(dev, addr + at, size, WORD, bad, found);
			}
		}
	}
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

/* Of several, the first; large enough that on a GPU many blocks of threads find one each. */
static void names_the_first_of_many(void **state)
{
	const uint64_t size = 256 * GP_MIB + 40, first = 77 * GP_MIB + 24;
	struct gp_device *dev = open_device();
	uint64_t addr = reserve(dev, size);

	(void)state;
	fill(dev, addr, size, WORD);
	expect_word(dev, addr, size, WORD);
	fill(dev, addr + size - 8, 8, OTHER);
	expect_differs(dev, addr, size, WORD, size - 8, OTHER);
	fill(dev, addr + 200 * GP_MIB, 8, OTHER);
	expect_differs(dev, addr, size, WORD, 200 * GP_MIB, OTHER);
	fill(dev, addr + first, 130 * GP_MIB, OTHER);
	expect_differs(dev, addr, size, WORD, first, OTHER);
	expect_word(dev, addr + first, 130 * GP_MIB, OTHER);
	expect_word(dev, addr, first, WORD);
	expect_differs(dev, addr, size, OTHER, 0, WORD);
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

/* What is behind a stream's work comes after it, on this stream and on those that wait for it. */
static void keeps_the_order_of_streams(void **state)
{
	const uint64_t size = 64 * GP_MIB;
	struct gp_device *dev = open_device();
	uint64_t addr = reserve(dev, size), bad, found;

	(void)state;
	good(dev, gp_device_busy(dev, 1, 20000000));
	good(dev, gp_device_fill(dev, addr, size, WORD, 1));
	good(dev, gp_device_fill(dev, addr, size, OTHER, 1));
	good(dev, gp_device_stream_wait(dev, 1, 2));
	good(dev, gp_device_verify(dev, addr, size, OTHER, 2, &bad, &found));
	good(dev, gp_device_touch(dev, addr, size, 2));
	good(dev, gp_device_verify(dev, addr, size, 0, 2, &bad, &found));
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

/* A comparison that is not waited for tells later what was there in its turn. */
static void compares_without_waiting(void **state)
{
	const uint64_t size = GP_MIB + 5, work = 200000000;
	struct gp_device *dev = open_device();
	uint64_t addr = reserve(dev, 2 * GP_MIB), bad, found, t0;
	uint32_t right, wrong;
	int r;

	(void)state;
	good(dev, gp_device_fill(dev, addr, 2 * GP_MIB, WORD, 1));
	good(dev, gp_device_sync(dev));
	t0 = now_ns();
	good(dev, gp_device_busy(dev, 1, work));
	good(dev, gp_device_verify_begin(dev, addr, size, WORD, 1, &right));
	good(dev, gp_device_fill(dev, addr + size - 5, 8, OTHER, 1));
	good(dev, gp_device_verify_begin(dev, addr, size, WORD, 1, &wrong));
	good(dev, gp_device_fill(dev, addr, 2 * GP_MIB, 0, 1));
	r = gp_device_verify_end(dev, wrong, false, &bad, &found);
	if (on_cuda && now_ns() - t0 < work)
		assert_int_equal(r, GP_PENDING);
	if (r == GP_PENDING) {
		good(dev, gp_device_sync(dev));
		r = gp_device_verify_end(dev, wrong, false, &bad, &found);
	}
	assert_int_equal(r, GP_DIFFERS);
	assert_int_equal(bad, size - 5);
	/* Behind the range the word is as it should be. */
	assert_true(found == ((OTHER & 0xFFFFFFFFFF) | (WORD & ~UINT64_C(0xFFFFFFFFFF))));
	assert_int_equal(gp_device_verify_end(dev, right, true, &bad, &found), 0);
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

/* More comparisons than there are slots: refused until one is ended. */
static void refuses_too_many_comparisons(void **state)
{
	enum { MANY = 8192 };
	static uint32_t tickets[MANY];
	struct gp_device *dev = open_device();
	uint64_t addr = reserve(dev, 4096), bad, found;
	size_t n = 0;
	int r = 0;

	(void)state;
	fill(dev, addr, 4096, OTHER);
	while (n < MANY && !(r = gp_device_verify_begin(dev, addr, 64, WORD, 0, &tickets[n])))
		n++;
	assert_int_equal(r, GP_REFUSED);
	assert_true(n >= 64);
	while (n)
		assert_int_equal(gp_device_verify_end(dev, tickets[--n], true, &bad, &found),
				 GP_DIFFERS);
	expect_differs(dev, addr, 64, WORD, 0, OTHER);
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

static void refuses_what_it_cannot_do(void **state)
{
	struct gp_device *dev = open_device();
	uint64_t addr = reserve(dev, 4 * GP_MIB), bad, found;
	struct gp_device_stats s;

	(void)state;
	assert_int_equal(gp_device_fill(dev, addr, 0, WORD, 0), -EINVAL);
	assert_int_equal(gp_device_fill(dev, addr + 4, 8, WORD, 0), -EINVAL);
	assert_int_equal(gp_device_verify(dev, addr + 1, 8, WORD, 0, &bad, &found), -EINVAL);
	assert_non_null(strstr(gp_device_error(dev), "multiple of 8"));
	assert_int_equal(gp_device_touch(dev, addr, 0, 0), -EINVAL);
	/* Not the device's memory: refused before a kernel could break the context. */
	assert_int_equal(gp_device_fill(dev, 4096, 8, WORD, 0), -EINVAL);
	assert_int_equal(gp_device_fill(dev, addr, 64 * GP_MIB, WORD, 0), -EINVAL);
	assert_int_equal(gp_device_verify(dev, addr, UINT64_MAX - 7, WORD, 0, &bad, &found),
			 -EINVAL);
	assert_non_null(strstr(gp_device_error(dev), "not all device memory"));
	fill(dev, addr, 4 * GP_MIB, WORD);
	expect_word(dev, addr, 4 * GP_MIB, WORD);
	expect_differs(dev, addr, 64, OTHER, 0, WORD);
	good(dev, gp_device_release(dev, addr));
	gp_device_stats(dev, &s);
	assert_int_equal(s.calls[GP_CALL_FILL], 1);
	assert_int_equal(s.calls[GP_CALL_VERIFY], 2); /* a difference is a result */
	assert_int_equal(s.failures, 7);
	gp_device_close(dev);
}

/* On a GPU: the stream is at work at least as long as was asked; other streams are not. */
static void busy_takes_its_time(void **state)
{
	const uint64_t ns = 50000000;
	struct gp_device *dev;
	uint64_t addr, bad, found, t0, queued, other, done;

	(void)state;
	if (!on_cuda) {
		print_message("# simulated work takes simulated time\n");
		return;
	}
	dev = open_device();
	addr = reserve(dev, 4096);
	good(dev, gp_device_fill(dev, addr, 4096, WORD, 2)); /* the kernels are loaded */
	good(dev, gp_device_busy(dev, 1, 1));
	good(dev, gp_device_sync(dev));
	t0 = now_ns();
	good(dev, gp_device_busy(dev, 1, ns));
	queued = now_ns() - t0;
	good(dev, gp_device_verify(dev, addr, 4096, WORD, 2, &bad, &found));
	other = now_ns() - t0;
	good(dev, gp_device_sync(dev));
	done = now_ns() - t0;
	print_message("# busy for 50 ms: queued after %.3f ms, another stream after %.3f ms, done "
		      "after %.3f ms\n",
		      (double)queued / 1e6, (double)other / 1e6, (double)done / 1e6);
	/* The GPU's clock against the host's: equal to well below a hundredth. */
	assert_true(done >= ns - ns / 100);
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

static double bandwidth(uint64_t bytes, uint64_t ns)
{
	return (double)bytes / (double)gp_max_u64(ns, 1);
}

/* Not judged, since machines differ; compared by eye with the card's bandwidth. */
static void tells_its_speed(void **state)
{
	const uint64_t size = 768 * GP_MIB;
	struct gp_device *dev;
	uint64_t addr, bad, found, t[4];

	(void)state;
	if (!on_cuda) {
		print_message("# simulated memory has no speed\n");
		return;
	}
	dev = open_device();
	addr = reserve(dev, size);
	good(dev, gp_device_fill(dev, addr, size, WORD, 0));
	good(dev, gp_device_sync(dev));
	t[0] = now_ns();
	for (int i = 0; i < 8; i++)
		good(dev, gp_device_fill(dev, addr, size, WORD, 0));
	good(dev, gp_device_sync(dev));
	t[1] = now_ns();
	for (int i = 0; i < 8; i++)
		good(dev, gp_device_verify(dev, addr, size, WORD, 0, &bad, &found));
	t[2] = now_ns();
	for (int i = 0; i < 1000; i++)
		good(dev, gp_device_verify(dev, addr, 4096, WORD, 0, &bad, &found));
	t[3] = now_ns();
	print_message("# fill %.0f GB/s, verify %.0f GB/s, a verify of 4 KiB %.2f us\n",
		      bandwidth(8 * size, t[1] - t[0]), bandwidth(8 * size, t[2] - t[1]),
		      (double)(t[3] - t[2]) / 1e6);
	good(dev, gp_device_release(dev, addr));
	gp_device_close(dev);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fills_exactly_the_range),
		cmocka_unit_test(finds_every_wrong_byte),
		cmocka_unit_test(names_the_first_of_many),
		cmocka_unit_test(keeps_the_order_of_streams),
		cmocka_unit_test(compares_without_waiting),
		cmocka_unit_test(refuses_too_many_comparisons),
		cmocka_unit_test(refuses_what_it_cannot_do),
		cmocka_unit_test(busy_takes_its_time),
		cmocka_unit_test(tells_its_speed),
	};

	return both_main(argc, argv, tests, GP_ARRAY_LEN(tests));
}
