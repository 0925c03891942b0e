/* SPDX-License-Identifier: Apache-2.0
 *
 * size_bins: the rarer searches and the audit; the rest is inline in the header.
 */
#include "size_bins.h"

#include <errno.h>

void gp_size_bins_init(struct gp_size_bins *b)
{
	*b = (struct gp_size_bins){ 0 };
	/* A class that no size has, after the last of each set, ends a search. */
	for (unsigned set = 1; set <= GP_BINS_SETS; set++)
		b->map[set * GP_BINS_WORDS] = 1;
}

uint32_t gp_size_bins_latest(const struct gp_tiling *t, uint32_t c)
{
	uint32_t next = t->links[c].next;

	return next < GP_LINK_HEADS ? GP_TILE_NIL : gp_link_tile(next);
}

uint32_t gp_size_bins_find_class(const struct gp_size_bins *b, unsigned set,
				 const struct gp_tiling *t, uint32_t units)
{
	unsigned fl = gp_floor_log2(units);
	uint32_t c = set * GP_BINS_CLASSES + gp_size_bins_class(units);
	bool lower_bound =
		fl <= GP_BINS_LG_STEPS || !(units & ((UINT32_C(1) << (fl - GP_BINS_LG_STEPS)) - 1));

	c += !lower_bound;
	return gp_size_bins_from(b, set, t, &c);
}

/* The smallest of a class that is large enough. */
static uint32_t bins_smallest(const struct gp_tiling *t, uint32_t c, uint32_t units)
{
	uint32_t n = gp_size_bins_latest(t, c), best = GP_TILE_NIL;

	for (; n; n = gp_size_bins_next(t, n))
		if (t->tiles[n].hole >= units && (!best || t->tiles[n].hole < t->tiles[best].hole))
			best = n;
	return best;
}

uint32_t gp_size_bins_find_best(const struct gp_size_bins *b, unsigned set,
				const struct gp_tiling *t, uint32_t units)
{
	uint32_t c = set * GP_BINS_CLASSES + gp_size_bins_class(units);
	uint32_t n = bins_smallest(t, c, units);

	if (n)
		return n;
	c++;
	return gp_size_bins_from(b, set, t, &c) ? bins_smallest(t, c, units) : GP_TILE_NIL;
}

static int bins_check_class(const struct gp_size_bins *b, const struct gp_tiling *t, uint32_t c,
			    const char *owner, uint64_t *units, FILE *why)
{
	uint32_t n = gp_size_bins_latest(t, c);
	unsigned small = c < GP_BINS_CLASSES ? 0 : GP_TILE_SMALL;

	if ((b->map[c / 64] >> (c % 64) & 1) != (n != GP_TILE_NIL)) {
		fprintf(why, "%s: the bitmap of class %u is wrong\n", owner, c);
		return -EILSEQ;
	}
	for (; n; n = gp_size_bins_next(t, n)) {
		const struct gp_tile *tile = &t->tiles[n];

		if ((tile->state & GP_TILE_SMALL) != small ||
		    gp_size_bins_class(tile->hole) != c % GP_BINS_CLASSES)
			return gp_tiling_complain(t, n, owner, "is before a hole in the wrong bin",
						  why);
		*units += tile->hole;
	}
	return 0;
}

int gp_size_bins_check(const struct gp_size_bins *b, const struct gp_tiling *t, const char *owner,
		       uint64_t *units, FILE *why)
{
	int r = 0;

	for (uint32_t c = 0; c < GP_BINS_SETS * GP_BINS_CLASSES && !r; c++)
		if (c % GP_BINS_CLASSES >= 1u << GP_BINS_LG_STEPS)
			r = bins_check_class(b, t, c, owner, units, why);
	return r;
}
