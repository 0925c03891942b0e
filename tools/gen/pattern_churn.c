/* SPDX-License-Identifier: Apache-2.0
 *
 * churn: one size, allocated and freed over and over.
 *
 * Shape        live = 1    A F A F A F ...            what cudaMalloc + cudaFree cost, one pair
 *              live = K    A1 .. AK, F1 AK+1, F2 ...  a queue K deep: the oldest goes first
 * Load         min(live, count) * size
 * Cost         memory for `live` blocks, whatever the count
 */
#include <stdlib.h>

#include "gen.h"

enum { COUNT, SIZE, LIVE };

static const struct gen_option churn_options[] = {
	{ "count", "N", "pairs of an allocation and its free", GEN_COUNT, 1000, 1, GEN_COUNT_MAX },
	{ "size", "SIZE", "bytes of each block", GEN_SIZE, 1 << 20, 1, GEN_BYTES_MAX },
	{ "live", "K", "blocks kept live, the oldest freed first", GEN_COUNT, 1, 1, GEN_COUNT_MAX },
	GEN_OPTION_JITTER,
	GEN_OPTION_KEEP,
	{ 0 },
};

static int churn_plan(struct gen *g, struct gen_plan *out)
{
	uint64_t most = gp_min_u64(g->values[LIVE].n, g->values[COUNT].n);

	if (!gp_mul_u64(most, g->values[SIZE].n, &out->load_bytes))
		return gen_refuse(g, "--live blocks of --size bytes do not fit in 64 bits");
	out->has_load = g->jitter == 0;
	return 0;
}

static void churn_run(struct gen *g)
{
	uint64_t count = g->values[COUNT].n;
	uint64_t live = gp_min_u64(g->values[LIVE].n, count);
	struct gen_block *ring = gen_blocks(g, live);
	uint64_t oldest;

	if (!ring)
		return;
	for (uint64_t i = 0; i < count && gen_ok(g); i++) {
		struct gen_block *slot = &ring[i % live];

		if (i >= live)
			gen_free(g, *slot);
		*slot = gen_alloc(g, gen_jitter(g, g->values[SIZE].n));
	}
	oldest = count % live;
	gen_finish(g, ring + oldest, live - oldest);
	gen_finish(g, ring, oldest);
	free(ring);
}

const struct gen_pattern gen_churn_pattern = {
	.name = "churn",
	.summary = "allocate and free one size over and over, a queue of --live blocks deep",
	.options = churn_options,
	.plan = churn_plan,
	.run = churn_run,
};
