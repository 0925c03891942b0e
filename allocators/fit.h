/* SPDX-License-Identifier: Apache-2.0
 *
 * fit: memory of a pool, cut to size and joined again: what `segregated` is, and `hybrid` above its
 * slabs. The hot path is inline here, the rest in fit.c.
 *
 * Shape       | used |   free   | used |s|s| free |s|quick|  small  |    used    | free |END
 *                                      '------- a chunk of 2 MiB -------'
 *             main    blocks above `quick`, cut from the smallest hole found (size_bins.h) and joined
 *                     with both neighbours as soon as they are free
 *             small   blocks to `quick` lie in chunks, each a block of main and a piece of its own.
 *                     Freed, they wait whole for the next request of their size (quick.h); when none
 *                     fits and the chunks come to more than 1/1024 of what is held, all are joined,
 *                     and a chunk that is all free goes back to main
 *             streams one heap for all: a hole knows which streams may still use some of it, and
 *                     since when (streams.h); who takes from it waits for those others, if it has
 *                     not since
 * Order       quick; the bins; the bins after all quick blocks are joined; for a small block a chunk;
 *             growth, by as much as is missing to the hole at the end; growth after everything
 *             empty was given back
 * Invariants  1. holes are in the bins of their part, quick blocks in the lists of their stream
 *             2. used + free + quick = held   3. a used block is small if and only if its size is
 *                                                                   -> gp_fit_check() tests each
 * Cost        O(1) but for fit=best and for joining what is quick, which is paid for by the frees
 *             that did not join; 40 bytes a block, and 5 to 32 of the index. A hole is part of the
 *             record of the block before it (tiling.h): a cut is one new record, a free one less, and
 *             neither has a branch for what neighbours are
 * Waste       internal < 256 bytes a block; external: what best fit has, allocators/README.md
 *             coalesce=false: requests round up to their class and blocks are never cut or joined
 *             again before a trim (simple segregated storage): internal < 1/classes, external
 *             the sum of each class's own peak
 * Threads     one at a time
 */
#ifndef GP_FIT_H
#define GP_FIT_H

#include "pool.h"
#include "quick.h"
#include "size_bins.h"
#include "streams.h"

/* Which block of a class is taken. */
enum gp_fit_rule {
	GP_FIT_GOOD, /* the latest of the own class if it is large enough, else of the next class */
	GP_FIT_CLASS, /* never looks into the own class (TLSF's rule) */
	GP_FIT_BEST,  /* the smallest; linear in the class */
};

enum gp_fit_part {
	GP_FIT_MAIN,
	GP_FIT_SMALL,
	GP_FIT_PARTS,
};

_Static_assert(GP_FIT_PARTS <= GP_BINS_SETS, "a set for each part");

struct gp_fit {
	/* What the owner sets before init. */
	uint64_t classes; /* coalesce=false: in each doubling */
	uint64_t quick;   /* bytes: the largest small block */
	unsigned rule;    /* enum gp_fit_rule */
	bool coalesce;
	/* NULL, or called while the device is idle and before memory goes back to it. */
	int (*idle)(struct gp_fit *f);

	bool plain;       /* as by default: good fit, coalescing */
	bool tier;        /* below a parent */
	uint32_t drained; /* below a parent: the GAP of the one wholly free range that is kept */
	uint32_t stream_mask; /* 0: all requests are of stream 0 */
	uint32_t n_streams;   /* that have lists */
	uint32_t quick_units;
	uint64_t live;
	struct gp_quick **quick_of; /* [stream] */
	uint64_t granted_units;
	uint64_t small_units; /* in chunks of small blocks */
	struct gp_tiling t;
	struct gp_streams streams;
	struct gp_pool pool;
	struct gp_size_bins bins; /* a set for each part */
};

/* The first member of the state of an allocator that is one. */
static inline struct gp_fit *gp_fit_of(const struct gp_allocator *a)
{
	return gp_state(a);
}

/* What an allocator is that adds nothing to it (`segregated`), so that a tier below may go straight there;
 * NULL: it is another. */
struct gp_fit *gp_fit_in(const struct gp_allocator *a);

/* Hooks of struct gp_allocator_ops, for an allocator whose state begins with a struct gp_fit. */
int gp_fit_init(struct gp_allocator *a);
void gp_fit_fini(struct gp_allocator *a);
void gp_fit_usage(const struct gp_allocator *a, struct gp_usage *out);
int gp_fit_check(const struct gp_allocator *a, FILE *why);
int gp_fit_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released);
int gp_fit_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg);

/* For an owner that makes some blocks by itself. */

/* Makes a stream known. */
int gp_fit_know(struct gp_fit *f, uint32_t stream);
/* Joins all quick blocks. */
int gp_fit_flush(struct gp_fit *f);
/* The tile whose hole ends at `end`, the highest address held; GP_TILE_NIL: none. */
uint32_t gp_fit_tail(const struct gp_fit *f, uint64_t *end);
/* A range that the pool gave becomes a hole that nobody has used yet; room for 2 is there. *out: the
 * tile that has it. */
void gp_fit_add(struct gp_fit *f, struct gp_range range, uint32_t *out);
/* Before memory of the hole of tile n is used on a stream, which it is from now on. */
int gp_fit_wait(struct gp_fit *f, uint32_t n, uint32_t stream);
/* Cuts a tile of some state out of the hole of tile n, after `front` units of it, for a stream that may use
 * it. There is room for one. */
uint32_t gp_fit_cut(struct gp_fit *f, uint32_t n, uint32_t front, uint32_t units, uint32_t stream,
		    uint8_t state);
/* The same, from the hole's start, for a block that is handed out. */
void gp_fit_hand_out(struct gp_fit *f, uint32_t n, uint32_t units, uint32_t stream,
		     struct gp_block *out);
/* Tile n, not in the index, becomes free, last used on a stream. */
int gp_fit_release(struct gp_fit *f, uint32_t n, uint32_t stream);

/* For what is inline below: requests and frees that the quick lists do not serve. */
int gp_fit_alloc_small(struct gp_fit *f, const struct gp_request *req, struct gp_block *out);
int gp_fit_alloc_main(struct gp_fit *f, const struct gp_request *req, struct gp_block *out);
int gp_fit_free_join(struct gp_fit *f, uint32_t n, uint32_t slot, uint64_t addr);

static inline int gp_fit_alloc(struct gp_fit *f, const struct gp_request *req, struct gp_block *out)
{
	uint64_t units = (req->size + GP_ALIGN - 1) >> GP_TILE_LG_UNIT;
	uint32_t stream = req->stream & f->stream_mask, n;

	if (units > f->quick_units)
		return gp_fit_alloc_main(f, req, out);
	if (GP_UNLIKELY(stream >= f->n_streams || req->lg_align > GP_TILE_LG_UNIT))
		return gp_fit_alloc_small(f, req, out);
	n = gp_quick_pop(f->quick_of[stream], &f->t, (uint32_t)units);
	if (GP_UNLIKELY(!n))
		return gp_fit_alloc_small(f, req, out);
	f->t.tiles[n].state = GP_TILE_USED | GP_TILE_SMALL;
	f->live++;
	f->granted_units += units;
	out->addr = gp_tile_addr(&f->t.tiles[n]);
	out->granted = units << GP_TILE_LG_UNIT;
	return 0;
}

/* What starts at addr of all that can be freed, and where it is in the index; GP_TILE_NIL: nothing. */
static inline uint32_t gp_fit_find(const struct gp_fit *f, uint64_t addr, uint32_t *slot)
{
	if (GP_UNLIKELY(addr & (GP_ALIGN - 1)))
		return GP_TILE_NIL;
	return gp_tile_index_probe(&f->t.index, f->t.tiles, addr >> GP_TILE_LG_UNIT, slot);
}

/* Frees what find found, or refuses addr. */
static inline int gp_fit_free(struct gp_fit *f, uint32_t n, uint32_t slot, uint64_t addr)
{
	struct gp_tile *tile = &f->t.tiles[n];

	if (tile->state != (GP_TILE_USED | GP_TILE_SMALL))
		return gp_fit_free_join(f, n, slot, addr);
	f->live--;
	tile->state = GP_TILE_QUICK | GP_TILE_SMALL;
	f->granted_units -= tile->units;
	gp_quick_push(f->quick_of[tile->stream], &f->t, n);
	return 0;
}

static inline int gp_fit_free_at(struct gp_fit *f, uint64_t addr)
{
	uint32_t slot = 0, n = gp_fit_find(f, addr, &slot);

	return gp_fit_free(f, n, slot, addr);
}

#endif
