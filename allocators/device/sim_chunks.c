/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_chunks: see sim_chunks.h.
 *
 * Cost         a look for spare chunks passes over the gaps of `ready`, at growth and release only
 * Charged      Each chunk is a mapping of its own, and costs what one does: on an H200 (driver 580)
 *              growth by 1, 2, 4, 16 and 64 chunks took 52, 79, 134, 481 and 1932 us, their return
 *              45, 79, 150, 581 and 2310. From a profile: the first chunk at what a request of half
 *              of one took, each further one at its share of what 1 GiB took. A chunk that moves is
 *              unmapped and mapped.
 */
#include "sim_chunks.h"

#include "device_sim.h"

/* The size that a profile is asked for: 32 chunks. */
#define MANY       UINT64_C(32)
#define MANY_BYTES (MANY * GP_SIM_CHUNK)

static void chunks_charge(struct gp_sim *sim, enum gp_cost cost, uint64_t n)
{
	if (!n)
		return;
	gp_sim_charge(sim, cost, GP_SIM_CHUNK / 2);
	if (n > 1)
		gp_device_charge(&sim->base, gp_sim_price(sim, cost, MANY_BYTES) * (n - 1) / MANY);
}

static bool chunk_is_there(const struct gp_sim *sim, uint64_t addr)
{
	return gp_range_set_at(&sim->async.chunks, addr) != NULL;
}

static int chunk_map(struct gp_sim *sim, struct gp_async *p, uint64_t addr)
{
	int r = gp_range_set_insert(&sim->async.chunks, addr, GP_SIM_CHUNK, (uintptr_t)p);

	if (r)
		return r;
	sim->held += GP_SIM_CHUNK;
	p->reserved += GP_SIM_CHUNK;
	gp_device_range_added(&sim->base, (struct gp_range){ addr, GP_SIM_CHUNK }, true);
	return 0;
}

static int chunk_unmap(struct gp_sim *sim, struct gp_async *p, uint64_t addr)
{
	gp_range_set_remove(&sim->async.chunks, addr, NULL);
	sim->held -= GP_SIM_CHUNK;
	p->reserved -= GP_SIM_CHUNK;
	gp_device_range_gone(&sim->base, (struct gp_range){ addr, GP_SIM_CHUNK }, true);
	return gp_sim_fill_clear(sim, addr, GP_SIM_CHUNK);
}

/* The lowest spare chunk from `from` on that has nothing of `avoid`; false: none. */
static bool chunk_spare(const struct gp_sim *sim, const struct gp_async *p, uint64_t from,
			struct gp_range avoid, uint64_t *out)
{
	const struct gp_range_entry *e = gp_range_set_floor(&p->ready.where, from);
	uint64_t at, end;

	if (!e || e->addr + e->size <= from)
		e = gp_range_set_ceiling(&p->ready.where, from);
	for (; e; e = gp_range_set_ceiling(&p->ready.where, e->addr + e->size)) {
		at = gp_align_up(gp_max_u64(e->addr, from), GP_SIM_CHUNK);
		end = e->addr + e->size;
		if (end == p->top) /* and behind it nothing lives either */
			end = gp_align_up(end, GP_SIM_CHUNK);
		for (; at + GP_SIM_CHUNK <= end; at += GP_SIM_CHUNK) {
			*out = at;
			if (chunk_is_there(sim, at) &&
			    (at + GP_SIM_CHUNK <= avoid.addr || at >= avoid.addr + avoid.size))
				return true;
		}
	}
	return false;
}

static uint64_t chunks_spare(const struct gp_sim *sim, const struct gp_async *p,
			     struct gp_range avoid, uint64_t enough)
{
	uint64_t n = 0, at = p->base;

	while (n < enough && chunk_spare(sim, p, at, avoid, &at)) {
		at += GP_SIM_CHUNK;
		n++;
	}
	return n;
}

uint64_t gp_sim_chunks_missing(const struct gp_sim *sim, uint64_t addr, uint64_t size)
{
	uint64_t n = 0;

	for (uint64_t at = gp_align_down(addr, GP_SIM_CHUNK); at < addr + size; at += GP_SIM_CHUNK)
		n += !chunk_is_there(sim, at);
	return n;
}

/* Chunks that lie in gaps go first, so that the device never holds more than it must. */
static int chunks_take_spare(struct gp_sim *sim, struct gp_async *p, struct gp_range range,
			     uint64_t n)
{
	uint64_t at = p->base;
	int r = 0;

	while (n && !r && chunk_spare(sim, p, at, range, &at)) {
		r = chunk_unmap(sim, p, at);
		gp_sim_charge(sim, GP_COST_UNMAP, GP_SIM_CHUNK);
		gp_sim_charge(sim, GP_COST_MAP, GP_SIM_CHUNK);
		gp_sim_charge(sim, GP_COST_SET_ACCESS, GP_SIM_CHUNK);
		n--;
	}
	return r;
}

int gp_sim_chunks_supply(struct gp_sim *sim, struct gp_async *p, struct gp_range range)
{
	uint64_t missing = gp_sim_chunks_missing(sim, range.addr, range.size);
	uint64_t spare = chunks_spare(sim, p, range, missing);
	uint64_t at = gp_align_down(range.addr, GP_SIM_CHUNK);
	int r;

	if (missing - spare > gp_sim_room(sim) / GP_SIM_CHUNK)
		return GP_NOMEM;
	r = chunks_take_spare(sim, p, range, spare);
	for (; at < range.addr + range.size && !r; at += GP_SIM_CHUNK)
		if (!chunk_is_there(sim, at))
			r = chunk_map(sim, p, at);
	p->reserved_high = gp_max_u64(p->reserved_high, p->reserved);
	if (!r)
		chunks_charge(sim, GP_COST_ASYNC_COLD, missing - spare);
	return r;
}

int gp_sim_chunks_release(struct gp_sim *sim, struct gp_async *p, uint64_t keep)
{
	const struct gp_range nothing = { 0, 0 };
	uint64_t at = p->base, n = 0;
	int r = 0;

	while (p->reserved >= keep + GP_SIM_CHUNK && !r && chunk_spare(sim, p, at, nothing, &at)) {
		r = chunk_unmap(sim, p, at);
		n++;
	}
	chunks_charge(sim, GP_COST_ASYNC_TRIM, n);
	return r;
}

void gp_sim_chunks_drop(struct gp_sim *sim, struct gp_async *p)
{
	const struct gp_range_entry *e;

	while ((e = gp_range_set_ceiling(&sim->async.chunks, p->base)) && e->addr < p->end)
		(void)chunk_unmap(sim, p, e->addr);
}
