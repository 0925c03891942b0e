/* SPDX-License-Identifier: Apache-2.0
 *
 * device_profile: makes curves of cost over size from measured rows, and reads them. The header
 * says which rows count and why.
 *
 * Invariants   a curve has 1 to GP_PROFILE_SIZES points of ascending size, or none where its rows
 *              are optional and absent; the shares of a point ascend
 * Cost         a look-up scans at most 32 sizes and takes one logarithm: about 25 ns
 * Threads      reading: any. The built-in profile is made once, by the first who asks.
 */
#include "device_profile.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Calls that must have been slower for a quantile to be believed. */
#define TRUST_CALLS 10

/* Which rows make which curve: call name and the open interval of sizes. */
struct cost_rows {
	const char *call;
	uint64_t above, below;
	uint64_t assumed_ns; /* where no row is there; 0: such rows are needed */
	bool optional;       /* the device then lacks the calls */
	bool flat;           /* does not grow beyond the largest size measured */
	bool shared;         /* only calls that neither open nor close a page: the faster half */
};

static const struct cost_rows cost_rows[GP_COST_N] = {
	[GP_COST_MALLOC_SHARED] = { "cudaMalloc.held", 0, GP_MIB / 2, .flat = true,
				    .shared = true },
	[GP_COST_MALLOC_PAGES] = { "cudaMalloc.pair", GP_MIB, UINT64_MAX, .flat = false },
	[GP_COST_FREE_SHARED] = { "cudaFree.held", 0, GP_MIB / 2, .flat = true, .shared = true },
	[GP_COST_FREE_PAGES] = { "cudaFree.pair", GP_MIB, UINT64_MAX, .flat = false },
	[GP_COST_ASYNC_WARM] = { "cudaMallocAsync.warm", 0, UINT64_MAX, .optional = true },
	[GP_COST_ASYNC_COLD] = { "cudaMallocAsync.cold", 0, UINT64_MAX, .optional = true },
	[GP_COST_ASYNC_FREE] = { "cudaFreeAsync.warm", 0, UINT64_MAX, .optional = true },
	[GP_COST_ASYNC_TRIM] = { "sync.cold", 0, UINT64_MAX, .optional = true },
	[GP_COST_SYNC] = { "sync.warm", 0, UINT64_MAX, .assumed_ns = 700, .flat = true },
	[GP_COST_CREATE] = { "cuMemCreate.held", 0, UINT64_MAX, .optional = true },
	[GP_COST_MAP] = { "cuMemMap.held", 0, UINT64_MAX, .optional = true },
	[GP_COST_SET_ACCESS] = { "cuMemSetAccess.held", 0, UINT64_MAX, .optional = true },
	[GP_COST_UNMAP] = { "cuMemUnmap.held", 0, UINT64_MAX, .optional = true },
	[GP_COST_DESTROY] = { "cuMemRelease.held", 0, UINT64_MAX, .optional = true },
	/* Assumed, as the next ones: in the profile of an H200 they are measured, at 0.8 to 40 us. */
	[GP_COST_VA_RESERVE] = { "cuMemAddressReserve", 0, UINT64_MAX, .assumed_ns = 2000,
				 .flat = true },
	[GP_COST_VA_RELEASE] = { "cuMemAddressFree", 0, UINT64_MAX, .assumed_ns = 2000,
				 .flat = true },
	/* Both only write a command into the stream's queue. */
	[GP_COST_EVENT_RECORD] = { "cudaEventRecord", 0, UINT64_MAX, .assumed_ns = 1000,
				   .flat = true },
	[GP_COST_EVENT_WAIT] = { "cudaStreamWaitEvent", 0, UINT64_MAX, .assumed_ns = 1000,
				 .flat = true },
	/* Assumed: what cudaMemsetAsync of 64 KiB cost the host on an H200, which launches a
	 * kernel too. */
	[GP_COST_TOUCH] = { "cudaMemsetAsync", 0, UINT64_MAX, .assumed_ns = 3300, .flat = true },
	[GP_COST_TOUCH_WORK] = { "memset.device", 0, UINT64_MAX, .optional = true },
	[GP_COST_LAUNCH] = { "kernel.launch", 0, UINT64_MAX, .assumed_ns = 3300, .flat = true },
};

/* -- curves from rows ------------------------------------------------------------------------- */

/* The time at a part of the way from quantile a to quantile b. */
static double between(double a, double b, double part)
{
	return a > 0 ? a * pow(b / a, part) : part * b;
}

/* The highest of the recorded quantiles that enough calls were slower than. */
static double row_trust(const struct gp_profile_row *row)
{
	if (row->n >= 100 * TRUST_CALLS)
		return 0.99;
	return row->n >= 10 * TRUST_CALLS ? 0.9 : 0.5;
}

/* The time at a quantile, 0 to 1. */
static double row_ns(const struct gp_profile_row *row, double at)
{
	if (at < 0.5)
		return between((double)row->min, (double)row->p50, at / 0.5);
	if (at < 0.9)
		return between((double)row->p50, (double)row->p90, (at - 0.5) / 0.4);
	return between((double)row->p90, (double)row->p99, (at - 0.9) / 0.09);
}

static void curve_add(struct gp_cost_curve *c, const struct gp_profile_row *row, bool shared)
{
	double trust = shared ? 0.5 : row_trust(row), mean = 0;

	if (c->n == GP_PROFILE_SIZES)
		return;
	for (unsigned i = 0; i < GP_COST_SHARES; i++) {
		double middle = (i + 0.5) / GP_COST_SHARES;

		c->at[c->n].ns[i] = (float)row_ns(row, fmin(middle, trust));
		mean += c->at[c->n].ns[i] / GP_COST_SHARES;
	}
	c->at[c->n].mean = (float)mean;
	c->at[c->n].size = row->size;
	c->at[c->n].lg_size = log2((double)row->size);
	c->n++;
}

static void curve_assume(struct gp_cost_curve *c, uint64_t ns)
{
	struct gp_profile_row row = {
		.size = 1, .n = 1, .min = ns, .p50 = ns, .p90 = ns, .p99 = ns, .max = ns
	};

	curve_add(c, &row, false);
}

int gp_profile_price(struct gp_profile *p, char *why, size_t why_size)
{
	for (unsigned i = 0; i < GP_COST_N; i++) {
		const struct cost_rows *from = &cost_rows[i];
		struct gp_cost_curve *c = &p->curves[i];
		size_t n = 0;
		const struct gp_profile_row *row = gp_profile_rows(p, from->call, &n);

		c->n = 0;
		for (; n; row++, n--) {
			if (row->size > from->above && row->size < from->below)
				curve_add(c, row, from->shared);
		}
		if (c->n || from->optional)
			continue;
		if (!from->assumed_ns) {
			snprintf(why, why_size,
				 "expected \"%s\" with a size above %" PRIu64 " and below %" PRIu64,
				 from->call, from->above, from->below);
			return -EINVAL;
		}
		curve_assume(c, from->assumed_ns);
	}
	return 0;
}

const struct gp_profile_row *gp_profile_rows(const struct gp_profile *p, const char *call,
					     size_t *n)
{
	size_t i = 0, end;

	while (i < p->n_rows && strcmp(p->rows[i].call, call) != 0)
		i++;
	for (end = i; end < p->n_rows && !strcmp(p->rows[end].call, call);)
		end++;
	*n = end - i;
	return *n ? &p->rows[i] : NULL;
}

static struct gp_profile builtin =
#include "device_profile_builtin.inc"
	;

static void builtin_price(void)
{
	char why[100];

	/* A test holds that this succeeds: the profile comes with the program. */
	(void)gp_profile_price(&builtin, why, sizeof(why));
}

const struct gp_profile *gp_profile_builtin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, builtin_price);
	return &builtin;
}

/* -- reading ---------------------------------------------------------------------------------- */

/* The two points that a size lies between (one twice, where it lies outside), the weight of the
 * upper one, and what both are multiplied with. */
struct place {
	unsigned lo, hi;
	double weight, factor;
};

static struct place curve_find(const struct gp_cost_curve *c, uint64_t size, bool flat)
{
	struct place at = { 0, 0, 0, 1 };
	unsigned i = 0;

	while (i < c->n && c->at[i].size <= size)
		i++;
	at.lo = at.hi = i - (i > 0);
	if (!i)
		return at;
	if (i == c->n) {
		at.factor = flat ? 1 : (double)size / (double)c->at[at.lo].size;
		return at;
	}
	at.hi = i;
	at.weight = (log2((double)size) - c->at[at.lo].lg_size) /
		    (c->at[i].lg_size - c->at[at.lo].lg_size);
	return at;
}

static uint64_t blend(struct place at, double lo, double hi)
{
	return (uint64_t)(at.factor * (lo + at.weight * (hi - lo)) + 0.5);
}

uint64_t gp_profile_nth_ns(const struct gp_profile *p, enum gp_cost cost, uint64_t size, uint64_t n)
{
	const struct gp_cost_curve *c = &p->curves[cost];
	/* Multiples of the golden ratio modulo 1, from one half on: 2^32 / phi, as an odd number. */
	uint32_t turn = UINT32_C(0x80000000) + (uint32_t)n * UINT32_C(0x9e3779b9);
	unsigned share = (unsigned)((uint64_t)turn * GP_COST_SHARES >> 32);
	struct place place;

	if (!c->n)
		return 0;
	place = curve_find(c, size, cost_rows[cost].flat);
	return blend(place, c->at[place.lo].ns[share], c->at[place.hi].ns[share]);
}

uint64_t gp_profile_mean_ns(const struct gp_profile *p, enum gp_cost cost, uint64_t size)
{
	const struct gp_cost_curve *c = &p->curves[cost];
	struct place place;

	if (!c->n)
		return 0;
	place = curve_find(c, size, cost_rows[cost].flat);
	return blend(place, c->at[place.lo].mean, c->at[place.hi].mean);
}
