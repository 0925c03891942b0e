/* SPDX-License-Identifier: Apache-2.0
 *
 * fit: cutting, joining and the hooks; the quick lists are inline in fit.h, growth and everything rare
 * is in fit_grow.c.
 */
#include "fit_tiles.h"

#include <errno.h>
#include <stdlib.h>

int gp_fit_know(struct gp_fit *f, uint32_t stream)
{
	struct gp_quick **quick;
	int r = gp_streams_know(&f->streams, stream);

	if (r || stream < f->n_streams)
		return r;
	quick = realloc(f->quick_of, (stream + 1) * sizeof(*quick));
	if (!quick)
		return -ENOMEM;
	f->quick_of = quick;
	while (f->n_streams <= stream) {
		quick[f->n_streams] = calloc(1, sizeof(**quick));
		if (!quick[f->n_streams])
			return -ENOMEM;
		f->n_streams++;
	}
	return 0;
}

uint32_t gp_fit_cut(struct gp_fit *f, uint32_t n, uint32_t front, uint32_t units, uint32_t stream,
		    uint8_t state)
{
	fit_unlink(f, n);
	return fit_cut(f, GP_FIT_MAIN, n, front, units, stream, state);
}

void gp_fit_hand_out(struct gp_fit *f, uint32_t n, uint32_t units, uint32_t stream,
		     struct gp_block *out)
{
	fit_unlink(f, n);
	fit_hand_out(f, GP_FIT_MAIN, n, 0, units, stream, GP_TILE_USED, out);
}

/* ---- joining ---- */

GP_NOINLINE struct gp_stream_users fit_join_users(const struct gp_fit *f, uint32_t n,
						  struct gp_stream_users users)
{
	const struct gp_tile *tile = &f->t.tiles[n], *before = &f->t.tiles[tile->prev];

	if (tile->hole)
		users = gp_streams_join(&f->streams, users, tile->users);
	if (before->hole)
		users = gp_streams_join(&f->streams, before->users, users);
	return users;
}

/* The hole of GAP n is all there is of a chunk: back to main. */
static int fit_return_chunk(struct gp_fit *f, uint32_t n)
{
	struct gp_stream_users users = f->t.tiles[n].users;
	uint32_t chunk = f->t.tiles[n].chain;

	fit_unlink(f, n);
	gp_tiling_forget(&f->t, n);
	f->small_units -= f->t.tiles[chunk].units;
	return fit_release(f, chunk, fit_join_users(f, chunk, users));
}

/* A tier gives a wholly free range back when it has another one already. */
static GP_NOINLINE int fit_drained(struct gp_fit *f, uint32_t n)
{
	uint64_t unused = 0;

	if (f->drained)
		return fit_drop_within(f, n, 0, &unused);
	f->drained = n;
	return 0;
}

int fit_release(struct gp_fit *f, uint32_t n, struct gp_stream_users users)
{
	enum gp_fit_part part = fit_part(&f->t.tiles[n]);

	if (GP_UNLIKELY(f->t.tiles[n].prev == f->drained))
		f->drained = GP_TILE_NIL;
	n = fit_join_in(f, part, n, users);
	if (part == GP_FIT_SMALL)
		return gp_tiling_alone(&f->t, n) ? fit_return_chunk(f, n) : 0;
	return GP_UNLIKELY(f->tier) && gp_tiling_alone(&f->t, n) ? fit_drained(f, n) : 0;
}

int gp_fit_release(struct gp_fit *f, uint32_t n, uint32_t stream)
{
	return fit_release(f, n, fit_freed_by(f, stream));
}

/* A quick block that is in no list any more is joined. */
static int fit_settle(struct gp_fit *f, uint32_t n)
{
	uint32_t slot;

	gp_tile_index_probe(&f->t.index, f->t.tiles, gp_tile_unit(&f->t.tiles[n]), &slot);
	gp_tile_index_remove(&f->t.index, f->t.tiles, slot);
	return fit_release(f, n, fit_freed_by(f, f->t.tiles[n].stream));
}

int gp_fit_flush(struct gp_fit *f)
{
	uint32_t n;
	int r = 0;

	for (uint32_t s = 0; s < f->n_streams && !r; s++)
		while (!r && (n = gp_quick_any(f->quick_of[s], &f->t)))
			r = fit_settle(f, n);
	return r;
}

/* ---- alloc and free ---- */

/* From the bins, where that is all there is to do. */
static GP_INLINE int fit_alloc(struct gp_fit *f, enum gp_fit_part part,
			       const struct gp_request *req, struct gp_block *out)
{
	uint64_t units = (req->size + GP_ALIGN - 1) >> GP_TILE_LG_UNIT;
	uint32_t stream = req->stream & f->stream_mask, n;
	uint32_t c;

	if (GP_UNLIKELY(!f->plain || units > UINT32_MAX || stream >= f->n_streams ||
			req->lg_align > GP_TILE_LG_UNIT || gp_tiling_room(&f->t, 1)))
		return fit_alloc_slow(f, req, out);
	n = gp_size_bins_find(&f->bins, part, &f->t, (uint32_t)units, &c);
	if (GP_UNLIKELY(!n || f->t.tiles[n].users.set & ~(unsigned)gp_stream_bit(stream)))
		return fit_alloc_slow(f, req, out);
	gp_size_bins_pop(&f->bins, &f->t, c);
	if (GP_UNLIKELY(n == f->drained))
		f->drained = GP_TILE_NIL;
	fit_hand_out(f, part, n, 0, (uint32_t)units, stream,
		     part == GP_FIT_SMALL ? GP_TILE_USED | GP_TILE_SMALL : GP_TILE_USED, out);
	return 0;
}

int gp_fit_alloc_small(struct gp_fit *f, const struct gp_request *req, struct gp_block *out)
{
	return fit_alloc(f, GP_FIT_SMALL, req, out);
}

int gp_fit_alloc_main(struct gp_fit *f, const struct gp_request *req, struct gp_block *out)
{
	return fit_alloc(f, GP_FIT_MAIN, req, out);
}

/* No block in use starts here. Below a parent it may be one that the parent gave to somebody else, but
 * not where a range of ours starts: that block is the parent's as well. */
static GP_NOINLINE int fit_refuse(struct gp_fit *f, uint32_t n, uint64_t addr)
{
	if (gp_tile_state(&f->t.tiles[n]) == GP_TILE_QUICK)
		return -EALREADY;
	if (f->tier && !gp_range_set_containing(&f->pool.ranges, addr))
		return gp_free(f->pool.a->inner, addr);
	return gp_tiling_refuse(&f->t, addr);
}

/* coalesce=false: a block becomes a hole of its class, or of main with the hole that it got when the pool
 * grew. */
static int fit_keep_class(struct gp_fit *f, uint32_t n)
{
	struct gp_tile *tile = &f->t.tiles[n];
	struct gp_stream_users users = fit_freed_by(f, tile->stream);

	fit_unlink(f, n);
	if (tile->hole)
		users = gp_streams_join(&f->streams, users, tile->users);
	tile->state = tile->hole ? GP_TILE_GAP : GP_TILE_GAP | GP_TILE_SMALL;
	tile->hole += tile->units;
	tile->units = 0;
	tile->users = users;
	fit_put(f, n);
	return 0;
}

int gp_fit_free_join(struct gp_fit *f, uint32_t n, uint32_t slot, uint64_t addr)
{
	struct gp_tile *tile = &f->t.tiles[n];

	if (GP_UNLIKELY(tile->state != GP_TILE_USED))
		return fit_refuse(f, n, addr);
	f->live--;
	f->granted_units -= tile->units;
	gp_tile_index_remove(&f->t.index, f->t.tiles, slot);
	if (GP_UNLIKELY(!f->coalesce))
		return fit_keep_class(f, n);
	if (GP_UNLIKELY(f->tier))
		return gp_fit_release(f, n, tile->stream);
	fit_join_in(f, GP_FIT_MAIN, n, fit_freed_by(f, tile->stream));
	return 0;
}

/* ---- the other hooks ---- */

void gp_fit_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct gp_fit *f = gp_fit_of(a);

	*out = (struct gp_usage){ f->live, f->granted_units << GP_TILE_LG_UNIT,
				  f->pool.reserved_bytes, f->streams.waits };
}

void gp_fit_fini(struct gp_allocator *a)
{
	struct gp_fit *f = gp_fit_of(a);

	gp_pool_fini(&f->pool);
	gp_streams_fini(&f->streams);
	gp_tiling_fini(&f->t);
	for (uint32_t s = 0; s < f->n_streams; s++)
		free(f->quick_of[s]);
	free(f->quick_of);
}

int gp_fit_init(struct gp_allocator *a)
{
	struct gp_fit *f = gp_fit_of(a);
	int r;

	if (a->inner && !f->coalesce)
		return gp_allocator_why(a, -EINVAL, "coalesce=false: not below a parent");
	gp_size_bins_init(&f->bins);
	f->tier = a->inner;
	f->plain = f->coalesce && f->rule == GP_FIT_GOOD;
	f->quick_units = f->coalesce ? (uint32_t)(f->quick >> GP_TILE_LG_UNIT) : 0;
	f->stream_mask = gp_pool_stream(&f->pool, UINT32_MAX);
	gp_streams_init(&f->streams, a->dev);
	r = gp_pool_init(&f->pool, a);
	if (r)
		return r;
	r = gp_tiling_init(&f->t, gp_pool_joins(&f->pool));
	if (!r)
		r = gp_fit_know(f, 0);
	if (r)
		gp_fit_fini(a);
	return r;
}

struct gp_fit *gp_fit_in(const struct gp_allocator *a)
{
	return a->ops->init == gp_fit_init ? gp_fit_of(a) : NULL;
}
