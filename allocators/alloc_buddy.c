/* SPDX-License-Identifier: Apache-2.0
 *
 * buddy: power-of-two blocks that split and merge (K. C. Knowlton, "A fast storage allocator",
 * CACM 8(10), 1965; Knuth, TAOCP vol. 1, 2.5, algorithms R and S).
 *
 * Shape        one space of offsets, in which each range from the pool has a place of its own:
 *
 *                order 2 |            A            |      buddy of the block at offset o,
 *                order 1 |     B      |   (free)   |      order k:  o XOR (min_block << k)
 *                order 0 | used | free|            |
 *
 *              space    (unit_space.h) under grow=vmm the address range itself, so blocks of
 *                       different ranges merge; otherwise each range (arena) gets a power-of-two
 *                       place, and merging stops at its size
 *              blocks   hash index: offset -> state, order, stream. One 8-byte entry tells all
 *                       about a block, so that "is my buddy free, and whole?" is one lookup
 *              merged   (order_sets.h) for each stream, its free blocks: the lowest address is
 *                       taken, which keeps the high end empty
 *              quick    for each stream, small blocks freed lately, which are not merged before
 *                       nothing else fits or there are too many: the next request of their order
 *                       takes the lowest as it is (after R. E. Barkley, T. P. Lee: "A lazy buddy
 *                       system bounded by two coalescing delays per class", SOSP 1989)
 * Invariants   1. two merged buddies of one stream never coexist inside an arena
 *              2. blocks tile what is held   3. a block is in the set that its entry says
 *                                                                 -> gp_buddy_check() tests each
 * Cost         alloc, free: O(log n) splits or merges at worst, one lookup and one bitset update
 *              each; a quick block: one of both. 8 bytes a block in a hash table in host memory
 * Waste        internal < 2x, a third on average for sizes of no pattern (Knuth 2.5, exercise 29);
 *              external: log2(largest / smallest) times the load at worst (Robson 1971)
 * Threads      one at a time
 */
#include "buddy.h"

#include <errno.h>
#include <stdlib.h>

/* Where larger blocks waited to be merged too, some recordings needed up to 5 % more memory. */
#define BUDDY_QUICK       "256K"
#define BUDDY_QUICK_SHARE 8

/* ---- blocks and free sets ---- */

static void buddy_set_value(struct buddy *b, uint64_t unit, uint32_t value)
{
	gp_addr_index_set(&b->blocks, gp_addr_index_probe(&b->blocks, unit + 1), value);
}

/* A new free block. Room in the index is there. */
static void buddy_add(struct buddy *b, uint64_t unit, unsigned order, uint16_t stream)
{
	gp_addr_index_add(&b->blocks, unit + 1, buddy_value(BUDDY_MERGED, order, stream));
	gp_order_sets_add(&buddy_free_of(b, stream)->merged, unit, order);
}

static void buddy_free_destroy(struct buddy_free *f)
{
	gp_order_sets_fini(&f->merged);
	gp_order_sets_fini(&f->quick);
	free(f);
}

static struct buddy_free *buddy_free_create(const struct buddy *b)
{
	struct buddy_free *f = calloc(1, sizeof(*f));

	if (f && (gp_order_sets_init(&f->merged, b->n_orders) ||
		  gp_order_sets_init(&f->quick, b->n_orders))) {
		buddy_free_destroy(f);
		return NULL;
	}
	return f;
}

static GP_NOINLINE int buddy_new_stream(struct buddy *b, uint32_t stream)
{
	struct buddy_free **f;
	int r = gp_streams_know(&b->streams, stream);

	if (r)
		return r;
	f = realloc(b->free, (stream + 2) * sizeof(*f));
	if (!f)
		return -ENOMEM;
	b->free = f;
	while (b->n_free < stream + 2) {
		f[b->n_free] = buddy_free_create(b);
		if (!f[b->n_free])
			return -ENOMEM;
		b->n_free++;
	}
	return 0;
}

static int buddy_know(struct buddy *b, uint32_t stream)
{
	return GP_LIKELY(stream + 2 <= b->n_free) ? 0 : buddy_new_stream(b, stream);
}

/* Frees a block, which is in no set, for `stream`: merges it with its buddy as long as that is free
 * on the same stream or fresh. */
static void buddy_release(struct buddy *b, uint64_t unit, unsigned order, uint16_t stream)
{
	unsigned top = gp_unit_space_top(&b->space, unit);

	for (; order < top; order++) {
		uint64_t half = UINT64_C(1) << order, other = unit ^ half;
		uint32_t value = buddy_at(b, other);
		uint16_t owner = buddy_stream(value);

		if (buddy_state(value) != BUDDY_MERGED || buddy_order(value) != order)
			break;
		if (owner != stream && owner != BUDDY_FRESH && stream != BUDDY_FRESH)
			break;
		gp_order_sets_remove(&buddy_free_of(b, owner)->merged, other, order);
		if (stream == BUDDY_FRESH)
			stream = owner;
		gp_addr_index_remove(&b->blocks, (unit | half) + 1);
		unit &= ~half;
	}
	buddy_set_value(b, unit, buddy_value(BUDDY_MERGED, order, stream));
	gp_order_sets_add(&buddy_free_of(b, stream)->merged, unit, order);
}

/* Merges what a stream's quick set keeps. */
static void buddy_flush(struct buddy *b, uint16_t stream)
{
	struct buddy_free *f = buddy_free_of(b, stream);

	while (f->quick.orders) {
		unsigned order = gp_lowest_bit(f->quick.orders);
		uint64_t unit = gp_bitset_first(&f->quick.of[order]) << order;

		gp_order_sets_remove(&f->quick, unit, order);
		buddy_release(b, unit, order, stream);
	}
	f->quick_bytes = 0;
}

static void buddy_flush_all(struct buddy *b)
{
	for (uint32_t i = 1; i < b->n_free; i++)
		buddy_flush(b, (uint16_t)(i - 1));
}

/* Splits a block that is in no set down to `order`, freeing the upper halves. */
static void buddy_split(struct buddy *b, uint64_t unit, unsigned have, unsigned order,
			uint16_t stream)
{
	while (have > order) {
		have--;
		buddy_add(b, unit + (UINT64_C(1) << have), have, stream);
	}
}

/* ---- ranges ---- */

/* Frees a range piece by piece. */
static int buddy_add_range(struct buddy *b, struct gp_range range, uint16_t stream)
{
	uint64_t unit, end;
	int r = gp_addr_index_reserve(&b->blocks, 2 * GP_ORDERS);

	if (!r)
		r = gp_unit_space_add(&b->space, range, &unit);
	if (r)
		return r;
	/* A preallocation need not be a power of two: the largest aligned pieces that fit. */
	for (end = unit + (range.size >> b->lg_min); unit < end;) {
		unsigned order = gp_floor_log2(end - unit);

		if (unit)
			order = gp_lowest_bit(unit) < order ? gp_lowest_bit(unit) : order;
		gp_addr_index_add(&b->blocks, unit + 1, buddy_value(BUDDY_USED, order, stream));
		buddy_release(b, unit, order, stream);
		unit += UINT64_C(1) << order;
	}
	return 0;
}

/* Ranges are whole blocks, so that they can be given back whole. */
static int buddy_grow(struct buddy *b, unsigned order, uint32_t stream)
{
	uint64_t need = UINT64_C(1) << (order + b->lg_min), want;
	struct gp_range range;
	int r;

	need = gp_max_u64(need, b->pool.page);
	want = gp_pool_growth(&b->pool, need);
	want = UINT64_C(1) << gp_floor_log2(want);
	r = gp_pool_get(&b->pool, want, want, want, stream, &range);
	if (r > 0 && want > need)
		r = gp_pool_get(&b->pool, need, need, need, stream, &range);
	if (r)
		return r;
	r = buddy_add_range(b, range, BUDDY_FRESH);
	if (r)
		gp_pool_put(&b->pool, range.addr);
	return r;
}

/* The free block that holds all of [unit, unit + 2^order); false when it is not all free. */
static bool buddy_holder(const struct buddy *b, uint64_t unit, unsigned order, uint64_t *start,
			 unsigned *have)
{
	for (*have = order; *have < b->n_orders; ++*have) {
		uint32_t value;

		*start = unit & ~((UINT64_C(1) << *have) - 1);
		value = buddy_at(b, *start);
		if (value != BUDDY_NONE && buddy_state(value) != BUDDY_USED &&
		    buddy_order(value) == *have)
			return true;
	}
	return false;
}

/* Takes [unit, unit + 2^order) out of the free block that holds it; -ENOENT: none does. */
static int buddy_remove(struct buddy *b, uint64_t unit, unsigned order)
{
	unsigned have;
	uint64_t start;
	uint16_t stream;
	int r = gp_addr_index_reserve(&b->blocks, GP_ORDERS);

	if (r)
		return r;
	if (!buddy_holder(b, unit, order, &start, &have))
		return -ENOENT;
	stream = buddy_stream(buddy_at(b, start));
	gp_order_sets_remove(&buddy_free_of(b, stream)->merged, start, have);
	gp_addr_index_remove(&b->blocks, start + 1);
	while (have > order) {
		uint64_t half = UINT64_C(1) << --have;
		bool upper = unit & half;

		buddy_add(b, upper ? start : start + half, have, stream);
		start += upper ? half : 0;
	}
	return 0;
}

/* Makes all of one stream's free memory another's. The caller has seen to it that it may. */
static void buddy_move_set(struct buddy *b, uint32_t from, uint16_t to)
{
	struct gp_order_sets *set = &b->free[from]->merged;
	unsigned order;
	uint64_t unit;

	while ((unit = gp_order_sets_find(set, 0, &order)) != GP_BITSET_NONE) {
		gp_order_sets_remove(set, unit, order);
		buddy_release(b, unit, order, to);
	}
}

static int buddy_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct buddy *b = gp_state(a);
	struct gp_range range;
	uint64_t from = 0;
	int r = gp_device_sync(a->dev);

	if (!r)
		buddy_flush_all(b);
	for (uint32_t i = 1; i < b->n_free && !r; i++)
		buddy_move_set(b, i, BUDDY_FRESH);
	while (!r && b->pool.reserved_bytes > keep &&
	       gp_pool_range_within(&b->pool, from, UINT64_MAX, &range)) {
		from = range.addr + range.size;
		r = buddy_remove(b, gp_unit_space_unit(&b->space, range.addr),
				 gp_floor_log2(range.size >> b->lg_min));
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		if (r)
			break;
		gp_unit_space_drop(&b->space, range);
		r = gp_pool_put(&b->pool, range.addr);
		*released += range.size;
	}
	return r;
}

/* ---- alloc ---- */

/* A free block of at least `order` for this stream; fresh memory comes after its own. */
static uint64_t buddy_find_own(const struct buddy *b, unsigned order, uint16_t stream,
			       unsigned *have)
{
	uint64_t unit = gp_order_sets_find(&buddy_free_of(b, stream)->merged, order, have);

	return unit != GP_BITSET_NONE ? unit : gp_order_sets_find(&b->free[0]->merged, order, have);
}

static int buddy_steal(struct buddy *b, unsigned order, uint16_t stream, uint64_t *unit,
		       unsigned *have)
{
	for (uint32_t i = 1; i < b->n_free; i++) {
		if (i == stream + 1u)
			continue;
		*unit = gp_order_sets_find(&b->free[i]->merged, order, have);
		if (*unit != GP_BITSET_NONE)
			return gp_streams_wait(&b->streams, i - 1, stream);
	}
	return GP_NOMEM;
}

/* Takes over every stream's free memory, so that halves freed on different streams merge. */
static int buddy_take_over(struct buddy *b, uint16_t stream)
{
	int r = GP_NOMEM;

	for (uint32_t i = 1; i < b->n_free; i++) {
		if (i == stream + 1u || !b->free[i]->merged.orders)
			continue;
		r = gp_streams_wait(&b->streams, i - 1, stream);
		if (r)
			return r;
		buddy_move_set(b, i, stream);
	}
	return r;
}

static GP_NOINLINE int buddy_obtain(struct gp_allocator *a, unsigned order, uint16_t stream,
				    uint64_t *unit, unsigned *have)
{
	struct buddy *b = gp_state(a);
	uint64_t released = 0;
	int r;

	buddy_flush(b, stream);
	*unit = buddy_find_own(b, order, stream, have);
	if (*unit != GP_BITSET_NONE)
		return 0;
	buddy_flush_all(b);
	r = buddy_steal(b, order, stream, unit, have);
	if (r <= 0)
		return r;
	r = buddy_take_over(b, stream);
	if (!r && (*unit = buddy_find_own(b, order, stream, have)) != GP_BITSET_NONE)
		return 0;
	if (r >= 0 && gp_is_sparing(a))
		return GP_NOMEM;
	if (r >= 0)
		r = buddy_grow(b, order, stream);
	if (r > 0) {
		r = buddy_trim(a, 0, &released);
		*unit = buddy_find_own(b, order, stream, have);
		if (!r && *unit == GP_BITSET_NONE)
			r = buddy_grow(b, order, stream);
	}
	if (r)
		return r;
	*unit = buddy_find_own(b, order, stream, have);
	return *unit == GP_BITSET_NONE ? GP_NOMEM : 0;
}

/* Takes a merged block of at least `order` and splits off what is too much. */
static int buddy_take(struct gp_allocator *a, unsigned order, uint16_t stream, uint64_t *out)
{
	struct buddy *b = gp_state(a);
	uint64_t unit;
	unsigned have;
	uint16_t owner;
	uint32_t i;
	int r = gp_addr_index_reserve(&b->blocks, GP_ORDERS);

	if (GP_UNLIKELY(r))
		return r;
	unit = gp_order_sets_find(&buddy_free_of(b, stream)->merged, order, &have);
	if (GP_UNLIKELY(unit == GP_BITSET_NONE)) {
		r = buddy_obtain(a, order, stream, &unit, &have);
		if (r)
			return r;
	}
	i = gp_addr_index_probe(&b->blocks, unit + 1);
	owner = buddy_stream(gp_addr_index_value(&b->blocks, i));
	gp_order_sets_remove(&buddy_free_of(b, owner)->merged, unit, have);
	gp_addr_index_set(&b->blocks, i, buddy_value(BUDDY_USED, order, stream));
	/* What is split off fresh memory stays fresh; what was another stream's is now ours. */
	buddy_split(b, unit, have, order, owner == BUDDY_FRESH ? BUDDY_FRESH : stream);
	*out = unit;
	return 0;
}

static int buddy_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct buddy *b = gp_state(a);
	uint32_t stream = gp_pool_stream(&b->pool, req->stream);
	unsigned lg = gp_ceil_log2(req->size), order;
	struct buddy_free *f;
	uint64_t unit;
	int r;

	/* A block is aligned to its own size, as far as the start of the space is: to a page. */
	if (GP_UNLIKELY(req->lg_align > b->space.lg_page))
		return GP_REFUSED;
	lg = lg > req->lg_align ? lg : req->lg_align;
	order = lg > b->lg_min ? lg - b->lg_min : 0;
	if (GP_UNLIKELY(order >= b->n_orders))
		return GP_NOMEM;
	r = buddy_know(b, stream);
	if (GP_UNLIKELY(r))
		return r;
	f = b->free[stream + 1];
	if (f->quick.orders >> order & 1) {
		unit = gp_bitset_first(&f->quick.of[order]) << order;
		gp_order_sets_remove(&f->quick, unit, order);
		f->quick_bytes -= b->min_block << order;
		buddy_set_value(b, unit, buddy_value(BUDDY_USED, order, (uint16_t)stream));
	} else {
		r = buddy_take(a, order, (uint16_t)stream, &unit);
		if (GP_UNLIKELY(r))
			return r;
	}
	b->live++;
	b->granted_bytes += b->min_block << order;
	*out = (struct gp_block){ gp_unit_space_addr(&b->space, unit), b->min_block << order };
	return 0;
}

/* Not the start of a used block: was it freed before (a free block holds it), or never given? */
static GP_NOINLINE int buddy_refuse(const struct buddy *b, uint64_t unit)
{
	unsigned have;
	uint64_t start;

	if (unit != GP_BITSET_NONE && buddy_holder(b, unit, 0, &start, &have))
		return -EALREADY;
	return -EINVAL;
}

static void buddy_keep(struct buddy *b, uint64_t unit, unsigned order, uint16_t stream)
{
	struct buddy_free *f = buddy_free_of(b, stream);

	gp_order_sets_add(&f->quick, unit, order);
	f->quick_bytes += b->min_block << order;
	if (GP_UNLIKELY(f->quick_bytes > b->pool.reserved_bytes / BUDDY_QUICK_SHARE))
		buddy_flush(b, stream);
}

static int buddy_free(struct gp_allocator *a, uint64_t addr)
{
	struct buddy *b = gp_state(a);
	uint64_t unit = gp_unit_space_unit(&b->space, addr), size;
	uint32_t i =
		unit == GP_BITSET_NONE ? GP_INDEX_NONE : gp_addr_index_probe(&b->blocks, unit + 1);
	uint32_t value = i == GP_INDEX_NONE ? BUDDY_NONE : gp_addr_index_value(&b->blocks, i);
	unsigned order = buddy_order(value);
	uint16_t stream = buddy_stream(value);

	if (GP_UNLIKELY(buddy_state(value) != BUDDY_USED))
		return buddy_refuse(b, unit);
	size = b->min_block << order;
	b->live--;
	b->granted_bytes -= size;
	gp_streams_freed(&b->streams, stream);
	if (size <= b->quick) {
		gp_addr_index_set(&b->blocks, i, buddy_value(BUDDY_QUICKLY, order, stream));
		buddy_keep(b, unit, order, stream);
	} else {
		buddy_release(b, unit, order, stream);
	}
	return 0;
}

static void buddy_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct buddy *b = gp_state(a);

	*out = (struct gp_usage){ b->live, b->granted_bytes, b->pool.reserved_bytes,
				  b->streams.waits };
}

/* ---- set-up ---- */

static void buddy_fini(struct gp_allocator *a)
{
	struct buddy *b = gp_state(a);

	gp_pool_fini(&b->pool);
	gp_streams_fini(&b->streams);
	for (uint32_t i = 0; i < b->n_free; i++)
		buddy_free_destroy(b->free[i]);
	free(b->free);
	gp_unit_space_fini(&b->space);
	gp_addr_index_fini(&b->blocks);
}

static int buddy_init(struct gp_allocator *a)
{
	struct buddy *b = gp_state(a);
	/* Twice the card, as the pool's address range: arenas round up to powers of two. */
	unsigned lg_space = gp_ceil_log2(a->dev->info.total_bytes) + 1;
	int r;

	b->lg_min = gp_floor_log2(b->min_block);
	gp_streams_init(&b->streams, a->dev);
	r = gp_pool_init(&b->pool, a);
	if (r)
		return r;
	b->n_orders = lg_space - b->lg_min + 1;
	if (b->min_block > b->pool.page || b->n_orders > GP_ORDERS)
		r = gp_allocator_why(
			a, -EINVAL, "min_block=%llu: expected %llu to %llu on this device",
			(unsigned long long)b->min_block,
			(unsigned long long)(UINT64_C(1) << (lg_space + 1)) >> GP_ORDERS,
			(unsigned long long)b->pool.page);
	if (!r)
		r = gp_unit_space_init(&b->space, &b->pool, b->lg_min, lg_space - b->lg_min);
	if (!r)
		r = gp_addr_index_init(&b->blocks);
	if (!r)
		r = buddy_know(b, 0);
	if (!r && b->pool.unused.size) {
		struct gp_range range;

		r = gp_pool_get(&b->pool, 0, 0, 0, 0, &range);
		if (!r)
			r = buddy_add_range(b, range, BUDDY_FRESH);
	}
	if (r)
		buddy_fini(a);
	return r;
}

static const struct gp_option buddy_options[] = {
	{ .name = "min_block",
	  .help = "smallest block",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct buddy, min_block),
	  .default_text = "512",
	  .min = GP_ALIGN,
	  .max = 2 * GP_MIB,
	  .pow2 = true },
	{ .name = "quick",
	  .help = "largest block kept whole for the next of its order (0: none)",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct buddy, quick),
	  .default_text = BUDDY_QUICK,
	  .max = GP_GIB },
	GP_POOL_CHUNK_OPTION(struct buddy, pool.opt.chunk, "arena"),
	GP_POOL_OPTIONS(struct buddy, pool.opt),
	{ .name = NULL },
};

const struct gp_allocator_ops gp_buddy_ops = {
	.name = "buddy",
	.summary = "power-of-two blocks that split and merge, lowest address first",
	.caps = GP_CAP_ANY_SIZE | GP_CAP_COALESCES | GP_CAP_GROWS | GP_CAP_ARENAS,
	.state_size = sizeof(struct buddy),
	.options = buddy_options,
	.init = buddy_init,
	.fini = buddy_fini,
	.alloc = buddy_alloc,
	.free = buddy_free,
	.usage = buddy_usage,
	.check = gp_buddy_check,
	.trim = buddy_trim,
	.walk = gp_buddy_walk,
};
