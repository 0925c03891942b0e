/* SPDX-License-Identifier: Apache-2.0
 *
 * tiling: ranges that come and go, and the audit; cutting and joining is inline in the header.
 */
#include "tiling.h"

#include <errno.h>
#include <stdlib.h>

#define TILING_FIRST 256

int gp_tiling_init(struct gp_tiling *t, bool joins)
{
	int r;

	*t = (struct gp_tiling){ .n = 1, .joins = joins };
	r = gp_addr_index_init(&t->index);
	if (!r)
		r = gp_tiling_grow(t);
	if (!r)
		t->tiles[GP_TILE_NIL] = (struct gp_tile){ .state = GP_TILE_DEAD };
	else
		gp_tiling_fini(t);
	return r;
}

void gp_tiling_fini(struct gp_tiling *t)
{
	gp_addr_index_fini(&t->index);
	free(t->tiles);
	*t = (struct gp_tiling){ 0 };
}

int gp_tiling_grow(struct gp_tiling *t)
{
	uint32_t cap = t->cap ? 2 * t->cap : TILING_FIRST;
	struct gp_tile *tiles;

	if (cap > GP_INDEX_VALUE_MAX + 1)
		return -ENOSPC;
	tiles = realloc(t->tiles, cap * sizeof(*tiles));
	if (!tiles)
		return -ENOMEM;
	t->tiles = tiles;
	t->cap = cap;
	return 0;
}

uint32_t gp_tiling_last(const struct gp_tiling *t, uint64_t end)
{
	uint32_t closing = gp_tiling_find(t, end);

	return t->tiles[closing].state == GP_TILE_END ? t->tiles[closing].prev : GP_TILE_NIL;
}

uint32_t gp_tiling_add(struct gp_tiling *t, struct gp_range range, uint16_t stream)
{
	uint64_t end = range.addr + range.size;
	uint32_t before = GP_TILE_NIL, after = GP_TILE_NIL, n;

	if (t->joins) {
		before = gp_tiling_last(t, range.addr);
		after = gp_tiling_find(t, end);
		if (before)
			gp_tiling_forget(t, t->tiles[before].next);
	}
	n = gp_tiling_record(t, range.addr, range.size >> GP_TILE_LG_UNIT, stream, GP_TILE_USED);
	if (!after)
		after = gp_tiling_record(t, end, 0, 0, GP_TILE_END);
	t->tiles[n].prev = before;
	t->tiles[n].next = after;
	t->tiles[after].prev = n;
	if (before)
		t->tiles[before].next = n;
	return n;
}

/* The piece that ends with `last` gets its END at addr. */
static void tiling_close(struct gp_tiling *t, uint32_t last, uint64_t addr)
{
	uint32_t closing = gp_tiling_record(t, addr, 0, 0, GP_TILE_END);

	t->tiles[closing].prev = last;
	t->tiles[last].next = closing;
}

void gp_tiling_drop(struct gp_tiling *t, uint32_t n, struct gp_range range, uint32_t *left,
		    uint32_t *right)
{
	struct gp_tile tile = t->tiles[n];
	uint64_t end = range.addr + range.size, head = range.addr - tile.addr;
	uint64_t tail = tile.addr + gp_tile_bytes(&tile) - end;
	uint32_t before = tile.prev;

	*left = *right = GP_TILE_NIL;
	if (head) {
		t->tiles[n].units = (uint32_t)(head >> GP_TILE_LG_UNIT);
		*left = before = n;
	} else {
		gp_tiling_forget(t, n);
	}
	if (tail) {
		*right = gp_tiling_record(t, end, tail >> GP_TILE_LG_UNIT, tile.stream,
					  (enum gp_tile_state)tile.state);
		t->tiles[*right].next = tile.next;
		t->tiles[tile.next].prev = *right;
	} else if (t->tiles[tile.next].state == GP_TILE_END) {
		gp_tiling_forget(t, tile.next);
	} else {
		t->tiles[tile.next].prev = GP_TILE_NIL;
	}
	if (before)
		tiling_close(t, before, range.addr);
}

static const char *tiling_fault(const struct gp_tiling *t, uint32_t n)
{
	const struct gp_tile *tile = &t->tiles[n], *next = &t->tiles[tile->next];

	if (tile->state == GP_TILE_END)
		return t->tiles[tile->prev].next == n ? NULL : "closes nothing";
	if (gp_tiling_find(t, tile->addr) != n)
		return "is not in the index";
	if (!tile->units)
		return "is empty";
	if (next->prev != n || next->addr != tile->addr + gp_tile_bytes(tile))
		return "does not meet its right neighbour";
	if (tile->prev && t->tiles[tile->prev].next != n)
		return "does not meet its left neighbour";
	return NULL;
}

int gp_tiling_refuse(const struct gp_tiling *t, uint64_t addr)
{
	for (uint32_t n = 1; n < t->n; n++) {
		const struct gp_tile *tile = &t->tiles[n];

		if ((tile->state == GP_TILE_FREE || tile->state == GP_TILE_QUICK) &&
		    addr - tile->addr < gp_tile_bytes(tile))
			return -EALREADY;
	}
	return -EINVAL;
}

int gp_tiling_complain(const struct gp_tiling *t, uint32_t n, const char *owner, const char *what,
		       FILE *why)
{
	fprintf(why, "%s: block %#llx of %llu bytes %s\n", owner,
		(unsigned long long)t->tiles[n].addr,
		(unsigned long long)gp_tile_bytes(&t->tiles[n]), what);
	return -EILSEQ;
}

int gp_tiling_check(const struct gp_tiling *t, const char *owner, FILE *why)
{
	for (uint32_t n = 1; n < t->n; n++) {
		const char *fault = t->tiles[n].state == GP_TILE_DEAD ? NULL : tiling_fault(t, n);

		if (fault)
			return gp_tiling_complain(t, n, owner, fault, why);
	}
	return 0;
}
