/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_async: see sim_async.h for the rules. Here are the pools, lanes and requests; the memory below
 * the addresses is in sim_chunks.c.
 *
 * Invariants   1. [base, top) is tiled by live blocks and gaps   2. every byte of a live block and
 *              of a gap in a lane has memory   3. reserved == chunks * GP_SIM_CHUNK
 * Cost         of the simulation: a best fit in one to a few trees, well below a microsecond; a
 *              request that finds nothing in its lane and in ready looks at every lane
 * Charged      a pool that has the memory: cudaMallocAsync.warm, at any size and from any lane (the
 *              H200 took 0.3 us from its own lane, 0.4 behind an event, 0.6 from another's). Growth
 *              by its chunks, not by the size: sim_chunks.c
 */
#include "sim_async.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device_sim.h"
#include "sim_chunks.h"

/* Blocks are whole multiples of it (seen on the H200: 1 to 10 485 761 bytes took 512 to 10 486 272). */
#define GRANULE UINT64_C(512)
/* A pool's addresses, as a multiple of the device's memory: gaps without memory take some. */
#define SPAN_FACTOR 16

/* ---- lanes ---- */

static struct gp_sim_lane *pool_lane(struct gp_async *p, uint32_t stream)
{
	struct gp_sim_lane *grown;

	for (uint32_t i = 0; i < p->n_lanes; i++)
		if (p->lanes[i].stream == stream)
			return &p->lanes[i];
	grown = realloc(p->lanes, (p->n_lanes + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	p->lanes = grown;
	grown += p->n_lanes++;
	*grown = (struct gp_sim_lane){ .stream = stream };
	gp_sim_gaps_init(&grown->gaps);
	return grown;
}

/* Is the stream done with all that was freed on it? */
static bool lane_done(const struct gp_sim *sim, const struct gp_async *p,
		      const struct gp_sim_lane *lane)
{
	if (lane->stream == GP_SIM_HELPER && p->settled < p->retired)
		return false;
	return lane->until <= gp_sim_now(sim);
}

/* Frees of this lane up to which number may `stream` have? 0: none. */
static uint64_t lane_limit(const struct gp_sim *sim, const struct gp_async *p,
			   const struct gp_sim_lane *lane, uint32_t stream)
{
	const uint64_t *seen = sim->async.seen;

	if (p->cfg.opportunistic && lane_done(sim, p, lane))
		return UINT64_MAX;
	if (!p->cfg.follow_events || !seen || lane->stream >= GP_SIM_FOLLOWED ||
	    stream >= GP_SIM_FOLLOWED)
		return 0;
	return seen[stream * GP_SIM_FOLLOWED + lane->stream];
}

/* Makes ready what is done; of other streams only where the flags let it be noticed. */
static int pool_make_ready(struct gp_sim *sim, struct gp_async *p, uint32_t stream)
{
	int r = 0;

	for (uint32_t i = 0; i < p->n_lanes && !r; i++) {
		struct gp_sim_lane *lane = &p->lanes[i];

		if ((p->cfg.opportunistic || lane->stream == stream) && lane_done(sim, p, lane))
			r = gp_sim_gaps_move(&p->store, &lane->gaps, &p->ready);
	}
	return r;
}

/* ---- where a request is served from ---- */

/* A gap in one of the sets. */
struct spot {
	struct gp_sim_gaps *gaps;
	uint32_t n;
	uint64_t addr;
	bool cold;
};

static bool spot_in(const struct gp_async *p, struct gp_sim_gaps *gaps, uint64_t size,
		    uint64_t freed_until, struct spot *out)
{
	uint32_t n = gp_sim_gaps_best(&p->store, gaps, size, freed_until);

	if (n)
		*out = (struct spot){ .gaps = gaps, .n = n, .addr = p->store.at[n].addr };
	return n != GP_SIM_GAP_NIL;
}

/* Steps 1 to 3. */
static bool spot_warm(const struct gp_sim *sim, struct gp_async *p, struct gp_sim_lane *own,
		      uint64_t size, struct spot *out)
{
	if (spot_in(p, &own->gaps, size, UINT64_MAX, out))
		return true;
	if (spot_in(p, &p->ready, size, UINT64_MAX, out) &&
	    !gp_sim_chunks_missing(sim, out->addr, size))
		return true;
	for (uint32_t i = 0; i < p->n_lanes; i++) {
		struct gp_sim_lane *lane = &p->lanes[i];
		uint64_t limit = lane == own ? 0 : lane_limit(sim, p, lane, own->stream);

		if (limit && spot_in(p, &lane->gaps, size, limit, out))
			return true;
	}
	return false;
}

/* Step 5: a gap that may lack memory, made at the top where there is none. */
static int spot_cold(struct gp_sim *sim, struct gp_async *p, uint64_t size, struct spot *out)
{
	uint32_t last = gp_sim_gaps_before(&p->ready, p->top);
	uint64_t addr = last ? p->store.at[last].addr : p->top;
	int r;

	if (spot_in(p, &p->ready, size, UINT64_MAX, out)) {
		out->cold = gp_sim_chunks_missing(sim, out->addr, size) > 0;
		return gp_sim_chunks_supply(sim, p, (struct gp_range){ out->addr, size });
	}
	if (size > p->end - addr)
		return GP_NOMEM;
	r = gp_sim_chunks_supply(sim, p, (struct gp_range){ addr, size });
	if (!r)
		r = gp_sim_gaps_put(&p->store, &p->ready, p->top, addr + size - p->top, 0);
	if (r)
		return r;
	p->top = addr + size;
	spot_in(p, &p->ready, size, UINT64_MAX, out);
	out->cold = true;
	return 0;
}

/* Step 6. */
static int spot_waiting(struct gp_sim *sim, struct gp_async *p, struct gp_sim_lane *own,
			uint64_t size, struct spot *out)
{
	for (uint32_t i = 0; i < p->n_lanes; i++) {
		struct gp_sim_lane *lane = &p->lanes[i];

		if (lane == own || !spot_in(p, &lane->gaps, size, UINT64_MAX, out))
			continue;
		return lane->stream == GP_SIM_HELPER
			       ? 0
			       : gp_sim_queue_order(sim, lane->stream, own->stream);
	}
	return GP_NOMEM;
}

static int pool_find(struct gp_sim *sim, struct gp_async *p, struct gp_sim_lane *own, uint64_t size,
		     struct spot *out)
{
	int r;

	if (spot_warm(sim, p, own, size, out))
		return 0;
	r = pool_make_ready(sim, p, own->stream);
	if (!r)
		r = spot_cold(sim, p, size, out);
	if (r == GP_NOMEM && p->cfg.internal)
		r = spot_waiting(sim, p, own, size, out);
	return r;
}

static int pool_alloc(struct gp_sim *sim, struct gp_async *p, uint64_t size, uint32_t stream,
		      uint64_t *addr)
{
	uint64_t bytes = gp_align_up(size, GRANULE);
	struct gp_sim_lane *own = pool_lane(p, stream);
	struct spot spot = { 0 };
	int r = own ? pool_find(sim, p, own, bytes, &spot) : -ENOMEM;

	if (!r)
		r = gp_range_set_insert(&p->live, spot.addr, bytes, size);
	if (r)
		return r;
	gp_sim_gaps_cut(&p->store, spot.gaps, spot.n, bytes);
	p->used += size;
	p->used_high = gp_max_u64(p->used_high, p->used);
	if (!spot.cold)
		gp_sim_charge(sim, GP_COST_ASYNC_WARM, size);
	*addr = spot.addr;
	return 0;
}

int gp_sim_async_alloc(struct gp_device *dev, struct gp_async *p, uint64_t size, uint32_t stream,
		       uint64_t *addr)
{
	struct gp_sim *sim = gp_sim_of(dev);
	int r;

	if (size > GP_SIZE_MAX)
		return GP_NOMEM;
	pthread_mutex_lock(&sim->lock);
	r = pool_alloc(sim, p, size, stream, addr);
	pthread_mutex_unlock(&sim->lock);
	return r;
}

/* ---- frees ---- */

static int pool_free(struct gp_sim *sim, struct gp_async *p, uint64_t addr, uint32_t stream,
		     uint64_t until)
{
	const struct gp_range_entry *e = gp_range_set_at(&p->live, addr);
	struct gp_sim_lane *lane = pool_lane(p, stream);
	int r;

	if (!e)
		return -EINVAL;
	if (!lane)
		return -ENOMEM;
	r = gp_sim_gaps_put(&p->store, &lane->gaps, addr, e->size, sim->async.n_frees + 1);
	if (r)
		return r;
	sim->async.n_frees++;
	lane->until = gp_max_u64(lane->until, until);
	p->used -= e->tag;
	gp_range_set_remove(&p->live, addr, NULL);
	gp_sim_charge(sim, GP_COST_ASYNC_FREE, 1);
	return 0;
}

static int free_result(struct gp_device *dev, int r, uint64_t addr)
{
	if (r != -EINVAL)
		return r;
	return gp_device_fault(
		dev, r, "async_free: 0x%" PRIx64 " is not allocated, or was freed before", addr);
}

int gp_sim_async_free(struct gp_device *dev, struct gp_async *p, uint64_t addr, uint32_t stream)
{
	struct gp_sim *sim = gp_sim_of(dev);
	int r;

	pthread_mutex_lock(&sim->lock);
	r = pool_free(sim, p, addr, stream, gp_sim_queue_until(sim, stream));
	pthread_mutex_unlock(&sim->lock);
	return free_result(dev, r, addr);
}

/* The helper waits for the block's stream, and from outside for those that nobody names. */
int gp_sim_async_retire(struct gp_device *dev, struct gp_async *p, uint64_t addr, uint32_t stream,
			uint64_t *number)
{
	struct gp_sim *sim = gp_sim_of(dev);
	int r;

	pthread_mutex_lock(&sim->lock);
	r = pool_free(sim, p, addr, GP_SIM_HELPER, gp_sim_queue_until(sim, stream));
	if (!r) {
		gp_sim_charge(sim, GP_COST_EVENT_RECORD, 1);
		gp_sim_charge(sim, GP_COST_EVENT_WAIT, 1);
		*number = ++p->retired;
	}
	pthread_mutex_unlock(&sim->lock);
	return free_result(dev, r, addr);
}

void gp_sim_async_settle(struct gp_device *dev, struct gp_async *p, uint64_t number)
{
	struct gp_sim *sim = gp_sim_of(dev);

	pthread_mutex_lock(&sim->lock);
	p->settled = gp_max_u64(p->settled, number);
	pthread_mutex_unlock(&sim->lock);
}

/* ---- streams ---- */

int gp_sim_async_order(struct gp_sim *sim, uint32_t from, uint32_t to)
{
	struct gp_sim_async_device *d = &sim->async;
	uint64_t *seen;

	if (!d->pools || from >= GP_SIM_FOLLOWED || to >= GP_SIM_FOLLOWED)
		return 0;
	if (!d->seen) {
		d->seen = calloc((size_t)GP_SIM_FOLLOWED * GP_SIM_FOLLOWED, sizeof(*d->seen));
		if (!d->seen)
			return -ENOMEM;
	}
	/* What `from` has waited for is done as well. */
	seen = &d->seen[to * GP_SIM_FOLLOWED];
	for (uint32_t s = 0; s < GP_SIM_FOLLOWED; s++)
		seen[s] = gp_max_u64(seen[s], d->seen[from * GP_SIM_FOLLOWED + s]);
	seen[from] = d->n_frees;
	return 0;
}

/* A synchronisation does not stop above the threshold, as a trim stops above what it is to keep: of 96
 * MiB, 64 of them free, with 40 the H200 kept 32, where a trim to 50 kept 64. */
static uint64_t threshold_keep(const struct gp_async *p)
{
	uint64_t threshold = p->cfg.threshold;

	return threshold > UINT64_MAX - GP_SIM_CHUNK ? UINT64_MAX - GP_SIM_CHUNK
						     : gp_align_down(threshold, GP_SIM_CHUNK);
}

static int pool_synced(struct gp_sim *sim, struct gp_async *p)
{
	int r = 0;

	p->settled = p->retired;
	for (uint32_t i = 0; i < p->n_lanes && !r; i++)
		r = gp_sim_gaps_move(&p->store, &p->lanes[i].gaps, &p->ready);
	if (!r)
		r = gp_sim_chunks_release(sim, p, threshold_keep(p));
	return r;
}

int gp_sim_async_synced(struct gp_sim *sim)
{
	int r = 0;

	for (struct gp_async *p = sim->async.pools; p && !r; p = p->next)
		r = pool_synced(sim, p);
	return r;
}

/* ---- pools ---- */

int gp_sim_async_open(struct gp_device *dev, const struct gp_async_config *cfg,
		      struct gp_async **out)
{
	struct gp_sim *sim = gp_sim_of(dev);
	struct gp_async *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->cfg = *cfg;
	p->taken.size = (SPAN_FACTOR * (sim->capacity / GP_SIM_CHUNK + 1) + 1) * GP_SIM_CHUNK;
	gp_sim_gaps_init(&p->ready);
	gp_range_set_init(&p->live);
	pthread_mutex_lock(&sim->lock);
	r = gp_sim_space_take(&sim->space, p->taken.size, &p->taken.addr);
	if (!r) {
		p->base = gp_align_up(p->taken.addr, GP_SIM_CHUNK);
		p->end = gp_align_down(p->taken.addr + p->taken.size, GP_SIM_CHUNK);
		p->top = p->base;
		p->next = sim->async.pools;
		sim->async.pools = p;
	}
	pthread_mutex_unlock(&sim->lock);
	if (r)
		free(p);
	else
		*out = p;
	return r;
}

static void pool_destroy(struct gp_async *p)
{
	for (uint32_t i = 0; i < p->n_lanes; i++)
		gp_sim_gaps_fini(&p->lanes[i].gaps);
	free(p->lanes);
	gp_sim_gaps_fini(&p->ready);
	gp_sim_gap_store_fini(&p->store);
	gp_range_set_fini(&p->live);
	free(p);
}

void gp_sim_async_close(struct gp_device *dev, struct gp_async *p)
{
	struct gp_sim *sim = gp_sim_of(dev);

	pthread_mutex_lock(&sim->lock);
	for (struct gp_async **at = &sim->async.pools; *at; at = &(*at)->next) {
		if (*at != p)
			continue;
		*at = p->next;
		break;
	}
	gp_sim_chunks_drop(sim, p);
	gp_sim_space_give(&sim->space, p->taken.addr, p->taken.size);
	pthread_mutex_unlock(&sim->lock);
	pool_destroy(p);
}

void gp_sim_async_fini(struct gp_sim *sim)
{
	struct gp_async *next;

	for (struct gp_async *p = sim->async.pools; p; p = next) {
		next = p->next;
		pool_destroy(p);
	}
	gp_range_set_fini(&sim->async.chunks);
	free(sim->async.seen);
}

const struct gp_range_entry *gp_sim_async_chunk(const struct gp_sim *sim, uint64_t addr)
{
	return gp_range_set_containing(&sim->async.chunks, addr);
}

int gp_sim_async_trim(struct gp_device *dev, struct gp_async *p, uint64_t keep)
{
	struct gp_sim *sim = gp_sim_of(dev);
	int r;

	pthread_mutex_lock(&sim->lock);
	r = gp_sim_chunks_release(sim, p, keep);
	pthread_mutex_unlock(&sim->lock);
	return r;
}

int gp_sim_async_counts(struct gp_device *dev, struct gp_async *p, struct gp_async_counts *out)
{
	struct gp_sim *sim = gp_sim_of(dev);

	pthread_mutex_lock(&sim->lock);
	*out = (struct gp_async_counts){ .used = p->used,
					 .used_high = p->used_high,
					 .reserved = p->reserved,
					 .reserved_high = p->reserved_high };
	pthread_mutex_unlock(&sim->lock);
	return 0;
}
