/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_order: free blocks in the order of size, then address: what a best fit with a fixed rule
 * for ties needs. Nothing is ever allocated: the links are in the blocks (left, right), so that
 * putting a block in cannot fail.
 *
 * Shape       32 bins for each doubling of the size, a bitmap of those that hold something, and in
 *             each bin a treap: a search tree by (size, address) that is a heap by a hash of the
 *             block's number (R. Seidel, C. Aragon: "Randomized search trees", 1996)
 * Cost        most bins hold a few blocks: one or two steps. Expected O(log n) in the blocks of one
 *             bin; 4 KiB a set
 * Threads     the caller serialises
 */
#ifndef GP_TORCH_ORDER_H
#define GP_TORCH_ORDER_H

#include "torch_block.h"

#define TORCH_ORDER_BINS 896 /* of 2^32 units: 32 * (32 - 5 + 1) */

struct torch_order {
	uint64_t any;                         /* bit: this word of `full` is not 0 */
	uint64_t full[TORCH_ORDER_BINS / 64]; /* bit: this bin is not empty */
	uint32_t root[TORCH_ORDER_BINS];
};

/* Block n, of units and an address that do not change while it is in. */
void torch_order_insert(struct torch_order *s, struct torch_block *blocks, uint32_t n);
/* It must be in. */
void torch_order_remove(struct torch_order *s, struct torch_block *blocks, uint32_t n);
/* The first block not below (units, addr); TORCH_NIL: none. */
uint32_t torch_order_lower(const struct torch_order *s, const struct torch_block *blocks,
			   uint32_t units, uint64_t addr);
/* The last block below (units, addr); TORCH_NIL: none. */
uint32_t torch_order_below(const struct torch_order *s, const struct torch_block *blocks,
			   uint32_t units, uint64_t addr);
/* Walks up: the first block, the one behind a block that is, or was, of this size and address. */
static inline uint32_t torch_order_first(const struct torch_order *s,
					 const struct torch_block *blocks)
{
	return torch_order_lower(s, blocks, 0, 0);
}

static inline uint32_t torch_order_behind(const struct torch_order *s,
					  const struct torch_block *blocks, uint32_t units,
					  uint64_t addr)
{
	return torch_order_lower(s, blocks, units, addr + 1);
}

/* Is this block found where it belongs? For audits. */
bool torch_order_holds(const struct torch_order *s, const struct torch_block *blocks, uint32_t n);

#endif
