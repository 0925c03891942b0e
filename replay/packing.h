/* SPDX-License-Identifier: Apache-2.0
 *
 * packing: places blocks whose lifetimes are all known beforehand, so that no two that live at one
 * time overlap and the whole is low: dynamic storage allocation, offline. What no allocator can
 * know, and therefore the measure of all.
 *
 *   offset                      time is counted in allocations: block i begins at time i, and one
 *     ^  +--+ +-------+         that is freed before the next allocation ends at i + 1
 *     |  |b |_|   d   |
 *     | +---+-------+ |         height >= bound = the most bytes that live at one time
 *     | |  a     |c | |
 *     +-+--------+--+-+---> time
 *
 *   packing.c         greedy: one block after another, each as low as it fits
 *   packing_search.c  a search that finds a given height, or proves that there is none
 */
#ifndef GP_PACKING_H
#define GP_PACKING_H

#include "allocators/base.h"

struct gp_pack_block {
	uint64_t size;   /* bytes, > 0 */
	uint64_t offset; /* where it is placed */
	uint64_t life;   /* how long it lives, in events */
	uint64_t time;   /* the same in time, where that is known; else life */
	uint32_t end;    /* > its own index, at most n */
	uint8_t lg_align;
};

struct gp_packing {
	struct gp_pack_block *blocks; /* [n], in order of allocation; the caller's */
	uint32_t n;
	uint64_t bound;
	/* Asked now and then whether to give up; may be NULL. */
	bool (*expired)(void *arg);
	void *expired_arg;

	uint32_t *latest; /* tree over the blocks that are placed: the latest end below a node */
	uint32_t width;   /* of its lowest level, a power of two */
	struct gp_range *taken; /* scratch: what a block must not overlap */
	uint32_t n_taken;
};

/* In what order greedy takes the blocks: largest first, ties in order of allocation. */
enum gp_pack_order {
	GP_PACK_BY_SIZE,
	GP_PACK_BY_LIFE, /* gp_pack_block.life              */
	GP_PACK_BY_SPAN, /* allocations made while it lives */
	GP_PACK_BY_AREA, /* size times life                 */
	GP_PACK_ORDER_N
};

const char *gp_pack_order_name(enum gp_pack_order order);

/* Reads the blocks and computes the bound. 0 or -ENOMEM. */
int gp_packing_init(struct gp_packing *p, struct gp_pack_block *blocks, uint32_t n);
void gp_packing_fini(struct gp_packing *p);
/* Places all blocks. GP_NOMEM: it gave up, because time ran out or the height would have been
 * `limit` or more; some blocks are placed then. -ENOMEM. Time: the sum over the blocks of k log k,
 * k being the blocks that live at the same time and were placed before. */
int gp_packing_greedy(struct gp_packing *p, enum gp_pack_order order, uint64_t limit,
		      uint64_t *height);
/* Begins with that order and goes on, moving blocks that stuck out forward and some others about,
 * until the bound is reached or time runs out. *height: what is to be undercut, then what was
 * reached. 0: the blocks are placed so. GP_NOMEM: nothing lower was found. -ENOMEM. */
int gp_packing_improve(struct gp_packing *p, enum gp_pack_order order, uint64_t *height);

/* More blocks than that are not searched. */
#define GP_PACK_SEARCH_MAX 1024

/* Looks for a placement no higher than `height`, and writes it to the blocks on 0. GP_REFUSED: there
 * is none. GP_NOMEM: gave up, of the blocks nothing is changed. -ENOMEM. */
int gp_packing_search(struct gp_packing *p, uint64_t height);

static inline uint64_t gp_pack_align(const struct gp_pack_block *b, uint64_t offset)
{
	return gp_align_up(offset, UINT64_C(1) << b->lg_align);
}

#endif
