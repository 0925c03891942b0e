/* SPDX-License-Identifier: Apache-2.0
 *
 * size_bins: the rarer search and the audit; the rest is inline in the header.
 */
#include "size_bins.h"

#include <errno.h>

uint32_t gp_size_bins_find_class(const struct gp_size_bins *b, uint32_t units)
{
	unsigned fl = gp_floor_log2(units), c = gp_size_bins_class(b, units);
	bool lower_bound =
		fl <= b->lg_steps || !(units & ((UINT32_C(1) << (fl - b->lg_steps)) - 1));

	return gp_size_bins_from(b, lower_bound ? c : c + 1);
}

/* The smallest of a list that is large enough. */
static uint32_t bins_smallest(const struct gp_tiling *t, uint32_t n, uint32_t units)
{
	uint32_t best = GP_TILE_NIL;

	for (; n; n = t->tiles[n].fnext)
		if (t->tiles[n].units >= units &&
		    (!best || t->tiles[n].units < t->tiles[best].units))
			best = n;
	return best;
}

uint32_t gp_size_bins_find_best(const struct gp_size_bins *b, const struct gp_tiling *t,
				uint32_t units)
{
	unsigned c = gp_size_bins_class(b, units);
	uint32_t n = bins_smallest(t, b->head[c], units);

	return n ? n : bins_smallest(t, gp_size_bins_from(b, c + 1), units);
}

int gp_size_bins_check(const struct gp_size_bins *b, const struct gp_tiling *t, unsigned state,
		       const char *owner, uint64_t *units, FILE *why)
{
	for (unsigned c = 0; c < GP_BINS_CLASSES; c++) {
		bool marked = b->map[c / 64] >> (c % 64) & 1;

		for (uint32_t n = b->head[c]; n; n = t->tiles[n].fnext) {
			const struct gp_tile *tile = &t->tiles[n];

			if (tile->state != state || gp_size_bins_class(b, tile->units) != c)
				return gp_tiling_complain(t, n, owner, "is in the wrong bin", why);
			*units += tile->units;
		}
		if (marked == (b->head[c] != GP_TILE_NIL) &&
		    (b->map[c / 64] != 0) == (b->top >> (c / 64) & 1))
			continue;
		fprintf(why, "%s: the bitmap of class %u is wrong\n", owner, c);
		return -EILSEQ;
	}
	return 0;
}
