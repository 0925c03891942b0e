/* SPDX-License-Identifier: Apache-2.0
 *
 * free_tiles: joining, streams, and the audit; the rest is inline in the header.
 */
#include "free_tiles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int gp_free_tiles_init(struct gp_free_tiles *f, bool joins)
{
	return gp_tiling_init(&f->t, joins);
}

void gp_free_tiles_fini(struct gp_free_tiles *f)
{
	gp_tiling_fini(&f->t);
	for (uint32_t i = 0; i < f->n_lists; i++)
		free(f->lists[i]);
	free(f->lists);
	f->lists = NULL;
	f->n_lists = 0;
}

int gp_free_tiles_know(struct gp_free_tiles *f, uint32_t stream)
{
	struct gp_free_lists **lists = realloc(f->lists, (stream + 2) * sizeof(*lists));

	if (!lists)
		return -ENOMEM;
	f->lists = lists;
	while (f->n_lists < stream + 2) {
		lists[f->n_lists] = calloc(1, sizeof(**lists));
		if (!lists[f->n_lists])
			return -ENOMEM;
		lists[f->n_lists++]->bins.lg_steps = f->lg_steps;
	}
	return 0;
}

uint32_t gp_free_tiles_release(struct gp_free_tiles *f, uint32_t n, uint16_t stream)
{
	const struct gp_tile *left = &f->t.tiles[f->t.tiles[n].prev];
	const struct gp_tile *right = &f->t.tiles[f->t.tiles[n].next];
	bool joins = f->coalesce || stream == GP_FREE_FRESH;
	bool joins_left = joins && gp_free_tiles_joins(left, stream);
	bool joins_right = joins && gp_free_tiles_joins(right, stream);
	uint16_t owner = f->t.tiles[n].stream;

	if (joins_left && left->stream != GP_FREE_FRESH)
		owner = left->stream;
	if (joins_right && right->stream != GP_FREE_FRESH)
		owner = right->stream;
	if (joins_right) {
		gp_free_tiles_unlink(f, f->t.tiles[n].next);
		gp_tiling_swallow(&f->t, n);
	}
	if (joins_left) {
		n = f->t.tiles[n].prev;
		gp_free_tiles_unlink(f, n);
		gp_tiling_swallow(&f->t, n);
	}
	f->t.tiles[n].stream = owner;
	gp_free_tiles_push(f, n);
	return n;
}

void gp_free_tiles_move(struct gp_free_tiles *f, uint16_t from, uint16_t to)
{
	const struct gp_size_bins *bins = &gp_free_tiles_of(f, from)->bins;

	while (!gp_size_bins_empty(bins)) {
		uint32_t n = gp_size_bins_any(bins);

		gp_free_tiles_unlink(f, n);
		f->t.tiles[n].stream = to;
		gp_free_tiles_release(f, n, to);
	}
}

/* Sums up, and finds neighbours that ought to be one. */
static int free_tiles_check_joined(const struct gp_free_tiles *f, const char *owner,
				   uint64_t *units, FILE *why)
{
	for (uint32_t n = 1; n < f->t.n; n++) {
		const struct gp_tile *b = &f->t.tiles[n], *next = &f->t.tiles[b->next];

		units[b->state] += b->units;
		if (f->coalesce && b->state == GP_TILE_FREE && next->state == GP_TILE_FREE &&
		    b->stream == next->stream)
			return gp_tiling_complain(&f->t, n, owner,
						  "is free beside a free block of its stream", why);
	}
	return 0;
}

int gp_free_tiles_check(const struct gp_free_tiles *f, gp_quick_key *key_of, const char *owner,
			uint64_t units[GP_TILE_END + 1], FILE *why)
{
	uint64_t binned = 0, quick = 0;
	int r = gp_tiling_check(&f->t, owner, why);

	memset(units, 0, (GP_TILE_END + 1) * sizeof(*units));
	if (!r)
		r = free_tiles_check_joined(f, owner, units, why);
	for (uint32_t i = 0; i < f->n_lists && !r; i++) {
		r = gp_size_bins_check(&f->lists[i]->bins, &f->t, (uint16_t)(i - 1), owner, &binned,
				       why);
		if (!r)
			r = gp_quick_check(&f->lists[i]->quick, &f->t, (uint16_t)(i - 1), key_of,
					   owner, &quick, why);
	}
	if (r || (units[GP_TILE_FREE] == binned && units[GP_TILE_QUICK] == quick))
		return r;
	fprintf(why, "%s: %llu free and %llu quick units, %llu and %llu in lists\n", owner,
		(unsigned long long)units[GP_TILE_FREE], (unsigned long long)units[GP_TILE_QUICK],
		(unsigned long long)binned, (unsigned long long)quick);
	return -EILSEQ;
}
