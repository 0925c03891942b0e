/* SPDX-License-Identifier: Apache-2.0
 *
 * without_gpu: what a suite that needs a GPU does on a machine that has none.
 */
#ifndef TESTS_WITHOUT_GPU_H
#define TESTS_WITHOUT_GPU_H

#include <errno.h>
#include <stdio.h>

#include "allocators/device/device.h"

/* True where no GPU can be opened: has said so in TAP, and *code is what main returns, 0 if the
 * refusal is one of those that device.h tells of, and says why. */
static inline bool without_gpu(int *code)
{
	struct gp_device_config cfg = { 0 };
	struct gp_device *dev = NULL;
	char why[200] = "";
	int r = gp_device_open_cuda(&cfg, &dev, why, sizeof(why));

	gp_device_close(dev);
	if (!r)
		return false;
	printf("1..0 # SKIP %s\n", why);
	*code = (r == -ENODEV || r == -ENOSYS) && *why && !dev ? 0 : 1;
	return true;
}

#endif
