/* SPDX-License-Identifier: Apache-2.0
 *
 * block_table: address -> entry of a block, for many threads. Finding and claiming take no lock;
 * entering and removing are serialised by the caller. Made for wrap_threads.c.
 *
 * Shape        open addressing with linear probing, at most half full, of pointers to entries
 *              that stay where they are, a cache line each
 * Invariants   1. an entry's word is address | state in one atomic: the thread whose exchange
 *                 turns LIVE into CACHED owns the block, any other claim of it fails
 *              2. a search without the caller's lock may miss an entry that is moving at that
 *                 moment, and never leads to a wrong claim, since the exchange compares the
 *                 address too: on a miss the caller looks again under its lock
 *              3. entries and outgrown tables are freed at the end only, so that a search may
 *                 still be in one
 * Cost         find: one or two cache lines; claim: one exchange
 * Memory       64 bytes an entry and 32 to 128 bytes of table
 */
#ifndef GP_BLOCK_TABLE_H
#define GP_BLOCK_TABLE_H

#include <stdatomic.h>

#include "base.h"

#define GP_CACHE_LINE 64

/* In the low bits of an entry's word, which are 0 in an address. */
enum gp_block_state {
	GP_BLOCK_UNUSED,
	GP_BLOCK_LIVE,
	GP_BLOCK_CACHED,
	GP_BLOCK_STATE_MASK = GP_ALIGN - 1,
};

struct gp_block_entry {
	_Alignas(GP_CACHE_LINE) _Atomic uint64_t word;
	/* The owner's: whoever claimed the block, or holds the caller's lock. */
	uint64_t granted;
	struct gp_block_entry *next;
	uint32_t stream;
	uint32_t class;
};

struct gp_block_slot {
	_Atomic uint64_t addr; /* 0: empty */
	struct gp_block_entry *_Atomic entry;
};

struct gp_block_slots {
	struct gp_block_slots *outgrown;
	unsigned lg;
	struct gp_block_slot slot[];
};

struct gp_block_slab;

struct gp_block_table {
	struct gp_block_slots *_Atomic slots; /* read by every search: no line with what changes */
	char apart[GP_CACHE_LINE];
	size_t n;
	struct gp_block_entry *unused;
	struct gp_block_slab *slabs;
};

/* -ENOMEM */
int gp_block_table_init(struct gp_block_table *t);
void gp_block_table_fini(struct gp_block_table *t);

/* Both serialised by the caller. A new entry is CACHED and its owner is who enters it. NULL: no
 * host memory, or an address that is no multiple of GP_ALIGN or is 0, which cannot carry a state.
 * The address must not be there yet. */
struct gp_block_entry *gp_block_table_enter(struct gp_block_table *t, uint64_t addr,
					    uint64_t granted);
void gp_block_table_remove(struct gp_block_table *t, struct gp_block_entry *e);

static inline size_t gp_block_table_hash(const struct gp_block_slots *s, uint64_t addr)
{
	return (size_t)(((addr / GP_ALIGN) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - s->lg));
}

/* Without the caller's lock a NULL only means "look again under it". */
static inline struct gp_block_entry *gp_block_table_find(const struct gp_block_table *t,
							 uint64_t addr)
{
	struct gp_block_slots *s = atomic_load_explicit(&t->slots, memory_order_acquire);
	size_t mask = ((size_t)1 << s->lg) - 1, i = gp_block_table_hash(s, addr);

	for (size_t left = mask; left; left--, i = (i + 1) & mask) {
		uint64_t found = atomic_load_explicit(&s->slot[i].addr, memory_order_acquire);

		if (GP_LIKELY(found == addr))
			return atomic_load_explicit(&s->slot[i].entry, memory_order_acquire);
		if (!found)
			return NULL;
	}
	return NULL;
}

static inline uint64_t gp_block_addr(const struct gp_block_entry *e)
{
	return atomic_load_explicit(&e->word, memory_order_relaxed) &
	       ~(uint64_t)GP_BLOCK_STATE_MASK;
}

static inline enum gp_block_state gp_block_state(const struct gp_block_entry *e)
{
	return (enum gp_block_state)(atomic_load_explicit(&e->word, memory_order_acquire) &
				     GP_BLOCK_STATE_MASK);
}

/* LIVE -> CACHED; true for the one caller that may take the block. */
static inline bool gp_block_claim(struct gp_block_entry *e, uint64_t addr)
{
	uint64_t live = addr | GP_BLOCK_LIVE;

	return atomic_compare_exchange_strong_explicit(&e->word, &live, addr | GP_BLOCK_CACHED,
						       memory_order_acq_rel, memory_order_relaxed);
}

/* CACHED -> LIVE, by the owner. */
static inline uint64_t gp_block_hand_out(struct gp_block_entry *e)
{
	uint64_t addr = gp_block_addr(e);

	atomic_store_explicit(&e->word, addr | GP_BLOCK_LIVE, memory_order_release);
	return addr;
}

#endif
