/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_block: see torch_block.h; cutting and joining is inline there.
 */
#include "torch_block.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCKS_FIRST 256

int torch_blocks_init(struct torch_blocks *t, bool with_ages)
{
	int r;

	*t = (struct torch_blocks){ .n = 1 };
	r = gp_addr_index_init(&t->index);
	if (r)
		return r;
	t->at = calloc(BLOCKS_FIRST, sizeof(*t->at));
	if (with_ages)
		t->freed_at = calloc(BLOCKS_FIRST, sizeof(*t->freed_at));
	t->cap = BLOCKS_FIRST;
	if (t->at && (t->freed_at || !with_ages))
		return 0;
	torch_blocks_fini(t);
	return -ENOMEM;
}

void torch_blocks_fini(struct torch_blocks *t)
{
	gp_addr_index_fini(&t->index);
	free(t->at);
	free(t->freed_at);
	*t = (struct torch_blocks){ 0 };
}

int torch_blocks_grow(struct torch_blocks *t)
{
	uint32_t cap = 2 * t->cap;
	struct torch_block *at;
	uint32_t *freed_at;

	if (cap > GP_INDEX_VALUE_MAX + 1)
		return -ENOSPC;
	at = realloc(t->at, cap * sizeof(*at));
	if (!at)
		return -ENOMEM;
	t->at = at;
	if (t->freed_at) {
		freed_at = realloc(t->freed_at, cap * sizeof(*freed_at));
		if (!freed_at)
			return -ENOMEM;
		t->freed_at = freed_at;
	}
	t->cap = cap;
	return 0;
}

uint32_t torch_block_add(struct torch_blocks *t, struct gp_range segment, uint16_t lane,
			 bool expandable)
{
	uint32_t n = torch_block_record(t);

	t->at[n] = (struct torch_block){ .addr = segment.addr,
					 .lane = lane,
					 .units = (uint32_t)(segment.size >> TORCH_LG_UNIT),
					 .expandable = expandable };
	return n;
}

int torch_blocks_refuse(const struct torch_blocks *t, uint64_t addr)
{
	for (uint32_t n = 1; n < t->n; n++) {
		const struct torch_block *b = &t->at[n];

		if (b->state == TORCH_FREE && addr - b->addr < torch_bytes(b))
			return -EALREADY;
	}
	return -EINVAL;
}

const char *torch_block_fault(const struct torch_blocks *t, uint32_t n)
{
	const struct torch_block *b = &t->at[n], *next = &t->at[b->next];
	bool indexed = b->state == TORCH_USED || b->state == TORCH_PENDING;

	if ((torch_blocks_find(t, b->addr) == n) != indexed)
		return indexed ? "is not in the index" : "is free and in the index";
	if (!b->units)
		return "is empty";
	if (b->prev && t->at[b->prev].next != n)
		return "does not meet its left neighbour";
	if (!b->next)
		return NULL;
	if (next->prev != n || next->addr != b->addr + torch_bytes(b))
		return "does not meet its right neighbour";
	if (next->lane != b->lane || next->expandable != b->expandable)
		return "is beside one of another lane";
	return NULL;
}
