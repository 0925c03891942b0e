/* SPDX-License-Identifier: Apache-2.0
 *
 * buddy: the state of the buddy allocator, for its two files: alloc_buddy.c, which tells shape,
 * invariants and cost, and buddy_audit.c.
 */
#ifndef GP_BUDDY_H
#define GP_BUDDY_H

#include "order_sets.h"
#include "streams.h"
#include "unit_space.h"

#define BUDDY_FRESH UINT16_MAX
#define BUDDY_NONE  GP_INDEX_NONE
/* What the index says of a block: state, order, stream of the last user. */
#define BUDDY_USED     0u
#define BUDDY_MERGED   1u
#define BUDDY_QUICKLY  2u
#define BUDDY_LG_STATE 22
#define BUDDY_LG_ORDER 16

/* The free blocks of one stream, or fresh ones. */
struct buddy_free {
	struct gp_order_sets merged, quick;
	uint64_t quick_bytes;
};

struct buddy {
	uint64_t min_block, quick;
	struct gp_pool pool;

	struct gp_streams streams;
	struct buddy_free **free; /* [0] fresh, [1 + stream] */
	uint32_t n_free;
	struct gp_unit_space space;
	unsigned lg_min;             /* log2 of bytes */
	unsigned n_orders;           /* the space is one block of order n_orders - 1 */
	struct gp_addr_index blocks; /* 1 + unit -> what starts there */
	uint64_t live, granted_bytes;
};

static inline uint32_t buddy_value(unsigned state, unsigned order, uint16_t stream)
{
	return state << BUDDY_LG_STATE | order << BUDDY_LG_ORDER | stream;
}

/* Of BUDDY_NONE: 3, which no block has. */
static inline unsigned buddy_state(uint32_t value)
{
	return value >> BUDDY_LG_STATE;
}

static inline unsigned buddy_order(uint32_t value)
{
	return value >> BUDDY_LG_ORDER & 0x3f;
}

static inline uint16_t buddy_stream(uint32_t value)
{
	return (uint16_t)value;
}

/* What is known of the block that starts at a unit; BUDDY_NONE: none does. */
static inline uint32_t buddy_at(const struct buddy *b, uint64_t unit)
{
	return gp_addr_index_find(&b->blocks, unit + 1);
}

static inline struct buddy_free *buddy_free_of(const struct buddy *b, uint16_t stream)
{
	return b->free[(uint16_t)(stream + 1)];
}

/* Hooks of struct gp_allocator_ops. */
int gp_buddy_check(const struct gp_allocator *a, FILE *why);
int gp_buddy_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg);

#endif
