/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_queue: work queued on the streams of the simulated device, in simulated time.
 *
 *   stream 0   |-touch-|--touch--|          until ......... when its last piece is done
 *   stream 1             |---busy---|
 *                  ^ now                                    until of all: what cudaFree waits for
 *
 * Simulated time is what the driver's calls have cost so far, waiting included, and what
 * gp_device_elapse told of. The time that a program's own code takes is not in it, unless told:
 * so the same calls give the same waits on every machine and in every run.
 *
 * Who waits   cudaFree and cudaDeviceSynchronize, for everything. No other call for memory does: a
 *             probe on an H200 left 18 ms of work queued behind each. A stream waits for another
 *             from gp_device_stream_wait on. A launch waits while GP_SIM_QUEUE_DEPTH pieces of its
 *             stream are not done.
 * How true    traces/llm.json on an H200 (results/h200/work) and with its profile, all that calls
 *             stalled: behind kernels of 50 us `raw` 291 and 360 ms, `fixed` 438 and 439; of the
 *             recorded time 97 and 130, 124 and 147; behind memsets of a few microseconds, where the
 *             GPU's own clock is too coarse, 14 and 36, 15 and 24. The pools stalled at no call on
 *             either.
 * Not done    streams do not slow one another down: two memsets at once take as long as one
 * Threads     the lock of the device, which all but the hooks expect to be held
 */
#ifndef GP_SIM_QUEUE_H
#define GP_SIM_QUEUE_H

#include "device.h"

/* Measured: behind a long kernel the launch after 1022 others waited (H200, driver 580). */
#define GP_SIM_QUEUE_DEPTH 1022

struct gp_sim;

struct gp_sim_stream {
	uint64_t until;    /* the moment when all of its work is done */
	uint64_t n_pushed; /* pieces of work so far */
	uint64_t *ends;    /* [number % GP_SIM_QUEUE_DEPTH] of the last pieces; NULL: none yet */
};

struct gp_sim_queue {
	struct gp_sim_stream *streams;
	uint32_t n;
	uint64_t elapsed_ns;      /* told by gp_device_elapse */
	uint64_t until;           /* of all streams */
	uint64_t lulls[GP_LULLS]; /* ns */
};

void gp_sim_queue_fini(struct gp_sim_queue *q);
/* Simulated nanoseconds since the device was opened. */
uint64_t gp_sim_now(const struct gp_sim *sim);
/* Queues work of so long on a stream. -EINVAL with a text: no such index; -ENOMEM. */
int gp_sim_queue_push(struct gp_sim *sim, uint32_t stream, uint64_t ns);
/* Work of `to` from now on comes after what is queued on `from` now. */
int gp_sim_queue_order(struct gp_sim *sim, uint32_t from, uint32_t to);
/* The moment when what is queued on the stream is done; not after gp_sim_now: it is. */
uint64_t gp_sim_queue_until(const struct gp_sim *sim, uint32_t stream);
/* The host waits for everything. */
void gp_sim_queue_drain(struct gp_sim *sim);

/* The hooks of device.h. */
int gp_sim_busy(struct gp_device *dev, uint32_t stream, uint64_t ns);
int gp_sim_mark(struct gp_device *dev, uint32_t stream);
int gp_sim_lull(struct gp_device *dev, unsigned slot);
int gp_sim_lull_ns(struct gp_device *dev, unsigned slot, uint64_t *ns);
void gp_sim_elapse(struct gp_device *dev, uint64_t ns);

#endif
