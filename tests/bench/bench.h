/* SPDX-License-Identifier: Apache-2.0
 *
 * bench: what the parts of bench_hotpath share.
 *
 *   hotpath.c    main: options, which tables
 *   job.c        what is replayed: a recording, or churn made here, ready for the loop
 *   subject.c    an allocator on a device of its own, and the loop that is measured
 *   tables.c     the recordings: time, instructions, latency, memory
 *   growth.c     by live blocks, by age, by threads
 *   rules.c      claims of the textbooks
 *   memory.c     host memory of an allocator
 *   counter.c    instructions, where the machine counts them
 *   figures.c    what was measured, as tables for people and as JSON
 *   ref_*.c      allocators to compare with, which the registry of this program has besides
 *
 * Everything is measured in several whole runs, one after the other; a figure is the median of the
 * runs, and its spread the least and the most of them.
 * Threads   one, but for the table about threads
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>

#include "allocators/allocator.h"
#include "replay/program.h"
#include "replay/trace.h"

#define BENCH_SPECS_MAX 32

/* ---- figures.c ---- */

/* One value of one whole run. Texts are copied. NAN: none, which leaves the cell empty. */
void bench_figure(const char *table, const char *group, const char *row, const char *column,
		  double value);
/* A line below the table, once however often it is given. */
void bench_remark(const char *table, const char *fmt, ...) GP_PRINTF(2, 3);
/* In the order in which they came; spread beside the columns whose name ends in " ns". */
void bench_print(FILE *out);
/* 0 or -errno. */
int bench_write_json(const char *path, unsigned runs, double seconds);
void bench_figures_free(void);
/* Sorts; n > 0. */
double bench_median(double *values, size_t n);

/* ---- job.c ---- */

/* ALLOC and FREE only; req.size and .stream of a FREE are set, though no allocator sees them. */
struct bench_job {
	char name[64];
	struct gp_trace *trace; /* NULL: made here */
	struct gp_program program;
	size_t n_setup;  /* operations at the front that are done once and not measured */
	uint64_t *addrs; /* [id] */
	uint32_t *kept;  /* ids of which the program leaves a block */
	size_t n_kept;
	uint64_t largest, most_live, load; /* request; blocks; bytes requested at once */
	size_t most_live_at;               /* operation after which so many are live */
	struct gp_env env;
};

void bench_job_load(struct bench_job *job, const char *path);
/* live + spare blocks, of which the spare ones are freed again; then n_pairs times one of the others
 * freed and another allocated in its place, by chance. That last part can be repeated as it is. */
void bench_job_churn(struct bench_job *job, uint32_t live, uint32_t spare, size_t n_pairs);
void bench_job_close(struct bench_job *job);

/* ---- subject.c ---- */

struct bench_subject {
	const char *spec;
	struct bench_job *job;
	struct gp_device *dev;
	struct gp_allocator *a;
};

/* The loop. 0, or a call's result. */
int bench_loop(struct gp_allocator *a, const struct gp_action_op *op, size_t n, uint64_t *addrs);
/* The same loop under a name of its own, for callgrind to look at nothing else. */
int bench_counted(struct gp_allocator *a, const struct gp_action_op *op, size_t n, uint64_t *addrs);

/* Is it installed? If not, a remark says so; a spec that means nothing ends the program. */
bool bench_available(const char *table, const char *spec);
/* On the simulated device, or (`bare`) on one that costs nothing and holds no host memory. */
void bench_subject_open(struct bench_subject *s, struct bench_job *job, const char *spec,
			bool bare);
/* Frees what churn leaves; a recording's blocks are freed by `between`. */
void bench_subject_close(struct bench_subject *s);
/* What comes before the first operation that is measured: ns for a call of it; NAN: nothing does. */
double bench_subject_setup(struct bench_subject *s);
/* What lies between two replays: a recording's blocks are freed, churn goes on as it is. */
void bench_subject_between(struct bench_subject *s);
/* ns for a call, without the device's time. */
double bench_replay_ns(struct bench_subject *s);
/* Instructions for a call; NAN where nobody counts them. */
double bench_replay_instructions(struct bench_subject *s);
/* Calls of the device that a replay makes, for a thousand operations. */
double bench_replay_calls(struct bench_subject *s);
/* Untimed, setup included: most bytes reserved over most requested. */
double bench_peak(struct bench_job *job, const char *spec);
/* Reserved now over most requested. */
double bench_reserved(const struct bench_subject *s);
/* Ends the program. */
_Noreturn void bench_die(const char *what, const char *why);
void bench_must(const struct bench_subject *s, int r);
void *bench_memory(void *p); /* that malloc gave; NULL ends the program */

/* ---- tables.c, growth.c, rules.c: a whole run each ---- */

struct bench_plan {
	const char *specs[BENCH_SPECS_MAX];
	size_t n_specs;
	unsigned run; /* from 0; what always comes out the same is measured in this one alone */
	struct bench_job *jobs; /* recordings */
	size_t n_jobs;
};

void bench_recordings(const struct bench_plan *plan);
/* Time and memory alone, of these specs. */
void bench_compare(const struct bench_plan *plan, const char *table, const char *const *specs,
		   size_t n);
void bench_live(const struct bench_plan *plan);
void bench_age(const struct bench_plan *plan);
void bench_threads(const struct bench_plan *plan);
void bench_rules(const struct bench_plan *plan);
/* The time of these specs with a thousand live blocks, by the number of free ones. */
void bench_by_spare(const char *table, const char *const *specs, size_t n);
/* A spec with an arena for each thread, and behind one lock. */
void bench_caches(const struct bench_plan *plan, const char *table, const char *spec);

/* A replay of each spec, warm, in bench_counted(); prints which, in the order of callgrind's dumps. */
void bench_count(const struct bench_plan *plan, const char *table, const char *column,
		 struct bench_job *job);
void bench_count_live(const struct bench_plan *plan);

/* ---- memory.c ---- */

/* Opens a device that has endless memory, makes addresses up and remembers nothing. */
void bench_bare_device(struct gp_device **out);
/* Bytes of host memory for each live block where most are live; NAN where the system cannot be asked. */
double bench_metadata(struct bench_job *job, const char *spec);

/* ---- counter.c ---- */

bool bench_counter_open(void);
void bench_counter_start(void);
uint64_t bench_counter_stop(void);
/* Why not, for people. */
const char *bench_counter_why(void);

#endif
