/* SPDX-License-Identifier: Apache-2.0
 *
 * pass_copies: every thread replays the whole trace, again and again, on streams of its own.
 *
 *   GP_THREADS_EACH    a thread frees what it allocated
 *   GP_THREADS_CHAIN   a thread frees what the thread before it in the ring allocated
 *
 * Shape        A repetition, on a fresh allocator:
 *
 *                warm      each thread its first round, or WARM_MS where calls are so slow
 *                window    cfg.window_ms in which all threads run, and only that counts
 *                stop      each thread frees what it still has, which does not count
 *
 *              At the end of a round a thread frees the blocks that the trace keeps. A last
 *              window times each call.
 * Time         A fixed window, not a fixed number of calls: no thread waits for the last one, and
 *              a slow allocator takes no longer to measure. Operations per second are the sum of
 *              the threads' rates by the wall clock, the simulator's own work included; no
 *              modelled time is put on.
 * Memory       peak_reserved is the device's, load that of as many copies as there are threads:
 *              they do not reach their peaks at one moment, so less may be enough. What is inside
 *              the allocator (granted, fragmentation) is not followed.
 * Chain        A ring of addresses to the next thread; its head and tail order the block's
 *              hand-over. A thread that finds the next one's ring full frees from its own
 *              meanwhile, so that a closed chain cannot lock up. What is on its way, at most RING
 *              blocks for each thread, is held besides the load.
 * Threads      the workers share the allocator, the program and the phase; each writes its own
 *              struct worker, which the main thread reads after joining it
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "pass.h"

#define WARM_MS 400
#define POLL_NS 1000000L
#define RING    16 /* blocks on their way to another thread; a power of two */

enum phase {
	PHASE_SHUT,
	PHASE_WARM,
	PHASE_WINDOW,
	PHASE_STOP,
	PHASE_CANCELLED, /* not all threads could be created */
};

/* From one thread to the next. Each side writes a line of its own. */
struct ring {
	_Alignas(64) _Atomic uint64_t tail; /* written by the one that allocates */
	_Alignas(64) _Atomic uint64_t head; /* written by the one that frees     */
	_Alignas(64) uint64_t addr[RING];
};

struct copies {
	struct gp_job *job;
	struct gp_session s;
	struct worker *workers;
	struct ring *rings; /* [thread]: to it */
	unsigned n;
	bool timed;
	_Atomic unsigned phase; /* read by all at each call, written a few times */
	_Alignas(64) _Atomic unsigned ready, warm, entered;
	_Atomic uint64_t peak; /* bytes reserved */
	struct gp_device_stats at_start, at_end;
};

struct worker {
	_Alignas(64) pthread_t thread;
	struct copies *pass;
	unsigned index;
	uint64_t *addr; /* [id]; 0: not live */
	struct ring *in, *out;
	struct gp_hist *alloc_ns, *free_ns; /* timed */
	unsigned phase;
	uint64_t ops;        /* so far */
	uint64_t start, end; /* ticks of the window */
	uint64_t window_ops;
	uint64_t failures, failed_bytes, first_failed, reasons[GP_REASON_N];
	int result; /* fault, or outcome that ends the run */
	const struct gp_action_op *failed;
};

/* ---- the calls ---- */

static int copies_end(struct worker *w, const struct gp_action_op *op, int r)
{
	w->result = r;
	w->failed = op;
	atomic_store(&w->pass->phase, PHASE_STOP);
	return r;
}

static enum gp_reason copies_reason(const struct copies *p, int outcome)
{
	uint64_t capacity = p->s.dev->info.total_bytes;

	if (outcome == GP_REFUSED)
		return GP_REASON_REFUSED;
	if (outcome == GP_HELD)
		return GP_REASON_STREAM_HELD;
	return p->job->trace->load_bytes > capacity / p->n ? GP_REASON_OVER_CAPACITY
							   : GP_REASON_FRAGMENTED;
}

static int copies_failed(struct worker *w, const struct gp_action_op *op, int r)
{
	if (r < 0 || w->pass->job->cfg.stop_on_oom)
		return copies_end(w, op, r);
	if (!w->failures++)
		w->first_failed = op->event;
	w->failed_bytes += op->req.size;
	w->reasons[copies_reason(w->pass, r)]++;
	return 0;
}

static inline int copies_alloc(struct worker *w, const struct gp_action_op *op, bool timed)
{
	struct copies *p = w->pass;
	struct gp_request req = op->req;
	struct gp_block block;
	uint64_t t0, t1;
	int r;

	req.stream += w->index * p->job->trace->n_streams;
	req.thread = (uint16_t)w->index;
	t0 = timed ? gp_ticks() : 0;
	r = gp_alloc(p->s.a, &req, &block);
	t1 = timed ? gp_ticks() : 0;
	w->ops++;
	if (GP_UNLIKELY(r))
		return copies_failed(w, op, r);
	w->addr[op->id] = block.addr;
	if (timed)
		gp_hist_record(w->alloc_ns,
			       gp_clock_ns(p->job->clock, gp_clock_call(p->job->clock, t0, t1)));
	return 0;
}

static inline int copies_free(struct worker *w, const struct gp_action_op *op, uint64_t addr,
			      bool timed)
{
	struct copies *p = w->pass;
	uint64_t t0 = timed ? gp_ticks() : 0;
	int r = gp_free(p->s.a, addr);
	uint64_t t1 = timed ? gp_ticks() : 0;

	w->ops++;
	if (GP_UNLIKELY(r))
		return copies_end(w, op, r > 0 ? -EILSEQ : r);
	if (timed)
		gp_hist_record(w->free_ns,
			       gp_clock_ns(p->job->clock, gp_clock_call(p->job->clock, t0, t1)));
	return 0;
}

/* ---- chain ---- */

/* Frees one block that the thread before has sent, if there is one. *freed: there was. */
static inline int copies_receive(struct worker *w, const struct gp_action_op *op, bool timed,
				 bool *freed)
{
	uint64_t head = atomic_load_explicit(&w->in->head, memory_order_relaxed), addr;

	*freed = head != atomic_load_explicit(&w->in->tail, memory_order_acquire);
	if (!*freed)
		return 0;
	addr = w->in->addr[head % RING];
	atomic_store_explicit(&w->in->head, head + 1, memory_order_release);
	return copies_free(w, op, addr, timed);
}

/* Sends a block to the next thread, and frees one for the thread before. */
static inline int copies_send(struct worker *w, const struct gp_action_op *op, uint64_t addr,
			      bool timed)
{
	uint64_t tail = atomic_load_explicit(&w->out->tail, memory_order_relaxed);
	bool freed;
	int r = copies_receive(w, op, timed, &freed);

	while (!r && tail - atomic_load_explicit(&w->out->head, memory_order_acquire) == RING) {
		/* After the stop nobody may be left to take it. */
		if (atomic_load_explicit(&w->pass->phase, memory_order_relaxed) >= PHASE_STOP)
			return copies_free(w, op, addr, timed);
		r = copies_receive(w, op, timed, &freed);
		if (!freed)
			sched_yield();
	}
	if (r)
		return r;
	w->out->addr[tail % RING] = addr;
	atomic_store_explicit(&w->out->tail, tail + 1, memory_order_release);
	return 0;
}

static inline int copies_dispose(struct worker *w, const struct gp_action_op *op, bool timed)
{
	uint64_t addr = w->addr[op->id];

	if (GP_UNLIKELY(!addr))
		return 0;
	w->addr[op->id] = 0;
	return w->out ? copies_send(w, op, addr, timed) : copies_free(w, op, addr, timed);
}

/* ---- a worker ---- */

/* The phase changed: notes where the window begins and ends. True: to stop. */
static GP_NOINLINE bool copies_turn(struct worker *w, unsigned phase)
{
	uint64_t now = gp_ticks();

	if (phase == PHASE_WINDOW) {
		atomic_fetch_add(&w->pass->entered, 1);
		w->start = now;
		w->window_ops = w->ops;
	} else if (w->phase == PHASE_WINDOW) {
		w->end = now;
		w->window_ops = w->ops - w->window_ops;
	}
	w->phase = phase;
	return phase >= PHASE_STOP;
}

/* One pass over the program and the blocks that it keeps; false: to stop. */
static inline bool copies_round(struct worker *w, bool timed)
{
	struct copies *p = w->pass;
	const struct gp_program *program = &p->job->program;
	const struct gp_action_op *op = program->ops, *end = op + program->n_ops;

	for (; op != end; op++) {
		unsigned phase = atomic_load_explicit(&p->phase, memory_order_relaxed);
		bool in_window = timed && phase == PHASE_WINDOW;
		int r;

		if (GP_UNLIKELY(phase != w->phase) && copies_turn(w, phase))
			return false;
		if (op->action == GP_ACTION_ALLOC)
			r = copies_alloc(w, op, in_window);
		else if (op->action == GP_ACTION_FREE)
			r = copies_dispose(w, op, in_window);
		else if ((r = gp_session_rare(&p->s, op)))
			copies_end(w, op, r);
		if (GP_UNLIKELY(r))
			return false;
	}
	for (op = program->ops; op != end; op++)
		if (op->action == GP_ACTION_ALLOC && w->addr[op->id] &&
		    copies_dispose(w, op, false))
			return false;
	return true;
}

/* Frees what is left, whatever happened; a second fault is not told. */
static void copies_empty(struct worker *w)
{
	struct copies *p = w->pass;

	for (uint32_t id = 0; id < p->job->program.n_ids; id++)
		if (w->addr[id])
			gp_free(p->s.a, w->addr[id]);
}

static void *copies_main(void *arg)
{
	struct worker *w = arg;
	struct copies *p = w->pass;
	bool first = true;

	atomic_fetch_add(&p->ready, 1);
	while (atomic_load(&p->phase) == PHASE_SHUT)
		sched_yield();
	if (atomic_load(&p->phase) == PHASE_CANCELLED)
		return NULL;
	/* The phase may have gone further meanwhile: then that is a turn, like any other. */
	w->phase = PHASE_WARM;
	/* Two copies of the loop, so that the untimed one has no test for it. */
	while (p->timed ? copies_round(w, true) : copies_round(w, false)) {
		if (first)
			atomic_fetch_add(&p->warm, 1);
		first = false;
	}
	/* It ended by a fault, not by the turn. */
	if (w->phase != PHASE_STOP)
		copies_turn(w, PHASE_STOP);
	copies_empty(w);
	return NULL;
}

/* ---- the main thread ---- */

static void copies_watch(void *arg, bool added, struct gp_range range, bool joins, uint64_t same)
{
	struct copies *p = arg;
	uint64_t now, peak = atomic_load_explicit(&p->peak, memory_order_relaxed);

	(void)range;
	(void)joins;
	(void)same;
	if (!added)
		return;
	now = atomic_load_explicit(&p->s.dev->reserved_bytes, memory_order_relaxed);
	while (now > peak && !atomic_compare_exchange_weak(&p->peak, &peak, now))
		;
}

/* A driver's own pool is not seen by the device: what the allocator says it holds. */
static uint64_t copies_reserved(struct copies *p)
{
	struct gp_usage usage;

	gp_usage(p->s.a, &usage);
	return usage.reserved_bytes;
}

/* Sleeps until `ms` are over, the phase is STOP, the run is interrupted or, unless NULL, `count` is
 * that of all threads. */
static void copies_sleep(struct copies *p, unsigned ms, _Atomic unsigned *count)
{
	struct gp_job *job = p->job;
	const struct timespec pause = { 0, POLL_NS };
	uint64_t until = gp_ticks() + gp_clock_ticks(job->clock, ms * 1e6);

	while (gp_ticks() < until && atomic_load(&p->phase) < PHASE_STOP &&
	       !(count && atomic_load(count) == p->n)) {
		if (gp_job_poll(job, p->timed ? "latency" : "throughput", job->repetition,
				job->cfg.repeat))
			return;
		nanosleep(&pause, NULL);
	}
}

/* Goes on to a phase, unless a worker has stopped all. */
static void copies_go(struct copies *p, unsigned from, unsigned to)
{
	atomic_compare_exchange_strong(&p->phase, &from, to);
}

static void copies_conduct(struct copies *p)
{
	while (atomic_load(&p->ready) < p->n)
		sched_yield();
	copies_go(p, PHASE_SHUT, PHASE_WARM);
	copies_sleep(p, WARM_MS, &p->warm);
	gp_session_stats(&p->s, &p->at_start);
	copies_go(p, PHASE_WARM, PHASE_WINDOW);
	/* On a busy machine some thread may not have had a processor yet. */
	copies_sleep(p, WARM_MS, &p->entered);
	copies_sleep(p, p->job->cfg.window_ms, NULL);
	gp_session_stats(&p->s, &p->at_end);
	atomic_store(&p->peak, gp_max_u64(atomic_load(&p->peak), copies_reserved(p)));
	atomic_store(&p->phase, PHASE_STOP);
}

/* 0 or -errno: not all threads could be created. */
static int copies_launch(struct copies *p)
{
	unsigned made = 0;
	int r = 0;

	atomic_store(&p->phase, PHASE_SHUT);
	while (made < p->n && !r) {
		r = pthread_create(&p->workers[made].thread, NULL, copies_main, &p->workers[made]);
		made += !r;
	}
	if (r)
		atomic_store(&p->phase, PHASE_CANCELLED);
	else
		copies_conduct(p);
	while (made)
		pthread_join(p->workers[--made].thread, NULL);
	return -r;
}

static void copies_reset(struct copies *p)
{
	atomic_store(&p->ready, 0);
	atomic_store(&p->warm, 0);
	atomic_store(&p->entered, 0);
	atomic_store(&p->peak, p->s.dev->reserved_bytes);
	for (unsigned i = 0; i < p->n; i++) {
		struct worker *w = &p->workers[i];

		for (uint32_t id = 0; id < p->job->program.n_ids; id++)
			w->addr[id] = 0;
		w->in = w->out = NULL;
		if (p->rings) {
			w->in = &p->rings[i];
			w->out = &p->rings[(i + 1) % p->n];
			w->in->head = w->in->tail = 0;
		}
		w->ops = w->window_ops = w->start = w->end = 0;
		w->failures = w->failed_bytes = 0;
		for (unsigned k = 0; k < GP_REASON_N; k++)
			w->reasons[k] = 0;
		w->result = 0;
	}
}

/* What is still on its way from thread to thread. */
static void copies_empty_rings(struct copies *p)
{
	for (unsigned i = 0; i < p->n && p->rings; i++) {
		struct ring *ring = &p->rings[i];

		for (; ring->head != ring->tail; ring->head++)
			gp_free(p->s.a, ring->addr[ring->head % RING]);
	}
}

static void copies_report(struct copies *p)
{
	struct gp_run *run = p->job->run;

	run->memory.peak_reserved = gp_max_u64(run->memory.peak_reserved, p->peak);
	run->memory.end_reserved = copies_reserved(p);
	run->failures.count = run->failures.bytes = 0;
	for (unsigned k = 0; k < GP_REASON_N; k++)
		run->failures.reasons[k] = 0;
	for (unsigned i = 0; i < p->n; i++) {
		const struct worker *w = &p->workers[i];

		if (w->result > 0)
			gp_job_stop(p->job);
		else if (w->result)
			gp_job_fault(p->job, &p->s, w->failed, w->result);
		if (w->failures &&
		    (!run->failures.count || w->first_failed < run->failures.first_event))
			run->failures.first_event = w->first_failed;
		run->failures.count += w->failures;
		run->failures.bytes += w->failed_bytes;
		for (unsigned k = 0; k < GP_REASON_N; k++)
			run->failures.reasons[k] += w->reasons[k];
	}
}

static void copies_driver(const struct copies *p)
{
	const struct gp_device_stats *d = &p->at_end;
	struct gp_run *run = p->job->run;

	run->driver.allocs = d->calls[GP_CALL_RESERVE] + d->calls[GP_CALL_ASYNC_ALLOC];
	run->driver.frees = d->calls[GP_CALL_RELEASE] + d->calls[GP_CALL_ASYNC_FREE];
	run->driver.maps = d->calls[GP_CALL_MAP];
	run->driver.unmaps = d->calls[GP_CALL_UNMAP];
	run->driver.syncs = d->calls[GP_CALL_SYNC];
	run->driver.event_waits = d->calls[GP_CALL_EVENT_WAIT];
	run->driver.time_ns =
		p->s.dev->info.simulated
			? d->model_ns
			: (uint64_t)((double)d->host_ticks * p->job->clock->ns_per_tick);
}

static void copies_tally(const struct copies *p, struct gp_tally *tally)
{
	double ns_per_tick = p->job->clock->ns_per_tick, sum = 0, rate = 0, host_ns;

	host_ns = (double)(p->at_end.host_ticks - p->at_start.host_ticks) * ns_per_tick;
	*tally = (struct gp_tally){ 0 };
	for (unsigned i = 0; i < p->n; i++) {
		const struct worker *w = &p->workers[i];
		double ns = (double)gp_clock_between(w->start, w->end) * ns_per_tick;

		if (!w->window_ops || !(ns > 0))
			continue;
		tally->ops += w->window_ops;
		sum += ns;
		rate += (double)w->window_ops / ns;
	}
	tally->own_ns = sum > host_ns ? sum - host_ns : 0;
	tally->device_ns = p->s.dev->info.simulated
				   ? (double)(p->at_end.model_ns - p->at_start.model_ns)
				   : host_ns;
	tally->wall_ns = rate > 0 ? (double)tally->ops / rate : 0;
}

static int copies_once(struct gp_job *job, void *arg, struct gp_tally *tally)
{
	struct copies *p = arg;
	int r = gp_session_begin(job, &p->s);

	if (!r) {
		copies_reset(p);
		gp_device_observe(p->s.dev, copies_watch, p);
		r = copies_launch(p);
		gp_device_observe(p->s.dev, NULL, NULL);
	}
	if (!r) {
		copies_empty_rings(p);
		copies_report(p);
		copies_driver(p);
		copies_tally(p, tally);
		if (job->run->status == GP_STATUS_ERROR || job->run->status == GP_STATUS_PARTIAL)
			r = GP_PASS_ENDED;
	}
	gp_session_close(job, &p->s);
	return r;
}

static void copies_fini(struct copies *p)
{
	for (unsigned i = 0; i < p->n && p->workers; i++) {
		free(p->workers[i].addr);
		free(p->workers[i].alloc_ns);
	}
	free(p->workers);
	free(p->rings);
}

static int copies_init_worker(struct copies *p, unsigned i)
{
	struct worker *w = &p->workers[i];

	*w = (struct worker){ .pass = p, .index = i };
	w->addr = calloc(p->job->program.n_ids + UINT64_C(1), sizeof(*w->addr));
	w->alloc_ns = calloc(2, sizeof(*w->alloc_ns));
	if (!w->addr || !w->alloc_ns)
		return -ENOMEM;
	w->free_ns = w->alloc_ns + 1;
	gp_hist_init(w->alloc_ns);
	gp_hist_init(w->free_ns);
	return 0;
}

static int copies_init(struct copies *p, struct gp_job *job)
{
	unsigned n = job->cfg.threads;
	int r = 0;

	*p = (struct copies){ .job = job };
	p->workers = aligned_alloc(_Alignof(struct worker), n * sizeof(*p->workers));
	if (job->cfg.threads_mode == GP_THREADS_CHAIN)
		p->rings = aligned_alloc(_Alignof(struct ring), n * sizeof(*p->rings));
	if (!p->workers || (job->cfg.threads_mode == GP_THREADS_CHAIN && !p->rings))
		return -ENOMEM;
	for (unsigned i = 0; i < n && !r; i++) {
		r = copies_init_worker(p, i);
		p->n = i + 1;
	}
	return r;
}

/* What the copies ask for and hold. */
static void copies_memory(struct gp_job *job)
{
	struct gp_run *run = job->run;

	run->memory.load = job->trace->load_bytes * job->cfg.threads;
	run->memory.overhead =
		run->memory.load ? (double)run->memory.peak_reserved / (double)run->memory.load - 1
				 : 0;
	run->memory.utilization =
		run->memory.peak_reserved
			? (double)run->memory.load / (double)run->memory.peak_reserved
			: 1;
	run->fragmentation.internal_at_peak = run->fragmentation.internal_mean = NAN;
	run->fragmentation.external_at_peak = run->fragmentation.external_mean = NAN;
	run->fragmentation.external_sq_at_peak = NAN;
}

static int copies_latency(struct copies *p)
{
	struct gp_run *run = p->job->run;
	struct gp_tally tally;
	int r;

	p->timed = true;
	r = copies_once(p->job, p, &tally);
	for (unsigned i = 0; i < p->n && r >= 0; i++) {
		gp_hist_merge(&run->alloc_ns, p->workers[i].alloc_ns);
		gp_hist_merge(&run->free_ns, p->workers[i].free_ns);
	}
	return r;
}

int gp_pass_copies(struct gp_job *job)
{
	struct copies p;
	int r;

	/* A round without a call would never look at the phase. */
	if (!job->program.n_ops) {
		copies_memory(job);
		return 0;
	}
	r = copies_init(&p, job);
	if (!r && job->cfg.passes & GP_PASS_THROUGHPUT)
		r = gp_throughput_repeat(job, copies_once, &p);
	if (!r && job->cfg.passes & GP_PASS_LATENCY && job->run->status == GP_STATUS_OK)
		r = copies_latency(&p);
	if (r >= 0)
		copies_memory(job);
	copies_fini(&p);
	return r < 0 ? r : 0;
}
