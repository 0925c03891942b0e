/* SPDX-License-Identifier: Apache-2.0
 *
 * environment: where a result was measured. Part of every result document, because a time without
 * its machine means nothing. Holds no host name, user name or path.
 */
#ifndef GP_ENVIRONMENT_H
#define GP_ENVIRONMENT_H

#include "allocators/device/device.h"

struct gp_environment {
	char date[24];            /* ISO 8601, UTC: "2025-01-31T17:45:00Z"      */
	char cpu[96];             /* "AMD EPYC 9554 64-Core Processor"          */
	unsigned cores;           /* online, as this process sees them          */
	char kernel[96];          /* "Linux 6.1.0 x86_64"                       */
	char compiler[64];        /* "gcc 12.2.0"                               */
	const char *build;        /* Meson's build type, or what the compiler says of it */
	double timer_overhead_ns; /* one pair of clock readings; taken off every latency */
	double timer_step_ns;     /* what the clock advances by; no latency is finer     */
	struct gp_device_info device;
};

/* Gathers everything; info is the device that the runs use. */
void gp_environment_gather(struct gp_environment *env, const struct gp_device_info *info);

#endif
