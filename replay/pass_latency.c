/* SPDX-License-Identifier: Apache-2.0
 *
 * pass_latency: how long each call takes. Every call stands between two readings of the tick
 * counter; what a pair of readings costs is taken off, the value goes into a histogram between the
 * calls. Only calls that succeed are recorded: a refusal is another kind of work.
 */
#include <errno.h>
#include <stdlib.h>

#include "pass.h"

struct latency_pass {
	struct gp_job *job;
	struct gp_session s;
	struct gp_watch watch;
	uint64_t *addr; /* [id]; 0: not live */
};

static inline int latency_alloc(struct latency_pass *p, const struct gp_action_op *op)
{
	struct gp_block block;
	uint64_t t0 = gp_ticks();
	int r = gp_alloc(p->s.a, &op->req, &block);
	uint64_t t1 = gp_ticks();
	uint64_t ns = gp_watch_ns(&p->watch, t0, t1);

	if (GP_UNLIKELY(r)) {
		if (r > 0 && p->job->cfg.stop_on_oom)
			gp_job_stop(p->job);
		return r;
	}
	p->addr[op->id] = block.addr;
	gp_hist_record(&p->job->run->alloc_ns, ns);
	return 0;
}

static inline int latency_free(struct latency_pass *p, const struct gp_action_op *op)
{
	uint64_t addr = p->addr[op->id], t0, t1;
	int r;

	if (!addr)
		return 0;
	t0 = gp_ticks();
	r = gp_session_free(&p->s, op, addr);
	t1 = gp_ticks();
	if (GP_UNLIKELY(r))
		return r < 0 ? r : -EILSEQ;
	gp_hist_record(&p->job->run->free_ns, gp_watch_ns(&p->watch, t0, t1));
	return 0;
}

static int latency_rare(struct latency_pass *p, const struct gp_action_op *op)
{
	int r = gp_session_rare(&p->s, op);

	gp_watch_reset(&p->watch);
	return r;
}

static void latency_loop(struct latency_pass *p)
{
	const struct gp_program *program = &p->job->program;

	for (size_t i = 0; i < program->n_ops; i++) {
		const struct gp_action_op *op = &program->ops[i];
		int r;

		if (op->action == GP_ACTION_ALLOC)
			r = latency_alloc(p, op);
		else if (gp_action_frees(op->action))
			r = latency_free(p, op);
		else
			r = latency_rare(p, op);
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

int gp_pass_latency(struct gp_job *job)
{
	uint32_t n_ids = job->program.n_ids;
	struct latency_pass p = { .job = job, .addr = calloc(n_ids ? n_ids : 1, sizeof(*p.addr)) };
	int r;

	if (!p.addr)
		return -ENOMEM;
	r = gp_session_begin(job, &p.s);
	if (!r) {
		gp_watch_init(&p.watch, job->clock, p.s.dev);
		latency_loop(&p);
	}
	gp_session_close(job, &p.s);
	free(p.addr);
	return r < 0 ? r : 0;
}
