/* SPDX-License-Identifier: Apache-2.0
 *
 * fit_grow: what fit does when its bins alone don't serve a request: waits, chunks of small blocks,
 * alignment, growth, and memory given back.
 */
#include "fit_tiles.h"

#include <errno.h>

/* Small blocks may have this share of what is held before what is quick is joined: joining all for one
 * request of a new size, and cutting it again for the next, is most of the work on small blocks. */
#define FIT_LG_SMALL_SHARE 10

/* ---- giving back ---- */

int fit_drop_within(struct gp_fit *f, uint32_t n, uint64_t keep, uint64_t *released)
{
	struct gp_range range;
	int r = 0;

	while (n && !r && f->pool.reserved_bytes > keep) {
		const struct gp_tile *tile = &f->t.tiles[n];
		uint64_t addr = gp_hole_addr(tile);
		uint32_t right;

		if (!gp_pool_range_within(&f->pool, addr, addr + gp_hole_bytes(tile), &range))
			return 0;
		if (f->tier)
			r = gp_streams_wait_for(
				&f->streams, tile->users,
				(uint32_t)gp_range_set_at(&f->pool.ranges, range.addr)->tag);
		if (!r)
			r = gp_tiling_room(&f->t, 2);
		if (r)
			return r;
		fit_unlink(f, n);
		gp_tiling_drop(&f->t, n, range, &right);
		if (f->t.tiles[n].state != GP_TILE_DEAD)
			fit_put(f, n);
		if (right && right != n)
			fit_put(f, right);
		n = right;
		r = gp_pool_put(&f->pool, range.addr);
		*released += range.size;
	}
	return r;
}

/* coalesce=false: joins what is free after all. */
static void fit_join_classes(struct gp_fit *f)
{
	for (uint32_t n = 1; n < f->t.n; n++)
		if (f->t.tiles[n].state == (GP_TILE_GAP | GP_TILE_SMALL)) {
			fit_unlink(f, n);
			f->t.tiles[n].state = GP_TILE_GAP;
			fit_put(f, n);
		}
	for (uint32_t n = 1; n < f->t.n; n++)
		if (f->t.tiles[n].state == GP_TILE_GAP &&
		    f->t.tiles[f->t.tiles[n].prev].state == GP_TILE_GAP)
			fit_join_in(f, GP_FIT_MAIN, n, f->t.tiles[n].users);
}

/* After a synchronisation free memory is anybody's. */
static int fit_trim(struct gp_fit *f, uint64_t keep, uint64_t *released)
{
	int r = gp_device_sync(f->pool.a->dev);

	if (!r && f->coalesce)
		r = gp_fit_flush(f);
	for (uint32_t n = 1; n < f->t.n && !r; n++)
		f->t.tiles[n].users.set = 0;
	if (!r && !f->coalesce)
		fit_join_classes(f);
	if (!r && f->idle && f->pool.reserved_bytes > keep)
		r = f->idle(f);
	f->drained = GP_TILE_NIL;
	for (uint32_t n = 1; n < f->t.n && !r; n++) {
		enum gp_tile_state state = gp_tile_state(&f->t.tiles[n]);

		if (state != GP_TILE_DEAD && state != GP_TILE_END &&
		    fit_part(&f->t.tiles[n]) == GP_FIT_MAIN && f->t.tiles[n].hole)
			r = fit_drop_within(f, n, keep, released);
	}
	return r;
}

int gp_fit_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	return fit_trim(gp_fit_of(a), keep, released);
}

/* ---- growing ---- */

uint32_t gp_fit_tail(const struct gp_fit *f, uint64_t *end)
{
	const struct gp_range_entry *top = gp_range_set_floor(&f->pool.ranges, UINT64_MAX);
	uint32_t last;

	if (!top || !f->t.joins)
		return GP_TILE_NIL;
	*end = top->addr + top->size;
	last = gp_tiling_last(&f->t, *end);
	return f->t.tiles[last].hole ? last : GP_TILE_NIL;
}

static void fit_add(struct gp_fit *f, struct gp_range range, uint16_t streams, uint32_t *out)
{
	struct gp_stream_users users = { streams, f->streams.epoch };
	uint32_t before, after;

	gp_tiling_around(&f->t, range, &before, &after);
	if (after) {
		fit_unlink(f, after);
		if (f->t.tiles[after].hole)
			users = gp_streams_join(&f->streams, users, f->t.tiles[after].users);
	}
	if (before) {
		fit_unlink(f, before);
		if (f->t.tiles[before].hole)
			users = gp_streams_join(&f->streams, f->t.tiles[before].users, users);
	}
	*out = gp_tiling_add(&f->t, range, before, after);
	f->t.tiles[*out].users = users;
	fit_put(f, *out);
}

void gp_fit_add(struct gp_fit *f, struct gp_range range, uint32_t *out)
{
	fit_add(f, range, 0, out);
}

/* Gets a hole of at least `units`, which was nowhere: where the address range goes on after one, only
 * what is missing to it is asked for. */
static int fit_grow(struct gp_fit *f, uint32_t units, uint32_t stream, uint32_t *out)
{
	uint64_t size = (uint64_t)units << GP_TILE_LG_UNIT, page = f->pool.page, end, need;
	struct gp_range range;
	uint32_t tail;
	int r = gp_tiling_room(&f->t, 2);

	if (r)
		return r;
	tail = gp_fit_tail(f, &end);
	/* fit=class may pass over a block that is large enough. */
	if (tail && f->t.tiles[tail].hole >= units) {
		*out = tail;
		return 0;
	}
	r = GP_NOMEM;
	if (tail) {
		need = gp_align_up(size - gp_hole_bytes(&f->t.tiles[tail]), page);
		r = gp_pool_get_at(&f->pool, end, gp_pool_growth(&f->pool, need), &range);
		if (r > 0)
			r = gp_pool_get_at(&f->pool, end, need, &range);
	}
	if (r > 0)
		r = gp_pool_get(&f->pool, gp_pool_growth(&f->pool, size), gp_align_up(size, page),
				page, stream, &range);
	if (r)
		return r;
	/* Memory of the device is fresh; a parent gives what may be used on this stream. */
	fit_add(f, range, f->tier ? gp_stream_bit(stream) : 0, out);
	return 0;
}

/* Grows; when the device has no more, gives back what is empty and tries again, for no more than is
 * needed. */
static int fit_grow_or_trim(struct gp_fit *f, uint32_t want, uint32_t units, uint32_t stream,
			    uint32_t *out)
{
	uint64_t released = 0;
	int r;

	/* A parent gives what it holds, and is sparing itself. */
	if (gp_is_sparing(f->pool.a))
		return f->tier ? fit_grow(f, units, stream, out) : GP_NOMEM;
	r = fit_grow(f, want, stream, out);
	if (r > 0 && units < want)
		r = fit_grow(f, units, stream, out);
	if (r <= 0)
		return r;
	r = fit_trim(f, 0, &released);
	*out = fit_find(f, GP_FIT_MAIN, units);
	return r || *out ? r : fit_grow(f, units, stream, out);
}

/* The hole of tile n of main, or its beginning when it is larger, becomes a chunk: all hole of a piece of
 * its own. Room for two is there. */
static void fit_make_chunk(struct gp_fit *f, uint32_t n, uint32_t units, uint32_t *out)
{
	const struct gp_tile *tile = &f->t.tiles[n];
	struct gp_stream_users users = tile->users;
	uint32_t chunk, gap;

	units = units < tile->hole ? units : tile->hole;
	fit_unlink(f, n);
	chunk = fit_cut(f, GP_FIT_MAIN, n, 0, units, 0, GP_TILE_CHUNK);
	gap = gp_tiling_record(&f->t, gp_tile_unit(&f->t.tiles[chunk]), 0,
			       GP_TILE_GAP | GP_TILE_SMALL);
	f->t.tiles[gap].stream = 0;
	f->t.tiles[gap].hole = units;
	f->t.tiles[gap].users = users;
	f->t.tiles[gap].prev = f->t.tiles[gap].next = GP_TILE_NIL;
	f->t.tiles[gap].chain = chunk;
	f->t.tiles[chunk].chain = gap;
	f->small_units += units;
	fit_put(f, gap);
	*out = gap;
}

/* One more chunk for small blocks, where there are few and main has a hole for it. */
static bool fit_spare_chunk(struct gp_fit *f, uint32_t *out)
{
	uint64_t share = f->pool.reserved_bytes >> (GP_TILE_LG_UNIT + FIT_LG_SMALL_SHARE);
	uint32_t n = f->small_units + FIT_CHUNK <= share ? fit_find(f, GP_FIT_MAIN, FIT_CHUNK) : 0;

	if (n)
		fit_make_chunk(f, n, FIT_CHUNK, out);
	return n;
}

/* A hole of a part for at least `units`. There is room for one more tile then. */
static int fit_obtain(struct gp_fit *f, enum gp_fit_part part, uint32_t units, uint32_t stream,
		      uint32_t *out)
{
	uint32_t want = part == GP_FIT_SMALL && units < FIT_CHUNK ? FIT_CHUNK : units;
	int r = gp_tiling_room(&f->t, 2);

	if (r)
		return r;
	*out = fit_find(f, part, units);
	if (*out || (want != units && fit_spare_chunk(f, out)))
		return gp_tiling_room(&f->t, 1);
	r = gp_fit_flush(f);
	if (!r)
		r = gp_tiling_room(&f->t, 2);
	if (r)
		return r;
	*out = fit_find(f, part, units);
	if (*out)
		return 0;
	if (part == GP_FIT_SMALL) {
		*out = fit_find(f, GP_FIT_MAIN, want);
		if (!*out)
			*out = fit_find(f, GP_FIT_MAIN, units);
	}
	if (!*out)
		r = fit_grow_or_trim(f, want, units, stream, out);
	if (!r && part == GP_FIT_SMALL)
		fit_make_chunk(f, *out, want, out);
	return r ? r : gp_tiling_room(&f->t, 1);
}

/* ---- the slow path of alloc ---- */

/* Before memory of the hole of tile n is used on a stream. It is that stream's from now on, the rest of it
 * too: the stream has waited for everybody else, and keeping the others in the set made four times as
 * many waits (traces/multi_stream). */
int gp_fit_wait(struct gp_fit *f, uint32_t n, uint32_t stream)
{
	struct gp_tile *tile = &f->t.tiles[n];
	int r = gp_streams_wait_for(&f->streams, tile->users, stream);

	if (!r)
		tile->users = fit_freed_by(f, stream);
	return r;
}

/* coalesce=false: each block that was freed is the hole of a tile of no block, in the bins of `small`. A new
 * one is cut from main, and what is left of the hole there gets such a tile too, so that no block has a
 * hole. */
static int fit_obtain_class(struct gp_fit *f, uint32_t units, uint32_t stream, uint32_t *out)
{
	struct gp_tiling *t = &f->t;
	uint32_t n =
		gp_size_bins_latest(t, GP_FIT_SMALL * GP_BINS_CLASSES + gp_size_bins_class(units));
	int r = 0;

	*out = n;
	if (n && t->tiles[n].hole >= units)
		return gp_tiling_room(t, 1);
	r = fit_obtain(f, GP_FIT_MAIN, units, stream, &n);
	if (!r)
		r = gp_tiling_room(t, 3);
	if (r)
		return r;
	fit_unlink(f, n);
	*out = n;
	/* A block stays one, and a piece goes on beginning with its GAP. */
	if (t->tiles[n].units || !t->tiles[n].prev) {
		*out = gp_tiling_cut(t, n, 0, 0, GP_TILE_GAP);
		gp_size_bins_none(t, n);
	}
	if (t->tiles[*out].hole > units)
		fit_put(f, gp_tiling_cut(t, *out, units, 0, GP_TILE_GAP));
	t->tiles[*out].state |= GP_TILE_SMALL;
	fit_put(f, *out);
	return 0;
}

/* coalesce=false: the whole hole of tile n is handed out, which is no block. */
static void fit_hand_out_class(struct gp_fit *f, uint32_t n, uint32_t stream, struct gp_block *out)
{
	struct gp_tile *tile = &f->t.tiles[n];

	fit_unlink(f, n);
	gp_size_bins_none(&f->t, n);
	tile->state = GP_TILE_USED;
	tile->stream = (uint16_t)stream;
	tile->units = tile->hole;
	tile->hole = 0;
	gp_tile_index_add(&f->t.index, gp_tile_unit(tile), n);
	f->live++;
	f->granted_units += tile->units;
	*out = (struct gp_block){ gp_tile_addr(tile), gp_tile_bytes(tile) };
}

/* The upper bound of the class: with it, any block of a class serves any request of the class. */
static uint64_t fit_round_to_class(const struct gp_fit *f, uint64_t units)
{
	unsigned fl = gp_floor_log2(units), lg_steps = gp_floor_log2(f->classes);

	return fl > lg_steps ? gp_align_up(units, UINT64_C(1) << (fl - lg_steps)) : units;
}

GP_NOINLINE int fit_alloc_slow(struct gp_fit *f, const struct gp_request *req, struct gp_block *out)
{
	uint64_t units = (req->size + GP_ALIGN - 1) >> GP_TILE_LG_UNIT, padded = units;
	uint32_t stream = req->stream & f->stream_mask, n, front = 0;
	uint64_t align = UINT64_C(1) << gp_min_u64(req->lg_align, 63), addr;
	enum gp_fit_part part = units <= f->quick_units ? GP_FIT_SMALL : GP_FIT_MAIN;
	int r = gp_fit_know(f, stream);

	if (r)
		return r;
	if (align > GP_ALIGN)
		padded += (align >> GP_TILE_LG_UNIT) - 1;
	if (!f->coalesce)
		padded = units = fit_round_to_class(f, padded);
	if (padded > UINT32_MAX)
		return GP_NOMEM;
	r = f->coalesce ? fit_obtain(f, part, (uint32_t)padded, stream, &n)
			: fit_obtain_class(f, (uint32_t)padded, stream, &n);
	if (!r)
		r = gp_fit_wait(f, n, stream);
	if (!r)
		r = gp_tiling_room(&f->t, 2);
	if (r)
		return r;
	addr = gp_hole_addr(&f->t.tiles[n]);
	if (align > GP_ALIGN)
		front = (uint32_t)((gp_align_up(addr, align) - addr) >> GP_TILE_LG_UNIT);
	if (!f->coalesce && !front) {
		fit_hand_out_class(f, n, stream, out);
		return 0;
	}
	fit_unlink(f, n);
	if (f->coalesce)
		fit_hand_out(f, part, n, front, (uint32_t)units, stream,
			     part == GP_FIT_SMALL ? GP_TILE_USED | GP_TILE_SMALL : GP_TILE_USED,
			     out);
	else
		fit_hand_out(f, GP_FIT_SMALL, n, front, f->t.tiles[n].hole - front, stream,
			     GP_TILE_USED, out);
	return 0;
}
