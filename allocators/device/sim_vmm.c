/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_vmm: virtual memory of the simulated device: address ranges, memory without addresses, and
 * what is mapped where. As strict as the contract in device.h, which is a little stricter than the
 * driver: the first mapping of a handle is the last to go.
 *
 * Shape        a handle is the number of a slot plus one, with the number of earlier uses of that
 *              slot in the upper half, so that a stale handle is noticed
 *              memory has an address of its own that no range ever has, by which its contents are
 *              kept: they are the same through every mapping of it, and outlive them
 * Invariants   1. a mapping lies inside one address range; mappings do not overlap
 *              2. memory that is destroyed while mapped keeps its capacity until its last mapping
 *                 is gone, as cuMemRelease's does
 * Cost         each mapping is charged for, also where one call undoes several: on an H200 granting
 *              access and unmapping take as long in one call over 256 mappings as in 256
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
	uint32_t n_maps;
	uint64_t first;    /* where it was mapped first */
	uint64_t physical; /* its own address */
	bool dead;         /* destroyed, but still mapped */
};

/* No address range is here (sim_space.h), and no amount of creating reaches the end. */
#define PHYSICAL_BASE (UINT64_C(1) << 62)

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
static struct gp_sim_memory *memory_of(const struct gp_sim *sim, uint64_t handle)
{
	uint32_t slot = (uint32_t)handle - 1;
	struct gp_sim_memory *m;

	if (slot >= sim->n_memories)
		return NULL;
	m = &sim->memories[slot];
	return m->size && m->n_used == handle >> 32 ? m : NULL;
}

static int memory_free(struct gp_sim *sim, struct gp_sim_memory *m)
{
	int r = gp_sim_fill_clear(sim, m->physical, m->size);

	sim->held -= m->size;
	gp_device_unhold(&sim->base, m->size);
	m->size = 0;
	m->n_used++;
	m->next_free = sim->free_memory;
	sim->free_memory = (uint32_t)(m - sim->memories) + 1;
	return r;
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
	m->n_maps = 0;
	m->dead = false;
	m->physical = PHYSICAL_BASE + sim->created;
	sim->created += size;
	sim->held += size;
	gp_device_hold(dev, size);
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
	int r = 0;

	pthread_mutex_lock(&sim->lock);
	m = memory_of(sim, handle);
	known = m && !m->dead && m->size == size;
	if (known) {
		if (m->n_maps)
			m->dead = true;
		else
			r = memory_free(sim, m);
		gp_sim_lose(sim);
		gp_sim_charge(sim, GP_COST_DESTROY, size);
	}
	pthread_mutex_unlock(&sim->lock);
	return known ? r
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
	uint64_t same = 0;
	int r = 0;

	pthread_mutex_lock(&sim->lock);
	m = memory_of(sim, handle);
	why = map_refusal(sim, addr, size, m);
	if (why)
		goto out;
	r = gp_range_set_insert(&sim->maps, addr, size, handle);
	if (r)
		goto out;
	if (m->n_maps++)
		same = m->first;
	else
		m->first = addr;
	gp_sim_charge(sim, GP_COST_MAP, size);
	gp_sim_charge(sim, GP_COST_SET_ACCESS, size);
out:
	pthread_mutex_unlock(&sim->lock);
	if (why)
		return vmm_fault(dev, "map", addr, size, why);
	if (!r)
		gp_device_mapped(dev, true, (struct gp_range){ addr, size }, same);
	return r;
}

/* Why these addresses cannot be unmapped; NULL when they can. */
static const char *unmap_refusal(const struct gp_sim *sim, uint64_t addr, uint64_t size)
{
	const struct gp_range_entry *e;

	for (uint64_t at = addr; at != addr + size; at += e->size) {
		const struct gp_sim_memory *m;

		e = gp_range_set_at(&sim->maps, at);
		if (!e || e->size > addr + size - at)
			return "is not what one or more maps made";
		m = memory_of(sim, e->tag);
		if (m->n_maps > 1 && m->first == at)
			return "is where memory was mapped first that is still mapped elsewhere";
	}
	return NULL;
}

/* Two steps, so that the range is reported gone before its capacity is anybody else's. */
static int unmap_one(struct gp_sim *sim, uint64_t addr, uint64_t *next)
{
	struct gp_range_entry e;
	struct gp_sim_memory *m;
	uint64_t first;
	int r = 0;

	pthread_mutex_lock(&sim->lock);
	gp_range_set_remove(&sim->maps, addr, &e);
	*next = addr + e.size;
	first = memory_of(sim, e.tag)->first;
	gp_sim_charge(sim, GP_COST_UNMAP, e.size);
	pthread_mutex_unlock(&sim->lock);
	gp_device_mapped(&sim->base, false, (struct gp_range){ addr, e.size },
			 first == addr ? 0 : first);
	pthread_mutex_lock(&sim->lock);
	m = memory_of(sim, e.tag);
	if (!--m->n_maps && m->dead)
		r = memory_free(sim, m);
	pthread_mutex_unlock(&sim->lock);
	return r;
}

int gp_sim_unmap(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	struct gp_sim *sim = gp_sim_of(dev);
	const char *why;
	int r = 0;

	pthread_mutex_lock(&sim->lock);
	why = unmap_refusal(sim, addr, size);
	pthread_mutex_unlock(&sim->lock);
	if (why)
		return vmm_fault(dev, "unmap", addr, size, why);
	for (uint64_t at = addr; at != addr + size;) {
		int r2 = unmap_one(sim, at, &at);

		r = r ? r : r2;
	}
	return r;
}

uint64_t gp_sim_physical(const struct gp_sim *sim, uint64_t addr, uint64_t *left)
{
	const struct gp_range_entry *e = gp_range_set_containing(&sim->maps, addr);
	const struct gp_sim_memory *m;

	if (!e)
		return addr;
	m = memory_of(sim, e->tag);
	*left = gp_min_u64(*left, e->addr + e->size - addr);
	return m->physical + (addr - e->addr);
}
