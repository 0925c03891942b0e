/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_vmm: virtual memory of the simulated device: address ranges, memory without addresses, and
 * what is mapped where. As strict as the contract in device.h, which is a little stricter than the
 * driver: what one map made is what one unmap takes, a handle is mapped whole and once.
 *
 * Shape        a handle is the number of a slot plus one, with the number of earlier uses of that
 *              slot in the upper half, so that a stale handle is noticed
 * Invariants   1. a mapping lies inside one address range; mappings do not overlap
 *              2. memory that is destroyed while mapped keeps its capacity until it is unmapped, as
 *                 cuMemRelease's does
 */
#include "device_sim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct gp_sim_memory {
	uint64_t size;      /* 0: the slot is free */
	uint32_t n_used;    /* how often the slot was in use before */
	uint32_t next_free; /* of a free slot: number + 1 of the next one */
	bool mapped;
	bool dead; /* destroyed, but still mapped */
};

/* Names the fault of a call on a range. */
static int vmm_fault(struct gp_device *dev, const char *call, uint64_t addr, uint64_t size,
		     const char *why)
{
	return gp_device_fault(dev, -EINVAL, "%s: 0x%" PRIx64 " + %" PRIu64 " %s", call, addr, size,
			       why);
}

int gp_sim_va_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	struct gp_sim *sim = gp_sim_of(dev);
	uint64_t at;
	int r;

	pthread_mutex_lock(&sim->lock);
	r = gp_sim_space_take(&sim->space, size, &at);
	if (r)
		goto out;
	r = gp_range_set_insert(&sim->vas, at, size, 0);
	if (r) {
		gp_sim_space_give(&sim->space, at, size);
		goto out;
	}
	*addr = at;
	gp_sim_charge(sim, GP_COST_VA_RESERVE, size);
out:
	pthread_mutex_unlock(&sim->lock);
	return r;
}

/* Why the address range cannot go; NULL when it can. */
static const char *va_in_use(const struct gp_sim *sim, uint64_t addr, uint64_t size)
{
	const struct gp_range_entry *va = gp_range_set_at(&sim->vas, addr);
	const struct gp_range_entry *map = gp_range_set_ceiling(&sim->maps, addr);

	if (!va || va->size != size)
		return "is no reserved address range";
	return map && map->addr - addr < size ? "still has memory mapped" : NULL;
}

int gp_sim_va_release(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	struct gp_sim *sim = gp_sim_of(dev);
	const char *why;

	pthread_mutex_lock(&sim->lock);
	why = va_in_use(sim, addr, size);
	if (!why) {
		gp_range_set_remove(&sim->vas, addr, NULL);
		gp_sim_space_give(&sim->space, addr, size);
		gp_sim_charge(sim, GP_COST_VA_RELEASE, size);
	}
	pthread_mutex_unlock(&sim->lock);
	return why ? vmm_fault(dev, "va_release", addr, size, why) : 0;
}

/* A free slot, its number in *slot; NULL: host memory is exhausted. */
static struct gp_sim_memory *memory_slot(struct gp_sim *sim, uint32_t *slot)
{
	uint32_t cap = sim->cap_memories ? 2 * sim->cap_memories : 64;
	struct gp_sim_memory *m;

	if (sim->free_memory) {
		*slot = sim->free_memory - 1;
		m = &sim->memories[*slot];
		sim->free_memory = m->next_free;
		return m;
	}
	if (sim->n_memories == sim->cap_memories) {
		m = realloc(sim->memories, cap * sizeof(*m));
		if (!m)
			return NULL;
		sim->memories = m;
		sim->cap_memories = cap;
	}
	*slot = sim->n_memories++;
	m = &sim->memories[*slot];
	memset(m, 0, sizeof(*m));
	return m;
}

/* The memory of a handle; NULL when it is none, or stale. */
static struct gp_sim_memory *memory_of(struct gp_sim *sim, uint64_t handle)
{
	uint32_t slot = (uint32_t)handle - 1;
	struct gp_sim_memory *m;

	if (slot >= sim->n_memories)
		return NULL;
	m = &sim->memories[slot];
	return m->size && m->n_used == handle >> 32 ? m : NULL;
}

static void memory_free(struct gp_sim *sim, struct gp_sim_memory *m)
{
	sim->held -= m->size;
	m->size = 0;
	m->n_used++;
	m->next_free = sim->free_memory;
	sim->free_memory = (uint32_t)(m - sim->memories) + 1;
}

int gp_sim_create(struct gp_device *dev, uint64_t size, uint64_t *handle)
{
	struct gp_sim *sim = gp_sim_of(dev);
	struct gp_sim_memory *m;
	uint32_t slot;
	int r;

	pthread_mutex_lock(&sim->lock);
	r = size > gp_sim_room(sim) ? GP_NOMEM : 0;
	if (r)
		goto out;
	m = memory_slot(sim, &slot);
	if (!m) {
		r = -ENOMEM;
		goto out;
	}
	m->size = size;
	m->mapped = false;
	m->dead = false;
	sim->held += size;
	*handle = (uint64_t)m->n_used << 32 | (slot + 1);
	gp_sim_charge(sim, GP_COST_CREATE, size);
out:
	pthread_mutex_unlock(&sim->lock);
	return r;
}

int gp_sim_destroy(struct gp_device *dev, uint64_t handle, uint64_t size)
{
	struct gp_sim *sim = gp_sim_of(dev);
	struct gp_sim_memory *m;
	bool known;

	pthread_mutex_lock(&sim->lock);
	m = memory_of(sim, handle);
	known = m && !m->dead && m->size == size;
	if (known) {
		if (m->mapped)
			m->dead = true;
		else
			memory_free(sim, m);
		gp_sim_lose(sim);
		gp_sim_charge(sim, GP_COST_DESTROY, size);
	}
	pthread_mutex_unlock(&sim->lock);
	return known ? 0
		     : gp_device_fault(dev, -EINVAL,
				       "destroy: 0x%" PRIx64 " is no memory of %" PRIu64
				       " bytes, or was destroyed before",
				       handle, size);
}

/* Why the memory cannot be mapped there; NULL when it can. */
static const char *map_refusal(const struct gp_sim *sim, uint64_t addr, uint64_t size,
			       const struct gp_sim_memory *m)
{
	const struct gp_range_entry *va = gp_range_set_containing(&sim->vas, addr);
	const struct gp_range_entry *before, *behind;

	if (!m || m->dead)
		return "cannot be mapped: no such memory, or it was destroyed";
	if (m->size != size)
		return "is not the size of the memory";
	if (m->mapped)
		return "cannot be mapped: the memory is mapped elsewhere";
	if (!va || size > va->size - (addr - va->addr))
		return "is not inside a reserved address range";
	before = gp_range_set_floor(&sim->maps, addr);
	behind = gp_range_set_ceiling(&sim->maps, addr);
	if ((before && addr - before->addr < before->size) ||
	    (behind && behind->addr - addr < size))
		return "overlaps a mapping";
	return NULL;
}

int gp_sim_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle)
{
	struct gp_sim *sim = gp_sim_of(dev);
	const char *why = NULL;
	struct gp_sim_memory *m;
	int r;

	pthread_mutex_lock(&sim->lock);
	m = memory_of(sim, handle);
	why = map_refusal(sim, addr, size, m);
	if (why)
		goto out;
	r = gp_range_set_insert(&sim->maps, addr, size, handle);
	if (r)
		goto out;
	m->mapped = true;
	gp_sim_charge(sim, GP_COST_MAP, size);
	gp_sim_charge(sim, GP_COST_SET_ACCESS, size);
out:
	pthread_mutex_unlock(&sim->lock);
	if (why)
		return vmm_fault(dev, "map", addr, size, why);
	if (!r)
		gp_device_range_added(dev, (struct gp_range){ addr, size }, true);
	return r;
}

/* Two steps, so that the range is reported gone before its capacity is anybody else's. */
int gp_sim_unmap(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	struct gp_sim *sim = gp_sim_of(dev);
	const struct gp_range_entry *found;
	struct gp_sim_memory *m;
	uint64_t handle = 0;
	int r;

	pthread_mutex_lock(&sim->lock);
	found = gp_range_set_at(&sim->maps, addr);
	if (found && found->size == size) {
		handle = found->tag;
		gp_range_set_remove(&sim->maps, addr, NULL);
		gp_sim_charge(sim, GP_COST_UNMAP, size);
	}
	pthread_mutex_unlock(&sim->lock);
	if (!handle)
		return vmm_fault(dev, "unmap", addr, size, "is not what one map made");
	gp_device_range_gone(dev, (struct gp_range){ addr, size }, true);
	pthread_mutex_lock(&sim->lock);
	r = gp_sim_fill_clear(sim, addr, size);
	m = memory_of(sim, handle);
	m->mapped = false;
	if (m->dead)
		memory_free(sim, m);
	pthread_mutex_unlock(&sim->lock);
	return r;
}
