/* SPDX-License-Identifier: Apache-2.0
 *
 * segregated: free lists by size class over blocks that split and coalesce.
 *
 * Shape        ranges from the pool, tiled by blocks; the free ones, for each stream and for memory
 *              that no stream has used yet, in bins by size class (free_tiles.h). Small ones first
 *              lie in quick lists, whole, and are joined when nothing else fits, and when they come
 *              to more than a 32nd of what is held.
 * Choice       fit=good   the best of the first 8 blocks in the request's own class, else of the
 *                         next class that has any: all of those are large enough
 *              fit=class  never looks into the own class (TLSF's rule)
 *              fit=best   the best of the whole class: exact best fit, and linear in the list
 *              A quick block of the very size, own stream, fresh memory, then other streams' (with
 *              an event wait), then growth, then growth after everything empty was given back.
 * Invariants   used + free + quick = held; and those of free_tiles      -> seg_check() tests each
 * Cost         alloc, free: O(1), but fit=best. 32 bytes a block, and what the index takes for it
 * Waste        internal < 256 bytes a block; external: what best fit has, see the README
 *              coalesce=false: requests round up to their class and blocks are never cut or joined
 *              again before a trim (simple segregated storage): internal < 1/classes, external
 *              the sum of each class's own peak
 * Threads      one at a time
 */
#include "free_tiles.h"
#include "pool.h"
#include "streams.h"

#include <errno.h>
#include <stdlib.h>

#define SEG_NEAR 8 /* blocks that fit=good looks at */
/* In the recordings no larger bound gained anything, and blocks above 32 KiB that wait to be joined
 * made the heap larger by up to 1 %. */
#define SEG_QUICK          "32K"
#define SEG_QUICK_MAX      (GP_ALIGN * (GP_QUICK_KEYS - 1))
#define SEG_LG_QUICK_SHARE 5 /* of what is held */

enum seg_fit {
	SEG_FIT_GOOD,
	SEG_FIT_CLASS,
	SEG_FIT_BEST,
};

static const char *const seg_fit_choices[] = { "good", "class", "best", NULL };

struct seg {
	uint64_t classes, quick;
	unsigned fit;
	struct gp_pool pool;

	struct gp_free_tiles f;
	struct gp_streams streams;
	uint32_t quick_units; /* largest quick block */
	uint32_t drained;     /* tier: the one wholly free range that is kept */
	uint64_t live, granted_units;
};

/* Makes the stream known. */
static int seg_know(struct seg *s, uint32_t stream)
{
	int r = 0;

	if (!gp_free_tiles_knows(&s->f, stream)) {
		r = gp_streams_know(&s->streams, stream);
		if (!r)
			r = gp_free_tiles_know(&s->f, stream);
	}
	return r;
}

/* Another stream's free block becomes `stream`'s, which has waited for it; returns what it
 * joined. */
static uint32_t seg_adopt(struct seg *s, uint32_t n, uint16_t stream)
{
	gp_free_tiles_unlink(&s->f, n);
	if (n == s->drained)
		s->drained = GP_TILE_NIL;
	s->f.t.tiles[n].stream = stream;
	return gp_free_tiles_release(&s->f, n, stream);
}

/* ---- giving back ---- */

/* Gives back the ranges that lie wholly in free block n, while more than `keep` is held. The
 * parent of a tier takes a range to be used on the stream it was asked for on, so that stream has
 * to wait for the last user. */
static int seg_drop_within(struct seg *s, uint32_t n, uint64_t keep, uint64_t *released)
{
	bool tier = s->pool.a->inner;
	struct gp_range range;
	uint32_t left;
	int r = 0;

	while (n && !r && s->pool.reserved_bytes > keep) {
		struct gp_tile *b = &s->f.t.tiles[n];

		if (!gp_pool_range_within(&s->pool, b->addr, b->addr + gp_tile_bytes(b), &range))
			return 0;
		if (tier && b->stream != GP_FREE_FRESH)
			r = gp_streams_wait(
				&s->streams, b->stream,
				(uint32_t)gp_range_set_at(&s->pool.ranges, range.addr)->tag);
		if (!r)
			r = gp_tiling_room(&s->f.t, 2);
		if (r)
			return r;
		gp_free_tiles_unlink(&s->f, n);
		gp_tiling_drop(&s->f.t, n, range, &left, &n);
		if (left)
			gp_free_tiles_push(&s->f, left);
		if (n)
			gp_free_tiles_push(&s->f, n);
		r = gp_pool_put(&s->pool, range.addr);
		*released += range.size;
	}
	return r;
}

/* A tier gives a wholly free range back when it has another one already. */
static int seg_drained(struct seg *s, uint32_t n)
{
	uint64_t unused = 0;

	if (s->drained)
		return seg_drop_within(s, n, 0, &unused);
	s->drained = n;
	return 0;
}

/* A block that was handed out becomes free. */
static int seg_let_go(struct seg *s, uint32_t n)
{
	n = gp_free_tiles_release(&s->f, n, s->f.t.tiles[n].stream);
	if (GP_UNLIKELY(s->pool.a->inner) && gp_tiling_alone(&s->f.t, n))
		return seg_drained(s, n);
	return 0;
}

/* Joins what a stream's quick lists keep. */
static int seg_flush(struct seg *s, uint16_t stream)
{
	struct gp_quick *q = &gp_free_tiles_of(&s->f, stream)->quick;
	uint32_t n;
	int r = 0;

	while (!r && (n = gp_quick_any(q, &s->f.t)))
		r = seg_let_go(s, n);
	return r;
}

static int seg_flush_all(struct seg *s)
{
	int r = 0;

	for (uint32_t i = 1; i < s->f.n_lists && !r; i++)
		r = seg_flush(s, (uint16_t)(i - 1));
	return r;
}

/* After a synchronisation free memory is anybody's: joined, more ranges are wholly free. */
static int seg_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct seg *s = gp_state(a);
	int r = gp_device_sync(a->dev);

	if (!r)
		r = seg_flush_all(s);
	for (uint32_t i = 1; !r && i < s->f.n_lists; i++)
		gp_free_tiles_move(&s->f, (uint16_t)(i - 1), GP_FREE_FRESH);
	s->drained = GP_TILE_NIL;
	for (uint32_t n = 1; n < s->f.t.n && !r; n++)
		if (s->f.t.tiles[n].state == GP_TILE_FREE)
			r = seg_drop_within(s, n, keep, released);
	return r;
}

/* ---- the slow path of alloc ---- */

/* The free block below the highest mapped address, if `stream` may use it. */
static uint32_t seg_tail(const struct seg *s, uint16_t stream, uint64_t *end)
{
	const struct gp_range_entry *top = gp_range_set_floor(&s->pool.ranges, UINT64_MAX);
	uint32_t last;

	if (!top || !s->f.t.joins || !s->f.coalesce)
		return GP_TILE_NIL;
	*end = top->addr + top->size;
	last = gp_tiling_last(&s->f.t, *end);
	return gp_free_tiles_joins(&s->f.t.tiles[last], stream) ? last : GP_TILE_NIL;
}

/* Gets memory for a block of at least `units`. Where the address range goes on after a free block,
 * only what is missing to it is asked for. */
static int seg_grow(struct seg *s, uint32_t units, uint16_t stream, uint32_t *out)
{
	uint64_t size = (uint64_t)units << GP_TILE_LG_UNIT, page = s->pool.page, end, need;
	uint32_t tail = seg_tail(s, stream, &end);
	struct gp_range range;
	/* Memory of the device is fresh; a parent gives what may be used on this stream. */
	uint16_t tag = s->pool.a->inner ? stream : GP_FREE_FRESH;
	int r = gp_tiling_room(&s->f.t, 2);

	if (r)
		return r;
	/* fit=class may pass over a block that is large enough. */
	if (tail && s->f.t.tiles[tail].units >= units) {
		*out = tail;
		return 0;
	}
	r = GP_NOMEM;
	if (tail) {
		need = gp_align_up(size - gp_tile_bytes(&s->f.t.tiles[tail]), page);
		r = gp_pool_get_at(&s->pool, end, gp_pool_growth(&s->pool, need), &range);
		if (r > 0)
			r = gp_pool_get_at(&s->pool, end, need, &range);
	}
	if (r > 0)
		r = gp_pool_get(&s->pool, gp_pool_growth(&s->pool, size), gp_align_up(size, page),
				page, stream, &range);
	/* The parent may have made this stream wait for others, which is as much as taking over: who
	 * waited for this stream before has not waited for them. */
	if (!r && s->pool.a->inner)
		gp_streams_freed(&s->streams, stream);
	if (!r)
		*out = gp_free_tiles_release(&s->f, gp_tiling_add(&s->f.t, range, tag),
					     s->f.coalesce ? stream : tag);
	return r;
}

/* Another stream's block that fits; its stream is waited for. */
static int seg_steal(struct seg *s, uint32_t units, uint16_t stream, uint32_t *out)
{
	for (uint32_t i = 1; i < s->f.n_lists; i++) {
		uint16_t other = (uint16_t)(i - 1);
		uint32_t n;
		int r;

		if (other == stream)
			continue;
		n = gp_free_tiles_find(&s->f, s->f.lists[i], units);
		if (!n)
			continue;
		r = gp_streams_wait(&s->streams, other, stream);
		if (!r)
			*out = seg_adopt(s, n, stream);
		return r;
	}
	return GP_NOMEM;
}

/* Nothing fits on any one stream: takes over all free memory, so that pieces of different streams
 * join. It is linear, and it comes before a growth that costs 50 us. */
static int seg_take_over(struct seg *s, uint32_t units, uint16_t stream)
{
	int r;

	if ((s->pool.reserved_bytes >> GP_TILE_LG_UNIT) - s->granted_units < units)
		return GP_NOMEM;
	for (uint32_t i = 1; i < s->f.n_lists; i++) {
		uint16_t other = (uint16_t)(i - 1);

		if (other == stream || gp_size_bins_empty(&s->f.lists[i]->bins))
			continue;
		r = gp_streams_wait(&s->streams, other, stream);
		if (r)
			return r;
		gp_free_tiles_move(&s->f, other, stream);
	}
	return 0;
}

/* Grows; when the device has no more, gives back what is empty and tries again. */
static int seg_grow_or_trim(struct gp_allocator *a, uint32_t units, uint16_t stream, uint32_t *out)
{
	struct seg *s = gp_state(a);
	uint64_t released = 0;
	int r = seg_grow(s, units, stream, out);

	if (r <= 0)
		return r;
	r = seg_trim(a, 0, &released);
	*out = gp_free_tiles_find_own(&s->f, units, stream);
	return r || *out ? r : seg_grow(s, units, stream, out);
}

/* Own memory, once what is quick is joined; then other streams'; then more. */
static int seg_obtain(struct gp_allocator *a, uint32_t units, uint16_t stream, uint32_t *out)
{
	struct seg *s = gp_state(a);
	int r = seg_flush(s, stream);

	*out = r ? GP_TILE_NIL : gp_free_tiles_find_own(&s->f, units, stream);
	if (r || *out)
		return r;
	r = seg_flush_all(s);
	if (!r)
		r = seg_steal(s, units, stream, out);
	if (r <= 0)
		return r;
	r = seg_take_over(s, units, stream);
	if (r < 0)
		return r;
	*out = r ? GP_TILE_NIL : gp_free_tiles_find_own(&s->f, units, stream);
	return *out ? 0 : seg_grow_or_trim(a, units, stream, out);
}

/* coalesce=false: a block of exactly this class, own or, after a wait, another stream's; else one
 * is cut from fresh memory. */
static int seg_obtain_exact(struct gp_allocator *a, uint32_t units, uint16_t stream, uint32_t *out)
{
	struct seg *s = gp_state(a);
	unsigned c = gp_size_bins_class(&s->f.lists[0]->bins, units);
	int r;

	*out = gp_free_tiles_of(&s->f, stream)->bins.head[c];
	for (uint32_t i = 1; i < s->f.n_lists && !*out; i++) {
		*out = s->f.lists[i]->bins.head[c];
		if (!*out)
			continue;
		r = gp_streams_wait(&s->streams, i - 1, stream);
		if (!r)
			*out = seg_adopt(s, *out, stream);
		return r;
	}
	if (!*out)
		*out = gp_free_tiles_find(&s->f, s->f.lists[0], units);
	return *out ? 0 : seg_grow_or_trim(a, units, stream, out);
}

/* The upper bound of the class: with it, any block of a class serves any request of the class. */
static uint64_t seg_round_to_class(const struct seg *s, uint64_t units)
{
	unsigned fl = gp_floor_log2(units);

	return fl > s->f.lg_steps ? gp_align_up(units, UINT64_C(1) << (fl - s->f.lg_steps)) : units;
}

/* ---- hooks ---- */

static int seg_find_block(struct gp_allocator *a, uint32_t units, uint16_t stream, uint32_t *out)
{
	struct seg *s = gp_state(a);

	if (GP_UNLIKELY(!s->f.coalesce))
		return seg_obtain_exact(a, units, stream, out);
	*out = gp_free_tiles_find(&s->f, gp_free_tiles_of(&s->f, stream), units);
	return *out ? 0 : seg_obtain(a, units, stream, out);
}

/* Block n goes to the user. */
static inline void seg_give(struct seg *s, uint32_t n, struct gp_block *out)
{
	const struct gp_tile *b = &s->f.t.tiles[n];

	s->live++;
	s->granted_units += b->units;
	*out = (struct gp_block){ b->addr, gp_tile_bytes(b) };
}

/* Hands out the first `units` of free block n. */
static inline void seg_hand_out(struct seg *s, uint32_t n, uint32_t units, uint16_t stream,
				struct gp_block *out)
{
	gp_free_tiles_unlink(&s->f, n);
	if (n == s->drained)
		s->drained = GP_TILE_NIL;
	if (s->f.t.tiles[n].units > units)
		gp_free_tiles_push(&s->f, gp_tiling_cut(&s->f.t, n, units));
	s->f.t.tiles[n].stream = stream;
	s->f.t.tiles[n].state = GP_TILE_USED;
	seg_give(s, n, out);
}

/* Alignment above a unit: finds room for any start, and frees what lies before the aligned one. */
static GP_NOINLINE int seg_alloc_aligned(struct gp_allocator *a, uint64_t units, uint16_t stream,
					 uint64_t align, struct gp_block *out)
{
	struct seg *s = gp_state(a);
	uint64_t padded = units + (align >> GP_TILE_LG_UNIT) - 1;
	uint32_t n, front, rest;
	int r;

	if (padded > UINT32_MAX)
		return GP_NOMEM;
	if (!s->f.coalesce)
		padded = seg_round_to_class(s, padded);
	r = seg_find_block(a, (uint32_t)padded, stream, &n);
	if (!r)
		r = gp_tiling_room(&s->f.t, 2);
	if (r)
		return r;
	front = (uint32_t)((gp_align_up(s->f.t.tiles[n].addr, align) - s->f.t.tiles[n].addr) >>
			   GP_TILE_LG_UNIT);
	if (front) {
		gp_free_tiles_unlink(&s->f, n);
		if (n == s->drained)
			s->drained = GP_TILE_NIL;
		rest = gp_tiling_cut(&s->f.t, n, front);
		gp_free_tiles_push(&s->f, n);
		gp_free_tiles_push(&s->f, rest);
		n = rest;
	}
	seg_hand_out(s, n, (uint32_t)units, stream, out);
	return 0;
}

/* Whatever is not as in seg_alloc. */
static GP_NOINLINE int seg_alloc_slow(struct gp_allocator *a, const struct gp_request *req,
				      uint64_t units, uint32_t stream, struct gp_block *out)
{
	struct seg *s = gp_state(a);
	uint32_t n;
	int r = seg_know(s, stream);

	if (!s->f.coalesce)
		units = seg_round_to_class(s, units);
	if (units > UINT32_MAX || req->lg_align >= 40)
		return GP_NOMEM;
	if (r)
		return r;
	if (req->lg_align > GP_TILE_LG_UNIT)
		return seg_alloc_aligned(a, units, (uint16_t)stream, UINT64_C(1) << req->lg_align,
					 out);
	r = seg_find_block(a, (uint32_t)units, (uint16_t)stream, &n);
	if (!r)
		r = gp_tiling_room(&s->f.t, 1);
	if (r)
		return r;
	seg_hand_out(s, n, (uint32_t)units, (uint16_t)stream, out);
	return 0;
}

static int seg_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct seg *s = gp_state(a);
	uint64_t units = (req->size + GP_ALIGN - 1) >> GP_TILE_LG_UNIT;
	uint32_t stream = gp_pool_stream(&s->pool, req->stream), n;

	if (GP_LIKELY(req->lg_align <= GP_TILE_LG_UNIT && gp_free_tiles_knows(&s->f, stream) &&
		      s->f.coalesce && units <= UINT32_MAX)) {
		struct gp_free_lists *f = s->f.lists[stream + 1];

		n = units <= s->quick_units ? gp_quick_pop(&f->quick, &s->f.t, (unsigned)units)
					    : GP_TILE_NIL;
		if (n) {
			seg_give(s, n, out);
			return 0;
		}
		n = gp_free_tiles_find(&s->f, f, (uint32_t)units);
		if (GP_LIKELY(n && !gp_tiling_room(&s->f.t, 1))) {
			seg_hand_out(s, n, (uint32_t)units, (uint16_t)stream, out);
			return 0;
		}
	}
	return seg_alloc_slow(a, req, units, stream, out);
}

static unsigned seg_quick_key(uint32_t units)
{
	return units;
}

static inline int seg_keep(struct seg *s, uint32_t n)
{
	uint16_t stream = s->f.t.tiles[n].stream;
	struct gp_quick *q = &gp_free_tiles_of(&s->f, stream)->quick;

	gp_quick_push(q, &s->f.t, n, s->f.t.tiles[n].units);
	return GP_LIKELY(q->units <= s->pool.reserved_bytes >>
			 (GP_TILE_LG_UNIT + SEG_LG_QUICK_SHARE))
		       ? 0
		       : seg_flush(s, stream);
}

/* No block starts here. Below a parent it may be one that the parent gave to somebody else. */
static GP_NOINLINE int seg_free_unknown(struct gp_allocator *a, uint64_t addr)
{
	struct seg *s = gp_state(a);
	int r = a->inner ? gp_free(a->inner, addr) : -EINVAL;

	return r == -EINVAL ? gp_tiling_refuse(&s->f.t, addr) : r;
}

static int seg_free(struct gp_allocator *a, uint64_t addr)
{
	struct seg *s = gp_state(a);
	uint32_t n = gp_tiling_find(&s->f.t, addr);
	const struct gp_tile *b = &s->f.t.tiles[n];

	if (GP_UNLIKELY(b->state != GP_TILE_USED))
		return n && b->state != GP_TILE_END ? -EALREADY : seg_free_unknown(a, addr);
	s->live--;
	s->granted_units -= b->units;
	gp_streams_freed(&s->streams, b->stream);
	return b->units <= s->quick_units ? seg_keep(s, n) : seg_let_go(s, n);
}

static void seg_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct seg *s = gp_state(a);

	*out = (struct gp_usage){ s->live, s->granted_units << GP_TILE_LG_UNIT,
				  s->pool.reserved_bytes, s->streams.waits };
}

static void seg_fini(struct gp_allocator *a)
{
	struct seg *s = gp_state(a);

	gp_pool_fini(&s->pool);
	gp_streams_fini(&s->streams);
	gp_free_tiles_fini(&s->f);
}

static int seg_init(struct gp_allocator *a)
{
	struct seg *s = gp_state(a);
	int r;

	if (a->inner && !s->f.coalesce)
		return gp_allocator_why(a, -EINVAL, "coalesce=false: not below a parent");
	s->f.lg_steps = gp_floor_log2(s->classes);
	s->f.near = s->fit == SEG_FIT_CLASS ? 0 : s->fit == SEG_FIT_BEST ? UINT32_MAX : SEG_NEAR;
	s->quick_units = s->f.coalesce ? (uint32_t)(s->quick >> GP_TILE_LG_UNIT) : 0;
	gp_streams_init(&s->streams, a->dev);
	r = gp_pool_init(&s->pool, a);
	if (r)
		return r;
	r = gp_free_tiles_init(&s->f, gp_pool_joins(&s->pool));
	if (!r)
		r = seg_know(s, 0);
	if (r)
		seg_fini(a);
	return r;
}

/* ---- audit and walk ---- */

static int seg_check(const struct gp_allocator *a, FILE *why)
{
	const struct seg *s = gp_state(a);
	uint64_t units[GP_TILE_END + 1];
	int r = gp_free_tiles_check(&s->f, seg_quick_key, "segregated", units, why);
	uint64_t held = units[GP_TILE_USED] + units[GP_TILE_FREE] + units[GP_TILE_QUICK];

	if (r || (units[GP_TILE_USED] == s->granted_units &&
		  held << GP_TILE_LG_UNIT == s->pool.reserved_bytes - s->pool.unused.size))
		return r;
	fprintf(why, "segregated: %llu units used, %llu in all do not add up\n",
		(unsigned long long)units[GP_TILE_USED], (unsigned long long)held);
	return -EILSEQ;
}

static int seg_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	const struct seg *s = gp_state(a);
	const struct gp_range_entry *e = gp_range_set_ceiling(&s->pool.ranges, 0);
	int r = s->pool.unused.size ? fn(arg, s->pool.unused, false) : 0;

	for (; e && !r; e = gp_range_set_ceiling(&s->pool.ranges, e->addr + 1)) {
		uint32_t n = gp_tiling_find(&s->f.t, e->addr);

		/* Ranges that joined are walked from the first of them. */
		if (!n || s->f.t.tiles[n].prev)
			continue;
		for (; s->f.t.tiles[n].state != GP_TILE_END && !r; n = s->f.t.tiles[n].next) {
			const struct gp_tile *b = &s->f.t.tiles[n];

			r = fn(arg, (struct gp_range){ b->addr, gp_tile_bytes(b) },
			       b->state == GP_TILE_USED);
		}
	}
	return r;
}

static const struct gp_option seg_options[] = {
	{ .name = "classes",
	  .help = "size classes in each doubling",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct seg, classes),
	  .default_text = "8",
	  .min = 1,
	  .max = 1 << GP_BINS_LG_STEPS_MAX,
	  .pow2 = true },
	{ .name = "fit",
	  .help = "which block of a class is taken",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct seg, fit),
	  .default_text = "good",
	  .choices = seg_fit_choices },
	{ .name = "coalesce",
	  .help = "join free neighbours; false: blocks keep their class",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct seg, f.coalesce),
	  .default_text = "true" },
	{ .name = "quick",
	  .help = "largest block kept whole for the next of its size (0: none)",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct seg, quick),
	  .default_text = SEG_QUICK,
	  .max = SEG_QUICK_MAX },
	GP_POOL_CHUNK_OPTION(struct seg, pool.opt.chunk, "chunk"),
	GP_POOL_OPTIONS(struct seg, pool.opt),
	{ .name = NULL },
};

const struct gp_allocator_ops gp_segregated_ops = {
	.name = "segregated",
	.summary = "free lists by size class, split and coalesced, found by bitmap (TLSF)",
	.caps = GP_CAP_ANY_SIZE | GP_CAP_COALESCES | GP_CAP_GROWS | GP_CAP_TIER,
	.state_size = sizeof(struct seg),
	.options = seg_options,
	.init = seg_init,
	.fini = seg_fini,
	.alloc = seg_alloc,
	.free = seg_free,
	.usage = seg_usage,
	.check = seg_check,
	.trim = seg_trim,
	.walk = seg_walk,
};
