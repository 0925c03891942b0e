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
	uint32_t left;
	int r = 0;

	while (n && !r && f->pool.reserved_bytes > keep) {
		const struct gp_tile *b = &f->t.tiles[n];
		uint64_t addr = gp_tile_addr(b);

		if (!gp_pool_range_within(&f->pool, addr, addr + gp_tile_bytes(b), &range))
			return 0;
		if (f->tier)
			r = gp_streams_wait_for(
				&f->streams, fit_users(b),
				(uint32_t)gp_range_set_at(&f->pool.ranges, range.addr)->tag);
		if (!r)
			r = gp_tiling_room(&f->t, 2);
		if (r)
			return r;
		fit_unlink(f, n);
		gp_tiling_drop(&f->t, n, range, &left, &n);
		if (left)
			fit_push(f, left);
		if (n)
			fit_push(f, n);
		r = gp_pool_put(&f->pool, range.addr);
		*released += range.size;
	}
	return r;
}

/* coalesce=false: joins what is free after all. */
static int fit_join_classes(struct gp_fit *f)
{
	int r = 0;

	for (uint32_t n = f->t.first; n < f->t.n && !r; n++) {
		if (f->t.tiles[n].state != (GP_TILE_FREE | GP_TILE_SMALL))
			continue;
		fit_unlink(f, n);
		f->t.tiles[n].state = GP_TILE_FREE;
		r = fit_release(f, n);
	}
	return r;
}

/* After a synchronisation free memory is anybody's. */
static int fit_trim(struct gp_fit *f, uint64_t keep, uint64_t *released)
{
	int r = gp_device_sync(f->pool.a->dev);

	if (!r)
		r = f->coalesce ? gp_fit_flush(f) : fit_join_classes(f);
	if (!r && f->idle && f->pool.reserved_bytes > keep)
		r = f->idle(f);
	f->drained = GP_TILE_NIL;
	for (uint32_t n = f->t.first; n < f->t.n && !r; n++) {
		if (gp_tile_state(&f->t.tiles[n]) != GP_TILE_FREE)
			continue;
		f->t.tiles[n].streams = 0;
		if (f->t.tiles[n].state == GP_TILE_FREE)
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
	return f->t.tiles[last].state == GP_TILE_FREE ? last : GP_TILE_NIL;
}

static void fit_add(struct gp_fit *f, struct gp_range range, uint16_t streams, uint32_t *out)
{
	uint32_t n = gp_tiling_add(&f->t, range);

	f->t.tiles[n].state = GP_TILE_FREE;
	f->t.tiles[n].streams = streams;
	f->t.tiles[n].epoch = f->streams.epoch;
	*out = fit_join(f, n);
	fit_push(f, *out);
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
	if (tail && f->t.tiles[tail].units >= units) {
		*out = tail;
		return 0;
	}
	r = GP_NOMEM;
	if (tail) {
		need = gp_align_up(size - gp_tile_bytes(&f->t.tiles[tail]), page);
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

/* The hole n of main becomes a chunk of small blocks, or its beginning does when it is larger. */
static void fit_make_chunk(struct gp_fit *f, uint32_t n, uint32_t units, uint32_t *out)
{
	fit_unlink(f, n);
	if (f->t.tiles[n].units > units)
		fit_push(f, gp_tiling_cut(&f->t, n, units));
	f->t.tiles[n].state = GP_TILE_FREE | GP_TILE_SMALL;
	f->small_units += f->t.tiles[n].units;
	*out = fit_join(f, n);
	fit_push(f, *out);
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

/* A hole of a part for at least `units`. There is room for one more tile after it. */
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

/* Before memory of free tile n is used on a stream. It is that stream's from now on, the rest of it
 * too: the stream has waited for everybody else, and keeping the others in the set made four times as
 * many waits (traces/multi_stream). */
int gp_fit_wait(struct gp_fit *f, uint32_t n, uint32_t stream)
{
	struct gp_tile *tile = &f->t.tiles[n];
	int r = gp_streams_wait_for(&f->streams, fit_users(tile), stream);

	if (!r) {
		tile->streams = gp_stream_bit(stream);
		tile->epoch = f->streams.epoch;
	}
	return r;
}

/* Frees what lies before the aligned start in free tile n; returns the tile that starts there. Room
 * for two is there. */
static uint32_t fit_align(struct gp_fit *f, uint32_t n, uint64_t align)
{
	uint64_t addr = gp_tile_addr(&f->t.tiles[n]);
	uint32_t front = (uint32_t)((gp_align_up(addr, align) - addr) >> GP_TILE_LG_UNIT), rest;

	if (!front)
		return n;
	fit_unlink(f, n);
	rest = gp_tiling_cut(&f->t, n, front);
	fit_push(f, n);
	fit_push(f, rest);
	return rest;
}

/* coalesce=false: the bins of `small` hold what was freed, each block of exactly its class; a new one
 * is cut from main. */
static int fit_obtain_class(struct gp_fit *f, uint32_t units, uint32_t stream, uint32_t *out)
{
	int r = gp_tiling_room(&f->t, 1);

	*out = gp_size_bins_latest(&f->bins[GP_FIT_SMALL], &f->t, gp_size_bins_class(units));
	if (r || *out)
		return r;
	r = fit_obtain(f, GP_FIT_MAIN, units, stream, out);
	if (r)
		return r;
	fit_unlink(f, *out);
	if (f->t.tiles[*out].units > units)
		fit_push(f, gp_tiling_cut(&f->t, *out, units));
	f->t.tiles[*out].state |= GP_TILE_SMALL;
	fit_push(f, *out);
	return gp_tiling_room(&f->t, 1);
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
	uint32_t stream = req->stream & f->stream_mask, n;
	uint64_t align = UINT64_C(1) << gp_min_u64(req->lg_align, 63);
	enum gp_fit_part part = units <= f->quick_units ? GP_FIT_SMALL : GP_FIT_MAIN;
	uint8_t state;
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
	if (align > GP_ALIGN)
		n = fit_align(f, n, align);
	fit_unlink(f, n);
	state = fit_part(&f->t.tiles[n]) == GP_FIT_SMALL && f->coalesce
			? GP_TILE_USED | GP_TILE_SMALL
			: GP_TILE_USED; /* with coalesce=false only what is free is small */
	fit_hand_out(f, fit_part(&f->t.tiles[n]), n,
		     (uint32_t)gp_min_u64(units, f->t.tiles[n].units), stream, state, out);
	return 0;
}
