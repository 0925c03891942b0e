/* SPDX-License-Identifier: Apache-2.0
 *
 * addr_index: growing the table; the rest is inline in the header.
 */
#include "addr_index.h"

#include <errno.h>
#include <stdlib.h>

#define INDEX_LG_FIRST 8
#define INDEX_LG_MAX   (GP_INDEX_VALUE_BITS + 1)
/* A second probe is a branch mispredicted: tables that the second-level cache holds with room to spare (256
 * KiB) are at most a sixteenth full, the next (512 KiB) an eighth. */
#define INDEX_LG_SPARSEST 15
#define INDEX_LG_SPARSE   16

static uint32_t index_room(unsigned lg)
{
	return (UINT32_C(1) << lg) / (lg <= INDEX_LG_SPARSEST ? 16 : lg <= INDEX_LG_SPARSE ? 8 : 2);
}

static int index_resize(struct gp_addr_index *ix, unsigned lg)
{
	struct gp_addr_index bigger = { .mask = (UINT32_C(1) << lg) - 1,
					.shift = 64 - lg,
					.room = index_room(lg) };

	bigger.table = calloc((size_t)1 << lg, sizeof(*bigger.table));
	if (!bigger.table)
		return -ENOMEM;
	for (uint32_t i = 0; ix->table && i <= ix->mask; i++) {
		uint64_t e = ix->table[i];

		if (e)
			gp_addr_index_add(&bigger, e >> GP_INDEX_VALUE_BITS,
					  (uint32_t)e & GP_INDEX_VALUE_MAX);
	}
	free(ix->table);
	*ix = bigger;
	return 0;
}

int gp_addr_index_init(struct gp_addr_index *ix)
{
	*ix = (struct gp_addr_index){ 0 };
	return index_resize(ix, INDEX_LG_FIRST);
}

void gp_addr_index_fini(struct gp_addr_index *ix)
{
	free(ix->table);
	*ix = (struct gp_addr_index){ 0 };
}

int gp_addr_index_grow(struct gp_addr_index *ix, uint32_t more)
{
	unsigned lg = 64 - ix->shift;

	while (lg <= INDEX_LG_MAX && (uint64_t)ix->n + more > index_room(lg))
		lg++;
	return lg > INDEX_LG_MAX ? -ENOSPC : index_resize(ix, lg);
}
