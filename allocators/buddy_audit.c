/* SPDX-License-Identifier: Apache-2.0
 *
 * buddy_audit: every invariant of alloc_buddy.c, and its heap map.
 */
#include "buddy.h"

#include <errno.h>

static int buddy_check_block(const struct buddy *b, uint64_t unit, FILE *why)
{
	uint32_t value = buddy_at(b, unit);
	unsigned order = buddy_order(value);
	const struct buddy_free *f = buddy_free_of(b, buddy_stream(value));
	bool merged = buddy_state(value) == BUDDY_MERGED;
	const char *what = NULL;

	if (unit & ((UINT64_C(1) << order) - 1))
		what = "is not aligned to its size";
	else if (buddy_state(value) == BUDDY_USED)
		return 0;
	else if (!gp_order_sets_has(merged ? &f->merged : &f->quick, unit, order))
		what = "is free and not in its set";
	else if (merged && order < gp_unit_space_top(&b->space, unit) &&
		 buddy_at(b, unit ^ (UINT64_C(1) << order)) == value)
		what = "is free beside its free buddy";
	if (!what)
		return 0;
	fprintf(why, "buddy: block %#llx of order %u %s\n",
		(unsigned long long)gp_unit_space_addr(&b->space, unit), order, what);
	return -EILSEQ;
}

/* Calls fn for each block that starts in a range, in order. */
static int buddy_each(const struct buddy *b, const struct gp_range_entry *e,
		      int (*fn)(const struct buddy *b, uint64_t unit, void *arg), void *arg)
{
	uint64_t unit = gp_unit_space_unit(&b->space, e->addr), end = unit + (e->size >> b->lg_min);
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
	uint64_t live, granted, is_free, in_sets, quick, kept;
	FILE *why;
};

static int buddy_total(const struct buddy *b, uint64_t unit, void *arg)
{
	struct buddy_totals *t = arg;
	uint32_t value = buddy_at(b, unit);
	uint64_t size = b->min_block << buddy_order(value);

	t->live += buddy_state(value) == BUDDY_USED;
	*(buddy_state(value) == BUDDY_USED ? &t->granted : &t->is_free) += size;
	t->quick += buddy_state(value) == BUDDY_QUICKLY ? size : 0;
	return buddy_check_block(b, unit, t->why);
}

int gp_buddy_check(const struct gp_allocator *a, FILE *why)
{
	const struct buddy *b = gp_state(a);
	const struct gp_range_entry *e = gp_range_set_ceiling(&b->pool.ranges, 0);
	struct buddy_totals t = { .why = why };
	int r = 0;

	for (; e && !r; e = gp_range_set_ceiling(&b->pool.ranges, e->addr + 1))
		r = buddy_each(b, e, buddy_total, &t);
	for (uint32_t i = 0; i < b->n_free; i++) {
		t.in_sets += (gp_order_sets_units(&b->free[i]->merged) +
			      gp_order_sets_units(&b->free[i]->quick))
			     << b->lg_min;
		t.kept += b->free[i]->quick_bytes;
	}
	if (r || (t.quick == t.kept && t.live == b->live && t.granted == b->granted_bytes &&
		  t.is_free == t.in_sets && t.granted + t.is_free == b->pool.reserved_bytes))
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
	struct gp_range range = { gp_unit_space_addr(&b->space, unit),
				  b->min_block << buddy_order(value) };

	return w->fn(w->arg, range, buddy_state(value) == BUDDY_USED);
}

int gp_buddy_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	const struct buddy *b = gp_state(a);
	const struct gp_range_entry *e = gp_range_set_ceiling(&b->pool.ranges, 0);
	struct buddy_walk w = { fn, arg };
	int r = 0;

	for (; e && !r; e = gp_range_set_ceiling(&b->pool.ranges, e->addr + 1))
		r = buddy_each(b, e, buddy_walk_one, &w);
	return r;
}
