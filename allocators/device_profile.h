/* SPDX-License-Identifier: Apache-2.0
 *
 * device_profile: what the driver's calls cost on some card, as the simulated device charges them.
 *
 * A profile is a text file: tab-separated rows `call size n min p50 p90 p99 max` in microseconds
 * (further columns are ignored), and `#` lines, of which two are read:
 *
 *     # NAME driver N runtime N free BYTES total BYTES
 *     # granularity min BYTES recommended BYTES
 *
 * Taken is the p50, interpolated over the logarithm of the size. The rows that count:
 *
 *   cudaMalloc.held, cudaFree.held   among many live allocations, as in a long-lived program. The
 *                                    .pair rows take the only page of an empty context and give
 *                                    it back, which no program does all the time
 *       below 1 MiB                  the cost inside a 2 MiB page that is partly used
 *       1 MiB                        not used: half of these calls open a page, half do not
 *       above                        whole pages; the smallest is also what a new shared page costs
 *   cudaMallocAsync.warm, .cold      the pool has the memory, or asks the device for it
 *   cudaFreeAsync.warm, sync.warm    a pool that keeps what it has (release threshold at maximum)
 *   cuMem*                           virtual memory; a map is cuMemMap and cuMemSetAccess
 *
 * The built-in profile is profiles/h200.tsv, embedded when the project is configured, and goes
 * through the same parser. Calls that no row describes cost a stated assumption.
 */
#ifndef GP_DEVICE_PROFILE_H
#define GP_DEVICE_PROFILE_H

#include "base.h"

enum gp_cost {
	GP_COST_MALLOC_SHARED,
	GP_COST_MALLOC_PAGES,
	GP_COST_FREE_SHARED,
	GP_COST_FREE_PAGES,
	GP_COST_ASYNC_WARM,
	GP_COST_ASYNC_COLD,
	GP_COST_ASYNC_FREE,
	GP_COST_SYNC,
	GP_COST_VA_RESERVE,
	GP_COST_VA_RELEASE,
	GP_COST_CREATE,
	GP_COST_MAP,
	GP_COST_SET_ACCESS,
	GP_COST_UNMAP,
	GP_COST_DESTROY,
	GP_COST_EVENT_RECORD,
	GP_COST_EVENT_WAIT,
	GP_COST_N
};

#define GP_COST_POINTS 32

struct gp_cost_curve {
	unsigned n;
	struct {
		uint64_t size;
		double lg_size;
		double ns;
	} at[GP_COST_POINTS]; /* ascending sizes */
};

struct gp_profile {
	char name[32];        /* "h200", or the file's name without folder and ending */
	char card[48];        /* "NVIDIA H200" */
	uint64_t total_bytes; /* of the card */
	uint64_t free_bytes;  /* of those, what a fresh process finds free */
	uint64_t page_bytes;
	struct gp_cost_curve curves[GP_COST_N];
};

/* 0, or -errno with one line in `why`: -EINVAL for a bad profile (FILE:LINE: what, what was
 * expected), else why the file could not be read. *out is complete only on 0. */
int gp_profile_builtin(struct gp_profile *out, char *why, size_t why_size);
int gp_profile_load(const char *path, struct gp_profile *out, char *why, size_t why_size);

/* Nanoseconds of one such call. Below the smallest size measured: what that costs. Above the
 * largest: in proportion to the size, as page tables are; shared pages, synchronisation and
 * assumed costs stay what they are. */
uint64_t gp_profile_ns(const struct gp_profile *p, enum gp_cost cost, uint64_t size);

#endif
