/* SPDX-License-Identifier: Apache-2.0
 *
 * addr_index: from an address to the record of its block, in constant time and little memory: the
 * only thing a free knows is the address.
 *
 * Shape       open addressing with linear probing, a power of two of 8-byte entries:
 *
 *               | key: address / 256, 40 bits | value: record number, 24 bits |     0: empty
 *
 *             Home is the top bits of key * 2^64/phi (Knuth, TAOCP vol. 3, 6.4, multiplicative
 *             hashing): addresses at regular distances, the usual case here, spread evenly.
 *             Removal shifts later entries back (Knuth 6.4, algorithm R), so there are no
 *             tombstones and a lookup never slows down with age.
 * Cost        1.1 probes in tables up to 512 KiB, at most an eighth full (up to 256 KiB a sixteenth);
 *             about 1.5 in larger ones, at most half full: 64 to 256, and 16 to 32 bytes for each key
 * Limits      addresses below 2^48, multiples of 256 after the caller's shift; 2^24 records
 * Threads     the caller serialises
 */
#ifndef GP_ADDR_INDEX_H
#define GP_ADDR_INDEX_H

#include "base.h"

#define GP_INDEX_NONE       UINT32_MAX
#define GP_INDEX_VALUE_BITS 24
#define GP_INDEX_VALUE_MAX  ((UINT32_C(1) << GP_INDEX_VALUE_BITS) - 1)
#define GP_INDEX_KEY_MAX    ((UINT64_C(1) << 40) - 1)

struct gp_addr_index {
	uint64_t *table;
	uint32_t mask;    /* entries - 1 */
	uint32_t shift;   /* 64 - log2 entries */
	uint32_t n, room; /* keys; most of them before it grows */
};

int gp_addr_index_init(struct gp_addr_index *ix);
void gp_addr_index_fini(struct gp_addr_index *ix);
int gp_addr_index_grow(struct gp_addr_index *ix, uint32_t more);

/* Room for `more` keys, so that adding them cannot fail: call it before a change that must not
 * stop half way. -ENOMEM, or -ENOSPC beyond 2^24 records. */
static inline int gp_addr_index_reserve(struct gp_addr_index *ix, uint32_t more)
{
	return GP_LIKELY(ix->n + more <= ix->room) ? 0 : gp_addr_index_grow(ix, more);
}

static inline uint32_t gp_addr_index_home(const struct gp_addr_index *ix, uint64_t key)
{
	return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> ix->shift);
}

/* Where the key is in the table, or GP_INDEX_NONE: also for keys that can't be there (0, above
 * GP_INDEX_KEY_MAX). Valid until the next addition or removal. */
static inline uint32_t gp_addr_index_probe(const struct gp_addr_index *ix, uint64_t key)
{
	uint32_t i = gp_addr_index_home(ix, key);

	for (;; i = (i + 1) & ix->mask) {
		uint64_t e = ix->table[i];

		if (GP_LIKELY(e >> GP_INDEX_VALUE_BITS == key))
			return e ? i : GP_INDEX_NONE;
		if (!e)
			return GP_INDEX_NONE;
	}
}

static inline uint32_t gp_addr_index_value(const struct gp_addr_index *ix, uint32_t i)
{
	return (uint32_t)ix->table[i] & GP_INDEX_VALUE_MAX;
}

/* The value under key, or GP_INDEX_NONE. */
static inline uint32_t gp_addr_index_find(const struct gp_addr_index *ix, uint64_t key)
{
	uint32_t i = gp_addr_index_probe(ix, key);

	return i != GP_INDEX_NONE ? gp_addr_index_value(ix, i) : GP_INDEX_NONE;
}

/* Changes the value of what probe found. */
static inline void gp_addr_index_set(struct gp_addr_index *ix, uint32_t i, uint32_t value)
{
	ix->table[i] = (ix->table[i] & ~(uint64_t)GP_INDEX_VALUE_MAX) | value;
}

/* The key must not be there; room must have been reserved. */
static inline void gp_addr_index_add(struct gp_addr_index *ix, uint64_t key, uint32_t value)
{
	uint32_t i = gp_addr_index_home(ix, key);

	while (ix->table[i])
		i = (i + 1) & ix->mask;
	ix->table[i] = key << GP_INDEX_VALUE_BITS | value;
	ix->n++;
}

/* Removes what probe found. */
static inline void gp_addr_index_remove_at(struct gp_addr_index *ix, uint32_t hole)
{
	uint32_t i;

	for (i = (hole + 1) & ix->mask; ix->table[i]; i = (i + 1) & ix->mask) {
		uint32_t home = gp_addr_index_home(ix, ix->table[i] >> GP_INDEX_VALUE_BITS);

		/* An entry may move back to the hole unless its home lies after it. */
		if (((i - home) & ix->mask) >= ((i - hole) & ix->mask)) {
			ix->table[hole] = ix->table[i];
			hole = i;
		}
	}
	ix->table[hole] = 0;
	ix->n--;
}

/* The key must be there. */
static inline void gp_addr_index_remove(struct gp_addr_index *ix, uint64_t key)
{
	gp_addr_index_remove_at(ix, gp_addr_index_probe(ix, key));
}

#endif
