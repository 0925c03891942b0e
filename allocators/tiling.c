/* SPDX-License-Identifier: Apache-2.0
 *
 * tiling: pieces that come, grow and go, and the audit; cutting and joining is inline in the header.
 */
#include "tiling.h"

#include <errno.h>
#include <stdlib.h>

#define TILING_FIRST 256
/* No address has it: the NIL tile must never be found. */
#define TILING_NOWHERE ((UINT64_C(1) << 40) - 1)

static int tiling_grow_tiles(struct gp_tiling *t)
{
	uint32_t cap = t->cap ? 2 * t->cap : TILING_FIRST;
	struct gp_tile *tiles;
	struct gp_link *links;

	if (cap > GP_TILE_NUMBER_MAX + 1)
		cap = GP_TILE_NUMBER_MAX + 1;
	if (t->cap == cap)
		return -ENOSPC;
	tiles = realloc(t->tiles, cap * sizeof(*tiles));
	if (!tiles)
		return -ENOMEM;
	t->tiles = tiles;
	links = realloc(t->links, (GP_LINK_HEADS + (size_t)cap) * sizeof(*links));
	if (!links)
		return -ENOMEM;
	t->links = links;
	t->cap = cap;
	return 0;
}

/* Every tile may be in the index, so it grows with their number. */
int gp_tiling_grow(struct gp_tiling *t, uint32_t more)
{
	uint32_t most = (uint32_t)gp_min_u64(t->cap - 1, t->index.room), in_use = most - t->left;
	int r = 0;

	while (!r && in_use + more > t->cap - 1)
		r = tiling_grow_tiles(t);
	if (!r && in_use + more > t->index.room)
		r = gp_tile_index_grow(&t->index, t->tiles, in_use + more);
	t->left = (uint32_t)gp_min_u64(t->cap - 1, t->index.room) - in_use;
	return r;
}

int gp_tiling_init(struct gp_tiling *t, bool joins)
{
	int r;

	*t = (struct gp_tiling){ .n = 1, .joins = joins };
	r = gp_tile_index_init(&t->index);
	if (!r)
		r = tiling_grow_tiles(t);
	if (r) {
		gp_tiling_fini(t);
		return r;
	}
	t->tiles[GP_TILE_NIL] = (struct gp_tile){ 0 };
	gp_tile_set_unit(&t->tiles[GP_TILE_NIL], TILING_NOWHERE);
	for (uint32_t i = 0; i <= gp_tile_link(GP_TILE_NIL); i++)
		t->links[i] = (struct gp_link){ i, i };
	t->left = (uint32_t)gp_min_u64(t->cap - 1, t->index.room);
	return 0;
}

void gp_tiling_fini(struct gp_tiling *t)
{
	gp_tile_index_fini(&t->index);
	free(t->tiles);
	free(t->links);
	*t = (struct gp_tiling){ 0 };
}

/* ---- pieces ---- */

uint32_t gp_tiling_last(const struct gp_tiling *t, uint64_t addr)
{
	uint32_t end = gp_tiling_find(t, addr);

	return t->tiles[end].state == GP_TILE_END ? t->tiles[end].prev : GP_TILE_NIL;
}

void gp_tiling_around(const struct gp_tiling *t, struct gp_range range, uint32_t *before,
		      uint32_t *after)
{
	*before = *after = GP_TILE_NIL;
	if (!t->joins)
		return;
	*before = gp_tiling_last(t, range.addr);
	*after = t->pieces;
	while (*after && gp_tile_addr(&t->tiles[*after]) != range.addr + range.size)
		*after = t->tiles[*after].chain;
}

/* The piece whose last tile is n ends there. */
static void tiling_close(struct gp_tiling *t, uint32_t n)
{
	const struct gp_tile *last = &t->tiles[n];
	uint32_t end;

	t->tiles[n].next = GP_TILE_NIL;
	if (!t->joins)
		return;
	end = gp_tiling_record(t, gp_tile_unit(last) + last->units + last->hole, 0, GP_TILE_END);
	t->tiles[end].hole = 0;
	t->tiles[end].prev = n;
	t->tiles[end].next = GP_TILE_NIL;
	t->tiles[n].next = end;
	gp_tile_index_add(&t->index, gp_tile_unit(&t->tiles[end]), end);
}

/* What follows tile n, the last of a piece, is gone. */
static void tiling_unclose(struct gp_tiling *t, uint32_t n)
{
	uint32_t end = t->tiles[n].next, slot;

	if (end && gp_tile_index_probe(&t->index, t->tiles, gp_tile_unit(&t->tiles[end]), &slot)) {
		gp_tile_index_remove(&t->index, t->tiles, slot);
		gp_tiling_forget(t, end);
	}
	t->tiles[n].next = GP_TILE_NIL;
}

static uint32_t tiling_gap(struct gp_tiling *t, uint64_t unit, uint32_t hole)
{
	uint32_t n = gp_tiling_record(t, unit, 0, GP_TILE_GAP);
	struct gp_tile *gap = &t->tiles[n];

	gap->stream = 0;
	gap->users = (struct gp_stream_users){ 0, 0 };
	gap->hole = hole;
	gap->prev = gap->next = GP_TILE_NIL;
	gap->chain = t->pieces;
	t->pieces = n;
	return n;
}

static void tiling_unchain(struct gp_tiling *t, uint32_t first)
{
	uint32_t *link = &t->pieces;

	while (*link != first)
		link = &t->tiles[*link].chain;
	*link = t->tiles[first].chain;
}

uint32_t gp_tiling_add(struct gp_tiling *t, struct gp_range range, uint32_t before, uint32_t after)
{
	uint64_t unit = range.addr >> GP_TILE_LG_UNIT;
	uint32_t units = (uint32_t)(range.size >> GP_TILE_LG_UNIT), n = before;

	if (before) {
		tiling_unclose(t, before);
		t->tiles[before].hole += units;
	} else if (after) {
		gp_tile_set_unit(&t->tiles[after], unit);
		t->tiles[after].hole += units;
		return after;
	} else {
		n = tiling_gap(t, unit, units);
	}
	if (!after) {
		tiling_close(t, n);
		return n;
	}
	tiling_unchain(t, after);
	t->tiles[n].next = after;
	t->tiles[after].prev = n;
	gp_tiling_join(t, after);
	return n;
}

/* Is tile n the last of its piece? */
static bool tiling_is_last(const struct gp_tiling *t, uint32_t n)
{
	uint32_t next = t->tiles[n].next;

	return !next || t->tiles[next].state == GP_TILE_END;
}

void gp_tiling_drop(struct gp_tiling *t, uint32_t n, struct gp_range range, uint32_t *right)
{
	struct gp_tile *tile = &t->tiles[n];
	uint64_t end = (range.addr + range.size) >> GP_TILE_LG_UNIT;
	uint32_t front = (uint32_t)((range.addr - gp_hole_addr(tile)) >> GP_TILE_LG_UNIT);
	uint32_t rest = tile->hole - front - (uint32_t)(range.size >> GP_TILE_LG_UNIT);
	bool last = tiling_is_last(t, n);
	uint32_t next = tile->next;

	*right = GP_TILE_NIL;
	if (!front && !tile->prev) {
		/* The piece begins later, or is no more. */
		if (rest || !last) {
			tile->hole = rest;
			gp_tile_set_unit(tile, end);
			*right = n;
			return;
		}
		tiling_unclose(t, n);
		tiling_unchain(t, n);
		gp_tiling_forget(t, n);
		return;
	}
	tile->hole = front;
	if (!rest && last) {
		tiling_unclose(t, n);
		tiling_close(t, n);
		return;
	}
	*right = tiling_gap(t, end, rest);
	t->tiles[*right].users = tile->users;
	t->tiles[*right].next = next;
	t->tiles[next].prev = *right;
	tiling_close(t, n);
}

/* ---- the audit ---- */

static const char *tiling_fault(const struct gp_tiling *t, uint32_t n)
{
	const struct gp_tile *tile = &t->tiles[n], *next = &t->tiles[tile->next];
	enum gp_tile_state state = gp_tile_state(tile);
	bool indexed = state == GP_TILE_USED || state == GP_TILE_QUICK || state == GP_TILE_END;
	bool found = gp_tile_index_find(&t->index, t->tiles, gp_tile_unit(tile)) == n;

	if (found != indexed)
		return indexed ? "is not in the index" : "is in the index";
	if (tile->prev && t->tiles[tile->prev].next != n)
		return "does not meet its left neighbour";
	if (state == GP_TILE_END)
		return tile->prev ? NULL : "closes nothing";
	if (!tile->units != (state == GP_TILE_GAP))
		return "has a size that its state has not";
	if (!tile->next)
		return t->joins && !(tile->state & GP_TILE_SMALL) ? "is followed by nothing" : NULL;
	if (next->prev != n || gp_tile_unit(next) != gp_tile_unit(tile) + tile->units + tile->hole)
		return "does not meet its right neighbour";
	return NULL;
}

int gp_tiling_refuse(const struct gp_tiling *t, uint64_t addr)
{
	for (uint32_t n = 1; n < t->n; n++) {
		const struct gp_tile *tile = &t->tiles[n];

		if (tile->state == GP_TILE_DEAD)
			continue;
		if (addr - gp_hole_addr(tile) < gp_hole_bytes(tile) ||
		    (gp_tile_state(tile) == GP_TILE_QUICK &&
		     addr - gp_tile_addr(tile) < gp_tile_bytes(tile)))
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
	for (uint32_t n = 1; n < t->n; n++) {
		const char *fault = t->tiles[n].state == GP_TILE_DEAD ? NULL : tiling_fault(t, n);

		if (fault)
			return gp_tiling_complain(t, n, owner, fault, why);
	}
	return 0;
}
