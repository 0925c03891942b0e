/* SPDX-License-Identifier: Apache-2.0
 *
 * engine: runs the passes of one allocator on one trace and owns the result.
 *
 * The curve pass comes first. Where it stops at a failure (--on-oom=stop) the program is cut there,
 * so that the timed passes end at the same event.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "pass.h"
#include "plan.h"

#define DEFAULT_REPEAT  5
#define DEFAULT_WINDOWS 2000
#define DEFAULT_WINDOW  200 /* ms */
#define THREADS_MAX     1024

const char *gp_reason_name(enum gp_reason r)
{
	static const char *const names[GP_REASON_N] = { "over_capacity", "fragmented",
							"stream_held", "refused" };

	return (unsigned)r < GP_REASON_N ? names[r] : "unknown";
}

const char *gp_status_name(enum gp_status s)
{
	static const char *const names[] = { "ok", "stopped", "partial", "error" };

	return (unsigned)s < GP_ARRAY_LEN(names) ? names[s] : "unknown";
}

/* ---- what is known of a job beforehand ---- */

/* What typical_size counts of an ALLOC, FREE or RECLAIM. */
static uint64_t env_size(const struct gp_event *e)
{
	return gp_align_up(gp_min_u64(e->size, GP_SIZE_MAX), GP_ALIGN);
}

static bool env_allocates(const struct gp_event *e)
{
	return e->op == GP_OP_ALLOC && e->size;
}

/* The rank-th smallest size, from 0; none is above `most`. Radix selection, one byte of the answer
 * at a time: a few passes over the events and no memory, whatever the sizes are. The lowest byte
 * of a size is always 0. */
static uint64_t env_select(const struct gp_trace *trace, uint64_t rank, uint64_t most)
{
	uint64_t prefix = 0;

	_Static_assert(GP_ALIGN == 256, "sizes are whole multiples of the lowest digit");
	for (unsigned shift = gp_floor_log2(most) & ~7u; shift; shift -= 8) {
		uint64_t counts[256] = { 0 };
		unsigned digit = 0;

		for (size_t i = 0; i < trace->n_events; i++) {
			uint64_t size;

			if (!env_allocates(&trace->events[i]))
				continue;
			size = env_size(&trace->events[i]);
			if ((size ^ prefix) >> shift < 256)
				counts[(size >> shift) & 255]++;
		}
		while (digit < 255 && rank >= counts[digit])
			rank -= counts[digit++];
		prefix |= (uint64_t)digit << shift;
	}
	return prefix;
}

static uint64_t env_most_live(const struct gp_trace *trace, uint64_t typical_size)
{
	uint64_t live = 0, most = 0;

	for (size_t i = 0; i < trace->n_events; i++) {
		enum gp_action action = gp_program_action(trace, i);

		if (action != GP_ACTION_ALLOC && action != GP_ACTION_FREE)
			continue;
		if (env_size(&trace->events[i]) > typical_size)
			continue;
		if (action == GP_ACTION_ALLOC)
			most = gp_max_u64(most, ++live);
		else
			live--;
	}
	return most;
}

void gp_engine_env(const struct gp_trace *trace, struct gp_env *out)
{
	uint64_t n = 0, most = 0;

	*out = (struct gp_env){ .threads = 1, .streams = trace->n_streams };
	for (size_t i = 0; i < trace->n_events; i++) {
		if (!env_allocates(&trace->events[i]))
			continue;
		most = gp_max_u64(most, env_size(&trace->events[i]));
		n++;
	}
	if (!n)
		return;
	out->typical_size = env_select(trace, (n * 9 + 9) / 10 - 1, most);
	out->typical_live = env_most_live(trace, out->typical_size);
}

void gp_engine_env_threads(const struct gp_trace *trace, unsigned threads,
			   enum gp_threads_mode mode, struct gp_env *out)
{
	gp_engine_env(trace, out);
	out->threads = (unsigned)gp_max_u64(threads, 1);
	if (mode == GP_THREADS_SHARE)
		return;
	out->streams *= out->threads;
	out->typical_live *= out->threads;
}

/* ---- the result ---- */

struct gp_run *gp_run_destroy(struct gp_run *run)
{
	if (!run)
		return NULL;
	free(run->spec);
	free(run->label);
	free(run->series);
	free(run->options);
	free(run->windows);
	free(run->work);
	gp_oom_destroy(run->oom);
	free(run);
	return NULL;
}

static struct gp_run *engine_run_create(const struct gp_job *job)
{
	struct gp_run *run = calloc(1, sizeof(*run));
	const struct gp_allocator_ops *ops;

	if (!run)
		return NULL;
	run->spec = strdup(job->spec);
	run->label = strndup(job->spec, strcspn(job->spec, ":"));
	if (!run->spec || !run->label)
		return gp_run_destroy(run);
	/* Unknown names are refused, with a suggestion, when the first pass creates one. */
	ops = gp_allocator_find(run->label);
	run->allocator = ops ? ops->name : "";
	run->device = strcmp(job->cfg.device, "cuda") ? "sim" : "cuda";
	run->threads = job->cfg.threads;
	run->threads_mode = job->cfg.threads_mode;
	run->memory.utilization = 1;
	gp_hist_init(&run->alloc_ns);
	gp_hist_init(&run->free_ns);
	gp_hist_init(&run->lateness_ns);
	gp_hist_init(&run->response_alloc_ns);
	gp_hist_init(&run->response_free_ns);
	return run;
}

/* ---- the job ---- */

static int engine_refuse(struct gp_job *job, int err, const char *text)
{
	if (job->why_size)
		snprintf(job->why, job->why_size, "%s", text);
	return err;
}

static bool engine_has_times(const struct gp_trace *trace)
{
	return trace->n_events && trace->events[trace->n_events - 1].t_ns > 0;
}

/* Fills in the defaults and refuses what makes no sense. */
static int engine_configure(struct gp_job *job)
{
	struct gp_engine_config *cfg = &job->cfg;

	if (!cfg->repeat)
		cfg->repeat = DEFAULT_REPEAT;
	if (!(cfg->passes & GP_PASS_ALL))
		cfg->passes = GP_PASS_ALL;
	if (!cfg->window_ms)
		cfg->window_ms = DEFAULT_WINDOW;
	if (!cfg->n_windows)
		cfg->n_windows = DEFAULT_WINDOWS;
	if (!cfg->device || (strcmp(cfg->device, "sim") && strcmp(cfg->device, "cuda")))
		return engine_refuse(job, -EINVAL, "unknown device, expected sim or cuda");
	if (cfg->threads > THREADS_MAX)
		return engine_refuse(job, -EINVAL, "too many threads, expected at most 1024");
	if (!(cfg->pace >= 0) || !isfinite(cfg->pace))
		return engine_refuse(job, -EINVAL, "pace must be a positive number");
	if (cfg->threads_mode != GP_THREADS_SHARE && !cfg->threads)
		return engine_refuse(job, -EINVAL, "each thread its copy: how many threads?");
	if (cfg->pace > 0 && cfg->threads)
		return engine_refuse(job, -EINVAL, "a paced replay runs on one thread");
	if (cfg->pace > 0 && !engine_has_times(job->trace))
		return engine_refuse(job, -EINVAL, "the trace has no times to pace a replay by");
	if (cfg->work.kind && cfg->threads)
		return engine_refuse(job, -EINVAL, "work is queued by a replay on one thread");
	if (cfg->work.kind == GP_WORK_BUSY && !cfg->work.busy_ns)
		return engine_refuse(job, -EINVAL, "work must take some time");
	if (cfg->work.kind == GP_WORK_RECORDED && !engine_has_times(job->trace))
		return engine_refuse(job, -EINVAL, "the trace has no times to derive work from");
	return 0;
}

/* One pass, unless an earlier one has ended the run. */
static int engine_pass(struct gp_job *job, unsigned which, const char *phase,
		       int (*pass)(struct gp_job *job))
{
	enum gp_status status = job->run->status;
	uint64_t n = gp_max_u64(job->program.n_ops, 1);
	int r;

	if (!(job->cfg.passes & which) || status == GP_STATUS_ERROR || status == GP_STATUS_PARTIAL)
		return 0;
	r = pass(job);
	if (job->cfg.progress)
		job->cfg.progress(job->cfg.progress_arg, phase, n, n);
	return r;
}

static int engine_passes(struct gp_job *job)
{
	bool threads = job->cfg.threads > 0;
	int r;

	/* Copies have no order in which a curve could follow them. */
	if (job->cfg.threads_mode != GP_THREADS_SHARE)
		return engine_pass(job, GP_PASS_LATENCY | GP_PASS_THROUGHPUT, "throughput",
				   gp_pass_copies);
	r = engine_pass(job, GP_PASS_CURVE, "curve", gp_pass_curve);
	if (!r && job->run->status == GP_STATUS_STOPPED)
		gp_program_cut(&job->program, job->run->failures.first_event);
	if (!r && job->cfg.pace > 0)
		r = engine_pass(job, GP_PASS_LATENCY, "paced", gp_pass_paced);
	else if (!r)
		r = engine_pass(job, GP_PASS_LATENCY, "latency",
				threads ? gp_pass_threads_latency : gp_pass_latency);
	if (!r)
		r = engine_pass(job, GP_PASS_THROUGHPUT, "throughput",
				threads ? gp_pass_threads_throughput : gp_pass_throughput);
	return r;
}

static const struct gp_allocator_ops *engine_ops(const char *spec)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(spec, ":"), spec);
	return gp_allocator_find(name);
}

/* Will the allocator, with what is wrapped around it, keep deferred frees (gp_can_defer)? */
static bool engine_defers(const struct gp_job *job)
{
	const struct gp_allocator_ops *ops = engine_ops(job->spec);
	bool defers = job->cfg.threads < 2 && job->cfg.threads_mode == GP_THREADS_SHARE && ops &&
		      ops->defer;

	for (size_t i = 0; i < job->cfg.n_wraps && defers; i++) {
		ops = engine_ops(job->cfg.wraps[i]);
		defers = ops && ops->defer;
	}
	return defers;
}

int gp_engine_run(const struct gp_trace *trace, const char *spec,
		  const struct gp_engine_config *cfg, struct gp_run **out, char *why,
		  size_t why_size)
{
	struct gp_job job = {
		.trace = trace, .spec = spec, .cfg = *cfg, .why = why, .why_size = why_size
	};
	int r;

	*out = NULL;
	job.clock = gp_clock_get();
	if (!job.clock)
		return engine_refuse(
			&job, -ENOTSUP,
			"the time-stamp counter of this machine does not run steadily");
	r = engine_configure(&job);
	if (r)
		return r;
	gp_engine_env_threads(trace, cfg->threads, cfg->threads_mode, &job.env);
	job.env.placement = cfg->plan ? &cfg->plan->placement : NULL;
	r = engine_defers(&job)
		    ? gp_program_compile_deferring(trace, &job.program)
		    : gp_program_compile(trace,
					 cfg->threads_mode == GP_THREADS_SHARE ? cfg->threads : 0,
					 &job.program);
	if (!r) {
		job.run = engine_run_create(&job);
		r = job.run ? 0 : -ENOMEM;
	}
	if (!r)
		r = engine_passes(&job);
	gp_program_fini(&job.program);
	if (r)
		gp_run_destroy(job.run);
	else
		*out = job.run;
	return r;
}
