/* SPDX-License-Identifier: Apache-2.0
 *
 * device_cuda_none: stands in for device_cuda.c where the project is built without CUDA.
 */
#include <errno.h>

#include "device.h"

int gp_device_open_cuda(const struct gp_device_config *cfg, struct gp_device **out, char *why,
			size_t why_size)
{
	(void)cfg;
	(void)out;
	snprintf(why, why_size,
		 "this program was built without CUDA; build it with -Dcuda=enabled "
		 "where the CUDA toolkit is installed");
	return -ENOSYS;
}
