/* SPDX-License-Identifier: Apache-2.0
 *
 * size_bins: free tiles in lists by size class, and the best of them by find-first-set.
 *
 * Shape       class  0       1       2    ...    2^lg_steps classes in each doubling of the size
 *             head   |       NIL     |
 *                    tile            tile
 *                    |
 *                    tile
 *
 *             map: which classes have any, one bit each; top: which words of map are not 0. Two
 *             find-first-set instead of a walk, after TLSF (Masmano, Ripoll, Crespo, Real: "TLSF: a
 *             new dynamic memory allocator for real-time systems", ECRTS 2004).
 * Invariants  a tile is in the list of its class; the bitmaps say which have any
 *                                                                 -> gp_size_bins_check()
 * Cost        O(1), but for the best fit
 * Threads     one at a time
 */
#ifndef GP_SIZE_BINS_H
#define GP_SIZE_BINS_H

#include "tiling.h"

#define GP_BINS_LG_STEPS_MAX 5
#define GP_BINS_CLASSES      (32u << GP_BINS_LG_STEPS_MAX) /* for 1 .. 2^32 - 1 units */
/* In fprev of the first tile of a list: the class instead of a tile, which are below 2^24. */
#define GP_BINS_HEAD (UINT32_C(1) << 31)

struct gp_size_bins {
	uint64_t top;
	uint64_t map[GP_BINS_CLASSES / 64];
	unsigned lg_steps;
	uint32_t head[GP_BINS_CLASSES];
};

static inline unsigned gp_size_bins_class(const struct gp_size_bins *b, uint32_t units)
{
	unsigned fl = gp_floor_log2(units);

	/* The step is 2^lg_steps .. 2^(lg_steps + 1) - 1. */
	return ((fl - 1) << b->lg_steps) + (uint32_t)(((uint64_t)units << b->lg_steps) >> fl);
}

static inline void gp_size_bins_add(struct gp_size_bins *b, struct gp_tiling *t, uint32_t n)
{
	struct gp_tile *tile = &t->tiles[n];
	unsigned c = gp_size_bins_class(b, tile->units);
	uint32_t head = b->head[c];

	tile->fprev = GP_BINS_HEAD | c;
	tile->fnext = head;
	t->tiles[head].fprev = n;
	b->head[c] = n;
	b->map[c / 64] |= UINT64_C(1) << (c % 64);
	b->top |= UINT64_C(1) << (c / 64);
}

static inline void gp_size_bins_remove(struct gp_size_bins *b, struct gp_tiling *t, uint32_t n)
{
	uint32_t fprev = t->tiles[n].fprev, fnext = t->tiles[n].fnext, c = fprev & ~GP_BINS_HEAD;

	t->tiles[fnext].fprev = fprev;
	if (!(fprev & GP_BINS_HEAD)) {
		t->tiles[fprev].fnext = fnext;
		return;
	}
	b->head[c] = fnext;
	/* No branch: in a heap of mixed sizes a list is as likely to run empty as not. */
	b->map[c / 64] &= ~((uint64_t)!fnext << (c % 64));
	b->top &= ~((uint64_t)!b->map[c / 64] << (c / 64));
}

/* The first tile of the lowest class from c on; GP_TILE_NIL: none. */
static inline uint32_t gp_size_bins_from(const struct gp_size_bins *b, unsigned c)
{
	unsigned w = c / 64;
	uint64_t word;

	if (GP_UNLIKELY(c >= GP_BINS_CLASSES))
		return GP_TILE_NIL;
	word = b->map[w] & (~UINT64_C(0) << (c % 64));
	if (!word) {
		uint64_t above = b->top & (~UINT64_C(1) << w);

		if (!above)
			return GP_TILE_NIL;
		w = gp_lowest_bit(above);
		word = b->map[w];
	}
	return b->head[w * 64 + gp_lowest_bit(word)];
}

/* The latest tile of the own class if it is large enough, else the latest of the next class that has
 * any: all there are. GP_TILE_NIL: none. */
static inline uint32_t gp_size_bins_find(const struct gp_size_bins *b, const struct gp_tiling *t,
					 uint32_t units)
{
	unsigned c = gp_size_bins_class(b, units);
	uint32_t n = b->head[c];

	return t->tiles[n].units >= units ? n : gp_size_bins_from(b, c + 1);
}

/* The smallest tile that is large enough, the latest of equals. Linear in two classes. */
uint32_t gp_size_bins_find_best(const struct gp_size_bins *b, const struct gp_tiling *t,
				uint32_t units);
/* The first tile of the lowest class all of which is large enough. */
uint32_t gp_size_bins_find_class(const struct gp_size_bins *b, uint32_t units);
/* 0, or -EILSEQ with a line on `why` that names the owner. All tiles must be of one state. Adds their
 * units to *units. */
int gp_size_bins_check(const struct gp_size_bins *b, const struct gp_tiling *t, unsigned state,
		       const char *owner, uint64_t *units, FILE *why);

#endif
