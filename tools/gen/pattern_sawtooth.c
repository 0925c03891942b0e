/* SPDX-License-Identifier: Apache-2.0
 *
 * sawtooth: memory in use rises to a peak, falls to a tenth, and again.
 *
 * Shape          /|  /|  /|   peak
 *               / | / | / |
 *              /  |/  |/  |   low * peak
 *
 * Survivors    Which blocks a fall spares is drawn at random: they pin pages all over the heap, so
 *              that a cache can give back little of it. With one size alone the holes still fit;
 *              --jitter makes them not.
 * Load         floor(peak / size) * size
 * Period       events of one tooth after the first: a rise and a fall. --period sets the size of a
 *              block so that a tooth has (about) as many events; else --size does.
 * Cost         memory for peak / size blocks
 */
#include <stdlib.h>

#include "gen.h"

enum { PEAK, SIZE, PERIOD, LOW, ROUNDS };

static const struct gen_option sawtooth_options[] = {
	{ "peak", "SIZE", "live bytes at the top", GEN_SIZE, 0x1.0p33, 1, GEN_BYTES_MAX },
	{ "size", "SIZE", "bytes of each block", GEN_SIZE, 16 << 20, 1, GEN_BYTES_MAX },
	{ "period", "N", "events in a tooth; sets the size (0: --size does)", GEN_COUNT, 0, 0,
	  GEN_COUNT_MAX },
	{ "low", "F", "part of the peak that stays at the bottom, below 1", GEN_REAL, 0.1, 0,
	  0.999 },
	{ "rounds", "N", "teeth", GEN_COUNT, 10, 1, 1000000 },
	GEN_OPTION_JITTER,
	GEN_OPTION_KEEP,
	{ 0 },
};

static uint64_t sawtooth_low_bytes(const struct gen *g)
{
	return (uint64_t)((double)g->values[PEAK].n * g->values[LOW].x);
}

static uint64_t sawtooth_size(const struct gen *g)
{
	uint64_t swing = g->values[PEAK].n - sawtooth_low_bytes(g);
	uint64_t n_allocs = g->values[PERIOD].n / 2;

	/* Half of a tooth's events are allocations, and they fill what the fall emptied. */
	return n_allocs ? gp_max_u64(swing / n_allocs, 1) : g->values[SIZE].n;
}

static int sawtooth_plan(struct gen *g, struct gen_plan *out)
{
	uint64_t size = sawtooth_size(g);
	uint64_t at_peak = g->values[PEAK].n / size;
	uint64_t at_low = sawtooth_low_bytes(g) / size;

	if (!at_peak)
		return gen_refuse(g, "--size is larger than --peak: no block fits");
	if (at_peak > (uint64_t)GEN_COUNT_MAX)
		return gen_refuse(g, "--peak holds more than 2^31 blocks");
	if (at_low == at_peak)
		return gen_refuse(g, "--low is so near the peak that nothing would be freed");
	out->load_bytes = at_peak * size;
	out->has_load = g->jitter == 0;
	return 0;
}

/* Allocates until the next block would pass the peak. Returns how many are live. */
static uint64_t sawtooth_rise(struct gen *g, struct gen_block *live, uint64_t n, uint64_t room)
{
	uint64_t size = sawtooth_size(g);

	while (n < room && gen_ok(g)) {
		uint64_t bytes = gen_jitter(g, size);

		if (bytes > g->values[PEAK].n - g->live_bytes)
			break;
		live[n++] = gen_alloc(g, bytes);
	}
	return n;
}

/* Frees blocks at random until no more than the low mark stays. */
static uint64_t sawtooth_fall(struct gen *g, struct gen_block *live, uint64_t n)
{
	uint64_t low = sawtooth_low_bytes(g);

	while (n && g->live_bytes > low && gen_ok(g)) {
		uint64_t i = gen_rng_below(&g->rng, n);

		gen_free(g, live[i]);
		live[i] = live[--n];
	}
	return n;
}

static void sawtooth_run(struct gen *g)
{
	/* With jitter a block can be smaller than --size, and more of them fit; twice as many is
	 * room enough in practice, and the rise ends where the room does. */
	uint64_t room = g->values[PEAK].n / sawtooth_size(g) * (g->jitter > 0 ? 2 : 1);
	struct gen_block *live = gen_blocks(g, room);
	uint64_t n = 0;

	if (!live)
		return;
	for (uint64_t round = 0; round < g->values[ROUNDS].n && gen_ok(g); round++) {
		n = sawtooth_rise(g, live, n, room);
		n = sawtooth_fall(g, live, n);
	}
	gen_finish(g, live, n);
	free(live);
}

const struct gen_pattern gen_sawtooth_pattern = {
	.name = "sawtooth",
	.summary = "rise to --peak, fall to a tenth of it at random, and again",
	.options = sawtooth_options,
	.plan = sawtooth_plan,
	.run = sawtooth_run,
};
