/* SPDX-License-Identifier: Apache-2.0
 *
 * pass_curve: what happens to memory. Replays in recorded order on one thread, samples every metric
 * after every event, explains each failure, and audits the allocator at the end.
 *
 * Cost        one shadow update, one sample and one gp_usage an event: about as much again as a
 *             good allocator takes. Nothing is timed here.
 * Afterwards  the allocator checks itself with the trace's last blocks still live; then all of
 *             them are freed, its caches trimmed, and it must hold nothing if it claims to coalesce
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/torch/torch.h"
#include "curve.h"
#include "explain.h"
#include "metrics.h"
#include "pass.h"

static const char curve_phase[] = "curve";

struct curve_pass {
	struct gp_job *job;
	struct gp_session s;
	struct gp_metrics metrics;
	struct gp_curve curve;
	struct gp_sample sample;
	struct gp_shadow *shadow; /* [id] */
	bool *deferred;           /* [id]: freed, and its use not over */
};

/* Why a request failed. */
static enum gp_reason curve_reason(const struct curve_pass *p, uint64_t size, int outcome)
{
	uint64_t capacity, live = p->metrics.requested;

	if (outcome == GP_HELD)
		return GP_REASON_STREAM_HELD;
	if (outcome == GP_REFUSED)
		return GP_REASON_REFUSED;
	capacity = gp_session_capacity(&p->s);
	if (size > capacity || live > capacity - size)
		return GP_REASON_OVER_CAPACITY;
	return GP_REASON_FRAGMENTED;
}

static void curve_explain(struct curve_pass *p, const struct gp_action_op *op, int outcome)
{
	struct gp_explain x = {
		.job = p->job,
		.s = &p->s,
		.metrics = &p->metrics,
		.shadow = p->shadow,
		.op = op,
		.outcome = outcome,
	};

	p->job->run->oom = gp_explain(&x);
}

static GP_NOINLINE void curve_failure(struct curve_pass *p, const struct gp_action_op *op,
				      int outcome)
{
	struct gp_run *run = p->job->run;

	if (!run->failures.count++) {
		run->failures.first_event = op->event;
		curve_explain(p, op, outcome);
	}
	run->failures.bytes += op->req.size;
	run->failures.reasons[curve_reason(p, op->req.size, outcome)]++;
	if (p->job->cfg.stop_on_oom)
		gp_job_stop(p->job);
}

static int curve_alloc(struct curve_pass *p, const struct gp_action_op *op)
{
	struct gp_block block;
	int r = gp_alloc(p->s.a, &op->req, &block);

	if (GP_LIKELY(!r)) {
		/* A fault of the shadow is noticed with the usage. */
		gp_metrics_take(&p->metrics, &block, op->req.size, &p->shadow[op->id]);
		return 0;
	}
	if (r > 0) {
		curve_failure(p, op, r);
		return 0;
	}
	return r;
}

static int curve_free(struct curve_pass *p, uint32_t id)
{
	uint64_t addr = p->shadow[id].addr;
	int r;

	if (!addr)
		return 0;
	gp_metrics_give(&p->metrics, &p->shadow[id]);
	r = gp_free(p->s.a, addr);
	return r > 0 ? -EILSEQ : r;
}

static int curve_defer(struct curve_pass *p, uint32_t id)
{
	if (!p->shadow[id].addr)
		return 0;
	p->deferred[id] = true;
	return gp_defer(p->s.a, p->shadow[id].addr, id);
}

static int curve_complete(struct curve_pass *p, uint32_t id)
{
	uint64_t addr = p->shadow[id].addr;

	if (!addr)
		return 0;
	p->deferred[id] = false;
	gp_metrics_give(&p->metrics, &p->shadow[id]);
	return gp_complete(p->s.a, addr, id);
}

/* The allocator waited for the device, which ends a use before its time. */
static void curve_completed(void *arg, uint64_t addr, uint32_t id)
{
	struct curve_pass *p = arg;

	(void)addr;
	p->deferred[id] = false;
	gp_metrics_give(&p->metrics, &p->shadow[id]);
}

static int curve_perform(struct curve_pass *p, const struct gp_action_op *op)
{
	if (op->action == GP_ACTION_ALLOC)
		return curve_alloc(p, op);
	if (op->action == GP_ACTION_FREE)
		return curve_free(p, op->id);
	if (op->action == GP_ACTION_DEFER)
		return curve_defer(p, op->id);
	if (op->action == GP_ACTION_COMPLETE)
		return curve_complete(p, op->id);
	return gp_session_rare(&p->s, op);
}

/* Holds what the allocator says of itself against what was seen. */
static void curve_believe(struct curve_pass *p, size_t event)
{
	const struct gp_metrics *m = &p->metrics;
	struct gp_usage u;

	if (GP_UNLIKELY(m->fault)) {
		gp_job_error(p->job, "event %zu: %s", event, m->why);
		return;
	}
	gp_usage(p->s.a, &u);
	if (GP_LIKELY(u.reserved_bytes >= u.granted_bytes && u.granted_bytes == m->granted))
		return;
	gp_job_error(p->job,
		     "event %zu: usage says %llu bytes granted of %llu reserved; blocks of %llu "
		     "bytes are live",
		     event, (unsigned long long)u.granted_bytes,
		     (unsigned long long)u.reserved_bytes, (unsigned long long)m->granted);
}

static uint64_t curve_reserved(const struct curve_pass *p)
{
	return gp_device_reserved(p->s.dev);
}

/* The operation of an event, and the sample after it. false: the run has ended. */
static bool curve_step(struct curve_pass *p, const struct gp_action_op *op)
{
	int r = curve_perform(p, op);

	if (GP_LIKELY(!r)) {
		gp_metrics_sample(&p->metrics, curve_reserved(p), &p->sample);
		curve_believe(p, op->event);
	} else {
		gp_job_fault(p->job, &p->s, op, r);
	}
	return p->job->run->status == GP_STATUS_OK;
}

static void curve_loop(struct curve_pass *p)
{
	const struct gp_trace *trace = p->job->trace;
	const struct gp_action_op *op = p->job->program.ops, *end = op + p->job->program.n_ops;
	uint64_t start = gp_ticks();
	bool on = true;

	for (size_t i = 0; on && i < trace->n_events; i++) {
		if (op != end && op->event == i)
			on = curve_step(p, op++);
		gp_curve_add(&p->curve, &p->sample, trace->events[i].t_ns);
		if (on && i % GP_POLL_OPS == 0)
			on = !gp_job_poll(p->job, curve_phase, i, trace->n_events);
	}
	p->job->run->curve_ns = gp_clock_ns(p->job->clock, gp_clock_between(start, gp_ticks()));
}

/* Runs the allocator's own audit. */
static void curve_audit(struct curve_pass *p, const char *when)
{
	char *text = NULL;
	size_t size = 0;
	FILE *why = open_memstream(&text, &size);
	int r;

	if (!why)
		return;
	r = gp_check(p->s.a, why);
	fclose(why);
	if (r) {
		text[strcspn(text, "\n")] = '\0';
		gp_job_error(p->job, "%s: the allocator's check failed: %s", when,
			     *text ? text : gp_result_text(r));
	}
	free(text);
}

/* Frees what the trace leaves live. */
static void curve_drain(struct curve_pass *p)
{
	for (uint32_t id = 0; id < p->job->program.n_ids; id++) {
		int r = p->deferred[id] ? curve_complete(p, id) : curve_free(p, id);

		if (r) {
			gp_job_error(p->job, "after the trace: free of block %lu: %s",
				     (unsigned long)id, gp_result_text(r));
			return;
		}
	}
}

/* One reservation for good is what grow=prealloc means. */
static bool curve_preallocated(const struct gp_run *run)
{
	for (size_t i = 0; i < run->n_options; i++)
		if (!strcmp(run->options[i].name, "grow"))
			return !strcmp(run->options[i].value, "prealloc");
	return false;
}

/* The program is over, and with it what its private pools were for. */
static void curve_release_pools(struct curve_pass *p)
{
	for (unsigned pool = 1; pool <= GP_TRACE_POOL_MAX; pool++)
		gp_torch_release_pool(p->s.a, (uint8_t)pool);
}

static void curve_afterwards(struct curve_pass *p)
{
	const struct gp_allocator_ops *ops = gp_allocator_find(p->job->run->allocator);
	struct gp_usage u;
	int r;

	curve_audit(p, "after the trace");
	curve_drain(p);
	curve_release_pools(p);
	r = gp_trim(p->s.a, 0, NULL);
	if (r)
		gp_job_error(p->job, "after the trace: trim: %s", gp_result_text(r));
	if (p->job->run->status == GP_STATUS_ERROR)
		return;
	curve_audit(p, "after freeing everything");
	gp_usage(p->s.a, &u);
	if (u.live_blocks || u.granted_bytes)
		gp_job_error(p->job, "all is freed, but usage says %llu blocks of %llu bytes live",
			     (unsigned long long)u.live_blocks,
			     (unsigned long long)u.granted_bytes);
	else if (u.reserved_bytes && ops && ops->caps & GP_CAP_COALESCES &&
		 !curve_preallocated(p->job->run))
		gp_job_error(p->job, "all is freed and trimmed, but %llu bytes are still reserved",
			     (unsigned long long)u.reserved_bytes);
}

static void curve_driver(struct curve_pass *p)
{
	struct gp_run *run = p->job->run;
	struct gp_device_stats d;
	double ns[GP_CALL_N];

	gp_session_stats(&p->s, &d);
	gp_session_call_ns(p->job, &d, ns);
	for (unsigned i = 0; i < GP_CALL_N; i++)
		run->calls[i] = (struct gp_call_use){ d.calls[i], ns[i] };
	run->driver.allocs =
		d.calls[GP_CALL_RESERVE] + d.calls[GP_CALL_ASYNC_ALLOC] + d.calls[GP_CALL_CREATE];
	run->driver.frees =
		d.calls[GP_CALL_RELEASE] + d.calls[GP_CALL_ASYNC_FREE] + d.calls[GP_CALL_DESTROY];
	run->driver.maps = d.calls[GP_CALL_MAP];
	run->driver.unmaps = d.calls[GP_CALL_UNMAP];
	run->driver.syncs = d.calls[GP_CALL_SYNC];
	run->driver.event_waits = d.calls[GP_CALL_EVENT_WAIT];
	run->driver.time_ns =
		p->s.dev->info.simulated ? d.model_ns : gp_clock_ns(p->job->clock, d.host_ticks);
}

/* Does the device keep to itself where this allocator's memory is? */
static bool curve_blind(const struct curve_pass *p)
{
	const struct gp_allocator_ops *ops = gp_allocator_find(p->job->run->allocator);

	return ops && ops->caps & GP_CAP_DRIVER_POOL && !p->s.dev->info.async_ranges;
}

static int curve_replay(struct curve_pass *p)
{
	int r = gp_session_open(p->job, &p->s);

	if (!r) {
		p->metrics.blind = curve_blind(p);
		gp_device_observe(p->s.dev, gp_metrics_observe, &p->metrics);
		r = gp_session_create(p->job, &p->s);
	}
	if (!r) {
		p->s.a->completed = curve_completed;
		p->s.a->completed_arg = p;
		gp_metrics_sample(&p->metrics, curve_reserved(p), &p->sample);
		curve_loop(p);
		curve_driver(p);
		gp_curve_finish(&p->curve, p->job->run);
		if (p->job->run->status != GP_STATUS_ERROR)
			curve_afterwards(p);
	}
	gp_session_close(p->job, &p->s);
	return r < 0 ? r : 0;
}

/* Settings are of no use to a request that no allocator can serve. */
static int curve_try_settings(struct gp_job *job)
{
	struct gp_run *run = job->run;

	if (!job->cfg.explain || !run->oom || run->oom->cause == GP_OOM_OVER_CAPACITY ||
	    run->status == GP_STATUS_ERROR || run->status == GP_STATUS_PARTIAL)
		return 0;
	return gp_explain_try(job, run->oom);
}

int gp_pass_curve(struct gp_job *job)
{
	size_t n_windows = gp_curve_windows(job->trace->n_events, job->cfg.n_windows);
	const struct gp_allocator_ops *ops;
	struct curve_pass p = { .job = job };
	int r = -ENOMEM;

	p.shadow = calloc(job->program.n_ids ? job->program.n_ids : 1, sizeof(*p.shadow));
	p.deferred = calloc(job->program.n_ids ? job->program.n_ids : 1, sizeof(*p.deferred));
	job->run->windows = calloc(n_windows ? n_windows : 1, sizeof(*job->run->windows));
	gp_metrics_init(&p.metrics);
	ops = gp_allocator_find(job->run->allocator);
	p.metrics.stitches = ops && ops->caps & GP_CAP_STITCHES;
	gp_curve_init(&p.curve, job->run->windows, n_windows, job->trace->n_events);
	if (p.shadow && p.deferred && job->run->windows)
		r = curve_replay(&p);
	if (!r)
		r = curve_try_settings(job);
	gp_metrics_fini(&p.metrics);
	free(p.shadow);
	free(p.deferred);
	return r;
}
