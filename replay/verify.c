/* SPDX-License-Identifier: Apache-2.0
 *
 * verify: see verify.h.
 *
 * Shape        events in order; what lies between two calls of the program is a window:
 *
 *                free  | reclaim reclaim segment_free reclaim segment_free segment_alloc | alloc
 *                        \________________________ window _____________________________/
 *
 *              Before the call, the ends of deferred frees in its window are told to the model;
 *              during it, the model's device calls are looked for in the window; after it, what is
 *              left there is what the model did not do.
 * Order        device calls are compared as a set within their window: a flush walks streams by the
 *              value of their handle, of which a trace keeps only the number.
 * Cost         linear in the events, and quadratic in a window (a flush: some hundred)
 */
#include "verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/torch/torch.h"
#include "recorded_device.h"

/* Where the recording does not say how large its card is: this many times what it ever held, so
 * that an expandable segment's address range has room, and does not reach into the next one's. */
#define VERIFY_ROOM 2

struct verify {
	const struct gp_trace *t;
	struct gp_device *dev;
	struct gp_allocator *a;
	struct gp_verify *out;
	size_t from, now; /* the window: [from, now), and the call at `now` */
	bool *seen;       /* [event] of the window: done by the model */
	uint64_t *addrs;  /* [id] where the model put the block; 0: nowhere */
	bool *pending;    /* [id] deferred, and not over yet */
	bool limited;     /* a memory limit is set: allocations may give segments back */
	int fault;        /* of the model itself */
};

/* ---- telling ---- */

static void verify_state(const struct verify *v, char *buf, size_t size)
{
	struct gp_usage u;

	gp_usage(v->a, &u);
	snprintf(buf, size,
		 " (the model then holds %" PRIu64 " bytes and has granted %" PRIu64 " in %" PRIu64
		 " blocks)",
		 u.reserved_bytes, u.granted_bytes, u.live_blocks);
}

static void verify_differs(struct verify *v, size_t event, const char *fmt, ...) GP_PRINTF(3, 4);

static void verify_differs(struct verify *v, size_t event, const char *fmt, ...)
{
	struct gp_verify *out = v->out;
	size_t used;
	va_list ap;

	if (out->diverged)
		return;
	out->diverged = true;
	out->first_event = event;
	used = (size_t)snprintf(out->first, sizeof(out->first), "event %zu: ", event);
	va_start(ap, fmt);
	used += (size_t)vsnprintf(out->first + used, sizeof(out->first) - used, fmt, ap);
	va_end(ap);
	if (used < sizeof(out->first))
		verify_state(v, out->first + used, sizeof(out->first) - used);
}

static void verify_compare(struct verify *v, bool same)
{
	v->out->compared++;
	v->out->matched += same;
}

/* ---- device calls ---- */

static bool verify_is_segment(const struct gp_event *e)
{
	return e->op >= GP_OP_SEGMENT_ALLOC && e->op <= GP_OP_SEGMENT_UNMAP;
}

static bool verify_gives_back(const struct gp_event *e)
{
	return e->op == GP_OP_SEGMENT_FREE || e->op == GP_OP_SEGMENT_UNMAP;
}

static enum gp_op verify_op(enum gp_torch_event what)
{
	static const enum gp_op ops[] = {
		[GP_TORCH_SEGMENT_ALLOC] = GP_OP_SEGMENT_ALLOC,
		[GP_TORCH_SEGMENT_FREE] = GP_OP_SEGMENT_FREE,
		[GP_TORCH_SEGMENT_MAP] = GP_OP_SEGMENT_MAP,
		[GP_TORCH_SEGMENT_UNMAP] = GP_OP_SEGMENT_UNMAP,
		[GP_TORCH_OOM] = GP_OP_OOM,
	};

	return ops[what];
}

/* The model made a device call, or gave up: is it in the window? */
static void verify_observe(void *arg, enum gp_torch_event what, struct gp_range range,
			   uint32_t stream)
{
	struct verify *v = arg;
	enum gp_op op = verify_op(what);

	(void)stream;
	for (size_t i = v->from; i <= v->now && i < v->t->n_events; i++) {
		const struct gp_event *e = &v->t->events[i];

		if (e->op != op || v->seen[i] || e->size != range.size)
			continue;
		if (op != GP_OP_OOM && v->t->addrs[i] != range.addr)
			continue;
		v->seen[i] = true;
		verify_compare(v, true);
		return;
	}
	verify_compare(v, false);
	verify_differs(v, v->now,
		       "the model makes %s of %" PRIu64 " bytes at 0x%" PRIx64
		       ", which is not recorded here",
		       gp_op_name(op), range.size, range.addr);
}

/* What is recorded in the window and the model did not do; then the window is over. */
static void verify_close(struct verify *v)
{
	for (size_t i = v->from; i < v->now; i++) {
		const struct gp_event *e = &v->t->events[i];

		if (!verify_is_segment(e) || v->seen[i])
			continue;
		verify_compare(v, false);
		verify_differs(v, i,
			       "recorded %s of %" PRIu64 " bytes at 0x%" PRIx64
			       ", which the model does not make",
			       gp_op_name(e->op), e->size, v->t->addrs[i]);
	}
	v->from = v->now + 1;
}

/* ---- ends of deferred frees ---- */

/* A flush of the model's ended one by itself. */
static void verify_completed(void *arg, uint64_t addr, uint32_t ticket)
{
	struct verify *v = arg;

	(void)addr;
	v->pending[ticket] = false;
}

static void verify_fault(struct verify *v, int r, size_t event, const char *what)
{
	if (r >= 0 || v->fault)
		return;
	v->fault = r;
	verify_differs(v, event, "%s: %s", what, gp_result_text(r));
}

static void verify_end(struct verify *v, size_t i, bool by_flush)
{
	uint32_t id = v->t->events[i].id;

	if (!v->pending[id])
		return;
	if (by_flush) { /* at the end of the queue: recorded order */
		verify_fault(v, gp_defer(v->a, v->addrs[id], id), i, "defer");
		return;
	}
	v->pending[id] = false;
	verify_fault(v, gp_complete(v->a, v->addrs[id], id), i, "complete");
}

/* Would the request have been served, had this block been free before it? */
static bool verify_would_serve(const struct verify *v, const struct gp_event *end,
			       const struct gp_event *call)
{
	uint64_t rounded, segment;
	uint32_t id = end->id;

	if (call->op != GP_OP_ALLOC || !v->pending[id] ||
	    gp_trace_pool(v->t, end->link) != gp_trace_pool(v->t, v->now) ||
	    !gp_torch_sizes(v->a, call->size, &rounded, &segment))
		return false;
	return gp_torch_freed_size(v->a, v->addrs[id]) >= rounded;
}

/* Tells the model what ended in the window. A call that comes with segments given back may have
 * flushed: then ends that it cannot have seen are left to the model's own flush. */
static void verify_ends(struct verify *v, const struct gp_event *call, bool flush)
{
	bool by_flush = false;

	for (size_t i = v->from; i < v->now; i++) {
		const struct gp_event *e = &v->t->events[i];

		if (flush && verify_gives_back(e))
			by_flush = true;
		if (e->op != GP_OP_RECLAIM)
			continue;
		if (flush && !by_flush && call && e->stream == call->stream)
			by_flush = verify_would_serve(v, e, call);
		verify_end(v, i, by_flush);
	}
}

/* ---- calls ---- */

static bool verify_window_gives_back(const struct verify *v)
{
	for (size_t i = v->from; i < v->now; i++)
		if (verify_gives_back(&v->t->events[i]))
			return true;
	return false;
}

/* torch.cuda.empty_cache() */
static void verify_empty_cache(struct verify *v)
{
	for (size_t i = v->from; i < v->now; i++)
		if (v->t->events[i].op == GP_OP_RECLAIM)
			verify_end(v, i, true);
	verify_fault(v, gp_trim(v->a, 0, NULL), v->now, "empty_cache");
}

/* Memory is given back from a private pool only once the pool is given up, which no event tells. */
static void verify_release_pools(const struct verify *v)
{
	for (size_t i = v->from; i < v->now; i++)
		if (verify_gives_back(&v->t->events[i]))
			gp_torch_release_pool(v->a, gp_trace_pool(v->t, i));
}

/* What comes before the call at v->now. */
static void verify_open(struct verify *v, const struct gp_event *call)
{
	bool gives_back = verify_window_gives_back(v);
	bool request = call && (call->op == GP_OP_ALLOC || call->op == GP_OP_OOM);

	verify_release_pools(v);
	gp_recorded_device_now(v->dev, v->now);
	if (gives_back && (!v->limited || !request)) {
		verify_empty_cache(v);
		verify_ends(v, call, false);
	} else {
		verify_ends(v, call, gives_back);
	}
}

static void verify_alloc(struct verify *v, const struct gp_event *e, bool oom)
{
	struct gp_request req = { .size = e->size,
				  .stream = e->stream,
				  .pool = oom ? 0 : gp_trace_pool(v->t, v->now) };
	struct gp_block block = { 0, 0 };
	uint64_t recorded = oom ? 0 : v->t->addrs[v->now];
	int r = gp_alloc(v->a, &req, &block);

	verify_fault(v, r, v->now, "alloc");
	if (oom) {
		if (r)
			return; /* the observer compared it */
		verify_compare(v, false);
		verify_differs(v, v->now,
			       "recorded out of memory for %" PRIu64
			       " bytes, which the model serves",
			       e->size);
		verify_fault(v, gp_free(v->a, block.addr), v->now, "free");
		return;
	}
	if (!r)
		v->addrs[e->id] = block.addr;
	if (!recorded)
		return;
	verify_compare(v, block.addr == recorded);
	if (block.addr == recorded)
		return;
	if (r)
		verify_differs(v, v->now,
			       "alloc of %" PRIu64 " bytes on stream %u: recorded 0x%" PRIx64
			       ", the model is out of memory",
			       e->size, e->stream, recorded);
	else
		verify_differs(v, v->now,
			       "alloc of %" PRIu64 " bytes on stream %u: recorded 0x%" PRIx64
			       ", the model gives 0x%" PRIx64,
			       e->size, e->stream, recorded, block.addr);
}

static void verify_free(struct verify *v, const struct gp_event *e)
{
	uint64_t addr = v->addrs[e->id];
	bool deferred = gp_event_flags(e) & GP_EVENT_DEFERRED;

	if (!addr)
		return;
	v->pending[e->id] = deferred;
	verify_fault(v, deferred ? gp_defer(v->a, addr, e->id) : gp_free(v->a, addr), v->now,
		     "free");
}

static void verify_run(struct verify *v)
{
	for (v->now = 0; v->now < v->t->n_events && !v->fault; v->now++) {
		const struct gp_event *e = &v->t->events[v->now];

		if (e->op != GP_OP_ALLOC && e->op != GP_OP_FREE && e->op != GP_OP_OOM &&
		    e->op != GP_OP_TRIM)
			continue;
		verify_open(v, e);
		if (e->op == GP_OP_FREE)
			verify_free(v, e);
		else if (e->op == GP_OP_TRIM)
			verify_fault(v, gp_trim(v->a, 0, NULL), v->now, "empty_cache");
		else
			verify_alloc(v, e, e->op == GP_OP_OOM);
		/* Ends that were left to a flush that did not come. */
		verify_ends(v, NULL, false);
		verify_close(v);
	}
	if (v->fault)
		return;
	verify_open(v, NULL);
	verify_close(v);
}

/* ---- setting up ---- */

/* The most that the recorded allocator held at once. */
static uint64_t verify_recorded_peak(const struct gp_trace *t)
{
	uint64_t held = 0, peak = GP_GIB;

	for (size_t i = 0; i < t->n_events; i++) {
		const struct gp_event *e = &t->events[i];

		if (e->op == GP_OP_SEGMENT_ALLOC || e->op == GP_OP_SEGMENT_MAP)
			held += e->size;
		else if (verify_gives_back(e))
			held -= gp_min_u64(held, e->size);
		peak = gp_max_u64(peak, held);
	}
	return peak;
}

static int verify_refuse(char *why, size_t size, int err, const char *text)
{
	snprintf(why, size, "%s", text);
	return err;
}

static int verify_prepare(struct verify *v, const char *spec, uint64_t total_bytes, char *why,
			  size_t why_size)
{
	const struct gp_trace *t = v->t;
	uint64_t total = total_bytes ? total_bytes : t->device_bytes;
	int r;

	if (!t->addrs)
		return verify_refuse(
			why, why_size, -EINVAL,
			"no addresses are recorded in this trace: nothing to compare with");
	if (!total)
		total = VERIFY_ROOM * verify_recorded_peak(t);
	v->seen = calloc(t->n_events, sizeof(*v->seen));
	v->addrs = calloc(t->n_ids, sizeof(*v->addrs));
	v->pending = calloc(t->n_ids, sizeof(*v->pending));
	v->dev = gp_recorded_device_open(t, total);
	if (!v->seen || !v->addrs || !v->pending || !v->dev)
		return verify_refuse(why, why_size, -ENOMEM, "out of memory");
	r = gp_allocator_create(spec, v->dev, NULL, &v->a, why, why_size);
	if (r)
		return r > 0 ? -EINVAL : r;
	if (!gp_torch_observe(v->a, verify_observe, v))
		return verify_refuse(why, why_size, -EINVAL,
				     "--verify-recording needs a model of the recorded allocator: "
				     "--alloc=torch");
	v->a->completed = verify_completed;
	v->a->completed_arg = v;
	v->limited = gp_torch_is_limited(v->a);
	return 0;
}

int gp_verify_recording(const struct gp_trace *trace, const char *spec, uint64_t total_bytes,
			struct gp_verify *out, char *why, size_t why_size)
{
	struct verify v = { .t = trace, .out = out };
	int r;

	*out = (struct gp_verify){ 0 };
	r = verify_prepare(&v, spec, total_bytes, why, why_size);
	if (!r) {
		verify_run(&v);
		gp_torch_observe(v.a, NULL, NULL);
		v.a->completed = NULL;
	}
	gp_allocator_destroy(v.a);
	gp_device_close(v.dev);
	free(v.seen);
	free(v.addrs);
	free(v.pending);
	return r;
}
