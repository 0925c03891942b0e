/* SPDX-License-Identifier: Apache-2.0
 *
 * both_devices: for suites whose cases are the same on the simulated device and on a GPU. The
 * program takes `sim` or `cuda`; with `cuda` it skips where there is no GPU.
 *
 * Include after cmocka.h.
 */
#ifndef TESTS_BOTH_DEVICES_H
#define TESTS_BOTH_DEVICES_H

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "allocators/device/device.h"
#include "without_gpu.h"

static bool on_cuda;

static inline struct gp_device *open_device(void)
{
	struct gp_device_config cfg = { 0 };
	struct gp_device *dev = NULL;
	char why[200] = "";

	if ((on_cuda ? gp_device_open_cuda : gp_device_open_sim)(&cfg, &dev, why, sizeof(why)))
		fail_msg("cannot open: %s", why);
	return dev;
}

static inline void good(struct gp_device *dev, int r)
{
	if (r)
		fail_msg("%d: %s", r, gp_device_error(dev));
}

static inline uint64_t reserve(struct gp_device *dev, uint64_t size)
{
	uint64_t addr = 0;

	good(dev, gp_device_reserve(dev, size, &addr));
	return addr;
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline int both_main(int argc, char **argv, const struct CMUnitTest *tests, size_t n)
{
	int code;

	on_cuda = argc == 2 && !strcmp(argv[1], "cuda");
	if (argc != 2 || (!on_cuda && strcmp(argv[1], "sim"))) {
		fprintf(stderr, "usage: %s sim|cuda\n", argv[0]);
		return 2;
	}
	if (on_cuda && without_gpu(&code))
		return code;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}

#endif
