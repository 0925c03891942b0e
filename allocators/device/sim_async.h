/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_async: the simulated driver's pools of stream-ordered allocations (cudaMemPoolCreate).
 *
 *   addresses  | live |gap| live |   gap   |live|  gap   |..... never used yet
 *              ^ base                                    ^ top
 *   memory     |  32 MiB  |  32 MiB  |          |  32 MiB  |    chunks; a gap may have none
 *
 *   lanes      what was freed on a stream and is still that stream's, in the order in which streams
 *              came; one more is the helper's, for blocks that are retired
 *   ready      what anybody may have
 *
 * A request takes the best fit of the first of these that has one:
 *   1. its stream's lane
 *   2. ready, where all of it has memory
 *   3. other lanes, in their order: with `opportunistic` one whose stream is done with all that was
 *      freed on it, with `follow_events` gaps freed before what the taker has waited for
 *   4. lanes whose streams are done go to ready and join there: ready once more
 *   5. ready without memory, or new addresses at the top. Chunks that lie all in a gap of ready are
 *      mapped where they are needed; what is still missing comes from the device
 *   6. with `internal`, where the device has none: any lane, and the taker waits for its stream
 * A synchronisation makes everything ready and gives chunks back down to the threshold.
 *
 * How true    Worked out from calls on one H200 (driver 580, CUDA 13.0), and held against the
 *             recordings of one stream, replayed there. The address is the same of all 66 124
 *             allocations of llm_serve and all 12 234 of vision_train; of diffusion of the first
 *             490, and the reserved bytes after every call; of llm_train up to allocation 9 135,
 *             where the driver maps other chunks elsewhere than the lowest. A program of three
 *             streams that leaves blocks to a fourth, as PyTorch does: the same reserved bytes
 *             after every one of 40 steps.
 * Not known   which chunks the driver maps elsewhere first (here: the lowest), what it tries before
 *             it runs out of memory
 * Threads     the lock of the device, which all but the hooks expect to be held. The observer is
 *             told under it: chunks are given back only by the pool's own calls.
 */
#ifndef GP_SIM_ASYNC_H
#define GP_SIM_ASYNC_H

#include "device.h"
#include "sim_gaps.h"

struct gp_sim;

/* The driver's unit of memory: pools of that H200 grew and shrank by multiples of it. */
#define GP_SIM_CHUNK (32 * GP_MIB)
/* Events between streams from this index on are not followed. */
#define GP_SIM_FOLLOWED 256

struct gp_sim_async_device {
	struct gp_async *pools;
	struct gp_range_set chunks; /* of all pools; tag: the pool */
	uint64_t n_frees;           /* so far, of all pools */
	uint64_t *seen; /* [to * GP_SIM_FOLLOWED + from]: frees of `from` up to this number are
			 * done before what `to` does next; NULL: nobody waited yet */
};

void gp_sim_async_fini(struct gp_sim *sim);
/* The chunk that an address lies in; NULL: in none. */
const struct gp_range_entry *gp_sim_async_chunk(const struct gp_sim *sim, uint64_t addr);
/* `to` has been made to wait for `from`. */
int gp_sim_async_order(struct gp_sim *sim, uint32_t from, uint32_t to);
/* The host has waited for everything. */
int gp_sim_async_synced(struct gp_sim *sim);

/* The hooks of device.h. */
int gp_sim_async_open(struct gp_device *dev, const struct gp_async_config *cfg,
		      struct gp_async **out);
void gp_sim_async_close(struct gp_device *dev, struct gp_async *pool);
int gp_sim_async_alloc(struct gp_device *dev, struct gp_async *pool, uint64_t size, uint32_t stream,
		       uint64_t *addr);
int gp_sim_async_free(struct gp_device *dev, struct gp_async *pool, uint64_t addr, uint32_t stream);
int gp_sim_async_retire(struct gp_device *dev, struct gp_async *pool, uint64_t addr,
			uint32_t stream, uint64_t *number);
void gp_sim_async_settle(struct gp_device *dev, struct gp_async *pool, uint64_t number);
int gp_sim_async_trim(struct gp_device *dev, struct gp_async *pool, uint64_t keep);
int gp_sim_async_counts(struct gp_device *dev, struct gp_async *pool, struct gp_async_counts *out);

#endif
