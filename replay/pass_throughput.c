/* SPDX-License-Identifier: Apache-2.0
 *
 * pass_throughput: how fast calls follow one another. The loop holds the calls, the array of
 * addresses and nothing else; the clock is read once for every 64 Ki operations, where it also
 * stands still while progress is shown. Each run starts from a fresh allocator on a fresh device.
 *
 * A trace that runs for less than a millisecond is run several times for each repetition, with only
 * the loops added up: a single run of a few microseconds would measure the first cache misses.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pass.h"

#define CHUNK_OPS       (UINT64_C(1) << 16)
#define REPETITION_NS   1e6
#define REPETITION_RUNS 100 /* at most, of a trace of a few operations */

struct throughput_pass {
	struct gp_job *job;
	struct gp_session s;
	uint64_t *addr; /* [id]; 0: not live */
	uint64_t ticks, ops;
};

/* Runs [op, end). 0; a fault or, where that ends the run, an outcome, of *failed. */
static int throughput_chunk(struct throughput_pass *p, const struct gp_action_op *op,
			    const struct gp_action_op *end, const struct gp_action_op **failed)
{
	struct gp_allocator *a = p->s.a;
	uint64_t *addr = p->addr, ops = 0;
	bool stop_on_oom = p->job->cfg.stop_on_oom;
	struct gp_block block;
	int r = 0;

	for (; op != end; op++) {
		if (op->action == GP_ACTION_ALLOC) {
			r = gp_alloc(a, &op->req, &block);
			ops++;
			if (GP_LIKELY(!r))
				addr[op->id] = block.addr;
			else if (r < 0 || stop_on_oom)
				break;
		} else if (gp_action_frees(op->action)) {
			if (!addr[op->id])
				continue;
			r = gp_session_free(&p->s, op, addr[op->id]);
			ops++;
			if (GP_UNLIKELY(r))
				break;
		} else {
			r = gp_session_rare(&p->s, op);
			if (GP_UNLIKELY(r))
				break;
		}
	}
	p->ops += ops;
	*failed = op;
	return op != end ? r : 0;
}

/* true: the program ran to its end, or as far as --on-oom=stop lets it. */
static bool throughput_loop(struct throughput_pass *p)
{
	const struct gp_action_op *op = p->job->program.ops, *end = op + p->job->program.n_ops;
	uint64_t done = p->job->repetition * p->job->program.n_ops;
	uint64_t total = p->job->cfg.repeat * p->job->program.n_ops;

	while (op != end) {
		uint64_t n = gp_min_u64(CHUNK_OPS, (uint64_t)(end - op));
		const struct gp_action_op *failed;
		uint64_t t0 = gp_ticks();
		int r = throughput_chunk(p, op, op + n, &failed);

		p->ticks += gp_clock_call(p->job->clock, t0, gp_ticks());
		if (GP_UNLIKELY(r)) {
			if (r > 0 && failed->action == GP_ACTION_ALLOC)
				gp_job_stop(p->job);
			else
				gp_job_fault(p->job, &p->s, failed, r);
			return p->job->run->status != GP_STATUS_ERROR;
		}
		op += n;
		done += n;
		if (gp_job_poll(p->job, "throughput", done, total) && op != end)
			return false;
	}
	return true;
}

static void throughput_tally(const struct throughput_pass *p, const struct gp_device_stats *before,
			     struct gp_tally *tally)
{
	struct gp_device_stats d;
	double host_ns, all_ns = (double)p->ticks * p->job->clock->ns_per_tick;

	gp_session_stats(&p->s, &d);
	host_ns = (double)(d.host_ticks - before->host_ticks) * p->job->clock->ns_per_tick;
	tally->ops = p->ops;
	tally->own_ns = all_ns > host_ns ? all_ns - host_ns : 0;
	tally->device_ns =
		p->s.dev->info.simulated ? (double)(d.model_ns - before->model_ns) : host_ns;
	tally->wall_ns = tally->own_ns;
	gp_session_call_ns(p->job, &d, tally->call_ns);
}

static int throughput_once(struct gp_job *job, void *arg, struct gp_tally *tally)
{
	struct throughput_pass *p = arg;
	struct gp_device_stats before;
	int r = gp_session_begin(job, &p->s);

	p->ticks = 0;
	p->ops = 0;
	memset(p->addr, 0, job->program.n_ids * sizeof(*p->addr));
	if (!r) {
		gp_session_stats(&p->s, &before);
		if (throughput_loop(p))
			throughput_tally(p, &before, tally);
		else
			r = GP_PASS_ENDED;
	}
	gp_session_close(job, &p->s);
	return r;
}

int gp_pass_throughput(struct gp_job *job)
{
	uint32_t n_ids = job->program.n_ids;
	struct throughput_pass p = { .job = job };
	int r;

	p.addr = calloc(n_ids ? n_ids : 1, sizeof(*p.addr));
	if (!p.addr)
		return -ENOMEM;
	r = gp_throughput_repeat(job, throughput_once, &p);
	free(p.addr);
	return r;
}

/* ---- repetitions ---- */

static int throughput_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts. */
static double throughput_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), throughput_compare);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* One repetition: runs until they add up to a time that can be measured, or it turns out that there
 * is nothing to do. Time by kind of call becomes that of one run. */
static int throughput_repetition(struct gp_job *job, gp_throughput_once *once, void *arg,
				 struct gp_tally *sum)
{
	struct gp_tally t = { .ops = 1 };
	int n = 0;

	*sum = (struct gp_tally){ 0 };
	for (; n < REPETITION_RUNS && sum->wall_ns < REPETITION_NS && t.ops; n++) {
		int r = once(job, arg, &t);

		if (r || job->run->status == GP_STATUS_ERROR)
			return r ? r : GP_PASS_ENDED;
		job->run->throughput.ops = t.ops;
		sum->ops += t.ops;
		sum->own_ns += t.own_ns;
		sum->device_ns += t.device_ns;
		sum->wall_ns += t.wall_ns;
		for (unsigned i = 0; i < GP_CALL_N; i++)
			sum->call_ns[i] += t.call_ns[i];
	}
	for (unsigned i = 0; i < GP_CALL_N; i++)
		sum->call_ns[i] /= n;
	return 0;
}

int gp_throughput_repeat(struct gp_job *job, gp_throughput_once *once, void *arg)
{
	unsigned n = 0, repeat = job->cfg.repeat;
	double *ns = calloc((3 + GP_CALL_N) * (size_t)repeat, sizeof(*ns));
	double *rate, *device, *calls;
	int r = 0;

	if (!ns)
		return -ENOMEM;
	rate = ns + repeat;
	device = rate + repeat;
	calls = device + repeat;
	while (n < repeat && job->run->status != GP_STATUS_PARTIAL) {
		struct gp_tally t;

		job->repetition = n;
		r = throughput_repetition(job, once, arg, &t);
		if (r || !t.ops)
			break;
		ns[n] = t.own_ns / (double)t.ops;
		rate[n] = t.wall_ns > 0 ? (double)t.ops * 1e9 / t.wall_ns : 0;
		for (unsigned i = 0; i < GP_CALL_N; i++)
			calls[i * repeat + n] = t.call_ns[i];
		device[n++] = t.device_ns / (double)t.ops;
	}
	if (n) {
		job->run->throughput.ns_per_op = throughput_median(ns, n);
		job->run->throughput.ns_per_op_min = ns[0];
		job->run->throughput.ns_per_op_max = ns[n - 1];
		job->run->throughput.ops_per_s = throughput_median(rate, n);
		job->run->throughput.ops_per_s_min = rate[0];
		job->run->throughput.ops_per_s_max = rate[n - 1];
		job->run->throughput.device_ns_per_op = throughput_median(device, n);
		for (unsigned i = 0; i < GP_CALL_N; i++)
			job->run->calls[i].time_ns =
				throughput_median(calls + (size_t)i * repeat, n);
	}
	free(ns);
	return r < 0 ? r : 0;
}
