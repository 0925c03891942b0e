/* SPDX-License-Identifier: Apache-2.0
 *
 * Queued work of the simulated device: what waits for it, for how long, and what does not. Time
 * passes by modelled calls alone, so every figure is exact; none is a constant of the profile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "allocators/device/device.h"
#include "allocators/device/sim_queue.h"

#define MS UINT64_C(1000000)

static struct gp_device *open_sim(void)
{
	struct gp_device_config cfg = { 0 };
	struct gp_device *dev = NULL;
	char why[200] = "";

	if (gp_device_open_sim(&cfg, &dev, why, sizeof(why)))
		fail_msg("%s", why);
	return dev;
}

static uint64_t reserve(struct gp_device *dev, uint64_t size)
{
	uint64_t addr = 0;

	assert_int_equal(gp_device_reserve(dev, size, &addr), 0);
	return addr;
}

static uint64_t model_ns(struct gp_device *dev)
{
	return atomic_load(&dev->model_ns);
}

static uint64_t stall_ns(struct gp_device *dev)
{
	struct gp_device_stats s;

	gp_device_stats(dev, &s);
	return s.stall_ns;
}

static void free_waits_for_all_streams(void **state)
{
	struct gp_device *dev = open_sim();
	uint64_t addr[3], before;

	(void)state;
	for (unsigned i = 0; i < GP_ARRAY_LEN(addr); i++)
		addr[i] = reserve(dev, 4 * GP_MIB);
	assert_int_equal(gp_device_busy(dev, 3, 20 * MS), 0);
	before = model_ns(dev);
	assert_int_equal(gp_device_busy(dev, 0, 5 * MS), 0);
	/* A launch takes a little of the time that the first has to run. */
	before = model_ns(dev) - before;
	assert_true(before > 0 && before < MS);
	assert_int_equal(stall_ns(dev), 0);
	assert_int_equal(gp_device_release(dev, addr[0]), 0);
	assert_int_equal(stall_ns(dev), 20 * MS - before);
	/* All is done: nothing more to wait for. */
	assert_int_equal(gp_device_release(dev, addr[1]), 0);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(stall_ns(dev), 20 * MS - before);
	assert_int_equal(gp_device_busy(dev, 1, MS), 0);
	before = model_ns(dev);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_true(model_ns(dev) - before > MS && model_ns(dev) - before < 2 * MS);
	assert_int_equal(gp_device_release(dev, addr[2]), 0);
	gp_device_close(dev);
}

/* As on an H200, where 18 ms of work stayed queued behind each of these. */
static void other_calls_do_not_wait(void **state)
{
	struct gp_device *dev = open_sim();
	uint64_t page = dev->info.page_bytes, va, h, addr;

	(void)state;
	assert_int_equal(gp_device_busy(dev, 0, 1000 * MS), 0);
	addr = reserve(dev, 4096);
	(void)reserve(dev, 3 * page);
	assert_int_equal(gp_device_va_reserve(dev, page, &va), 0);
	assert_int_equal(gp_device_create(dev, page, &h), 0);
	assert_int_equal(gp_device_map(dev, va, page, h), 0);
	assert_int_equal(gp_device_unmap(dev, va, page), 0);
	assert_int_equal(gp_device_destroy(dev, h, page), 0);
	assert_int_equal(gp_device_va_release(dev, va, page), 0);
	assert_int_equal(gp_device_stream_wait(dev, 0, 1), 0);
	assert_int_equal(gp_device_touch(dev, addr, 4096, 1), 0);
	assert_int_equal(stall_ns(dev), 0);
	assert_true(model_ns(dev) < 10 * MS);
	/* A release that is refused has waited for nothing. */
	assert_int_equal(gp_device_release(dev, addr + 256), -EINVAL);
	assert_int_equal(stall_ns(dev), 0);
	gp_device_close(dev);
}

static void streams_run_side_by_side_or_in_turn(void **state)
{
	struct gp_device *dev = open_sim();
	uint64_t start, launch;

	(void)state;
	assert_int_equal(gp_device_busy(dev, 1, 10 * MS), 0);
	start = model_ns(dev);
	assert_int_equal(gp_device_busy(dev, 2, 10 * MS), 0);
	launch = model_ns(dev) - start;
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(stall_ns(dev), 10 * MS);
	/* The second begins where the first ends. */
	assert_int_equal(gp_device_busy(dev, 1, 10 * MS), 0);
	start = model_ns(dev);
	assert_int_equal(gp_device_stream_wait(dev, 1, 2), 0);
	assert_int_equal(gp_device_busy(dev, 2, 10 * MS), 0);
	launch = model_ns(dev) - start;
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(stall_ns(dev), 30 * MS - launch);
	assert_int_equal(gp_device_busy(dev, 1u << 31, MS), -EINVAL);
	assert_int_equal(gp_device_stream_wait(dev, 0, 1u << 31), -EINVAL);
	gp_device_close(dev);
}

static void a_memset_takes_the_longer_the_more(void **state)
{
	static const uint64_t sizes[] = { 1, 100 * GP_MIB, 4 * GP_GIB };
	struct gp_device *dev = open_sim();
	uint64_t addr = reserve(dev, 4 * GP_GIB), last = 0;

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++) {
		uint64_t before = stall_ns(dev);

		assert_int_equal(gp_device_touch(dev, addr, sizes[i], 0), 0);
		assert_int_equal(gp_device_sync(dev), 0);
		assert_true(stall_ns(dev) - before >= last);
		last = stall_ns(dev) - before;
	}
	/* No card of today writes 4 GiB in 0.1 ms, nor takes a second for it. */
	assert_true(last > MS / 10 && last < 1000 * MS);
	assert_int_equal(gp_device_touch(dev, addr - 8, 4, 0), -EINVAL);
	assert_int_equal(gp_device_release(dev, addr), 0);
	gp_device_close(dev);
}

static void a_lull_is_the_time_since_the_last_work(void **state)
{
	struct gp_device *dev = open_sim();
	uint64_t addr = reserve(dev, 4 * GP_MIB), before, ns = 0;

	(void)state;
	assert_int_equal(gp_device_busy(dev, 1, 3 * MS), 0);
	assert_int_equal(gp_device_mark(dev, 1), 0);
	assert_int_equal(gp_device_lull(dev, 5), GP_WORKING);
	before = model_ns(dev);
	assert_int_equal(gp_device_release(dev, addr), 0);
	assert_int_equal(gp_device_lull(dev, 5), 0);
	assert_int_equal(gp_device_busy(dev, 1, 3 * MS), 0);
	assert_int_equal(gp_device_lull_ns(dev, 5, &ns), 0);
	/* Less than the free itself and the launch after it. */
	assert_true(ns > 0 && ns < model_ns(dev) - before - 3 * MS);
	/* The program was away: the work was done long before it came back. */
	gp_device_elapse(dev, 10 * MS);
	before = stall_ns(dev);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(stall_ns(dev), before);
	assert_int_equal(gp_device_lull(dev, 6), 0);
	assert_int_equal(gp_device_lull_ns(dev, 6, &ns), 0);
	assert_true(ns > 7 * MS && ns < 8 * MS);
	gp_device_close(dev);
}

/* A queue takes so many pieces; the next launch waits for the oldest. */
static void launches_wait_for_a_full_queue(void **state)
{
	struct gp_device *dev = open_sim();
	uint64_t before;

	(void)state;
	for (unsigned i = 0; i < GP_SIM_QUEUE_DEPTH; i++)
		assert_int_equal(gp_device_busy(dev, 0, MS), 0);
	assert_true(model_ns(dev) < GP_SIM_QUEUE_DEPTH * MS / 2);
	for (unsigned i = 0; i < 2; i++) {
		before = model_ns(dev);
		assert_int_equal(gp_device_busy(dev, 0, 10 * MS), 0);
	}
	/* By then one piece after the other ends. */
	assert_true(model_ns(dev) - before <= MS && model_ns(dev) > MS);
	/* That is not what the calls for memory are to blame for. */
	assert_int_equal(stall_ns(dev), 0);
	assert_int_equal(gp_device_busy(dev, 1, MS), 0);
	gp_device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free_waits_for_all_streams),
		cmocka_unit_test(other_calls_do_not_wait),
		cmocka_unit_test(streams_run_side_by_side_or_in_turn),
		cmocka_unit_test(a_memset_takes_the_longer_the_more),
		cmocka_unit_test(a_lull_is_the_time_since_the_last_work),
		cmocka_unit_test(launches_wait_for_a_full_queue),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
