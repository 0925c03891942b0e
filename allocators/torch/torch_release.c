/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_release: how the model of PyTorch's allocator gives memory back, in the order in which an
 * allocation that finds nothing goes through it:
 *
 *   collect             limit and garbage_collection_threshold: old segments of the large pool
 *   release_available   max_split_size_mb: oversize segments of the request's own lane
 *   flush               waits for the device, ends deferred frees, gives back all that is free
 *
 * Sets change while they are walked: a walk goes on behind the size and address it was at.
 */
#include "torch_state.h"

#include <errno.h>
#include <stdlib.h>

#define PENDING_FIRST 64

/* ---- deferred frees ---- */

static void torch_pending_unlink(struct torch *s, uint32_t i)
{
	struct torch_pending *p = &s->pending[i];

	s->pending[p->prev].next = p->next;
	s->pending[p->next].prev = p->prev;
}

static void torch_pending_append(struct torch *s, uint32_t i)
{
	struct torch_pending *p = &s->pending[i], *head = &s->pending[0];

	p->prev = head->prev;
	p->next = 0;
	s->pending[head->prev].next = i;
	head->prev = i;
}

/* Makes sure that there is an unused entry. */
static int torch_pending_room(struct torch *s)
{
	uint32_t cap = s->n_pending ? 2 * s->n_pending : PENDING_FIRST;
	struct torch_pending *more;

	if (s->unused_pending)
		return 0;
	if (cap < s->n_pending)
		return -ENOSPC;
	more = realloc(s->pending, cap * sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->pending = more;
	if (!s->n_pending)
		more[s->n_pending++] = (struct torch_pending){ 0 };
	for (; s->n_pending < cap; s->n_pending++) {
		more[s->n_pending].next = s->unused_pending;
		s->unused_pending = s->n_pending;
	}
	return 0;
}

int torch_defer(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	struct torch *s = gp_state(a);
	uint32_t n = torch_blocks_find(&s->b, addr), i;
	struct torch_block *b = torch_at(s, n);
	int r;

	if (b->state == TORCH_PENDING) {
		i = b->left;
		torch_pending_unlink(s, i);
	} else {
		r = torch_live(s, addr, &n);
		if (!r)
			r = torch_pending_room(s);
		if (r)
			return r;
		i = s->unused_pending;
		s->unused_pending = s->pending[i].next;
		s->pending[i].block = n;
		b->state = TORCH_PENDING;
		b->left = i;
		s->stats.pending_blocks++;
		s->stats.pending_bytes += torch_bytes(b);
	}
	s->pending[i].ticket = ticket;
	torch_pending_append(s, i);
	return 0;
}

static void torch_end_pending(struct torch *s, uint32_t i)
{
	uint32_t n = s->pending[i].block;
	struct torch_block *b = torch_at(s, n);

	torch_pending_unlink(s, i);
	s->pending[i].next = s->unused_pending;
	s->unused_pending = i;
	s->stats.pending_blocks--;
	s->stats.pending_bytes -= torch_bytes(b);
	torch_free_block(s, n);
}

/* A block that is not pending under this ticket: a flush has completed that. */
int torch_complete(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	struct torch *s = gp_state(a);
	const struct torch_block *b = torch_at(s, torch_blocks_find(&s->b, addr));

	if (b->state == TORCH_PENDING && s->pending[b->left].ticket == ticket)
		torch_end_pending(s, b->left);
	return 0;
}

/* synchronize_and_free_events */
static int torch_end_all_pending(struct gp_allocator *a)
{
	struct torch *s = gp_state(a);
	int r = gp_device_sync(a->dev);

	if (r)
		return r;
	s->stats.num_sync_all_streams++;
	while (s->stats.pending_blocks) {
		uint32_t i = s->pending[0].next;
		const struct torch_pending *p = &s->pending[i];

		if (a->completed)
			a->completed(a->completed_arg, torch_at(s, p->block)->addr, p->ticket);
		torch_end_pending(s, i);
	}
	return 0;
}

/* ---- collection ---- */

/* What is to be collected from, in one pass or several. */
struct torch_garbage {
	double total_age; /* of the unsplit free blocks, */
	uint64_t n;       /* expandable ones included    */
	uint64_t reclaimed;
};

static void torch_count_garbage(const struct torch *s, const struct torch_lane *lane,
				struct torch_garbage *g)
{
	const struct torch_block *blocks = s->b.at;
	uint32_t n = torch_order_first(&lane->free, blocks);

	for (; n; n = torch_order_behind(&lane->free, blocks, blocks[n].units, blocks[n].addr)) {
		if (torch_block_alone(&blocks[n])) {
			g->total_age += torch_age(s, n);
			g->n++;
		}
	}
}

static int torch_collect_lane(struct gp_allocator *a, struct torch_lane *lane, double threshold,
			      struct torch_garbage *g)
{
	struct torch *s = gp_state(a);
	uint32_t n = torch_order_first(&lane->free, s->b.at);
	int r = 0;

	while (n && !r) {
		struct torch_block b = *torch_at(s, n);
		uint32_t age = torch_is_segment(s, n) ? torch_age(s, n) : 0;

		if (torch_is_segment(s, n) && age >= threshold) {
			r = torch_release_segment(a, n, &g->reclaimed);
			g->total_age -= age;
			g->n--;
		}
		n = torch_order_behind(&lane->free, s->b.at, b.units, b.addr);
	}
	return r;
}

/* garbage_collect_cached_blocks: passes over the segments that are at least as old as the mean of
 * what is left, until enough is reclaimed. A pass is never cut short. */
int torch_collect(struct gp_allocator *a)
{
	struct torch *s = gp_state(a);
	struct torch_garbage g = { 0 };
	struct torch_pool *pool;
	uint64_t target, before;
	int r = 0;

	if (s->reserved_bytes <= s->gc_trigger || s->n_pools <= TORCH_LARGE)
		return 0;
	pool = &s->pools[TORCH_LARGE];
	target = s->reserved_bytes - s->gc_trigger;
	for (uint32_t i = 0; i < pool->n_lanes; i++)
		if (pool->lanes[i])
			torch_count_garbage(s, pool->lanes[i], &g);
	do {
		double threshold = g.n ? g.total_age / (double)g.n : 0;

		before = g.reclaimed;
		for (uint32_t i = 0; i < pool->n_lanes && !r && g.n; i++)
			if (pool->lanes[i])
				r = torch_collect_lane(a, pool->lanes[i], threshold, &g);
	} while (!r && g.reclaimed < target && g.reclaimed > before);
	s->stats.num_gc += g.reclaimed > 0;
	return r;
}

/* ---- oversize blocks ---- */

int torch_release_available(struct gp_allocator *a, const struct torch_want *w)
{
	struct torch *s = gp_state(a);
	const struct torch_order *set = &w->lane->free;
	uint64_t key = gp_max_u64(w->size, s->max_split), released = 0;
	uint32_t n = torch_order_lower(set, s->b.at, torch_units(key), 0);
	int r = 0;

	if (s->max_split == UINT64_MAX)
		return GP_NOMEM;
	if (n && torch_is_segment(s, n))
		return torch_release_segment(a, n, &released);
	n = n ? torch_order_below(set, s->b.at, torch_at(s, n)->units, torch_at(s, n)->addr)
	      : torch_order_below(set, s->b.at, UINT32_MAX, UINT64_MAX);
	while (n && !r && released < key) {
		struct torch_block b = *torch_at(s, n);

		if (torch_bytes(&b) < s->max_split)
			break;
		if (torch_is_segment(s, n))
			r = torch_release_segment(a, n, &released);
		n = torch_order_below(set, s->b.at, b.units, b.addr);
	}
	return r ? r : released < key ? GP_NOMEM : 0;
}

/* ---- the flush ---- */

static int torch_release_lane(struct gp_allocator *a, struct torch_lane *lane, bool expandable,
			      uint64_t keep, uint64_t *released)
{
	struct torch *s = gp_state(a);
	uint32_t n = torch_order_first(&lane->free, s->b.at);
	int r = 0;

	while (n && !r && s->reserved_bytes > keep) {
		struct torch_block b = *torch_at(s, n);

		if (expandable && b.expandable)
			r = torch_unmap(a, n, released);
		else if (!expandable && torch_is_segment(s, n))
			r = torch_release_segment(a, n, released);
		/* What unmapping leaves of a block is smaller and lies before. */
		n = torch_order_behind(&lane->free, s->b.at, b.units, b.addr);
	}
	return r;
}

/* release_blocks: of all streams, first the segments, then the pages. */
static int torch_release_pool(struct gp_allocator *a, uint32_t pool, uint64_t keep,
			      uint64_t *released)
{
	struct torch *s = gp_state(a);
	struct torch_pool *p = &s->pools[pool];
	int r = 0;

	for (int expandable = 0; expandable < 2; expandable++)
		for (uint32_t i = 0; i < p->n_lanes && !r; i++)
			if (p->lanes[i])
				r = torch_release_lane(a, p->lanes[i], expandable, keep, released);
	return r;
}

int torch_flush(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct torch *s = gp_state(a);
	int r = torch_end_all_pending(a);

	for (uint32_t pool = TORCH_KINDS; pool-- > 0 && !r;)
		if (pool < s->n_pools)
			r = torch_release_pool(a, pool, keep, released);
	for (uint32_t pool = TORCH_KINDS; pool < s->n_pools && !r; pool++)
		if (s->pools[pool].freeable)
			r = torch_release_pool(a, pool, keep, released);
	return r;
}
