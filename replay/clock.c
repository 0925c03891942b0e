/* SPDX-License-Identifier: Apache-2.0
 *
 * clock: calibration of the tick counter.
 *
 * Rate        two sightings of (CLOCK_MONOTONIC_RAW, ticks) 20 ms apart, with a third half-way. A
 *             sighting is the tightest of several brackets "ticks, clock, ticks", about 30 ns wide,
 *             so that the rate is good to some parts in a million. RAW, because the other clocks
 *             are slewed by the time service.
 * Check       the rates of the two halves must agree within 1 %, and ticks must never be seen to go
 *             back; otherwise there is no clock. A virtual machine that was moved or suspended in
 *             these 20 ms fails this too, so calibration is tried three times.
 * Overhead    the mean over pairs of readings with nothing in between, leaving out those disturbed
 *             by an interrupt. The mean and not the least: some counters advance in steps of 10 ns,
 *             where the least pair is 0 and says nothing.
 * Step        the intervals between two readings with more or less work between them, sorted, lie
 *             one step apart. Some processors add 1 to a reading that would repeat the last one, so
 *             that the step is the gap which, with those above it, covers half of the range.
 * Threads     pthread_once
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"

#define CLOCK_SPAN_NS  20000000u
#define CLOCK_BRACKETS 64
#define CLOCK_PAIRS    4096
#define CLOCK_DELAYS   64 /* the most work between two readings: some tens of nanoseconds */
#define CLOCK_TRIES    3

struct sighting {
	uint64_t ns, ticks;
};

static pthread_once_t clock_once = PTHREAD_ONCE_INIT;
static struct gp_clock clock_state;
static bool clock_ok;

static uint64_t clock_raw_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct sighting clock_sight(void)
{
	struct sighting best = { 0, 0 };
	uint64_t width = UINT64_MAX;

	for (int i = 0; i < CLOCK_BRACKETS; i++) {
		uint64_t before = gp_ticks();
		uint64_t ns = clock_raw_ns();
		uint64_t after = gp_ticks();

		if (after >= before && after - before < width) {
			width = after - before;
			best = (struct sighting){ ns, before + width / 2 };
		}
	}
	return best;
}

static void clock_sleep(long ns)
{
	const struct timespec ts = { 0, ns };

	nanosleep(&ts, NULL);
}

/* Nanoseconds per tick between two sightings; 0: ticks or time did not advance. */
static double clock_rate(struct sighting from, struct sighting to)
{
	if (to.ticks <= from.ticks || to.ns <= from.ns)
		return 0;
	return (double)(to.ns - from.ns) / (double)(to.ticks - from.ticks);
}

static bool clock_measure_rate(double *out)
{
	struct sighting s[3];
	double a, b;

	for (int i = 0; i < 3; i++) {
		if (i)
			clock_sleep(CLOCK_SPAN_NS / 2);
		s[i] = clock_sight();
	}
	a = clock_rate(s[0], s[1]);
	b = clock_rate(s[1], s[2]);
	*out = clock_rate(s[0], s[2]);
	return a > 0 && b > 0 && a < b * 1.01 && b < a * 1.01;
}

static int clock_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* false: a reading was smaller than the one before it. */
static bool clock_measure_overhead(double *out)
{
	static uint64_t pairs[CLOCK_PAIRS];
	uint64_t sum = 0, limit;
	size_t n = 0;

	for (size_t i = 0; i < CLOCK_PAIRS; i++) {
		uint64_t t0 = gp_ticks();
		uint64_t t1 = gp_ticks();

		if (t1 < t0)
			return false;
		pairs[i] = t1 - t0;
	}
	qsort(pairs, CLOCK_PAIRS, sizeof(pairs[0]), clock_compare);
	limit = 4 * pairs[CLOCK_PAIRS / 2] + 1;
	while (n < CLOCK_PAIRS && pairs[n] <= limit)
		sum += pairs[n++];
	*out = (double)sum / (double)n;
	return true;
}

static double clock_measure_step(void)
{
	static uint64_t intervals[CLOCK_PAIRS];
	/* Longer ones than most were disturbed. */
	size_t n = CLOCK_PAIRS * 9 / 10 - 1, first = n;
	uint64_t range, covered = 0, step = 0;

	for (size_t i = 0; i < CLOCK_PAIRS; i++) {
		uint64_t t0 = gp_ticks();

		for (volatile size_t k = i % CLOCK_DELAYS; k; k--)
			;
		intervals[i] = gp_clock_between(t0, gp_ticks());
	}
	qsort(intervals, CLOCK_PAIRS, sizeof(intervals[0]), clock_compare);
	range = intervals[n] - intervals[0];
	for (size_t i = 0; i < n; i++)
		intervals[i] = intervals[i + 1] - intervals[i];
	qsort(intervals, n, sizeof(intervals[0]), clock_compare);
	/* The gaps at least half as wide as the one that passes the middle are the steps. */
	while (2 * covered < range) {
		step = intervals[--first];
		covered += step;
	}
	while (first && 2 * intervals[first - 1] > step)
		first--;
	return first < n ? (double)range / (double)(n - first) : 1;
}

static void clock_calibrate(void)
{
	double overhead = 0;

	for (int i = 0; i < CLOCK_TRIES && !clock_ok; i++)
		clock_ok = clock_measure_rate(&clock_state.ns_per_tick) &&
			   clock_measure_overhead(&overhead);
	if (!clock_ok)
		return;
	clock_state.overhead_ticks = (uint64_t)(overhead + 0.5);
	clock_state.overhead_ns = overhead * clock_state.ns_per_tick;
	clock_state.step_ns = clock_measure_step() * clock_state.ns_per_tick;
}

const struct gp_clock *gp_clock_get(void)
{
	pthread_once(&clock_once, clock_calibrate);
	return clock_ok ? &clock_state : NULL;
}
