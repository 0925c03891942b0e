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
 *              blocks               hash index: offset -> used or free, order, stream. One 8-byte
 *                                   entry tells all about a block, so that "is my buddy free, and
 *                                   whole?" is one lookup
 *              sets[stream][order]  bitset of the free blocks: the lowest address is found by
 *                                   find-first-set, which keeps the high end empty
 *              Under grow=vmm the space is the address range itself, so blocks of different ranges
 *              merge; otherwise each range (arena) gets a power-of-two place and merging stops at
 *              its size.
 * Invariants   1. two free buddies of one stream never coexist inside an arena
 *              2. blocks tile what is held   3. a block is in its set if and only if it is free
 *                                                                 -> buddy_check() tests each
 * Cost         alloc, free: O(log n) splits or merges at worst, one lookup and one bitset update
 *              each; 16 to 32 bytes a block in host memory
 * Waste        internal < 2x, a third on average for sizes of no pattern (Knuth 2.5, exercise 29);
 *              external: log2(largest / smallest) times the load at worst (Robson 1971)
 * Threads      one at a time
 */
#include "addr_index.h"
#include "bitset.h"
#include "lazy.h"
#include "pool.h"
#include "streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUDDY_ORDERS 40
#define BUDDY_FRESH UINT16_MAX
#define BUDDY_NONE GP_INDEX_NONE
/* What the index says of a block: free flag, order, stream of the last user. */
#define BUDDY_FREE (UINT32_C(1) << 22)
#define BUDDY_LG_ORDER 16

/* The free blocks of one stream, or fresh ones. */
struct buddy_set {
	uint64_t orders; /* which have any */
	struct gp_bitset of[BUDDY_ORDERS];
};

struct buddy {
	uint64_t min_block;
	struct gp_pool pool;

	struct gp_streams streams;
	struct buddy_set **sets; /* [0] fresh, [1 + stream] */
	uint32_t n_sets;
	unsigned lg_min, lg_page; /* log2 of bytes */
	unsigned n_orders;        /* the space is one block of order n_orders - 1 */
	struct gp_addr_index blocks; /* 1 + unit -> what starts there */
	/* Where ranges lie, unless vmm: */
	struct gp_addr_index pages;  /* page of an address -> page of the space */
	uint64_t *page_addr;         /* [page of the space] */
	uint8_t *page_top;           /* [page of the space] order of its arena */
	struct gp_range_set places;  /* free parts of the space, in units */
	uint64_t live, granted_bytes;
};

/* ---- the space ---- */

static uint64_t buddy_units(const struct buddy *b)
{
	return UINT64_C(1) << (b->n_orders - 1);
}

static uint64_t buddy_addr(const struct buddy *b, uint64_t unit)
{
	uint64_t offset = unit << b->lg_min;

	if (GP_LIKELY(gp_pool_joins(&b->pool)))
		return b->pool.va.addr + offset;
	return b->page_addr[offset >> b->lg_page] + (offset & ((UINT64_C(1) << b->lg_page) - 1));
}

/* The unit that addr starts, or GP_BITSET_NONE. */
static uint64_t buddy_unit(const struct buddy *b, uint64_t addr)
{
	uint64_t offset;

	if (GP_LIKELY(gp_pool_joins(&b->pool))) {
		offset = addr - b->pool.va.addr;
		if (offset >= b->pool.va.size)
			return GP_BITSET_NONE;
	} else {
		uint32_t page = gp_addr_index_find(&b->pages, addr >> b->lg_page);

		if (page == GP_INDEX_NONE)
			return GP_BITSET_NONE;
		offset = ((uint64_t)page << b->lg_page) | (addr & ((UINT64_C(1) << b->lg_page) - 1));
	}
	return offset & (b->min_block - 1) ? GP_BITSET_NONE : offset >> b->lg_min;
}

/* The order at which merging stops. */
static unsigned buddy_top(const struct buddy *b, uint64_t unit)
{
	if (GP_LIKELY(gp_pool_joins(&b->pool)))
		return b->n_orders - 1;
	return b->page_top[unit >> (b->lg_page - b->lg_min)];
}

/* ---- blocks and free sets ---- */

static uint32_t buddy_value(bool is_free, unsigned order, uint16_t stream)
{
	return (is_free ? BUDDY_FREE : 0) | order << BUDDY_LG_ORDER | stream;
}

static unsigned buddy_order(uint32_t value)
{
	return value >> BUDDY_LG_ORDER & 0x3f;
}

static uint16_t buddy_stream(uint32_t value)
{
	return (uint16_t)value;
}

/* What is known of the block that starts at a unit; BUDDY_NONE: none does. */
static uint32_t buddy_at(const struct buddy *b, uint64_t unit)
{
	return gp_addr_index_find(&b->blocks, unit + 1);
}

static void buddy_set(struct buddy *b, uint64_t unit, uint32_t value)
{
	*gp_addr_index_entry(&b->blocks, unit + 1) = (unit + 1) << GP_INDEX_VALUE_BITS | value;
}

static void buddy_link(struct buddy *b, uint64_t unit, unsigned order, uint16_t stream)
{
	struct buddy_set *set = b->sets[(uint16_t)(stream + 1)];

	gp_bitset_add(&set->of[order], unit >> order);
	set->orders |= UINT64_C(1) << order;
}

static void buddy_unlink(struct buddy *b, uint64_t unit, unsigned order, uint16_t stream)
{
	struct buddy_set *set = b->sets[(uint16_t)(stream + 1)];

	gp_bitset_remove(&set->of[order], unit >> order);
	if (gp_bitset_empty(&set->of[order]))
		set->orders &= ~(UINT64_C(1) << order);
}

/* A new free block. Room in the index is there. */
static void buddy_add(struct buddy *b, uint64_t unit, unsigned order, uint16_t stream)
{
	gp_addr_index_add(&b->blocks, unit + 1, buddy_value(true, order, stream));
	buddy_link(b, unit, order, stream);
}

static GP_NOINLINE int buddy_new_stream(struct buddy *b, uint32_t stream)
{
	struct buddy_set **sets;
	int r = gp_streams_know(&b->streams, stream);

	if (r)
		return r;
	sets = realloc(b->sets, (stream + 2) * sizeof(*sets));
	if (!sets)
		return -ENOMEM;
	b->sets = sets;
	while (b->n_sets < stream + 2) {
		struct buddy_set *set = calloc(1, sizeof(*set));

		if (!set)
			return -ENOMEM;
		sets[b->n_sets++] = set;
		for (unsigned k = 0; k < b->n_orders && !r; k++)
			r = gp_bitset_init(&set->of[k], buddy_units(b) >> k);
		if (r)
			return r;
	}
	return 0;
}

static int buddy_know(struct buddy *b, uint32_t stream)
{
	return GP_LIKELY(stream + 2 <= b->n_sets) ? 0 : buddy_new_stream(b, stream);
}

/* Frees a block, which is in no set, for `stream`: merges it with its buddy as long as that is free
 * on the same stream or fresh. */
static void buddy_release(struct buddy *b, uint64_t unit, unsigned order, uint16_t stream)
{
	unsigned top = buddy_top(b, unit);

	for (; order < top; order++) {
		uint64_t half = UINT64_C(1) << order, other = unit ^ half;
		uint32_t value = buddy_at(b, other);
		uint16_t owner = buddy_stream(value);

		/* GP_INDEX_NONE has every bit set, which no value has. */
		if (value >> BUDDY_LG_ORDER != (BUDDY_FREE >> BUDDY_LG_ORDER | order))
			break;
		if (owner != stream && owner != BUDDY_FRESH && stream != BUDDY_FRESH)
			break;
		buddy_unlink(b, other, order, owner);
		if (stream == BUDDY_FRESH)
			stream = owner;
		gp_addr_index_remove(&b->blocks, (unit | half) + 1);
		unit &= ~half;
	}
	buddy_set(b, unit, buddy_value(true, order, stream));
	buddy_link(b, unit, order, stream);
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

/* Smallest sufficient order of a set, lowest address; GP_BITSET_NONE: none. */
static uint64_t buddy_find(const struct buddy_set *set, unsigned order, unsigned *have)
{
	uint64_t orders = set->orders >> order;

	if (!orders)
		return GP_BITSET_NONE;
	*have = order + gp_lowest_bit(orders);
	return gp_bitset_first(&set->of[*have]) << *have;
}

/* ---- ranges ---- */

/* Gives a range a place in the space (vmm: it has one) and frees it piece by piece. */
static int buddy_add_range(struct buddy *b, struct gp_range range, uint16_t stream)
{
	uint64_t unit = (range.addr - b->pool.va.addr) >> b->lg_min, end, n_pages, page;
	unsigned top = gp_ceil_log2(range.size >> b->lg_min);
	int r;

	if (!gp_pool_joins(&b->pool)) {
		if (!gp_range_set_first_fit(&b->places, UINT64_C(1) << top, UINT64_C(1) << top,
					    &unit))
			return GP_NOMEM;
		n_pages = range.size >> b->lg_page;
		page = unit >> (b->lg_page - b->lg_min);
		r = gp_addr_index_reserve(&b->pages, (uint32_t)n_pages);
		if (!r)
			r = gp_range_set_carve(&b->places, unit, UINT64_C(1) << top);
		if (r)
			return r;
		for (uint64_t i = 0; i < n_pages; i++) {
			gp_addr_index_add(&b->pages, (range.addr >> b->lg_page) + i,
					  (uint32_t)(page + i));
			b->page_addr[page + i] = range.addr + (i << b->lg_page);
			b->page_top[page + i] = (uint8_t)top;
		}
	}
	r = gp_addr_index_reserve(&b->blocks, 2 * BUDDY_ORDERS);
	if (r)
		return r;
	/* A preallocation need not be a power of two: the largest aligned pieces that fit. */
	for (end = unit + (range.size >> b->lg_min); unit < end;) {
		unsigned order = gp_floor_log2(end - unit);

		if (unit)
			order = gp_lowest_bit(unit) < order ? gp_lowest_bit(unit) : order;
		gp_addr_index_add(&b->blocks, unit + 1, buddy_value(false, order, stream));
		buddy_release(b, unit, order, stream);
		unit += UINT64_C(1) << order;
	}
	return 0;
}

static void buddy_forget_range(struct buddy *b, struct gp_range range)
{
	uint64_t n_pages = range.size >> b->lg_page, page;
	unsigned top = gp_ceil_log2(range.size >> b->lg_min);

	if (gp_pool_joins(&b->pool))
		return;
	page = gp_addr_index_find(&b->pages, range.addr >> b->lg_page);
	for (uint64_t i = 0; i < n_pages; i++)
		gp_addr_index_remove(&b->pages, (range.addr >> b->lg_page) + i);
	gp_range_set_insert_merge(&b->places, page << (b->lg_page - b->lg_min), UINT64_C(1) << top,
				  0);
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
		if (value >> BUDDY_LG_ORDER == (BUDDY_FREE >> BUDDY_LG_ORDER | *have))
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
	int r = gp_addr_index_reserve(&b->blocks, BUDDY_ORDERS);

	if (r)
		return r;
	if (!buddy_holder(b, unit, order, &start, &have))
		return -ENOENT;
	stream = buddy_stream(buddy_at(b, start));
	buddy_unlink(b, start, have, stream);
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
	unsigned order;
	uint64_t unit;

	while ((unit = buddy_find(b->sets[from], 0, &order)) != GP_BITSET_NONE) {
		buddy_unlink(b, unit, order, (uint16_t)(from - 1));
		buddy_release(b, unit, order, to);
	}
}

static int buddy_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct buddy *b = gp_state(a);
	struct gp_range range;
	uint64_t from = 0;
	int r = gp_device_sync(a->dev);

	for (uint32_t i = 1; i < b->n_sets && !r; i++)
		buddy_move_set(b, i, BUDDY_FRESH);
	while (!r && b->pool.reserved_bytes > keep &&
	       gp_pool_range_within(&b->pool, from, UINT64_MAX, &range)) {
		from = range.addr + range.size;
		r = buddy_remove(b, buddy_unit(b, range.addr),
				 gp_floor_log2(range.size >> b->lg_min));
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		if (r)
			break;
		buddy_forget_range(b, range);
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
	uint64_t unit = buddy_find(b->sets[(uint16_t)(stream + 1)], order, have);

	return unit != GP_BITSET_NONE ? unit : buddy_find(b->sets[0], order, have);
}

static int buddy_steal(struct buddy *b, unsigned order, uint16_t stream, uint64_t *unit,
		       unsigned *have)
{
	for (uint32_t i = 1; i < b->n_sets; i++) {
		if (i == stream + 1u)
			continue;
		*unit = buddy_find(b->sets[i], order, have);
		if (*unit != GP_BITSET_NONE)
			return gp_streams_wait(&b->streams, i - 1, stream);
	}
	return GP_NOMEM;
}

/* Takes over every stream's free memory, so that halves freed on different streams merge. */
static int buddy_take_over(struct buddy *b, uint16_t stream)
{
	int r = GP_NOMEM;

	for (uint32_t i = 1; i < b->n_sets; i++) {
		if (i == stream + 1u || !b->sets[i]->orders)
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
	int r = buddy_steal(b, order, stream, unit, have);

	if (r <= 0)
		return r;
	r = buddy_take_over(b, stream);
	if (!r && (*unit = buddy_find_own(b, order, stream, have)) != GP_BITSET_NONE)
		return 0;
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

static int buddy_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct buddy *b = gp_state(a);
	uint32_t stream = gp_pool_stream(&b->pool, req->stream);
	unsigned lg = gp_ceil_log2(req->size), order, have;
	uint16_t owner;
	uint64_t unit;
	int r;

	/* A block is aligned to its own size, as far as the start of the space is: to a page. */
	if (GP_UNLIKELY(req->lg_align > b->lg_page))
		return GP_REFUSED;
	lg = lg > req->lg_align ? lg : req->lg_align;
	order = lg > b->lg_min ? lg - b->lg_min : 0;
	if (GP_UNLIKELY(order >= b->n_orders))
		return GP_NOMEM;
	r = buddy_know(b, stream);
	if (GP_LIKELY(!r))
		r = gp_addr_index_reserve(&b->blocks, BUDDY_ORDERS);
	if (GP_UNLIKELY(r))
		return r;
	unit = buddy_find_own(b, order, (uint16_t)stream, &have);
	if (GP_UNLIKELY(unit == GP_BITSET_NONE)) {
		r = buddy_obtain(a, order, (uint16_t)stream, &unit, &have);
		if (r)
			return r;
	}
	owner = buddy_stream(buddy_at(b, unit));
	buddy_unlink(b, unit, have, owner);
	/* What is split off fresh memory stays fresh; what was another stream's is now ours. */
	buddy_split(b, unit, have, order, owner == BUDDY_FRESH ? BUDDY_FRESH : (uint16_t)stream);
	buddy_set(b, unit, buddy_value(false, order, (uint16_t)stream));
	b->live++;
	b->granted_bytes += b->min_block << order;
	*out = (struct gp_block){ buddy_addr(b, unit), b->min_block << order };
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

static int buddy_free(struct gp_allocator *a, uint64_t addr)
{
	struct buddy *b = gp_state(a);
	uint64_t unit = buddy_unit(b, addr);
	uint32_t value = unit == GP_BITSET_NONE ? BUDDY_NONE : buddy_at(b, unit);

	if (GP_UNLIKELY(value & BUDDY_FREE)) /* BUDDY_NONE has the bit */
		return buddy_refuse(b, unit);
	b->live--;
	b->granted_bytes -= b->min_block << buddy_order(value);
	gp_streams_freed(&b->streams, buddy_stream(value));
	buddy_release(b, unit, buddy_order(value), buddy_stream(value));
	return 0;
}

static bool buddy_owns(const struct gp_allocator *a, uint64_t addr)
{
	const struct buddy *b = gp_state(a);
	uint64_t unit = buddy_unit(b, addr);

	return unit != GP_BITSET_NONE && !(buddy_at(b, unit) & BUDDY_FREE);
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
	uint64_t units = buddy_units(b), pages = units >> (b->lg_page - b->lg_min);

	gp_pool_fini(&b->pool);
	gp_streams_fini(&b->streams);
	for (uint32_t i = 0; i < b->n_sets; i++) {
		for (unsigned k = 0; k < b->n_orders; k++)
			gp_bitset_fini(&b->sets[i]->of[k]);
		free(b->sets[i]);
	}
	free(b->sets);
	gp_lazy_free(b->page_addr, pages * sizeof(*b->page_addr));
	gp_lazy_free(b->page_top, pages);
	gp_addr_index_fini(&b->pages);
	gp_addr_index_fini(&b->blocks);
	gp_range_set_fini(&b->places);
}

static int buddy_init_tables(struct buddy *b)
{
	uint64_t units = buddy_units(b), pages = units >> (b->lg_page - b->lg_min);
	int r = gp_addr_index_init(&b->pages);

	if (!r)
		r = gp_addr_index_init(&b->blocks);
	b->page_addr = gp_lazy_alloc(pages * sizeof(*b->page_addr));
	b->page_top = gp_lazy_alloc(pages);
	if (!b->page_addr || !b->page_top)
		return -ENOMEM;
	return r ? r : gp_range_set_insert(&b->places, 0, units, 0);
}

static int buddy_init(struct gp_allocator *a)
{
	struct buddy *b = gp_state(a);
	/* Twice the card, as the pool's address range: arenas round up to powers of two. */
	unsigned lg_space = gp_ceil_log2(a->dev->info.total_bytes) + 1;
	int r;

	b->lg_min = gp_floor_log2(b->min_block);
	gp_range_set_init(&b->places);
	gp_streams_init(&b->streams, a->dev);
	r = gp_pool_init(&b->pool, a);
	if (r)
		return r;
	b->lg_page = gp_floor_log2(b->pool.page);
	b->n_orders = lg_space - b->lg_min + 1;
	if (b->min_block > b->pool.page || b->n_orders > BUDDY_ORDERS)
		r = gp_allocator_why(a, -EINVAL, "min_block=%llu: expected %llu to %llu on this device",
				     (unsigned long long)b->min_block,
				     (unsigned long long)(UINT64_C(1) << (lg_space + 1)) >>
					     BUDDY_ORDERS,
				     (unsigned long long)b->pool.page);
	if (!r)
		r = buddy_init_tables(b);
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

/* ---- audit and walk ---- */

static int buddy_check_block(const struct buddy *b, uint64_t unit, FILE *why)
{
	uint32_t value = buddy_at(b, unit), other;
	unsigned order = buddy_order(value);
	const struct buddy_set *set = b->sets[(uint16_t)(buddy_stream(value) + 1)];
	bool is_free = value & BUDDY_FREE;
	const char *what = NULL;

	other = buddy_at(b, unit ^ (UINT64_C(1) << order));
	if (unit & ((UINT64_C(1) << order) - 1))
		what = "is not aligned to its size";
	else if (is_free && !gp_bitset_has(&set->of[order], unit >> order))
		what = "is free and not in its set";
	else if (is_free && order < buddy_top(b, unit) && other == value)
		what = "is free beside its free buddy";
	if (!what)
		return 0;
	fprintf(why, "buddy: block %#llx of order %u %s\n",
		(unsigned long long)buddy_addr(b, unit), order, what);
	return -EILSEQ;
}

/* Calls fn for each block that starts in a range, in order. */
static int buddy_each(const struct buddy *b, const struct gp_range_entry *e,
		      int (*fn)(const struct buddy *b, uint64_t unit, void *arg), void *arg)
{
	uint64_t unit = buddy_unit(b, e->addr), end = unit + (e->size >> b->lg_min);
	int r = 0;

	/* Under vmm a range may begin in the middle of a block that starts in an earlier one. */
	while (unit < end && !r) {
		uint32_t value = buddy_at(b, unit);

		if (value == BUDDY_NONE) {
			unit++;
			continue;
		}
		r = fn(b, unit, arg);
		unit += UINT64_C(1) << buddy_order(value);
	}
	return r;
}

struct buddy_totals {
	uint64_t live, granted, is_free, in_sets;
	FILE *why;
};

static int buddy_total(const struct buddy *b, uint64_t unit, void *arg)
{
	struct buddy_totals *t = arg;
	uint32_t value = buddy_at(b, unit);
	uint64_t size = b->min_block << buddy_order(value);

	t->live += !(value & BUDDY_FREE);
	t->granted += value & BUDDY_FREE ? 0 : size;
	t->is_free += value & BUDDY_FREE ? size : 0;
	return buddy_check_block(b, unit, t->why);
}

static uint64_t buddy_set_bytes(const struct buddy *b, const struct buddy_set *set)
{
	uint64_t bytes = 0;

	for (unsigned k = 0; k < b->n_orders; k++) {
		const struct gp_bitset *of = &set->of[k];

		for (uint64_t i = gp_bitset_next(of, 0); i != GP_BITSET_NONE;
		     i = gp_bitset_next(of, i + 1))
			bytes += b->min_block << k;
	}
	return bytes;
}

static int buddy_check(const struct gp_allocator *a, FILE *why)
{
	const struct buddy *b = gp_state(a);
	const struct gp_range_entry *e = gp_range_set_ceiling(&b->pool.ranges, 0);
	struct buddy_totals t = { .why = why };
	int r = 0;

	for (; e && !r; e = gp_range_set_ceiling(&b->pool.ranges, e->addr + 1))
		r = buddy_each(b, e, buddy_total, &t);
	for (uint32_t i = 0; i < b->n_sets; i++)
		t.in_sets += buddy_set_bytes(b, b->sets[i]);
	if (r || (t.live == b->live && t.granted == b->granted_bytes && t.is_free == t.in_sets &&
		  t.granted + t.is_free == b->pool.reserved_bytes))
		return r;
	fprintf(why, "buddy: used %llu, free %llu (%llu in sets), held %llu bytes do not add up\n",
		(unsigned long long)t.granted, (unsigned long long)t.is_free,
		(unsigned long long)t.in_sets, (unsigned long long)b->pool.reserved_bytes);
	return -EILSEQ;
}

struct buddy_walk {
	gp_walk_fn *fn;
	void *arg;
};

static int buddy_walk_one(const struct buddy *b, uint64_t unit, void *arg)
{
	struct buddy_walk *w = arg;
	uint32_t value = buddy_at(b, unit);
	struct gp_range range = { buddy_addr(b, unit), b->min_block << buddy_order(value) };

	return w->fn(w->arg, range, !(value & BUDDY_FREE));
}

static int buddy_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	const struct buddy *b = gp_state(a);
	const struct gp_range_entry *e = gp_range_set_ceiling(&b->pool.ranges, 0);
	struct buddy_walk w = { fn, arg };
	int r = 0;

	for (; e && !r; e = gp_range_set_ceiling(&b->pool.ranges, e->addr + 1))
		r = buddy_each(b, e, buddy_walk_one, &w);
	return r;
}

static const struct gp_option buddy_options[] = {
	{ .name = "min_block", .help = "smallest block", .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct buddy, min_block), .default_text = "512", .min = GP_ALIGN,
	  .max = 2 * GP_MIB, .pow2 = true },
	GP_POOL_CHUNK_OPTION(struct buddy, pool.opt.chunk, "arena"),
	GP_POOL_OPTIONS(struct buddy, pool.opt),
	{ .name = NULL },
};

const struct gp_allocator_ops gp_buddy_ops = {
	.name = "buddy",
	.summary = "power-of-two blocks that split and merge, lowest address first",
	.caps = GP_CAP_ANY_SIZE | GP_CAP_COALESCES | GP_CAP_GROWS,
	.state_size = sizeof(struct buddy),
	.options = buddy_options,
	.init = buddy_init,
	.fini = buddy_fini,
	.alloc = buddy_alloc,
	.free = buddy_free,
	.usage = buddy_usage,
	.check = buddy_check,
	.trim = buddy_trim,
	.walk = buddy_walk,
	.owns = buddy_owns,
};
