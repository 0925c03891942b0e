/* SPDX-License-Identifier: Apache-2.0
 *
 * torch: a model of PyTorch's CUDA caching allocator (c10/cuda/CUDACachingAllocator), rule by rule,
 * so that it hands out the very addresses that PyTorch would, given where the driver puts segments.
 * Functions that follow one of PyTorch's name it.
 *
 * Shape        segments from the device, each of one stream and one pool, tiled by blocks:
 *
 *                small pool  requests to 1 MiB, segments of 2 MiB
 *                large pool  the rest: segments of 20 MiB, or of the request when >= 10 MiB
 *
 *              The smallest free block that is large enough is taken, of equal ones that with the
 *              lowest address; its rest is cut off if worth it; freed blocks join again at once.
 *              Memory goes back to the device only when a request can't be met. torch_state.h says
 *              which file does what.
 * Invariants   1. blocks tile segments   2. no two free neighbours, and no two holes
 *              3. the sets hold exactly the free blocks   4. reserved is what is mapped; granted,
 *              live and pending add up                            -> torch_check() tests each
 * Cost         alloc, free: a few steps in one bin of the set (torch_order.h) and in the index; 32
 *              bytes a block, 16 to 32 in the index, 4 KiB for each stream and pool
 * Waste        internal: to 512 bytes, up to 1 MiB in large blocks whose rest was not worth cutting
 *              off; external: memory never moves between streams, pools and segments
 * Not done     requests served from a pool that is flagged use_on_oom; MemPools with an allocator
 *              of their own; settings that change at run time
 * Threads      one at a time
 */
#include "torch/torch_state.h"

#include <errno.h>
#include <stdlib.h>

#define LG_MIN_BLOCK 9

/* ---- sizes ---- */

/* round_size */
static uint64_t torch_round(const struct torch *s, uint64_t size)
{
	unsigned lg = gp_floor_log2(size), slot = lg < 20 ? 0 : lg - 20;
	uint64_t divisions, step;

	if (size < TORCH_MIN_BLOCK)
		return TORCH_MIN_BLOCK;
	divisions = s->division_of[slot < TORCH_DIVISIONS ? slot : TORCH_DIVISIONS - 1];
	if (GP_LIKELY(divisions <= 1 || size <= TORCH_MIN_BLOCK * divisions))
		return gp_align_up(size, TORCH_MIN_BLOCK);
	if (gp_is_pow2(size))
		return size;
	step = (UINT64_C(1) << lg) >> gp_floor_log2(divisions);
	return step ? gp_align_up(size, step) : UINT64_C(2) << lg;
}

/* get_allocation_size */
static uint64_t torch_segment_size(const struct torch *s, uint64_t rounded)
{
	if (rounded <= TORCH_SMALL_SIZE)
		return TORCH_SMALL_BUFFER;
	if (rounded < TORCH_MIN_LARGE)
		return s->large_segment;
	return gp_align_up(rounded, TORCH_ROUND_LARGE);
}

/* ---- lookup and splitting ---- */

/* What taking this block would use up, with what could still be mapped behind it. */
static uint64_t torch_expandable_size(const struct torch *s, uint32_t n)
{
	const struct torch_block *b = torch_at(s, n), *next = torch_at(s, b->next);

	return torch_bytes(b) + (next->state == TORCH_HOLE ? torch_bytes(next) : 0);
}

/* Of the blocks from n on that are in expandable segments, the first that is no worse than the
 * next: a block between others is preferred to the one that the segment grows at. */
static uint32_t torch_prefer_inner(const struct torch *s, const struct torch_lane *lane, uint32_t n)
{
	const struct torch_block *blocks = s->b.at;

	while (blocks[n].expandable) {
		uint32_t next =
			torch_order_behind(&lane->free, blocks, blocks[n].units, blocks[n].addr);

		if (!next || torch_expandable_size(s, next) >= torch_expandable_size(s, n))
			break;
		n = next;
	}
	return n;
}

/* get_free_block. A block that is too large by the rules for oversize ones ends the search. */
static uint32_t torch_find(struct torch *s, const struct torch_want *w)
{
	uint64_t have;
	uint32_t n;

	if (GP_UNLIKELY(torch_gc_armed(s)))
		s->pools[w->lane->pool].calls++;
	n = torch_order_lower(&w->lane->free, s->b.at, torch_units(w->size), 0);
	if (!n)
		return TORCH_NIL;
	if (s->opt.expandable)
		n = torch_prefer_inner(s, w->lane, n);
	have = torch_bytes(torch_at(s, n));
	if (w->size < s->max_split ? have >= s->max_split
				   : have >= w->size + s->max_non_split_rounding)
		return TORCH_NIL;
	return n;
}

/* should_split */
static bool torch_should_cut(const struct torch *s, const struct torch_want *w, uint64_t rest)
{
	if (s->opt.expandable || !torch_is_large(w->lane))
		return rest >= TORCH_MIN_BLOCK;
	return w->size < s->max_split && rest > TORCH_SMALL_SIZE;
}

/* ---- an allocation ---- */

/* What is there is on other streams, or there is nothing. */
static int torch_out_of_memory(struct torch *s, const struct torch_want *w)
{
	const struct torch_pool *pool = &s->pools[w->lane->pool];

	s->stats.num_ooms++;
	torch_tell(s, GP_TORCH_OOM, (struct gp_range){ 0, w->size }, w->lane->stream);
	for (uint32_t i = 0; i < pool->n_lanes; i++)
		if (pool->lanes[i] && pool->lanes[i] != w->lane &&
		    torch_order_lower(&pool->lanes[i]->free, s->b.at, torch_units(w->size), 0))
			return GP_HELD;
	return GP_NOMEM;
}

/* malloc, after the first look: each step only when the one before it found nothing. */
static GP_NOINLINE int torch_obtain(struct gp_allocator *a, const struct torch_want *w,
				    uint32_t *out)
{
	struct torch *s = gp_state(a);
	uint64_t released = 0;
	int r = torch_gc_armed(s) ? torch_collect(a) : 0;

	if (!r)
		r = torch_grow(a, w, out);
	if (r == GP_NOMEM) {
		r = torch_release_available(a, w);
		if (!r)
			r = torch_grow(a, w, out);
	}
	if (r != GP_NOMEM)
		return r;
	r = torch_flush(a, 0, &released);
	if (r)
		return r;
	s->stats.num_alloc_retries++;
	if (s->opt.lookup_after_flush) {
		*out = torch_find(s, w);
		if (*out) {
			torch_take(s, *out);
			return 0;
		}
	}
	r = torch_grow(a, w, out);
	return r == GP_NOMEM ? torch_out_of_memory(s, w) : r;
}

/* The lane of the request; one in a private pool says that the pool is in use. */
static int torch_lane_for(struct torch *s, const struct gp_request *req, enum torch_kind kind,
			  struct torch_lane **out)
{
	uint32_t pool = req->pool * TORCH_KINDS;
	int r;

	if (GP_LIKELY(!pool && s->n_pools >= TORCH_KINDS && req->stream < s->pools[kind].n_lanes &&
		      s->pools[kind].lanes[req->stream])) {
		*out = s->pools[kind].lanes[req->stream];
		return 0;
	}
	r = torch_lane_at(s, pool + kind, req->stream, out);
	for (uint32_t i = 0; i < TORCH_KINDS && pool + i < s->n_pools; i++)
		s->pools[pool + i].freeable = false;
	return r;
}

/* Fills in what is looked for. */
static int torch_want(struct torch *s, const struct gp_request *req, struct torch_want *w)
{
	w->size = torch_round(s, req->size);
	if (GP_UNLIKELY(req->lg_align > LG_MIN_BLOCK))
		return GP_REFUSED; /* PyTorch has no such request */
	w->segment_size = torch_segment_size(s, w->size);
	return torch_lane_for(s, req, w->size > TORCH_SMALL_SIZE ? TORCH_LARGE : TORCH_SMALL,
			      &w->lane);
}

static int torch_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct torch *s = gp_state(a);
	struct torch_want w;
	uint32_t n = TORCH_NIL;
	uint64_t have;
	int r = torch_want(s, req, &w);

	if (GP_UNLIKELY(r))
		return r;
	n = torch_find(s, &w);
	if (GP_LIKELY(n))
		torch_take(s, n);
	else
		r = torch_obtain(a, &w, &n);
	if (GP_UNLIKELY(r))
		return r;
	r = torch_blocks_room(&s->b, 1);
	if (GP_UNLIKELY(r)) {
		torch_put(s, n, TORCH_FREE);
		return r;
	}
	have = torch_bytes(torch_at(s, n));
	if (torch_should_cut(s, &w, have - w.size)) {
		uint32_t front = torch_cut(s, n, w.size);

		torch_put(s, n, TORCH_FREE);
		n = front;
		have = w.size;
	}
	torch_block_use(&s->b, n);
	s->live_blocks++;
	s->granted_bytes += have;
	*out = (struct gp_block){ torch_at(s, n)->addr, have };
	return 0;
}

/* ---- freeing ---- */

int torch_live(const struct torch *s, uint64_t addr, uint32_t *n)
{
	*n = torch_blocks_find(&s->b, addr);
	if (GP_LIKELY(torch_at(s, *n)->state == TORCH_USED))
		return 0;
	return *n ? -EALREADY : torch_blocks_refuse(&s->b, addr);
}

void torch_free_block(struct torch *s, uint32_t n)
{
	s->live_blocks--;
	s->granted_bytes -= torch_bytes(torch_at(s, n));
	torch_block_unuse(&s->b, n);
	torch_join(s, n, TORCH_FREE);
}

static int torch_free(struct gp_allocator *a, uint64_t addr)
{
	struct torch *s = gp_state(a);
	uint32_t n;
	int r = torch_live(s, addr, &n);

	if (GP_LIKELY(!r))
		torch_free_block(s, n);
	return r;
}

/* ---- other hooks ---- */

static void torch_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct torch *s = gp_state(a);

	*out = (struct gp_usage){ s->live_blocks, s->granted_bytes, s->reserved_bytes, 0 };
}

/* empty_cache */
static int torch_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	const struct torch *s = gp_state(a);

	return s->reserved_bytes > keep ? torch_flush(a, keep, released) : 0;
}

static void torch_fini(struct gp_allocator *a)
{
	struct torch *s = gp_state(a);

	torch_segments_fini(a);
	for (uint32_t i = 0; i < s->n_lanes; i++)
		free(s->lanes[i]);
	for (uint32_t i = 0; i < s->n_pools; i++)
		free(s->pools[i].lanes);
	free(s->lanes);
	free(s->pools);
	free(s->pending);
	torch_blocks_fini(&s->b);
}

static int torch_init(struct gp_allocator *a)
{
	struct torch *s = gp_state(a);
	int r = torch_configure(a);

	return r ? r : torch_blocks_init(&s->b, torch_gc_armed(s));
}

/* ---- torch.h ---- */

static struct torch *torch_of(const struct gp_allocator *a)
{
	while (a->ops->caps & GP_CAP_DECORATOR)
		a = a->inner;
	return a->ops == &gp_torch_ops ? gp_state(a) : NULL;
}

bool gp_torch_stats(const struct gp_allocator *a, struct gp_torch_stats *out)
{
	const struct torch *s = torch_of(a);

	if (s)
		*out = s->stats;
	return s;
}

bool gp_torch_observe(struct gp_allocator *a, gp_torch_observer *fn, void *arg)
{
	struct torch *s = torch_of(a);

	if (s) {
		s->observer = fn;
		s->observer_arg = arg;
	}
	return s;
}

bool gp_torch_release_pool(struct gp_allocator *a, uint8_t pool)
{
	struct torch *s = torch_of(a);

	for (uint32_t i = pool * TORCH_KINDS;
	     s && pool && i < s->n_pools && i < (pool + 1u) * TORCH_KINDS; i++)
		s->pools[i].freeable = true;
	return s;
}

bool gp_torch_is_limited(const struct gp_allocator *a)
{
	const struct torch *s = torch_of(a);

	return s && s->limit != UINT64_MAX;
}

bool gp_torch_sizes(const struct gp_allocator *a, uint64_t size, uint64_t *rounded,
		    uint64_t *segment)
{
	const struct torch *s = torch_of(a);

	if (!s || !size || size > GP_SIZE_MAX)
		return false;
	*rounded = torch_round(s, size);
	*segment = torch_segment_size(s, *rounded);
	return true;
}

uint64_t gp_torch_freed_size(const struct gp_allocator *a, uint64_t addr)
{
	const struct torch *s = torch_of(a);
	const struct torch_block *b = s ? torch_at(s, torch_blocks_find(&s->b, addr)) : NULL;
	uint64_t size;

	if (!b || !b->units)
		return 0;
	size = torch_bytes(b);
	if (torch_at(s, b->prev)->state == TORCH_FREE)
		size += torch_bytes(torch_at(s, b->prev));
	if (torch_at(s, b->next)->state == TORCH_FREE)
		size += torch_bytes(torch_at(s, b->next));
	return size;
}

const struct gp_allocator_ops gp_torch_ops = {
	.name = "torch",
	.summary = "PyTorch's CUDA caching allocator, to the address",
	.caps = GP_CAP_COALESCES,
	.state_size = sizeof(struct torch),
	.options = torch_option_table,
	.init = torch_init,
	.fini = torch_fini,
	.alloc = torch_alloc,
	.free = torch_free,
	.usage = torch_usage,
	.check = torch_check,
	.trim = torch_trim,
	.walk = torch_walk,
	.defer = torch_defer,
	.complete = torch_complete,
};
