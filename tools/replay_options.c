/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_options: the table of options, one parser each, and what they may not be together.
 *
 * Shape     a parser checks the form of one value. Whether an allocator exists and takes its
 *           options is found by creating it (replay_setup.c): no second list of names to keep.
 * Threads   main thread only
 */
#include <stdlib.h>
#include <string.h>

#include "allocators/allocator.h"
#include "allocators/torch/torch_conf.h"
#include "replay/engine.h"
#include "replay_options.h"

#define REPEAT_MAX  10000u
#define WINDOWS_MAX 10000000u /* 270 bytes each in memory, as much again in the file */
#define THREADS_MAX 1024u
#define WORK_MIN_US 0.1
#define WORK_MAX_US 1e6
#define PACE_MIN    1e-3
#define PLAN_MIN    1e-3 /* seconds */
#define PLAN_MAX    86400.0
#define PLAN_TIME   "10"
#define PACE_MAX    1e6
#define SLOW_MAX_NS UINT64_C(60000000000) /* a minute: on a GPU it is waited for */

static bool append(const char ***list, size_t *n, const char *item)
{
	const char **grown = realloc(*list, (*n + 1) * sizeof(*grown));

	if (!grown) {
		cli_error("out of memory");
		return false;
	}
	*list = grown;
	grown[(*n)++] = item;
	return true;
}

static bool append_all(struct replay_options *o)
{
	bool ok = true;

	o->all = true;
	for (size_t i = 0; i < gp_allocator_count() && ok; i++) {
		const struct gp_allocator_ops *ops = gp_allocator_at(i);

		if (!(ops->caps & (GP_CAP_DECORATOR | GP_CAP_OFFLINE)))
			ok = append(&o->specs, &o->n_specs, ops->name);
	}
	return ok;
}

/* What append_all adds is the name in the registry itself, and no word of the command line. */
bool replay_options_pass_over(const char *spec, const struct gp_device_info *info)
{
	const struct gp_allocator_ops *ops = gp_allocator_find(spec);

	return ops && ops->name == spec && ops->caps & GP_CAP_STITCHES && !info->vmm;
}

static bool parse_alloc(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	(void)name;
	return strcmp(value, "all") == 0 ? append_all(o) : append(&o->specs, &o->n_specs, value);
}

static bool parse_conf(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	if (o->conf) {
		cli_error("--%s: expected once; to compare settings, give --alloc=torch:key=value "
			  "several times",
			  name);
		return false;
	}
	o->conf = value;
	return true;
}

static bool parse_wrap(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	/* --check takes no value: it is --wrap=check. */
	return append(&o->wraps, &o->n_wraps, value ? value : name);
}

static bool parse_device(void *ctx, const char *name, const char *value)
{
	static const char *const devices[] = {
		[REPLAY_DEVICE_AUTO] = "auto",
		[REPLAY_DEVICE_SIM] = "sim",
		[REPLAY_DEVICE_CUDA] = "cuda",
		NULL,
	};
	struct replay_options *o = ctx;

	return cli_choice(name, value, devices, &o->device);
}

static bool parse_capacity(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	return cli_size(name, value, 1, GP_SIZE_MAX, &o->capacity);
}

static bool set_text(const char *name, const char *value, const char **out)
{
	if (!value[0]) {
		cli_error("--%s=: expected a value", name);
		return false;
	}
	*out = value;
	return true;
}

static bool parse_torch_version(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	return set_text(name, value, &o->torch_version);
}

static bool parse_profile(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	return set_text(name, value, &o->profile);
}

static bool refuse_inject(const char *name, const char *value)
{
	cli_error("--%s=%s: expected lost:N, sticky:N, fail:N, slow:N:NS or leak:SIZE", name,
		  value);
	return false;
}

/* "N:NS" */
static bool parse_slow(const char *value, struct gp_injection *inject)
{
	char call[32], before[48];
	size_t n = strcspn(value, ":");

	snprintf(call, sizeof(call), "%.*s", (int)n, value);
	snprintf(before, sizeof(before), "inject=slow:%s:", call);
	return value[n] && cli_count("inject=slow:", call, 1, UINT64_MAX, &inject->slow_call) &&
	       cli_count(before, value + n + 1, 1, SLOW_MAX_NS, &inject->slow_ns);
}

static bool parse_inject(void *ctx, const char *name, const char *value)
{
	struct gp_injection *inject = &((struct replay_options *)ctx)->inject;
	const char *rest = strchr(value, ':');
	size_t n = rest ? (size_t)(rest++ - value) : 0;

	if (n == 4 && strncmp(value, "lost", n) == 0)
		return cli_count("inject=lost:", rest, 1, UINT64_MAX, &inject->lost_call);
	if (n == 6 && strncmp(value, "sticky", n) == 0)
		return cli_count("inject=sticky:", rest, 1, UINT64_MAX, &inject->sticky_call);
	if (n == 4 && strncmp(value, "fail", n) == 0)
		return cli_count("inject=fail:", rest, 1, UINT64_MAX, &inject->fail_call);
	if (n == 4 && strncmp(value, "leak", n) == 0)
		return cli_size("inject=leak:", rest, 1, GP_SIZE_MAX, &inject->lose_bytes);
	if (n == 4 && strncmp(value, "slow", n) == 0 && strchr(rest, ':'))
		return parse_slow(rest, inject);
	return refuse_inject(name, value);
}

static bool parse_out(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	return set_text(name, value, &o->out);
}

static bool parse_json(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	if (value && strcmp(value, "-") != 0)
		return set_text(name, value, &o->json_file);
	o->json = true;
	return true;
}

static bool parse_repeat(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	return cli_count(name, value, 1, REPEAT_MAX, &o->repeat);
}

static bool parse_windows(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	return cli_count(name, value, 1, WINDOWS_MAX, &o->windows);
}

static bool parse_threads(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;
	const char *p = value;

	o->n_threads = 0;
	do {
		size_t n = strcspn(p, ",");
		char count[16];
		uint64_t threads;

		/* What is too long for a number is refused as it stands. */
		snprintf(count, sizeof(count), "%.*s", (int)n, p);
		if (!cli_count(name, n < sizeof(count) ? count : p, 1, THREADS_MAX, &threads))
			return false;
		if (o->n_threads == THREAD_COUNTS_MAX) {
			cli_error("--%s: expected at most %d counts", name, THREAD_COUNTS_MAX);
			return false;
		}
		o->threads[o->n_threads++] = (unsigned)threads;
		p += n;
	} while (*p++ == ',');
	return true;
}

static bool parse_threads_mode(void *ctx, const char *name, const char *value)
{
	static const char *const modes[] = {
		[GP_THREADS_SHARE] = "share",
		[GP_THREADS_EACH] = "each",
		[GP_THREADS_CHAIN] = "chain",
		NULL,
	};
	struct replay_options *o = ctx;

	return cli_choice(name, value, modes, &o->threads_mode);
}

static bool parse_pace(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	return cli_real(name, value ? value : "1", PACE_MIN, PACE_MAX, &o->pace);
}

static bool parse_work(void *ctx, const char *name, const char *value)
{
	static const char *const kinds[] = {
		[GP_WORK_NONE] = "none",
		[GP_WORK_MEMSET] = "memset",
		[GP_WORK_BUSY] = "busy:US",
		[GP_WORK_RECORDED] = "recorded",
		NULL,
	};
	struct replay_options *o = ctx;
	unsigned kind;
	double us;

	if (strncmp(value, "busy:", 5) == 0) {
		if (!cli_real("work=busy:", value + 5, WORK_MIN_US, WORK_MAX_US, &us))
			return false;
		o->work = (struct gp_work){ GP_WORK_BUSY, (uint64_t)(us * 1e3 + 0.5) };
		return true;
	}
	if (!cli_choice(name, value, kinds, &kind))
		return false;
	o->work = (struct gp_work){ .kind = kind };
	return true;
}

static bool parse_plan(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	return cli_real(name, value ? value : PLAN_TIME, PLAN_MIN, PLAN_MAX, &o->plan);
}

static bool parse_on_oom(void *ctx, const char *name, const char *value)
{
	static const char *const choices[] = { "skip", "stop", NULL };
	struct replay_options *o = ctx;
	unsigned choice;

	if (!cli_choice(name, value, choices, &choice))
		return false;
	o->stop_on_oom = choice == 1;
	return true;
}

static bool parse_flag(void *ctx, const char *name, const char *value)
{
	struct replay_options *o = ctx;

	(void)value;
	if (strcmp(name, "fail-on-oom") == 0)
		o->fail_on_oom = true;
	else if (strcmp(name, "explain") == 0)
		o->explain = true;
	else if (strcmp(name, "list") == 0)
		o->list = true;
	else if (strcmp(name, "mirror") == 0)
		o->mirror = true;
	else if (strcmp(name, "verify-recording") == 0)
		o->verify = true;
	else
		cli_set_quiet(true);
	return true;
}

static const struct cli_option options[] = {
	{ "alloc", "NAME[:key=value,...]", "on this allocator (repeatable; all: the default)",
	  parse_alloc },
	{ "conf", "KEY:VALUE,...", "PYTORCH_CUDA_ALLOC_CONF, for each --alloc=torch", parse_conf },
	{ "torch-version", "X.Y", "the PyTorch release that torch behaves as",
	  parse_torch_version },
	{ "verify-recording", NULL, "hold torch against the recorded addresses", parse_flag },
	{ "wrap", "NAME[:key=value,...]", "put a decorator around each (repeatable)", parse_wrap },
	{ "check", NULL, "as --wrap=check: find overlaps and leaks", parse_wrap },
	{ "device", "auto|sim|cuda", "auto: the GPU if there is one, else simulated",
	  parse_device },
	{ "mirror", NULL, "on the GPU and simulated: where do they differ?", parse_flag },
	{ "capacity", "SIZE", "memory of the device (all of it)", parse_capacity },
	{ "profile", "FILE", "cost model of the simulated device (an H200)", parse_profile },
	{ "inject", "FAULT:N", "the device fails at call N: lost, sticky, fail, slow, leak",
	  parse_inject },
	{ "on-oom", "skip|stop", "a request fails: skip it and go on, or end there", parse_on_oom },
	{ "fail-on-oom", NULL, "exit with 1 when a request failed", parse_flag },
	{ "explain", NULL, "why the first request fails, and what helps", parse_flag },
	{ "threads", "N[,N...]", "replay on N threads (recorded order on one)", parse_threads },
	{ "threads-mode", "share|each|chain", "a thread's part of the trace, or all of it",
	  parse_threads_mode },
	{ "pace", "[SPEED]", "keep to recorded time, SPEED times as fast (1)", parse_pace },
	{ "work", "none|memset|busy:US|recorded", "GPU work behind each allocation", parse_work },
	{ "plan", "[SECONDS]", "find the best placement, as a measure (in 10 s)", parse_plan },
	{ "repeat", "N", "repetitions of the throughput pass (5)", parse_repeat },
	{ "windows", "N", "lines in the curve, at most (2000)", parse_windows },
	READ_OPTIONS,
	{ "out", "DIR", "folder for results (gpupool-out/TRACE)", parse_out },
	{ "json", "[FILE]", "print the result as JSON, or write it to FILE", parse_json },
	{ "list", NULL, "list allocators, decorators and their options", parse_flag },
	{ "quiet", NULL, "no progress bar and no notes", parse_flag },
	{ NULL, NULL, NULL, NULL },
};

static const struct cli_program program = {
	.name = "gpupool-replay",
	.synopsis = "[OPTION]... TRACE...",
	.about =
		"Replays recorded GPU allocations on each allocator: time, memory, fragmentation,\n"
		"failures. Sizes: 512, 64K, 2MiB, 1.5GiB. TRACE may be - (standard input).",
	.options = options,
	.examples =
		"  gpupool-replay trace.json.gz                     every allocator\n"
		"  gpupool-replay --alloc=buddy:min_block=512 --check --capacity=8GiB trace.json\n"
		"  gpupool-replay --device=sim --json trace.json | jq '.runs[].memory'\n"
		"Exit: 0 done, 1 a check failed, 2 usage or input, 3 device, 130 interrupted.\n",
};

unsigned replay_most_threads(const struct replay_options *o)
{
	unsigned most = 0;

	for (size_t i = 0; i < o->n_threads; i++)
		most = o->threads[i] > most ? o->threads[i] : most;
	return most;
}

bool replay_is_torch(const char *spec)
{
	const struct gp_allocator_ops *ops = gp_allocator_named_by(spec);

	return ops && strcmp(ops->name, "torch") == 0;
}

static bool any_torch(const struct replay_options *o)
{
	for (size_t i = 0; i < o->n_specs; i++)
		if (replay_is_torch(o->specs[i]))
			return true;
	return false;
}

/* Puts --torch-version in front of the spec's own options. */
static char *with_version(const char *spec, const char *version)
{
	size_t size =
		strlen(spec) + (version ? strlen(version) : 0) + sizeof("torch:torch_version=,");
	char *made = malloc(size);

	if (made && version)
		snprintf(made, size, "torch:torch_version=%s%s%s", version, spec[5] ? "," : "",
			 spec[5] ? spec + 6 : "");
	else if (made)
		memcpy(made, spec, strlen(spec) + 1);
	return made;
}

static bool apply_settings_to(struct replay_options *o, size_t i)
{
	char *spec = with_version(o->specs[i], o->torch_version);
	struct gp_torch_conf conf;

	if (spec && o->conf) {
		if (gp_torch_conf_parse(spec, o->conf, &conf)) {
			cli_error("--conf=%s: %s", o->conf, conf.why);
			free(spec);
			return false;
		}
		if (conf.notes[0])
			cli_note("--conf: %s", conf.notes);
		free(spec);
		spec = strdup(conf.spec);
	}
	if (!spec) {
		cli_error("out of memory");
		return false;
	}
	o->specs[i] = o->made[i] = spec;
	return true;
}

/* --conf and --torch-version */
static bool apply_settings(struct replay_options *o)
{
	if (!any_torch(o)) {
		cli_error("--%s: expected --alloc=torch with it",
			  o->conf ? "conf" : "torch-version");
		return false;
	}
	o->made = calloc(o->n_specs, sizeof(*o->made));
	if (!o->made) {
		cli_error("out of memory");
		return false;
	}
	for (size_t i = 0; i < o->n_specs; i++)
		if (replay_is_torch(o->specs[i]) && !apply_settings_to(o, i))
			return false;
	return true;
}

int replay_options_parse(struct replay_options *o, int argc, char **argv, int *n_operands)
{
	int r;

	*o = (struct replay_options){ .repeat = 5, .windows = 2000 };
	r = cli_parse(&program, o, argc, argv, n_operands);
	if (r >= 0 || o->list)
		return r;
	if (*n_operands == 0) {
		cli_error("expected a trace to replay; --help shows examples");
		return CLI_USAGE;
	}
	if (o->mirror && o->device == REPLAY_DEVICE_SIM) {
		cli_error("--mirror: expected without --device=sim: it needs the GPU as well");
		return CLI_USAGE;
	}
	if (o->profile && o->device == REPLAY_DEVICE_CUDA && !o->mirror) {
		cli_error("--profile=%s: a cost model is for --device=sim", o->profile);
		return CLI_USAGE;
	}
	if (o->threads_mode != GP_THREADS_SHARE && !o->n_threads) {
		cli_error("--threads-mode: expected --threads=N with it");
		return CLI_USAGE;
	}
	if (o->threads_mode != GP_THREADS_SHARE && o->explain) {
		cli_error(
			"--explain: expected without --threads-mode=each and chain: what failed is"
			" explained where one trace is followed");
		return CLI_USAGE;
	}
	if (o->mirror && o->n_threads) {
		cli_error("--mirror: expected without --threads: threads come in no order that two"
			  " devices could be compared in");
		return CLI_USAGE;
	}
	if (o->verify && (o->read.sizes.times || o->read.sizes.cap)) {
		cli_error("--verify-recording: expected without --scale-sizes and --cap-sizes: the"
			  " recorded sizes are what is verified");
		return CLI_USAGE;
	}
	if (o->n_threads && o->pace > 0) {
		cli_error("--pace: expected without --threads: pace is kept on one thread");
		return CLI_USAGE;
	}
	if (o->work.kind && o->n_threads) {
		cli_error("--work: expected without --threads: work is queued by one thread");
		return CLI_USAGE;
	}
	if (o->n_specs == 0 &&
	    !(o->verify ? append(&o->specs, &o->n_specs, "torch") : append_all(o)))
		return CLI_USAGE;
	if (o->verify && !any_torch(o)) {
		cli_error("--verify-recording: expected --alloc=torch with it");
		return CLI_USAGE;
	}
	if ((o->conf || o->torch_version) && !apply_settings(o))
		return CLI_USAGE;
	return -1;
}

void replay_options_fit(struct replay_options *o, const struct gp_device_info *info)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_specs; i++) {
		const struct gp_allocator_ops *ops = gp_allocator_find(o->specs[i]);

		if (o->all && !info->async && ops && ops->caps & GP_CAP_DRIVER_POOL) {
			cli_note("%s: left out, %s has no stream-ordered allocations", ops->name,
				 info->name);
			continue;
		}
		if (o->made)
			o->made[n] = o->made[i];
		o->specs[n++] = o->specs[i];
	}
	o->n_specs = n;
}

void replay_options_fini(struct replay_options *o)
{
	for (size_t i = 0; o->made && i < o->n_specs; i++)
		free(o->made[i]);
	free(o->made);
	free(o->specs);
	free(o->wraps);
	*o = (struct replay_options){ 0 };
}
