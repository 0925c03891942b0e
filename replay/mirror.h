/* SPDX-License-Identifier: Apache-2.0
 *
 * mirror: one run on a GPU beside the same run on the simulated device: is the simulation true?
 *
 * Memory   must be the same, byte for byte and event by event, where the allocator does not depend
 *          on what the driver decides. It does where it takes its memory from cudaMalloc (small
 *          reservations share pages, and which block is the best fit may be a matter of
 *          addresses) or from the driver's own pool; a single preallocation does not count.
 * Time     of the device's calls, by kind (gp_run.calls). What the host's code takes is the same
 *          code on the same machine, and is not compared.
 */
#ifndef GP_MIRROR_H
#define GP_MIRROR_H

#include "engine.h"

struct gp_mirror {
	const struct gp_run *cuda, *sim;
	bool whole;        /* both runs have a result; else nothing below means anything */
	bool must_match;   /* in memory */
	bool memory_equal; /* windows of the curve, peak, end, failed requests */

	/* Where the curves part, as closely as their windows tell; what NULL: they do not. */
	struct {
		uint64_t first_event, last_event;
		const char *what; /* "requested", "granted", "reserved" */
		/* Bytes: the most in that window, or the least where only it differs. */
		uint64_t cuda, sim;
	} parting;

	double cuda_ns, sim_ns; /* of all calls */
	enum gp_call worst;     /* the kind whose times are furthest apart; GP_CALL_N: no calls */
};

void gp_mirror_compare(const struct gp_run *cuda, const struct gp_run *sim, struct gp_mirror *out);
/* Simulated over real; NAN where there is nothing real. */
double gp_mirror_ratio(double cuda_ns, double sim_ns);
/* Is it a fault of the simulation (or of the allocator) that memory differs? */
bool gp_mirror_is_wrong(const struct gp_mirror *m);

#endif
