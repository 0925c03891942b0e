/* SPDX-License-Identifier: Apache-2.0
 *
 * clock: turns the ticks of allocators/ticks.h into nanoseconds.
 */
#ifndef GP_CLOCK_H
#define GP_CLOCK_H

#include "allocators/base.h"
#include "allocators/ticks.h"

struct gp_clock {
	double ns_per_tick;
	uint64_t overhead_ticks; /* a pair of readings with nothing between them shows this much */
	double overhead_ns;      /* the same, not rounded */
	double step_ns;          /* the counter advances by this much at a time */
};

/* Calibrates on the first call (about 20 ms), at no cost from then on. NULL: the counter of this
 * machine does not run steadily, so that nothing can be timed with it. Any thread. */
const struct gp_clock *gp_clock_get(void);

/* Ticks between two readings; 0 should the counter have gone backwards, which a thread that was
 * moved to another processor can see on machines whose counters are not quite in step. */
static inline uint64_t gp_clock_between(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

/* The same, less what the two readings cost themselves. */
static inline uint64_t gp_clock_call(const struct gp_clock *c, uint64_t from, uint64_t to)
{
	uint64_t ticks = gp_clock_between(from, to);

	return ticks > c->overhead_ticks ? ticks - c->overhead_ticks : 0;
}

/* Through int64_t, which converts in one instruction; 2^63 ticks are a century. */
static inline uint64_t gp_clock_ns(const struct gp_clock *c, uint64_t ticks)
{
	return (uint64_t)(int64_t)((double)(int64_t)ticks * c->ns_per_tick + 0.5);
}

/* At most 2^62, decades away: that can be added to a reading without overflow. */
static inline uint64_t gp_clock_ticks(const struct gp_clock *c, double ns)
{
	double ticks = ns / c->ns_per_tick;

	return ticks < 0x1p62 ? (uint64_t)ticks : UINT64_C(1) << 62;
}

#endif
