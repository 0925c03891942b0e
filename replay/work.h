/* SPDX-License-Identifier: Apache-2.0
 *
 * work: GPU work between the calls of a pass, and what it makes the calls cost. engine.h says what
 * is measured; this is how.
 *
 *   allocation     |== timed ==|  gp_meter_alloc: what did it cost? then queues its work
 *   free, trim     |== timed ==|  gp_meter_call:  what did it cost?
 *
 * After a call that reached the driver, the meter asks the device whether the work is still going
 * on. If so, the call neither waited for it nor kept the device waiting. If not, the lull, from the
 * end of the work until now, is time in which the device had nothing to do; what is left of the
 * call before that is time in which the host waited for the device, provided that the call made a
 * driver call that waits at all:
 *
 *   host    |-------- call --------|          stall = call - lull
 *   device  ====== work ====|                 idle  = min(lull, call)
 *                           |-lull-|
 *
 * Two devices' clocks are never compared: a lull is between two events of the device, a call between
 * two readings of the host's counter. Lulls are read late (gp_device_lull_ns), so that reading them
 * keeps nobody waiting; at most GP_LULLS are open.
 */
#ifndef GP_WORK_H
#define GP_WORK_H

#include "pass.h"

/* A call whose lull is not read yet. */
struct gp_meter_open {
	uint64_t call_ns;
	uint8_t metered; /* enum gp_metered */
	bool waited;     /* it made a driver call that waits for work */
};

struct gp_meter {
	struct gp_job *job;
	struct gp_session *s;
	uint64_t *recorded_ns; /* [op]; for GP_WORK_RECORDED */
	bool working;          /* since the last lull, work was queued */
	/* Of the device, as last seen. */
	uint64_t host_ticks, model_ns, n_waits;
	struct gp_meter_open open[GP_LULLS]; /* [slot] */
	uint64_t n_noted, n_read;            /* lulls so far */
};

/* Before the device is opened. 0 or -ENOMEM. */
int gp_meter_init(struct gp_meter *m, struct gp_job *job, struct gp_session *s);
void gp_meter_fini(struct gp_meter *m);
/* A call has ended that took so long by the host's clock. 0 or the device's fault. */
int gp_meter_call(struct gp_meter *m, enum gp_metered which, uint64_t ns);
/* The same for allocation `op`, which got this address: then queues its work. */
int gp_meter_alloc(struct gp_meter *m, const struct gp_action_op *op, uint64_t addr, uint64_t ns);
/* What happened until now belongs to no call. Before the first call, too. */
void gp_meter_skip(struct gp_meter *m);
/* After the last call: reads what is left; a fault ends the run. */
void gp_meter_finish(struct gp_meter *m);

#endif
