/* SPDX-License-Identifier: Apache-2.0
 *
 * fit: memory of a pool, cut to size and joined again: what `segregated` is, and `hybrid` above its
 * slabs. The hot path is inline here, the rest in fit.c.
 *
 * Shape       | used |   free   | used |s|s| free |s|quick|  small  |    used    | free |END
 *                                      '------- a chunk of 2 MiB -------'
 *             main    blocks above `quick`, cut from the smallest hole found (size_bins.h) and joined
 *                     with both neighbours as soon as they are free
 *             small   blocks to `quick` lie in chunks of their own, cut from main. Freed, they wait
 *                     whole for the next request of their size (quick.h); when none fits, all are
 *                     joined, and a chunk that is all free goes back to main
 *             streams one heap for all: a hole knows which streams may still use some of it, and
 *                     since when (streams.h); who takes from it waits for those others, if it has
 *                     not since
 * Order       quick; the bins; the bins after all quick blocks are joined; for a small block a chunk;
 *             growth, by as much as is missing to the hole at the end; growth after everything
 *             empty was given back
 * Invariants  1. no two free neighbours are both main or both small   2. free tiles are in the bins
 *             of their part, quick ones in the lists of their stream   3. used + free + quick = held
 *             4. a used block is small if and only if its size is   -> gp_fit_check() tests each
 * Cost        O(1) but for fit=best and for joining what is quick, which is paid for by the frees
 *             that did not join; 32 bytes a block, and 8 to 32 of the index
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

struct gp_fit {
	/* What the owner sets before init. */
	uint64_t classes; /* in each doubling */
	uint64_t quick;   /* bytes: the largest small block */
	unsigned rule;    /* enum gp_fit_rule */
	bool coalesce;

	uint32_t stream_mask; /* 0: all requests are of stream 0 */
	uint32_t n_streams;   /* that have lists */
	uint32_t plain_units; /* larger requests take the slow path */
	uint32_t quick_units;
	uint64_t live, granted_units;
	struct gp_quick **quick_of; /* [stream] */
	struct gp_tiling t;
	struct gp_streams streams;
	struct gp_pool pool;
	uint32_t drained; /* below a parent: the one wholly free range that is kept */
	struct gp_size_bins bins[GP_FIT_PARTS];
};

/* The first member of the state of an allocator that is one. */
static inline struct gp_fit *gp_fit_of(const struct gp_allocator *a)
{
	return gp_state(a);
}

/* Hooks of struct gp_allocator_ops, for an allocator whose state begins with a struct gp_fit. */
int gp_fit_init(struct gp_allocator *a);
void gp_fit_fini(struct gp_allocator *a);
void gp_fit_usage(const struct gp_allocator *a, struct gp_usage *out);
int gp_fit_check(const struct gp_allocator *a, FILE *why);
int gp_fit_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released);
int gp_fit_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg);

/* For what is inline below. */
int gp_fit_alloc_slow(struct gp_fit *f, const struct gp_request *req, struct gp_block *out);
int gp_fit_wait(struct gp_fit *f, uint32_t n, uint32_t stream);
int gp_fit_release(struct gp_fit *f, uint32_t n);
int gp_fit_refuse(struct gp_fit *f, uint64_t addr);

static inline uint32_t gp_fit_find(const struct gp_fit *f, enum gp_fit_part part, uint32_t units)
{
	if (GP_LIKELY(f->rule == GP_FIT_GOOD))
		return gp_size_bins_find(&f->bins[part], &f->t, units);
	return f->rule == GP_FIT_CLASS ? gp_size_bins_find_class(&f->bins[part], units)
				       : gp_size_bins_find_best(&f->bins[part], &f->t, units);
}

static inline enum gp_fit_part gp_fit_part(const struct gp_tile *tile)
{
	return tile->state & GP_TILE_SMALL ? GP_FIT_SMALL : GP_FIT_MAIN;
}

/* May `stream` use free tile n without a wait, as far as one look tells? */
static inline bool gp_fit_own(const struct gp_fit *f, uint32_t n, uint32_t stream)
{
	return !(f->t.tiles[n].streams & ~(unsigned)gp_stream_bit(stream));
}

/* Block n goes to the user. */
static inline void gp_fit_give(struct gp_fit *f, uint32_t n, struct gp_block *out)
{
	const struct gp_tile *tile = &f->t.tiles[n];

	f->live++;
	f->granted_units += tile->units;
	*out = (struct gp_block){ gp_tile_addr(tile), gp_tile_bytes(tile) };
}

/* Hands out the first `units` of free tile n to a stream that may use it. There is room for one. */
static inline void gp_fit_hand_out(struct gp_fit *f, uint32_t n, uint32_t units, uint32_t stream,
				   struct gp_block *out)
{
	struct gp_tile *tile = &f->t.tiles[n];
	struct gp_size_bins *bins = &f->bins[gp_fit_part(tile)];

	gp_size_bins_remove(bins, &f->t, n);
	if (GP_UNLIKELY(n == f->drained))
		f->drained = GP_TILE_NIL;
	if (tile->units > units)
		gp_size_bins_add(bins, &f->t, gp_tiling_cut(&f->t, n, units));
	tile->state = GP_TILE_USED | (tile->state & GP_TILE_SMALL);
	tile->streams = (uint16_t)stream;
	gp_tile_index_add(&f->t.index, f->t.tiles, n);
	gp_fit_give(f, n, out);
}

static inline int gp_fit_alloc(struct gp_fit *f, const struct gp_request *req, struct gp_block *out)
{
	uint64_t units = (req->size + GP_ALIGN - 1) >> GP_TILE_LG_UNIT;
	uint32_t stream = req->stream & f->stream_mask, n;

	if (GP_UNLIKELY(stream >= f->n_streams || units > f->plain_units ||
			req->lg_align > GP_TILE_LG_UNIT))
		return gp_fit_alloc_slow(f, req, out);
	if (units <= f->quick_units) {
		n = gp_quick_pop(f->quick_of[stream], &f->t, (uint32_t)units);
		if (GP_LIKELY(n)) {
			f->t.tiles[n].state = GP_TILE_USED | GP_TILE_SMALL;
			gp_fit_give(f, n, out);
			return 0;
		}
		n = gp_fit_find(f, GP_FIT_SMALL, (uint32_t)units);
	} else {
		n = gp_fit_find(f, GP_FIT_MAIN, (uint32_t)units);
	}
	if (GP_UNLIKELY(!n || !gp_fit_own(f, n, stream) || gp_tiling_room(&f->t, 1)))
		return gp_fit_alloc_slow(f, req, out);
	gp_fit_hand_out(f, n, (uint32_t)units, stream, out);
	return 0;
}

/* The block that starts at addr, or whatever else is in the index there; GP_TILE_INDEX_ABSENT:
 * nothing. */
static inline uint32_t gp_fit_probe(const struct gp_fit *f, uint64_t addr)
{
	return GP_LIKELY(!(addr & (GP_ALIGN - 1)))
		       ? gp_tile_index_probe(&f->t.index, f->t.tiles, addr >> GP_TILE_LG_UNIT)
		       : GP_TILE_INDEX_ABSENT;
}

/* Frees what probe found; addr is its address, for a refusal. */
static inline int gp_fit_free_at(struct gp_fit *f, uint32_t slot, uint64_t addr)
{
	uint32_t n = gp_tile_index_at(&f->t.index, slot);
	struct gp_tile *tile = &f->t.tiles[n];

	if (GP_UNLIKELY(gp_tile_state(tile) != GP_TILE_USED))
		return gp_fit_refuse(f, addr);
	f->live--;
	f->granted_units -= tile->units;
	if (tile->units <= f->quick_units) {
		tile->state = GP_TILE_QUICK | GP_TILE_SMALL;
		gp_quick_push(f->quick_of[tile->streams], &f->t, n);
		return 0;
	}
	gp_tile_index_remove(&f->t.index, f->t.tiles, slot);
	tile->state = GP_TILE_FREE | (tile->state & GP_TILE_SMALL);
	tile->streams = gp_stream_bit(tile->streams);
	tile->epoch = f->streams.epoch;
	return gp_fit_release(f, n);
}

#endif
