/* SPDX-License-Identifier: Apache-2.0
 *
 * order_sets: sets of aligned blocks of 2^order units, one for each order, which know their lowest
 * member and the lowest order that has any: find-first-set at each step.
 *
 * Shape       orders: a bit for each order that has any; of[order]: a bitset of unit >> order
 * Cost        add, remove, first: what a bitset takes
 * Memory      units / 4 bytes at most, of which untouched pages cost nothing (lazy.h)
 */
#ifndef GP_ORDER_SETS_H
#define GP_ORDER_SETS_H

#include "bitset.h"

#define GP_ORDERS 40 /* 2^39 units at most */

struct gp_order_sets {
	uint64_t orders;
	struct gp_bitset of[GP_ORDERS];
	void *memory;
	uint64_t memory_bytes;
};

/* For blocks of orders below n_orders in 2^(n_orders - 1) units. -ENOMEM: nothing to undo. */
int gp_order_sets_init(struct gp_order_sets *s, unsigned n_orders);
void gp_order_sets_fini(struct gp_order_sets *s);
/* Units in all blocks. Linear, for audits. */
uint64_t gp_order_sets_units(const struct gp_order_sets *s);

static inline bool gp_order_sets_has(const struct gp_order_sets *s, uint64_t unit, unsigned order)
{
	return gp_bitset_has(&s->of[order], unit >> order);
}

static inline void gp_order_sets_add(struct gp_order_sets *s, uint64_t unit, unsigned order)
{
	gp_bitset_add(&s->of[order], unit >> order);
	s->orders |= UINT64_C(1) << order;
}

static inline void gp_order_sets_remove(struct gp_order_sets *s, uint64_t unit, unsigned order)
{
	gp_bitset_remove(&s->of[order], unit >> order);
	if (gp_bitset_empty(&s->of[order]))
		s->orders &= ~(UINT64_C(1) << order);
}

/* The lowest block of the lowest order from `order` on, which becomes *have, or GP_BITSET_NONE. */
static inline uint64_t gp_order_sets_find(const struct gp_order_sets *s, unsigned order,
					  unsigned *have)
{
	uint64_t orders = s->orders >> order;

	if (!orders)
		return GP_BITSET_NONE;
	*have = order + gp_lowest_bit(orders);
	return gp_bitset_first(&s->of[*have]) << *have;
}

#endif
