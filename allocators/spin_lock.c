/* SPDX-License-Identifier: Apache-2.0
 *
 * spin_lock: waiting for a lock that another thread holds.
 */
#include "spin_lock.h"

#include <sched.h>
#include <time.h>

#define LOOKS_PER_YIELD 64
#define LOOKS_TO_NAP    4096   /* some ten microseconds: by then the holder is in a driver call */
#define NAP_NS          20000L /* about half a cudaMalloc */

void gp_spin_wait(struct gp_spin_lock *l)
{
	const struct timespec nap = { 0, NAP_NS };

	for (unsigned n = 1; atomic_load_explicit(&l->held, memory_order_relaxed) ||
			     atomic_exchange_explicit(&l->held, 1, memory_order_acquire);
	     n++) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
		if (n > LOOKS_TO_NAP)
			nanosleep(&nap, NULL);
		else if (n % LOOKS_PER_YIELD == 0)
			sched_yield();
	}
}
