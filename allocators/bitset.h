/* SPDX-License-Identifier: Apache-2.0
 *
 * bitset: a set of small integers that knows its lowest member.
 *
 * Shape       level 0 has one bit a member; a bit of level k+1 says whether a 64-bit word of level
 *             k is not 0; the top level is one word
 * Cost        add, remove: one word, and one more for each level whose word turns non-zero or zero;
 *             first: one find-first-set a level: 5 for 2^30 members
 * Memory      capacity / 8 bytes and a 63rd of that, untouched pages cost nothing (lazy.h)
 */
#ifndef GP_BITSET_H
#define GP_BITSET_H

#include "base.h"

#define GP_BITSET_LEVELS 6
#define GP_BITSET_NONE UINT64_MAX

struct gp_bitset {
	uint64_t *level[GP_BITSET_LEVELS];
	unsigned n_levels;
	size_t bytes;
};

/* capacity > 0. */
int gp_bitset_init(struct gp_bitset *s, uint64_t capacity);
void gp_bitset_fini(struct gp_bitset *s);

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
	for (unsigned k = 0; k < s->n_levels; k++, i /= 64) {
		uint64_t *word = &s->level[k][i / 64], was = *word;

		*word = was | UINT64_C(1) << (i % 64);
		if (was)
			return;
	}
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

/* The lowest member, or GP_BITSET_NONE. */
static inline uint64_t gp_bitset_first(const struct gp_bitset *s)
{
	uint64_t i = 0;

	for (unsigned k = s->n_levels; k-- > 0;) {
		uint64_t word = s->level[k][i];

		if (!word)
			return GP_BITSET_NONE;
		i = i * 64 + gp_lowest_bit(word);
	}
	return i;
}

/* The lowest member >= from, or GP_BITSET_NONE. */
uint64_t gp_bitset_next(const struct gp_bitset *s, uint64_t from);

#endif
