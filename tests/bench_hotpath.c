/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_hotpath [-a SPEC] [-r RUNS] [TRACE...]: what a call costs in each allocator's own code, on
 * the simulated device, whose time is left out. Without traces: the recordings of the project.
 *
 *   cold   the first replay in a fresh allocator: growth, first touch of the tables
 *   warm   later replays in the same allocator, whose memory is all there by then
 *   peak   most bytes reserved over most bytes requested, in an untimed replay: what speed may not
 *          be paid with
 *
 * Median (least .. most) of RUNS replays, in nanoseconds for an allocation or a free. The loop
 * holds the call and the array access. `stack` is the floor: one stack of addresses for each power of two
 * and stream, told the size at each free, that never splits, joins or looks anything up.
 *
 * For instruction counts: valgrind --tool=callgrind --toggle-collect='replay_program*' with -a.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocators/allocator.h"
#include "replay/clock.h"
#include "replay/program.h"
#include "replay/trace.h"

#define RUNS          11
#define RUNS_MAX      1000
#define CAPACITY      (4096 * GP_GIB) /* of the device: `fixed` sets all blocks aside as the largest */
#define FIXED_SLAB    (1024 * GP_GIB) /* and no slab of it is larger */
#define FLOOR_STREAMS 64
#define FLOOR_ORDERS  64

static const char *const recordings[] = { "llm_train", "llm_serve", "vision_train", "diffusion",
					  "multi_stream" };
static const char *const allocators[] = {
	"fixed", "slab", "segregated", "buddy", "hybrid", "stitch", "torch"
};

/* A trace made ready. */
struct job {
	struct gp_trace *trace;
	struct gp_program program; /* ALLOC and FREE only; req.size and .stream of a FREE are set */
	uint64_t *addrs;           /* [id] */
	uint32_t *kept;            /* ids that the trace never frees */
	size_t n_kept;
	uint64_t largest, most_live; /* request; blocks at once */
};

/* An allocator on a device of its own. */
struct subject {
	struct gp_device *dev;
	struct gp_allocator *a;
};

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_hotpath: %s: %s\n", what, why);
	exit(2);
}

static void *must(void *p)
{
	if (!p)
		die("memory", "none left");
	return p;
}

/* ---- the trace ---- */

/* Keeps what calls an allocator; tells each free what it frees, which only the floor reads. */
static void job_prepare(struct job *job)
{
	struct gp_program *p = &job->program;
	const struct gp_action_op **by_id = must(calloc(p->n_ids + 1, sizeof(*by_id)));
	uint64_t live = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->n_ops; i++) {
		struct gp_action_op *op = &p->ops[n];

		if (p->ops[i].action != GP_ACTION_ALLOC && p->ops[i].action != GP_ACTION_FREE)
			continue;
		*op = p->ops[i];
		n++;
		if (op->action == GP_ACTION_ALLOC) {
			by_id[op->id] = op;
			job->largest = gp_max_u64(job->largest, op->req.size);
			job->most_live = gp_max_u64(job->most_live, ++live);
		} else {
			op->req = by_id[op->id]->req;
			by_id[op->id] = NULL;
			live--;
		}
	}
	p->n_ops = n;
	job->kept = must(calloc(live + 1, sizeof(*job->kept)));
	for (uint32_t id = 0; id < p->n_ids; id++)
		if (by_id[id])
			job->kept[job->n_kept++] = id;
	free(by_id);
}

static void job_open(struct job *job, const char *path)
{
	char why[512];

	*job = (struct job){ 0 };
	if (gp_trace_load(path, NULL, &job->trace, why, sizeof(why)))
		die(path, why);
	if (gp_program_compile(job->trace, 1, &job->program))
		die(path, "no memory");
	job->addrs = must(calloc(job->program.n_ids + 1, sizeof(*job->addrs)));
	job_prepare(job);
	if (!job->program.n_ops || job->trace->n_streams > FLOOR_STREAMS)
		die(path, "expected some allocations, on few streams");
}

static void job_close(struct job *job)
{
	gp_program_fini(&job->program);
	gp_trace_destroy(job->trace);
	free(job->addrs);
	free(job->kept);
}

/* ---- replays ---- */

static void subject_open(struct subject *s, const struct job *job, const char *spec)
{
	struct gp_device_config cfg = { .capacity = CAPACITY };
	char text[160], why[256];

	/* Out of memory is no part of the hot path: blocks that serve every request, all at once. */
	if (!strcmp(spec, "fixed")) {
		uint64_t block = gp_align_up(job->largest, GP_ALIGN);
		uint64_t count = gp_min_u64(job->most_live, (FIXED_SLAB - 1) / block);

		snprintf(text, sizeof(text), "fixed:when_empty=grow,block=%llu,count=%llu",
			 (unsigned long long)block, (unsigned long long)count);
		spec = text;
	}
	if (gp_device_open_sim(&cfg, &s->dev, why, sizeof(why)) ||
	    gp_allocator_create(spec, s->dev, NULL, &s->a, why, sizeof(why)))
		die(spec, why);
}

static void subject_close(struct subject *s)
{
	gp_allocator_destroy(s->a);
	gp_device_close(s->dev);
}

/* The loop that is measured. 0, or a call's result. */
__attribute__((noinline)) static int replay_program(struct gp_allocator *a,
						    const struct gp_program *p, uint64_t *addrs)
{
	const struct gp_action_op *op = p->ops, *end = op + p->n_ops;
	struct gp_block block = { 0, 0 };
	int r = 0;

	for (; op != end && !r; op++) {
		if (op->action == GP_ACTION_ALLOC) {
			r = gp_alloc(a, &op->req, &block);
			addrs[op->id] = block.addr;
		} else {
			r = gp_free(a, addrs[op->id]);
		}
	}
	return r;
}

/* ns for a call. What is live at the end is freed, so that the next replay finds all free. */
static double replay_once(struct subject *s, const struct job *job)
{
	const struct gp_clock *clock = gp_clock_get();
	struct gp_device_stats before, after;
	uint64_t t0, ticks;
	int r;

	if (!clock)
		die("clock", "the counter of this machine does not run steadily");
	gp_device_stats(s->dev, &before);
	t0 = gp_ticks();
	r = replay_program(s->a, &job->program, job->addrs);
	ticks = gp_clock_between(t0, gp_ticks());
	gp_device_stats(s->dev, &after);
	for (size_t i = 0; i < job->n_kept && !r; i++)
		r = gp_free(s->a, job->addrs[job->kept[i]]);
	if (r)
		die(s->a->ops->name, gp_result_text(r));
	ticks -= gp_min_u64(ticks, after.host_ticks - before.host_ticks);
	return (double)ticks * clock->ns_per_tick / (double)job->program.n_ops;
}

static double replay_peak(const struct job *job, const char *spec)
{
	struct gp_usage u = { 0 };
	struct subject s;
	uint64_t peak = 0;

	subject_open(&s, job, spec);
	for (size_t i = 0; i < job->program.n_ops; i++) {
		struct gp_program one = { .ops = job->program.ops + i, .n_ops = 1 };

		if (replay_program(s.a, &one, job->addrs))
			die(spec, "a call failed");
		gp_usage(s.a, &u);
		peak = gp_max_u64(peak, u.reserved_bytes);
	}
	subject_close(&s);
	return (double)peak / (double)job->trace->load_bytes;
}

/* ---- the floor ---- */

struct floor {
	uint64_t *stack[FLOOR_STREAMS][FLOOR_ORDERS]; /* as deep as there are blocks */
	uint32_t n[FLOOR_STREAMS][FLOOR_ORDERS];
	uint64_t next; /* address never given */
};

static void floor_open(struct floor *f, const struct job *job)
{
	*f = (struct floor){ .next = GP_GIB };
	for (uint32_t s = 0; s < job->trace->n_streams; s++)
		for (unsigned k = 0; k <= gp_ceil_log2(job->largest); k++)
			f->stack[s][k] = must(calloc(job->program.n_ids, sizeof(uint64_t)));
}

static void floor_close(struct floor *f)
{
	for (unsigned s = 0; s < FLOOR_STREAMS; s++)
		for (unsigned k = 0; k < FLOOR_ORDERS; k++)
			free(f->stack[s][k]);
}

static void floor_free(struct floor *f, const struct gp_request *req, uint64_t addr)
{
	unsigned k = gp_ceil_log2(req->size);

	f->stack[req->stream][k][f->n[req->stream][k]++] = addr;
}

__attribute__((noinline)) static void replay_floor(struct floor *f, const struct gp_program *p,
						   uint64_t *addrs)
{
	const struct gp_action_op *op = p->ops, *end = op + p->n_ops;

	for (; op != end; op++) {
		unsigned k = gp_ceil_log2(op->req.size);
		uint32_t *n = &f->n[op->req.stream][k];

		if (op->action != GP_ACTION_ALLOC) {
			floor_free(f, &op->req, addrs[op->id]);
		} else if (*n) {
			addrs[op->id] = f->stack[op->req.stream][k][--*n];
		} else {
			addrs[op->id] = f->next;
			f->next += UINT64_C(1) << k;
		}
	}
}

static double floor_once(struct floor *f, struct job *job)
{
	uint64_t t0 = gp_ticks(), ticks;

	replay_floor(f, &job->program, job->addrs);
	ticks = gp_clock_between(t0, gp_ticks());
	for (unsigned s = 0; s < FLOOR_STREAMS; s++)
		memset(f->n[s], 0, sizeof(f->n[s]));
	return (double)ticks * gp_clock_get()->ns_per_tick / (double)job->program.n_ops;
}

/* ---- figures ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_ns(double *ns, size_t n)
{
	qsort(ns, n, sizeof(*ns), compare);
	printf("  %6.1f (%5.1f .. %5.1f)", ns[n / 2], ns[0], ns[n - 1]);
}

static void bench_floor(struct job *job, double *cold, double *warm, size_t runs)
{
	struct floor *f = must(malloc(sizeof(*f)));

	for (size_t i = 0; i < runs; i++) {
		floor_open(f, job);
		cold[i] = floor_once(f, job);
		warm[i] = floor_once(f, job);
		floor_close(f);
	}
	free(f);
}

static void bench_allocator(const struct job *job, const char *spec, double *cold, double *warm,
			    size_t runs)
{
	struct subject s;

	for (size_t i = 0; i < runs; i++) {
		subject_open(&s, job, spec);
		cold[i] = replay_once(&s, job);
		if (i + 1 < runs)
			subject_close(&s);
	}
	for (size_t i = 0; i < runs; i++)
		warm[i] = replay_once(&s, job);
	subject_close(&s);
}

static void bench_trace(const char *path, const char *only, size_t runs)
{
	static double cold[RUNS_MAX], warm[RUNS_MAX];
	struct job job;

	job_open(&job, path);
	printf("%s: %zu calls, %llu blocks live at most\n", path, job.program.n_ops,
	       (unsigned long long)job.most_live);
	printf("  %-22s  %-23s  %-23s  %s\n", "ns a call", "cold", "warm", "peak");
	for (size_t i = 0; i <= GP_ARRAY_LEN(allocators); i++) {
		const char *spec = only ? only : i ? allocators[i - 1] : "stack";

		if (strcmp(spec, "stack"))
			bench_allocator(&job, spec, cold, warm, runs);
		else
			bench_floor(&job, cold, warm, runs);
		printf("  %-22s", spec);
		print_ns(cold, runs);
		print_ns(warm, runs);
		if (strcmp(spec, "stack"))
			printf("  %.4f", replay_peak(&job, spec));
		printf("\n");
		fflush(stdout);
		if (only)
			break;
	}
	job_close(&job);
}

int main(int argc, char **argv)
{
	const char *only = NULL, *dir = getenv("GPUPOOL_TRACE_DIR");
	size_t runs = RUNS;
	int c;

	while ((c = getopt(argc, argv, "a:r:")) != -1) {
		if (c == 'a')
			only = optarg;
		else if (c == 'r')
			runs = strtoul(optarg, NULL, 10);
		if (c == '?' || !runs || runs > RUNS_MAX)
			die("usage", "bench_hotpath [-a SPEC] [-r RUNS] [TRACE...]");
	}
	for (int i = optind; i < argc; i++)
		bench_trace(argv[i], only, runs);
	for (size_t i = 0; i < GP_ARRAY_LEN(recordings) && optind == argc; i++) {
		char path[1024];

		snprintf(path, sizeof(path), "%s/%s.jsonl.gz", dir ? dir : "traces", recordings[i]);
		bench_trace(path, only, runs);
	}
	return 0;
}
