/* SPDX-License-Identifier: Apache-2.0
 *
 * session: a fresh device with a fresh allocator, and how a job reports.
 *
 * Every run through the program opens its own device: on the simulated one the placement of ranges
 * depends on what was reserved and released before, and passes must see the same placement.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pass.h"

#define PROGRESS_NS 250e6 /* four times a second */

int gp_session_open(struct gp_job *job, struct gp_session *s)
{
	bool cuda = !strcmp(job->cfg.device, "cuda");
	int r;

	*s = (struct gp_session){ 0 };
	r = (cuda ? gp_device_open_cuda : gp_device_open_sim)(&job->cfg.device_config, &s->dev,
							      job->why, job->why_size);
	if (!r) {
		job->dev = s->dev;
		job->opened = true;
		snprintf(job->run->device_name, sizeof(job->run->device_name), "%s",
			 s->dev->info.name);
		gp_device_stats(s->dev, &s->base);
		return 0;
	}
	s->dev = NULL;
	if (!job->opened || r == -ENOMEM)
		return r < 0 ? r : -ENODEV;
	gp_job_blame(job, GP_BLAME_DEVICE, "the device cannot be opened any more: %s",
		     job->why_size ? job->why : gp_result_text(r));
	return GP_PASS_ENDED;
}

/* The allocator below its decorators. */
static const struct gp_allocator *session_innermost(const struct gp_allocator *a)
{
	while (a->ops->caps & GP_CAP_DECORATOR)
		a = a->inner;
	return a;
}

/* As the command line takes it, in the largest unit that is exact. */
static void session_size_text(uint64_t bytes, char *buf, size_t size)
{
	static const char units[] = "\0KMGT";
	unsigned u = 0;

	while (bytes && u < 4 && !(bytes & (GP_KIB - 1))) {
		bytes /= GP_KIB;
		u++;
	}
	snprintf(buf, size, "%llu%.1s", (unsigned long long)bytes, &units[u]);
}

static void session_option_text(const struct gp_allocator *a, const struct gp_option *o, char *buf,
				size_t size)
{
	const unsigned char *at = a->state + o->offset;
	uint64_t number;
	double fraction;
	unsigned choice;
	bool yes;

	switch (o->type) {
	case GP_OPTION_SIZE:
		memcpy(&number, at, sizeof(number));
		session_size_text(number, buf, size);
		break;
	case GP_OPTION_COUNT:
		memcpy(&number, at, sizeof(number));
		snprintf(buf, size, "%llu", (unsigned long long)number);
		break;
	case GP_OPTION_BOOL:
		memcpy(&yes, at, sizeof(yes));
		snprintf(buf, size, "%s", yes ? "true" : "false");
		break;
	case GP_OPTION_FRACTION:
		memcpy(&fraction, at, sizeof(fraction));
		snprintf(buf, size, "%g", fraction);
		break;
	case GP_OPTION_TEXT:
		snprintf(buf, size, "%s", (const char *)at);
		break;
	case GP_OPTION_CHOICE:
		memcpy(&choice, at, sizeof(choice));
		snprintf(buf, size, "%s", o->choices[choice]);
		break;
	}
}

/* Writes the options to the run: after init, which fills in what was left to it. */
static int session_describe(struct gp_run *run, const struct gp_allocator *a)
{
	const struct gp_option *options = a->ops->options;
	size_t n = 0;

	while (options && options[n].name)
		n++;
	run->options = calloc(n ? n : 1, sizeof(*run->options));
	if (!run->options)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		run->options[i].name = options[i].name;
		session_option_text(a, &options[i], run->options[i].value,
				    sizeof(run->options[i].value));
	}
	run->n_options = n;
	return 0;
}

static bool session_event_of(const void *arg, uint64_t request, size_t *event)
{
	const struct gp_program *program = arg;

	for (size_t i = 0; i < program->n_ops; i++) {
		const struct gp_action_op *op = &program->ops[i];

		/* Others never reach an allocator: gp_alloc. */
		if (op->action != GP_ACTION_ALLOC || op->req.size - 1 >= GP_SIZE_MAX || --request)
			continue;
		*event = op->event;
		return true;
	}
	return false;
}

/* One decorator on one thread sees the requests as they are in the program. */
static struct gp_env session_env(const struct gp_job *job)
{
	struct gp_env env = job->env;

	if (job->cfg.n_wraps == 1 && job->cfg.threads < 2) {
		env.event_of = session_event_of;
		env.event_arg = &job->program;
	}
	return env;
}

int gp_session_create(struct gp_job *job, struct gp_session *s)
{
	struct gp_env env = session_env(job);
	char why[256] = "";
	int r = gp_allocator_create(job->spec, s->dev, &env, &s->a, why, sizeof(why));

	for (size_t i = 0; !r && i < job->cfg.n_wraps; i++)
		r = gp_allocator_wrap(job->cfg.wraps[i], s->a, &s->a, why, sizeof(why));
	if (r)
		s->a = NULL;
	if (!r && job->cfg.work.kind == GP_WORK_MEMSET && gp_fills(s->a)) {
		s->a = gp_allocator_destroy(s->a);
		snprintf(why, sizeof(why),
			 "work=memset would overwrite the pattern that check compares in the "
			 "blocks; check:contents=false leaves them alone");
		r = -EINVAL;
	}
	if (r > 0) {
		gp_job_blame(job, GP_BLAME_NO_ROOM, "%s", why);
		return GP_PASS_ENDED;
	}
	if (r < 0 && gp_device_broken(s->dev)) {
		gp_job_error(job, "%s", why[0] ? why : gp_result_text(r));
		return GP_PASS_ENDED;
	}
	if (r < 0 && job->why_size)
		snprintf(job->why, job->why_size, "%s", why[0] ? why : gp_result_text(r));
	if (!r && !job->run->options)
		r = session_describe(job->run, session_innermost(s->a));
	return r;
}

int gp_session_begin(struct gp_job *job, struct gp_session *s)
{
	int r = gp_session_open(job, s);

	return r ? r : gp_session_create(job, s);
}

void gp_session_close(struct gp_job *job, struct gp_session *s)
{
	struct gp_device_stats stats;

	s->a = gp_allocator_destroy(s->a);
	if (!s->dev)
		return;
	gp_device_stats(s->dev, &stats);
	if (gp_device_broken(s->dev))
		gp_job_error(job, "at the end");
	else if (stats.reserved_bytes)
		gp_job_error(job, "the allocator leaks %llu bytes of the device",
			     (unsigned long long)stats.reserved_bytes);
	s->dev = job->dev = gp_device_close(s->dev);
}

int gp_session_rare(struct gp_session *s, const struct gp_action_op *op)
{
	int r = op->action == GP_ACTION_TRIM ? gp_trim(s->a, 0, NULL) : gp_device_sync(s->dev);

	return r > 0 ? -EILSEQ : r;
}

uint64_t gp_session_capacity(const struct gp_session *s)
{
	uint64_t total = s->dev->info.total_bytes, free_bytes, ignored;

	if (gp_device_mem_info(s->dev, &free_bytes, &ignored))
		return total;
	return gp_min_u64(total, free_bytes + gp_device_reserved(s->dev));
}

void gp_session_stats(const struct gp_session *s, struct gp_device_stats *out)
{
	gp_device_stats(s->dev, out);
	for (unsigned i = 0; i < GP_CALL_N; i++) {
		out->calls[i] -= s->base.calls[i];
		out->call_ticks[i] -= s->base.call_ticks[i];
		out->call_model_ns[i] -= s->base.call_model_ns[i];
	}
	out->failures -= s->base.failures;
	out->host_ticks -= s->base.host_ticks;
	out->model_ns -= s->base.model_ns;
	out->stall_ns -= s->base.stall_ns;
}

void gp_session_call_ns(const struct gp_job *job, const struct gp_device_stats *stats,
			double ns[GP_CALL_N])
{
	for (unsigned i = 0; i < GP_CALL_N; i++)
		ns[i] = job->dev->info.simulated
				? (double)stats->call_model_ns[i]
				: (double)stats->call_ticks[i] * job->clock->ns_per_tick;
}

/* ---- how a job reports ---- */

static void job_blame_device(struct gp_job *job)
{
	struct gp_run *run = job->run;
	const char *said = gp_device_error(job->dev);
	size_t n = strlen(run->why);

	run->blame = GP_BLAME_DEVICE;
	if (!strstr(run->why, said))
		snprintf(run->why + n, sizeof(run->why) - n, "; device: %s", said);
}

static void job_end(struct gp_job *job, enum gp_blame blame, const char *fmt, va_list ap)
{
	if (job->run->status == GP_STATUS_ERROR)
		return;
	job->run->status = GP_STATUS_ERROR;
	job->run->blame = blame;
	vsnprintf(job->run->why, sizeof(job->run->why), fmt, ap);
	if (job->dev && gp_device_broken(job->dev))
		job_blame_device(job);
}

void gp_job_error(struct gp_job *job, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	job_end(job, GP_BLAME_ALLOCATOR, fmt, ap);
	va_end(ap);
}

void gp_job_blame(struct gp_job *job, enum gp_blame blame, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	job_end(job, blame, fmt, ap);
	va_end(ap);
}

/* -EINVAL is what a device says to an address that it never gave: the caller's mistake. */
static enum gp_blame job_who(const struct gp_action_op *op, int r, const char *device_error)
{
	if (op->action == GP_ACTION_SYNC || (*device_error && r != -EINVAL))
		return GP_BLAME_DEVICE;
	return GP_BLAME_ALLOCATOR;
}

void gp_job_fault(struct gp_job *job, const struct gp_session *s, const struct gp_action_op *op,
		  int r)
{
	static const char *const verbs[] = { "?",        "alloc", "free", "defer",
					     "complete", "trim",  "sync" };
	const char *device = gp_device_error(s->dev), *said = s->a->why;
	char what[64] = "";

	if (op->action == GP_ACTION_ALLOC)
		snprintf(what, sizeof(what), " of %llu bytes", (unsigned long long)op->req.size);
	if (gp_action_frees(op->action))
		snprintf(what, sizeof(what), " of block %lu", (unsigned long)op->id);
	gp_job_blame(job, job_who(op, r, device), "event %lu: %s%s: %s%s%s%s%s",
		     (unsigned long)op->event, verbs[op->action], what, gp_result_text(r),
		     *device ? "; device: " : "", device, *said ? "; allocator: " : "", said);
}

void gp_job_stop(struct gp_job *job)
{
	if (job->run->status == GP_STATUS_OK)
		job->run->status = GP_STATUS_STOPPED;
}

bool gp_job_poll(struct gp_job *job, const char *phase, uint64_t done, uint64_t total)
{
	uint64_t now = gp_ticks();

	if (job->cfg.progress && now >= job->progress_due) {
		job->progress_due = now + gp_clock_ticks(job->clock, PROGRESS_NS);
		job->cfg.progress(job->cfg.progress_arg, phase, done, total);
	}
	if (!job->cfg.interrupted || !*job->cfg.interrupted)
		return false;
	if (job->run->status != GP_STATUS_ERROR)
		job->run->status = GP_STATUS_PARTIAL;
	return true;
}
