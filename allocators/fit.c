/* SPDX-License-Identifier: Apache-2.0
 *
 * fit: cutting, joining, growing, giving back, and the audit; the quick lists are inline in fit.h.
 */
#include "fit.h"

#include <errno.h>
#include <stdlib.h>

/* What small blocks take from main at once: a page, so that an empty one can go back to the device. */
#define FIT_CHUNK ((uint32_t)(2 * GP_MIB >> GP_TILE_LG_UNIT))

/* Small blocks may have this share of what is held before what is quick is joined: joining all for one
 * request of a new size, and cutting it again for the next, is most of the work on small blocks. */
#define FIT_LG_SMALL_SHARE 10

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

/* ---- free tiles ---- */

static inline enum gp_fit_part fit_part(const struct gp_tile *tile)
{
	return tile->state & GP_TILE_SMALL ? GP_FIT_SMALL : GP_FIT_MAIN;
}

static uint32_t fit_find(struct gp_fit *f, enum gp_fit_part part, uint32_t units)
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

void gp_fit_hand_out(struct gp_fit *f, uint32_t n, uint32_t units, uint32_t stream,
		     struct gp_block *out)
{
	fit_unlink(f, n);
	fit_hand_out(f, GP_FIT_MAIN, n, units, stream, GP_TILE_USED, out);
}

/* ---- joining ---- */

static struct gp_stream_users fit_users(const struct gp_tile *tile)
{
	return (struct gp_stream_users){ tile->streams, tile->epoch };
}

/* Two tiles that become one have users of different streams. */
static GP_NOINLINE void fit_join_users(struct gp_fit *f, struct gp_tile *tile,
				       const struct gp_tile *right)
{
	struct gp_stream_users users =
		gp_streams_join(&f->streams, fit_users(tile), fit_users(right));

	tile->streams = users.set;
	tile->epoch = users.epoch;
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

static uint32_t fit_join(struct gp_fit *f, uint32_t n)
{
	return fit_join_in(f, fit_part(&f->t.tiles[n]), n);
}

/* Is small tile n all of the chunks around it, or as much as one? */
static bool fit_chunk_over(const struct gp_fit *f, uint32_t n)
{
	const struct gp_tile *tile = &f->t.tiles[n];

	return tile->units >= FIT_CHUNK ||
	       !((f->t.tiles[tile->prev].state | f->t.tiles[tile->next].state) & GP_TILE_SMALL);
}

static int fit_drop_within(struct gp_fit *f, uint32_t n, uint64_t keep, uint64_t *released);

/* A tier gives a wholly free range back when it has another one already. */
static GP_NOINLINE int fit_drained(struct gp_fit *f, uint32_t n)
{
	uint64_t unused = 0;

	if (f->drained)
		return fit_drop_within(f, n, 0, &unused);
	f->drained = n;
	return 0;
}

/* Tile n, which is marked free but in no list, becomes so. */
static int fit_release(struct gp_fit *f, uint32_t n)
{
	if (GP_LIKELY(f->coalesce || !(f->t.tiles[n].state & GP_TILE_SMALL)))
		n = fit_join(f, n);
	if (f->t.tiles[n].state & GP_TILE_SMALL && f->coalesce && fit_chunk_over(f, n)) {
		f->small_units -= f->t.tiles[n].units;
		f->t.tiles[n].state = GP_TILE_FREE;
		n = fit_join(f, n);
	}
	fit_push(f, n);
	if (GP_UNLIKELY(f->tier) && gp_tiling_alone(&f->t, n) &&
	    f->t.tiles[n].state == GP_TILE_FREE)
		return fit_drained(f, n);
	return 0;
}

/* A block that is in the index there becomes free. */
static int fit_let_go(struct gp_fit *f, uint32_t n, uint32_t slot, uint8_t state)
{
	struct gp_tile *tile = &f->t.tiles[n];

	gp_tile_index_remove(&f->t.index, f->t.tiles, slot);
	tile->state = state;
	tile->streams = gp_stream_bit(tile->streams);
	tile->epoch = f->streams.epoch;
	return fit_release(f, n);
}

int gp_fit_release(struct gp_fit *f, uint32_t n, uint32_t stream)
{
	struct gp_tile *tile = &f->t.tiles[n];

	tile->state = GP_TILE_FREE;
	tile->streams = gp_stream_bit(stream);
	tile->epoch = f->streams.epoch;
	return fit_release(f, n);
}

/* A quick block that is in no list any more is joined. */
static int fit_settle(struct gp_fit *f, uint32_t n)
{
	uint32_t slot;

	gp_tile_index_probe(&f->t.index, f->t.tiles, gp_tile_unit(&f->t.tiles[n]), &slot);
	return fit_let_go(f, n, slot, GP_TILE_FREE | GP_TILE_SMALL);
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

/* ---- giving back ---- */

/* Gives back the ranges that lie wholly in free tile n, while more than `keep` is held. The parent
 * of a tier takes a range to be used on the stream it was asked for on, so that stream has to wait
 * for the last users. */
static int fit_drop_within(struct gp_fit *f, uint32_t n, uint64_t keep, uint64_t *released)
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

/* A request of any kind. */
static GP_NOINLINE int fit_alloc_slow(struct gp_fit *f, const struct gp_request *req,
				      struct gp_block *out)
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

/* From the bins, where that is all there is to do. */
static inline int fit_alloc(struct gp_fit *f, enum gp_fit_part part, const struct gp_request *req,
			    struct gp_block *out)
{
	uint64_t units = (req->size + GP_ALIGN - 1) >> GP_TILE_LG_UNIT;
	uint32_t stream = req->stream & f->stream_mask, n;
	unsigned c;

	if (GP_UNLIKELY(!f->plain || units > UINT32_MAX || stream >= f->n_streams ||
			req->lg_align > GP_TILE_LG_UNIT || gp_tiling_room(&f->t, 1)))
		return fit_alloc_slow(f, req, out);
	n = gp_size_bins_find(&f->bins[part], &f->t, (uint32_t)units, &c);
	if (GP_UNLIKELY(!n || f->t.tiles[n].streams & ~(unsigned)gp_stream_bit(stream)))
		return fit_alloc_slow(f, req, out);
	gp_size_bins_pop(&f->bins[part], &f->t, c);
	if (GP_UNLIKELY(n == f->drained))
		f->drained = GP_TILE_NIL;
	fit_hand_out(f, part, n, (uint32_t)units, stream,
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

int gp_fit_free_join(struct gp_fit *f, uint32_t n, uint32_t slot, uint64_t addr)
{
	struct gp_tile *tile = &f->t.tiles[n];

	if (GP_UNLIKELY(tile->state != GP_TILE_USED))
		return fit_refuse(f, n, addr);
	f->live--;
	f->granted_units -= tile->units;
	if (GP_UNLIKELY(!f->plain || f->tier))
		return fit_let_go(f, n, slot,
				  f->coalesce ? GP_TILE_FREE : GP_TILE_FREE | GP_TILE_SMALL);
	/* The same, where that is all there is to do. */
	gp_tile_index_remove(&f->t.index, f->t.tiles, slot);
	tile->state = GP_TILE_FREE;
	tile->streams = gp_stream_bit(tile->streams);
	tile->epoch = f->streams.epoch;
	n = fit_join_in(f, GP_FIT_MAIN, n);
	gp_size_bins_add(&f->bins[GP_FIT_MAIN], &f->t, n);
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
	for (unsigned i = 0; i < GP_FIT_PARTS; i++)
		gp_size_bins_init(&f->bins[i], GP_LINK_FIRST + i * GP_BINS_CLASSES);
	f->tier = a->inner;
	f->plain = f->coalesce && f->rule == GP_FIT_GOOD;
	f->quick_units = f->coalesce ? (uint32_t)(f->quick >> GP_TILE_LG_UNIT) : 0;
	f->stream_mask = gp_pool_stream(&f->pool, UINT32_MAX);
	gp_streams_init(&f->streams, a->dev);
	r = gp_pool_init(&f->pool, a);
	if (r)
		return r;
	r = gp_tiling_init(&f->t, gp_pool_joins(&f->pool), GP_FIT_PARTS * GP_BINS_CLASSES);
	if (!r)
		r = gp_fit_know(f, 0);
	if (r)
		gp_fit_fini(a);
	return r;
}

/* ---- audit and walk ---- */

/* Sums up, and finds neighbours that ought to be one. */
static int fit_check_tiles(const struct gp_fit *f, const char *owner,
			   uint64_t units[GP_TILE_STATES + GP_TILE_SMALL], FILE *why)
{
	for (uint32_t n = f->t.first; n < f->t.n; n++) {
		const struct gp_tile *b = &f->t.tiles[n], *next = &f->t.tiles[b->next];
		bool small = b->state & GP_TILE_SMALL;

		units[b->state] += b->units;
		if (gp_tile_state(b) == GP_TILE_FREE && next->state == b->state &&
		    (f->coalesce || !small))
			return gp_tiling_complain(&f->t, n, owner,
						  "is free beside a free block of its part", why);
		if (gp_tile_state(b) == GP_TILE_USED && f->coalesce &&
		    small != (b->units <= f->quick_units))
			return gp_tiling_complain(&f->t, n, owner, "is in the wrong part", why);
	}
	return 0;
}

int gp_fit_check(const struct gp_allocator *a, FILE *why)
{
	const struct gp_fit *f = gp_fit_of(a);
	uint64_t units[GP_TILE_STATES + GP_TILE_SMALL] = { 0 };
	uint64_t used, is_free, held, binned = 0, quick = 0;
	const char *owner = a->ops->name;
	int r = gp_tiling_check(&f->t, owner, why);

	if (!r)
		r = fit_check_tiles(f, owner, units, why);
	for (unsigned i = 0; i < GP_FIT_PARTS && !r; i++)
		r = gp_size_bins_check(&f->bins[i], &f->t,
				       GP_TILE_FREE | (i == GP_FIT_SMALL ? GP_TILE_SMALL : 0u),
				       owner, &binned, why);
	for (uint32_t s = 0; s < f->n_streams && !r; s++)
		r = gp_quick_check(f->quick_of[s], &f->t, GP_TILE_QUICK | GP_TILE_SMALL, s, owner,
				   &quick, why);
	used = units[GP_TILE_USED] + units[GP_TILE_USED | GP_TILE_SMALL] + units[GP_TILE_PART];
	is_free = units[GP_TILE_FREE] + units[GP_TILE_FREE | GP_TILE_SMALL];
	held = used + is_free + units[GP_TILE_QUICK | GP_TILE_SMALL];
	if (r || (is_free == binned && units[GP_TILE_QUICK | GP_TILE_SMALL] == quick &&
		  used == f->granted_units &&
		  held << GP_TILE_LG_UNIT == f->pool.reserved_bytes - f->pool.unused.size))
		return r;
	fprintf(why, "%s: units used %llu, free %llu (%llu in bins), all %llu do not add up\n",
		owner, (unsigned long long)used, (unsigned long long)is_free,
		(unsigned long long)binned, (unsigned long long)held);
	return -EILSEQ;
}

int gp_fit_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	const struct gp_fit *f = gp_fit_of(a);
	int r = f->pool.unused.size ? fn(arg, f->pool.unused, false) : 0;

	for (uint32_t i = f->t.first; i < f->t.n && !r; i++) {
		const struct gp_tile *b = &f->t.tiles[i];

		/* The first tile of a piece. */
		if (b->state == GP_TILE_DEAD || b->state == GP_TILE_END || b->prev)
			continue;
		for (; b->state != GP_TILE_END && !r; b = &f->t.tiles[b->next])
			r = fn(arg, (struct gp_range){ gp_tile_addr(b), gp_tile_bytes(b) },
			       gp_tile_state(b) == GP_TILE_USED || b->state == GP_TILE_PART);
	}
	return r;
}
