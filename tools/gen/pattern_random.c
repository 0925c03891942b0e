/* SPDX-License-Identifier: Apache-2.0
 *
 * random: the rules of random_allocations, the benchmark that the RAPIDS Memory Manager (RMM)
 * ships, so that figures can be set beside those published with it.
 *
 * Shape        2 * count operations. Each draws a size, uniform in 1 .. max-size bytes; then it
 *              allocates with probability 73 %, if fewer than `count` blocks were ever allocated
 *              and live + size < cap; else it frees a random live block. With nothing live it
 *              always allocates.
 * Ends         with every block freed: there are 2 * count operations, and no more than `count`
 *              of them allocate. So there is nothing that --keep could keep.
 * Load         below cap, unless one block alone is larger than that
 * Differs      in the generator, which the C++ standard leaves to the library there: same
 *              distribution, not the same numbers
 * Cost         memory for `count` blocks at most
 */
#include <stdlib.h>

#include "gen.h"

/* RMM's figures: probability in percent, and 16 000 MiB in use at most. */
#define ALLOC_PERCENT 73
#define CAP_BYTES     (16000.0 * 1048576.0)

enum { COUNT, MAX_SIZE, CAP };

static const struct gen_option random_options[] = {
	{ "count", "N", "allocations", GEN_COUNT, 1000, 1, GEN_COUNT_MAX },
	{ "max-size", "SIZE", "sizes are uniform from 1 byte to this", GEN_SIZE, 64 << 20, 1,
	  GEN_BYTES_MAX },
	{ "cap", "SIZE", "live bytes stay below this", GEN_SIZE, CAP_BYTES, 1, GEN_BYTES_MAX },
	{ 0 },
};

static int random_plan(struct gen *g, struct gen_plan *out)
{
	(void)g;
	(void)out; /* random sizes: no closed form */
	return 0;
}

static bool random_allocates(struct gen *g, uint64_t size)
{
	uint64_t chance;

	if (g->live_blocks == 0)
		return true;
	chance = gen_rng_below(&g->rng, 100);
	return chance < ALLOC_PERCENT && g->n_allocs < g->values[COUNT].n &&
	       g->live_bytes + size < g->values[CAP].n;
}

static void random_run(struct gen *g)
{
	uint64_t count = g->values[COUNT].n;
	struct gen_block *live = gen_blocks(g, count);

	if (!live)
		return;
	for (uint64_t op = 0; op < 2 * count && gen_ok(g); op++) {
		uint64_t size = 1 + gen_rng_below(&g->rng, g->values[MAX_SIZE].n);
		uint64_t n = g->live_blocks;

		if (random_allocates(g, size)) {
			live[n] = gen_alloc(g, size);
		} else {
			uint64_t i = gen_rng_below(&g->rng, count) % n;

			gen_free(g, live[i]);
			live[i] = live[n - 1];
		}
	}
	free(live);
}

const struct gen_pattern gen_random_pattern = {
	.name = "random",
	.summary = "random sizes and lifetimes by the rules of RMM's random_allocations",
	.options = random_options,
	.plan = random_plan,
	.run = random_run,
};
