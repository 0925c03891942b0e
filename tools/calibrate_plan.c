/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate_plan: which sizes, in which order, within the time limit.
 *
 * Order     .first before anything else has that size; then what a profile cannot do without; then
 *           the rest. So a run that ends early still makes a device.
 * Limit     a step has three times its even share of what is left, and ends by itself when that is
 *           over: slow sizes get fewer repetitions, not the last steps no time
 */
#include "calibrate.h"

#define KIB UINT64_C(1024)

struct group {
	int (*step)(struct cal *c, uint64_t size);
	const uint64_t *sizes; /* ends with 0 */
	bool vmm, async;       /* only where the device has that */
	bool full;             /* not with --quick */
};

/* Around the places where the driver changes its ways: 1 MiB (shared pages), 2 MiB (a page), 32 MiB
 * (its unit of addresses), and by doubling further on. */
static const uint64_t sizes_all[] = { 256,          4 * KIB,      64 * KIB,    512 * KIB,
				      GP_MIB,       2 * GP_MIB,   4 * GP_MIB,  8 * GP_MIB,
				      16 * GP_MIB,  32 * GP_MIB,  64 * GP_MIB, 128 * GP_MIB,
				      256 * GP_MIB, 512 * GP_MIB, GP_GIB,      2 * GP_GIB,
				      4 * GP_GIB,   8 * GP_GIB,   16 * GP_GIB, 0 };
/* 20 MiB: what PyTorch's expandable segments map at a time. */
static const uint64_t sizes_vmm[] = { 2 * GP_MIB,  8 * GP_MIB,   20 * GP_MIB,  32 * GP_MIB,
				      64 * GP_MIB, 128 * GP_MIB, 256 * GP_MIB, 512 * GP_MIB,
				      GP_GIB,      4 * GP_GIB,   16 * GP_GIB,  0 };
static const uint64_t sizes_span[] = { 2 * GP_MIB,  4 * GP_MIB,   8 * GP_MIB, 32 * GP_MIB,
				       64 * GP_MIB, 512 * GP_MIB, 0 };
static const uint64_t sizes_memset[] = {
	256, 4 * KIB, 64 * KIB, GP_MIB, 2 * GP_MIB, 16 * GP_MIB, 128 * GP_MIB, GP_GIB, 4 * GP_GIB, 0
};
static const uint64_t sizes_busy[] = { 2 * GP_MIB, 64 * GP_MIB, 0 };
static const uint64_t sizes_rested[] = { 64 * GP_MIB, 0 };
static const uint64_t sizes_none[] = { 1, 0 };
/* Those of them that --quick takes. */
static const uint64_t sizes_quick[] = { 1,          256,          64 * KIB,    GP_MIB,
					2 * GP_MIB, 16 * GP_MIB,  20 * GP_MIB, 64 * GP_MIB,
					GP_GIB,     256 * GP_MIB, 4 * GP_GIB,  0 };

static const struct group groups[] = {
	{ cal_first, sizes_all, false, false, false },
	{ cal_held, sizes_all, false, false, false },
	{ cal_vmm, sizes_vmm, true, false, false },
	{ cal_pool_warm, sizes_all, false, true, false },
	{ cal_pool_cold, sizes_all, false, true, false },
	{ cal_vmm_held, sizes_vmm, true, false, false },
	{ cal_memset, sizes_memset, false, false, false },
	{ cal_streams, sizes_none, false, false, false },
	{ cal_span, sizes_span, true, false, false },
	{ cal_busy, sizes_busy, false, false, false },
	{ cal_pair, sizes_all, false, false, false },
	{ cal_rested, sizes_rested, false, false, true },
};

static bool is_quick(uint64_t size)
{
	size_t i = 0;

	while (sizes_quick[i] && sizes_quick[i] != size)
		i++;
	return sizes_quick[i] != 0;
}

static bool takes_size(const struct cal *c, const struct group *g, uint64_t size)
{
	if (c->quick && (g->full || !is_quick(size)))
		return false;
	return size <= c->budget && (!g->vmm || c->dev->info.vmm) &&
	       (!g->async || c->dev->info.async);
}

static size_t count_steps(const struct cal *c)
{
	size_t n = 0;

	for (size_t i = 0; i < GP_ARRAY_LEN(groups); i++) {
		for (const uint64_t *size = groups[i].sizes; *size; size++)
			n += takes_size(c, &groups[i], *size);
	}
	return n;
}

/* One step, within its share of the time that is left. */
static int run_step(struct cal *c, const struct group *g, uint64_t size, size_t left)
{
	uint64_t now = cal_now_ns();

	if (*c->interrupted || now >= c->end_ns) {
		c->n_left_out++;
		return 0;
	}
	c->slice_end_ns = now + gp_min_u64(3 * (c->end_ns - now) / left, c->end_ns - now);
	return g->step(c, size);
}

int cal_run(struct cal *c, double limit_s)
{
	size_t done = 0;
	int r = 0;

	c->n_steps = count_steps(c);
	c->end_ns = cal_now_ns() + (uint64_t)(limit_s * 1e9);
	for (size_t i = 0; i < GP_ARRAY_LEN(groups); i++) {
		for (const uint64_t *size = groups[i].sizes; *size && !r; size++) {
			if (!takes_size(c, &groups[i], *size))
				continue;
			r = run_step(c, &groups[i], *size, c->n_steps - done);
			cli_progress("measuring", ++done, c->n_steps);
		}
	}
	return r;
}
