/* SPDX-License-Identifier: Apache-2.0
 *
 * fit_tiles: what the files of fit.h share: free tiles in and out of the bins, cut and joined. Inline,
 * because a request or a free does each of these once or twice.
 */
#ifndef GP_FIT_TILES_H
#define GP_FIT_TILES_H

#include "fit.h"

/* What small blocks take from main at once: a page, so that an empty one can go back to the device. */
#define FIT_CHUNK ((uint32_t)(2 * GP_MIB >> GP_TILE_LG_UNIT))

/* fit.c. Tile n, which is marked free but in no list, becomes so. */
int fit_release(struct gp_fit *f, uint32_t n);
/* Free tile n, in no list, takes in its neighbours of the same part; returns what it became, in no list
 * either. */
uint32_t fit_join(struct gp_fit *f, uint32_t n);
/* Two tiles that become one have users of different streams. */
void fit_join_users(struct gp_fit *f, struct gp_tile *tile, const struct gp_tile *right);
/* fit_grow.c. Gives back the ranges that lie wholly in free tile n, while more than `keep` is held. The
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
	unsigned c;

	if (f->rule == GP_FIT_GOOD)
		return gp_size_bins_find(&f->bins[part], &f->t, units, &c);
	return f->rule == GP_FIT_CLASS ? gp_size_bins_find_class(&f->bins[part], &f->t, units)
				       : gp_size_bins_find_best(&f->bins[part], &f->t, units);
}

static inline void fit_push(struct gp_fit *f, uint32_t n)
{
	gp_size_bins_add(&f->bins[fit_part(&f->t.tiles[n])], &f->t, n);
}

static inline void fit_unlink_from(struct gp_fit *f, enum gp_fit_part part, uint32_t n)
{
	gp_size_bins_remove(&f->bins[part], &f->t, n);
	if (GP_UNLIKELY(n == f->drained))
		f->drained = GP_TILE_NIL;
}

static inline void fit_unlink(struct gp_fit *f, uint32_t n)
{
	fit_unlink_from(f, fit_part(&f->t.tiles[n]), n);
}

/* Hands out the first `units` of free tile n, in no list, to a stream that may use it; `state` is what
 * it is then. There is room for one. */
static inline void fit_hand_out(struct gp_fit *f, enum gp_fit_part part, uint32_t n, uint32_t units,
				uint32_t stream, uint8_t state, struct gp_block *out)
{
	struct gp_tile *tile = &f->t.tiles[n];

	if (tile->units > units)
		gp_size_bins_add(&f->bins[part], &f->t, gp_tiling_cut(&f->t, n, units));
	tile->state = state;
	tile->streams = (uint16_t)stream;
	gp_tile_index_add(&f->t.index, f->t.tiles, n);
	f->live++;
	out->addr = gp_tile_addr(tile);
	f->granted_units += units;
	out->granted = (uint64_t)units << GP_TILE_LG_UNIT;
}

static inline struct gp_stream_users fit_users(const struct gp_tile *tile)
{
	return (struct gp_stream_users){ tile->streams, tile->epoch };
}

/* Free tile n, in no list, takes in its right neighbour, in none either. */
static inline void fit_swallow(struct gp_fit *f, uint32_t n)
{
	struct gp_tile *tile = &f->t.tiles[n];
	const struct gp_tile *right = &f->t.tiles[tile->next];

	if (GP_UNLIKELY(tile->streams != right->streams))
		fit_join_users(f, tile, right);
	else
		tile->epoch = right->epoch > tile->epoch ? right->epoch : tile->epoch;
	gp_tiling_swallow(&f->t, n);
}

/* Free tile n of a part, in no list, takes in its neighbours of the same; returns what it became, in no
 * list either. */
static inline uint32_t fit_join_in(struct gp_fit *f, enum gp_fit_part part, uint32_t n)
{
	const struct gp_tile *tile = &f->t.tiles[n];
	uint32_t left = tile->prev, right = tile->next;
	uint8_t state = part == GP_FIT_SMALL ? GP_TILE_FREE | GP_TILE_SMALL : GP_TILE_FREE;

	if (f->t.tiles[right].state == state) {
		fit_unlink_from(f, part, right);
		fit_swallow(f, n);
	}
	if (f->t.tiles[left].state == state) {
		fit_unlink_from(f, part, left);
		fit_swallow(f, left);
		n = left;
	}
	return n;
}

#endif
