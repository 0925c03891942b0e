/* SPDX-License-Identifier: Apache-2.0
 *
 * tune_job: a recording made into what is replayed under every setting.
 *
 * Shape     the program's own calls. A recording of PyTorch's holds none of its calls of
 *           torch.cuda.empty_cache(), which any setting would obey; they show as segments given
 *           back in front of something else than a request that lacked memory:
 *
 *             segments given back, no `oom` behind them, and what was held before, with the segment
 *             that is taken next, is less than 95 % of the card and of the limit
 *
 *           What garbage collection gave back below that looks the same: nothing is told from a
 *           recording that says it was made with it. --ignore-trims leaves all of it out. A trace
 *           that holds trims itself is taken at its word.
 *           Where the driver put segments decides ties. The recording tells until it gave one back:
 *           the simulated device follows as long as it can (sim_space.h).
 * Cost      two passes over the events for each kind of program
 * Threads   read only once made
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/engine.h"
#include "tune.h"

/* The driver and other programs hold some of the card. */
#define FULL_PERCENT 95

/* ---- emptied caches ---- */

static bool is_call(const struct gp_event *e)
{
	return e->op == GP_OP_ALLOC || e->op == GP_OP_FREE || e->op == GP_OP_OOM;
}

struct trims {
	uint32_t *events; /* in front of which a cache was emptied */
	uint32_t n;
	uint64_t held, bound; /* recorded; what a request would have been refused at */
};

/* One window between calls, [from, to): does the program give its cache back there? */
static bool trims_here(struct trims *x, const struct gp_trace *t, size_t from, size_t to)
{
	uint64_t before = 0, taken = 0;
	bool gives = false;

	for (size_t i = from; i < to; i++) {
		const struct gp_event *e = &t->events[i];
		bool takes = e->op == GP_OP_SEGMENT_ALLOC || e->op == GP_OP_SEGMENT_MAP;

		if (takes) {
			x->held += e->size;
			taken += e->size;
		} else if (e->op == GP_OP_SEGMENT_FREE || e->op == GP_OP_SEGMENT_UNMAP) {
			if (!gives)
				before = x->held;
			gives = true;
			x->held -= gp_min_u64(x->held, e->size);
		}
	}
	if (!gives || (to < t->n_events && t->events[to].op == GP_OP_OOM))
		return false;
	return before + taken < x->bound;
}

static int trims_find(struct trims *x, const struct gp_trace *t, uint64_t limit)
{
	uint64_t card = t->device_bytes ? t->device_bytes / 100 * FULL_PERCENT : UINT64_MAX;
	size_t from = 0;

	x->bound = limit ? gp_min_u64(card, limit / 100 * FULL_PERCENT) : card;
	x->events = calloc(t->n_events ? t->n_events : 1, sizeof(*x->events));
	if (!x->events)
		return -ENOMEM;
	for (size_t i = 0; i <= t->n_events; i++) {
		if (i < t->n_events && t->events[i].op == GP_OP_TRIM) {
			x->n = 0;
			return 0;
		}
		if (i < t->n_events && !is_call(&t->events[i]))
			continue;
		/* Behind the last call it would change nothing. */
		if (trims_here(x, t, from, i) && i < t->n_events)
			x->events[x->n++] = (uint32_t)i;
		from = i + 1;
	}
	return 0;
}

/* The program with a TRIM in front of each of these events. */
static int trims_insert(struct gp_program *p, const struct trims *x)
{
	struct gp_action_op *ops = calloc(p->n_ops + x->n + 1, sizeof(*ops));
	size_t n = 0;
	uint32_t next = 0;

	if (!ops)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_ops; i++) {
		while (next < x->n && x->events[next] <= p->ops[i].event)
			ops[n++] = (struct gp_action_op){ .event = x->events[next++],
							  .action = GP_ACTION_TRIM };
		ops[n++] = p->ops[i];
	}
	free(p->ops);
	p->ops = ops;
	p->n_ops = n;
	return 0;
}

static void drop_trims(struct gp_program *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_ops; i++)
		if (p->ops[i].action != GP_ACTION_TRIM)
			p->ops[n++] = p->ops[i];
	p->n_ops = n;
}

static int job_trims(struct tune_job *job, const struct tune_options *o)
{
	struct trims x = { 0 };
	int r;

	if (o->ignore_trims) {
		drop_trims(&job->plain);
		drop_trims(&job->deferring);
		return 0;
	}
	if (strstr(job->t->source, "garbage_collection_threshold"))
		return 0;
	r = trims_find(&x, job->t, o->limit);
	if (!r && x.n)
		r = trims_insert(&job->plain, &x);
	if (!r && x.n)
		r = trims_insert(&job->deferring, &x);
	job->n_trims = x.n;
	free(x.events);
	return r;
}

/* ---- places ---- */

static int job_places(struct tune_job *job)
{
	const struct gp_trace *t = job->t;
	size_t n = 0;

	if (!t->addrs)
		return 0;
	job->places = calloc(t->n_events ? t->n_events : 1, sizeof(*job->places));
	if (!job->places)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_events; i++) {
		const struct gp_event *e = &t->events[i];

		if (e->op == GP_OP_SEGMENT_FREE || e->op == GP_OP_SEGMENT_UNMAP)
			break;
		if (e->op == GP_OP_SEGMENT_ALLOC && t->addrs[i])
			job->places[n++] = (struct gp_range){ t->addrs[i], e->size };
	}
	job->device.places = job->places;
	job->device.n_places = n;
	return 0;
}

/* ---- the whole ---- */

/* The card asked for, else the recorded one, else the simulated device's own size. */
static int job_card(struct tune_job *job, const struct tune_options *o, char *why, size_t why_size)
{
	struct gp_device *dev = NULL;
	int r;

	job->device.profile = o->profile;
	job->device.capacity = o->capacity ? o->capacity : job->t->device_bytes;
	r = gp_device_open_sim(&job->device, &dev, why, why_size);
	if (r)
		return r;
	job->device.capacity = dev->info.total_bytes;
	gp_device_close(dev);
	return 0;
}

/* How many bytes more are live after an event. */
static int64_t live_change(const struct gp_event *e)
{
	return e->op == GP_OP_ALLOC  ? (int64_t)e->size
	       : e->op == GP_OP_FREE ? -(int64_t)e->size
				     : 0;
}

static void job_need(struct tune_job *job)
{
	const struct gp_trace *t = job->t;
	uint64_t live = 0;

	for (size_t i = 0; i < t->n_events; i++) {
		live += (uint64_t)live_change(&t->events[i]);
		if (live > job->need_bytes) {
			job->need_bytes = live;
			job->need_event = i;
		}
	}
}

int tune_job_init(struct tune_job *job, const struct gp_trace *t, const struct tune_options *o,
		  char *why, size_t why_size)
{
	int r;

	*job = (struct tune_job){ .t = t, .allow_ooms = o->allow_ooms, .search = !o->no_search };
	snprintf(why, why_size, "out of memory");
	r = job_card(job, o, why, why_size);
	if (!r)
		r = gp_program_compile(t, 1, &job->plain);
	if (!r)
		r = gp_program_compile_deferring(t, &job->deferring);
	if (!r)
		r = job_trims(job, o);
	if (!r)
		r = job_places(job);
	if (r)
		return r;
	gp_engine_env(t, &job->env);
	job_need(job);
	return 0;
}

void tune_job_fini(struct tune_job *job)
{
	gp_program_fini(&job->plain);
	gp_program_fini(&job->deferring);
	free(job->places);
}

uint64_t tune_live_at(const struct gp_trace *t, size_t event)
{
	uint64_t live = 0;

	for (size_t i = 0; i < event && i < t->n_events; i++)
		live += (uint64_t)live_change(&t->events[i]);
	return live;
}
