/* SPDX-License-Identifier: Apache-2.0
 *
 * bitset: set-up and the search from a given member; the rest is inline in the header.
 *
 * Each level has a word to spare, always 0, which the search may look at one past the end.
 */
#include "bitset.h"

uint64_t gp_bitset_bytes(uint64_t capacity)
{
	uint64_t words = 0;

	do {
		capacity = (capacity + 63) / 64;
		words += capacity + 1;
	} while (capacity > 1);
	return words * sizeof(uint64_t);
}

void gp_bitset_init(struct gp_bitset *s, uint64_t capacity, void *memory)
{
	uint64_t *at = memory;

	*s = (struct gp_bitset){ .n_levels = 1 };
	for (unsigned k = 0; k < GP_BITSET_LEVELS; k++) {
		capacity = (capacity + 63) / 64;
		s->level[k] = at;
		at += capacity + 1;
		if (capacity == 1)
			break;
	}
}

void gp_bitset_raise(struct gp_bitset *s, uint64_t member)
{
	for (; member >> (6 * s->n_levels); s->n_levels++)
		s->level[s->n_levels][0] = s->level[s->n_levels - 1][0] != 0;
}

uint64_t gp_bitset_next(const struct gp_bitset *s, uint64_t from)
{
	uint64_t i = from;

	/* Up to the first level with a member at or after i in i's word, then down to its lowest. */
	for (unsigned k = 0; k < s->n_levels && !(from >> (6 * s->n_levels)); k++) {
		uint64_t word = s->level[k][i / 64] & (~UINT64_C(0) << (i % 64));

		if (word) {
			i = gp_align_down(i, 64) + gp_lowest_bit(word);
			while (k-- > 0)
				i = i * 64 + gp_lowest_bit(s->level[k][i]);
			return i;
		}
		i = i / 64 + 1;
	}
	return GP_BITSET_NONE;
}
