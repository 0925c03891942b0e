/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_pools: which private pool (a CUDA graph's, a MemPool) an event of a PyTorch snapshot is of.
 *
 * Shape       an event may say it ("pool_id"). Else the segments at the end of the recording do
 *             ("segment_pool_id"), for what lies in them from the last segment_alloc of their
 *             address on; whoever had the addresses before is taken for the default pool:
 *
 *               segment_alloc A ... segment_free A   segment_alloc A ... the end: A is of pool 3
 *               \_____________ 0 _______________/    \__________________ 3 ___________________/
 *
 * Invariants   what is kept of the segments: those of one GPU in a private pool, by address
 * Cost         a binary search among them an event
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "torch_snapshot.h"

int gp_torch_pool(struct gp_torch *s, const struct gp_plain *id, uint8_t *pool)
{
	uint32_t known;

	*pool = 0;
	if (!id->number)
		return 0;
	known = gp_id_map_find(&s->pool_map, id->number);
	if (known == GP_ID_MAP_NONE) {
		known = s->pool_map.n;
		if (gp_id_map_put(&s->pool_map, id->number, known))
			return -ENOMEM;
	}
	*pool = (uint8_t)(1 + known % GP_TRACE_POOL_MAX);
	return 0;
}

static int pools_by_address(const void *a, const void *b)
{
	const struct gp_torch_segment *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* The last segment that begins at or before the address; NULL: none does. */
static struct gp_torch_segment *pools_find(const struct gp_torch *s, uint64_t addr)
{
	uint64_t low = 0, high = s->n_segments;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (s->segments[middle].addr <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &s->segments[low - 1] : NULL;
}

void gp_torch_pools_begin(struct gp_torch *s, uint32_t device, struct gp_torch_range events)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < s->n_segments; i++)
		if (s->segments[i].device == device)
			s->segments[kept++] = s->segments[i];
	s->n_segments = kept;
	if (kept)
		qsort(s->segments, (size_t)kept, sizeof(*s->segments), pools_by_address);
	for (uint64_t i = 0; kept && i < events.n; i++) {
		const struct gp_torch_event *e = gp_torch_event_at(s, events.first + i);
		struct gp_torch_segment *g = pools_find(s, e->addr);

		if (e->action == GP_TORCH_SEGMENT_ALLOC && g && g->addr == e->addr)
			g->since = i + 1;
	}
}

uint8_t gp_torch_pool_at(const struct gp_torch *s, uint64_t addr, uint64_t number)
{
	const struct gp_torch_segment *g = pools_find(s, addr);

	return g && addr - g->addr < g->size && number >= g->since ? g->pool : 0;
}
