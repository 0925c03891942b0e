/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_hotpath TRACE...: what a call costs in each allocator's own code, on the simulated device,
 * whose time is left out.
 *
 *   cold   the first replay in a fresh allocator: growth, first touch of the tables
 *   warm   later replays in the same allocator, whose memory is all there by then
 *
 * Median (least .. most) of the repetitions, in nanoseconds for an allocation or a free. The loop
 * holds the call and the array access. `stack` is the floor: a stack of addresses for each power of
 * two, told the size at each free, that never splits, joins or looks anything up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/allocator.h"
#include "allocators/ticks.h"
#include "replay/clock.h"
#include "replay/program.h"
#include "replay/trace.h"

#define COLD_RUNS 9
#define WARM_RUNS 15

struct job {
	const struct gp_trace *trace;
	struct gp_program program;
	struct gp_env env;
	const struct gp_clock *clock;
	uint64_t *addrs;
	uint64_t calls;
};

struct figures {
	double ns[WARM_RUNS];
	size_t n;
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_figures(struct figures *f)
{
	qsort(f->ns, f->n, sizeof(f->ns[0]), compare);
	printf("  %6.1f (%5.1f .. %5.1f)", f->ns[f->n / 2], f->ns[0], f->ns[f->n - 1]);
}
