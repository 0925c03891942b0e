/* SPDX-License-Identifier: Apache-2.0
 *
 * plan: from a trace to a packing (packing.h) and back.
 *
 * Shape        greedy in four orders; while the best is above the bound and there is time: for few
 *              blocks the search, first at the capacity that was asked for, then at the bound, then
 *              half way between what was not found and what was; then improvement of the best order
 * Lifetimes    from the allocation to the free or, for a deferred one, its reclaim; a block that is
 *              never freed lives to the end. Streams do not count: a bound is for all allocators.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "packing.h"
#include "plan.h"
#include "program.h"

/* Of the time that is left, what one target of the search gets. */
#define SEARCH_SHARE 0.4
/* Targets nearer than this to what was found are not worth a search. */
#define SEARCH_STEP 0.001

struct planner {
	const struct gp_plan_config *cfg;
	struct gp_packing packing;
	struct gp_pack_block *blocks;
	uint32_t n;
	uint64_t height;          /* of the best so far; UINT64_MAX: none */
	uint64_t *offsets;        /* [n] the best so far */
	enum gp_pack_order order; /* of the best greedy placement */
	const char *how;
	double start, deadline, until; /* seconds; until: of the step at hand */
};

static double plan_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool plan_expired(void *arg)
{
	const struct planner *p = arg;

	return (p->cfg->interrupted && *p->cfg->interrupted) || plan_now() >= p->until;
}

/* The deadline of the next step: a share of what is left. false: nothing is. */
static bool plan_allow(struct planner *p, double share)
{
	double now = plan_now();

	p->until = now + (p->deadline - now) * share;
	return !plan_expired(p);
}

static void plan_keep(struct planner *p, uint64_t height, const char *how)
{
	p->height = height;
	p->how = how;
	for (uint32_t i = 0; i < p->n; i++)
		p->offsets[i] = p->blocks[i].offset;
}

/* ---- from the trace ---- */

static struct gp_pack_block plan_block(const struct gp_event *e, uint64_t event)
{
	unsigned lg_align = gp_event_lg_align(e) > gp_floor_log2(GP_ALIGN)
				    ? gp_event_lg_align(e)
				    : gp_floor_log2(GP_ALIGN);

	return (struct gp_pack_block){
		.size = gp_align_up(gp_min_u64(e->size, GP_SIZE_MAX), GP_ALIGN),
		.life = event,
		.time = e->t_ns,
		.end = UINT32_MAX, /* not known yet */
		.lg_align = (uint8_t)lg_align,
	};
}

/* The block ends with this event, before allocation number `next`. */
static void plan_end(struct gp_pack_block *b, uint64_t event, uint64_t t_ns, uint32_t next,
		     bool has_times)
{
	b->end = next;
	b->life = event - b->life;
	b->time = has_times ? t_ns - b->time : b->life;
}

/* Fills blocks; `at` is scratch: the block of an id. */
static void plan_read(struct planner *p, const struct gp_trace *trace, uint32_t *at)
{
	uint64_t last_ns = trace->n_events ? trace->events[trace->n_events - 1].t_ns : 0;
	uint32_t n = 0;

	for (size_t i = 0; i < trace->n_events; i++) {
		const struct gp_event *e = &trace->events[i];
		enum gp_action action = gp_program_action(trace, i);

		if (action == GP_ACTION_ALLOC) {
			at[e->id] = n;
			p->blocks[n++] = plan_block(e, i);
		} else if (action == GP_ACTION_FREE) {
			plan_end(&p->blocks[at[e->id]], i, e->t_ns, n, last_ns > 0);
		}
	}
	p->n = n;
	for (uint32_t i = 0; i < n; i++)
		if (p->blocks[i].end == UINT32_MAX)
			plan_end(&p->blocks[i], trace->n_events, last_ns, n, last_ns > 0);
}

static int plan_open(struct planner *p, const struct gp_trace *trace)
{
	uint32_t *at = calloc(trace->n_ids + UINT64_C(1), sizeof(*at));
	int r = -ENOMEM;

	p->blocks = calloc(trace->n_ids + UINT64_C(1), sizeof(*p->blocks));
	p->offsets = calloc(trace->n_ids + UINT64_C(1), sizeof(*p->offsets));
	if (at && p->blocks && p->offsets) {
		plan_read(p, trace, at);
		r = gp_packing_init(&p->packing, p->blocks, p->n);
	}
	free(at);
	if (r)
		return r;
	p->packing.expired = plan_expired;
	p->packing.expired_arg = p;
	return 0;
}

static void plan_close(struct planner *p)
{
	gp_packing_fini(&p->packing);
	free(p->blocks);
	free(p->offsets);
}

/* ---- the best placement ---- */

static int plan_greedy(struct planner *p)
{
	for (unsigned o = 0; o < GP_PACK_ORDER_N && p->height > p->packing.bound; o++) {
		uint64_t height;
		int r;

		if (!plan_allow(p, 1))
			break;
		r = gp_packing_greedy(&p->packing, o, p->height, &height);
		if (r < 0)
			return r;
		if (r)
			continue;
		p->order = o;
		plan_keep(p, height, gp_pack_order_name(o));
	}
	return 0;
}

/* Looks for one height. *found tells. */
static int plan_look(struct planner *p, uint64_t height, bool *found)
{
	int r = plan_allow(p, SEARCH_SHARE) ? gp_packing_search(&p->packing, height) : GP_NOMEM;
	uint64_t top = 0;

	*found = !r;
	if (r)
		return r < 0 ? r : 0;
	for (uint32_t i = 0; i < p->n; i++)
		top = gp_max_u64(top, p->blocks[i].offset + p->blocks[i].size);
	plan_keep(p, top, "search");
	return 0;
}

static int plan_search(struct planner *p)
{
	uint64_t missed = p->packing.bound, asked = p->cfg->capacity;
	bool found = false;
	int r = 0;

	if (p->n > GP_PACK_SEARCH_MAX)
		return 0;
	if (asked >= missed && asked < p->height)
		r = plan_look(p, asked, &found);
	if (!r && p->height > missed)
		r = plan_look(p, missed, &found);
	while (!r && (double)(p->height - missed) > SEARCH_STEP * (double)missed) {
		uint64_t target = missed + (p->height - missed) / 2;

		if (!plan_allow(p, 1))
			break;
		r = plan_look(p, target, &found);
		if (!found)
			missed = target;
	}
	return r;
}

static int plan_improve(struct planner *p)
{
	uint64_t height = p->height;
	int r;

	if (height <= p->packing.bound || !plan_allow(p, 1))
		return 0;
	r = gp_packing_improve(&p->packing, p->order, &height);
	if (!r)
		plan_keep(p, height, "improvement");
	return r < 0 ? r : 0;
}

static int plan_find(struct planner *p)
{
	int r = plan_greedy(p);

	if (!r && p->height == UINT64_MAX && p->n)
		return GP_NOMEM;
	if (!p->n)
		p->height = 0;
	if (!r)
		r = plan_search(p);
	if (!r)
		r = plan_improve(p);
	if (!r && p->height > GP_SIZE_MAX)
		r = -EOVERFLOW;
	return r;
}

/* ---- the result ---- */

static struct gp_plan *plan_result(const struct planner *p)
{
	struct gp_plan *plan = calloc(1, sizeof(*plan));
	uint64_t *sizes;

	if (!plan)
		return NULL;
	plan->memory = calloc(2 * (p->n + UINT64_C(1)), sizeof(*plan->memory));
	if (!plan->memory)
		return gp_plan_destroy(plan);
	sizes = plan->memory + p->n;
	for (uint32_t i = 0; i < p->n; i++) {
		plan->memory[i] = p->offsets[i];
		sizes[i] = p->blocks[i].size;
	}
	plan->placement = (struct gp_placement){ plan->memory, sizes, p->n, p->height };
	plan->bound = p->packing.bound;
	plan->how = p->how;
	plan->seconds = plan_now() - p->start;
	return plan;
}

int gp_plan_make(const struct gp_trace *trace, const struct gp_plan_config *cfg,
		 struct gp_plan **out)
{
	struct planner p = { .cfg = cfg, .height = UINT64_MAX, .how = "" };
	int r;

	p.start = plan_now();
	p.deadline = p.start + cfg->seconds;
	r = plan_open(&p, trace);
	if (!r)
		r = plan_find(&p);
	if (!r) {
		*out = plan_result(&p);
		r = *out ? 0 : -ENOMEM;
	}
	plan_close(&p);
	return r;
}

struct gp_plan *gp_plan_destroy(struct gp_plan *plan)
{
	if (plan)
		free(plan->memory);
	free(plan);
	return NULL;
}

double gp_plan_above(const struct gp_plan *plan, uint64_t bytes)
{
	return plan->placement.height ? (double)bytes / (double)plan->placement.height - 1 : 0;
}
