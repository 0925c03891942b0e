/* SPDX-License-Identifier: Apache-2.0
 *
 * minimalloc_csv: lifetimes for planners, which place blocks whose whole life is known.
 *
 * Shape       one row per block; it lives from `lower` up to, but not including, `upper`. These
 *             count allocations and ends of blocks, not time: two events at one time keep their
 *             order, and a block whose life takes no time still has one. A block ends with its
 *             `reclaim`, where there is one; one that is never freed, with the trace.
 * Cost        4 bytes per allocation for the ends
 */
#include <errno.h>
#include <stdlib.h>

#include "writer.h"

/* What ends a block's use of memory? */
static bool planner_is_end(const struct gp_event *e)
{
	return e->op == GP_OP_RECLAIM ||
	       (e->op == GP_OP_FREE && !(gp_event_flags(e) & GP_EVENT_DEFERRED));
}

/* ends[id]: the place of a block's end; returns the number of places. */
static uint64_t planner_ends(const struct gp_trace *t, uint32_t *ends, bool *aligned)
{
	uint32_t place = 0;

	for (size_t i = 0; i < t->n_events; i++) {
		const struct gp_event *e = &t->events[i];

		if (e->op == GP_OP_ALLOC) {
			ends[e->id] = GP_EVENT_NONE;
			*aligned |= gp_event_lg_align(e) != 0;
			place++;
		} else if (planner_is_end(e)) {
			ends[e->id] = place++;
		}
	}
	return place;
}

static void planner_row(struct gp_output *out, const struct gp_event *e, uint64_t lower,
			uint64_t upper, bool aligned)
{
	gp_output_text(out, "b");
	gp_output_number(out, (uint64_t)e->id + 1);
	gp_output_text(out, ",");
	gp_output_number(out, lower);
	gp_output_text(out, ",");
	gp_output_number(out, upper);
	gp_output_text(out, ",");
	gp_output_number(out, e->size);
	if (aligned) {
		gp_output_text(out, ",");
		gp_output_number(out, UINT64_C(1) << gp_event_lg_align(e));
	}
	gp_output_text(out, "\n");
}

static int planner_write(const struct gp_trace *t, struct gp_output *out)
{
	uint32_t *ends = malloc((t->n_ids + (size_t)1) * sizeof(*ends));
	bool aligned = false;
	uint64_t n, place = 0;

	if (!ends)
		return -ENOMEM;
	n = planner_ends(t, ends, &aligned);
	gp_output_text(out, aligned ? "id,lower,upper,size,alignment\n" : "id,lower,upper,size\n");
	for (size_t i = 0; i < t->n_events && !out->error; i++) {
		const struct gp_event *e = &t->events[i];

		if (e->op == GP_OP_ALLOC)
			planner_row(out, e, place, ends[e->id] == GP_EVENT_NONE ? n : ends[e->id],
				    aligned);
		place += e->op == GP_OP_ALLOC || planner_is_end(e);
	}
	free(ends);
	return 0;
}

const struct gp_writer gp_minimalloc_csv_writer = {
	.name = "minimalloc_csv",
	.summary = "lifetimes for planners, CSV as minimalloc reads it",
	.ending = ".minimalloc.csv",
	.ops = 1u << GP_OP_ALLOC | 1u << GP_OP_FREE | 1u << GP_OP_RECLAIM,
	.keeps = GP_KEEP_ALIGN,
	.write = planner_write,
};
