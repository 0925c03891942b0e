/* SPDX-License-Identifier: Apache-2.0
 *
 * by_address: recordings that name a block by its address, which is used again once the block is
 * freed. Gives each address an id (so that the builder's map stays as small as the one here), and
 * an assumed allocation to each block that is freed but was allocated before the recording began.
 *
 * Not strict  what the builder cannot know: two allocations at one address without a free, a free
 *             of an address that was freed before, a free of another size. Lenient puts in the
 *             missing free, leaves out the second one, takes the size of the allocation.
 * Cost        expected O(1) an event; 32 bytes and a map entry for each address there ever was.
 * Threads     caller serialises.
 */
#ifndef GP_BY_ADDRESS_H
#define GP_BY_ADDRESS_H

#include "replay/id_map.h"
#include "replay/trace.h"

struct gp_by_address_block {
	uint64_t id;
	uint64_t size;
	uint64_t stream; /* as the file spells it */
	bool live;
};

struct gp_by_address {
	struct gp_trace_builder *builder;
	const char *hint;    /* what may be wrong when an address is taken twice; "" */
	struct gp_id_map at; /* address -> index of its last block */
	struct gp_by_address_block *blocks;
	uint32_t n_blocks;
	uint64_t next_id;
};

void gp_by_address_init(struct gp_by_address *m, struct gp_trace_builder *b, const char *hint);
void gp_by_address_fini(struct gp_by_address *m);
/* The last block at this address, or NULL. */
const struct gp_by_address_block *gp_by_address_find(const struct gp_by_address *m, uint64_t addr);
/* r: all but the id. Both return what gp_trace_builder_add() does. */
int gp_by_address_alloc(struct gp_by_address *m, const struct gp_trace_record *r, uint64_t line);
/* r->addr; r->size as the recording says it, 0: it does not. */
int gp_by_address_free(struct gp_by_address *m, const struct gp_trace_record *r, uint64_t line);

#endif
