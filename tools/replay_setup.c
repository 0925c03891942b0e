/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_setup: see replay_setup.h.
 *
 * Shape       one function per thing that can be wrong; each returns -1 or an exit code.
 * Invariants  after a refusal the file system is as it was.
 * Cost        every allocator is created once per trace on a simulated device: microseconds
 * Threads     main thread only
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "replay/atomic_file.h"
#include "replay/profile.h"
#include "replay/report.h"
#include "replay_setup.h"

#define DEFAULT_FOLDER "gpupool-out"

static int out_of_memory(void)
{
	cli_error("out of memory");
	return CLI_USAGE;
}

/* ---- traces ---- */

static int load_traces(struct replay_setup *s, const struct replay_options *o, char **paths,
		       size_t n_paths)
{
	s->jobs = calloc(n_paths, sizeof(*s->jobs));
	if (!s->jobs)
		return out_of_memory();
	for (; s->n_jobs < n_paths; s->n_jobs++) {
		int r = read_options_load(&o->read, paths[s->n_jobs], &s->jobs[s->n_jobs].trace);

		if (r >= 0)
			return r;
	}
	return -1;
}

static bool has_times(const struct gp_trace *t)
{
	return t->n_events && t->events[t->n_events - 1].t_ns > 0;
}

/* A trace without times gives no pace, and does not say how long blocks were used. */
static int check_times(const struct replay_setup *s, const struct replay_options *o)
{
	bool recorded = o->work.kind == GP_WORK_RECORDED;

	for (size_t i = 0; i < s->n_jobs && (recorded || o->pace > 0); i++) {
		const struct gp_trace *t = s->jobs[i].trace;

		if (has_times(t))
			continue;
		cli_error("--%s: %s has no times, expected \"t\" in its events",
			  o->pace > 0 ? "pace" : "work=recorded", t->path);
		return CLI_USAGE;
	}
	return -1;
}

/* ---- device ---- */

static int open_sim(const struct gp_device_config *config, struct gp_device **dev)
{
	char why[256] = "";
	int r = gp_device_open_sim(config, dev, why, sizeof(why));

	if (r) {
		cli_error("%s", why[0] ? why : strerror(-r));
		return CLI_USAGE;
	}
	return -1;
}

/* Decides between the devices and opens the one to be used, to see what it is. */
static int open_device(struct replay_setup *s, const struct replay_options *o,
		       struct gp_device **dev)
{
	struct gp_device_config *config = &s->engine.device_config;
	char why[256] = "";
	int r;

	if (o->profile && gp_profile_load(o->profile, &s->profile, why, sizeof(why))) {
		cli_error("--profile: %s", why);
		return CLI_USAGE;
	}
	config->capacity = o->capacity;
	config->profile = s->profile;
	config->inject = o->inject;
	s->engine.device = "sim";
	/* A cost model was asked for: there is only one device that has one. */
	if (o->device == REPLAY_DEVICE_SIM || (o->profile && !o->mirror))
		return open_sim(config, dev);
	r = gp_device_open_cuda(config, dev, why, sizeof(why));
	if (!r) {
		s->engine.device = "cuda";
		return -1;
	}
	if (o->device == REPLAY_DEVICE_CUDA || o->mirror) {
		cli_error("%s: %s", o->mirror ? "--mirror needs a GPU" : "--device=cuda",
			  why[0] ? why : strerror(-r));
		return CLI_DEVICE;
	}
	r = open_sim(config, dev);
	if (r < 0)
		cli_note("no GPU to use (%s): on the %s instead", why, (*dev)->info.name);
	return r;
}

/* The simulated half of --mirror: a card with the memory that the real one has to give. */
static int set_up_mirror(struct replay_setup *s, struct gp_device *dev)
{
	uint64_t free_bytes, total;

	s->mirror = s->engine;
	s->mirror.device = "sim";
	if (s->mirror.device_config.capacity)
		return -1;
	if (gp_device_mem_info(dev, &free_bytes, &total)) {
		cli_error("--mirror: %s", gp_device_error(dev));
		return CLI_DEVICE;
	}
	s->mirror.device_config.capacity = free_bytes;
	return -1;
}

static int choose_device(struct replay_setup *s, const struct replay_options *o)
{
	struct gp_device *dev = NULL;
	char page[32];
	int r = open_device(s, o, &dev);

	if (r < 0 && o->capacity && o->capacity < dev->info.page_bytes) {
		cli_error("--capacity=%llu: expected at least a page of the device, %s",
			  (unsigned long long)o->capacity, cli_bytes(page, dev->info.page_bytes));
		r = CLI_USAGE;
	}
	if (r < 0)
		gp_environment_gather(&s->environment, &dev->info);
	if (r < 0 && o->mirror)
		r = set_up_mirror(s, dev);
	gp_device_close(dev);
	return r;
}

/* ---- allocators ---- */

/* Is the allocator that a spec names a decorator? Unknown ones are left to gp_allocator_create. */
static bool names_decorator(const char *spec, bool otherwise)
{
	const struct gp_allocator_ops *ops = gp_allocator_named_by(spec);

	return ops ? (ops->caps & GP_CAP_DECORATOR) != 0 : otherwise;
}

/* `why` begins with the allocator's name where it comes from there; the spec has said that. */
static int refuse_spec(const char *option, const char *spec, const char *why, int r)
{
	size_t n = strcspn(spec, ":");

	if (strncmp(why, spec, n) == 0 && strncmp(why + n, ": ", 2) == 0)
		why += n + 2;
	cli_error("--%s=%s: %s", option, spec, why[0] ? why : strerror(-r));
	return CLI_USAGE;
}

static int try_alloc(const char *spec, struct gp_device *dev, const struct gp_env *env)
{
	struct gp_allocator *a = NULL;
	char why[256] = "";
	int r;

	if (names_decorator(spec, false)) {
		cli_error("--alloc=%s: a decorator, which goes around an allocator: --wrap=%s",
			  spec, spec);
		return CLI_USAGE;
	}
	r = gp_allocator_create(spec, dev, env, &a, why, sizeof(why));
	gp_allocator_destroy(a);
	/* A preallocation that does not fit the device is a result. */
	if (r >= 0)
		return -1;
	return refuse_spec("alloc", spec, why, r);
}

static int try_wrap(const char *spec, struct gp_device *dev, const struct gp_env *env)
{
	struct gp_allocator *inner = NULL, *a = NULL;
	char why[256] = "";
	int r;

	if (!names_decorator(spec, true)) {
		cli_error("--wrap=%s: not a decorator; an allocator goes to --alloc=%s", spec,
			  spec);
		return CLI_USAGE;
	}
	r = gp_allocator_create("raw", dev, env, &inner, why, sizeof(why));
	if (!r)
		r = gp_allocator_wrap(spec, inner, &a, why, sizeof(why));
	gp_allocator_destroy(a);
	if (r >= 0)
		return -1;
	return refuse_spec("wrap", spec, why, r);
}

/* Options may take their defaults from the trace, so each trace is tried. */
static int try_specs(struct replay_setup *s, const struct replay_options *o)
{
	static const struct gp_placement no_placement;
	struct gp_device_config config = s->engine.device_config;
	struct gp_device *dev = NULL;
	int r;

	/* The same memory as the real device has, so that sizes are judged alike. */
	config.capacity = s->environment.device.total_bytes;
	config.inject = (struct gp_injection){ 0 };
	r = open_sim(&config, &dev);
	for (size_t i = 0; i < o->n_specs && r < 0; i++)
		if (replay_options_pass_over(o->specs[i], &s->environment.device))
			cli_note("%s: left out: %s maps no memory", o->specs[i],
				 s->environment.device.name);
	for (size_t j = 0; j < s->n_jobs && r < 0; j++) {
		struct gp_env env;

		gp_engine_env_threads(s->jobs[j].trace, replay_most_threads(o),
				      (enum gp_threads_mode)o->threads_mode, &env);
		env.placement = &no_placement;
		for (size_t i = 0; i < o->n_specs && r < 0; i++)
			if (!replay_options_pass_over(o->specs[i], &s->environment.device))
				r = try_alloc(o->specs[i], dev, &env);
		for (size_t i = 0; i < o->n_wraps && r < 0; i++)
			r = try_wrap(o->wraps[i], dev, &env);
	}
	gp_device_close(dev);
	return r;
}

/* ---- output ---- */

static bool folder_taken(const struct replay_setup *s, size_t n_jobs, const char *dir)
{
	for (size_t i = 0; i < n_jobs; i++)
		if (strcmp(s->jobs[i].dir, dir) == 0)
			return true;
	return false;
}

/* The folder of a job: DIR for one trace that says where; else one for each trace below it. */
static char *folder_name(const struct replay_setup *s, const struct replay_options *o, size_t job)
{
	const char *parent = o->out ? o->out : DEFAULT_FOLDER;
	size_t size = strlen(parent) + 160;
	char stem[128];
	const char *name = gp_report_trace_stem(s->jobs[job].trace, stem, sizeof(stem));
	char *dir = malloc(size);

	if (!dir)
		return NULL;
	if (o->out && s->n_jobs == 1)
		snprintf(dir, size, "%s", parent);
	else
		snprintf(dir, size, "%s/%s", parent, name);
	for (unsigned n = 2; folder_taken(s, job, dir); n++)
		snprintf(dir, size, "%s/%s-%u", parent, name, n);
	return dir;
}

static int make_folders(struct replay_setup *s, const struct replay_options *o)
{
	for (size_t i = 0; i < s->n_jobs; i++) {
		struct replay_job *job = &s->jobs[i];
		int r;

		job->dir = folder_name(s, o, i);
		if (!job->dir)
			return out_of_memory();
		r = gp_folder_create(job->dir, &job->n_made);
		if (r) {
			cli_error("--out: %s: cannot write here: %s", job->dir, strerror(-r));
			return CLI_USAGE;
		}
	}
	return -1;
}

static int try_json_file(const char *path)
{
	struct gp_atomic_file f;
	int r = gp_atomic_open(&f, path);

	if (r) {
		cli_error("--json=%s: cannot write here: %s", path, strerror(-r));
		return CLI_USAGE;
	}
	gp_atomic_discard(&f);
	return -1;
}

/* ---- the whole ---- */

static void on_replay(void *arg, const char *phase, uint64_t done, uint64_t total)
{
	const struct replay_setup *s = arg;
	char text[64];

	snprintf(text, sizeof(text), "%.40s: %s", s->running, phase);
	cli_progress(text, done, total);
}

int replay_setup_prepare(struct replay_setup *s, struct replay_options *o, char **paths,
			 size_t n_paths)
{
	int r;

	*s = (struct replay_setup){
		.engine = {
			.passes = GP_PASS_ALL,
			.repeat = (unsigned)o->repeat,
			.n_windows = (unsigned)o->windows,
			.stop_on_oom = o->stop_on_oom,
			.explain = o->explain,
			.wraps = o->wraps,
			.n_wraps = o->n_wraps,
			.threads_mode = (enum gp_threads_mode)o->threads_mode,
			.pace = o->pace,
			.work = o->work,
			.progress = on_replay,
			.progress_arg = s,
		},
	};
	r = load_traces(s, o, paths, n_paths);
	/* Only now: until here there is nothing to save, and a SIGINT just ends the program, even
	 * while it waits for standard input. */
	s->engine.interrupted = cli_interrupted();
	if (r < 0)
		r = check_times(s, o);
	if (r < 0)
		r = choose_device(s, o);
	if (r < 0) {
		replay_options_fit(o, &s->environment.device);
		r = try_specs(s, o);
	}
	if (r < 0)
		r = make_folders(s, o);
	if (r < 0 && o->json_file)
		r = try_json_file(o->json_file);
	return r;
}

void replay_setup_fini(struct replay_setup *s)
{
	/* Backwards: a later folder may be inside what an earlier one made. */
	while (s->n_jobs) {
		struct replay_job *job = &s->jobs[--s->n_jobs];

		if (job->dir && !job->saved)
			gp_folder_remove(job->dir, job->n_made);
		free(job->dir);
		gp_plan_destroy(job->plan);
		gp_trace_destroy(job->trace);
	}
	free(s->jobs);
	s->jobs = NULL;
	s->profile = gp_profile_free(s->profile);
}
