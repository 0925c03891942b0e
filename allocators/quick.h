/* SPDX-License-Identifier: Apache-2.0
 *
 * quick: blocks just freed, kept whole for the next request of their size. Programs repeat sizes,
 * and cutting a block from a larger one and joining it again costs several times as much as a stack.
 * Joining is put off until the owner needs it (C. B. Weinstock, W. A. Wulf: "Quick fit: an efficient
 * algorithm for heap storage management", SIGPLAN Notices 23(10), 1988; deferred coalescing in
 * P. R. Wilson et al.: "Dynamic storage allocation: a survey and critical review", IWMM 1995).
 *
 * Shape       head[units - 1] -> block -> block    last in, first out, linked by chain. One of these
 *             for each stream, so that reuse never crosses streams.
 * Invariants  blocks in it are in state GP_TILE_QUICK; marks has each size that has any
 *                                                                  -> gp_quick_check()
 * Cost        push, pop: O(1), two cache lines
 * Waste       what lies here is no hole for other sizes: the owner takes all out and joins it before
 *             it concludes that nothing fits
 * Threads     one at a time
 */
#ifndef GP_QUICK_H
#define GP_QUICK_H

#include "tiling.h"

#define GP_QUICK_UNITS 256 /* the largest block */

struct gp_quick {
	uint32_t head[GP_QUICK_UNITS];
	uint8_t marks
		[GP_QUICK_UNITS]; /* 1: sizes that may have any; bytes, as one store is all it takes */
};

/* The latest block of a size, still in state QUICK; GP_TILE_NIL: none. */
static inline uint32_t gp_quick_pop(struct gp_quick *q, const struct gp_tiling *t, uint32_t units)
{
	uint32_t n = q->head[units - 1];

	if (GP_LIKELY(n))
		q->head[units - 1] = t->tiles[n].chain;
	return n;
}

static inline void gp_quick_push(struct gp_quick *q, struct gp_tiling *t, uint32_t n)
{
	struct gp_tile *tile = &t->tiles[n];
	unsigned key = tile->units - 1;

	tile->chain = q->head[key];
	q->head[key] = n;
	q->marks[key] = 1;
}

/* Any block, still in state QUICK; GP_TILE_NIL: there is none. */
uint32_t gp_quick_any(struct gp_quick *q, const struct gp_tiling *t);
/* 0, or -EILSEQ with a line on `why` that names the owner. All tiles must be of one state and stream.
 * Adds their units to *units. */
int gp_quick_check(const struct gp_quick *q, const struct gp_tiling *t, unsigned state,
		   uint32_t stream, const char *owner, uint64_t *units, FILE *why);

#endif
