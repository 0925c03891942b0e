/* SPDX-License-Identifier: Apache-2.0
 *
 * pass_latency: how long each call takes. Every call stands between two readings of the tick
 * counter; what a pair of readings costs is taken off, the value goes into a histogram between the
 * calls. Only calls that succeed are recorded: a refusal is another kind of work.
 *
 * With work for the device (work.h), it is queued and looked after between the calls. There are two
 * copies of the loop, so that the ordinary one knows nothing of it.
 */
#include <errno.h>
#include <stdlib.h>

#include "pass.h"
#include "work.h"

struct latency_pass {
	struct gp_job *job;
	struct gp_session s;
	struct gp_watch watch;
	struct gp_meter meter;
	uint64_t *addr; /* [id]; 0: not live */
};

static int latency_work(struct latency_pass *p, const struct gp_action_op *op, uint64_t ns)
{
	int r = gp_meter_alloc(&p->meter, op, p->addr[op->id], ns);

	gp_watch_reset(&p->watch);
	return r;
}

static inline int latency_alloc(struct latency_pass *p, const struct gp_action_op *op, bool work)
{
	struct gp_block block;
	uint64_t t0 = gp_ticks();
	int r = gp_alloc(p->s.a, &op->req, &block);
	uint64_t t1 = gp_ticks();
	uint64_t ns = gp_watch_ns(&p->watch, t0, t1);

	if (GP_UNLIKELY(r)) {
		if (work)
			gp_meter_skip(&p->meter);
		if (r > 0 && p->job->cfg.stop_on_oom)
			gp_job_stop(p->job);
		return r;
	}
	p->addr[op->id] = block.addr;
	gp_hist_record(&p->job->run->alloc_ns, ns);
	return work ? latency_work(p, op, ns) : 0;
}

static inline int latency_free(struct latency_pass *p, const struct gp_action_op *op, bool work)
{
	uint64_t addr = p->addr[op->id], t0, t1, ns;
	int r;

	if (!addr)
		return 0;
	t0 = gp_ticks();
	r = gp_session_free(&p->s, op, addr);
	t1 = gp_ticks();
	if (GP_UNLIKELY(r))
		return r < 0 ? r : -EILSEQ;
	ns = gp_watch_ns(&p->watch, t0, t1);
	gp_hist_record(&p->job->run->free_ns, ns);
	return work ? gp_meter_call(&p->meter, GP_METERED_FREE, ns) : 0;
}

static int latency_rare(struct latency_pass *p, const struct gp_action_op *op, bool work)
{
	uint64_t t0 = gp_ticks();
	int r = gp_session_rare(&p->s, op);
	uint64_t ns = gp_watch_ns(&p->watch, t0, gp_ticks());

	if (!work || r)
		return r;
	/* To wait is what a sync is for: no allocator's doing. */
	if (op->action == GP_ACTION_TRIM)
		return gp_meter_call(&p->meter, GP_METERED_TRIM, ns);
	gp_meter_skip(&p->meter);
	return 0;
}

static inline void latency_loop(struct latency_pass *p, bool work)
{
	const struct gp_program *program = &p->job->program;

	for (size_t i = 0; i < program->n_ops; i++) {
		const struct gp_action_op *op = &program->ops[i];
		int r;

		if (op->action == GP_ACTION_ALLOC)
			r = latency_alloc(p, op, work);
		else if (gp_action_frees(op->action))
			r = latency_free(p, op, work);
		else
			r = latency_rare(p, op, work);
		if (GP_UNLIKELY(r < 0)) {
			gp_job_fault(p->job, &p->s, op, r);
			return;
		}
		if (GP_UNLIKELY(r > 0) && p->job->cfg.stop_on_oom)
			return;
		if (i % GP_POLL_OPS == 0 && gp_job_poll(p->job, "latency", i, program->n_ops))
			return;
	}
}

/* One loop or the other. */
static int latency_replay(struct latency_pass *p)
{
	struct gp_job *job = p->job;
	int r = gp_session_begin(job, &p->s);

	if (r)
		return r;
	gp_watch_init(&p->watch, job->clock, p->s.dev);
	if (!job->cfg.work.kind) {
		latency_loop(p, false);
		return 0;
	}
	gp_meter_skip(&p->meter);
	latency_loop(p, true);
	gp_meter_finish(&p->meter);
	return 0;
}

int gp_pass_latency(struct gp_job *job)
{
	uint32_t n_ids = job->program.n_ids;
	struct latency_pass p = { .job = job, .addr = calloc(n_ids ? n_ids : 1, sizeof(*p.addr)) };
	int r = p.addr ? 0 : -ENOMEM;

	if (!r && job->cfg.work.kind)
		r = gp_meter_init(&p.meter, job, &p.s);
	if (!r) {
		r = latency_replay(&p);
		gp_session_close(job, &p.s);
	}
	gp_meter_fini(&p.meter);
	free(p.addr);
	return r < 0 ? r : 0;
}
