/* SPDX-License-Identifier: Apache-2.0
 *
 * fit_audit: the audit and the heap map of fit.h.
 */
#include "fit.h"

#include <errno.h>

/* Sums up, and finds neighbours that ought to be one. */
static int fit_check_tiles(const struct gp_fit *f, const char *owner,
			   uint64_t units[GP_TILE_STATES + GP_TILE_SMALL], FILE *why)
{
	for (uint32_t n = f->t.first; n < f->t.n; n++) {
		const struct gp_tile *b = &f->t.tiles[n], *next = &f->t.tiles[b->next];
		bool small = b->state & GP_TILE_SMALL;

		units[b->state] += b->units;
		if (gp_tile_state(b) == GP_TILE_FREE && next->state == b->state &&
		    (f->coalesce || !small))
			return gp_tiling_complain(&f->t, n, owner,
						  "is free beside a free block of its part", why);
		if (gp_tile_state(b) == GP_TILE_USED && f->coalesce &&
		    small != (b->units <= f->quick_units))
			return gp_tiling_complain(&f->t, n, owner, "is in the wrong part", why);
	}
	return 0;
}

int gp_fit_check(const struct gp_allocator *a, FILE *why)
{
	const struct gp_fit *f = gp_fit_of(a);
	uint64_t units[GP_TILE_STATES + GP_TILE_SMALL] = { 0 };
	uint64_t used, is_free, held, binned = 0, quick = 0;
	const char *owner = a->ops->name;
	int r = gp_tiling_check(&f->t, owner, why);

	if (!r)
		r = fit_check_tiles(f, owner, units, why);
	for (unsigned i = 0; i < GP_FIT_PARTS && !r; i++)
		r = gp_size_bins_check(&f->bins[i], &f->t,
				       GP_TILE_FREE | (i == GP_FIT_SMALL ? GP_TILE_SMALL : 0u),
				       owner, &binned, why);
	for (uint32_t s = 0; s < f->n_streams && !r; s++)
		r = gp_quick_check(f->quick_of[s], &f->t, GP_TILE_QUICK | GP_TILE_SMALL, s, owner,
				   &quick, why);
	used = units[GP_TILE_USED] + units[GP_TILE_USED | GP_TILE_SMALL] + units[GP_TILE_PART];
	is_free = units[GP_TILE_FREE] + units[GP_TILE_FREE | GP_TILE_SMALL];
	held = used + is_free + units[GP_TILE_QUICK | GP_TILE_SMALL];
	if (r || (is_free == binned && units[GP_TILE_QUICK | GP_TILE_SMALL] == quick &&
		  used == f->granted_units &&
		  held << GP_TILE_LG_UNIT == f->pool.reserved_bytes - f->pool.unused.size))
		return r;
	fprintf(why, "%s: units used %llu, free %llu (%llu in bins), all %llu do not add up\n",
		owner, (unsigned long long)used, (unsigned long long)is_free,
		(unsigned long long)binned, (unsigned long long)held);
	return -EILSEQ;
}

int gp_fit_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	const struct gp_fit *f = gp_fit_of(a);
	int r = f->pool.unused.size ? fn(arg, f->pool.unused, false) : 0;

	for (uint32_t i = f->t.first; i < f->t.n && !r; i++) {
		const struct gp_tile *b = &f->t.tiles[i];

		/* The first tile of a piece. */
		if (b->state == GP_TILE_DEAD || b->state == GP_TILE_END || b->prev)
			continue;
		for (; b->state != GP_TILE_END && !r; b = &f->t.tiles[b->next])
			r = fn(arg, (struct gp_range){ gp_tile_addr(b), gp_tile_bytes(b) },
			       gp_tile_state(b) == GP_TILE_USED || b->state == GP_TILE_PART);
	}
	return r;
}
