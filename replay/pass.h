/* SPDX-License-Identifier: Apache-2.0
 *
 * pass: what the passes of the engine share. A job is one allocator on one trace; a session is a
 * device and an allocator that have done nothing yet, for one run through the program.
 *
 *   gp_engine_run   job --> gp_pass_curve, gp_pass_latency | _paced, gp_pass_throughput
 *   a pass          gp_session_open .. gp_session_create .. loop .. gp_session_close
 *
 * A pass returns 0, or the -errno that gp_engine_run returns when there can be no result. What the
 * allocator does wrong is a result: the run's status becomes error, the pass ends early and returns
 * 0. The steps of a pass return GP_PASS_ENDED then.
 */
#ifndef GP_PASS_H
#define GP_PASS_H

#include "clock.h"
#include "engine.h"
#include "program.h"

/* Operations between two looks at the clock and at the interrupted flag: some 0.1 ms. */
#define GP_POLL_OPS 4096

/* Outcome of a step: the run cannot go on, and its status says why. */
#define GP_PASS_ENDED 1

struct gp_job {
	const struct gp_trace *trace;
	const char *spec;
	struct gp_engine_config cfg; /* with its defaults filled in */
	const struct gp_clock *clock;
	struct gp_env env;
	struct gp_program program;
	struct gp_run *run;
	struct gp_device *dev; /* of the session that is open; NULL: none is */
	bool opened;           /* a device could be opened for this run before */
	uint64_t progress_due; /* ticks */
	unsigned repetition;   /* of a throughput pass, from 0 */
	char *why;             /* gp_engine_run's */
	size_t why_size;
};

struct gp_session {
	struct gp_device *dev;
	struct gp_allocator *a;
	struct gp_device_stats base; /* counters before the allocator was created */
};

/* Opens a device. 0, -errno (there is none to begin with), or GP_PASS_ENDED (there is none any
 * more); *s is fit for gp_session_close in any case. */
int gp_session_open(struct gp_job *job, struct gp_session *s);
/* Creates the allocator on it, with its decorators. 0, GP_PASS_ENDED (a preallocation does not
 * fit, or the device broke) or -errno. */
int gp_session_create(struct gp_job *job, struct gp_session *s);
/* Both. */
int gp_session_begin(struct gp_job *job, struct gp_session *s);
/* Destroys the allocator, which must leave nothing behind on the device, and closes the device. */
void gp_session_close(struct gp_job *job, struct gp_session *s);
/* Executes FREE, DEFER and COMPLETE of a live block. */
static inline int gp_session_free(struct gp_session *s, const struct gp_action_op *op,
				  uint64_t addr)
{
	if (GP_LIKELY(op->action == GP_ACTION_FREE))
		return gp_free(s->a, addr);
	if (op->action == GP_ACTION_DEFER)
		return gp_defer(s->a, addr, op->id);
	return gp_complete(s->a, addr, op->id);
}

/* Executes TRIM and SYNC. 0 or -errno. */
int gp_session_rare(struct gp_session *s, const struct gp_action_op *op);
/* Bytes that the device has for this program: what it holds, and what others leave free. */
uint64_t gp_session_capacity(const struct gp_session *s);
/* What was counted since the session was opened. */
void gp_session_stats(const struct gp_session *s, struct gp_device_stats *out);

/* Time of each kind of call among them: modelled or measured. */
void gp_session_call_ns(const struct gp_job *job, const struct gp_device_stats *stats,
			double ns[GP_CALL_N]);

/* Ends the run with status error, unless it has ended so already. _error blames the allocator; but
 * what goes wrong on a broken device is the device's doing, whoever notices. */
void gp_job_error(struct gp_job *job, const char *fmt, ...) GP_PRINTF(2, 3);
void gp_job_blame(struct gp_job *job, enum gp_blame blame, const char *fmt, ...) GP_PRINTF(3, 4);
/* The same for a call that returned the fault `r`. */
void gp_job_fault(struct gp_job *job, const struct gp_session *s, const struct gp_action_op *op,
		  int r);
/* Ends the run as --on-oom=stop does. */
void gp_job_stop(struct gp_job *job);
/* Tells about progress where it is time to; true when the run was interrupted, whose status is
 * then partial. */
bool gp_job_poll(struct gp_job *job, const char *phase, uint64_t done, uint64_t total);

int gp_pass_curve(struct gp_job *job);
int gp_pass_latency(struct gp_job *job);
int gp_pass_paced(struct gp_job *job);
int gp_pass_throughput(struct gp_job *job);
int gp_pass_threads_latency(struct gp_job *job);
int gp_pass_threads_throughput(struct gp_job *job);
/* Latency and throughput of a trace that each thread replays whole. */
int gp_pass_copies(struct gp_job *job);

/* ---- time of one call ---- */

/* Attributes the time of a call: on the simulated device the simulator's own work is left out and
 * the modelled time of the driver calls put in its place. */
struct gp_watch {
	const struct gp_clock *clock;
	struct gp_device *dev;
	bool modelled;
	uint64_t host_ticks, model_ns; /* of the device, as last seen */
};

static inline void gp_watch_reset(struct gp_watch *w)
{
	w->host_ticks = atomic_load_explicit(&w->dev->host_ticks, memory_order_relaxed);
	w->model_ns = atomic_load_explicit(&w->dev->model_ns, memory_order_relaxed);
}

static inline void gp_watch_init(struct gp_watch *w, const struct gp_clock *clock,
				 struct gp_device *dev)
{
	*w = (struct gp_watch){ .clock = clock, .dev = dev, .modelled = dev->info.simulated };
	gp_watch_reset(w);
}

/* Nanoseconds of a call between the readings t0 and t1. Most calls never reach the device: they
 * cost one comparison here. */
static inline uint64_t gp_watch_ns(struct gp_watch *w, uint64_t t0, uint64_t t1)
{
	uint64_t ticks = gp_clock_call(w->clock, t0, t1), host, model;

	if (!w->modelled)
		return gp_clock_ns(w->clock, ticks);
	host = atomic_load_explicit(&w->dev->host_ticks, memory_order_relaxed);
	if (GP_LIKELY(host == w->host_ticks))
		return gp_clock_ns(w->clock, ticks);
	ticks -= gp_min_u64(ticks, host - w->host_ticks);
	model = w->model_ns;
	gp_watch_reset(w);
	return gp_clock_ns(w->clock, ticks) + w->model_ns - model;
}

/* ---- repetitions of a throughput pass ---- */

/* What one run through the program took. */
struct gp_tally {
	uint64_t ops;     /* calls of alloc and free */
	double own_ns;    /* the allocator's own time, of all threads */
	double device_ns; /* the device's: modelled or measured */
	double wall_ns;   /* from the first call to the last, less the device's where it is known */
	double call_ns[GP_CALL_N]; /* the device's from its opening, by kind */
};

/* One run from a fresh allocator: 0, GP_PASS_ENDED or -errno. */
typedef int gp_throughput_once(struct gp_job *job, void *arg, struct gp_tally *tally);

/* Repeats it cfg.repeat times and writes run->throughput. */
int gp_throughput_repeat(struct gp_job *job, gp_throughput_once *once, void *arg);

#endif
