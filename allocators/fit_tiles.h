/* SPDX-License-Identifier: Apache-2.0
 *
 * fit_tiles: what the files of fit.h share: holes in and out of the bins, cut and joined. Inline,
 * because a request or a free does each of these once or twice.
 */
#ifndef GP_FIT_TILES_H
#define GP_FIT_TILES_H

#include "fit.h"

/* What small blocks take from main at once: a page, so that an empty one can go back to the device. */
#define FIT_CHUNK ((uint32_t)(2 * GP_MIB >> GP_TILE_LG_UNIT))

/* fit.c. Tile n, not in the index, is free: it and its hole become the hole before them; users: those of
 * the tile. A chunk or a range of a tier that is all free now goes back. */
int fit_release(struct gp_fit *f, uint32_t n, struct gp_stream_users users);
/* The users of tile n and of the holes on both sides of it. */
struct gp_stream_users fit_join_users(const struct gp_fit *f, uint32_t n,
				      struct gp_stream_users users);
/* fit_grow.c. Gives back the ranges that lie wholly in the hole of tile n, while more than `keep` is held. The
 * parent of a tier takes a range to be used on the stream it was asked for on, so that stream has to
 * wait for the last users. */
int fit_drop_within(struct gp_fit *f, uint32_t n, uint64_t keep, uint64_t *released);
/* A request of any kind. */
int fit_alloc_slow(struct gp_fit *f, const struct gp_request *req, struct gp_block *out);

static inline enum gp_fit_part fit_part(const struct gp_tile *tile)
{
	return tile->state & GP_TILE_SMALL ? GP_FIT_SMALL : GP_FIT_MAIN;
}

static inline uint32_t fit_find(struct gp_fit *f, enum gp_fit_part part, uint32_t units)
{
	uint32_t c;

	if (f->rule == GP_FIT_GOOD)
		return gp_size_bins_find(&f->bins, part, &f->t, units, &c);
	return f->rule == GP_FIT_CLASS ? gp_size_bins_find_class(&f->bins, part, &f->t, units)
				       : gp_size_bins_find_best(&f->bins, part, &f->t, units);
}

static inline void fit_put(struct gp_fit *f, uint32_t n)
{
	gp_size_bins_put(&f->bins, fit_part(&f->t.tiles[n]), &f->t, n);
}

static inline void fit_unlink(struct gp_fit *f, uint32_t n)
{
	gp_size_bins_remove(&f->bins, &f->t, n);
	if (GP_UNLIKELY(n == f->drained))
		f->drained = GP_TILE_NIL;
}

/* Cuts a tile of `units` for a stream out of the hole of tile p, in no list, after `front` units; `state`
 * is what it is then. The stream may use it, and there is room for one. */
static inline uint32_t fit_cut(struct gp_fit *f, enum gp_fit_part part, uint32_t p, uint32_t front,
			       uint32_t units, uint32_t stream, uint8_t state)
{
	uint32_t n = gp_tiling_cut(&f->t, p, front, units, state);

	f->t.tiles[n].stream = (uint16_t)stream;
	if (front)
		gp_size_bins_add(&f->bins, part, &f->t, p);
	else
		gp_size_bins_none(&f->t, p);
	gp_size_bins_put(&f->bins, part, &f->t, n);
	return n;
}

/* The same, for a block that is handed out. */
static inline void fit_hand_out(struct gp_fit *f, enum gp_fit_part part, uint32_t p, uint32_t front,
				uint32_t units, uint32_t stream, uint8_t state,
				struct gp_block *out)
{
	const struct gp_tile *before = &f->t.tiles[p];
	uint64_t unit = gp_tile_unit(before) + before->units + front;
	uint32_t n = fit_cut(f, part, p, front, units, stream, state);

	gp_tile_index_add(&f->t.index, unit, n);
	f->live++;
	out->addr = unit << GP_TILE_LG_UNIT;
	f->granted_units += units;
	out->granted = (uint64_t)units << GP_TILE_LG_UNIT;
}

/* Who may still use what a stream frees now. */
static inline struct gp_stream_users fit_freed_by(const struct gp_fit *f, uint32_t stream)
{
	return (struct gp_stream_users){ gp_stream_bit(stream), f->streams.epoch };
}

/* Tile n of a part, not in the index, and its hole become the hole before them; users: those of the
 * tile, the latest there are. Returns the tile that has the hole now. */
static inline uint32_t fit_join_in(struct gp_fit *f, enum gp_fit_part part, uint32_t n,
				   struct gp_stream_users users)
{
	const struct gp_tile *tile = &f->t.tiles[n];
	uint32_t p = tile->prev;
	struct gp_tile *before = &f->t.tiles[p];

	gp_size_bins_remove(&f->bins, &f->t, n);
	gp_size_bins_remove(&f->bins, &f->t, p);
	if (GP_UNLIKELY((tile->users.set | before->users.set) & ~(unsigned)users.set))
		users = fit_join_users(f, n, users);
	before->users = users;
	gp_tiling_join(&f->t, n);
	gp_size_bins_add(&f->bins, part, &f->t, p);
	return p;
}

#endif
