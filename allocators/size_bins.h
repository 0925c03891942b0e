/* SPDX-License-Identifier: Apache-2.0
 *
 * size_bins: holes in lists by size class, and the best of them by find-first-set.
 *
 * Shape       two sets of lists:
 *
 *             class  32      33      34   ...    32 classes in each doubling of the size; below 32 none
 *             list   O       O---+   O           rings of links (tiling.h)
 *                            tile            tile         the tile before the hole
 *                            |
 *                            tile
 *
 *             map: which classes have any, one bit each. Find-first-set instead of a walk, after TLSF (Masmano, Ripoll, Crespo, Real: "TLSF: a
 *             new dynamic memory allocator for real-time systems", ECRTS 2004).
 * Invariants  a tile is in the list of its hole's class; map says which have any
 *                                                                 -> gp_size_bins_check()
 * Cost        O(1), but for the best fit. Adding and removing have no branch: whether there is a hole,
 *             whether a list runs empty, or the tile was its first, nobody can predict
 * Threads     one at a time
 */
#ifndef GP_SIZE_BINS_H
#define GP_SIZE_BINS_H

#include "tiling.h"

#define GP_BINS_LG_STEPS 5
#define GP_BINS_WORDS    17 /* of map, for each set */
/* For 1 .. 2^32 - 1 units: classes 32 to 1055 of each set. */
#define GP_BINS_CLASSES (64 * GP_BINS_WORDS)
#define GP_BINS_SETS    2
/* The head that a tile in no list names: leaving that list is harmless. */
#define GP_BINS_NOWHERE 1

_Static_assert(GP_BINS_SETS *GP_BINS_CLASSES <= GP_LINK_HEADS, "a head for each list");

/* Class c of set s is number s * GP_BINS_CLASSES + c, in the map as among the heads. */
struct gp_size_bins {
	uint64_t map[GP_BINS_SETS * GP_BINS_WORDS + 1];
};

static inline unsigned gp_size_bins_class(uint32_t units)
{
	unsigned fl = gp_floor_log2(units | 1);

	/* The step is 2^lg_steps .. 2^(lg_steps + 1) - 1, or 0 for no units. */
	return (fl << GP_BINS_LG_STEPS) + (uint32_t)(((uint64_t)units << GP_BINS_LG_STEPS) >> fl);
}

/* Tile n is in no list. */
static inline void gp_size_bins_none(struct gp_tiling *t, uint32_t n)
{
	t->links[gp_tile_link(n)] = (struct gp_link){ GP_BINS_NOWHERE, GP_BINS_NOWHERE };
}

/* Tile n, in no list, goes where its hole belongs. */
static inline void gp_size_bins_add(struct gp_size_bins *b, unsigned set, struct gp_tiling *t,
				    uint32_t n)
{
	uint32_t c = set * GP_BINS_CLASSES + gp_size_bins_class(t->tiles[n].hole);
	struct gp_link *head = &t->links[c], *link = &t->links[gp_tile_link(n)];

	link->prev = c;
	link->next = head->next;
	t->links[head->next].prev = gp_tile_link(n);
	head->next = gp_tile_link(n);
	b->map[c / 64] |= UINT64_C(1) << (c % 64);
}

/* The same where there may be no hole. No branch: nobody can predict that either. */
static inline void gp_size_bins_put(struct gp_size_bins *b, unsigned set, struct gp_tiling *t,
				    uint32_t n)
{
	uint32_t hole = t->tiles[n].hole, own = gp_tile_link(n), any = hole != 0, next;
	uint32_t c = set * GP_BINS_CLASSES + gp_size_bins_class(hole);

	c = GP_BINS_NOWHERE + ((c - GP_BINS_NOWHERE) & -any);
	next = t->links[c].next;
	t->links[own].prev = c;
	t->links[own].next = next;
	t->links[next].prev = own;
	t->links[c].next = own;
	t->links[GP_BINS_NOWHERE] = (struct gp_link){ GP_BINS_NOWHERE, GP_BINS_NOWHERE };
	b->map[c / 64] |= (uint64_t)any << (c % 64);
}

/* Takes tile n out of its list, if it is in one; what its link says then is void. */
static inline void gp_size_bins_remove(struct gp_size_bins *b, struct gp_tiling *t, uint32_t n)
{
	uint32_t prev = t->links[gp_tile_link(n)].prev, next = t->links[gp_tile_link(n)].next;
	uint32_t only, c;

	t->links[prev].next = next;
	t->links[next].prev = prev;
	/* Both are the head of a class: it was the only one. No branch. */
	only = prev == next;
	c = prev & -only;
	b->map[c / 64] &= ~((uint64_t)only << (c % 64));
}

/* Takes the latest tile of a class, by number, out of its list; the same holds. */
static inline void gp_size_bins_pop(struct gp_size_bins *b, struct gp_tiling *t, uint32_t c)
{
	struct gp_link *head = &t->links[c];
	uint32_t next = t->links[head->next].next;

	head->next = next;
	t->links[next].prev = c;
	b->map[c / 64] &= ~((uint64_t)(next == c) << (c % 64));
}

/* The latest tile of the lowest class of the set from number *c on, which becomes its class; GP_TILE_NIL:
 * none. */
static inline uint32_t gp_size_bins_from(const struct gp_size_bins *b, unsigned set,
					 const struct gp_tiling *t, uint32_t *c)
{
	uint32_t w = *c / 64;
	uint64_t word = b->map[w] & (~UINT64_C(0) << (*c % 64));

	while (!word)
		word = b->map[++w];
	if (GP_UNLIKELY(w == (set + 1) * GP_BINS_WORDS))
		return GP_TILE_NIL;
	*c = w * 64 + gp_lowest_bit(word);
	return gp_link_tile(t->links[*c].next);
}

/* The latest tile of the own class if its hole is large enough, else the latest of the next class that
 * has any: all there are. *c becomes its class. GP_TILE_NIL: none. */
static inline uint32_t gp_size_bins_find(const struct gp_size_bins *b, unsigned set,
					 const struct gp_tiling *t, uint32_t units, uint32_t *c)
{
	uint32_t n;

	*c = set * GP_BINS_CLASSES + gp_size_bins_class(units);
	n = gp_size_bins_from(b, set, t, c);
	if (GP_LIKELY(t->tiles[n].hole >= units))
		return n;
	++*c;
	return gp_size_bins_from(b, set, t, c);
}

/* The tile after n in the list of its class; GP_TILE_NIL: n is the last. */
static inline uint32_t gp_size_bins_next(const struct gp_tiling *t, uint32_t n)
{
	uint32_t next = t->links[gp_tile_link(n)].next;

	return next < GP_LINK_HEADS ? GP_TILE_NIL : gp_link_tile(next);
}

void gp_size_bins_init(struct gp_size_bins *b);
/* The latest tile of exactly the class, by number; GP_TILE_NIL: none. */
uint32_t gp_size_bins_latest(const struct gp_tiling *t, uint32_t c);
/* The first tile of the lowest class all of which is large enough. */
uint32_t gp_size_bins_find_class(const struct gp_size_bins *b, unsigned set,
				 const struct gp_tiling *t, uint32_t units);
/* The smallest hole that is large enough, the latest of equals. Linear in two classes. */
uint32_t gp_size_bins_find_best(const struct gp_size_bins *b, unsigned set,
				const struct gp_tiling *t, uint32_t units);
/* 0, or -EILSEQ with a line on `why` that names the owner. The tiles of set 0 must not have the mark
 * GP_TILE_SMALL, those of set 1 must. Adds their holes to *units. */
int gp_size_bins_check(const struct gp_size_bins *b, const struct gp_tiling *t, const char *owner,
		       uint64_t *units, FILE *why);

#endif
