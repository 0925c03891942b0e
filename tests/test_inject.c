/* SPDX-License-Identifier: Apache-2.0
 *
 * test_inject: a device that is lost or broken from a call on, or out of memory at one: what each
 * call answers, and what is counted of which kind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "allocators/device/device.h"

#define PAGE (2 * GP_MIB)

static struct gp_device *device(const struct gp_injection *inject)
{
	struct gp_device_config cfg = { .capacity = 64 * PAGE, .inject = *inject };
	struct gp_device *dev = NULL;
	char why[200] = "";

	if (gp_device_open_sim(&cfg, &dev, why, sizeof(why)))
		fail_msg("cannot open: %s", why);
	return dev;
}

static struct gp_device_stats stats_of(struct gp_device *dev)
{
	struct gp_device_stats s;

	gp_device_stats(dev, &s);
	return s;
}

/* The third call is refused, and whatever comes after it. */
static void expect_end(const struct gp_injection *inject, int err, const char *name)
{
	struct gp_device *dev = device(inject);
	uint64_t a, b, free_bytes, total;

	assert_int_equal(gp_device_reserve(dev, PAGE, &a), 0);
	assert_int_equal(gp_device_reserve(dev, PAGE, &b), 0);
	assert_int_equal(gp_device_mem_info(dev, &free_bytes, &total), 0);
	assert_false(gp_device_broken(dev));
	assert_int_equal(gp_device_sync(dev), err);
	assert_true(gp_device_broken(dev));
	assert_non_null(strstr(gp_device_error(dev), name));
	assert_non_null(strstr(gp_device_error(dev), "sync: "));
	assert_non_null(strstr(gp_device_error(dev), "since call 3"));
	assert_int_equal(gp_device_mem_info(dev, &free_bytes, &total), err);
	assert_int_equal(gp_device_reserve(dev, PAGE, &free_bytes), err);
	assert_int_equal(gp_device_stream_wait(dev, 0, 1), err);
	assert_int_equal(gp_device_create(dev, PAGE, &free_bytes), err);
	/* The memory goes back all the same. */
	assert_int_equal(gp_device_release(dev, a), err);
	assert_int_equal(gp_device_release(dev, b), err);
	assert_non_null(strstr(gp_device_error(dev), "release: "));
	assert_int_equal(stats_of(dev).reserved_bytes, 0);
	assert_int_equal(stats_of(dev).calls[GP_CALL_RELEASE], 0);
	gp_device_close(dev);
}

static void lost_and_sticky_last(void **state)
{
	(void)state;
	expect_end(&(struct gp_injection){ .lost_call = 3 }, -ENODEV,
		   "cudaErrorDevicesUnavailable");
	expect_end(&(struct gp_injection){ .sticky_call = 3 }, -EIO, "cudaErrorIllegalAddress");
}

/* Running out of memory breaks nothing, and only calls that take memory can. */
static void memory_runs_out_once(void **state)
{
	struct gp_device *dev = device(&(struct gp_injection){ .fail_call = 2 });
	const struct gp_async_config keep = { .threshold = UINT64_MAX };
	struct gp_async *pool;
	uint64_t a, b;

	(void)state;
	assert_int_equal(gp_device_async_open(dev, &keep, &pool), 0);
	assert_int_equal(gp_device_reserve(dev, PAGE, &a), 0);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(gp_device_async_alloc(dev, pool, PAGE, 0, &b), GP_NOMEM);
	assert_int_equal(gp_device_async_alloc(dev, pool, PAGE, 0, &b), 0);
	assert_false(gp_device_broken(dev));
	assert_int_equal(gp_device_async_free(dev, pool, b, 0), 0);
	gp_device_async_close(dev, pool);
	assert_int_equal(gp_device_release(dev, a), 0);
	gp_device_close(dev);
}

/* What is charged goes to the kind of call that it was charged for, a failed one included. */
static void time_is_of_a_kind(void **state)
{
	struct gp_device *dev = device(&(struct gp_injection){ .slow_call = 2, .slow_ns = 5000 });
	struct gp_device_stats s;
	uint64_t a, b, model = 0, ticks = 0;

	(void)state;
	assert_int_equal(gp_device_reserve(dev, PAGE, &a), 0);
	assert_int_equal(gp_device_reserve(dev, 100 * PAGE, &b), GP_NOMEM);
	assert_int_equal(gp_device_sync(dev), 0);
	assert_int_equal(gp_device_release(dev, a), 0);
	s = stats_of(dev);
	for (unsigned i = 0; i < GP_CALL_N; i++) {
		model += s.call_model_ns[i];
		ticks += s.call_ticks[i];
	}
	assert_int_equal(model, s.model_ns);
	assert_int_equal(ticks, s.host_ticks);
	assert_true(s.call_model_ns[GP_CALL_RESERVE] > 5000);
	assert_true(s.call_model_ns[GP_CALL_SYNC] > 0);
	assert_true(s.call_model_ns[GP_CALL_RELEASE] > 0);
	assert_int_equal(s.call_model_ns[GP_CALL_MAP], 0);
	assert_true(s.call_ticks[GP_CALL_RESERVE] > 0);
	assert_int_equal(s.call_ticks[GP_CALL_MAP], 0);
	assert_int_equal(s.calls[GP_CALL_RESERVE], 1);
	assert_int_equal(s.failures, 1);
	gp_device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_and_sticky_last),
		cmocka_unit_test(memory_runs_out_once),
		cmocka_unit_test(time_is_of_a_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
