/* SPDX-License-Identifier: Apache-2.0
 *
 * tiling: blocks that tile address ranges: cut, joined, found by address. What a splitting and
 * coalescing allocator keeps in the headers of its blocks, kept in host memory, because the host
 * can't follow links that lie in device memory.
 *
 * Shape       | used | free |  used  |     free     |END     prev, next: by address
 *             A piece is a run of tiles without a gap; an END tile of no bytes closes it, so that
 *             `next` is always there. Tile 0 is GP_TILE_NIL and takes harmless writes. fprev, fnext
 *             are the owner's (its free lists). The index finds a tile by its address.
 * Joins       with `joins`, ranges added at adjoining addresses become one piece
 * Invariants  tiles of a piece meet; prev and next agree; the index has each address
 * Cost        everything O(1); 32 bytes a tile, and what the index takes for it
 * Threads     one at a time
 */
#ifndef GP_TILING_H
#define GP_TILING_H

#include <stdio.h>

#include "addr_index.h"

#define GP_TILE_LG_UNIT 8 /* sizes count in units of GP_ALIGN: a tile is below 1 TiB */
#define GP_TILE_NIL     0

enum gp_tile_state {
	GP_TILE_DEAD, /* record not in use; fnext chains them */
	GP_TILE_USED,
	GP_TILE_FREE,
	GP_TILE_QUICK, /* free, but not to be joined yet: in quick.h's lists */
	GP_TILE_END,
};

struct gp_tile {
	uint64_t addr;
	uint32_t units;
	uint16_t stream; /* the owner's: of the last user */
	uint8_t state;
	uint32_t prev, next;
	uint32_t fprev, fnext;
};

_Static_assert(sizeof(struct gp_tile) == 32, "two tiles a cache line");

struct gp_tiling {
	struct gp_tile *tiles;
	struct gp_addr_index index;
	uint32_t n, cap; /* records used so far, allocated */
	uint32_t dead;   /* first unused record */
	bool joins;
};

int gp_tiling_init(struct gp_tiling *t, bool joins);
void gp_tiling_fini(struct gp_tiling *t);
int gp_tiling_grow(struct gp_tiling *t);

static inline uint64_t gp_tile_bytes(const struct gp_tile *tile)
{
	return (uint64_t)tile->units << GP_TILE_LG_UNIT;
}

/* Room for n more tiles, so that cutting cannot fail half way. */
static inline int gp_tiling_room(struct gp_tiling *t, uint32_t n)
{
	if (GP_UNLIKELY(t->n + n > t->cap)) {
		int r = gp_tiling_grow(t);

		if (r)
			return r;
	}
	return gp_addr_index_reserve(&t->index, n);
}

/* The tile that starts at addr, END tiles of joining ranges included; GP_TILE_NIL: none. */
static inline uint32_t gp_tiling_find(const struct gp_tiling *t, uint64_t addr)
{
	uint32_t n = gp_addr_index_find(&t->index, addr >> GP_TILE_LG_UNIT);

	return GP_LIKELY(n != GP_INDEX_NONE && !(addr & (GP_ALIGN - 1))) ? n : GP_TILE_NIL;
}

/* A new record, in the index but not linked. END tiles are only indexed where somebody looks for
 * them: elsewhere another range may start at their address. */
static inline uint32_t gp_tiling_record(struct gp_tiling *t, uint64_t addr, uint64_t units,
					uint16_t stream, enum gp_tile_state state)
{
	uint32_t n = t->dead;

	if (n)
		t->dead = t->tiles[n].fnext;
	else
		n = t->n++;
	t->tiles[n] = (struct gp_tile){
		.addr = addr, .units = (uint32_t)units, .stream = stream, .state = (uint8_t)state
	};
	if (state != GP_TILE_END || t->joins)
		gp_addr_index_add(&t->index, addr >> GP_TILE_LG_UNIT, n);
	return n;
}

static inline void gp_tiling_forget(struct gp_tiling *t, uint32_t n)
{
	struct gp_tile *tile = &t->tiles[n];

	if (tile->state != GP_TILE_END || t->joins)
		gp_addr_index_remove(&t->index, tile->addr >> GP_TILE_LG_UNIT);
	tile->state = GP_TILE_DEAD;
	tile->fnext = t->dead;
	t->dead = n;
}

/* Leaves `units` in tile n; the rest becomes its right neighbour, which is returned, with the same
 * stream and state. Room for one is there. */
static inline uint32_t gp_tiling_cut(struct gp_tiling *t, uint32_t n, uint32_t units)
{
	struct gp_tile *tile = &t->tiles[n];
	uint32_t rest = gp_tiling_record(t, tile->addr + ((uint64_t)units << GP_TILE_LG_UNIT),
					 tile->units - units, tile->stream,
					 (enum gp_tile_state)tile->state);

	t->tiles[rest].prev = n;
	t->tiles[rest].next = tile->next;
	t->tiles[tile->next].prev = rest;
	tile->next = rest;
	tile->units = units;
	return rest;
}

/* Tile n takes in its right neighbour. */
static inline void gp_tiling_swallow(struct gp_tiling *t, uint32_t n)
{
	struct gp_tile *tile = &t->tiles[n];
	uint32_t right = tile->next;

	tile->units += t->tiles[right].units;
	tile->next = t->tiles[right].next;
	t->tiles[tile->next].prev = n;
	gp_tiling_forget(t, right);
}

/* Adds a range as one USED tile, in one piece with what it adjoins. Room for 2 is there. */
uint32_t gp_tiling_add(struct gp_tiling *t, struct gp_range range, uint16_t stream);
/* The last tile before an END at `end`; GP_TILE_NIL when no piece ends there. Joins only. */
uint32_t gp_tiling_last(const struct gp_tiling *t, uint64_t end);
/* Takes a range out of the tile that holds it. What is left of the tile before and after becomes
 * *left and *right (GP_TILE_NIL: nothing), in two pieces. Room for 2 is there. */
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
