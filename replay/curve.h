/* SPDX-License-Identifier: Apache-2.0
 *
 * curve: what the samples of a replay add up to: windows, peaks, means.
 *
 * Windows     cover consecutive events, as many each (to within one), and hold the least, the
 *             greatest and the last value of each quantity, so that no peak falls between samples
 * The peak    is the first event at which the pair (R, Q) is greatest: reserved memory at its
 *             maximum and, of the events where it is, the most requested. Most allocators keep what
 *             they have reserved, so R alone would choose an event of no meaning.
 * Means       the value after an event holds until the next event, for the recorded time between
 *             them. In a trace without times each event counts the same.
 */
#ifndef GP_CURVE_H
#define GP_CURVE_H

#include "engine.h"
#include "metrics.h"

struct gp_mean {
	double weight, internal, external; /* sums of weight and of weight * value */
};

struct gp_curve {
	struct gp_window *windows; /* caller's */
	size_t n_windows;          /* begun so far */
	size_t max_windows;        /* for the whole trace */
	uint64_t n_events;         /* of the whole trace */
	uint64_t n_seen;
	uint64_t next_edge; /* the event that begins the next window */
	uint64_t last_ns;
	struct gp_sample now, peak;
	uint64_t peak_granted, load;
	struct gp_mean by_time, by_event;
};

/* How many windows a trace gets: one for each event, but at most `limit`. */
size_t gp_curve_windows(uint64_t n_events, size_t limit);
/* windows: room for gp_curve_windows() of them. */
void gp_curve_init(struct gp_curve *c, struct gp_window *windows, size_t max_windows,
		   uint64_t n_events);
/* What holds after the next event, which happened at t_ns. */
void gp_curve_add(struct gp_curve *c, const struct gp_sample *s, uint64_t t_ns);
/* Writes memory.*, fragmentation.* and n_windows of the run. */
void gp_curve_finish(const struct gp_curve *c, struct gp_run *run);

#endif
