/* SPDX-License-Identifier: Apache-2.0
 *
 * addr_index: growing the table; the rest is inline in the header.
 */
#include "addr_index.h"

#include <errno.h>
#include <stdlib.h>

#define INDEX_LG_FIRST 8

static int index_resize(struct gp_addr_index *ix, unsigned lg)
{
	struct gp_addr_index bigger = { .mask = (UINT32_C(1) << lg) - 1, .shift = 64 - lg };

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

	while (2 * ((uint64_t)ix->n + more) >= UINT64_C(1) << lg)
		lg++;
	return lg > GP_INDEX_VALUE_BITS + 1 ? -ENOSPC : index_resize(ix, lg);
}
