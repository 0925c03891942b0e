/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_lane: the sets of free blocks of the model of PyTorch's allocator. PyTorch has
 * one set in each pool, in the order of stream, size, address; here it is cut into lanes, one for
 * each stream, and whoever walks a whole pool walks its lanes in turn.
 */
#include "torch_state.h"

#include <errno.h>
#include <stdlib.h>

#define LANES_MAX UINT16_MAX /* a block has 16 bits for its lane */

/* ---- lanes ---- */

static int torch_know_pool(struct torch *s, uint32_t pool)
{
	uint32_t n = pool + 1;
	struct torch_pool *pools;

	if (pool < s->n_pools)
		return 0;
	pools = realloc(s->pools, n * sizeof(*pools));
	if (!pools)
		return -ENOMEM;
	s->pools = pools;
	while (s->n_pools < n)
		pools[s->n_pools++] = (struct torch_pool){ 0 };
	return 0;
}

static int torch_know_stream(struct torch_pool *p, uint32_t stream)
{
	size_t n = (size_t)stream + 1;
	struct torch_lane **lanes;

	if (stream < p->n_lanes)
		return 0;
	if (stream >= LANES_MAX)
		return -E2BIG;
	lanes = realloc(p->lanes, n * sizeof(struct torch_lane *));
	if (!lanes)
		return -ENOMEM;
	p->lanes = lanes;
	while (p->n_lanes < n)
		lanes[p->n_lanes++] = NULL;
	return 0;
}

static int torch_new_lane(struct torch *s, uint32_t pool, uint32_t stream)
{
	struct torch_lane **lanes, *lane;

	if (s->n_lanes == LANES_MAX)
		return -E2BIG;
	lanes = realloc(s->lanes, (s->n_lanes + 1) * sizeof(struct torch_lane *));
	if (!lanes)
		return -ENOMEM;
	s->lanes = lanes;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return -ENOMEM;
	lane->stream = stream;
	lane->pool = (uint16_t)pool;
	lane->number = (uint16_t)s->n_lanes;
	lanes[s->n_lanes++] = lane;
	s->pools[pool].lanes[stream] = lane;
	return 0;
}

int torch_lane_at(struct torch *s, uint32_t pool, uint32_t stream, struct torch_lane **out)
{
	int r = torch_know_pool(s, pool);

	if (!r)
		r = torch_know_stream(&s->pools[pool], stream);
	if (!r && !s->pools[pool].lanes[stream])
		r = torch_new_lane(s, pool, stream);
	if (!r)
		*out = s->pools[pool].lanes[stream];
	return r;
}

/* ---- sets ---- */

/* Holes are few, and whoever looks for one walks them all. */
static uint32_t *torch_hole_link(struct torch *s, struct torch_lane *lane, uint64_t addr)
{
	uint32_t *link = &lane->holes;

	while (*link && torch_at(s, *link)->addr < addr)
		link = &torch_at(s, *link)->right;
	return link;
}

void torch_put(struct torch *s, uint32_t n, enum torch_state state)
{
	struct torch_block *b = torch_at(s, n);
	struct torch_lane *lane = torch_lane_of(s, b);
	uint32_t *link;

	b->state = (uint8_t)state;
	if (GP_UNLIKELY(state == TORCH_HOLE)) {
		link = torch_hole_link(s, lane, b->addr);
		b->right = *link;
		*link = n;
		return;
	}
	torch_order_insert(&lane->free, s->b.at, n);
	if (GP_UNLIKELY(s->b.freed_at))
		s->b.freed_at[n] = s->pools[lane->pool].calls;
}

void torch_take(struct torch *s, uint32_t n)
{
	struct torch_block *b = torch_at(s, n);
	struct torch_lane *lane = torch_lane_of(s, b);

	if (GP_UNLIKELY(b->state == TORCH_HOLE))
		*torch_hole_link(s, lane, b->addr) = b->right;
	else
		torch_order_remove(&lane->free, s->b.at, n);
}

void torch_join(struct torch *s, uint32_t n, enum torch_state state)
{
	uint32_t left = torch_at(s, n)->prev, right = torch_at(s, n)->next;

	if (torch_at(s, left)->state == state) {
		torch_take(s, left);
		torch_block_take_left(&s->b, n);
	}
	if (torch_at(s, right)->state == state) {
		torch_take(s, right);
		torch_block_take_right(&s->b, n);
	}
	torch_put(s, n, state);
}

bool torch_is_segment(const struct torch *s, uint32_t n)
{
	return !torch_at(s, n)->expandable && torch_block_alone(torch_at(s, n));
}

uint32_t torch_age(const struct torch *s, uint32_t n)
{
	const struct torch_block *b = torch_at(s, n);

	return s->pools[torch_lane_of(s, b)->pool].calls - s->b.freed_at[n];
}
