/* SPDX-License-Identifier: Apache-2.0
 *
 * fit_audit: the audit and the heap map of fit.h.
 */
#include "fit.h"

#include <errno.h>

struct fit_sums {
	uint64_t used, quick, holes;
	uint64_t chunks; /* which all of this is in, and in main too */
};

static int fit_check_tiles(const struct gp_fit *f, const char *owner, struct fit_sums *sums,
			   FILE *why)
{
	for (uint32_t n = 1; n < f->t.n; n++) {
		const struct gp_tile *b = &f->t.tiles[n];
		enum gp_tile_state state = gp_tile_state(b);
		bool small = b->state & GP_TILE_SMALL;

		if (state == GP_TILE_DEAD || state == GP_TILE_END)
			continue;
		sums->used += state == GP_TILE_USED || state == GP_TILE_PART ? b->units : 0;
		sums->quick += state == GP_TILE_QUICK ? b->units : 0;
		sums->chunks += state == GP_TILE_CHUNK ? b->units : 0;
		sums->holes += b->hole;
		if (state == GP_TILE_USED && f->coalesce && small != (b->units <= f->quick_units))
			return gp_tiling_complain(&f->t, n, owner, "is in the wrong part", why);
		if (state == GP_TILE_CHUNK && f->t.tiles[b->chain].chain != n)
			return gp_tiling_complain(&f->t, n, owner, "is a chunk of nothing", why);
	}
	return 0;
}

int gp_fit_check(const struct gp_allocator *a, FILE *why)
{
	const struct gp_fit *f = gp_fit_of(a);
	struct fit_sums sums = { 0 };
	uint64_t held, binned = 0, quick = 0;
	const char *owner = a->ops->name;
	int r = gp_tiling_check(&f->t, owner, why);

	if (!r)
		r = fit_check_tiles(f, owner, &sums, why);
	if (!r)
		r = gp_size_bins_check(&f->bins, &f->t, owner, &binned, why);
	for (uint32_t s = 0; s < f->n_streams && !r; s++)
		r = gp_quick_check(f->quick_of[s], &f->t, GP_TILE_QUICK | GP_TILE_SMALL, s, owner,
				   &quick, why);
	held = sums.used + sums.quick + sums.holes;
	if (r || (sums.holes == binned && sums.quick == quick && sums.used == f->granted_units &&
		  sums.chunks == f->small_units &&
		  held << GP_TILE_LG_UNIT == f->pool.reserved_bytes - f->pool.unused.size))
		return r;
	fprintf(why, "%s: units used %llu, free %llu (%llu in bins), all %llu do not add up\n",
		owner, (unsigned long long)sums.used, (unsigned long long)sums.holes,
		(unsigned long long)binned, (unsigned long long)held);
	return -EILSEQ;
}

/* The blocks and holes of a piece, or of a chunk. */
static int fit_walk_piece(const struct gp_fit *f, uint32_t n, gp_walk_fn *fn, void *arg)
{
	int r = 0;

	for (; n && f->t.tiles[n].state != GP_TILE_END && !r; n = f->t.tiles[n].next) {
		const struct gp_tile *b = &f->t.tiles[n];
		enum gp_tile_state state = gp_tile_state(b);

		if (state == GP_TILE_CHUNK)
			r = fit_walk_piece(f, b->chain, fn, arg);
		else if (b->units)
			r = fn(arg, (struct gp_range){ gp_tile_addr(b), gp_tile_bytes(b) },
			       state != GP_TILE_QUICK);
		if (!r && b->hole)
			r = fn(arg, (struct gp_range){ gp_hole_addr(b), gp_hole_bytes(b) }, false);
	}
	return r;
}

int gp_fit_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	const struct gp_fit *f = gp_fit_of(a);
	int r = f->pool.unused.size ? fn(arg, f->pool.unused, false) : 0;

	for (uint32_t n = f->t.pieces; n && !r; n = f->t.tiles[n].chain)
		r = fit_walk_piece(f, n, fn, arg);
	return r;
}
