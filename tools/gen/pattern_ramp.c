/* SPDX-License-Identifier: Apache-2.0
 *
 * ramp: a buffer that grows, as a vector or a KV cache does: the next one is allocated, then the
 * last one is freed.
 *
 * Shape        s, r s, r^2 s, ... up to max-size, then from s again
 * Why          While r stays above the golden ratio 1.618, the holes left by all earlier buffers
 *              together are smaller than the next one: no allocator that keeps its blocks where
 *              they are can reuse them. Below it first fit can, some steps later.
 * Load         the largest sum of two neighbours: two steps at the top of the ramp, or the top and
 *              the first step of the next ramp
 * Cost         two blocks
 */
#include "gen.h"

enum { COUNT, SIZE, RATIO, MAX_SIZE };

static const struct gen_option ramp_options[] = {
	{ "count", "N", "steps, one allocation each", GEN_COUNT, 1000, 1, GEN_COUNT_MAX },
	{ "size", "SIZE", "bytes of the first block", GEN_SIZE, 1 << 20, 1, GEN_BYTES_MAX },
	{ "ratio", "F", "size of a block over that of the one before, above 1", GEN_REAL, 1.1,
	  1.0001, 1000 },
	{ "max-size", "SIZE", "start again at --size rather than pass this", GEN_SIZE, 0x1.0p32, 1,
	  0x1.0p58 },
	GEN_OPTION_JITTER,
	GEN_OPTION_KEEP,
	{ 0 },
};

/* Multiplied step by step, and not by pow(), whose last digit differs between C libraries. The
 * sizes stay below 2^58 and the ratio below 2^10: the product fits its type. */
static uint64_t ramp_next(const struct gen *g, uint64_t size)
{
	double next = (double)size * g->values[RATIO].x;
	uint64_t bytes = next < GEN_BYTES_MAX ? (uint64_t)next : GP_SIZE_MAX;

	if (bytes <= size)
		bytes = size + 1; /* a few bytes times 1.1 would stand still */
	return bytes > g->values[MAX_SIZE].n ? g->values[SIZE].n : bytes;
}

static int ramp_plan(struct gen *g, struct gen_plan *out)
{
	uint64_t size = g->values[SIZE].n;
	uint64_t load = size;

	if (size > g->values[MAX_SIZE].n)
		return gen_refuse(g, "--size is larger than --max-size");
	/* One ramp shows every pair of neighbours that there is; it is a few steps long. */
	for (uint64_t i = 1; i < g->values[COUNT].n; i++) {
		uint64_t next = ramp_next(g, size);

		load = gp_max_u64(load, size + next);
		if (next == g->values[SIZE].n)
			break;
		size = next;
	}
	out->load_bytes = load;
	out->has_load = g->jitter == 0;
	return 0;
}

static void ramp_run(struct gen *g)
{
	uint64_t size = g->values[SIZE].n;
	struct gen_block last = gen_alloc(g, gen_jitter(g, size));

	for (uint64_t i = 1; i < g->values[COUNT].n && gen_ok(g); i++) {
		struct gen_block next;

		size = ramp_next(g, size);
		next = gen_alloc(g, gen_jitter(g, size));
		gen_free(g, last);
		last = next;
	}
	gen_finish(g, &last, 1);
}

const struct gen_pattern gen_ramp_pattern = {
	.name = "ramp",
	.summary = "one buffer that grows by --ratio: allocate the next, free the last",
	.options = ramp_options,
	.plan = ramp_plan,
	.run = ramp_run,
};
