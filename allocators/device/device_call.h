/* SPDX-License-Identifier: Apache-2.0
 *
 * device_call: what stands around every call of a device (device.c): injected faults before it,
 * counters and time after it. For the files that implement the gp_device_ functions.
 */
#ifndef GP_DEVICE_CALL_H
#define GP_DEVICE_CALL_H

#include "device.h"
#include "../ticks.h"

#define COUNT(counter, n) atomic_fetch_add_explicit(&(counter), (n), memory_order_relaxed)
#define READ(counter)     atomic_load_explicit(&(counter), memory_order_relaxed)

/* Before a call: 0, or what it is to answer instead. */
int gp_device_enter(struct gp_device *dev, enum gp_call call);
/* After a call that gives something back: its result, or what it is to answer instead. */
int gp_device_answer(struct gp_device *dev, enum gp_call call, int r);
/* The end of a call that began at tick t0 with result r, which it returns. */
int gp_device_done(struct gp_device *dev, enum gp_call call, uint64_t t0, int r);
/* Counts a failure, of what is no call of a kind; returns r. */
int gp_device_failed(struct gp_device *dev, int r);
/* The injected fault that every call has once n calls were made; else 0. */
int gp_device_curse(struct gp_device *dev, const char *call, uint64_t n);
/* A call refused before it reaches the implementation: why; size 0; the device lacks it. */
int gp_device_refuse(struct gp_device *dev, int err, enum gp_call call, const char *why);
int gp_device_zero(struct gp_device *dev, enum gp_call call);
int gp_device_lacks(struct gp_device *dev, enum gp_call call);

#endif
