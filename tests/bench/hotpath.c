/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_hotpath: what a call costs in each allocator's own code, on the simulated device, whose
 * time is left out; what memory it takes; and how both grow. --help says how to call it.
 *
 * The loop holds the call and the array access. Beside the allocators of the project stand those of
 * this folder, behind the same interface: `lists`, the floor, which never cuts, joins or
 * looks anything up; the C library's malloc; mimalloc and jemalloc where they are installed, all
 * three with sizes / 1024, as they hand out memory of the host.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "replay/clock.h"
#include "tools/cli.h"

#define RUNS     3
#define RUNS_MAX 32

static const char *const recordings[] = { "llm_train", "llm_serve", "vision_train", "diffusion",
					  "multi_stream" };
static const char *const defaults[] = { "lists", "fixed",    "slab",    "segregated",
					"buddy", "hybrid",   "stitch",  "torch",
					"libc",  "mimalloc", "jemalloc" };
static const char *const table_names[] = { "recordings", "live", "age", "threads", "rules", NULL };
static void (*const table_makers[])(const struct bench_plan *plan) = { bench_recordings, bench_live,
								       bench_age, bench_threads,
								       bench_rules };

enum { TABLE_LIVE = 1 };

struct settings {
	struct bench_plan plan;
	uint64_t runs;
	unsigned tables; /* bit: index in table_names; 0: all */
	bool count;
	const char *json;
};

static bool parse_alloc(void *ctx, const char *name, const char *value)
{
	struct settings *s = ctx;

	if (s->plan.n_specs == BENCH_SPECS_MAX) {
		cli_error("--%s: expected %d at most", name, BENCH_SPECS_MAX);
		return false;
	}
	s->plan.specs[s->plan.n_specs++] = value;
	return true;
}

static bool parse_table(void *ctx, const char *name, const char *value)
{
	struct settings *s = ctx;
	unsigned i;

	if (!cli_choice(name, value, table_names, &i))
		return false;
	s->tables |= 1u << i;
	return true;
}

static bool parse_runs(void *ctx, const char *name, const char *value)
{
	return cli_count(name, value, 1, RUNS_MAX, &((struct settings *)ctx)->runs);
}

static bool parse_count(void *ctx, const char *name, const char *value)
{
	(void)name;
	(void)value;
	((struct settings *)ctx)->count = true;
	return true;
}

static bool parse_json(void *ctx, const char *name, const char *value)
{
	(void)name;
	((struct settings *)ctx)->json = value;
	return true;
}

static const struct cli_option options[] = {
	{ "alloc", "SPEC", "an allocator and its settings (repeatable; default: eleven of them)",
	  parse_alloc },
	{ "table", "NAME", "recordings, live, age, threads or rules (repeatable; all)",
	  parse_table },
	{ "runs", "N", "whole runs, of which figures are the median (3)", parse_runs },
	{ "json", "FILE", "write every figure there as well", parse_json },
	{ "count", NULL, "one replay each in bench_counted(), for callgrind; no figures",
	  parse_count },
	{ 0 },
};

static const struct cli_program program = {
	.name = "bench_hotpath",
	.synopsis = "[OPTION]... [TRACE]...",
	.about =
		"What a call costs in each allocator's own code, what memory it takes, and how both "
		"grow.\nTRACE: instead of the five recordings.",
	.options = options,
	.examples = "  bench_hotpath --table=recordings --alloc=hybrid --alloc=lists\n",
};

static void load_jobs(struct settings *s, char **paths, int n)
{
	const char *dir = getenv("GPUPOOL_TRACE_DIR");
	char path[1024];

	s->plan.n_jobs = n ? (size_t)n : GP_ARRAY_LEN(recordings);
	s->plan.jobs = bench_memory(calloc(s->plan.n_jobs, sizeof(*s->plan.jobs)));
	for (size_t i = 0; i < s->plan.n_jobs; i++) {
		if (!n)
			snprintf(path, sizeof(path), "%s/%s.jsonl.gz", dir ? dir : "traces",
				 recordings[i]);
		bench_job_load(&s->plan.jobs[i], n ? paths[i] : path);
	}
}

/* Those that can be measured here. */
static void settle_specs(struct settings *s)
{
	size_t n = s->plan.n_specs;

	if (!n) {
		n = GP_ARRAY_LEN(defaults);
		memcpy(s->plan.specs, defaults, sizeof(defaults));
	}
	s->plan.n_specs = 0;
	for (size_t i = 0; i < n; i++)
		if (bench_available("Recordings", s->plan.specs[i]))
			s->plan.specs[s->plan.n_specs++] = s->plan.specs[i];
}

static void count(const struct settings *s)
{
	const struct bench_plan *plan = &s->plan;

	for (size_t j = 0; j < plan->n_jobs; j++)
		bench_count(plan, "Recordings", plan->jobs[j].name, &plan->jobs[j]);
	if (s->tables & 1u << TABLE_LIVE)
		bench_count_live(plan);
}

static void measure(struct settings *s)
{
	const struct gp_clock *clock = gp_clock_get();
	uint64_t start = gp_ticks();
	double seconds;
	int r = 0;

	if (!clock)
		bench_die("clock", "the counter of this machine does not run steadily");
	for (s->plan.run = 0; s->plan.run < s->runs; s->plan.run++)
		for (size_t t = 0; table_names[t]; t++)
			if (!s->tables || s->tables & 1u << t)
				table_makers[t](&s->plan);
	seconds = (double)gp_clock_ns(clock, gp_clock_between(start, gp_ticks())) / 1e9;
	bench_print(stdout);
	printf("%u whole runs in %.0f s\n", (unsigned)s->runs, seconds);
	if (s->json)
		r = bench_write_json(s->json, (unsigned)s->runs, seconds);
	if (r)
		bench_die(s->json, gp_result_text(r));
}

int main(int argc, char **argv)
{
	static struct settings s = { .runs = RUNS };
	int n, r = cli_parse(&program, &s, argc, argv, &n);

	if (r >= 0)
		return r;
	load_jobs(&s, argv, n);
	settle_specs(&s);
	if (s.count)
		count(&s);
	else
		measure(&s);
	for (size_t i = 0; i < s.plan.n_jobs; i++)
		bench_job_close(&s.plan.jobs[i]);
	free(s.plan.jobs);
	bench_figures_free();
	return CLI_OK;
}
