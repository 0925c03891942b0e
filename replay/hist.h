/* SPDX-License-Identifier: Apache-2.0
 *
 * hist: a log-linear histogram of durations in nanoseconds, as HdrHistogram's (G. Tene): values
 * below 256 exactly, above them 128 buckets for each doubling, so that a value read back is at most
 * 1/128 = 0.8 % above the one recorded. Recording is an index computation and an increment.
 * Histograms are merged, never averaged.
 */
#ifndef GP_HIST_H
#define GP_HIST_H

#include <stdint.h>
#include <stdio.h>

#define GP_HIST_LG_SUB  7
#define GP_HIST_BUCKETS ((65 - GP_HIST_LG_SUB) << GP_HIST_LG_SUB)

struct gp_hist {
	uint64_t count;
	uint64_t sum; /* of the values as recorded: the mean is exact */
	uint64_t min, max;
	uint64_t buckets[GP_HIST_BUCKETS];
};

void gp_hist_init(struct gp_hist *h);
void gp_hist_record(struct gp_hist *h, uint64_t value_ns);
void gp_hist_merge(struct gp_hist *into, const struct gp_hist *from);
double gp_hist_mean(const struct gp_hist *h); /* 0 when empty */
/* Smallest bucket bound at or below which at least `percentile` (0 .. 100) of the values lie,
 * never above max. 0 when empty. */
uint64_t gp_hist_percentile(const struct gp_hist *h, double percentile);
/* HdrHistogram's text form ("Value Percentile TotalCount 1/(1-Percentile)"), values in ns. */
int gp_hist_write_hgrm(const struct gp_hist *h, FILE *out);

#endif
