/* SPDX-License-Identifier: Apache-2.0
 *
 * spin_lock: a lock for sections of some nanoseconds that threads seldom want at once. Taking it
 * free is one exchange, giving it up one store; a mutex of the C library pays two exchanges and
 * two calls.
 *
 * Waiting   looks at the lock's line (which is shared while nobody writes it), then gives the
 *           processor away, and once the holder is plainly in a driver call, sleeps
 */
#ifndef GP_SPIN_LOCK_H
#define GP_SPIN_LOCK_H

#include <stdatomic.h>

#include "base.h"

struct gp_spin_lock {
	_Atomic unsigned char held;
};

/* Takes it once it is free. */
void gp_spin_wait(struct gp_spin_lock *l);

static inline void gp_spin_lock(struct gp_spin_lock *l)
{
	if (GP_UNLIKELY(atomic_exchange_explicit(&l->held, 1, memory_order_acquire)))
		gp_spin_wait(l);
}

static inline void gp_spin_unlock(struct gp_spin_lock *l)
{
	atomic_store_explicit(&l->held, 0, memory_order_release);
}

#endif
