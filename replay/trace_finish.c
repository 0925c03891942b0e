/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_finish: the end of the building (trace_builder.c): what was live before the recording began
 * goes to the front, and the load is counted.
 *
 * Cost        one pass over the events; a second one, and as much memory again, when there are
 *             assumed allocations.
 * Threads     caller serialises.
 */
#include "trace_builder.h"

#include <errno.h>
#include <stdlib.h>

/* The most bytes live at once. False: they exceed what a size may be. */
static bool trace_find_load(struct gp_trace *t, size_t *at)
{
	uint64_t live = 0;

	for (size_t i = 0; i < t->n_events; i++) {
		const struct gp_event *e = &t->events[i];
		bool deferred = gp_event_flags(e) & GP_EVENT_DEFERRED;

		if (e->op == GP_OP_ALLOC) {
			*at = i;
			if (e->size > GP_TRACE_SIZE_MAX - live)
				return false;
			live += e->size;
			if (live > t->load_bytes) {
				t->load_bytes = live;
				t->load_event = i;
			}
		} else if (e->op == GP_OP_RECLAIM || (e->op == GP_OP_FREE && !deferred)) {
			live -= e->size;
		}
	}
	return true;
}

static bool trace_is_assumed(const struct gp_event *e)
{
	return e->op == GP_OP_ALLOC && gp_event_flags(e) & GP_EVENT_ASSUMED;
}

/* Ids count the ALLOC events in their order: again, after that order changed. */
static void trace_number_ids(struct gp_event *events, size_t n)
{
	uint32_t id = 0;

	for (size_t i = 0; i < n; i++) {
		struct gp_event *e = &events[i];

		if (e->op == GP_OP_ALLOC)
			e->id = id++;
		else if (e->op == GP_OP_RECLAIM)
			e->id = events[e->link].id;
		else if (e->op == GP_OP_FREE && !(gp_event_flags(e) & GP_EVENT_DEFERRED))
			e->id = events[e->link].id;
		else if (e->op == GP_OP_FREE)
			e->id = events[events[e->link].link].id; /* by its RECLAIM */
	}
}

/* Moves the assumed allocations to the front; both parts keep their order. */
static int trace_front_assumed(struct gp_trace_builder *b)
{
	struct gp_trace *t = b->trace;
	uint32_t *place = malloc(t->n_events * sizeof(*place));
	struct gp_event *events = malloc(t->n_events * sizeof(*events));
	uint64_t *addrs = t->addrs ? malloc(t->n_events * sizeof(*addrs)) : NULL;
	uint8_t *pools = t->pools ? malloc(t->n_events * sizeof(*pools)) : NULL;
	uint32_t front = 0, rest = (uint32_t)t->n_assumed;

	if (!place || !events || (t->addrs && !addrs) || (t->pools && !pools)) {
		free(place);
		free(events);
		free(addrs);
		free(pools);
		return gp_trace_no_memory(b);
	}
	for (size_t i = 0; i < t->n_events; i++)
		place[i] = trace_is_assumed(&t->events[i]) ? front++ : rest++;
	for (size_t i = 0; i < t->n_events; i++) {
		struct gp_event *e = &events[place[i]];

		*e = t->events[i];
		if (e->link != GP_EVENT_NONE)
			e->link = place[e->link];
		if (addrs)
			addrs[place[i]] = t->addrs[i];
		if (pools)
			pools[place[i]] = t->pools[i];
	}
	free(place);
	trace_number_ids(events, t->n_events);
	free(t->events);
	free(t->addrs);
	free(t->pools);
	t->events = events;
	t->addrs = addrs;
	t->pools = pools;
	return 0;
}

/* An index made dense is always below its count, in a trace without events too. */
static int trace_finish_counts(struct gp_trace_builder *b)
{
	struct gp_trace *t = b->trace;
	struct gp_event unused;

	if (!t->n_streams && gp_trace_set_stream(b, &unused, 0))
		return -ENOMEM;
	if (!t->n_threads && gp_trace_set_thread(b, &unused, 0))
		return -ENOMEM;
	return 0;
}

/* Nothing is to be moved when a file holds them at the front already. */
static bool trace_is_fronted(const struct gp_trace *t)
{
	size_t i = 0;

	while (i < t->n_assumed && trace_is_assumed(&t->events[i]))
		i++;
	return i == t->n_assumed;
}

static int trace_finish_events(struct gp_trace_builder *b)
{
	struct gp_trace *t = b->trace;
	size_t n = t->n_events ? t->n_events : 1, at = 0;
	int r = trace_finish_counts(b);

	gp_id_map_fini(&b->ids);
	if (!r && !trace_is_fronted(t))
		r = trace_front_assumed(b);
	if (r)
		return r;
	if (!trace_find_load(t, &at)) {
		b->n_seen = at + 1;
		return gp_trace_builder_refuse(b, 0,
					       "more than 2^63 bytes live at once, expected "
					       "less");
	}
	/* Shrinking may fail as little as it may matter. */
	(void)gp_trace_resize(&t->events, n, sizeof(*t->events));
	if (t->addrs)
		(void)gp_trace_resize(&t->addrs, n, sizeof(*t->addrs));
	if (t->pools)
		(void)gp_trace_resize(&t->pools, n, sizeof(*t->pools));
	return 0;
}

int gp_trace_builder_finish(struct gp_trace_builder *b, struct gp_trace **out)
{
	/* A file used as it is was judged and counted in one pass. */
	int r = b->trace->map ? 0 : trace_finish_events(b);

	if (r)
		return r;
	*out = b->trace;
	b->trace = NULL;
	return 0;
}
