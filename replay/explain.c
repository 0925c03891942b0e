/* SPDX-License-Identifier: Apache-2.0
 *
 * explain: see explain.h.
 *
 * Shape        the live blocks and the holes between them, in the order of their addresses, are all
 *              that is needed; ranges follow from the tags of the holes that blocks were cut from
 *              (metrics.h). The class is then a few comparisons, in the order of their enum.
 * Rounding     what an allocator makes of a size is asked of a fresh one with room to spare.
 * Threads      the curve pass's own
 */
#include "explain.h"

#include <stdlib.h>
#include <string.h>

#include "allocators/torch/torch.h"
#include "metrics.h"
#include "pass.h"

const char *gp_oom_class_name(enum gp_oom_class c)
{
	static const char *const names[GP_OOM_N] = {
		"refused",   "over_capacity", "limit",         "stream_held",
		"pool_held", "rounding",      "fragmentation",
	};

	return (unsigned)c < GP_OOM_N ? names[c] : "unknown";
}

struct gp_oom *gp_oom_destroy(struct gp_oom *oom)
{
	if (!oom)
		return NULL;
	free(oom->streams);
	free(oom->settings);
	free(oom);
	return NULL;
}

/* ---- the request ---- */

/* The text of an option that is in force; "" where the allocator has no such. */
static const char *explain_option(const struct gp_run *run, const char *name)
{
	for (size_t i = 0; i < run->n_options; i++)
		if (!strcmp(run->options[i].name, name))
			return run->options[i].value;
	return "";
}

/* What the allocator grants for the request when nothing is in its way; 0: cannot be told. */
static uint64_t explain_probe(const struct gp_explain *x)
{
	struct gp_device_config config = x->job->cfg.device_config;
	struct gp_request req = x->op->req;
	struct gp_allocator *a = NULL;
	struct gp_device *dev = NULL;
	struct gp_block block = { 0, 0 };

	config.capacity = x->s->dev->info.total_bytes + 4 * req.size;
	config.inject = (struct gp_injection){ 0 };
	req.stream = 0;
	if (gp_device_open_sim(&config, &dev, NULL, 0))
		return 0;
	if (!gp_allocator_create(x->job->spec, dev, &x->job->env, &a, NULL, 0) &&
	    gp_alloc(a, &req, &block))
		block.granted = 0;
	gp_allocator_destroy(a);
	gp_device_close(dev);
	return block.granted;
}

static void explain_sizes(const struct gp_explain *x, struct gp_oom *oom)
{
	uint64_t size = oom->size, page = x->s->dev->info.page_bytes;

	oom->granted = oom->segment = size;
	if (size > oom->capacity || gp_torch_sizes(x->s->a, size, &oom->granted, &oom->segment))
		return;
	oom->granted = explain_probe(x);
	if (!oom->granted)
		oom->granted = gp_align_up(size, GP_ALIGN);
	oom->segment = gp_align_up(oom->granted, page);
}

/* Most that the allocator may hold, by its own settings; 0: no limit. */
static uint64_t explain_limit(const struct gp_explain *x)
{
	const struct gp_run *run = x->job->run;
	const char *fraction = explain_option(run, "per_process_memory_fraction");
	uint64_t total = x->s->dev->info.total_bytes, limit = 0;

	if (gp_parse_size(explain_option(run, "limit"), &limit) && limit)
		return limit;
	if (*fraction && strtod(fraction, NULL) < 1)
		return (uint64_t)(strtod(fraction, NULL) * (double)total);
	if (!strcmp(explain_option(run, "grow"), "prealloc"))
		return gp_max_u64(gp_device_reserved(x->s->dev), 1);
	return 0;
}

/* ---- pools ---- */

static struct gp_oom_stream *explain_stream(struct gp_oom *oom, uint32_t stream)
{
	return stream < oom->n_streams ? &oom->streams[stream] : NULL;
}

/* Adds what is free on one stream in one pool. */
static void explain_lane(const struct gp_explain *x, struct gp_oom *oom,
			 const struct gp_torch_lane *lane)
{
	bool own_pool = lane->pool == oom->pool && lane->large == oom->large;
	struct gp_oom_stream *stream = explain_stream(oom, lane->stream);

	if (stream) {
		stream->free_bytes += lane->free_bytes;
		stream->largest_bytes = gp_max_u64(stream->largest_bytes, lane->largest_bytes);
	}
	if (!own_pool) {
		oom->held_pool_bytes = gp_max_u64(oom->held_pool_bytes, lane->largest_bytes);
	} else if (lane->stream != x->op->req.stream) {
		oom->held_stream_bytes = gp_max_u64(oom->held_stream_bytes, lane->largest_bytes);
	} else {
		oom->pool_free = lane->free_bytes;
		oom->pool_largest = lane->largest_bytes;
	}
}

static void explain_pools(const struct gp_explain *x, struct gp_oom *oom)
{
	struct gp_torch_lane lane;

	oom->pool = x->op->req.pool;
	oom->large = oom->granted > GP_MIB;
	for (size_t i = 0; gp_torch_lane_at(x->s->a, i, &lane); i++) {
		oom->knows_pools = true;
		explain_lane(x, oom, &lane);
	}
}

/* ---- blocks ---- */

/* All that is live or a hole. */
struct explain_map {
	struct gp_piece *pieces;
	size_t n;
	uint32_t *event; /* [id] that allocated it, up to the failure */
	bool *freed;     /* [id] by then */
};

static int explain_add_hole(void *arg, const struct gp_range_entry *e)
{
	struct explain_map *map = arg;

	map->pieces[map->n++] = (struct gp_piece){ e->addr, e->size, e->tag, GP_PIECE_HOLE };
	return 0;
}

static int explain_order(const void *a, const void *b)
{
	const struct gp_piece *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* The pieces of memory that a block is made of (one, unless it is stitched); NULL: only how many. */
static size_t explain_pieces(const struct gp_metrics *m, const struct gp_shadow *b, uint32_t id,
			     struct gp_piece *out)
{
	size_t n = 0;

	for (uint64_t at = 0, left; b->addr && at < b->granted; at += left) {
		uint64_t addr;

		left = b->granted - at;
		addr = gp_metrics_place(m, b->addr + at, &left);
		if (out)
			out[n] = (struct gp_piece){ addr, left, b->tag, id };
		n++;
	}
	return n;
}

static bool explain_draw(const struct gp_explain *x, struct explain_map *map)
{
	const struct gp_trace *t = x->job->trace;
	uint32_t n_ids = x->job->program.n_ids;
	size_t n_live = 0;

	for (uint32_t id = 0; id < n_ids; id++)
		n_live += explain_pieces(x->metrics, &x->shadow[id], id, NULL);
	map->pieces = calloc(n_live + x->metrics->holes.n + 1, sizeof(*map->pieces));
	map->event = calloc((size_t)n_ids + 1, sizeof(*map->event));
	map->freed = calloc((size_t)n_ids + 1, sizeof(*map->freed));
	if (!map->pieces || !map->event || !map->freed)
		return false;
	for (uint32_t i = 0; i < x->op->event; i++) {
		const struct gp_event *e = &t->events[i];

		if (e->op == GP_OP_ALLOC)
			map->event[e->id] = i;
		else if (e->op == GP_OP_FREE)
			map->freed[e->id] = true;
	}
	gp_range_set_each(&x->metrics->holes, explain_add_hole, map);
	for (uint32_t id = 0; id < n_ids; id++)
		map->n += explain_pieces(x->metrics, &x->shadow[id], id, &map->pieces[map->n]);
	qsort(map->pieces, map->n, sizeof(*map->pieces), explain_order);
	return true;
}

static bool explain_streams(const struct gp_explain *x, const struct explain_map *map,
			    struct gp_oom *oom)
{
	const struct gp_trace *t = x->job->trace;

	oom->streams = calloc((size_t)t->n_streams + 1, sizeof(*oom->streams));
	if (!oom->streams)
		return false;
	oom->n_streams = t->n_streams;
	for (uint32_t i = 0; i < t->n_streams; i++) {
		oom->streams[i].stream = i;
		oom->streams[i].handle = t->stream_handles[i];
	}
	for (uint32_t id = 0; id < x->job->program.n_ids; id++) {
		struct gp_oom_stream *s;

		if (!x->shadow[id].addr)
			continue;
		s = explain_stream(oom, t->events[map->event[id]].stream);
		oom->live_blocks++;
		s->live_blocks++;
		s->requested_bytes += x->shadow[id].requested;
		s->granted_bytes += x->shadow[id].granted;
		s->deferred_bytes += map->freed[id] ? x->shadow[id].granted : 0;
	}
	return true;
}

/* Leaves those out that hold nothing. */
static void explain_pack_streams(struct gp_oom *oom)
{
	size_t n = 0;

	for (size_t i = 0; i < oom->n_streams; i++)
		if (oom->streams[i].live_blocks || oom->streams[i].free_bytes)
			oom->streams[n++] = oom->streams[i];
	oom->n_streams = n;
}

static void explain_block(const struct gp_explain *x, const struct explain_map *map, uint32_t id,
			  struct gp_oom_block *out)
{
	const struct gp_trace *t = x->job->trace;
	const struct gp_event *e = &t->events[map->event[id]];

	*out = (struct gp_oom_block){
		.addr = x->shadow[id].addr,
		.requested = x->shadow[id].requested,
		.granted = x->shadow[id].granted,
		.event = map->event[id],
		.age_events = x->op->event - map->event[id],
		.age_ns = t->events[x->op->event].t_ns - e->t_ns,
		.stream = e->stream,
		.assumed = (gp_event_flags(e) & GP_EVENT_ASSUMED) != 0,
	};
}

static void explain_pinning(const struct gp_explain *x, const struct explain_map *map,
			    struct gp_oom *oom)
{
	uint32_t ids[GP_OOM_PINS][GP_OOM_PIN_BLOCKS];

	gp_explain_pins(oom, map->pieces, map->n, oom->granted, ids);
	for (size_t i = 0; i < oom->n_pins; i++)
		for (size_t k = 0; k < oom->pins[i].n_blocks; k++)
			explain_block(x, map, ids[i][k], &oom->pins[i].blocks[k]);
}

/* ---- the class ---- */

static bool explain_exceeds(uint64_t held, uint64_t more, uint64_t room)
{
	return more > room || held > room - more;
}

static bool explain_is_limited(const struct gp_oom *oom)
{
	if (oom->limit && explain_exceeds(oom->reserved, oom->segment, oom->limit))
		return oom->device_free >= oom->segment ||
		       explain_exceeds(oom->requested, oom->size, oom->limit);
	/* Twice is what alignment can cost at most: with that much left, the device was never asked. */
	return oom->device_free / 2 >= oom->segment;
}

static uint64_t explain_room(const struct gp_oom *oom)
{
	return oom->limit ? gp_min_u64(oom->limit, oom->capacity) : oom->capacity;
}

/* What there was for the request. */
static void explain_piece(struct gp_oom *oom)
{
	uint64_t room = explain_room(oom);
	uint64_t hole = oom->knows_pools ? oom->pool_largest : oom->largest_hole;

	oom->growth = room - gp_min_u64(room, oom->reserved);
	oom->largest_piece = gp_max_u64(hole, oom->growth);
}

static enum gp_oom_class explain_class(const struct gp_oom *oom, int outcome)
{
	uint64_t room = explain_room(oom);

	if (outcome == GP_REFUSED)
		return GP_OOM_REFUSED;
	if (explain_exceeds(oom->requested, oom->size, oom->capacity))
		return GP_OOM_OVER_CAPACITY;
	if (outcome == GP_HELD && !(oom->limit && explain_exceeds(oom->requested, oom->size, room)))
		return GP_OOM_STREAM_HELD;
	if (explain_is_limited(oom))
		return GP_OOM_LIMIT;
	if (oom->knows_pools && oom->held_pool_bytes >= oom->granted)
		return GP_OOM_POOL_HELD;
	if (oom->largest_piece >= oom->size ||
	    explain_exceeds(oom->granted_live, oom->granted, room))
		return GP_OOM_ROUNDING;
	return GP_OOM_FRAGMENTATION;
}

/* ---- the whole ---- */

static void explain_totals(const struct gp_explain *x, struct gp_oom *oom)
{
	struct gp_metrics *m = x->metrics;
	const struct gp_trace *t = x->job->trace;

	oom->event = x->op->event;
	oom->t_ns = t->events[oom->event].t_ns;
	oom->size = x->op->req.size;
	oom->stream = x->op->req.stream;
	oom->stream_handle = t->stream_handles[t->events[oom->event].stream];
	oom->capacity = gp_session_capacity(x->s);
	oom->limit = explain_limit(x);
	oom->requested = m->requested;
	oom->granted_live = m->granted;
	oom->reserved = gp_device_reserved(x->s->dev);
	oom->device_free = oom->capacity - gp_min_u64(oom->capacity, oom->reserved);
	oom->free_bytes = m->holes.bytes;
	oom->n_holes = m->holes.n;
	oom->largest_hole = gp_metrics_largest(m);
}

struct gp_oom *gp_explain(const struct gp_explain *x)
{
	struct gp_oom *oom = calloc(1, sizeof(*oom));
	struct explain_map map = { 0 };
	/* Without the holes there is nothing to explain. */
	bool known = oom && !x->metrics->blind && !gp_metrics_settle(x->metrics);

	if (known) {
		explain_totals(x, oom);
		explain_sizes(x, oom);
		known = explain_draw(x, &map) && explain_streams(x, &map, oom);
	}
	if (known) {
		explain_pinning(x, &map, oom);
		explain_pools(x, oom);
		explain_pack_streams(oom);
		explain_piece(oom);
		oom->cause = explain_class(oom, x->outcome);
	}
	free(map.pieces);
	free(map.event);
	free(map.freed);
	return known ? oom : gp_oom_destroy(oom);
}
