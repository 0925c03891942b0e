/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_index: growing the table; the rest is inline in the header.
 */
#include "tile_index.h"

#include <errno.h>
#include <stdlib.h>

#define INDEX_LG_FIRST 8
#define INDEX_LG_MAX   (GP_TILE_NUMBER_BITS + 1)
/* A second probe is a branch mispredicted, and adding, finding and removing each have one to fear: tables
 * that the second-level cache holds with room to spare (128 KiB) are at most a sixteenth full, the next
 * (256 KiB) a quarter. From a million entries on each probe misses the cache anyway, and memory counts
 * for more. */
#define INDEX_LG_SPARSEST 15
#define INDEX_LG_SPARSE   16
#define INDEX_LG_DENSE    20

static uint32_t index_room(unsigned lg)
{
	uint32_t entries = UINT32_C(1) << lg;

	if (lg >= INDEX_LG_DENSE)
		return entries / 4 * 3;
	return entries / (lg <= INDEX_LG_SPARSEST ? 16 : lg <= INDEX_LG_SPARSE ? 4 : 2);
}

static void index_move(struct gp_tile_index *to, const struct gp_tile *tiles, uint32_t n)
{
	gp_tile_index_add(to, gp_tile_unit(&tiles[n]), n);
}

static int index_resize(struct gp_tile_index *ix, const struct gp_tile *tiles, unsigned lg)
{
	struct gp_tile_index bigger = { .mask = (UINT32_C(1) << lg) - 1,
					.shift = 64 - lg,
					.room = index_room(lg) };

	bigger.table = calloc((size_t)1 << lg, sizeof(*bigger.table));
	if (!bigger.table)
		return -ENOMEM;
	for (uint32_t i = 0; ix->table && i <= ix->mask; i++)
		if (ix->table[i])
			index_move(&bigger, tiles, gp_tile_index_number(ix->table[i]));
	free(ix->table);
	*ix = bigger;
	return 0;
}

int gp_tile_index_init(struct gp_tile_index *ix)
{
	*ix = (struct gp_tile_index){ 0 };
	return index_resize(ix, NULL, INDEX_LG_FIRST);
}

void gp_tile_index_fini(struct gp_tile_index *ix)
{
	free(ix->table);
	*ix = (struct gp_tile_index){ 0 };
}

int gp_tile_index_grow(struct gp_tile_index *ix, const struct gp_tile *tiles, uint32_t keys)
{
	unsigned lg = 64 - ix->shift;

	while (lg <= INDEX_LG_MAX && keys > index_room(lg))
		lg++;
	return lg > INDEX_LG_MAX ? -ENOSPC : index_resize(ix, tiles, lg);
}
