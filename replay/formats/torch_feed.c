/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_feed: the trace of one GPU, out of what torch_dict.c put aside.
 *
 * Shape       Blocks are known by address. Two passes over the events: the first finds the blocks
 *             that were there before the recording, the second hands everything to the builder.
 *
 *               first seen in      becomes
 *               alloc              nothing yet
 *               free_requested     an assumed ALLOC at the front
 *               free_completed     an assumed ALLOC and its FREE at the front (it was waiting for
 *                                  another stream), and a RECLAIM here
 *               the final state    an assumed ALLOC at the front; never freed
 *
 * Frees       free_requested is the FREE. A free_completed right behind it is part of it; one that
 *             comes later is the RECLAIM. A block that still waits at the end has its RECLAIM
 * there. Recordings without the one or the other (skip_actions) have plain frees. Time        the
 * order of the list is right and the clock may be off: an event that is earlier than the one before
 * gets its time. Cost        two look-ups of an address an event
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch_snapshot.h"

/* How an address stands: the low bits of its entry in the map. Above them is the number of the
 * event that made it so, from 1; 0: it was so before the recording. */
enum feed_state {
	FEED_UNBORN, /* allocated later on */
	FEED_LIVE,
	FEED_PENDING, /* freed, not yet to be had again */
	FEED_FREED,
};

#define FEED_STATE_BITS 2u

struct feed {
	struct gp_torch *s;
	struct gp_trace_builder *b;
	uint32_t device;
	struct gp_torch_range events;
	struct gp_id_map addresses;
	bool has_requests, has_completions;
	uint64_t base_us, last_ns;
	uint64_t next_mark;
	uint64_t n_assumed, assumed_bytes, n_live, n_back, n_waiting;
};

static const uint8_t feed_ops[GP_TORCH_WORDS] = {
	[GP_TORCH_SEGMENT_ALLOC] = GP_OP_SEGMENT_ALLOC,
	[GP_TORCH_SEGMENT_FREE] = GP_OP_SEGMENT_FREE,
	[GP_TORCH_SEGMENT_MAP] = GP_OP_SEGMENT_MAP,
	[GP_TORCH_SEGMENT_UNMAP] = GP_OP_SEGMENT_UNMAP,
	[GP_TORCH_OOM] = GP_OP_OOM,
};

/* ---- which GPU ---- */

/* Events of a GPU that has a list of them; else 0. */
static uint64_t feed_n_events(const struct gp_torch *s, uint64_t device)
{
	return device < s->device_traces.n ? s->traces[s->device_traces.first + device].n : 0;
}

static void feed_count_blocks(const struct gp_torch *s, uint64_t *n_blocks)
{
	memset(n_blocks, 0, GP_TORCH_DEVICES_MAX * sizeof(*n_blocks));
	for (uint64_t i = 0; i < s->n_blocks; i++)
		n_blocks[s->blocks[i].device]++;
}

/* "0 (39008 events, 12 blocks in use), 1 (...)" */
static void feed_list_devices(const struct gp_torch *s, const uint64_t *n_blocks, char *text,
			      size_t size)
{
	size_t used = 0;

	*text = 0;
	for (uint32_t i = 0; i < GP_TORCH_DEVICES_MAX && used + 64 < size; i++)
		if (feed_n_events(s, i) || n_blocks[i])
			used += (size_t)snprintf(
				text + used, size - used, "%s%u (%llu events, %llu blocks in use)",
				used ? ", " : "", i, (unsigned long long)feed_n_events(s, i),
				(unsigned long long)n_blocks[i]);
}

static int feed_nothing(const struct gp_torch *s)
{
	return gp_trace_builder_refuse(
		s->builder, GP_TRACE_WHOLE,
		"the snapshot has no events and no blocks in use, expected a recording: call "
		"torch.cuda.memory._record_memory_history() before the first CUDA tensor");
}

/* The GPU asked for; else the busiest, by events, then by blocks in use. */
static int feed_choose_device(struct feed *f)
{
	const struct gp_trace_options *options = gp_trace_builder_options(f->b);
	uint64_t *n_blocks = malloc(GP_TORCH_DEVICES_MAX * sizeof(*n_blocks));
	unsigned n_used = 0, best = 0;
	char list[256];
	int r = 0;

	if (!n_blocks)
		return -ENOMEM;
	feed_count_blocks(f->s, n_blocks);
	feed_list_devices(f->s, n_blocks, list, sizeof(list));
	for (unsigned i = 0; i < GP_TORCH_DEVICES_MAX; i++) {
		uint64_t n = feed_n_events(f->s, i), most = feed_n_events(f->s, best);

		n_used += n || n_blocks[i];
		if (n > most || (n == most && n_blocks[i] > n_blocks[best]))
			best = i;
	}
	f->device = options->has_gpu ? options->gpu : best;
	if (!n_used)
		r = feed_nothing(f->s);
	else if (f->device >= GP_TORCH_DEVICES_MAX ||
		 (!feed_n_events(f->s, f->device) && !n_blocks[f->device]))
		r = gp_trace_builder_refuse(f->b, GP_TRACE_WHOLE,
					    "nothing recorded of GPU %u, expected one of %s",
					    f->device, list);
	else if (n_used > 1 && !options->has_gpu)
		r = gp_trace_builder_note(f->b,
					  "several GPUs were recorded: %s; this is the busiest, %u "
					  "(choose with --gpu=N)",
					  list, f->device);
	free(n_blocks);
	if (!r && f->device < f->s->device_traces.n)
		f->events = f->s->traces[f->s->device_traces.first + f->device];
	return r;
}

static int feed_header(struct feed *f)
{
	const struct gp_torch *s = f->s;
	const char *settings = s->has_settings ? s->texts[s->settings] : "";
	size_t size = strlen(settings) + 128;
	char *source = malloc(size);
	int r;

	if (!source)
		return -ENOMEM;
	snprintf(source, size, "PyTorch memory snapshot, GPU %u%s%s", f->device,
		 s->has_settings ? "; PYTORCH_CUDA_ALLOC_CONF=" : "", settings);
	r = gp_trace_builder_header(f->b, NULL, source, NULL, 0);
	free(source);
	return r;
}

/* ---- addresses ---- */

static struct gp_torch_event *feed_event(const struct feed *f, uint64_t i)
{
	return gp_torch_event_at(f->s, f->events.first + i);
}

static int feed_set(struct feed *f, uint64_t addr, enum feed_state state, uint64_t event)
{
	return gp_id_map_put(&f->addresses, addr, (uint32_t)(event << FEED_STATE_BITS) | state);
}

static enum feed_state feed_get(const struct feed *f, uint64_t addr, uint32_t *event)
{
	uint32_t entry = gp_id_map_find(&f->addresses, addr);

	*event = entry == GP_ID_MAP_NONE ? 0 : entry >> FEED_STATE_BITS;
	return entry == GP_ID_MAP_NONE ? FEED_UNBORN
				       : (enum feed_state)(entry & ((1u << FEED_STATE_BITS) - 1));
}

/* A block from before the recording: `pending` when it had been freed, and waited. */
static int feed_assume(struct feed *f, uint64_t addr, uint64_t size, uint64_t stream, bool pending)
{
	struct gp_trace_record record = { .op = GP_OP_ALLOC,
					  .id = addr,
					  .addr = addr,
					  .size = size,
					  .stream = stream,
					  .pool = gp_torch_pool_at(f->s, addr, 0),
					  .assumed = true };
	int r = gp_trace_builder_add(f->b, &record, GP_TRACE_WHOLE);

	f->n_assumed++;
	f->assumed_bytes += size;
	f->n_live += !pending;
	record = (struct gp_trace_record){ .op = GP_OP_FREE, .id = addr };
	if (!r && pending)
		r = gp_trace_builder_add(f->b, &record, GP_TRACE_WHOLE);
	return r ? r : feed_set(f, addr, pending ? FEED_PENDING : FEED_LIVE, 0);
}

/* ---- the first pass ---- */

static bool feed_is_free(const struct gp_torch_event *e)
{
	return e->action == GP_TORCH_FREE || e->action == GP_TORCH_FREE_REQUESTED ||
	       e->action == GP_TORCH_FREE_COMPLETED;
}

static int feed_survey(struct feed *f)
{
	int r = 0;

	for (uint64_t i = 0; i < f->events.n; i++) {
		const struct gp_torch_event *e = feed_event(f, i);

		f->has_requests |= e->action == GP_TORCH_FREE_REQUESTED;
		f->has_completions |= e->action == GP_TORCH_FREE_COMPLETED;
		if (!f->base_us)
			f->base_us = e->time_us;
	}
	for (uint64_t i = 0; !r && i < f->events.n; i++) {
		const struct gp_torch_event *e = feed_event(f, i);
		/* The first of all may have lost its free_requested by a hair. */
		bool pending = e->action == GP_TORCH_FREE_COMPLETED && (f->has_requests || !i);

		if ((e->action != GP_TORCH_ALLOC && !feed_is_free(e)) ||
		    gp_id_map_find(&f->addresses, e->addr) != GP_ID_MAP_NONE)
			continue;
		if (e->action == GP_TORCH_ALLOC)
			r = feed_set(f, e->addr, FEED_UNBORN, 0);
		else
			r = feed_assume(f, e->addr, e->size, e->stream, pending);
	}
	return r;
}

/* Blocks in use at the end that no event ever named were there all the time. */
static int feed_survey_state(struct feed *f)
{
	int r = 0;

	for (uint64_t i = 0; !r && !f->s->cut && i < f->s->n_blocks; i++) {
		const struct gp_torch_block *b = &f->s->blocks[i];

		if (b->device == f->device &&
		    gp_id_map_find(&f->addresses, b->addr) == GP_ID_MAP_NONE)
			r = feed_assume(f, b->addr, b->size, b->stream,
					b->state != GP_TORCH_ACTIVE_ALLOCATED);
	}
	return r;
}

/* ---- marks ---- */

static int feed_by_time(const void *a, const void *b)
{
	const struct gp_torch_annotation *x = a, *y = b;

	if (x->time_us != y->time_us)
		return x->time_us < y->time_us ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Keeps the marks of this GPU, by time. They come in order; sorting is for the odd file. */
static void feed_sort_marks(struct feed *f)
{
	struct gp_torch_annotation *a = f->s->annotations;
	uint64_t kept = 0;
	bool sorted = true;

	for (uint64_t i = 0; i < f->s->n_annotations; i++) {
		if (a[i].device != f->device && a[i].device != GP_TORCH_ANY_DEVICE)
			continue;
		a[kept++] = a[i];
		sorted = sorted && (kept < 2 || a[kept - 2].time_us <= a[kept - 1].time_us);
	}
	f->s->n_annotations = kept;
	if (!sorted)
		qsort(a, (size_t)kept, sizeof(*a), feed_by_time);
}

/* In nanoseconds since the first event, never decreasing. */
static uint64_t feed_time(struct feed *f, uint64_t time_us)
{
	uint64_t since = time_us > f->base_us ? time_us - f->base_us : 0;
	uint64_t ns = since > UINT64_MAX / 1000 ? UINT64_MAX : since * 1000;

	f->last_ns = gp_max_u64(f->last_ns, ns);
	return f->last_ns;
}

/* The marks up to then. */
static int feed_marks(struct feed *f, uint64_t time_us)
{
	const struct gp_torch *s = f->s;
	int r = 0;

	while (!r && f->next_mark < s->n_annotations &&
	       s->annotations[f->next_mark].time_us <= time_us) {
		const struct gp_torch_annotation *a = &s->annotations[f->next_mark++];
		struct gp_trace_record record = { .op = GP_OP_MARK,
						  .mark = s->texts[a->text],
						  .t_ns = feed_time(f, a->time_us) };

		r = gp_trace_builder_add(f->b, &record, GP_TRACE_WHOLE);
	}
	return r;
}

/* ---- the second pass; each returns 0, GP_REFUSED (left out) or a negative number ---- */

static int feed_alloc(struct feed *f, const struct gp_torch_event *e, uint64_t number)
{
	uint32_t before;
	enum feed_state state = feed_get(f, e->addr, &before);

	if (state == FEED_LIVE || state == FEED_PENDING)
		return gp_trace_builder_problem(
			f->b, GP_SKIP_DUPLICATE_ID, GP_TRACE_EVENT | number,
			"alloc at 0x%llx, where the block of event %u is %s, expected its "
			"free%s before",
			(unsigned long long)e->addr, before,
			state == FEED_LIVE ? "live" : "not reusable yet",
			state == FEED_LIVE ? "" : "_completed");
	f->n_live++;
	return feed_set(f, e->addr, FEED_LIVE, number);
}

/* *op: FREE, RECLAIM, or GP_OP_N when there is nothing to add. */
static int feed_free(struct feed *f, const struct gp_torch_event *e, uint64_t number,
		     enum gp_op *op)
{
	bool completed = e->action == GP_TORCH_FREE_COMPLETED;
	bool waits = e->action == GP_TORCH_FREE_REQUESTED && f->has_completions;
	uint32_t before;
	enum feed_state state = feed_get(f, e->addr, &before);

	*op = GP_OP_FREE;
	if (state == FEED_PENDING && completed) {
		bool adjacent = before + 1 == number;

		*op = adjacent ? GP_OP_N : GP_OP_RECLAIM;
	} else if (state != FEED_LIVE) {
		return gp_trace_builder_problem(
			f->b, GP_SKIP_UNKNOWN_ID, GP_TRACE_EVENT | number,
			"%s at 0x%llx, which event %u freed (double free), expected a live block",
			gp_torch_word_name(e->action), (unsigned long long)e->addr, before);
	} else {
		f->n_live--;
	}
	return feed_set(f, e->addr, waits ? FEED_PENDING : FEED_FREED, number);
}

static int feed_one(struct feed *f, const struct gp_torch_event *e, uint64_t number)
{
	struct gp_trace_record record = { .op = (enum gp_op)feed_ops[e->action],
					  .id = e->addr,
					  .addr = e->addr,
					  .size = e->size,
					  .stream = e->stream,
					  .t_ns = feed_time(f, e->time_us) };
	int r = 0;

	record.pool = e->has_pool ? e->pool : gp_torch_pool_at(f->s, e->addr, number);
	if (e->action == GP_TORCH_ALLOC) {
		record.op = GP_OP_ALLOC;
		r = feed_alloc(f, e, number);
	} else if (feed_is_free(e)) {
		record.size = 0; /* its alloc said so */
		r = feed_free(f, e, number, &record.op);
	} else if (e->action >= GP_TORCH_SNAPSHOT) {
		return 0;
	}
	if (r || record.op == GP_OP_N)
		return r == GP_REFUSED ? 0 : r;
	return gp_trace_builder_add(f->b, &record, GP_TRACE_EVENT | number);
}

static int feed_events(struct feed *f)
{
	uint64_t time_us = f->base_us;
	int r = 0;

	for (uint64_t i = 0; !r && i < f->events.n; i++) {
		uint64_t at = f->events.first + i;
		const struct gp_torch_event *e = feed_event(f, i);

		f->n_back += e->time_us && e->time_us < time_us;
		time_us = gp_max_u64(time_us, e->time_us);
		r = feed_marks(f, time_us);
		if (!r)
			r = feed_one(f, e, i + 1);
		if (at % GP_TORCH_CHUNK == GP_TORCH_CHUNK - 1) { /* the builder has them now */
			free(f->s->chunks[at / GP_TORCH_CHUNK]);
			f->s->chunks[at / GP_TORCH_CHUNK] = NULL;
		}
	}
	return r ? r : feed_marks(f, UINT64_MAX);
}

/* ---- the end ---- */

/* Blocks that still wait for a stream are held up to here. Compares the state, where it is known,
 * with what the events come to. */
static int feed_end(struct feed *f)
{
	uint64_t n_state = 0;
	int r = 0;

	for (uint64_t i = 0; !r && !f->s->cut && i < f->s->n_blocks; i++) {
		const struct gp_torch_block *b = &f->s->blocks[i];
		struct gp_trace_record record = { .op = GP_OP_RECLAIM,
						  .id = b->addr,
						  .t_ns = f->last_ns };
		uint32_t before;

		if (b->device != f->device)
			continue;
		n_state += b->state == GP_TORCH_ACTIVE_ALLOCATED;
		if (b->state == GP_TORCH_ACTIVE_ALLOCATED ||
		    feed_get(f, b->addr, &before) != FEED_PENDING)
			continue;
		f->n_waiting++;
		r = gp_trace_builder_add(f->b, &record, GP_TRACE_EVENT | f->events.n);
		if (!r)
			r = feed_set(f, b->addr, FEED_FREED, f->events.n);
	}
	if (!r && !f->s->cut && f->s->has_state && n_state != f->n_live)
		r = gp_trace_builder_note(
			f->b,
			"%llu blocks are live at the end by the events and %llu "
			"by the state that the snapshot shows: other threads went "
			"on while it was taken, or skip_actions left events out",
			(unsigned long long)f->n_live, (unsigned long long)n_state);
	return r;
}

static int feed_notes(struct feed *f)
{
	int r = 0;

	if (!f->events.n)
		r = gp_trace_builder_note(
			f->b,
			"no history was recorded of this GPU: these are the %llu blocks in use when "
			"the snapshot was taken; for a history call "
			"torch.cuda.memory._record_memory_history(context=None) before the first "
			"CUDA tensor",
			(unsigned long long)f->n_assumed);
	else if (f->n_assumed)
		r = gp_trace_builder_note(
			f->b,
			"the recording began late, or max_entries was too small: %llu blocks of "
			"%llu bytes were live before it; they are assumed to be allocated at the "
			"front",
			(unsigned long long)f->n_assumed, (unsigned long long)f->assumed_bytes);
	if (!r && f->events.n && !f->base_us)
		r = gp_trace_builder_note(f->b, "the events have no time: every time is 0");
	if (!r && f->n_back)
		r = gp_trace_builder_note(
			f->b,
			"%llu events are earlier than the one before: their order "
			"is kept, and they have its time",
			(unsigned long long)f->n_back);
	if (!r && f->n_waiting)
		r = gp_trace_builder_note(f->b,
					  "%llu freed blocks still waited for a stream at the end: "
					  "they are reusable only there",
					  (unsigned long long)f->n_waiting);
	if (!r && f->s->pool_map.n > GP_TRACE_POOL_MAX)
		r = gp_trace_builder_note(f->b,
					  "%u private pools, of which a trace tells %u apart: some "
					  "share a number",
					  f->s->pool_map.n, GP_TRACE_POOL_MAX);
	if (!r && f->s->cut)
		r = gp_trace_builder_note(f->b, "the file breaks off: its events end there, and "
						"blocks that none of them names are missing");
	return r;
}

int gp_torch_feed(struct gp_torch *s)
{
	struct feed f = { .s = s, .b = s->builder };
	int r = feed_choose_device(&f);

	gp_id_map_init(&f.addresses);
	gp_torch_pools_begin(s, f.device, f.events);
	if (!r)
		r = feed_header(&f);
	if (!r)
		r = feed_survey(&f);
	if (!r)
		r = feed_survey_state(&f);
	if (!r) {
		feed_sort_marks(&f);
		r = feed_events(&f);
	}
	if (!r)
		r = feed_end(&f);
	if (!r)
		r = feed_notes(&f);
	gp_id_map_fini(&f.addresses);
	return r;
}
