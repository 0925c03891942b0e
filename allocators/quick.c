/* SPDX-License-Identifier: Apache-2.0
 *
 * quick: emptying and the audit; the rest is inline in the header.
 */
#include "quick.h"

uint32_t gp_quick_any(struct gp_quick *q, const struct gp_tiling *t)
{
	for (unsigned w = 0; w < GP_QUICK_UNITS / 64; w++)
		for (; q->marks[w]; q->marks[w] &= q->marks[w] - 1) {
			uint32_t n = gp_quick_pop(q, t, w * 64 + gp_lowest_bit(q->marks[w]) + 1);

			if (n)
				return n;
		}
	return GP_TILE_NIL;
}

int gp_quick_check(const struct gp_quick *q, const struct gp_tiling *t, unsigned state,
		   uint32_t stream, const char *owner, uint64_t *units, FILE *why)
{
	for (unsigned key = 0; key < GP_QUICK_UNITS; key++)
		for (uint32_t n = q->head[key]; n; n = t->tiles[n].fnext) {
			const struct gp_tile *tile = &t->tiles[n];

			*units += tile->units;
			if (tile->state != state || tile->streams != stream ||
			    tile->units != key + 1 || !(q->marks[key / 64] >> (key % 64) & 1))
				return gp_tiling_complain(t, n, owner, "is in the wrong quick list",
							  why);
		}
	return 0;
}
