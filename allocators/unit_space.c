/* SPDX-License-Identifier: Apache-2.0
 *
 * unit_space: ranges that come and go; translation is inline in the header.
 */
#include "unit_space.h"

#include <errno.h>

#include "lazy.h"

static uint64_t space_pages(const struct gp_unit_space *s)
{
	return UINT64_C(1) << (s->lg_units + s->lg_unit - s->lg_page);
}

int gp_unit_space_init(struct gp_unit_space *s, const struct gp_pool *pool, unsigned lg_unit,
		       unsigned lg_units)
{
	int r;

	*s = (struct gp_unit_space){ .pool = pool,
				     .lg_unit = lg_unit,
				     .lg_units = lg_units,
				     .lg_page = gp_floor_log2(pool->page) };
	gp_range_set_init(&s->places);
	if (gp_pool_joins(pool))
		return 0;
	r = gp_addr_index_init(&s->pages);
	if (r)
		return r;
	s->page_addr = gp_lazy_alloc(space_pages(s) * sizeof(*s->page_addr));
	s->page_top = gp_lazy_alloc(space_pages(s));
	if (!s->page_addr || !s->page_top)
		return -ENOMEM;
	return gp_range_set_insert(&s->places, 0, UINT64_C(1) << lg_units, 0);
}

void gp_unit_space_fini(struct gp_unit_space *s)
{
	gp_lazy_free(s->page_addr, space_pages(s) * sizeof(*s->page_addr));
	gp_lazy_free(s->page_top, space_pages(s));
	gp_addr_index_fini(&s->pages);
	gp_range_set_fini(&s->places);
}

int gp_unit_space_add(struct gp_unit_space *s, struct gp_range range, uint64_t *unit)
{
	unsigned top = gp_ceil_log2(range.size >> s->lg_unit);
	uint64_t size = UINT64_C(1) << top, n_pages = range.size >> s->lg_page, page;
	int r;

	if (gp_pool_joins(s->pool)) {
		*unit = (range.addr - s->pool->va.addr) >> s->lg_unit;
		return 0;
	}
	if (!gp_range_set_first_fit(&s->places, size, size, unit))
		return GP_NOMEM;
	r = gp_addr_index_reserve(&s->pages, (uint32_t)n_pages);
	if (!r)
		r = gp_range_set_carve(&s->places, *unit, size);
	if (r)
		return r;
	page = *unit >> (s->lg_page - s->lg_unit);
	for (uint64_t i = 0; i < n_pages; i++) {
		gp_addr_index_add(&s->pages, (range.addr >> s->lg_page) + i, (uint32_t)(page + i));
		s->page_addr[page + i] = range.addr + (i << s->lg_page);
		s->page_top[page + i] = (uint8_t)top;
	}
	return 0;
}

void gp_unit_space_drop(struct gp_unit_space *s, struct gp_range range)
{
	uint64_t n_pages = range.size >> s->lg_page, page;
	unsigned top = gp_ceil_log2(range.size >> s->lg_unit);

	if (gp_pool_joins(s->pool))
		return;
	page = gp_addr_index_find(&s->pages, range.addr >> s->lg_page);
	for (uint64_t i = 0; i < n_pages; i++)
		gp_addr_index_remove(&s->pages, (range.addr >> s->lg_page) + i);
	gp_range_set_insert_merge(&s->places, page << (s->lg_page - s->lg_unit), UINT64_C(1) << top,
				  0);
}
