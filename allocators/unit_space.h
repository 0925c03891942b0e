/* SPDX-License-Identifier: Apache-2.0
 *
 * unit_space: one space of units (2^lg_unit bytes) over all that a pool holds, for who reckons with
 * offsets: in it each range has a place that is aligned to its own size, rounded up to a power of
 * two.
 *
 * Shape       ranges that join (vmm)   the space is the pool's address range
 *             else                     a place for each range; tables of pages lead from address
 *                                      to unit (a hash index) and back (an array)
 * Invariants  a range has one place; places do not overlap
 * Cost        O(1): an addition, or a lookup for each way
 * Threads     one at a time
 */
#ifndef GP_UNIT_SPACE_H
#define GP_UNIT_SPACE_H

#include "addr_index.h"
#include "pool.h"

#define GP_UNIT_NONE UINT64_MAX

struct gp_unit_space {
	const struct gp_pool *pool;
	unsigned lg_unit, lg_page; /* log2 of bytes */
	unsigned lg_units;         /* units in the space */
	/* Unless ranges join: */
	struct gp_addr_index pages; /* page of an address -> page of the space */
	uint64_t *page_addr;        /* [page of the space] */
	uint8_t *page_top;          /* [page of the space] log2 of its range's units */
	struct gp_range_set places; /* free parts of the space, in units */
};

/* 2^lg_units units over the ranges of a pool. -ENOMEM: fini is still due. */
int gp_unit_space_init(struct gp_unit_space *s, const struct gp_pool *pool, unsigned lg_unit,
		       unsigned lg_units);
void gp_unit_space_fini(struct gp_unit_space *s);
/* Gives a range of the pool a place, which begins at *unit. GP_NOMEM, -errno. */
int gp_unit_space_add(struct gp_unit_space *s, struct gp_range range, uint64_t *unit);
void gp_unit_space_drop(struct gp_unit_space *s, struct gp_range range);

static inline uint64_t gp_unit_space_addr(const struct gp_unit_space *s, uint64_t unit)
{
	uint64_t offset = unit << s->lg_unit;

	if (GP_LIKELY(gp_pool_joins(s->pool)))
		return s->pool->va.addr + offset;
	return s->page_addr[offset >> s->lg_page] + (offset & ((UINT64_C(1) << s->lg_page) - 1));
}

/* The unit that addr starts, or GP_UNIT_NONE. */
static inline uint64_t gp_unit_space_unit(const struct gp_unit_space *s, uint64_t addr)
{
	uint64_t offset;

	if (GP_LIKELY(gp_pool_joins(s->pool))) {
		offset = addr - s->pool->va.addr;
		if (offset >= s->pool->va.size)
			return GP_UNIT_NONE;
	} else {
		uint32_t page = gp_addr_index_find(&s->pages, addr >> s->lg_page);

		if (page == GP_INDEX_NONE)
			return GP_UNIT_NONE;
		offset = (uint64_t)page << s->lg_page | (addr & ((UINT64_C(1) << s->lg_page) - 1));
	}
	return offset & ((UINT64_C(1) << s->lg_unit) - 1) ? GP_UNIT_NONE : offset >> s->lg_unit;
}

/* log2 of the largest aligned block around a unit that is one piece. */
static inline unsigned gp_unit_space_top(const struct gp_unit_space *s, uint64_t unit)
{
	if (GP_LIKELY(gp_pool_joins(s->pool)))
		return s->lg_units;
	return s->page_top[unit >> (s->lg_page - s->lg_unit)];
}

#endif
