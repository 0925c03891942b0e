/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool-replay: what would each allocator do with this trace?
 *
 * Shape     command line (replay_options.c), everything that can be wrong beforehand
 *           (replay_setup.c), then for each trace: one run per allocator, the files, and the table
 *           or the document. The runs themselves are the engine's.
 * Threads   the engine's own
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "replay/atomic_file.h"
#include "replay/report.h"
#include "replay/verify.h"
#include "replay_explain.h"
#include "replay_list.h"
#include "replay_mirror.h"
#include "replay_setup.h"
#include "replay_table.h"

#define PLAN_SECONDS 10.0 /* for --alloc=plan without --plan */

struct replay {
	struct replay_options options;
	struct replay_setup setup;
	struct gp_mirror *mirrors; /* --mirror: of the trace at hand */
	FILE *documents; /* --json=FILE: what will be its content, in memory until all is there */
	char *documents_text;
	size_t documents_size;
};

static bool is_interrupted(const struct replay *r)
{
	return *r->setup.engine.interrupted != 0;
}

/* The graver of two results; the codes are in order of gravity, but for usage. */
static int graver(int a, int b)
{
	return a > b ? a : b;
}

static int judge(const struct replay *r, const struct gp_run *run)
{
	bool no_room = run->status == GP_STATUS_ERROR && run->blame == GP_BLAME_NO_ROOM;

	if (run->status == GP_STATUS_ERROR && !no_room) {
		cli_error("%s: %s", run->spec, replay_table_why(run));
		return run->blame == GP_BLAME_DEVICE ? CLI_DEVICE : CLI_FAILED;
	}
	if (r->options.fail_on_oom && no_room) {
		cli_error("%s: %s", run->spec, replay_table_why(run));
		return CLI_FAILED;
	}
	if (r->options.fail_on_oom && run->failures.count) {
		cli_error("%s: %llu requests failed", run->spec,
			  (unsigned long long)run->failures.count);
		return CLI_FAILED;
	}
	if (no_room)
		cli_note("%s: %s", run->spec, replay_table_why(run));
	return CLI_OK;
}

/* --verify-recording */
static int verify(const struct replay *r, const struct gp_trace *trace, struct gp_run *run)
{
	const struct gp_engine_config *engine = &r->setup.engine;
	struct gp_verify *v = &run->verify;
	char why[256] = "";
	int err;

	if (!r->options.verify || !replay_is_torch(run->spec))
		return CLI_OK;
	err = gp_verify_recording(trace, run->spec, engine->device_config.capacity, v, why,
				  sizeof(why));
	if (err) {
		cli_error("%s: %s", run->spec, why);
		return CLI_USAGE;
	}
	run->verified = true;
	if (!v->diverged) {
		cli_note("%s: the recording agrees in all %llu addresses and device calls",
			 run->spec, (unsigned long long)v->compared);
		return CLI_OK;
	}
	cli_error("%s: differs from the recording: %s", run->spec, v->first);
	return CLI_FAILED;
}

/* Adds a run to the report. NULL: a fault that would meet every other run too. */
static struct gp_run *run_one(struct replay *r, struct gp_report *report, const char *spec,
			      const struct gp_engine_config *engine, int *code)
{
	struct gp_run *run = NULL;
	char why[256] = "";
	int err;

	r->setup.running = spec;
	err = gp_engine_run(report->trace, spec, engine, &run, why, sizeof(why));
	cli_progress_clear();
	if (err) {
		cli_error("%s: %s", spec, why[0] ? why : gp_result_text(err));
		report->partial = "not every run could be made";
		*code = graver(*code, err == -EINVAL || err == -ENOMEM ? CLI_USAGE : CLI_DEVICE);
		return NULL;
	}
	report->runs[report->n_runs++] = run;
	*code = graver(*code, judge(r, run));
	return run;
}

/* The run again, on the simulated device, and how the two compare. false: as run_one. */
static bool mirror(struct replay *r, struct gp_report *report, const struct gp_run *cuda, int *code)
{
	struct gp_mirror *m = &r->mirrors[report->n_mirrors];
	struct gp_run *sim = run_one(r, report, cuda->spec, &r->setup.mirror, code);
	char text[200];

	if (!sim)
		return false;
	gp_mirror_compare(cuda, sim, m);
	report->n_mirrors++;
	if (!gp_mirror_is_wrong(m))
		return true;
	replay_mirror_parting(m, text, sizeof(text));
	cli_error("%s: %s", cuda->spec, text);
	*code = graver(*code, CLI_FAILED);
	return true;
}

static size_t runs_per_spec(const struct replay *r)
{
	return r->options.n_threads ? r->options.n_threads : 1;
}

/* Fills report->runs; stops at an interruption or a fault that would meet every other run too. */
static int run_all(struct replay *r, struct gp_report *report)
{
	size_t each = runs_per_spec(r), n = r->options.n_specs * each;
	int code = CLI_OK;

	for (size_t i = 0; i < n && !is_interrupted(r); i++) {
		const char *spec = r->options.specs[i / each];
		struct gp_run *run;

		if (replay_options_pass_over(spec, &r->setup.environment.device))
			continue;
		if (r->options.n_threads)
			r->setup.engine.threads = r->options.threads[i % each];
		run = run_one(r, report, spec, &r->setup.engine, &code);
		if (!run)
			return code;
		code = graver(code, verify(r, report->trace, run));
		if (r->options.mirror && !is_interrupted(r) && !mirror(r, report, run, &code))
			return code;
	}
	/* The document names the most. */
	r->setup.engine.threads = replay_most_threads(&r->options);
	if (is_interrupted(r))
		report->partial = "interrupted";
	return code;
}

/* dir: where the results are; NULL: they could not be saved. */
static int show(struct replay *r, const struct gp_report *report, const char *dir)
{
	bool stream = r->options.json || r->documents;
	char *json = stream ? gp_report_json(report, r->setup.n_jobs > 1) : NULL;

	if (stream && !json) {
		cli_error("out of memory for the result document");
		return CLI_USAGE;
	}
	if (r->documents)
		fputs(json, r->documents);
	if (r->options.json) {
		fputs(json, stdout);
	} else {
		if (r->options.mirror)
			replay_mirror_print(stdout, report, cli_colour(stdout));
		else
			replay_table_print(stdout, report, cli_colour(stdout), cli_columns(stdout));
		if (r->options.explain)
			replay_explain_print(stdout, report, cli_colour(stdout));
		if (dir)
			replay_table_hint(stdout, dir);
	}
	free(json);
	return cli_flush_output() ? CLI_OK : CLI_USAGE;
}

/* Is there one among the allocators that cannot do without? */
static bool needs_plan(const struct replay *r)
{
	for (size_t i = 0; i < r->options.n_specs; i++) {
		const struct gp_allocator_ops *ops = gp_allocator_named_by(r->options.specs[i]);

		if (ops && ops->caps & GP_CAP_OFFLINE)
			return true;
	}
	return false;
}

/* --plan; without it when there is --alloc=plan. */
static int make_plan(struct replay *r, struct replay_job *job)
{
	struct gp_plan_config cfg = {
		.seconds = r->options.plan > 0 ? r->options.plan : PLAN_SECONDS,
		.capacity = r->options.capacity,
		.interrupted = r->setup.engine.interrupted,
	};
	int err;

	r->setup.engine.plan = NULL;
	if (!(r->options.plan > 0) && !needs_plan(r))
		return CLI_OK;
	err = gp_plan_make(job->trace, &cfg, &job->plan);
	r->setup.engine.plan = job->plan;
	if (!err || is_interrupted(r))
		return CLI_OK;
	if (err > 0 && !needs_plan(r)) {
		cli_note("--plan=%g: no plan was ready in that time: none is shown", cfg.seconds);
		return CLI_OK;
	}
	if (err > 0)
		cli_error("--plan=%g: no plan was ready in that time, expected more seconds for "
			  "--alloc=plan",
			  cfg.seconds);
	else
		cli_error("--plan: %s", gp_result_text(err));
	return CLI_USAGE;
}

static int replay_one(struct replay *r, struct replay_job *job)
{
	struct gp_report report = {
		.trace = job->trace,
		.environment = &r->setup.environment,
		.config = &r->setup.engine,
	};
	size_t n = r->options.n_specs * runs_per_spec(r);
	char why[512];
	int code;

	report.runs = calloc(2 * n, sizeof(struct gp_run *));
	report.mirrors = r->mirrors = calloc(n, sizeof(*r->mirrors));
	if (!report.runs || !r->mirrors) {
		cli_error("out of memory");
		free(report.runs);
		free(r->mirrors);
		return CLI_USAGE;
	}
	code = make_plan(r, job);
	if (code == CLI_OK)
		code = run_all(r, &report);
	if (report.n_runs && gp_report_label(report.runs, report.n_runs) == 0) {
		if (gp_report_save(&report, job->dir, why, sizeof(why)) != 0) {
			cli_error("%s", why);
			code = graver(code, CLI_USAGE);
		} else {
			job->saved = true;
		}
		/* Shown in any case: the work is done, and this is what is left of it. */
		code = graver(code, show(r, &report, job->saved ? job->dir : NULL));
	}
	for (size_t i = 0; i < report.n_runs; i++)
		gp_run_destroy(report.runs[i]);
	free(report.runs);
	free(r->mirrors);
	return code;
}

/* --json=FILE, once every document is there. */
static int write_documents(struct replay *r)
{
	struct gp_atomic_file f;
	bool whole = fflush(r->documents) == 0 && !ferror(r->documents);
	int err = whole ? gp_atomic_open(&f, r->options.json_file) : -ENOMEM;

	if (!err) {
		fwrite(r->documents_text, 1, r->documents_size, f.stream);
		err = gp_atomic_close(&f);
	}
	if (err)
		cli_error("--json=%s: %s", r->options.json_file, strerror(-err));
	return err ? CLI_USAGE : CLI_OK;
}

static bool any_saved(const struct replay *r)
{
	for (size_t i = 0; i < r->setup.n_jobs; i++)
		if (r->setup.jobs[i].saved)
			return true;
	return false;
}

static int replay_all(struct replay *r)
{
	int code = CLI_OK;

	if (r->options.json_file) {
		r->documents = open_memstream(&r->documents_text, &r->documents_size);
		if (!r->documents) {
			cli_error("out of memory");
			return CLI_USAGE;
		}
	}
	for (size_t i = 0; i < r->setup.n_jobs && !is_interrupted(r); i++)
		code = graver(code, replay_one(r, &r->setup.jobs[i]));
	if (r->documents) {
		fflush(r->documents);
		if (r->documents_size)
			code = graver(code, write_documents(r));
		fclose(r->documents);
		free(r->documents_text);
	}
	if (is_interrupted(r)) {
		cli_note("interrupted: %s",
			 any_saved(r) ? "what is shown and saved is partial" : "nothing was saved");
		return CLI_INTERRUPTED;
	}
	return code;
}

int main(int argc, char **argv)
{
	struct replay r = { 0 };
	int n_operands = 0;
	int code = replay_options_parse(&r.options, argc, argv, &n_operands);

	if (code < 0 && r.options.list) {
		replay_list_print(stdout);
		code = cli_flush_output() ? CLI_OK : CLI_USAGE;
	}
	if (code < 0)
		code = replay_setup_prepare(&r.setup, &r.options, argv, (size_t)n_operands);
	if (code < 0)
		code = replay_all(&r);
	replay_setup_fini(&r.setup);
	replay_options_fini(&r.options);
	return code;
}
