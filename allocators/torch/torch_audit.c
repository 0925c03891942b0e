/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_audit: looks at everything that the model of PyTorch's allocator keeps, and draws its map.
 */
#include "torch_state.h"

#include <errno.h>

struct torch_sums {
	uint64_t live, granted, mapped, pending, pending_bytes;
	uint64_t segments, free_blocks, holes;
};

static bool torch_in_holes(const struct torch *s, uint32_t n)
{
	uint32_t at = torch_lane_of(s, torch_at(s, n))->holes;

	while (at && at != n)
		at = torch_at(s, at)->right;
	return at;
}

static const char *torch_fault(const struct torch *s, uint32_t n)
{
	const struct torch_block *b = torch_at(s, n);
	const char *fault = torch_block_fault(&s->b, n);

	if (fault)
		return fault;
	if (b->lane >= s->n_lanes)
		return "is in no lane";
	if (b->state == TORCH_HOLE && (!b->expandable || !torch_in_holes(s, n)))
		return "is not mapped, but not among the holes of its lane";
	if (b->state == TORCH_FREE && !torch_order_holds(&torch_lane_of(s, b)->free, s->b.at, n))
		return "is free, but not in the set of its lane";
	if ((b->state == TORCH_FREE || b->state == TORCH_HOLE) &&
	    torch_at(s, b->next)->state == b->state)
		return "is beside another of its state";
	if (b->state == TORCH_PENDING &&
	    (b->left >= s->n_pending || s->pending[b->left].block != n))
		return "is pending, but has no entry";
	return NULL;
}

static void torch_add_up(const struct torch_block *b, struct torch_sums *sums)
{
	uint64_t bytes = torch_bytes(b);

	sums->mapped += b->state == TORCH_HOLE ? 0 : bytes;
	sums->holes += b->state == TORCH_HOLE;
	sums->free_blocks += b->state == TORCH_FREE;
	sums->segments += !b->prev && !b->expandable;
	if (b->state == TORCH_USED || b->state == TORCH_PENDING) {
		sums->live++;
		sums->granted += bytes;
	}
	if (b->state == TORCH_PENDING) {
		sums->pending++;
		sums->pending_bytes += bytes;
	}
}

/* Sets that hold more than the free blocks would show here. */
static void torch_count_sets(const struct torch *s, uint64_t *n_free, uint64_t *n_holes)
{
	const struct torch_block *blocks = s->b.at;

	*n_free = *n_holes = 0;
	for (uint32_t i = 0; i < s->n_lanes; i++) {
		const struct torch_order *set = &s->lanes[i]->free;
		uint32_t n = torch_order_first(set, blocks);

		for (; n; n = torch_order_behind(set, blocks, blocks[n].units, blocks[n].addr))
			++*n_free;
		for (n = s->lanes[i]->holes; n; n = blocks[n].right)
			++*n_holes;
	}
}

static bool torch_sums_agree(const struct torch *s, const struct torch_sums *sums)
{
	uint64_t blocks, holes;

	torch_count_sets(s, &blocks, &holes);
	return blocks == sums->free_blocks && holes == sums->holes &&
	       sums->live == s->live_blocks && sums->granted == s->granted_bytes &&
	       sums->mapped == s->reserved_bytes && sums->segments == s->stats.segments &&
	       sums->pending == s->stats.pending_blocks &&
	       sums->pending_bytes == s->stats.pending_bytes;
}

/* Under a page that is mapped lies no hole, under another nothing else. */
static bool torch_pages_agree(const struct torch *s, const struct torch_block *b)
{
	for (uint32_t i = 0; i < s->n_ranges; i++) {
		const struct torch_range *range = &s->ranges[i];
		uint64_t from = b->addr - range->va.addr;

		if (from >= range->va.size)
			continue;
		for (uint64_t p = from / range->page; p * range->page < from + torch_bytes(b); p++)
			if (!range->handles[p] != (b->state == TORCH_HOLE))
				return false;
		return true;
	}
	return false;
}

static int torch_complain(FILE *why, const struct torch_block *b, const char *what)
{
	fprintf(why, "torch: block %#llx of %llu bytes %s\n", (unsigned long long)b->addr,
		(unsigned long long)torch_bytes(b), what);
	return -EILSEQ;
}

int torch_check(const struct gp_allocator *a, FILE *why)
{
	const struct torch *s = gp_state(a);
	struct torch_sums sums = { 0 };

	for (uint32_t n = 1; n < s->b.n; n++) {
		const struct torch_block *b = torch_at(s, n);
		const char *fault;

		if (b->state == TORCH_DEAD)
			continue;
		fault = torch_fault(s, n);
		if (!fault && b->expandable && !torch_pages_agree(s, b))
			fault = "does not agree with the pages that are mapped";
		if (fault)
			return torch_complain(why, b, fault);
		torch_add_up(b, &sums);
	}
	if (torch_sums_agree(s, &sums))
		return 0;
	fprintf(why,
		"torch: %llu live blocks of %llu bytes, %llu bytes mapped and %llu free blocks "
		"do not add up\n",
		(unsigned long long)sums.live, (unsigned long long)sums.granted,
		(unsigned long long)sums.mapped, (unsigned long long)sums.free_blocks);
	return -EILSEQ;
}

/* Segment by segment, in the order of their records. */
int torch_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	const struct torch *s = gp_state(a);
	int r = 0;

	for (uint32_t first = 1; first < s->b.n && !r; first++) {
		uint32_t n = first;

		if (torch_at(s, n)->state == TORCH_DEAD || torch_at(s, n)->prev)
			continue;
		for (; n && !r; n = torch_at(s, n)->next) {
			const struct torch_block *b = torch_at(s, n);

			if (b->state != TORCH_HOLE)
				r = fn(arg, (struct gp_range){ b->addr, torch_bytes(b) },
				       b->state != TORCH_FREE);
		}
	}
	return r;
}

bool gp_torch_lane_at(const struct gp_allocator *a, size_t i, struct gp_torch_lane *out)
{
	const struct torch_lane *lane;
	const struct torch *s;
	uint32_t n;

	while (a->ops->caps & GP_CAP_DECORATOR)
		a = a->inner;
	s = a->ops->walk == torch_walk ? gp_state(a) : NULL;
	if (!s || i >= s->n_lanes)
		return false;
	lane = s->lanes[i];
	*out = (struct gp_torch_lane){
		.stream = lane->stream,
		.pool = (uint8_t)(lane->pool / TORCH_KINDS),
		.large = torch_is_large(lane),
	};
	n = torch_order_first(&lane->free, s->b.at);
	for (; n; n = torch_order_behind(&lane->free, s->b.at, torch_at(s, n)->units,
					 torch_at(s, n)->addr)) {
		out->free_blocks++;
		out->free_bytes += torch_bytes(torch_at(s, n));
		out->largest_bytes = torch_bytes(torch_at(s, n)); /* in the order of sizes */
	}
	return true;
}
