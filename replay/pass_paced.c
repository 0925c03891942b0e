/* SPDX-License-Identifier: Apache-2.0
 *
 * pass_paced: replays at the recorded speed, or a multiple of it. Takes the place of the latency
 * pass.
 *
 * Deadlines   absolute: the start plus recorded time / pace. They are never moved, whatever is
 *             late: a slow call makes the calls behind it late as well, and the response time of
 *             each, from its deadline to its end, says what a program would have felt. Re-basing
 *             them would leave that out ("coordinated omission", G. Tene).
 * Waiting     sleep until 100 us before, then watch the counter
 * Simulated   the modelled time of driver calls is let pass for real after the call, so that it
 *             delays what comes behind as the driver would; and with work for the device (work.h)
 *             simulated time is this clock's
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "pass.h"
#include "work.h"

#define SPIN_NS      100000    /* a sleep may end that much late */
#define SLEEP_MAX_NS 100000000 /* look at the interrupted flag ten times a second */
#define LEAD_NS      1e6       /* from the start of the pass to time 0 of the trace */

struct paced_pass {
	struct gp_job *job;
	struct gp_session s;
	struct gp_watch watch;
	uint64_t *addr;    /* [id]; 0: not live */
	uint64_t start;    /* ticks */
	uint64_t deadline; /* ticks, of the operation at hand */
	struct gp_meter meter;
	uint64_t elapsed_ns; /* told to the simulated device so far */
};

/* Sleeps for most of the time to the deadline. Each sleep counts from the tick counter again: the
 * system's clock, which the time service slews, only ever measures one sleep. */
static void paced_sleep(uint64_t ns)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ns += (uint64_t)ts.tv_nsec;
	ts.tv_sec += (time_t)(ns / 1000000000u);
	ts.tv_nsec = (long)(ns % 1000000000u);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

/* Waits for the deadline; false: interrupted. */
static bool paced_wait(struct paced_pass *p, size_t done)
{
	for (;;) {
		uint64_t left =
			gp_clock_ns(p->job->clock, gp_clock_between(gp_ticks(), p->deadline));

		if (!left)
			return true;
		if (left <= SPIN_NS)
			continue;
		if (gp_job_poll(p->job, "paced", done, p->job->program.n_ops))
			return false;
		paced_sleep(gp_min_u64(left - SPIN_NS, SLEEP_MAX_NS));
	}
}

/* Lets pass what the call would have taken longer on a real device; returns when it ended. */
static uint64_t paced_catch_up(const struct paced_pass *p, uint64_t t0, uint64_t t1, uint64_t ns)
{
	uint64_t end = t0 + gp_clock_ticks(p->job->clock, (double)ns);

	if (!p->watch.modelled)
		return t1;
	while (t1 < end)
		t1 = gp_ticks();
	return t1;
}

/* Before a call: the device's work went on while the program waited. */
static void paced_elapse(struct paced_pass *p)
{
	uint64_t now_ns = gp_clock_ns(p->job->clock, gp_clock_between(p->start, gp_ticks()));
	struct gp_device_stats d;
	uint64_t known_ns;

	gp_session_stats(&p->s, &d);
	known_ns = d.model_ns + p->elapsed_ns;
	if (now_ns <= known_ns)
		return;
	gp_device_elapse(p->s.dev, now_ns - known_ns);
	p->elapsed_ns += now_ns - known_ns;
}

/* Returns the time of the call. */
static uint64_t paced_record(struct paced_pass *p, uint64_t t0, uint64_t t1,
			     struct gp_hist *service, struct gp_hist *response)
{
	const struct gp_clock *clock = p->job->clock;
	uint64_t ns = gp_watch_ns(&p->watch, t0, t1);
	uint64_t end = paced_catch_up(p, t0, t1, ns);

	gp_hist_record(service, ns);
	gp_hist_record(response, gp_clock_ns(clock, gp_clock_between(p->deadline, end)));
	gp_hist_record(&p->job->run->lateness_ns,
		       gp_clock_ns(clock, gp_clock_between(p->deadline, t0)));
	return ns;
}

static int paced_alloc(struct paced_pass *p, const struct gp_action_op *op)
{
	struct gp_block block;
	uint64_t t0 = gp_ticks(), ns;
	int r = gp_alloc(p->s.a, &op->req, &block);
	uint64_t t1 = gp_ticks();

	if (GP_UNLIKELY(r)) {
		gp_watch_reset(&p->watch);
		if (p->job->cfg.work.kind)
			gp_meter_skip(&p->meter);
		if (r > 0 && p->job->cfg.stop_on_oom)
			gp_job_stop(p->job);
		return r;
	}
	p->addr[op->id] = block.addr;
	ns = paced_record(p, t0, t1, &p->job->run->alloc_ns, &p->job->run->response_alloc_ns);
	if (!p->job->cfg.work.kind)
		return 0;
	r = gp_meter_alloc(&p->meter, op, block.addr, ns);
	gp_watch_reset(&p->watch);
	return r;
}

static int paced_free(struct paced_pass *p, const struct gp_action_op *op)
{
	uint64_t t0 = gp_ticks();
	int r = gp_session_free(&p->s, op, p->addr[op->id]);
	uint64_t t1 = gp_ticks(), ns;

	if (GP_UNLIKELY(r))
		return r < 0 ? r : -EILSEQ;
	ns = paced_record(p, t0, t1, &p->job->run->free_ns, &p->job->run->response_free_ns);
	return p->job->cfg.work.kind ? gp_meter_call(&p->meter, GP_METERED_FREE, ns) : 0;
}

static int paced_rare(struct paced_pass *p, const struct gp_action_op *op)
{
	uint64_t t0 = gp_ticks();
	int r = gp_session_rare(&p->s, op);
	uint64_t ns = gp_watch_ns(&p->watch, t0, gp_ticks());

	if (r || !p->job->cfg.work.kind)
		return r;
	if (op->action == GP_ACTION_TRIM)
		return gp_meter_call(&p->meter, GP_METERED_TRIM, ns);
	gp_meter_skip(&p->meter);
	return 0;
}

static int paced_perform(struct paced_pass *p, const struct gp_action_op *op)
{
	if (p->job->cfg.work.kind && p->watch.modelled)
		paced_elapse(p);
	if (op->action == GP_ACTION_ALLOC)
		return paced_alloc(p, op);
	if (gp_action_frees(op->action))
		return p->addr[op->id] ? paced_free(p, op) : 0;
	return paced_rare(p, op);
}

static void paced_loop(struct paced_pass *p)
{
	const struct gp_job *job = p->job;

	p->start = gp_ticks() + gp_clock_ticks(job->clock, LEAD_NS);
	for (size_t i = 0; i < job->program.n_ops; i++) {
		const struct gp_action_op *op = &job->program.ops[i];
		double due_ns = (double)job->trace->events[op->event].t_ns / job->cfg.pace;
		int r;

		p->deadline = p->start + gp_clock_ticks(job->clock, due_ns);
		if (!paced_wait(p, i))
			return;
		r = paced_perform(p, op);
		if (GP_UNLIKELY(r < 0)) {
			gp_job_fault(p->job, &p->s, op, r);
			return;
		}
		if (GP_UNLIKELY(r > 0) && job->cfg.stop_on_oom)
			return;
		if (i % GP_POLL_OPS == 0 && gp_job_poll(p->job, "paced", i, job->program.n_ops))
			return;
	}
}

static int paced_replay(struct paced_pass *p)
{
	struct gp_job *job = p->job;
	int r = gp_session_begin(job, &p->s);

	if (r)
		return r;
	gp_watch_init(&p->watch, job->clock, p->s.dev);
	if (job->cfg.work.kind)
		gp_meter_skip(&p->meter);
	paced_loop(p);
	if (job->cfg.work.kind)
		gp_meter_finish(&p->meter);
	return 0;
}

int gp_pass_paced(struct gp_job *job)
{
	uint32_t n_ids = job->program.n_ids;
	struct paced_pass p = { .job = job, .addr = calloc(n_ids ? n_ids : 1, sizeof(*p.addr)) };
	int r = p.addr ? 0 : -ENOMEM;

	job->run->paced = true;
	if (!r && job->cfg.work.kind)
		r = gp_meter_init(&p.meter, job, &p.s);
	if (!r) {
		r = paced_replay(&p);
		gp_session_close(job, &p.s);
	}
	gp_meter_fini(&p.meter);
	free(p.addr);
	return r < 0 ? r : 0;
}
