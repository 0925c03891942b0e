/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_chunks: the memory of a simulated pool (sim_async.h), in chunks of 32 MiB that are mapped at
 * its addresses. A chunk that lies all in a gap that anybody may have is spare: it can be mapped
 * elsewhere, or go back to the device.
 *
 * Threads     the lock of the device is held
 */
#ifndef GP_SIM_CHUNKS_H
#define GP_SIM_CHUNKS_H

#include "sim_async.h"

/* The lane of the helper, which is nobody's stream. */
#define GP_SIM_HELPER UINT32_MAX

struct gp_sim_lane {
	uint32_t stream;
	uint64_t until; /* the moment when the stream is done with all that was freed on it */
	struct gp_sim_gaps gaps;
};

/* A pool. */
struct gp_async {
	struct gp_async_config cfg;
	struct gp_async *next;
	struct gp_range taken; /* its addresses; of those, [base, end) in whole chunks */
	uint64_t base, end;
	uint64_t top;             /* never used from here on */
	struct gp_range_set live; /* tag: bytes asked for */
	struct gp_sim_gap_store store;
	struct gp_sim_gaps ready;
	struct gp_sim_lane *lanes;
	uint32_t n_lanes;
	uint64_t retired, settled; /* numbers of what was left to the helper */
	uint64_t used, used_high, reserved, reserved_high;
};

/* Chunks that [addr, addr + size) lacks. */
uint64_t gp_sim_chunks_missing(const struct gp_sim *sim, uint64_t addr, uint64_t size);
/* Sees to it that the range, which lies in no live block and no lane, has memory all over. GP_NOMEM:
 * the device has not enough, nothing changed; -ENOMEM. */
int gp_sim_chunks_supply(struct gp_sim *sim, struct gp_async *p, struct gp_range range);
/* Gives spare chunks back as long as `keep` bytes stay reserved. */
int gp_sim_chunks_release(struct gp_sim *sim, struct gp_async *p, uint64_t keep);
/* Gives all back. */
void gp_sim_chunks_drop(struct gp_sim *sim, struct gp_async *p);

#endif
