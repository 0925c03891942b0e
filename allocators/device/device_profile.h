/* SPDX-License-Identifier: Apache-2.0
 *
 * device_profile: what the driver's calls cost on some card, as the simulated device charges them.
 *
 * A profile is what gpupool-calibrate measured: for each call and size how many calls were timed,
 * and of their times the least, the median, two more percentiles, the most and (where recorded) the
 * mean. Its file is JSON, which replay/profile.h reads and writes; the built-in one is
 * profiles/h200.json, which Meson turns into C. Rows that no cost below is made of (.pair, .busy
 * and others) are for people.
 *
 *   cudaMalloc.held, cudaFree.held   among many live allocations: below 512 KiB the cost inside a
 *                                    2 MiB page that is partly used. Some of these calls open or
 *                                    close a page: the slower half does not count
 *   cudaMalloc.pair, cudaFree.pair   in turn: above 1 MiB the cost of whole pages where there were
 *                                    some before, as in a program that has run for a while (the
 *                                    .held rows go on to new addresses: 1.5 times as long at 16 and
 *                                    32 MiB). The smallest is also what a new shared page costs
 *   cudaMallocAsync.warm, .cold      the pool has the memory, or asks the device for it
 *   cudaFreeAsync.warm, sync.warm    a pool that keeps what it has (release threshold at maximum)
 *   sync.cold                        a pool gives memory back (release threshold 0), or is trimmed
 *   cuMem*.held                      virtual memory, piece by piece into one range as a pool grows;
 *                                    a map is cuMemMap and cuMemSetAccess. Without .held the rows
 *                                    are of memory that was just given back, which from 512 MiB on
 *                                    the driver must clear first: 8 times as long on an H200
 *   cudaMemsetAsync, memset.device   a memset of a block: what it costs the host, and how long the
 *                                    device is busy with it
 *   kernel.launch                    what launching any other work costs the host
 *
 * Charged      is not the median: a pool makes few calls, and what it waits for are the slow ones.
 *              The n-th call of a kind costs the quantile at frac(1/2 + n/phi), a sequence that
 *              fills the unit interval evenly whatever pattern the sizes have. So a run has the
 *              distribution that was measured, and a second run is the same to the nanosecond.
 * Quantiles    through min, p50, p90 and p99, straight in the logarithm of the time, since driver
 *              calls have heavy tails; kept as the levels of a hundred equal shares. A quantile
 *              counts if at least ten calls were slower, p99 from 1 000 calls on; what would lie
 *              above the highest that counts is charged as that. So neither the maximum nor the
 *              mean plays a part: one call of 8 ms among 1 000 of 2 us is four fifths of their sum,
 *              and says nothing of the next thousand.
 * Sizes        between two measured ones each quantile is interpolated over the logarithm of the
 *              size. Below the smallest: what that costs. Above the largest: in proportion to the
 *              size, as page tables are; shared pages, synchronisation and assumed costs stay what
 *              they are.
 * Not charged  what is first in a process (.first): a simulated device stands for one of the many
 *              that a program opens, not for its first.
 */
#ifndef GP_DEVICE_PROFILE_H
#define GP_DEVICE_PROFILE_H

#include "../base.h"

enum gp_cost {
	GP_COST_MALLOC_SHARED,
	GP_COST_MALLOC_PAGES,
	GP_COST_FREE_SHARED,
	GP_COST_FREE_PAGES,
	GP_COST_ASYNC_WARM,
	GP_COST_ASYNC_COLD,
	GP_COST_ASYNC_FREE,
	GP_COST_ASYNC_TRIM,
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
	GP_COST_TOUCH,
	GP_COST_TOUCH_WORK, /* time of the device, not of the host */
	GP_COST_LAUNCH,
	GP_COST_N
};

#define GP_PROFILE_SIZES 32u   /* rows of one call */
#define GP_PROFILE_ROWS  4096u /* of all calls */

/* One call at one size. */
struct gp_profile_row {
	char call[32];                    /* "cudaMalloc.held": letters, digits, '.' and '_' */
	uint64_t size;                    /* bytes, at least 1 */
	uint64_t n;                       /* calls that were timed, at least 1 */
	uint64_t min, p50, p90, p99, max; /* nanoseconds, ascending */
	uint64_t mean;                    /* 0: not recorded */
};

#define GP_COST_SHARES 100u

struct gp_cost_curve {
	unsigned n;
	struct {
		uint64_t size;
		double lg_size;
		float mean;               /* of all calls */
		float ns[GP_COST_SHARES]; /* the i-th: of calls between quantiles i % and i + 1 % */
	} at[GP_PROFILE_SIZES];           /* ascending sizes */
};

struct gp_profile {
	char name[32];    /* "h200" */
	char source[400]; /* how it was measured */
	bool simulated;   /* measured on a simulated device */
	/* The machine; "" or 0 where it did not say. */
	char card[48];   /* "NVIDIA H200" */
	char driver[32]; /* "580" */
	char cuda[32];   /* "13.0" */
	char cpu[96];
	uint64_t cores;
	char os[96];
	char date[24];        /* UTC, ISO 8601 */
	char gpupool[24];     /* version that measured */
	uint64_t total_bytes; /* of the card */
	uint64_t free_bytes;  /* of those, what a fresh process finds free */
	uint64_t page_bytes;

	const struct gp_profile_row *rows; /* those of one call are neighbours, in ascending size */
	size_t n_rows;
	struct gp_cost_curve curves[GP_COST_N]; /* made from the rows; n 0: the device lacks it */
};

/* The H200's, for as long as the program runs. */
const struct gp_profile *gp_profile_builtin(void);

/* Makes the curves from the rows. 0, or -EINVAL with what is missing in `why`. */
int gp_profile_price(struct gp_profile *p, char *why, size_t why_size);

/* The rows of a call: the first, and how many; NULL: none. */
const struct gp_profile_row *gp_profile_rows(const struct gp_profile *p, const char *call,
					     size_t *n);

/* Nanoseconds of the n-th such call (from 0), and of one in the mean. 0: the device lacks it. */
uint64_t gp_profile_nth_ns(const struct gp_profile *p, enum gp_cost cost, uint64_t size,
			   uint64_t n);
uint64_t gp_profile_mean_ns(const struct gp_profile *p, enum gp_cost cost, uint64_t size);

#endif
