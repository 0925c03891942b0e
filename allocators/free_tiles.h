/* SPDX-License-Identifier: Apache-2.0
 *
 * free_tiles: the free blocks of a tiling, kept apart by the stream that freed them: joined, binned
 * by size, and found.
 *
 * Shape       lists[0]           memory that no stream has used yet (fresh)
 *             lists[1 + stream]  bins (size_bins.h) of what is joined, and quick lists (quick.h) of
 *                                what is not yet
 * Joining     a freed tile takes in neighbours in bins that are free on its stream or fresh; joined
 *             memory is as fresh as its last user
 * Invariants  1. no two neighbours in bins are of one stream   2. free tiles are in the bins, quick
 *             ones in the quick lists, of their stream; and those of the parts
 *                                                               -> gp_free_tiles_check()
 * Cost        all O(1) for a bounded `near`; moving a stream's memory is linear in its free tiles
 * Threads     one at a time
 */
#ifndef GP_FREE_TILES_H
#define GP_FREE_TILES_H

#include "quick.h"
#include "size_bins.h"

#define GP_FREE_FRESH UINT16_MAX /* in place of a stream */

struct gp_free_lists {
	struct gp_size_bins bins;
	struct gp_quick quick;
};

struct gp_free_tiles {
	struct gp_tiling t;
	struct gp_free_lists **lists;
	uint32_t n_lists;
	/* Set by the owner before init: */
	unsigned lg_steps; /* size classes in each doubling */
	unsigned near;     /* tiles to look at in a class; 0: only in classes that surely fit */
	bool coalesce;     /* false: only fresh memory is joined */
};

/* joins: as for the tiling. -ENOMEM: nothing to undo. */
int gp_free_tiles_init(struct gp_free_tiles *f, bool joins);
void gp_free_tiles_fini(struct gp_free_tiles *f);
/* Makes the lists of a stream. -ENOMEM. */
int gp_free_tiles_know(struct gp_free_tiles *f, uint32_t stream);
/* Tile n, in no list, becomes free for `stream`. Returns the tile it became. */
uint32_t gp_free_tiles_release(struct gp_free_tiles *f, uint32_t n, uint16_t stream);
/* Moves all in the bins of `from` to `to`, joined there. The caller has seen to it that the memory
 * may be used on `to`. */
void gp_free_tiles_move(struct gp_free_tiles *f, uint16_t from, uint16_t to);
/* 0, or -EILSEQ with a line on `why` that names the owner; sums up the units in each state. */
int gp_free_tiles_check(const struct gp_free_tiles *f, gp_quick_key *key_of, const char *owner,
			uint64_t units[GP_TILE_END + 1], FILE *why);

static inline bool gp_free_tiles_knows(const struct gp_free_tiles *f, uint32_t stream)
{
	return GP_LIKELY(stream + 2 <= f->n_lists);
}

static inline struct gp_free_lists *gp_free_tiles_of(const struct gp_free_tiles *f, uint16_t stream)
{
	return f->lists[(uint16_t)(stream + 1)];
}

/* In and out of the bins of its stream. */
static inline void gp_free_tiles_push(struct gp_free_tiles *f, uint32_t n)
{
	f->t.tiles[n].state = GP_TILE_FREE;
	gp_size_bins_add(&gp_free_tiles_of(f, f->t.tiles[n].stream)->bins, &f->t, n);
}

static inline void gp_free_tiles_unlink(struct gp_free_tiles *f, uint32_t n)
{
	gp_size_bins_remove(&gp_free_tiles_of(f, f->t.tiles[n].stream)->bins, &f->t, n);
}

/* Would what `stream` frees take in this neighbour? */
static inline bool gp_free_tiles_joins(const struct gp_tile *b, uint16_t stream)
{
	return b->state == GP_TILE_FREE && (b->stream == stream || b->stream == GP_FREE_FRESH);
}

/* A tile of at least `units`; GP_TILE_NIL: none. */
static inline uint32_t gp_free_tiles_find(const struct gp_free_tiles *f,
					  const struct gp_free_lists *lists, uint32_t units)
{
	if (GP_UNLIKELY(!f->near))
		return gp_size_bins_find_class(&lists->bins, units);
	return gp_size_bins_find(&lists->bins, &f->t, units, f->near);
}

/* Own memory before fresh memory, which so stays in one piece. */
static inline uint32_t gp_free_tiles_find_own(const struct gp_free_tiles *f, uint32_t units,
					      uint16_t stream)
{
	uint32_t n = gp_free_tiles_find(f, gp_free_tiles_of(f, stream), units);

	return n ? n : gp_free_tiles_find(f, f->lists[0], units);
}

#endif
