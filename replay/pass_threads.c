/* SPDX-License-Identifier: Apache-2.0
 *
 * pass_threads: replays on real threads, each with its own share of the program.
 *
 * Order       only true dependencies are kept: a free waits until its allocation has published the
 *             address. Each thread works in recorded order, so the earliest operation not yet done
 *             never waits for anything, and there is no deadlock.
 *
 *               addr[id]   0: not allocated yet   ADDR_FAILED: never will be   else: the address
 *
 * Time        latency: what the clock says around each call, on the simulated device too. Counters
 *             of the device cannot say which thread's call they count, so the simulator's work is
 *             not taken off and no modelled time is put on.
 *             throughput: own time is the sum over threads, waiting for other threads included,
 *             less the time inside the device; operations per second are of the wall clock.
 * Stopping    the first fault, an interrupt, or a failure under --on-oom=stop raises `halt`, which
 *             every thread looks at while it waits and every few thousand operations
 * Threads     the workers share the allocator, addr[] and the atomics below; each writes its own
 *             struct worker, which the main thread reads after joining it
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "pass.h"

#define ADDR_FAILED UINT64_MAX
#define SPINS       200 /* looks before giving the processor away: some microseconds */

enum gate {
	GATE_SHUT,
	GATE_OPEN,
	GATE_CANCELLED, /* not all threads could be created */
};

struct threads_pass {
	struct gp_job *job;
	struct gp_session s;
	struct gp_program *programs; /* [thread] */
	struct worker *workers;      /* [thread] */
	unsigned n;
	bool timed;             /* latency; else throughput */
	_Atomic uint64_t *addr; /* [id] */
	_Atomic unsigned ready;
	_Atomic unsigned gate; /* enum gate */
	_Atomic bool halt;
};

struct worker {
	_Alignas(64) pthread_t thread; /* a cache line of its own */
	struct threads_pass *pass;
	const struct gp_program *program;
	struct gp_hist *alloc_ns, *free_ns; /* timed */
	uint64_t start, end;                /* ticks */
	uint64_t ops;
	int result; /* fault, or outcome that ends the run */
	const struct gp_action_op *failed;
};

static inline void threads_relax(unsigned *spins)
{
	if (++*spins % SPINS == 0)
		sched_yield();
#if defined(__x86_64__)
	else
		_mm_pause();
#endif
}

static inline bool threads_halted(struct threads_pass *p)
{
	return atomic_load_explicit(&p->halt, memory_order_relaxed);
}

/* The address of a block, as soon as it has one; ADDR_FAILED also when the run is over. */
static inline uint64_t threads_await(struct threads_pass *p, uint32_t id)
{
	uint64_t addr = atomic_load_explicit(&p->addr[id], memory_order_acquire);
	unsigned spins = 0;

	while (GP_UNLIKELY(!addr)) {
		if (threads_halted(p))
			return ADDR_FAILED;
		threads_relax(&spins);
		addr = atomic_load_explicit(&p->addr[id], memory_order_acquire);
	}
	return addr;
}

static inline int threads_alloc(struct worker *w, const struct gp_action_op *op, bool timed)
{
	struct threads_pass *p = w->pass;
	const struct gp_clock *clock = p->job->clock;
	struct gp_block block;
	uint64_t t0 = timed ? gp_ticks() : 0;
	int r = gp_alloc(p->s.a, &op->req, &block);
	uint64_t t1 = timed ? gp_ticks() : 0;

	atomic_store_explicit(&p->addr[op->id], r ? ADDR_FAILED : block.addr, memory_order_release);
	w->ops++;
	if (timed && !r)
		gp_hist_record(w->alloc_ns, gp_clock_ns(clock, gp_clock_call(clock, t0, t1)));
	return r > 0 && !p->job->cfg.stop_on_oom ? 0 : r;
}

static inline int threads_free(struct worker *w, const struct gp_action_op *op, bool timed)
{
	struct threads_pass *p = w->pass;
	const struct gp_clock *clock = p->job->clock;
	uint64_t addr = threads_await(p, op->id), t0, t1;
	int r;

	if (addr == ADDR_FAILED)
		return 0;
	t0 = timed ? gp_ticks() : 0;
	r = gp_free(p->s.a, addr);
	t1 = timed ? gp_ticks() : 0;
	w->ops++;
	if (timed && !r)
		gp_hist_record(w->free_ns, gp_clock_ns(clock, gp_clock_call(clock, t0, t1)));
	return r > 0 ? -EILSEQ : r;
}

static inline void threads_loop(struct worker *w, bool timed)
{
	struct threads_pass *p = w->pass;
	const volatile sig_atomic_t *interrupted = p->job->cfg.interrupted;

	for (size_t i = 0; i < w->program->n_ops; i++) {
		const struct gp_action_op *op = &w->program->ops[i];
		int r;

		if (op->action == GP_ACTION_ALLOC)
			r = threads_alloc(w, op, timed);
		else if (op->action == GP_ACTION_FREE)
			r = threads_free(w, op, timed);
		else
			r = gp_session_rare(&p->s, op);
		if (GP_UNLIKELY(r)) {
			w->result = r;
			w->failed = op;
			atomic_store(&p->halt, true);
			return;
		}
		if (i % GP_POLL_OPS == 0 && ((interrupted && *interrupted) || threads_halted(p))) {
			atomic_store(&p->halt, true);
			return;
		}
	}
}

static void *threads_main(void *arg)
{
	struct worker *w = arg;
	struct threads_pass *p = w->pass;
	unsigned gate, spins = 0;

	atomic_fetch_add(&p->ready, 1);
	while ((gate = atomic_load(&p->gate)) == GATE_SHUT)
		threads_relax(&spins);
	if (gate == GATE_CANCELLED)
		return NULL;
	w->start = gp_ticks();
	/* Two copies of the loop, so that the untimed one has no test for it. */
	if (p->timed)
		threads_loop(w, true);
	else
		threads_loop(w, false);
	w->end = gp_ticks();
	return NULL;
}

/* Runs all workers to their ends. 0 or -errno: not all threads could be created. */
static int threads_launch(struct threads_pass *p)
{
	unsigned made = 0, spins = 0;
	int r = 0;

	atomic_store(&p->ready, 0);
	atomic_store(&p->gate, GATE_SHUT);
	while (made < p->n && !r) {
		r = pthread_create(&p->workers[made].thread, NULL, threads_main, &p->workers[made]);
		made += !r;
	}
	while (!r && atomic_load(&p->ready) < p->n)
		threads_relax(&spins);
	atomic_store(&p->gate, r ? GATE_CANCELLED : GATE_OPEN);
	while (made)
		pthread_join(p->workers[--made].thread, NULL);
	return -r;
}

static void threads_reset(struct threads_pass *p)
{
	for (uint32_t id = 0; id < p->job->program.n_ids; id++)
		atomic_store_explicit(&p->addr[id], 0, memory_order_relaxed);
	atomic_store(&p->halt, false);
	for (unsigned i = 0; i < p->n; i++) {
		p->workers[i].ops = 0;
		p->workers[i].result = 0;
	}
}

/* Passes on what ended a worker. */
static void threads_report(struct threads_pass *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct worker *w = &p->workers[i];

		if (w->result > 0)
			gp_job_stop(p->job);
		else if (w->result)
			gp_job_fault(p->job, &p->s, w->failed, w->result);
	}
}

static void threads_tally(struct threads_pass *p, const struct gp_device_stats *before,
			  struct gp_tally *tally)
{
	double ns_per_tick = p->job->clock->ns_per_tick, host_ns, sum = 0;
	uint64_t first = UINT64_MAX, last = 0;
	struct gp_device_stats d;

	gp_session_stats(&p->s, &d);
	host_ns = (double)(d.host_ticks - before->host_ticks) * ns_per_tick;
	*tally = (struct gp_tally){ 0 };
	for (unsigned i = 0; i < p->n; i++) {
		const struct worker *w = &p->workers[i];

		tally->ops += w->ops;
		sum += (double)gp_clock_between(w->start, w->end) * ns_per_tick;
		first = gp_min_u64(first, w->start);
		last = gp_max_u64(last, w->end);
	}
	tally->own_ns = sum > host_ns ? sum - host_ns : 0;
	tally->device_ns =
		p->s.dev->info.simulated ? (double)(d.model_ns - before->model_ns) : host_ns;
	tally->wall_ns = (double)gp_clock_between(first, last) * ns_per_tick;
	gp_session_call_ns(p->job, &d, tally->call_ns);
}

static int threads_once(struct gp_job *job, void *arg, struct gp_tally *tally)
{
	struct threads_pass *p = arg;
	struct gp_device_stats before;
	int r = gp_session_begin(job, &p->s);

	if (!r) {
		threads_reset(p);
		gp_session_stats(&p->s, &before);
		r = threads_launch(p);
	}
	if (!r) {
		threads_report(p);
		threads_tally(p, &before, tally);
		if (gp_job_poll(job, p->timed ? "latency" : "throughput", job->repetition,
				job->cfg.repeat) ||
		    job->run->status == GP_STATUS_ERROR)
			r = GP_PASS_ENDED;
	}
	gp_session_close(job, &p->s);
	return r;
}

static void threads_fini(struct threads_pass *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		gp_program_fini(&p->programs[i]);
		free(p->workers[i].alloc_ns);
	}
	free(p->programs);
	free(p->workers);
	free(p->addr);
}

/* Both histograms of a worker in one piece. */
static int threads_hists(struct worker *w)
{
	w->alloc_ns = calloc(2, sizeof(*w->alloc_ns));
	if (!w->alloc_ns)
		return -ENOMEM;
	w->free_ns = w->alloc_ns + 1;
	gp_hist_init(w->alloc_ns);
	gp_hist_init(w->free_ns);
	return 0;
}

static int threads_init(struct threads_pass *p, struct gp_job *job, bool timed)
{
	unsigned n = job->cfg.threads;
	int r;

	*p = (struct threads_pass){ .job = job, .timed = timed };
	p->programs = calloc(n, sizeof(*p->programs));
	p->workers = aligned_alloc(_Alignof(struct worker), n * sizeof(*p->workers));
	p->addr = calloc(job->program.n_ids + UINT64_C(1), sizeof(*p->addr));
	if (!p->programs || !p->workers || !p->addr)
		return -ENOMEM;
	r = gp_program_split(&job->program, n, p->programs);
	if (r)
		return r;
	p->n = n;
	for (unsigned i = 0; i < n; i++)
		p->workers[i] = (struct worker){ .pass = p, .program = &p->programs[i] };
	for (unsigned i = 0; i < n && timed && !r; i++)
		r = threads_hists(&p->workers[i]);
	return r;
}

int gp_pass_threads_latency(struct gp_job *job)
{
	struct threads_pass p;
	struct gp_tally tally;
	int r = threads_init(&p, job, true);

	if (!r)
		r = threads_once(job, &p, &tally);
	for (unsigned i = 0; i < p.n && r >= 0; i++) {
		gp_hist_merge(&job->run->alloc_ns, p.workers[i].alloc_ns);
		gp_hist_merge(&job->run->free_ns, p.workers[i].free_ns);
	}
	threads_fini(&p);
	return r < 0 ? r : 0;
}

int gp_pass_threads_throughput(struct gp_job *job)
{
	struct threads_pass p;
	int r = threads_init(&p, job, false);

	if (!r)
		r = gp_throughput_repeat(job, threads_once, &p);
	threads_fini(&p);
	return r < 0 ? r : 0;
}
