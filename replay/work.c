/* SPDX-License-Identifier: Apache-2.0
 *
 * work: see work.h.
 *
 * Simulated   time passes by driver calls alone (allocators/device/sim_queue.h), so a call lasts as
 *             long as those it made: the same in every run, and what is measured is what was
 *             modelled.
 * Cost        of a call that stays off the device: two histogram updates. Else, on a GPU, one query
 *             for each stream with work and, where the work is over, one event.
 */
#include "work.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define LOAD(counter) atomic_load_explicit(&(counter), memory_order_relaxed)

const char *gp_work_name(enum gp_work_kind kind)
{
	static const char *const names[] = { "none", "memset", "busy", "recorded" };

	return (unsigned)kind < GP_ARRAY_LEN(names) ? names[kind] : "unknown";
}

const char *gp_work_text(const struct gp_work *work, char *buf, size_t size)
{
	if (work->kind == GP_WORK_BUSY)
		snprintf(buf, size, "busy:%g", (double)work->busy_ns / 1e3);
	else
		snprintf(buf, size, "%s", gp_work_name(work->kind));
	return buf;
}

/* ---- how long the recorded program used a block ---- */

/* Goes backwards, so that what comes next on each stream is known. */
static int meter_plan(struct gp_meter *m)
{
	const struct gp_trace *trace = m->job->trace;
	const struct gp_program *program = &m->job->program;
	uint64_t *next_ns = malloc((trace->n_streams + UINT64_C(1)) * sizeof(*next_ns));
	size_t k = program->n_ops;

	m->recorded_ns = calloc(program->n_ops + UINT64_C(1), sizeof(*m->recorded_ns));
	if (!next_ns || !m->recorded_ns) {
		free(next_ns);
		return -ENOMEM;
	}
	for (uint32_t s = 0; s <= trace->n_streams; s++)
		next_ns[s] = UINT64_MAX;
	for (size_t i = trace->n_events; i-- > 0;) {
		const struct gp_event *e = &trace->events[i];
		uint64_t *next = &next_ns[gp_min_u64(e->stream, trace->n_streams)];

		if (e->op != GP_OP_ALLOC && e->op != GP_OP_FREE && e->op != GP_OP_RECLAIM)
			continue;
		while (k && program->ops[k - 1].event > i)
			k--;
		if (k && program->ops[k - 1].event == i && *next != UINT64_MAX)
			m->recorded_ns[k - 1] =
				gp_min_u64(*next - e->t_ns, GP_WORK_RECORDED_MAX_NS);
		*next = e->t_ns;
	}
	free(next_ns);
	return 0;
}

int gp_meter_init(struct gp_meter *m, struct gp_job *job, struct gp_session *s)
{
	struct gp_run_work *work = calloc(1, sizeof(*work));

	*m = (struct gp_meter){ .job = job, .s = s };
	if (!work)
		return -ENOMEM;
	for (unsigned i = 0; i < GP_METERED_N; i++) {
		gp_hist_init(&work->stall_ns[i]);
		gp_hist_init(&work->idle_ns[i]);
	}
	work->work = job->cfg.work;
	job->run->work = work;
	return job->cfg.work.kind == GP_WORK_RECORDED ? meter_plan(m) : 0;
}

void gp_meter_fini(struct gp_meter *m)
{
	free(m->recorded_ns);
}

/* ---- the work ---- */

/* How long; 0: no work. A memset takes what it takes. */
static uint64_t meter_work_ns(const struct gp_meter *m, const struct gp_action_op *op)
{
	if (m->recorded_ns)
		return m->recorded_ns[op - m->job->program.ops];
	return m->job->cfg.work.busy_ns;
}

static int meter_queue(struct gp_meter *m, const struct gp_action_op *op, uint64_t addr)
{
	struct gp_device *dev = m->s->dev;
	uint64_t ns = meter_work_ns(m, op);
	int r;

	if (m->job->cfg.work.kind == GP_WORK_MEMSET)
		r = gp_device_touch(dev, addr, op->req.size, op->req.stream);
	else if (ns)
		r = gp_device_busy(dev, op->req.stream, ns);
	else
		return 0;
	if (!r)
		r = gp_device_mark(dev, op->req.stream);
	if (!r) {
		m->working = true;
		m->job->run->work->n_pieces++;
	}
	gp_meter_skip(m);
	return r;
}

/* ---- what a call cost ---- */

static void meter_record(struct gp_meter *m, enum gp_metered which, uint64_t stall_ns,
			 uint64_t idle_ns)
{
	gp_hist_record(&m->job->run->work->stall_ns[which], stall_ns);
	gp_hist_record(&m->job->run->work->idle_ns[which], idle_ns);
}

/* Calls of the driver that wait for queued work; no other does (allocators/device/sim_queue.h). */
static uint64_t meter_waits(const struct gp_device *dev)
{
	return LOAD(dev->calls[GP_CALL_RELEASE]) + LOAD(dev->calls[GP_CALL_SYNC]);
}

void gp_meter_skip(struct gp_meter *m)
{
	const struct gp_device *dev = m->s->dev;

	m->host_ticks = LOAD(dev->host_ticks);
	m->model_ns = LOAD(dev->model_ns);
	m->n_waits = meter_waits(dev);
}

/* Reads the oldest lull that is open. */
static int meter_read(struct gp_meter *m)
{
	unsigned slot = m->n_read % GP_LULLS;
	const struct gp_meter_open *o = &m->open[slot];
	uint64_t lull_ns = 0;
	int r = gp_device_lull_ns(m->s->dev, slot, &lull_ns);

	if (r)
		return r;
	m->n_read++;
	meter_record(m, o->metered, o->waited && o->call_ns > lull_ns ? o->call_ns - lull_ns : 0,
		     gp_min_u64(lull_ns, o->call_ns));
	return 0;
}

static int meter_note(struct gp_meter *m, enum gp_metered which, uint64_t ns, bool waited)
{
	unsigned slot = m->n_noted % GP_LULLS;
	int r = m->n_noted - m->n_read == GP_LULLS ? meter_read(m) : 0;

	if (!r)
		r = gp_device_lull(m->s->dev, slot);
	if (r == GP_WORKING) {
		meter_record(m, which, 0, 0);
		return 0;
	}
	if (r)
		return r;
	m->open[slot] = (struct gp_meter_open){ ns, (uint8_t)which, waited };
	m->n_noted++;
	m->working = false;
	return 0;
}

int gp_meter_call(struct gp_meter *m, enum gp_metered which, uint64_t ns)
{
	const struct gp_device *dev = m->s->dev;
	bool waited = meter_waits(dev) != m->n_waits;
	int r = 0;

	if (GP_LIKELY(LOAD(dev->host_ticks) == m->host_ticks)) {
		meter_record(m, which, 0, 0);
		return 0;
	}
	if (dev->info.simulated)
		ns = LOAD(dev->model_ns) - m->model_ns;
	if (m->working)
		r = meter_note(m, which, ns, waited);
	else
		meter_record(m, which, 0, ns); /* there was nothing to do all along */
	gp_meter_skip(m);
	return r > 0 ? -EIO : r;
}

int gp_meter_alloc(struct gp_meter *m, const struct gp_action_op *op, uint64_t addr, uint64_t ns)
{
	int r = gp_meter_call(m, GP_METERED_ALLOC, ns);

	if (!r)
		r = meter_queue(m, op, addr);
	return r > 0 ? -EIO : r;
}

void gp_meter_finish(struct gp_meter *m)
{
	int r = 0;

	while (!r && m->n_read < m->n_noted)
		r = meter_read(m);
	if (r)
		gp_job_blame(m->job, GP_BLAME_DEVICE, "after the trace: %s: %s", gp_result_text(r),
			     gp_device_error(m->s->dev));
}
