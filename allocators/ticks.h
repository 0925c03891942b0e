/* SPDX-License-Identifier: Apache-2.0
 *
 * ticks: the cheapest monotonic counter of this machine. On x86-64 the time-stamp counter, which
 * runs at a constant rate on every processor since 2008 ("constant_tsc"); on AArch64 the virtual
 * counter; elsewhere CLOCK_MONOTONIC in nanoseconds. replay/clock.h turns ticks into time.
 *
 * No fence: a fence costs 20 to 40 cycles, which is more than a good allocator. The processor may
 * move a few instructions across a reading; over the calls timed here (>= 5 ns) that is noise, and
 * the measured overhead of a pair of readings is reported with every result.
 */
#ifndef GP_TICKS_H
#define GP_TICKS_H

#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>

static inline uint64_t gp_ticks(void)
{
	return __rdtsc();
}
#elif defined(__aarch64__)
static inline uint64_t gp_ticks(void)
{
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
}
#else
#include <time.h>

static inline uint64_t gp_ticks(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
#endif

#endif
