/* SPDX-License-Identifier: Apache-2.0
 *
 * counter: instructions of this thread in user mode, by the processor's own counter where the
 * kernel lets us have it. A virtual machine often has none; callgrind then counts instead
 * (tools/bench_page.py).
 */
#include "bench.h"

#include <errno.h>
#include <string.h>

#ifdef __linux__
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int counter = -1;
static int counter_errno;

bool bench_counter_open(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_HARDWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_HW_INSTRUCTIONS,
					.disabled = 1,
					.exclude_kernel = 1,
					.exclude_hv = 1 };

	if (counter >= 0)
		return true;
	counter = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0UL);
	counter_errno = errno;
	return counter >= 0;
}

void bench_counter_start(void)
{
	ioctl(counter, PERF_EVENT_IOC_RESET, 0);
	ioctl(counter, PERF_EVENT_IOC_ENABLE, 0);
}

uint64_t bench_counter_stop(void)
{
	uint64_t n = 0;

	ioctl(counter, PERF_EVENT_IOC_DISABLE, 0);
	return read(counter, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

const char *bench_counter_why(void)
{
	return strerror(counter_errno);
}
#else
bool bench_counter_open(void)
{
	return false;
}

void bench_counter_start(void)
{
}

uint64_t bench_counter_stop(void)
{
	return 0;
}

const char *bench_counter_why(void)
{
	return "not on this system";
}
#endif
