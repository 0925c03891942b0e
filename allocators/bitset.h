/* SPDX-License-Identifier: Apache-2.0
 *
 * bitset: a set of small integers that knows its lowest member.
 *
 * Shape       level 0 has one bit a member; a bit of level k+1 says whether a 64-bit word of level
 *             k is not 0. As many levels are in use as the largest member so far needs, so that the
 *             top one is one word.
 * Cost        add: one word a level; remove: one word, and one more for each level whose word turns zero;
 *             first: one find-first-set a level: 3 for members below 262144, 5 for 2^30
 * Memory      capacity / 8 bytes and a 63rd of that, zeroed by the caller, so that it can come from
 *             lazy.h and cost what is touched
 */
#ifndef GP_BITSET_H
#define GP_BITSET_H

#include "base.h"

#define GP_BITSET_LEVELS 6
#define GP_BITSET_MAX    (UINT64_C(1) << (6 * GP_BITSET_LEVELS)) /* capacity */
#define GP_BITSET_NONE   UINT64_MAX

struct gp_bitset {
	uint64_t *level[GP_BITSET_LEVELS];
	unsigned n_levels;
};

/* Bytes of memory for members below capacity, 1 .. GP_BITSET_MAX. */
uint64_t gp_bitset_bytes(uint64_t capacity);
/* memory: so many bytes, all 0, which stay the caller's. */
void gp_bitset_init(struct gp_bitset *s, uint64_t capacity, void *memory);
/* Brings the levels into use that a member needs. */
void gp_bitset_raise(struct gp_bitset *s, uint64_t member);

static inline bool gp_bitset_has(const struct gp_bitset *s, uint64_t i)
{
	return s->level[0][i / 64] >> (i % 64) & 1;
}

static inline bool gp_bitset_empty(const struct gp_bitset *s)
{
	return !s->level[s->n_levels - 1][0];
}

static inline void gp_bitset_add(struct gp_bitset *s, uint64_t i)
{
	if (GP_UNLIKELY(i >> (6 * s->n_levels)))
		gp_bitset_raise(s, i);
	/* Whether the levels above have it already costs more to ask than to write. */
	for (unsigned k = 0; k < s->n_levels; k++, i /= 64)
		s->level[k][i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void gp_bitset_remove(struct gp_bitset *s, uint64_t i)
{
	for (unsigned k = 0; k < s->n_levels; k++, i /= 64) {
		uint64_t *word = &s->level[k][i / 64];

		*word &= ~(UINT64_C(1) << (i % 64));
		if (*word)
			return;
	}
}

/* The lowest member; there must be one. */
static inline uint64_t gp_bitset_first(const struct gp_bitset *s)
{
	uint64_t i = 0;

	for (unsigned k = s->n_levels; k-- > 0;)
		i = i * 64 + gp_lowest_bit(s->level[k][i]);
	return i;
}

/* The lowest member >= from, or GP_BITSET_NONE. from: at most the capacity. */
uint64_t gp_bitset_next(const struct gp_bitset *s, uint64_t from);

#endif
