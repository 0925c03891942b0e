/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics: the shadow of device memory.
 *
 * Shape       one set of holes. A range that appears is one hole; a block is cut out of a hole and
 *             put back beside its neighbours; a range can only go when it is one hole, or lies
 *             within one. So there is no need to keep the ranges or the blocks themselves.
 *             The hole that came last is kept beside the set until the next change: memory fresh
 *             from the device becomes a block at once, a block on its way back to the device was
 *             freed just before, and neither then touches the set.
 * Invariants  1. holes do not overlap   2. two holes that touch have different tags, the fresh one
 *             excepted   3. hole_squares is the exact sum of the squares of those in the set, and
 *             whole_pages that of the pages in them
 * Cost        take, give: three binary searches and at most one insertion or removal
 * Overflow    sizes stay below 2^60, so that a square needs 120 bits and a sum of 2^8 such fits;
 *             all holes together are no larger than a device, far below
 * Threads     the caller serialises
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "metrics.h"

static struct gp_wide wide_square(uint64_t x)
{
	uint64_t a = x >> 32, b = x & UINT32_MAX;
	uint64_t middle = a * b, low = b * b + (middle << 33);

	return (struct gp_wide){ a * a + (middle >> 31) + (low < b * b), low };
}

static void wide_add(struct gp_wide *sum, struct gp_wide x)
{
	sum->low += x.low;
	sum->high += x.high + (sum->low < x.low);
}

static void wide_subtract(struct gp_wide *sum, struct gp_wide x)
{
	sum->high -= x.high + (sum->low < x.low);
	sum->low -= x.low;
}

static double wide_double(struct gp_wide x)
{
	return (double)x.high * 18446744073709551616.0 + (double)x.low;
}

void gp_metrics_init(struct gp_metrics *m)
{
	*m = (struct gp_metrics){ 0 };
	gp_range_set_init(&m->holes);
	gp_range_set_init(&m->pages);
	gp_range_set_init(&m->same);
}

void gp_metrics_fini(struct gp_metrics *m)
{
	gp_range_set_fini(&m->holes);
	gp_range_set_fini(&m->pages);
	gp_range_set_fini(&m->same);
}

static GP_NOINLINE int metrics_fault(struct gp_metrics *m, int err, const char *what, uint64_t addr,
				     uint64_t size)
{
	m->fault = err;
	snprintf(m->why, sizeof(m->why), "%s: %llu bytes at 0x%llx",
		 err == -ENOMEM ? "no host memory to follow" : what, (unsigned long long)size,
		 (unsigned long long)addr);
	return err;
}

/* The whole pages in a hole, as one range: they adjoin. */
static struct gp_range metrics_whole(const struct gp_metrics *m, uint64_t addr, uint64_t size)
{
	const struct gp_range_entry *first = gp_range_set_ceiling(&m->pages, addr);
	const struct gp_range_entry *last = gp_range_set_floor(&m->pages, addr + size - 1);
	uint64_t end;

	if (!first || !last)
		return (struct gp_range){ addr, 0 };
	end = last->addr + last->size <= addr + size ? last->addr + last->size : last->addr;
	return (struct gp_range){ first->addr, end > first->addr ? end - first->addr : 0 };
}

/* Counts a hole of the set in the sums, or out of them. */
static void metrics_count(struct gp_metrics *m, uint64_t addr, uint64_t size, bool in)
{
	void (*change)(struct gp_wide *, struct gp_wide) = in ? wide_add : wide_subtract;
	struct gp_range whole = { addr, 0 };

	if (GP_UNLIKELY(m->pages.n && size))
		whole = metrics_whole(m, addr, size);
	if (GP_LIKELY(!whole.size)) {
		change(&m->hole_squares, wide_square(size));
		return;
	}
	m->whole_pages += in ? whole.size : 0 - whole.size;
	change(&m->hole_squares, wide_square(whole.addr - addr));
	change(&m->hole_squares, wide_square(addr + size - whole.addr - whole.size));
}

/* Takes [addr, addr+size) out of the hole that holds it all; its tag goes to *tag. */
static int metrics_cut(struct gp_metrics *m, uint64_t addr, uint64_t size, uint64_t *tag)
{
	const struct gp_range_entry *found = gp_range_set_containing(&m->holes, addr);
	struct gp_range_entry hole;
	uint64_t before;
	int r;

	if (GP_UNLIKELY(!found))
		return -ENOENT;
	hole = *found;
	before = addr - hole.addr;
	r = gp_range_set_carve(&m->holes, addr, size);
	if (GP_UNLIKELY(r))
		return r;
	metrics_count(m, hole.addr, hole.size, false);
	metrics_count(m, hole.addr, before, true);
	metrics_count(m, addr + size, hole.size - before - size, true);
	*tag = hole.tag;
	return 0;
}

/* Makes [addr, addr+size) a hole, together with those of the same tag that it touches. */
static int metrics_fill(struct gp_metrics *m, uint64_t addr, uint64_t size, uint64_t tag)
{
	const struct gp_range_entry *l = gp_range_set_floor(&m->holes, addr);
	uint64_t left = l && l->addr + l->size == addr && l->tag == tag ? l->size : 0;
	const struct gp_range_entry *r = gp_range_set_at(&m->holes, addr + size);
	uint64_t right = r && r->tag == tag ? r->size : 0;
	int err = gp_range_set_insert_merge(&m->holes, addr, size, tag);

	if (GP_UNLIKELY(err))
		return err;
	metrics_count(m, addr - left, left, false);
	metrics_count(m, addr + size, right, false);
	metrics_count(m, addr - left, left + size + right, true);
	return 0;
}

/* Brings the fresh hole into the set. */
static int metrics_settle(struct gp_metrics *m)
{
	struct gp_range_entry hole = m->fresh;
	int r;

	if (GP_LIKELY(!hole.size))
		return 0;
	m->fresh.size = 0;
	r = metrics_fill(m, hole.addr, hole.size, hole.tag);
	if (GP_UNLIKELY(r))
		return metrics_fault(m, r, "memory is free already", hole.addr, hole.size);
	return 0;
}

/* Cuts from the fresh hole, which has [addr, addr+size) all in it; what is left goes to the set. */
static int metrics_cut_inside(struct gp_metrics *m, uint64_t addr, uint64_t size)
{
	struct gp_range_entry hole = m->fresh;
	uint64_t before = addr - hole.addr, after = hole.size - before - size;
	int r = 0;

	m->fresh.size = 0;
	if (before)
		r = metrics_fill(m, hole.addr, before, hole.tag);
	if (after && !r)
		r = metrics_fill(m, addr + size, after, hole.tag);
	return r;
}

/* Cuts what lies on both sides of the fresh hole, which goes with it. */
static int metrics_cut_around(struct gp_metrics *m, uint64_t addr, uint64_t size)
{
	struct gp_range_entry hole = m->fresh;
	uint64_t before = hole.addr - addr, after = size - before - hole.size;
	uint64_t left = hole.tag, right = hole.tag;
	int r = 0;

	m->fresh.size = 0;
	if (before)
		r = metrics_cut(m, addr, before, &left);
	if (after && !r)
		r = metrics_cut(m, hole.addr + hole.size, after, &right);
	return r || (left == hole.tag && right == hole.tag) ? r : -ENOENT;
}

static inline bool metrics_holds(uint64_t addr, uint64_t size, uint64_t in_addr, uint64_t in_size)
{
	return in_addr - addr <= size && in_size <= size - (in_addr - addr);
}

/* Takes [addr, addr+size) out of the holes; their tag goes to *tag. */
static int metrics_remove(struct gp_metrics *m, uint64_t addr, uint64_t size, uint64_t *tag)
{
	const struct gp_range_entry *fresh = &m->fresh;

	if (!fresh->size)
		return metrics_cut(m, addr, size, tag);
	*tag = fresh->tag;
	if (metrics_holds(fresh->addr, fresh->size, addr, size))
		return metrics_cut_inside(m, addr, size);
	if (metrics_holds(addr, size, fresh->addr, fresh->size))
		return metrics_cut_around(m, addr, size);
	return metrics_settle(m) ? m->fault : metrics_cut(m, addr, size, tag);
}

/* Another way to memory that is known appears or goes. */
static void metrics_observe_same(struct gp_metrics *m, bool added, struct gp_range range,
				 uint64_t same)
{
	int r = added ? gp_range_set_insert(&m->same, range.addr, range.size, same)
		      : gp_range_set_remove(&m->same, range.addr, NULL);

	if (r)
		metrics_fault(m, r, "mapped over other memory", range.addr, range.size);
}

static int metrics_added(struct gp_metrics *m, struct gp_range range, uint64_t tag)
{
	int r = metrics_settle(m);

	if (!r && m->stitches) {
		r = gp_range_set_insert(&m->pages, range.addr, range.size, 0);
		if (r)
			metrics_fault(m, r, "memory is held already", range.addr, range.size);
	}
	if (r)
		return r;
	m->fresh = (struct gp_range_entry){ range.addr, range.size, tag };
	m->observed += range.size;
	return 0;
}

static int metrics_gone(struct gp_metrics *m, struct gp_range range, uint64_t tag)
{
	int r = metrics_remove(m, range.addr, range.size, &tag);

	if (r)
		return metrics_fault(m, r, "memory went back to the device with blocks in it",
				     range.addr, range.size);
	if (m->stitches)
		gp_range_set_remove(&m->pages, range.addr, NULL);
	m->observed -= range.size;
	return 0;
}

void gp_metrics_observe(void *arg, bool added, struct gp_range range, bool joins, uint64_t same)
{
	struct gp_metrics *m = arg;
	uint64_t tag = joins ? 0 : range.addr;

	if (m->fault)
		return;
	if (same)
		metrics_observe_same(m, added, range, same);
	else if (added)
		metrics_added(m, range, tag);
	else
		metrics_gone(m, range, tag);
}

uint64_t gp_metrics_place(const struct gp_metrics *m, uint64_t addr, uint64_t *left)
{
	const struct gp_range_entry *e = m->same.n ? gp_range_set_containing(&m->same, addr) : NULL;

	if (!e)
		return addr;
	*left = gp_min_u64(*left, e->addr + e->size - addr);
	return e->tag + (addr - e->addr);
}

/* Takes, or gives back, a block that lies where memory was not mapped first. */
static GP_NOINLINE int metrics_pieces(struct gp_metrics *m, uint64_t addr, uint64_t size, bool take)
{
	int r = metrics_settle(m);

	for (uint64_t end = addr + size, left; addr < end && !r; addr += left) {
		uint64_t place, tag;

		left = end - addr;
		place = gp_metrics_place(m, addr, &left);
		r = take ? metrics_cut(m, place, left, &tag) : metrics_fill(m, place, left, 0);
	}
	return r;
}

static inline bool metrics_elsewhere(const struct gp_metrics *m, uint64_t addr)
{
	return GP_UNLIKELY(m->same.n) && gp_range_set_containing(&m->same, addr);
}

int gp_metrics_take(struct gp_metrics *m, const struct gp_block *b, uint64_t requested,
		    struct gp_shadow *block)
{
	int r;

	if (GP_UNLIKELY(m->fault))
		return m->fault;
	if (GP_UNLIKELY(b->granted < requested))
		return metrics_fault(m, -EILSEQ, "smaller than asked for", b->addr, b->granted);
	block->tag = 0;
	if (m->blind)
		r = 0;
	else if (metrics_elsewhere(m, b->addr))
		r = metrics_pieces(m, b->addr, b->granted, true);
	else
		r = metrics_remove(m, b->addr, b->granted, &block->tag);
	if (GP_UNLIKELY(r))
		return metrics_fault(m, r == -ENOMEM ? r : -EILSEQ,
				     "overlaps a live block, or is not reserved memory", b->addr,
				     b->granted);
	block->addr = b->addr;
	block->granted = b->granted;
	block->requested = requested;
	m->requested += requested;
	m->granted += b->granted;
	return 0;
}

int gp_metrics_give(struct gp_metrics *m, struct gp_shadow *block)
{
	int r;

	if (GP_UNLIKELY(m->fault || metrics_settle(m)))
		return m->fault;
	if (metrics_elsewhere(m, block->addr)) {
		r = metrics_pieces(m, block->addr, block->granted, false);
		if (r)
			return metrics_fault(m, r, "memory is free already", block->addr,
					     block->granted);
	} else if (!m->blind) {
		m->fresh = (struct gp_range_entry){ block->addr, block->granted, block->tag };
	}
	m->requested -= block->requested;
	m->granted -= block->granted;
	block->addr = 0;
	return 0;
}

int gp_metrics_settle(struct gp_metrics *m)
{
	return m->fault ? m->fault : metrics_settle(m);
}

uint64_t gp_metrics_largest(struct gp_metrics *m)
{
	metrics_settle(m);
	return gp_max_u64(gp_range_set_largest(&m->holes), m->whole_pages);
}

/* part / whole taken from 1; 0 for no whole. Never below 0, where rounding would put it. */
static double metrics_lost(double part, double whole)
{
	return whole > part ? 1 - part / whole : 0;
}

void gp_metrics_sample(struct gp_metrics *m, uint64_t reserved, struct gp_sample *out)
{
	struct gp_wide squares;
	double free_bytes;

	metrics_settle(m);
	free_bytes = (double)m->holes.bytes;
	squares = m->hole_squares;
	wide_add(&squares, wide_square(m->whole_pages));
	out->requested = m->requested;
	out->granted = m->granted;
	out->reserved = reserved;
	out->internal = metrics_lost((double)m->requested, (double)m->granted);
	if (m->blind) {
		out->external = out->external_sq = NAN;
		return;
	}
	out->external = metrics_lost((double)gp_metrics_largest(m), free_bytes);
	out->external_sq = metrics_lost(wide_double(squares), free_bytes * free_bytes);
}
