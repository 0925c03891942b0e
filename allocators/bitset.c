/* SPDX-License-Identifier: Apache-2.0
 *
 * bitset: set-up and the search from a given member; the rest is inline in the header.
 */
#include "bitset.h"

#include <errno.h>

#include "lazy.h"

int gp_bitset_init(struct gp_bitset *s, uint64_t capacity)
{
	uint64_t words[GP_BITSET_LEVELS], total = 0;
	unsigned n = 0;

	*s = (struct gp_bitset){ 0 };
	do {
		if (n == GP_BITSET_LEVELS)
			return -E2BIG;
		capacity = (capacity + 63) / 64;
		words[n++] = capacity;
		total += capacity;
	} while (capacity > 1);
	s->bytes = total * sizeof(uint64_t);
	s->level[0] = gp_lazy_alloc(s->bytes);
	if (!s->level[0])
		return -ENOMEM;
	for (unsigned k = 1; k < n; k++)
		s->level[k] = s->level[k - 1] + words[k - 1];
	s->n_levels = n;
	return 0;
}

void gp_bitset_fini(struct gp_bitset *s)
{
	gp_lazy_free(s->level[0], s->bytes);
	*s = (struct gp_bitset){ 0 };
}

uint64_t gp_bitset_next(const struct gp_bitset *s, uint64_t from)
{
	uint64_t i = from;

	/* Up to the first level with a member at or after i in i's word, then down to its lowest. */
	for (unsigned k = 0; k < s->n_levels; k++) {
		uint64_t word = s->level[k][i / 64] & (~UINT64_C(0) << (i % 64));

		if (word) {
			i = gp_align_down(i, 64) + gp_lowest_bit(word);
			while (k-- > 0)
				i = i * 64 + gp_lowest_bit(s->level[k][i]);
			return i;
		}
		i = i / 64 + 1;
		/* i may now be one past the end of the next level's bits, whose word may not exist. */
		if (k + 1 < s->n_levels && i / 64 >= (uint64_t)(s->bytes / 8 -
						 (size_t)(s->level[k + 1] - s->level[0])))
			return GP_BITSET_NONE;
	}
	return GP_BITSET_NONE;
}
