/* SPDX-License-Identifier: Apache-2.0
 *
 * tiling: blocks that tile address ranges: cut, joined, found by address. What a splitting and
 * coalescing allocator keeps in the headers of its blocks, kept in host memory, because the host
 * can't follow links that lie in device memory.
 *
 * Shape       GAP |   hole   | block | block | hole | block | hole |END       prev, next: by address
 *              '-- a tile --'|-tile-'|--- tile ----'|--- tile ----'
 *             A tile is a block and the hole after it, either of which may be nothing; so neither holes
 *             nor their neighbours need looking for: a block that is freed, its hole, and the hole
 *             before it are one hole of the tile before it, which takes no decision. A piece is a run of
 *             tiles without an interval; its first is a GAP, a tile of no block.
 *             Tile 0 is GP_TILE_NIL, dead and of no units, and takes harmless writes. stream, chain,
 *             users and epoch are the owner's. Tiles that can be freed, USED and QUICK ones, are in the
 *             index by their address.
 * Links       an array of its own: GP_LINK_HEADS heads of the owner's lists, and one link for each tile.
 *             A list is a ring that a tile leaves without a branch, be its neighbour a head or a tile.
 * Joins       with `joins`, ranges added at adjoining addresses become one piece; an END tile of no
 *             units, in the index, tells where a piece ends
 * Invariants  tiles of a piece meet; prev and next agree; the index has just what it should
 * Cost        everything O(1) but adding ranges, which is linear in pieces; 40 bytes a block, and what
 *             the index takes for it
 * Threads     one at a time
 */
#ifndef GP_TILING_H
#define GP_TILING_H

#include <stdio.h>

#include "tile_index.h"

#define GP_TILE_LG_UNIT 8 /* sizes count in units of GP_ALIGN: a tile is below 1 TiB */

enum gp_tile_state {
	GP_TILE_DEAD, /* record not in use; next chains them */
	GP_TILE_USED,
	GP_TILE_QUICK, /* free, but not to be joined yet: in quick.h's lists */
	GP_TILE_PART,  /* in use, as part of a block that lies elsewhere */
	GP_TILE_CHUNK, /* in use, as a piece of its own inside this one */
	GP_TILE_GAP,   /* no block, only a hole */
	GP_TILE_END,
	GP_TILE_STATES,
	GP_TILE_SMALL = 8, /* added to USED, QUICK and GAP: the owner's mark */
};

struct gp_link {
	uint32_t prev, next;
};

#define GP_LINK_HEADS 2176

struct gp_tiling {
	struct gp_tile *tiles;
	struct gp_link *links;
	struct gp_tile_index index;
	uint32_t n, cap; /* records used so far, allocated */
	uint32_t left;   /* tiles that there is room for: records and their places in the index */
	uint32_t dead;   /* first unused record */
	uint32_t pieces; /* the first tiles of pieces, chained by `chain` */
	bool joins;
};

int gp_tiling_init(struct gp_tiling *t, bool joins);
void gp_tiling_fini(struct gp_tiling *t);
int gp_tiling_grow(struct gp_tiling *t, uint32_t more);

static inline uint64_t gp_tile_addr(const struct gp_tile *tile)
{
	return gp_tile_unit(tile) << GP_TILE_LG_UNIT;
}

static inline uint64_t gp_tile_bytes(const struct gp_tile *tile)
{
	return (uint64_t)tile->units << GP_TILE_LG_UNIT;
}

static inline uint64_t gp_hole_addr(const struct gp_tile *tile)
{
	return (gp_tile_unit(tile) + tile->units) << GP_TILE_LG_UNIT;
}

static inline uint64_t gp_hole_bytes(const struct gp_tile *tile)
{
	return (uint64_t)tile->hole << GP_TILE_LG_UNIT;
}

/* Without the owner's mark. */
static inline enum gp_tile_state gp_tile_state(const struct gp_tile *tile)
{
	return (enum gp_tile_state)(tile->state & ~(unsigned)GP_TILE_SMALL);
}

static inline uint32_t gp_tile_link(uint32_t n)
{
	return GP_LINK_HEADS + n;
}

/* The tile that has a link, which is no head. */
static inline uint32_t gp_link_tile(uint32_t i)
{
	return i - GP_LINK_HEADS;
}

/* Room for `more` tiles, all of them in the index, so that a change cannot fail half way. */
static inline int gp_tiling_room(struct gp_tiling *t, uint32_t more)
{
	return GP_LIKELY(more <= t->left) ? 0 : gp_tiling_grow(t, more);
}

/* The indexed tile that starts at addr; GP_TILE_NIL: none. */
static inline uint32_t gp_tiling_find(const struct gp_tiling *t, uint64_t addr)
{
	uint32_t n = gp_tile_index_find(&t->index, t->tiles, addr >> GP_TILE_LG_UNIT);

	return GP_LIKELY(!(addr & (GP_ALIGN - 1))) ? n : GP_TILE_NIL;
}

/* A new record, neither linked nor in the index; all fields but its place and state are to be set.
 * Room is there. */
static inline uint32_t gp_tiling_record(struct gp_tiling *t, uint64_t unit, uint32_t units,
					uint8_t state)
{
	uint32_t n = t->dead;
	struct gp_tile *tile;

	if (GP_LIKELY(n))
		t->dead = t->tiles[n].next;
	else
		n = t->n++;
	t->left--;
	tile = &t->tiles[n];
	gp_tile_set_unit(tile, unit);
	tile->units = units;
	tile->state = state;
	return n;
}

static inline void gp_tiling_forget(struct gp_tiling *t, uint32_t n)
{
	t->tiles[n].state = GP_TILE_DEAD;
	t->tiles[n].next = t->dead;
	t->dead = n;
	t->left++;
}

/* A new tile of `units`, `front` units into the hole of tile p, which ends there; what follows is the new
 * tile's hole, of the same users. Not in the index, in no list. Room for one is there. */
static inline uint32_t gp_tiling_cut(struct gp_tiling *t, uint32_t p, uint32_t front,
				     uint32_t units, uint8_t state)
{
	struct gp_tile *before = &t->tiles[p], *tile;
	uint32_t n =
		gp_tiling_record(t, gp_tile_unit(before) + before->units + front, units, state);
	uint32_t next = before->next;

	tile = &t->tiles[n];
	tile->hole = before->hole - front - units;
	tile->users = before->users;
	tile->prev = p;
	tile->next = next;
	t->tiles[next].prev = n;
	before->next = n;
	before->hole = front;
	return n;
}

/* Tile n, in neither list nor index, becomes part of the hole before it, which is another tile's. */
static inline void gp_tiling_join(struct gp_tiling *t, uint32_t n)
{
	const struct gp_tile *tile = &t->tiles[n];
	uint32_t p = tile->prev, next = tile->next;

	t->tiles[p].hole += tile->units + tile->hole;
	t->tiles[p].next = next;
	t->tiles[next].prev = p;
	gp_tiling_forget(t, n);
}

/* What a range adjoins: the last tile of the piece that ends where it starts, and the first of the one
 * that starts where it ends; GP_TILE_NIL: none, as always without joins. */
void gp_tiling_around(const struct gp_tiling *t, struct gp_range range, uint32_t *before,
		      uint32_t *after);
/* Adds a range between what it adjoins, both in no list, whose holes become one with it. Returns the tile
 * that has it. Room for two is there. */
uint32_t gp_tiling_add(struct gp_tiling *t, struct gp_range range, uint32_t before, uint32_t after);
/* The last tile of the piece that ends at addr; GP_TILE_NIL: none does. Joins only. */
uint32_t gp_tiling_last(const struct gp_tiling *t, uint64_t addr);
/* Takes a range out of the hole of tile n, in no list, which keeps what is before it. *right: the GAP, in
 * no ring, that has what is after it, in a piece of its own; may be n; GP_TILE_NIL: there is none. */
void gp_tiling_drop(struct gp_tiling *t, uint32_t n, struct gp_range range, uint32_t *right);

/* Is the hole of tile n all there is of its piece? */
static inline bool gp_tiling_alone(const struct gp_tiling *t, uint32_t n)
{
	uint32_t next = t->tiles[n].next;

	return !t->tiles[n].prev && (!next || t->tiles[next].state == GP_TILE_END);
}
/* Why an address that starts no block in use can't be freed: -EALREADY where free memory holds it,
 * else -EINVAL. Linear, for errors. */
int gp_tiling_refuse(const struct gp_tiling *t, uint64_t addr);
/* One line about a tile of `owner`; -EILSEQ. */
int gp_tiling_complain(const struct gp_tiling *t, uint32_t n, const char *owner, const char *what,
		       FILE *why);
/* 0, or -EILSEQ with a line on `why` that names the owner. */
int gp_tiling_check(const struct gp_tiling *t, const char *owner, FILE *why);

#endif
