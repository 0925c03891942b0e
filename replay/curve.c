/* SPDX-License-Identifier: Apache-2.0
 *
 * curve: windows, peaks and means over the samples of a replay.
 *
 * Cost        gp_curve_add is on the path of every event: some twenty comparisons, no allocation
 * Threads     the caller serialises
 */
#include "curve.h"

size_t gp_curve_windows(uint64_t n_events, size_t limit)
{
	return (size_t)gp_min_u64(n_events, limit);
}

void gp_curve_init(struct gp_curve *c, struct gp_window *windows, size_t max_windows,
		   uint64_t n_events)
{
	*c = (struct gp_curve){
		.windows = windows,
		.max_windows = max_windows,
		.n_events = n_events,
	};
}

static inline void curve_span_u64(struct gp_span_u64 *s, uint64_t value)
{
	s->min = gp_min_u64(s->min, value);
	s->max = gp_max_u64(s->max, value);
	s->last = value;
}

static inline void curve_span_f(struct gp_span_f *s, double value)
{
	s->min = value < s->min ? value : s->min;
	s->max = value > s->max ? value : s->max;
	s->last = value;
}

static void curve_open_window(struct gp_curve *c, const struct gp_sample *s)
{
	struct gp_window *w = &c->windows[c->n_windows++];

	*w = (struct gp_window){
		.first_event = c->n_seen,
		.requested = { s->requested, s->requested, s->requested },
		.granted = { s->granted, s->granted, s->granted },
		.reserved = { s->reserved, s->reserved, s->reserved },
		.internal = { s->internal, s->internal, s->internal },
		.external = { s->external, s->external, s->external },
		.external_sq = { s->external_sq, s->external_sq, s->external_sq },
	};
	c->next_edge = c->n_windows * c->n_events / c->max_windows;
}

static void curve_window(struct gp_curve *c, const struct gp_sample *s, uint64_t t_ns)
{
	struct gp_window *w;

	if (c->n_seen == c->next_edge)
		curve_open_window(c, s);
	w = &c->windows[c->n_windows - 1];
	w->last_event = c->n_seen;
	w->t_ns = t_ns;
	curve_span_u64(&w->requested, s->requested);
	curve_span_u64(&w->granted, s->granted);
	curve_span_u64(&w->reserved, s->reserved);
	curve_span_f(&w->internal, s->internal);
	curve_span_f(&w->external, s->external);
	curve_span_f(&w->external_sq, s->external_sq);
}

static inline void curve_mean_add(struct gp_mean *m, const struct gp_sample *s, double weight)
{
	m->weight += weight;
	m->internal += weight * s->internal;
	m->external += weight * s->external;
}

void gp_curve_add(struct gp_curve *c, const struct gp_sample *s, uint64_t t_ns)
{
	if (c->n_seen)
		curve_mean_add(&c->by_time, &c->now, (double)(t_ns - c->last_ns));
	curve_mean_add(&c->by_event, s, 1);
	curve_window(c, s, t_ns);
	if (s->reserved > c->peak.reserved ||
	    (s->reserved == c->peak.reserved && s->requested > c->peak.requested))
		c->peak = *s;
	c->peak_granted = gp_max_u64(c->peak_granted, s->granted);
	c->load = gp_max_u64(c->load, s->requested);
	c->now = *s;
	c->last_ns = t_ns;
	c->n_seen++;
}

void gp_curve_finish(const struct gp_curve *c, struct gp_run *run)
{
	const struct gp_mean *mean = c->by_time.weight > 0 ? &c->by_time : &c->by_event;
	double load = (double)c->load, reserved = (double)c->peak.reserved;

	run->memory.load = c->load;
	run->memory.peak_granted = c->peak_granted;
	run->memory.peak_reserved = c->peak.reserved;
	run->memory.end_reserved = c->now.reserved;
	run->memory.utilization = reserved > 0 ? load / reserved : 1;
	run->memory.overhead = load > 0 ? reserved / load - 1 : 0;
	run->fragmentation.internal_at_peak = c->peak.internal;
	run->fragmentation.external_at_peak = c->peak.external;
	run->fragmentation.external_sq_at_peak = c->peak.external_sq;
	if (mean->weight > 0) {
		run->fragmentation.internal_mean = mean->internal / mean->weight;
		run->fragmentation.external_mean = mean->external / mean->weight;
	}
	run->n_windows = c->n_windows;
}
