/* SPDX-License-Identifier: Apache-2.0
 *
 * tiling: blocks that tile address ranges: cut, joined, found by address. What a splitting and
 * coalescing allocator keeps in the headers of its blocks, kept in host memory, because the host
 * can't follow links that lie in device memory.
 *
 * Shape       | used | free |  used  |     free     |END     prev, next: by address
 *             A piece is a run of tiles without a gap; an END tile of no bytes closes it, so that
 *             `next` is always there. Tile 0 is GP_TILE_NIL, dead and of no units, and takes harmless
 *             writes. link, streams and epoch are the owner's. Tiles that can be freed, USED and QUICK ones, are
 *             in the index by their address; free ones are found through their neighbours.
 * Links       the table is also an array of links of 8 bytes, of which tile n has number 4n + 2; the
 *             first tiles give room for the heads of the owner's lists. So a list is a ring that a
 *             tile leaves without a branch, be its neighbour a head or a tile.
 * Joins       with `joins`, ranges added at adjoining addresses become one piece, and END tiles are
 *             in the index
 * Invariants  tiles of a piece meet; prev and next agree; the index has just what it should
 * Cost        everything O(1); 32 bytes a tile, and what the index takes for it
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
	GP_TILE_FREE,
	GP_TILE_QUICK, /* free, but not to be joined yet: in quick.h's lists */
	GP_TILE_PART,  /* in use, as part of a block that lies elsewhere */
	GP_TILE_END,
	GP_TILE_STATES,
	GP_TILE_SMALL = 8, /* added to USED, FREE and QUICK: the owner's mark */
};

/* Links for the owner begin where the NIL tile ends. */
#define GP_LINK_FIRST 4

struct gp_tiling {
	struct gp_tile *tiles;
	struct gp_tile_index index;
	uint32_t first;  /* number of the first tile; what is before it, links have */
	uint32_t n, cap; /* records used so far, allocated */
	uint32_t dead;   /* first unused record */
	bool joins;
};

/* n_heads: links for the owner, numbered from GP_LINK_FIRST on, each a ring of its own. */
int gp_tiling_init(struct gp_tiling *t, bool joins, uint32_t n_heads);
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

/* Without the owner's mark. */
static inline enum gp_tile_state gp_tile_state(const struct gp_tile *tile)
{
	return (enum gp_tile_state)(tile->state & ~(unsigned)GP_TILE_SMALL);
}

static inline struct gp_link *gp_tiling_link(const struct gp_tiling *t, uint32_t i)
{
	return (struct gp_link *)(void *)t->tiles + i;
}

static inline uint32_t gp_tile_link(uint32_t n)
{
	return 4 * n + 2;
}

/* The tile that has a link. */
static inline uint32_t gp_link_tile(uint32_t i)
{
	return i / 4;
}

/* Room for `more` tiles, all of them in the index, so that a change cannot fail half way. */
static inline int gp_tiling_room(struct gp_tiling *t, uint32_t more)
{
	return GP_LIKELY(t->n + more <= t->cap && t->index.n + more <= t->index.room)
		       ? 0
		       : gp_tiling_grow(t, more);
}

/* The indexed tile that starts at addr; GP_TILE_NIL: none. */
static inline uint32_t gp_tiling_find(const struct gp_tiling *t, uint64_t addr)
{
	uint32_t n = gp_tile_index_find(&t->index, t->tiles, addr >> GP_TILE_LG_UNIT);

	return GP_LIKELY(!(addr & (GP_ALIGN - 1))) ? n : GP_TILE_NIL;
}

/* A new record, neither linked nor in the index; all fields but its place and state are to be set.
 * Room is there. */
static inline uint32_t gp_tiling_record(struct gp_tiling *t, uint64_t unit, uint64_t units,
					uint8_t state)
{
	uint32_t n = t->dead;
	struct gp_tile *tile;

	if (GP_LIKELY(n))
		t->dead = t->tiles[n].next;
	else
		n = t->n++;
	tile = &t->tiles[n];
	gp_tile_set_unit(tile, unit);
	tile->units = (uint32_t)units;
	tile->state = state;
	return n;
}

static inline void gp_tiling_forget(struct gp_tiling *t, uint32_t n)
{
	t->tiles[n].state = GP_TILE_DEAD;
	t->tiles[n].next = t->dead;
	t->dead = n;
}

/* Leaves `units` in tile n; the rest becomes its right neighbour, which is returned, of the same
 * state, streams and epoch, not in the index. Room for one is there. */
static inline uint32_t gp_tiling_cut(struct gp_tiling *t, uint32_t n, uint32_t units)
{
	struct gp_tile *tile = &t->tiles[n], *rest;
	uint32_t m =
		gp_tiling_record(t, gp_tile_unit(tile) + units, tile->units - units, tile->state);
	uint32_t next = tile->next;

	rest = &t->tiles[m];
	rest->streams = tile->streams;
	rest->epoch = tile->epoch;
	rest->prev = n;
	rest->next = next;
	t->tiles[next].prev = m;
	tile->next = m;
	tile->units = units;
	return m;
}

/* Tile n takes in its right neighbour, which is not in the index. */
static inline void gp_tiling_swallow(struct gp_tiling *t, uint32_t n)
{
	struct gp_tile *tile = &t->tiles[n];
	uint32_t right = tile->next, next = t->tiles[right].next;

	tile->units += t->tiles[right].units;
	tile->next = next;
	t->tiles[next].prev = n;
	gp_tiling_forget(t, right);
}

/* Adds a range as one USED tile, not in the index, in one piece with what it adjoins. Room for 2 is
 * there. */
uint32_t gp_tiling_add(struct gp_tiling *t, struct gp_range range);
/* The last tile before an END at `end`; GP_TILE_NIL when no piece ends there. Joins only. */
uint32_t gp_tiling_last(const struct gp_tiling *t, uint64_t end);
/* Takes a range out of the free tile that holds it. What is left of the tile before and after
 * becomes *left and *right (GP_TILE_NIL: nothing), in two pieces. Room for 2 is there. */
void gp_tiling_drop(struct gp_tiling *t, uint32_t n, struct gp_range range, uint32_t *left,
		    uint32_t *right);
/* Is this tile all there is of its piece? */
static inline bool gp_tiling_alone(const struct gp_tiling *t, uint32_t n)
{
	return !t->tiles[n].prev && t->tiles[t->tiles[n].next].state == GP_TILE_END;
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
