/* SPDX-License-Identifier: Apache-2.0
 *
 * quick: emptying and the audit; the rest is inline in the header.
 */
#include "quick.h"

#include <errno.h>

uint32_t gp_quick_any(struct gp_quick *q, struct gp_tiling *t)
{
	for (unsigned w = 0; w < GP_QUICK_KEYS / 64; w++)
		for (; q->marks[w]; q->marks[w] &= q->marks[w] - 1) {
			uint32_t n = gp_quick_pop(q, t, w * 64 + gp_lowest_bit(q->marks[w]));

			if (n)
				return n;
		}
	return GP_TILE_NIL;
}

int gp_quick_check(const struct gp_quick *q, const struct gp_tiling *t, uint16_t stream,
		   gp_quick_key *key_of, const char *owner, uint64_t *units, FILE *why)
{
	uint64_t sum = 0;

	for (unsigned key = 0; key < GP_QUICK_KEYS; key++)
		for (uint32_t n = q->head[key]; n; n = t->tiles[n].fnext) {
			const struct gp_tile *tile = &t->tiles[n];

			sum += tile->units;
			if (tile->state != GP_TILE_QUICK || tile->stream != stream ||
			    key_of(tile->units) != key || sum > q->units ||
			    !(q->marks[key / 64] >> (key % 64) & 1))
				return gp_tiling_complain(t, n, owner, "is in the wrong quick list",
							  why);
		}
	*units += sum;
	if (sum == q->units)
		return 0;
	fprintf(why, "%s: %llu units in quick lists, expected %llu\n", owner,
		(unsigned long long)sum, (unsigned long long)q->units);
	return -EILSEQ;
}
