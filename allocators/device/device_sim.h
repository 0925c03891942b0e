/* SPDX-License-Identifier: Apache-2.0
 *
 * device_sim: what the files of the simulated device share. Nobody else includes this.
 *
 *   device_sim.c   opening, reservations
 *   sim_async.c    pools of stream-ordered allocations; sim_chunks.c, sim_gaps.c below them
 *   sim_contents.c what is written where
 *   sim_vmm.c      address ranges, memory handles, mappings
 *   sim_space.c    where ranges are put
 *   sim_pages.c    small reservations inside shared pages
 *   sim_queue.c    queued work, and who waits for it
 *
 * All but the hooks expect the lock to be held.
 */
#ifndef GP_DEVICE_SIM_H
#define GP_DEVICE_SIM_H

#include <pthread.h>

#include "device.h"
#include "device_profile.h"
#include "../range_set.h"
#include "sim_async.h"
#include "sim_pages.h"
#include "sim_queue.h"
#include "sim_space.h"

struct gp_sim_memory; /* what cuMemCreate made */

struct gp_sim {
	struct gp_device base;
	struct gp_device_config cfg;
	const struct gp_profile *profile;
	_Atomic uint64_t n_charged[GP_COST_N]; /* calls so far */
	pthread_mutex_t lock;
	uint64_t capacity, held, lost; /* bytes */
	struct gp_sim_queue queue;
	struct gp_sim_space space;
	struct gp_sim_pages pages;
	struct gp_range_set blocks; /* tag: struct gp_sim_page, or 0: whole pages */
	struct gp_sim_async_device async;
	struct gp_async *probe_pools[2]; /* of sim_probe.c: [keep] */
	struct gp_range_set vas;
	struct gp_range_set maps;  /* tag: handle */
	struct gp_range_set fills; /* tag: the word */
	struct {
		uint64_t offset, word;
	} found[64];         /* by comparisons that nobody has ended yet */
	uint64_t found_used; /* bit s: slot s of these */
	struct gp_sim_memory *memories;
	uint32_t n_memories, cap_memories;
	uint32_t free_memory; /* slot number + 1 of the first free one; 0: none */
	uint64_t created;     /* bytes so far */
};

static inline struct gp_sim *gp_sim_of(struct gp_device *dev)
{
	return (struct gp_sim *)(void *)dev;
}

/* What the next such call, or piece of work, takes. */
uint64_t gp_sim_price(struct gp_sim *sim, enum gp_cost cost, uint64_t size);
/* The host spends so long in a driver call. */
void gp_sim_charge(struct gp_sim *sim, enum gp_cost cost, uint64_t size);
/* Capacity that is left. */
uint64_t gp_sim_room(const struct gp_sim *sim);
/* The leak that the config asks for on each release and destroy. */
void gp_sim_lose(struct gp_sim *sim);

/* sim_contents.c: the hooks of device.h. */
int gp_sim_memset(struct gp_device *dev, uint64_t addr, uint8_t value, uint64_t size);
int gp_sim_read(struct gp_device *dev, uint64_t addr, void *host, size_t size);
int gp_sim_fill(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
		uint32_t stream);
int gp_sim_verify_begin(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
			uint32_t stream, uint32_t *ticket);
int gp_sim_verify_end(struct gp_device *dev, uint32_t ticket, bool wait, uint64_t *bad_offset,
		      uint64_t *found);
int gp_sim_touch(struct gp_device *dev, uint64_t addr, uint64_t size, uint32_t stream);
/* Forgets what was written to a range. */
int gp_sim_fill_clear(struct gp_sim *sim, uint64_t addr, uint64_t size);

/* sim_vmm.c: the hooks of device.h. */
int gp_sim_va_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr);
int gp_sim_va_release(struct gp_device *dev, uint64_t addr, uint64_t size);
int gp_sim_create(struct gp_device *dev, uint64_t size, uint64_t *handle);
int gp_sim_destroy(struct gp_device *dev, uint64_t handle, uint64_t size);
int gp_sim_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle);
int gp_sim_unmap(struct gp_device *dev, uint64_t addr, uint64_t size);
/* The address by which the contents at `addr` are kept, where it is mapped that of the memory, else
 * addr itself; *left, bytes from addr on, is cut to what lies there in one piece. */
uint64_t gp_sim_physical(const struct gp_sim *sim, uint64_t addr, uint64_t *left);

/* sim_probe.c */
int gp_sim_probe(struct gp_device *dev, struct gp_probe *p);

#endif
