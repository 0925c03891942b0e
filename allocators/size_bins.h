/* SPDX-License-Identifier: Apache-2.0
 *
 * size_bins: free tiles in lists by size class, and the best of them by find-first-set.
 *
 * Shape       class  32      33      34   ...    32 classes in each doubling of the size; below 32 none
 *             list   O       O---+   O           rings of links (tiling.h), the head in the table
 *                            tile            tile
 *                            |
 *                            tile
 *
 *             map: which classes have any, one bit each; top: which words of map may not be 0. Two
 *             find-first-set instead of a walk, after TLSF (Masmano, Ripoll, Crespo, Real: "TLSF: a
 *             new dynamic memory allocator for real-time systems", ECRTS 2004).
 * Invariants  a tile is in the list of its class; map says which have any
 *                                                                 -> gp_size_bins_check()
 * Cost        O(1), but for the best fit. Adding and removing have no branch: whether a list runs
 *             empty, or the tile was its first, nobody can predict. GP_TILE_NIL may be removed, which
 *             does nothing
 * Threads     one at a time
 */
#ifndef GP_SIZE_BINS_H
#define GP_SIZE_BINS_H

#include "tiling.h"

#define GP_BINS_LG_STEPS 5
#define GP_BINS_WORDS    17
/* For 1 .. 2^32 - 1 units; class 0 is that of the NIL tile. */
#define GP_BINS_CLASSES (33u << GP_BINS_LG_STEPS)

struct gp_size_bins {
	uint64_t top;
	uint32_t heads; /* number of the first link */
	uint64_t map[GP_BINS_WORDS];
};

static inline unsigned gp_size_bins_class(uint32_t units)
{
	unsigned fl = gp_floor_log2(units | 1);

	/* The step is 2^lg_steps .. 2^(lg_steps + 1) - 1, or 0 for no units. */
	return (fl << GP_BINS_LG_STEPS) + (uint32_t)(((uint64_t)units << GP_BINS_LG_STEPS) >> fl);
}

static inline void gp_size_bins_add(struct gp_size_bins *b, struct gp_tiling *t, uint32_t n)
{
	unsigned c = gp_size_bins_class(t->tiles[n].units);
	struct gp_link *head = gp_tiling_link(t, b->heads + c), *link = &t->tiles[n].link;

	link->prev = b->heads + c;
	link->next = head->next;
	gp_tiling_link(t, head->next)->prev = gp_tile_link(n);
	head->next = gp_tile_link(n);
	b->map[c / 64] |= UINT64_C(1) << (c % 64);
	b->top |= UINT64_C(1) << (c / 64);
}

static inline void gp_size_bins_remove(struct gp_size_bins *b, struct gp_tiling *t, uint32_t n)
{
	uint32_t prev = t->tiles[n].link.prev, next = t->tiles[n].link.next, only, c;

	gp_tiling_link(t, prev)->next = next;
	gp_tiling_link(t, next)->prev = prev;
	/* Both are the head of a class: it was the only one. No branch. */
	only = prev == next;
	c = (prev - b->heads) & -only;
	b->map[c / 64] &= ~((uint64_t)only << (c % 64));
}

/* Removes the latest tile of a class. */
static inline void gp_size_bins_pop(struct gp_size_bins *b, struct gp_tiling *t, unsigned c)
{
	struct gp_link *head = gp_tiling_link(t, b->heads + c);
	uint32_t next = gp_tiling_link(t, head->next)->next;

	head->next = next;
	gp_tiling_link(t, next)->prev = b->heads + c;
	b->map[c / 64] &= ~((uint64_t)(next == b->heads + c) << (c % 64));
}

/* The latest tile of the lowest class from *c on, which becomes its class; GP_TILE_NIL: none. */
static inline uint32_t gp_size_bins_from(struct gp_size_bins *b, const struct gp_tiling *t,
					 unsigned *c)
{
	unsigned w = *c / 64;
	uint64_t word = b->map[w] & (~UINT64_C(0) << (*c % 64));

	while (!word) {
		uint64_t above = b->top & (~UINT64_C(1) << w);

		if (!above)
			return GP_TILE_NIL;
		w = gp_lowest_bit(above);
		word = b->map[w];
		b->top ^= (uint64_t)!word << w;
	}
	*c = w * 64 + gp_lowest_bit(word);
	return gp_link_tile(gp_tiling_link(t, b->heads + *c)->next);
}

/* The latest tile of the own class if it is large enough, else the latest of the next class that has
 * any: all there are. *c becomes its class. GP_TILE_NIL: none. */
static inline uint32_t gp_size_bins_find(struct gp_size_bins *b, const struct gp_tiling *t,
					 uint32_t units, unsigned *c)
{
	uint32_t n;

	*c = gp_size_bins_class(units);
	n = gp_size_bins_from(b, t, c);
	if (GP_LIKELY(t->tiles[n].units >= units))
		return n;
	++*c;
	return gp_size_bins_from(b, t, c);
}

/* The tile after n in the list of its class; GP_TILE_NIL: n is the last. */
static inline uint32_t gp_size_bins_next(const struct gp_tiling *t, uint32_t n)
{
	uint32_t next = gp_link_tile(t->tiles[n].link.next);

	return next >= t->first ? next : GP_TILE_NIL;
}

void gp_size_bins_init(struct gp_size_bins *b, uint32_t heads);
/* The latest tile of exactly the class; GP_TILE_NIL: none. */
uint32_t gp_size_bins_latest(const struct gp_size_bins *b, const struct gp_tiling *t, unsigned c);
/* The first tile of the lowest class all of which is large enough. */
uint32_t gp_size_bins_find_class(struct gp_size_bins *b, const struct gp_tiling *t, uint32_t units);
/* The smallest tile that is large enough, the latest of equals. Linear in two classes. */
uint32_t gp_size_bins_find_best(struct gp_size_bins *b, const struct gp_tiling *t, uint32_t units);
/* 0, or -EILSEQ with a line on `why` that names the owner. All tiles must be of one state. Adds their
 * units to *units. */
int gp_size_bins_check(const struct gp_size_bins *b, const struct gp_tiling *t, unsigned state,
		       const char *owner, uint64_t *units, FILE *why);

#endif
