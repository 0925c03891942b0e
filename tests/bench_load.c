/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_load [TRACE...]: what stands between a file and the first figure of a replay, on the
 * simulated device.
 *
 *   load    reading and checking; the memory is the most that the process grew by, per event
 *   curve   following memory through every event, per allocator: the loop by itself, and the whole
 *           pass with what is computed before it and the audits after it, which a short trace feels
 *
 * The first trace is made here: a million events as JSON Lines, random sizes and lifetimes. Fastest
 * of the repetitions: what disturbs them only ever adds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "replay/clock.h"
#include "replay/engine.h"
#include "tools/gen/rng.h"

#define LOADS        5
#define CURVES       5
#define MADE_ALLOCS  500000
#define MADE_LIVE    8192 /* blocks at once, at most */
#define MADE_MOST    (4 * GP_MIB)
#define MADE_SPACING 1000 /* ns between events */

static const struct gp_clock *ticking;

static double seconds_since(uint64_t start)
{
	return (double)gp_clock_ns(ticking, gp_clock_between(start, gp_ticks())) / 1e9;
}

static int fail(const char *path, const char *why)
{
	fprintf(stderr, "bench_load: %s: %s\n", path, why);
	return 1;
}

/* ---- the trace made here ---- */

/* Allocates more often than it frees until all allocations are made, then frees what is live. */
static void write_events(FILE *f, uint64_t *live)
{
	uint64_t made = 0, n = 0, t = 0;
	struct gen_rng rng;

	gen_rng_seed(&rng, 1);
	while (made < MADE_ALLOCS || n) {
		bool allocates = made < MADE_ALLOCS &&
				 (!n || (n < MADE_LIVE && gen_rng_below(&rng, 100) < 73));

		if (allocates) {
			live[n++] = ++made;
			fprintf(f, "{\"op\":\"alloc\",\"id\":%llu,\"size\":%llu,\"t\":%llu}\n",
				(unsigned long long)made,
				(unsigned long long)(1 + gen_rng_below(&rng, MADE_MOST)),
				(unsigned long long)t);
		} else {
			uint64_t i = gen_rng_below(&rng, n);

			fprintf(f, "{\"op\":\"free\",\"id\":%llu,\"t\":%llu}\n",
				(unsigned long long)live[i], (unsigned long long)t);
			live[i] = live[--n];
		}
		t += MADE_SPACING;
	}
}

static int make_trace(FILE *f, const char *path)
{
	uint64_t *live = calloc(MADE_LIVE, sizeof(*live));
	bool ok = f && live;

	if (ok) {
		fputs("{\"format\":\"gpupool-trace\",\"version\":1}\n", f);
		write_events(f, live);
		ok = !ferror(f);
	}
	free(live);
	if (f && fclose(f))
		ok = false;
	return ok ? 0 : fail(path, "cannot be written");
}

/* ---- measuring ---- */

static uint64_t most_memory(void)
{
	struct rusage u;

	return getrusage(RUSAGE_SELF, &u) ? 0 : (uint64_t)u.ru_maxrss * GP_KIB;
}

/* The trace of the last of several loads; NULL after saying why. */
static struct gp_trace *bench_load(const char *name, const char *path)
{
	uint64_t before = most_memory(), grown = 0;
	struct gp_trace *trace = NULL;
	double best = 0;
	char why[512];

	for (int i = 0; i < LOADS; i++) {
		uint64_t start = gp_ticks();
		double s;

		gp_trace_destroy(trace);
		if (gp_trace_load(path, NULL, &trace, why, sizeof(why))) {
			fail(path, why);
			return NULL;
		}
		s = seconds_since(start);
		best = i && best < s ? best : s;
		if (!i)
			grown = most_memory() - before;
	}
	printf("%s: %zu events, loaded in %.4f s, %.2f M events/s", name, trace->n_events, best,
	       (double)trace->n_events / best / 1e6);
	/* Below what the process had before, there is nothing to see. */
	if (grown && trace->n_events)
		printf(", %.0f bytes an event", (double)grown / (double)trace->n_events);
	putchar('\n');
	return trace;
}

static int bench_curve(const struct gp_trace *trace, const char *spec)
{
	const struct gp_engine_config config = { .device = "sim", .passes = GP_PASS_CURVE };
	double loop = 0, whole = 0, n = (double)trace->n_events;

	for (int i = 0; i < CURVES; i++) {
		uint64_t start = gp_ticks();
		struct gp_run *run;
		char why[256];
		double l, w;

		if (gp_engine_run(trace, spec, &config, &run, why, sizeof(why)))
			return fail(spec, why);
		w = seconds_since(start);
		l = (double)run->curve_ns / 1e9;
		whole = i && whole < w ? whole : w;
		loop = i && loop < l ? loop : l;
		gp_run_destroy(run);
	}
	printf("  %-12s curve %8.2f ms, %6.2f M events/s; whole pass %8.2f ms\n", spec, loop * 1e3,
	       loop > 0 ? n / loop / 1e6 : 0, whole * 1e3);
	return 0;
}

static int bench(const char *name, const char *path)
{
	struct gp_trace *trace = bench_load(name, path);
	int r = !trace;

	for (size_t i = 0; i < gp_allocator_count() && !r; i++) {
		const struct gp_allocator_ops *ops = gp_allocator_at(i);

		if (!(ops->caps & GP_CAP_DECORATOR))
			r = bench_curve(trace, ops->name);
		fflush(stdout);
	}
	gp_trace_destroy(trace);
	return r;
}

int main(int argc, char **argv)
{
	char path[] = "bench_load.XXXXXX";
	int fd = mkstemp(path), r;

	ticking = gp_clock_get();
	if (fd < 0 || !ticking)
		return fail(path, fd < 0 ? "cannot be written" : "no steady clock");
	r = make_trace(fdopen(fd, "w"), path);
	if (!r)
		r = bench("made here", path);
	unlink(path);
	for (int i = 1; i < argc && !r; i++) {
		const char *slash = strrchr(argv[i], '/');

		r = bench(slash ? slash + 1 : argv[i], argv[i]);
	}
	return r;
}
