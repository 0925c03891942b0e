/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_segment: how the model of PyTorch's allocator gets memory from the device: ordinary
 * segments, one reservation each, and expandable ones, an address range of which pages are mapped
 * as they are needed:
 *
 *   | used | free |  used  |          unmapped          |
 *   |  page  |  page  | page |  no pages                 |
 */
#include "torch_state.h"

#include <errno.h>
#include <stdlib.h>

/* ---- ordinary segments ---- */

static int torch_new_segment(struct gp_allocator *a, const struct torch_want *w, uint32_t *out)
{
	struct torch *s = gp_state(a);
	struct gp_range range = { 0, w->segment_size };
	int r = torch_blocks_room(&s->b, 1);

	if (!r)
		r = gp_device_reserve(a->dev, range.size, &range.addr);
	if (r)
		return r;
	*out = torch_block_add(&s->b, range, w->lane->number, false);
	s->reserved_bytes += range.size;
	s->stats.num_device_alloc++;
	s->stats.segments++;
	torch_tell(s, GP_TORCH_SEGMENT_ALLOC, range, w->lane->stream);
	return 0;
}

int torch_release_segment(struct gp_allocator *a, uint32_t n, uint64_t *released)
{
	struct torch *s = gp_state(a);
	struct torch_block b = *torch_at(s, n);
	struct gp_range range = { b.addr, torch_bytes(&b) };
	int r = gp_device_release(a->dev, range.addr);

	if (r)
		return r;
	torch_take(s, n);
	torch_block_forget(&s->b, n);
	s->reserved_bytes -= range.size;
	*released += range.size;
	s->stats.num_device_free++;
	s->stats.segments--;
	torch_tell(s, GP_TORCH_SEGMENT_FREE, range, torch_lane_of(s, &b)->stream);
	return 0;
}

/* ---- expandable segments ---- */

static struct torch_range *torch_range_of(struct torch *s, uint64_t addr)
{
	for (uint32_t i = 0; i < s->n_ranges; i++)
		if (addr - s->ranges[i].va.addr < s->ranges[i].va.size)
			return &s->ranges[i];
	return NULL;
}

/* A new one, all a hole: addresses for the whole card and an eighth more, as PyTorch has it. */
static int torch_new_range(struct gp_allocator *a, const struct torch_want *w, uint32_t *out)
{
	struct torch *s = gp_state(a);
	struct torch_range range = {
		.page = torch_is_large(w->lane) ? s->large_segment : TORCH_SMALL_BUFFER,
	};
	uint64_t total = gp_min_u64(a->dev->info.total_bytes, TORCH_RANGE_MAX), pages;
	struct torch_range *ranges;
	int r = torch_blocks_room(&s->b, 1);

	total = gp_min_u64(total + total / 8, TORCH_RANGE_MAX);
	pages = (total + range.page - 1) / range.page;
	range.va.size = pages * range.page;
	if (r || range.va.size < w->size)
		return r ? r : GP_NOMEM;
	ranges = realloc(s->ranges, (s->n_ranges + 1) * sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	s->ranges = ranges;
	range.handles = calloc(pages, sizeof(*range.handles));
	if (!range.handles)
		return -ENOMEM;
	r = gp_device_va_reserve(a->dev, range.va.size, &range.va.addr);
	if (r) {
		free(range.handles);
		return r;
	}
	ranges[s->n_ranges++] = range;
	*out = torch_block_add(&s->b, range.va, w->lane->number, true);
	torch_put(s, *out, TORCH_HOLE);
	return 0;
}

/* Gives the addresses back of one that is all a hole. */
static int torch_drop_range(struct gp_allocator *a, struct torch_range *range, uint32_t n)
{
	struct torch *s = gp_state(a);
	int r = gp_device_va_release(a->dev, range->va.addr, range->va.size);

	if (r)
		return r;
	torch_take(s, n);
	torch_block_forget(&s->b, n);
	free(range->handles);
	*range = s->ranges[--s->n_ranges];
	return 0;
}

static int torch_map_page(struct gp_allocator *a, struct torch_range *range, uint64_t page)
{
	uint64_t handle;
	int r = gp_device_create(a->dev, range->page, &handle);

	if (r)
		return r;
	r = gp_device_map(a->dev, range->va.addr + page * range->page, range->page, handle);
	if (r) {
		gp_device_destroy(a->dev, handle, range->page);
		return r;
	}
	range->handles[page] = handle + 1;
	return 0;
}

static int torch_unmap_page(struct gp_allocator *a, struct torch_range *range, uint64_t page)
{
	int r = gp_device_unmap(a->dev, range->va.addr + page * range->page, range->page), r2;

	if (r)
		return r;
	r2 = gp_device_destroy(a->dev, range->handles[page] - 1, range->page);
	range->handles[page] = 0;
	return r2;
}

static int torch_map_pages(struct gp_allocator *a, struct torch_range *range, uint64_t first,
			   uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		int r = torch_map_page(a, range, first + i);

		if (!r)
			continue;
		while (i-- > 0)
			torch_unmap_page(a, range, first + i);
		return r;
	}
	return 0;
}

/* map_block: maps the first bytes of hole *n, in whole pages, which then are a free block together
 * with its free neighbours; *n becomes that. */
static int torch_map(struct gp_allocator *a, uint32_t *n, uint64_t size)
{
	struct torch *s = gp_state(a);
	int r = torch_blocks_room(&s->b, 1);
	struct torch_block *b = torch_at(s, *n);
	struct torch_range *range = torch_range_of(s, b->addr);
	uint64_t first = (b->addr - range->va.addr) / range->page;
	uint64_t pages = (size + range->page - 1) / range->page;
	struct gp_range mapped = { b->addr, pages * range->page };

	if (!r)
		r = torch_map_pages(a, range, first, pages);
	if (r)
		return r;
	torch_take(s, *n);
	if (torch_bytes(b) > mapped.size) {
		uint32_t front = torch_cut(s, *n, mapped.size);

		torch_put(s, *n, TORCH_HOLE);
		*n = front;
	}
	s->reserved_bytes += mapped.size;
	s->stats.num_device_alloc++;
	torch_tell(s, GP_TORCH_SEGMENT_MAP, mapped, torch_lane_of(s, b)->stream);
	torch_join(s, *n, TORCH_FREE);
	return 0;
}

static bool torch_is_unused(const struct torch_block *b)
{
	return b->state == TORCH_FREE || b->state == TORCH_HOLE;
}

/* Are the free blocks and holes from block n on large enough, in one piece? */
static bool torch_run_fits(const struct torch *s, uint32_t n, uint64_t size)
{
	uint64_t sum = 0;

	for (; torch_is_unused(torch_at(s, n)) && sum < size; n = torch_at(s, n)->next)
		sum += torch_bytes(torch_at(s, n));
	return sum >= size;
}

/* find_expandable_block: the first run with a hole in it that is large enough. */
static int torch_find_run(struct gp_allocator *a, const struct torch_want *w, uint32_t *out)
{
	struct torch *s = gp_state(a);

	for (uint32_t n = w->lane->holes; n; n = torch_at(s, n)->right) {
		uint32_t before = torch_at(s, n)->prev;

		*out = torch_is_unused(torch_at(s, before)) ? before : n;
		if (torch_run_fits(s, *out, w->size))
			return 0;
	}
	return torch_new_range(a, w, out);
}

/* try_allocate_expandable_block. What was mapped stays so, and free, when it fails half way. */
static int torch_expand(struct gp_allocator *a, const struct torch_want *w, uint32_t *out)
{
	struct torch *s = gp_state(a);
	int r = torch_find_run(a, w, out);

	if (!r && torch_at(s, *out)->state == TORCH_HOLE)
		r = torch_map(a, out, gp_min_u64(torch_bytes(torch_at(s, *out)), w->size));
	while (!r && torch_bytes(torch_at(s, *out)) < w->size) {
		const struct torch_block *b = torch_at(s, *out);
		uint64_t more =
			gp_min_u64(w->size - torch_bytes(b), torch_bytes(torch_at(s, b->next)));

		*out = b->next;
		r = torch_map(a, out, more);
	}
	if (!r)
		torch_take(s, *out);
	return r;
}

int torch_unmap(struct gp_allocator *a, uint32_t n, uint64_t *released)
{
	struct torch *s = gp_state(a);
	int r = torch_blocks_room(&s->b, 2);
	struct torch_block *b = torch_at(s, n);
	struct torch_range *range = torch_range_of(s, b->addr);
	uint64_t offset = b->addr - range->va.addr, page = range->page;
	uint64_t first = (offset + page - 1) / page, end = (offset + torch_bytes(b)) / page, i;
	struct gp_range hole;

	if (r || end <= first)
		return r;
	for (i = first; i < end && !r; i++)
		r = torch_unmap_page(a, range, i);
	/* A page that did not go stays what it was: part of the free block. */
	end = r && range->handles[i - 1] ? i - 1 : i;
	if (end <= first)
		return r;
	hole = (struct gp_range){ range->va.addr + first * page, (end - first) * page };
	torch_take(s, n);
	if (hole.addr > b->addr)
		torch_put(s, torch_cut(s, n, hole.addr - b->addr), TORCH_FREE);
	if (torch_bytes(b) > hole.size) {
		uint32_t front = torch_cut(s, n, hole.size);

		torch_put(s, n, TORCH_FREE);
		n = front;
	}
	s->reserved_bytes -= hole.size;
	*released += hole.size;
	s->stats.num_device_free++;
	torch_tell(s, GP_TORCH_SEGMENT_UNMAP, hole, torch_lane_of(s, torch_at(s, n))->stream);
	torch_join(s, n, TORCH_HOLE);
	return !r && torch_block_alone(torch_at(s, n)) ? torch_drop_range(a, range, n) : r;
}

/* ---- both ---- */

int torch_grow(struct gp_allocator *a, const struct torch_want *w, uint32_t *out)
{
	const struct torch *s = gp_state(a);

	/* Of expandable segments too, though that asks for more than it will map. */
	if (s->reserved_bytes + w->segment_size > s->limit || w->size > TORCH_RANGE_MAX)
		return GP_NOMEM;
	return s->opt.expandable ? torch_expand(a, w, out) : torch_new_segment(a, w, out);
}

void torch_segments_fini(struct gp_allocator *a)
{
	struct torch *s = gp_state(a);

	if (s->n_ranges)
		gp_device_sync(a->dev);
	for (uint32_t n = 1; n < s->b.n; n++) {
		const struct torch_block *b = torch_at(s, n);

		/* The first block of a segment stands for it. */
		if (b->state != TORCH_DEAD && !b->prev && !b->expandable)
			gp_device_release(a->dev, b->addr);
	}
	for (uint32_t i = 0; i < s->n_ranges; i++) {
		struct torch_range *range = &s->ranges[i];

		for (uint64_t p = 0; p < range->va.size / range->page; p++)
			if (range->handles[p])
				torch_unmap_page(a, range, p);
		gp_device_va_release(a->dev, range->va.addr, range->va.size);
		free(range->handles);
	}
	free(s->ranges);
}
