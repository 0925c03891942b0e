/* SPDX-License-Identifier: Apache-2.0
 *
 * segregated: free lists by size class over blocks that split and coalesce.
 *
 * Shape        ranges from the pool, tiled by blocks (tiling.h); free ones are in bins, for each
 *              stream and for memory that no stream has used yet:
 *
 *                2^k .. 2^(k+1) in `classes` steps     fl_map: which k has any
 *                [k][0] -> free -> free                sl_map[k]: which steps have any
 *                [k][1] -> free
 *
 *              The two-level bitmap is TLSF's (Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic
 *              memory allocator for real-time systems", ECRTS 2004): two find-first-set instead of
 *              a walk.
 * Choice       fit=good   the best of the first 8 blocks in the request's own class, else the first
 *                         of the next class that has any: all of those are large enough
 *              fit=class  never looks into the own class (TLSF's rule)
 *              fit=best   the best of the whole class: exact best fit, and linear in the list
 *              Own stream first, then fresh memory, then other streams' (with an event wait), then
 *              growth, then growth after everything that is empty was given back.
 * Invariants   1. no two free neighbours of one stream   2. a block is in the bin of its class and
 *              stream, and the bitmaps say which have any   3. used + free = held; and those of the
 *              tiling                                                -> seg_check() tests each
 * Cost         alloc, free: O(1), but fit=best. 32 bytes a block, 16 to 32 in the index
 * Waste        internal < 256 bytes a block; external: what best fit has, see the README
 *              coalesce=false: requests round up to their class and blocks are never cut or joined
 *              again before a trim (simple segregated storage): internal < 1/classes, external
 *              the sum of each class's own peak
 * Threads      one at a time
 */
#include "pool.h"
#include "streams.h"
#include "tiling.h"

#include <errno.h>
#include <stdlib.h>

#define SEG_FL 32     /* doublings: blocks of 1 .. 2^32 - 1 units */
#define SEG_MAX_CLASSES 32
#define SEG_NEAR 8    /* blocks that fit=good looks at */
#define SEG_FRESH UINT16_MAX

enum seg_fit {
	SEG_FIT_GOOD,
	SEG_FIT_CLASS,
	SEG_FIT_BEST,
};

static const char *const seg_fit_choices[] = { "good", "class", "best", NULL };

/* The free blocks of one stream, or fresh ones. */
struct seg_bins {
	uint64_t fl_map;
	uint32_t sl_map[SEG_FL];
	uint32_t head[SEG_FL * SEG_MAX_CLASSES];
	uint64_t units;
};

struct seg {
	uint64_t classes;
	unsigned fit;
	bool coalesce;
	struct gp_pool pool;

	struct gp_tiling t;
	struct gp_streams streams;
	struct seg_bins **bins; /* [0] fresh, [1 + stream] */
	uint32_t n_bins;
	unsigned lg_classes;
	uint32_t drained; /* tier: the one wholly free range that is kept */
	uint64_t live, granted_units;
};

/* ---- bins ---- */

static unsigned seg_class(const struct seg *s, uint32_t units)
{
	unsigned fl = gp_floor_log2(units), lg = s->lg_classes;
	uint32_t step = (uint32_t)(((uint64_t)units << lg) >> fl) & ((UINT32_C(1) << lg) - 1);

	return fl << lg | step;
}

static struct seg_bins *seg_bins_of(const struct seg *s, uint16_t stream)
{
	return s->bins[(uint16_t)(stream + 1)];
}

static void seg_push(struct seg *s, uint32_t n)
{
	struct gp_tile *b = &s->t.tiles[n];
	struct seg_bins *bins = seg_bins_of(s, b->stream);
	unsigned c = seg_class(s, b->units), fl = c >> s->lg_classes;
	uint32_t head = bins->head[c];

	b->state = GP_TILE_FREE;
	b->fprev = GP_TILE_NIL;
	b->fnext = head;
	s->t.tiles[head].fprev = n;
	bins->head[c] = n;
	bins->fl_map |= UINT64_C(1) << fl;
	bins->sl_map[fl] |= UINT32_C(1) << (c & (s->classes - 1));
	bins->units += b->units;
}

static void seg_unlink(struct seg *s, uint32_t n)
{
	struct gp_tile *b = &s->t.tiles[n];
	struct seg_bins *bins = seg_bins_of(s, b->stream);

	bins->units -= b->units;
	s->t.tiles[b->fnext].fprev = b->fprev;
	if (b->fprev) {
		s->t.tiles[b->fprev].fnext = b->fnext;
		return;
	}
	unsigned c = seg_class(s, b->units), fl = c >> s->lg_classes;

	bins->head[c] = b->fnext;
	if (b->fnext)
		return;
	bins->sl_map[fl] &= ~(UINT32_C(1) << (c & (s->classes - 1)));
	if (!bins->sl_map[fl])
		bins->fl_map &= ~(UINT64_C(1) << fl);
}

/* Makes the stream and its bins known. */
static GP_NOINLINE int seg_new_stream(struct seg *s, uint32_t stream)
{
	struct seg_bins **bins;
	int r = gp_streams_know(&s->streams, stream);

	if (r)
		return r;
	bins = realloc(s->bins, (stream + 2) * sizeof(*bins));
	if (!bins)
		return -ENOMEM;
	s->bins = bins;
	while (s->n_bins < stream + 2) {
		bins[s->n_bins] = calloc(1, sizeof(**bins));
		if (!bins[s->n_bins])
			return -ENOMEM;
		s->n_bins++;
	}
	return 0;
}

static int seg_know(struct seg *s, uint32_t stream)
{
	return GP_LIKELY(stream + 2 <= s->n_bins) ? 0 : seg_new_stream(s, stream);
}

/* ---- finding ---- */

/* The first block of the lowest class from c on (after c, without from_it); GP_TILE_NIL: none. */
static uint32_t seg_next_class(const struct seg *s, const struct seg_bins *bins, unsigned c,
			       bool from_it)
{
	unsigned lg = s->lg_classes, fl = c >> lg, sl = c & ((1u << lg) - 1);
	uint64_t steps = bins->sl_map[fl] & (~UINT64_C(0) << (sl + !from_it));

	if (!steps) {
		uint64_t above = bins->fl_map & (~UINT64_C(0) << (fl + 1));

		if (!above)
			return GP_TILE_NIL;
		fl = gp_lowest_bit(above);
		steps = bins->sl_map[fl];
	}
	return bins->head[fl << lg | gp_lowest_bit(steps)];
}

/* Smallest block of at least `units` among the first `limit` of a list. */
static uint32_t seg_smallest(const struct seg *s, uint32_t n, uint32_t units, unsigned limit)
{
	uint32_t best = GP_TILE_NIL, best_units = UINT32_MAX;

	for (; n && limit; n = s->t.tiles[n].fnext, limit--) {
		uint32_t have = s->t.tiles[n].units;

		if (have == units)
			return n;
		if (have > units && have <= best_units) {
			best = n;
			best_units = have;
		}
	}
	return best;
}

/* fit=class: only classes of which every block is large enough. */
static uint32_t seg_find_class(const struct seg *s, const struct seg_bins *bins, uint32_t units)
{
	unsigned c = seg_class(s, units), fl = c >> s->lg_classes;
	bool lower_bound = fl <= s->lg_classes ||
			   !(units & ((UINT32_C(1) << (fl - s->lg_classes)) - 1));

	return seg_next_class(s, bins, c, lower_bound);
}

static uint32_t seg_find(const struct seg *s, const struct seg_bins *bins, uint32_t units)
{
	unsigned c = seg_class(s, units), limit = s->fit == SEG_FIT_BEST ? UINT32_MAX : SEG_NEAR;
	uint32_t n;

	if (s->fit == SEG_FIT_CLASS)
		return seg_find_class(s, bins, units);
	n = bins->head[c];
	if (n)
		n = seg_smallest(s, n, units, limit);
	if (n)
		return n;
	n = seg_next_class(s, bins, c, false);
	return n ? seg_smallest(s, n, units, limit) : GP_TILE_NIL;
}

/* Own memory before fresh memory, which so stays in one piece. */
static uint32_t seg_find_own(const struct seg *s, uint32_t units, uint16_t stream)
{
	uint32_t n = seg_find(s, seg_bins_of(s, stream), units);

	return n ? n : seg_find(s, s->bins[0], units);
}

/* ---- cutting and joining ---- */

static bool seg_mergeable(const struct gp_tile *b, uint16_t stream)
{
	return b->state == GP_TILE_FREE && (b->stream == stream || b->stream == SEG_FRESH);
}

/* Joined memory is as fresh as its last user. */
static void seg_join(struct seg *s, uint32_t n)
{
	struct gp_tile *b = &s->t.tiles[n], *right = &s->t.tiles[b->next];

	if (b->stream == SEG_FRESH)
		b->stream = right->stream;
	gp_tiling_swallow(&s->t, n);
}

/* Frees block n, which is in no bin, for `stream`: joins it with neighbours that are free on that
 * stream or fresh. Returns the block it became. */
static uint32_t seg_release(struct seg *s, uint32_t n, uint16_t stream)
{
	uint32_t left = s->t.tiles[n].prev, right = s->t.tiles[n].next;

	if (GP_LIKELY(s->coalesce || stream == SEG_FRESH)) {
		if (seg_mergeable(&s->t.tiles[left], stream)) {
			seg_unlink(s, left);
			seg_join(s, left);
			n = left;
		}
		if (seg_mergeable(&s->t.tiles[right], stream)) {
			seg_unlink(s, right);
			seg_join(s, n);
		}
	}
	seg_push(s, n);
	return n;
}

/* Another stream's free block becomes `stream`'s, which has waited for it; returns what it joined. */
static uint32_t seg_adopt(struct seg *s, uint32_t n, uint16_t stream)
{
	seg_unlink(s, n);
	if (n == s->drained)
		s->drained = GP_TILE_NIL;
	s->t.tiles[n].stream = stream;
	return seg_release(s, n, stream);
}

/* ---- ranges: growing and giving back ---- */

/* The free block below the highest mapped address, if `stream` may use it. */
static uint32_t seg_tail(const struct seg *s, uint16_t stream, uint64_t *end)
{
	const struct gp_range_entry *top = gp_range_set_floor(&s->pool.ranges, UINT64_MAX);
	uint32_t last;

	if (!top || !s->t.joins || !s->coalesce)
		return GP_TILE_NIL;
	*end = top->addr + top->size;
	last = gp_tiling_last(&s->t, *end);
	return seg_mergeable(&s->t.tiles[last], stream) ? last : GP_TILE_NIL;
}

/* Gets memory for a block of at least `units`. Where the address range goes on after a free block,
 * only what is missing to it is asked for. */
static int seg_grow(struct seg *s, uint32_t units, uint16_t stream, uint32_t *out)
{
	uint64_t size = (uint64_t)units << GP_TILE_LG_UNIT, page = s->pool.page, end, need;
	uint32_t tail = seg_tail(s, stream, &end);
	struct gp_range range;
	/* Memory of the device is fresh; a parent gives what may be used on this stream. */
	uint16_t tag = s->pool.a->inner ? stream : SEG_FRESH;
	int r = GP_NOMEM;

	/* fit=class may pass over a block that is large enough. */
	if (tail && s->t.tiles[tail].units >= units) {
		*out = tail;
		return 0;
	}
	if (tail) {
		need = gp_align_up(size - gp_tile_bytes(&s->t.tiles[tail]), page);
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
		*out = seg_release(s, gp_tiling_add(&s->t, range, tag),
				   s->coalesce ? stream : tag);
	return r;
}

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
		struct gp_tile *b = &s->t.tiles[n];

		if (!gp_pool_range_within(&s->pool, b->addr, b->addr + gp_tile_bytes(b), &range))
			return 0;
		if (tier && b->stream != SEG_FRESH)
			r = gp_streams_wait(&s->streams, b->stream,
					    (uint32_t)gp_range_set_at(&s->pool.ranges,
								      range.addr)->tag);
		if (!r)
			r = gp_tiling_room(&s->t, 2);
		if (r)
			return r;
		seg_unlink(s, n);
		gp_tiling_drop(&s->t, n, range, &left, &n);
		if (left)
			seg_push(s, left);
		if (n)
			seg_push(s, n);
		r = gp_pool_put(&s->pool, range.addr);
		*released += range.size;
	}
	return r;
}

/* Moves every free block of `from` to `to` and joins it there. The caller has seen to it that the
 * memory may be used on `to`. */
static void seg_move_bins(struct seg *s, uint16_t from, uint16_t to)
{
	struct seg_bins *bins = seg_bins_of(s, from);

	while (bins->fl_map) {
		uint32_t n = seg_next_class(s, bins, 0, true);

		seg_unlink(s, n);
		s->t.tiles[n].stream = to;
		seg_release(s, n, to);
	}
}

/* After a synchronisation free memory is anybody's: joined, more ranges are wholly free. */
static int seg_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct seg *s = gp_state(a);
	int r = gp_device_sync(a->dev);

	for (uint32_t i = 1; !r && i < s->n_bins; i++)
		seg_move_bins(s, (uint16_t)(i - 1), SEG_FRESH);
	s->drained = GP_TILE_NIL;
	for (uint32_t n = 1; n < s->t.n && !r; n++)
		if (s->t.tiles[n].state == GP_TILE_FREE)
			r = seg_drop_within(s, n, keep, released);
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

/* ---- the slow path of alloc ---- */

/* Another stream's block that fits; its stream is waited for. */
static int seg_steal(struct seg *s, uint32_t units, uint16_t stream, uint32_t *out)
{
	for (uint32_t i = 1; i < s->n_bins; i++) {
		uint16_t other = (uint16_t)(i - 1);
		uint32_t n = other == stream ? GP_TILE_NIL : seg_find(s, s->bins[i], units);
		int r;

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
	uint64_t total = 0, others = 0;
	int r;

	for (uint32_t i = 0; i < s->n_bins; i++) {
		total += s->bins[i]->units;
		others += i && i != stream + 1u ? s->bins[i]->units : 0;
	}
	if (!others || total < units)
		return GP_NOMEM;
	for (uint32_t i = 1; i < s->n_bins; i++) {
		uint16_t other = (uint16_t)(i - 1);

		if (other == stream || !s->bins[i]->units)
			continue;
		r = gp_streams_wait(&s->streams, other, stream);
		if (r)
			return r;
		seg_move_bins(s, other, stream);
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
	*out = seg_find_own(s, units, stream);
	return r || *out ? r : seg_grow(s, units, stream, out);
}

static GP_NOINLINE int seg_obtain(struct gp_allocator *a, uint32_t units, uint16_t stream,
				  uint32_t *out)
{
	struct seg *s = gp_state(a);
	int r = seg_steal(s, units, stream, out);

	if (r <= 0)
		return r;
	r = seg_take_over(s, units, stream);
	if (r < 0)
		return r;
	*out = r ? GP_TILE_NIL : seg_find_own(s, units, stream);
	return *out ? 0 : seg_grow_or_trim(a, units, stream, out);
}

/* coalesce=false: a block of exactly this class, own or, after a wait, another stream's; else one
 * is cut from fresh memory. */
static int seg_obtain_exact(struct gp_allocator *a, uint32_t units, uint16_t stream, uint32_t *out)
{
	struct seg *s = gp_state(a);
	unsigned c = seg_class(s, units);
	int r;

	*out = seg_bins_of(s, stream)->head[c];
	for (uint32_t i = 1; i < s->n_bins && !*out; i++) {
		*out = s->bins[i]->head[c];
		if (!*out)
			continue;
		r = gp_streams_wait(&s->streams, i - 1, stream);
		if (!r)
			*out = seg_adopt(s, *out, stream);
		return r;
	}
	if (!*out)
		*out = seg_find(s, s->bins[0], units);
	return *out ? 0 : seg_grow_or_trim(a, units, stream, out);
}

/* The upper bound of the class: with it, any block of a class serves any request of the class. */
static uint64_t seg_round_to_class(const struct seg *s, uint64_t units)
{
	unsigned fl = gp_floor_log2(units);

	return fl > s->lg_classes ? gp_align_up(units, UINT64_C(1) << (fl - s->lg_classes)) : units;
}

/* ---- hooks ---- */

static int seg_find_block(struct gp_allocator *a, uint32_t units, uint16_t stream, uint32_t *out)
{
	struct seg *s = gp_state(a);

	if (GP_UNLIKELY(!s->coalesce))
		return seg_obtain_exact(a, units, stream, out);
	*out = seg_find_own(s, units, stream);
	return GP_LIKELY(*out) ? 0 : seg_obtain(a, units, stream, out);
}

/* Hands out the first `units` of free block n. */
static void seg_hand_out(struct seg *s, uint32_t n, uint32_t units, uint16_t stream,
			 struct gp_block *out)
{
	struct gp_tile *b = &s->t.tiles[n];

	seg_unlink(s, n);
	if (n == s->drained)
		s->drained = GP_TILE_NIL;
	if (b->units > units)
		seg_push(s, gp_tiling_cut(&s->t, n, units));
	b->stream = stream;
	b->state = GP_TILE_USED;
	s->live++;
	s->granted_units += units;
	*out = (struct gp_block){ b->addr, (uint64_t)units << GP_TILE_LG_UNIT };
}

/* Alignment above a unit: finds room for any start, and frees what lies before the aligned one. */
static GP_NOINLINE int seg_alloc_aligned(struct gp_allocator *a, uint64_t units, uint16_t stream,
					 uint64_t align, struct gp_block *out)
{
	struct seg *s = gp_state(a);
	uint64_t padded = units + (align >> GP_TILE_LG_UNIT) - 1;
	uint32_t n, rest, front;
	int r;

	if (padded > UINT32_MAX)
		return GP_NOMEM;
	if (!s->coalesce)
		padded = seg_round_to_class(s, padded);
	r = seg_find_block(a, (uint32_t)padded, stream, &n);
	if (r)
		return r;
	front = (uint32_t)((gp_align_up(s->t.tiles[n].addr, align) - s->t.tiles[n].addr) >>
			   GP_TILE_LG_UNIT);
	if (front) {
		seg_unlink(s, n);
		if (n == s->drained)
			s->drained = GP_TILE_NIL;
		rest = gp_tiling_cut(&s->t, n, front);
		seg_push(s, n);
		seg_push(s, rest);
		n = rest;
	}
	seg_hand_out(s, n, (uint32_t)units, stream, out);
	return 0;
}

static int seg_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct seg *s = gp_state(a);
	uint64_t units = (req->size + GP_ALIGN - 1) >> GP_TILE_LG_UNIT;
	uint32_t stream = gp_pool_stream(&s->pool, req->stream), n;
	int r;

	if (GP_UNLIKELY(!s->coalesce))
		units = seg_round_to_class(s, units);
	if (GP_UNLIKELY(units > UINT32_MAX || req->lg_align >= 40))
		return GP_NOMEM;
	r = seg_know(s, stream);
	if (GP_LIKELY(!r))
		r = gp_tiling_room(&s->t, 6); /* a range and three cuts at most */
	if (GP_UNLIKELY(r))
		return r;
	if (GP_UNLIKELY(req->lg_align > GP_TILE_LG_UNIT))
		return seg_alloc_aligned(a, units, (uint16_t)stream,
					 UINT64_C(1) << req->lg_align, out);
	r = seg_find_block(a, (uint32_t)units, (uint16_t)stream, &n);
	if (GP_UNLIKELY(r))
		return r;
	seg_hand_out(s, n, (uint32_t)units, (uint16_t)stream, out);
	return 0;
}

/* An address that starts no block: inside free memory it was freed before. Linear, for errors. */
static GP_NOINLINE int seg_refuse(const struct seg *s, uint64_t addr)
{
	for (uint32_t n = 1; n < s->t.n; n++) {
		const struct gp_tile *b = &s->t.tiles[n];

		if (b->state == GP_TILE_FREE && addr - b->addr < gp_tile_bytes(b))
			return -EALREADY;
	}
	return -EINVAL;
}

static int seg_free(struct gp_allocator *a, uint64_t addr)
{
	struct seg *s = gp_state(a);
	uint32_t n = gp_tiling_find(&s->t, addr);
	struct gp_tile *b = &s->t.tiles[n];

	if (GP_UNLIKELY(b->state != GP_TILE_USED))
		return seg_refuse(s, addr);
	s->live--;
	s->granted_units -= b->units;
	gp_streams_freed(&s->streams, b->stream);
	n = seg_release(s, n, b->stream);
	if (GP_UNLIKELY(a->inner) && gp_tiling_alone(&s->t, n))
		return seg_drained(s, n);
	return 0;
}

static bool seg_owns(const struct gp_allocator *a, uint64_t addr)
{
	const struct seg *s = gp_state(a);

	return gp_tiling_find(&s->t, addr) != GP_TILE_NIL;
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
	gp_tiling_fini(&s->t);
	for (uint32_t i = 0; i < s->n_bins; i++)
		free(s->bins[i]);
	free(s->bins);
}

static int seg_init(struct gp_allocator *a)
{
	struct seg *s = gp_state(a);
	int r;

	if (a->inner && !s->coalesce)
		return gp_allocator_why(a, -EINVAL, "coalesce=false: not below a parent");
	s->lg_classes = gp_floor_log2(s->classes);
	gp_streams_init(&s->streams, a->dev);
	r = gp_pool_init(&s->pool, a);
	if (r)
		return r;
	r = gp_tiling_init(&s->t, gp_pool_joins(&s->pool));
	if (!r)
		r = seg_know(s, 0);
	if (r)
		seg_fini(a);
	return r;
}

/* ---- audit and walk ---- */

static int seg_complain(FILE *why, const struct gp_tile *b, const char *what)
{
	fprintf(why, "segregated: block %#llx of %llu bytes %s\n", (unsigned long long)b->addr,
		(unsigned long long)gp_tile_bytes(b), what);
	return -EILSEQ;
}

/* Goes through one bin; adds what is in it to *units. */
static int seg_check_bin(const struct seg *s, uint32_t i, unsigned c, uint64_t *units, FILE *why)
{
	const struct seg_bins *bins = s->bins[i];
	unsigned fl = c >> s->lg_classes;
	bool marked = bins->sl_map[fl] >> (c & (s->classes - 1)) & 1;

	for (uint32_t n = bins->head[c]; n; n = s->t.tiles[n].fnext) {
		const struct gp_tile *b = &s->t.tiles[n];

		if (b->state != GP_TILE_FREE || (uint16_t)(b->stream + 1) != i ||
		    seg_class(s, b->units) != c)
			return seg_complain(why, b, "is in the wrong bin");
		*units += b->units;
	}
	if (marked == (bins->head[c] != GP_TILE_NIL) &&
	    (bins->sl_map[fl] != 0) == (bins->fl_map >> fl & 1))
		return 0;
	fprintf(why, "segregated: the bitmap of class %u is wrong\n", c);
	return -EILSEQ;
}

static int seg_check_tiles(const struct seg *s, uint64_t *used, uint64_t *unused, FILE *why)
{
	for (uint32_t n = 1; n < s->t.n; n++) {
		const struct gp_tile *b = &s->t.tiles[n], *next = &s->t.tiles[b->next];

		*used += b->state == GP_TILE_USED ? b->units : 0;
		*unused += b->state == GP_TILE_FREE ? b->units : 0;
		if (s->coalesce && b->state == GP_TILE_FREE && next->state == GP_TILE_FREE &&
		    b->stream == next->stream)
			return seg_complain(why, b, "is free beside a free block of its stream");
	}
	return 0;
}

static int seg_check(const struct gp_allocator *a, FILE *why)
{
	const struct seg *s = gp_state(a);
	uint64_t used = 0, unused = 0, binned = 0, total = 0;
	int r = gp_tiling_check(&s->t, "segregated", why);

	if (!r)
		r = seg_check_tiles(s, &used, &unused, why);
	for (uint32_t i = 0; i < s->n_bins; i++) {
		for (unsigned c = 0; c < (unsigned)SEG_FL << s->lg_classes && !r; c++)
			r = seg_check_bin(s, i, c, &binned, why);
		total += s->bins[i]->units;
	}
	if (r || (used == s->granted_units && binned == unused && total == unused &&
		  (used + unused) << GP_TILE_LG_UNIT ==
			  s->pool.reserved_bytes - s->pool.unused.size))
		return r;
	fprintf(why, "segregated: %llu used, %llu free and %llu binned units do not add up\n",
		(unsigned long long)used, (unsigned long long)unused, (unsigned long long)binned);
	return -EILSEQ;
}

static int seg_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	const struct seg *s = gp_state(a);
	const struct gp_range_entry *e = gp_range_set_ceiling(&s->pool.ranges, 0);
	int r = s->pool.unused.size ? fn(arg, s->pool.unused, false) : 0;

	for (; e && !r; e = gp_range_set_ceiling(&s->pool.ranges, e->addr + 1)) {
		uint32_t n = gp_tiling_find(&s->t, e->addr);

		/* Ranges that joined are walked from the first of them. */
		if (!n || s->t.tiles[n].prev)
			continue;
		for (; s->t.tiles[n].state != GP_TILE_END && !r; n = s->t.tiles[n].next) {
			const struct gp_tile *b = &s->t.tiles[n];

			r = fn(arg, (struct gp_range){ b->addr, gp_tile_bytes(b) },
			       b->state == GP_TILE_USED);
		}
	}
	return r;
}

static const struct gp_option seg_options[] = {
	{ .name = "classes", .help = "size classes in each doubling", .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct seg, classes), .default_text = "4", .min = 1,
	  .max = SEG_MAX_CLASSES, .pow2 = true },
	{ .name = "fit", .help = "which block of a class is taken", .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct seg, fit), .default_text = "good",
	  .choices = seg_fit_choices },
	{ .name = "coalesce", .help = "join free neighbours; false: blocks keep their class",
	  .type = GP_OPTION_BOOL, .offset = offsetof(struct seg, coalesce),
	  .default_text = "true" },
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
	.owns = seg_owns,
};
