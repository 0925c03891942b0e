/* SPDX-License-Identifier: Apache-2.0
 *
 * explain_try: which setting would have served the request that failed.
 *
 * Shape       one option is changed at a time, where the allocator has it and it is not so already;
 *             the trace is replayed, with nothing measured, to the first failure or to its end. The
 *             table is in the order in which one would rather change them, so the first that
 *             serves everything is the nearest.
 * Device      always the simulated one, with the memory of the run's
 * Cost        at most TRY_MAX replays of the allocator's own time and a call of the simulator here
 *             and there; what does not help ends early
 */
#include "explain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pass.h"

#define TRY_MAX 12

static const char try_phase[] = "trying settings";

/* As --list and session.c spell values. */
static const struct {
	const char *name, *value;
	bool only_limited; /* makes a difference only where there is a limit */
} try_changes[] = {
	{ "expandable_segments", "true", false },
	{ "max_split_size_mb", "64", false },
	{ "max_split_size_mb", "128", false },
	{ "max_split_size_mb", "256", false },
	{ "max_split_size_mb", "512", false },
	{ "roundup_power2_divisions", "0", false },
	{ "garbage_collection_threshold", "0.8", true },
	{ "limit", "0", false },
	{ "per_process_memory_fraction", "1", false },
	{ "expandable_segments", "false", false },
	{ "max_split_size_mb", "0", false },
	{ "when_empty", "device", false },
	{ "fit", "best", false },
	{ "coalesce", "true", false },
	{ "quick", "0", false },
	{ "classes", "32", false },
	{ "streams", "ignore", false },
	{ "grow", "vmm", false },
	{ "grow", "chunk", false },
	{ "chunk", "2M", false },
	{ "arena", "2M", false },
	{ "keep_empty", "0", false },
	{ "slab", "64K", false },
	{ "min_block", "512", false },
	{ "buddy_above", "128M,chunk=128M", false }, /* which must be at least as large */
	{ "parent", "segregated", false },
	{ "parent", "buddy", false },
};

/* The value in force; NULL: the allocator has no such option. */
static const char *try_current(const struct gp_run *run, const char *name)
{
	for (size_t i = 0; i < run->n_options; i++)
		if (!strcmp(run->options[i].name, name))
			return run->options[i].value;
	return NULL;
}

/* The run's spec without that option, and then with the change; false: too long. */
static bool try_spec(const char *base, const char *name, struct gp_oom_setting *out)
{
	size_t n = strcspn(base, ":"), length = strlen(name);
	const char *p = base[n] ? base + n + 1 : base + n, *end;
	char *to = out->spec;

	if (strlen(base) + strlen(out->text) + 2 > sizeof(out->spec))
		return false;
	memcpy(to, base, n);
	to += n;
	*to++ = ':';
	for (; *p; p = *end ? end + 1 : end) {
		int depth = 0;

		for (end = p; *end && (*end != ',' || depth > 0); end++)
			depth += (*end == '[') - (*end == ']');
		if (!strncmp(p, name, length) && p[length] == '=')
			continue;
		memcpy(to, p, (size_t)(end - p));
		to += end - p;
		*to++ = ',';
	}
	memcpy(to, out->text, strlen(out->text) + 1);
	return true;
}

/* What one operation returns; a failed request has no address, and its free is left out. */
static int try_step(struct gp_session *s, const struct gp_action_op *op, uint64_t *addrs)
{
	struct gp_block block;
	int r;

	if (op->action == GP_ACTION_ALLOC) {
		r = gp_alloc(s->a, &op->req, &block);
		if (!r)
			addrs[op->id] = block.addr;
		return r;
	}
	if (gp_action_frees(op->action))
		return gp_session_free(s, op, addrs[op->id]);
	return gp_session_rare(s, op);
}

/* 0: to the end of the trace; 1: to the operation that failed, or an interruption. */
static int try_replay(struct gp_job *job, struct gp_session *s, uint64_t *addrs,
		      struct gp_oom_setting *out)
{
	const struct gp_program *p = &job->program;

	for (size_t i = 0; i < p->n_ops; i++) {
		uint64_t reserved;
		int r = try_step(s, &p->ops[i], addrs);

		if (r || (i % GP_POLL_OPS == 0 && gp_job_poll(job, try_phase, i, p->n_ops))) {
			out->first_event = p->ops[i].event;
			return 1;
		}
		reserved = gp_device_reserved(s->dev);
		out->peak_reserved = gp_max_u64(out->peak_reserved, reserved);
	}
	return 0;
}

/* 0; > 0: cannot be set like that; -ENOMEM. */
static int try_setting(struct gp_job *job, const struct gp_oom *oom, struct gp_oom_setting *out)
{
	uint64_t *addrs = calloc((size_t)job->program.n_ids + 1, sizeof(*addrs));
	struct gp_run *run = calloc(1, sizeof(*run));
	struct gp_job trial = *job;
	struct gp_session s = { 0 };
	char why[256];
	int r = -ENOMEM;

	trial.spec = out->spec;
	trial.run = run;
	trial.why = why;
	trial.why_size = sizeof(why);
	trial.cfg.device = "sim";
	trial.cfg.device_config.capacity = oom->capacity;
	trial.cfg.device_config.inject = (struct gp_injection){ 0 };
	if (addrs && run) {
		r = gp_session_begin(&trial, &s);
		if (!r)
			out->survived = try_replay(job, &s, addrs, out) == 0;
		r = r ? 1 : 0;
		gp_session_close(&trial, &s);
		free(run->options);
	}
	free(run);
	free(addrs);
	return r;
}

/* The first that serves the whole trace; else that which gets furthest beyond the request. */
static void try_judge(struct gp_oom *oom)
{
	uint64_t furthest = oom->event;

	oom->best = oom->n_settings;
	for (size_t i = 0; i < oom->n_settings; i++) {
		if (oom->settings[i].survived) {
			oom->best = i;
			return;
		}
		if (oom->settings[i].first_event > furthest) {
			furthest = oom->settings[i].first_event;
			oom->best = i;
		}
	}
}

int gp_explain_try(struct gp_job *job, struct gp_oom *oom)
{
	oom->settings = calloc(TRY_MAX, sizeof(*oom->settings));
	if (!oom->settings)
		return -ENOMEM;
	oom->tried = true;
	for (size_t i = 0; i < GP_ARRAY_LEN(try_changes) && oom->n_settings < TRY_MAX; i++) {
		const char *now = try_current(job->run, try_changes[i].name);
		struct gp_oom_setting setting = { .first_event = oom->event };
		int r;

		if (!now || !strcmp(now, try_changes[i].value) ||
		    (try_changes[i].only_limited && !oom->limit))
			continue;
		snprintf(setting.text, sizeof(setting.text), "%s=%s", try_changes[i].name,
			 try_changes[i].value);
		if (!try_spec(job->spec, try_changes[i].name, &setting))
			continue;
		r = try_setting(job, oom, &setting);
		if (r < 0)
			return r;
		if (job->run->status == GP_STATUS_PARTIAL)
			break;
		if (!r)
			oom->settings[oom->n_settings++] = setting;
	}
	try_judge(oom);
	return 0;
}
