/* SPDX-License-Identifier: Apache-2.0
 *
 * hist: log-linear histogram.
 *
 * Shape       values below 256 have a bucket each; a larger one with its top bit at b is shifted
 *             right by s = b - 7, which leaves 128 .. 255, and lands in bucket s * 128 + that:
 *
 *               0 .. 255      s = 0   bucket = value
 *               256 .. 511    s = 1   two values to a bucket, 256 .. 383
 *               512 .. 1023   s = 2   four values to a bucket, 384 .. 511      and so on to 2^64
 *
 * Error       a bucket is read as its upper bound, at most 1/128 above any value in it
 * Threads     the caller serialises; one histogram per thread, merged afterwards
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "allocators/base.h"
#include "hist.h"

#define HIST_SUB            (UINT64_C(1) << GP_HIST_LG_SUB)
#define HIST_TICKS_PER_HALF 5 /* lines of the text form each time the distance to 100 % halves */

_Static_assert(GP_HIST_BUCKETS == (63 - GP_HIST_LG_SUB) * HIST_SUB + 2 * HIST_SUB,
	       "the bucket of UINT64_MAX is the last one");

static size_t hist_index(uint64_t value)
{
	unsigned shift;

	if (value < 2 * HIST_SUB)
		return (size_t)value;
	shift = gp_floor_log2(value) - GP_HIST_LG_SUB;
	return (size_t)((uint64_t)shift * HIST_SUB + (value >> shift));
}

/* The largest value of a bucket. The last bucket wraps to UINT64_MAX, which is right. */
static uint64_t hist_bound(size_t index)
{
	unsigned shift;

	if (index < 2 * HIST_SUB)
		return index;
	shift = (unsigned)(index / HIST_SUB) - 1;
	return ((index - shift * HIST_SUB + 1) << shift) - 1;
}

void gp_hist_init(struct gp_hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

void gp_hist_record(struct gp_hist *h, uint64_t value_ns)
{
	h->buckets[hist_index(value_ns)]++;
	h->count++;
	h->sum += value_ns;
	h->min = gp_min_u64(h->min, value_ns);
	h->max = gp_max_u64(h->max, value_ns);
}

void gp_hist_merge(struct gp_hist *into, const struct gp_hist *from)
{
	for (size_t i = 0; i < GP_HIST_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
	into->count += from->count;
	into->sum += from->sum;
	into->min = gp_min_u64(into->min, from->min);
	into->max = gp_max_u64(into->max, from->max);
}

double gp_hist_mean(const struct gp_hist *h)
{
	return h->count ? (double)h->sum / (double)h->count : 0;
}

/* How many of the values make up `percentile` of them: at least one. The product may come out a few
 * units in the last place above the whole number that is meant (99.9 % of 1000), hence the slack,
 * which is far below one value. */
static uint64_t hist_rank(const struct gp_hist *h, double percentile)
{
	double rank = ceil((double)h->count * percentile / 100 * (1 - 1e-12));

	if (!(rank > 1))
		return 1;
	return rank < (double)h->count ? (uint64_t)rank : h->count;
}

uint64_t gp_hist_percentile(const struct gp_hist *h, double percentile)
{
	uint64_t rank, seen = 0;

	if (!h->count)
		return 0;
	rank = hist_rank(h, percentile);
	for (size_t i = 0; i < GP_HIST_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen >= rank)
			return gp_min_u64(hist_bound(i), h->max);
	}
	return h->max;
}

/* Standard deviation, each value taken as the middle of its bucket. */
static double hist_deviation(const struct gp_hist *h)
{
	double mean = gp_hist_mean(h), sum = 0;

	for (size_t i = 0; i < GP_HIST_BUCKETS && h->count; i++) {
		double low = i ? (double)hist_bound(i - 1) + 1 : 0;
		double off = (low + (double)hist_bound(i)) / 2 - mean;

		sum += (double)h->buckets[i] * off * off;
	}
	return h->count ? sqrt(sum / (double)h->count) : 0;
}

/* The next percentile to print: 5 steps to 50 %, 5 to 75 %, 5 to 87.5 %, ... */
static double hist_next_level(double level)
{
	double halvings = floor(log2(100 / (100 - level))) + 1;

	return level + 100 / (HIST_TICKS_PER_HALF * exp2(halvings));
}

static void hist_write_line(const struct gp_hist *h, FILE *out, size_t bucket, uint64_t seen,
			    double level)
{
	double value = (double)gp_min_u64(hist_bound(bucket), h->max);

	if (seen == h->count)
		fprintf(out, "%12.3f %2.12f %10llu\n", value, 1.0, (unsigned long long)seen);
	else
		fprintf(out, "%12.3f %2.12f %10llu %14.2f\n", value, level / 100,
			(unsigned long long)seen, 100 / (100 - level));
}

int gp_hist_write_hgrm(const struct gp_hist *h, FILE *out)
{
	double level = 0;
	uint64_t seen = 0;

	fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
		"1/(1-Percentile)");
	for (size_t i = 0; i < GP_HIST_BUCKETS && seen < h->count; i++) {
		if (!h->buckets[i])
			continue;
		seen += h->buckets[i];
		while (seen < h->count && (double)seen / (double)h->count * 100 >= level) {
			hist_write_line(h, out, i, seen, level);
			level = hist_next_level(level);
		}
		if (seen == h->count)
			hist_write_line(h, out, i, seen, 100);
	}
	fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", gp_hist_mean(h),
		hist_deviation(h));
	fprintf(out, "#[Max     = %12.3f, Total count    = %12llu]\n", (double)h->max,
		(unsigned long long)h->count);
	fprintf(out, "#[Buckets = %12d, SubBuckets     = %12d]\n",
		GP_HIST_BUCKETS >> GP_HIST_LG_SUB, 2 << GP_HIST_LG_SUB);
	return ferror(out) ? -EIO : 0;
}
