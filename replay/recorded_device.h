/* SPDX-License-Identifier: Apache-2.0
 *
 * recorded_device: a device that hands out the addresses which the recorded driver handed out, so
 * that a model of the recorded allocator breaks its ties as the original did. It holds no memory.
 *
 * A reservation gets the address of the next recorded segment_alloc of its size that lies before
 * event `now`; an address range starts at the first recorded segment_map that lies in no range yet.
 * Where the recording has none, the address is made up (from 2^46 on), which no recorded one is.
 */
#ifndef GP_RECORDED_DEVICE_H
#define GP_RECORDED_DEVICE_H

#include "allocators/device/device.h"
#include "trace.h"

struct gp_recorded_device;

/* The trace must outlive it. NULL: no memory. Closed by gp_device_close. */
struct gp_device *gp_recorded_device_open(const struct gp_trace *trace, uint64_t total_bytes);
/* What is recorded before this event is what the next calls may get. */
void gp_recorded_device_now(struct gp_device *dev, size_t event);

#endif
