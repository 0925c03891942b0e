/* SPDX-License-Identifier: Apache-2.0
 *
 * plan: where every block of a trace would go if the whole trace were known beforehand. The best
 * plan found says how much an allocator loses by not knowing; the bound says how much nobody can
 * save. The back end `plan` replays it.
 */
#ifndef GP_PLAN_H
#define GP_PLAN_H

#include <signal.h>

#include "allocators/allocator.h"
#include "trace.h"

struct gp_plan_config {
	double seconds;    /* at most so long; > 0 */
	uint64_t capacity; /* a height that is looked for in particular; 0: none */
	const volatile sig_atomic_t *interrupted; /* may be NULL: ends the search, keeps the plan */
};

struct gp_plan {
	struct gp_placement placement; /* in the order of the allocations of at least one byte */
	uint64_t bound;                /* bytes: the load, each block rounded up to its alignment */
	const char *how;               /* what found it: "by size", ..., "improvement", "search" */
	double seconds;                /* that were spent */
	uint64_t *memory;              /* of the arrays */
};

/* 0; GP_NOMEM: no plan was ready when the time was over; -ENOMEM; -EOVERFLOW: the plan would be
 * higher than GP_SIZE_MAX. */
int gp_plan_make(const struct gp_trace *trace, const struct gp_plan_config *cfg,
		 struct gp_plan **out);
/* NULL is fine. Returns NULL. */
struct gp_plan *gp_plan_destroy(struct gp_plan *plan);

/* How far above the plan something is: bytes / height - 1; 0 for an empty plan. */
double gp_plan_above(const struct gp_plan *plan, uint64_t bytes);

#endif
