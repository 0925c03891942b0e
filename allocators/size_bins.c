/* SPDX-License-Identifier: Apache-2.0
 *
 * size_bins: the rarer searches and the audit; the rest is inline in the header.
 */
#include "size_bins.h"

#include <errno.h>

void gp_size_bins_init(struct gp_size_bins *b, uint32_t heads)
{
	*b = (struct gp_size_bins){ .heads = heads };
}

uint32_t gp_size_bins_latest(const struct gp_size_bins *b, const struct gp_tiling *t, unsigned c)
{
	uint32_t n = gp_link_tile(gp_tiling_link(t, b->heads + c)->next);

	return n >= t->first ? n : GP_TILE_NIL;
}

uint32_t gp_size_bins_find_class(struct gp_size_bins *b, const struct gp_tiling *t, uint32_t units)
{
	unsigned fl = gp_floor_log2(units), c = gp_size_bins_class(units);
	bool lower_bound =
		fl <= GP_BINS_LG_STEPS || !(units & ((UINT32_C(1) << (fl - GP_BINS_LG_STEPS)) - 1));

	c += !lower_bound;
	return gp_size_bins_from(b, t, &c);
}

/* The smallest of a class that is large enough. */
static uint32_t bins_smallest(const struct gp_size_bins *b, const struct gp_tiling *t, unsigned c,
			      uint32_t units)
{
	uint32_t n = gp_size_bins_latest(b, t, c), best = GP_TILE_NIL;

	for (; n; n = gp_size_bins_next(t, n))
		if (t->tiles[n].units >= units &&
		    (!best || t->tiles[n].units < t->tiles[best].units))
			best = n;
	return best;
}

uint32_t gp_size_bins_find_best(struct gp_size_bins *b, const struct gp_tiling *t, uint32_t units)
{
	unsigned c = gp_size_bins_class(units);
	uint32_t n = bins_smallest(b, t, c, units);

	if (n)
		return n;
	c++;
	return gp_size_bins_from(b, t, &c) ? bins_smallest(b, t, c, units) : GP_TILE_NIL;
}

int gp_size_bins_check(const struct gp_size_bins *b, const struct gp_tiling *t, unsigned state,
		       const char *owner, uint64_t *units, FILE *why)
{
	for (unsigned c = 0; c < GP_BINS_CLASSES; c++) {
		uint32_t n = gp_size_bins_latest(b, t, c);
		bool marked = b->map[c / 64] >> (c % 64) & 1;

		if (marked != (n != GP_TILE_NIL) || (marked && !(b->top >> (c / 64) & 1))) {
			fprintf(why, "%s: the bitmap of class %u is wrong\n", owner, c);
			return -EILSEQ;
		}
		for (; n; n = gp_size_bins_next(t, n)) {
			const struct gp_tile *tile = &t->tiles[n];

			if (tile->state != state || gp_size_bins_class(tile->units) != c)
				return gp_tiling_complain(t, n, owner, "is in the wrong bin", why);
			*units += tile->units;
		}
	}
	return 0;
}
