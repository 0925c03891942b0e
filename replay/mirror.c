/* SPDX-License-Identifier: Apache-2.0
 *
 * mirror: see mirror.h.
 *
 * Cost      one look at each window
 * Threads   any: reads two finished runs
 */
#include "mirror.h"

#include <math.h>

/* Have the driver's decisions a say in what this run holds? Where a single reservation lies is no
 * matter. */
static bool mirror_is_drivers(const struct gp_run *run)
{
	return run->calls[GP_CALL_RESERVE].count > 1 || run->calls[GP_CALL_ASYNC_ALLOC].count;
}

/* As it was meant to. */
static bool mirror_ended(const struct gp_run *run)
{
	return run->status == GP_STATUS_OK || run->status == GP_STATUS_STOPPED;
}

/* ---- memory ---- */

static bool mirror_span(const struct gp_span_u64 *cuda, const struct gp_span_u64 *sim,
			const char *what, struct gp_mirror *out)
{
	bool least = cuda->max == sim->max;

	if (least && cuda->min == sim->min && cuda->last == sim->last)
		return false;
	out->parting.what = what;
	out->parting.cuda = !least ? cuda->max : cuda->min != sim->min ? cuda->min : cuda->last;
	out->parting.sim = !least ? sim->max : cuda->min != sim->min ? sim->min : sim->last;
	return true;
}

static bool mirror_window(const struct gp_window *cuda, const struct gp_window *sim,
			  struct gp_mirror *out)
{
	if (!mirror_span(&cuda->requested, &sim->requested, "requested", out) &&
	    !mirror_span(&cuda->granted, &sim->granted, "granted", out) &&
	    !mirror_span(&cuda->reserved, &sim->reserved, "reserved", out))
		return false;
	out->parting.first_event = cuda->first_event;
	out->parting.last_event = cuda->last_event;
	return true;
}

/* Both curves are of one trace, and so have the same windows; one may end early. */
static void mirror_curves(const struct gp_run *cuda, const struct gp_run *sim,
			  struct gp_mirror *out)
{
	size_t n = (size_t)gp_min_u64(cuda->n_windows, sim->n_windows);

	for (size_t i = 0; i < n; i++)
		if (mirror_window(&cuda->windows[i], &sim->windows[i], out))
			return;
}

static bool mirror_equal(const struct gp_run *cuda, const struct gp_run *sim)
{
	return cuda->n_windows == sim->n_windows && cuda->status == sim->status &&
	       cuda->memory.peak_reserved == sim->memory.peak_reserved &&
	       cuda->memory.end_reserved == sim->memory.end_reserved &&
	       cuda->memory.peak_granted == sim->memory.peak_granted &&
	       cuda->failures.count == sim->failures.count &&
	       cuda->failures.bytes == sim->failures.bytes;
}

/* ---- time ---- */

static void mirror_times(struct gp_mirror *m)
{
	double furthest = -1;

	m->worst = GP_CALL_N;
	for (unsigned i = 0; i < GP_CALL_N; i++) {
		double cuda = m->cuda->calls[i].time_ns, sim = m->sim->calls[i].time_ns;

		m->cuda_ns += cuda;
		m->sim_ns += sim;
		if (!(cuda > 0) && !(sim > 0))
			continue;
		if (fabs(cuda - sim) > furthest) {
			furthest = fabs(cuda - sim);
			m->worst = (enum gp_call)i;
		}
	}
}

double gp_mirror_ratio(double cuda_ns, double sim_ns)
{
	return cuda_ns > 0 ? sim_ns / cuda_ns : NAN;
}

/* ---- the whole ---- */

void gp_mirror_compare(const struct gp_run *cuda, const struct gp_run *sim, struct gp_mirror *out)
{
	*out = (struct gp_mirror){ .cuda = cuda, .sim = sim, .worst = GP_CALL_N };
	out->whole = mirror_ended(cuda) && mirror_ended(sim);
	if (!out->whole)
		return;
	out->must_match = !mirror_is_drivers(cuda) && !mirror_is_drivers(sim);
	mirror_curves(cuda, sim, out);
	out->memory_equal = !out->parting.what && mirror_equal(cuda, sim);
	mirror_times(out);
}

bool gp_mirror_is_wrong(const struct gp_mirror *m)
{
	return m->whole && m->must_match && !m->memory_equal;
}
