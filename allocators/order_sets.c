/* SPDX-License-Identifier: Apache-2.0
 *
 * order_sets: set-up and the audit's sum; the rest is inline in the header.
 */
#include "order_sets.h"

#include <errno.h>

#include "lazy.h"

/* One piece of memory for all, the small bitsets of high orders side by side in few pages. */
int gp_order_sets_init(struct gp_order_sets *s, unsigned n_orders)
{
	uint64_t units = UINT64_C(1) << (n_orders - 1);
	char *at;

	*s = (struct gp_order_sets){ 0 };
	for (unsigned k = 0; k < n_orders; k++)
		s->memory_bytes += gp_bitset_bytes(units >> k);
	at = s->memory = gp_lazy_alloc(s->memory_bytes);
	if (!at)
		return -ENOMEM;
	for (unsigned k = n_orders; k-- > 0;) {
		gp_bitset_init(&s->of[k], units >> k, at);
		at += gp_bitset_bytes(units >> k);
	}
	return 0;
}

void gp_order_sets_fini(struct gp_order_sets *s)
{
	gp_lazy_free(s->memory, s->memory_bytes);
}

uint64_t gp_order_sets_units(const struct gp_order_sets *s)
{
	uint64_t units = 0;

	for (unsigned k = 0; k < GP_ORDERS && s->of[k].n_levels; k++)
		for (uint64_t i = gp_bitset_next(&s->of[k], 0); i != GP_BITSET_NONE;
		     i = gp_bitset_next(&s->of[k], i + 1))
			units += UINT64_C(1) << k;
	return units;
}
