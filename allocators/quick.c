/* SPDX-License-Identifier: Apache-2.0
 *
 * quick: emptying and the audit; the rest is inline in the header.
 */
#include "quick.h"

#include <string.h>

uint32_t gp_quick_any(struct gp_quick *q, const struct gp_tiling *t)
{
	uint8_t *mark;

	while ((mark = memchr(q->marks, 1, sizeof(q->marks)))) {
		uint32_t n = gp_quick_pop(q, t, (uint32_t)(mark - q->marks) + 1);

		if (n)
			return n;
		*mark = 0;
	}
	return GP_TILE_NIL;
}

int gp_quick_check(const struct gp_quick *q, const struct gp_tiling *t, unsigned state,
		   uint32_t stream, const char *owner, uint64_t *units, FILE *why)
{
	for (unsigned key = 0; key < GP_QUICK_UNITS; key++)
		for (uint32_t n = q->head[key]; n; n = t->tiles[n].chain) {
			const struct gp_tile *tile = &t->tiles[n];

			*units += tile->units;
			if (tile->state != state || tile->stream != stream ||
			    tile->units != key + 1 || !q->marks[key])
				return gp_tiling_complain(t, n, owner, "is in the wrong quick list",
							  why);
		}
	return 0;
}
