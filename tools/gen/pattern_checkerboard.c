/* SPDX-License-Identifier: Apache-2.0
 *
 * checkerboard: holes that are always just too small.
 *
 * Shape        count blocks of s, then in round k = 1 .. rounds, with M = count * s:
 *
 *                  free every second live block of each size   . |s| . |s| . |s| . |s|
 *                  fill up to M again with blocks of 2^k * s   . |s| . |s| . |s| . |s| 2s | 2s |
 *
 * Why          In an arena filled in order, the blocks of size s_j that survive round k lie
 *              2^k * s apart (count a power of two), so each hole is 2^k * s - s_j: too small for
 *              the next request. Every round costs M / 2 of fresh memory although M is never
 *              exceeded: M * (1 + rounds / 2), the bound that no allocator beats which cannot move
 *              blocks (J. M. Robson, "An estimate of the store size necessary for dynamic storage
 *              allocation", 1971). Remapping pages gets past it once holes are whole pages.
 * Load         M, from the first fill on
 * Cost         memory for `count` blocks
 */
#include <stdlib.h>
#include <string.h>

#include "gen.h"

enum { COUNT, SIZE, ROUNDS };

static const struct gen_option checkerboard_options[] = {
	{ "count", "N", "blocks of the first fill (best a power of two)", GEN_COUNT, 1024, 1,
	  GEN_COUNT_MAX },
	{ "size", "SIZE", "bytes of each block of the first fill", GEN_SIZE, 1 << 20, 1,
	  GEN_BYTES_MAX },
	{ "rounds", "N", "times that the size doubles", GEN_COUNT, 1, 0, 60 },
	GEN_OPTION_JITTER,
	GEN_OPTION_KEEP,
	{ 0 },
};

static int checkerboard_plan(struct gen *g, struct gen_plan *out)
{
	if (!gp_mul_u64(g->values[COUNT].n, g->values[SIZE].n, &out->load_bytes) ||
	    out->load_bytes > GP_SIZE_MAX)
		return gen_refuse(g, "--count blocks of --size bytes are more than 1 EiB");
	out->has_load = g->jitter == 0;
	return 0;
}

/* The live blocks, oldest first, and how many of them each round left behind. */
struct board {
	struct gen_block *blocks;
	uint64_t n;
	uint64_t of_round[61];
};

/* Frees the first, third, ... block of each round: the last one stays, so that what a round leaves
 * free never borders on what comes after it. */
static void board_thin(struct gen *g, struct board *b, uint64_t round)
{
	uint64_t from = 0, to = 0;

	for (uint64_t k = 0; k <= round; k++) {
		uint64_t n = b->of_round[k];

		b->of_round[k] = n / 2;
		for (uint64_t i = 0; i < n; i++, from++) {
			if (i & 1)
				b->blocks[to++] = b->blocks[from];
			else
				gen_free(g, b->blocks[from]);
		}
	}
	b->n = to;
}

/* Puts blocks of `size` on top for as long as `limit` bytes are not exceeded. A block replaces
 * freed ones of at most its size, so there are never more than `count`; jitter, which can shrink
 * blocks, is held to that too. */
static void board_fill(struct gen *g, struct board *b, uint64_t round, uint64_t size,
		       uint64_t limit)
{
	uint64_t before = b->n;

	while (b->n < g->values[COUNT].n && gen_ok(g)) {
		uint64_t bytes = gen_jitter(g, size);

		if (round && bytes > limit - g->live_bytes)
			break;
		b->blocks[b->n++] = gen_alloc(g, bytes);
	}
	b->of_round[round] = b->n - before;
}

static void checkerboard_run(struct gen *g)
{
	struct board b = { .blocks = gen_blocks(g, g->values[COUNT].n) };
	uint64_t size = g->values[SIZE].n;
	uint64_t full;

	if (!b.blocks)
		return;
	board_fill(g, &b, 0, size, 0);
	full = g->live_bytes;
	for (uint64_t round = 1; round <= g->values[ROUNDS].n && gen_ok(g); round++) {
		size *= 2;
		if (size > full / 2)
			break; /* half of it is all that a round frees */
		board_thin(g, &b, round - 1);
		board_fill(g, &b, round, size, full);
	}
	gen_finish(g, b.blocks, b.n);
	free(b.blocks);
}

const struct gen_pattern gen_checkerboard_pattern = {
	.name = "checkerboard",
	.summary = "free every second block, ask for twice the size: no hole ever fits",
	.options = checkerboard_options,
	.plan = checkerboard_plan,
	.run = checkerboard_run,
};
