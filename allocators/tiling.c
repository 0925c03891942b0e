/* SPDX-License-Identifier: Apache-2.0
 *
 * tiling: ranges that come and go, and the audit; cutting and joining is inline in the header.
 */
#include "tiling.h"

#include <errno.h>
#include <stdlib.h>

#define TILING_FIRST 256
/* No address has it: the NIL tile must never be found. */
#define TILING_NOWHERE ((UINT64_C(1) << 40) - 1)

int gp_tiling_init(struct gp_tiling *t, bool joins, uint32_t n_heads)
{
	uint32_t first = 1 + (n_heads + 3) / 4;
	int r;

	*t = (struct gp_tiling){ .n = first, .first = first, .joins = joins };
	r = gp_tile_index_init(&t->index);
	if (!r)
		r = gp_tiling_grow(t, 1);
	if (r) {
		gp_tiling_fini(t);
		return r;
	}
	t->tiles[GP_TILE_NIL] = (struct gp_tile){ 0 };
	gp_tile_set_unit(&t->tiles[GP_TILE_NIL], TILING_NOWHERE);
	for (uint32_t i = gp_tile_link(GP_TILE_NIL); i < 4 * first; i++)
		*gp_tiling_link(t, i) = (struct gp_link){ i, i };
	t->tiles[GP_TILE_NIL].prev = t->tiles[GP_TILE_NIL].next = GP_TILE_NIL;
	return 0;
}

void gp_tiling_fini(struct gp_tiling *t)
{
	gp_tile_index_fini(&t->index);
	free(t->tiles);
	*t = (struct gp_tiling){ 0 };
}

static int tiling_grow_tiles(struct gp_tiling *t)
{
	uint32_t cap = t->cap ? 2 * t->cap : t->n + TILING_FIRST;
	struct gp_tile *tiles;

	if (cap > GP_TILE_NUMBER_MAX + 1)
		cap = GP_TILE_NUMBER_MAX + 1;
	if (t->n == cap)
		return -ENOSPC;
	tiles = realloc(t->tiles, cap * sizeof(*tiles));
	if (!tiles)
		return -ENOMEM;
	t->tiles = tiles;
	t->cap = cap;
	return 0;
}

int gp_tiling_grow(struct gp_tiling *t, uint32_t more)
{
	int r = 0;

	if (t->n + more > t->cap)
		r = tiling_grow_tiles(t);
	if (!r && t->index.n + more > t->index.room)
		r = gp_tile_index_grow(&t->index, t->tiles, more);
	return r;
}

uint32_t gp_tiling_last(const struct gp_tiling *t, uint64_t end)
{
	uint32_t closing = gp_tiling_find(t, end);

	return t->tiles[closing].state == GP_TILE_END ? t->tiles[closing].prev : GP_TILE_NIL;
}

/* The piece that ends with `last` gets its END at addr. */
static uint32_t tiling_close(struct gp_tiling *t, uint32_t last, uint64_t addr)
{
	uint32_t n = gp_tiling_record(t, addr >> GP_TILE_LG_UNIT, 0, GP_TILE_END);

	t->tiles[n].prev = last;
	t->tiles[n].next = GP_TILE_NIL;
	t->tiles[last].next = n;
	if (t->joins)
		gp_tile_index_add(&t->index, t->tiles, n);
	return n;
}

static void tiling_open(struct gp_tiling *t, uint32_t closing)
{
	uint32_t slot;

	if (t->joins &&
	    gp_tile_index_probe(&t->index, t->tiles, gp_tile_unit(&t->tiles[closing]), &slot))
		gp_tile_index_remove(&t->index, t->tiles, slot);
	gp_tiling_forget(t, closing);
}

/* The first tile of a piece that starts at addr; linear, as growth is rare and the tile may be a
 * free one, which is not in the index. */
static uint32_t tiling_first(const struct gp_tiling *t, uint64_t addr)
{
	for (uint32_t n = t->first; n < t->n; n++)
		if (gp_tile_addr(&t->tiles[n]) == addr && !t->tiles[n].prev &&
		    t->tiles[n].state != GP_TILE_DEAD)
			return n;
	return GP_TILE_NIL;
}

uint32_t gp_tiling_add(struct gp_tiling *t, struct gp_range range)
{
	uint64_t end = range.addr + range.size;
	uint32_t before = GP_TILE_NIL, after = GP_TILE_NIL, n;

	if (t->joins) {
		before = gp_tiling_last(t, range.addr);
		after = tiling_first(t, end);
		if (before)
			tiling_open(t, t->tiles[before].next);
	}
	n = gp_tiling_record(t, range.addr >> GP_TILE_LG_UNIT, range.size >> GP_TILE_LG_UNIT,
			     GP_TILE_USED);
	t->tiles[n].streams = 0;
	t->tiles[n].epoch = 0;
	t->tiles[n].prev = before;
	t->tiles[n].next = after;
	if (after)
		t->tiles[after].prev = n;
	else
		tiling_close(t, n, end);
	if (before)
		t->tiles[before].next = n;
	return n;
}

void gp_tiling_drop(struct gp_tiling *t, uint32_t n, struct gp_range range, uint32_t *left,
		    uint32_t *right)
{
	struct gp_tile tile = t->tiles[n];
	uint64_t end = range.addr + range.size, head = range.addr - gp_tile_addr(&tile);
	uint64_t tail = gp_tile_addr(&tile) + gp_tile_bytes(&tile) - end;
	uint32_t before = tile.prev;

	*left = *right = GP_TILE_NIL;
	if (head) {
		t->tiles[n].units = (uint32_t)(head >> GP_TILE_LG_UNIT);
		*left = before = n;
	} else {
		gp_tiling_forget(t, n);
	}
	if (tail) {
		*right = gp_tiling_record(t, end >> GP_TILE_LG_UNIT, tail >> GP_TILE_LG_UNIT,
					  tile.state);
		t->tiles[*right].streams = tile.streams;
		t->tiles[*right].epoch = tile.epoch;
		t->tiles[*right].prev = GP_TILE_NIL;
		t->tiles[*right].next = tile.next;
		t->tiles[tile.next].prev = *right;
	} else if (t->tiles[tile.next].state == GP_TILE_END) {
		tiling_open(t, tile.next);
	} else {
		t->tiles[tile.next].prev = GP_TILE_NIL;
	}
	if (before)
		tiling_close(t, before, range.addr);
}

static const char *tiling_fault(const struct gp_tiling *t, uint32_t n)
{
	const struct gp_tile *tile = &t->tiles[n], *next = &t->tiles[tile->next];
	enum gp_tile_state state = gp_tile_state(tile);
	bool indexed = state == GP_TILE_USED || state == GP_TILE_QUICK ||
		       (state == GP_TILE_END && t->joins);
	bool found = gp_tile_index_find(&t->index, t->tiles, gp_tile_unit(tile)) == n;

	if (found != indexed)
		return indexed ? "is not in the index" : "is in the index";
	if (state == GP_TILE_END)
		return t->tiles[tile->prev].next == n ? NULL : "closes nothing";
	if (!tile->units)
		return "is empty";
	if (next->prev != n || gp_tile_unit(next) != gp_tile_unit(tile) + tile->units)
		return "does not meet its right neighbour";
	if (tile->prev && t->tiles[tile->prev].next != n)
		return "does not meet its left neighbour";
	return NULL;
}

int gp_tiling_refuse(const struct gp_tiling *t, uint64_t addr)
{
	for (uint32_t n = t->first; n < t->n; n++) {
		const struct gp_tile *tile = &t->tiles[n];
		enum gp_tile_state state = gp_tile_state(tile);

		if ((state == GP_TILE_FREE || state == GP_TILE_QUICK) &&
		    addr - gp_tile_addr(tile) < gp_tile_bytes(tile))
			return -EALREADY;
	}
	return -EINVAL;
}

int gp_tiling_complain(const struct gp_tiling *t, uint32_t n, const char *owner, const char *what,
		       FILE *why)
{
	fprintf(why, "%s: block %#llx of %llu bytes %s\n", owner,
		(unsigned long long)gp_tile_addr(&t->tiles[n]),
		(unsigned long long)gp_tile_bytes(&t->tiles[n]), what);
	return -EILSEQ;
}

int gp_tiling_check(const struct gp_tiling *t, const char *owner, FILE *why)
{
	for (uint32_t n = t->first; n < t->n; n++) {
		const char *fault = t->tiles[n].state == GP_TILE_DEAD ? NULL : tiling_fault(t, n);

		if (fault)
			return gp_tiling_complain(t, n, owner, fault, why);
	}
	return 0;
}
