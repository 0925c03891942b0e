/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_dict: the dicts and lists of a PyTorch snapshot, from the innermost to the outermost,
 * become records put aside (torch_snapshot.h).
 *
 * Shape        a dict is known by a key that no other has: "action" an event, "state" a block,
 *              "blocks" a segment, "stage" an annotation. Lists of one sort are a range of records.
 *              Whether all this stands where it should is seen when the outermost dict is whole.
 * Invariants   the records of a list follow each other without a gap
 * Cost         O(1) an item
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "torch_snapshot.h"

/* A number of events has to leave two bits of 32 to the state of an address (torch_feed.c). */
#define TORCH_EVENTS_MAX (((uint64_t)1 << 30) - 2)

void gp_torch_init(struct gp_torch *s, struct gp_trace_builder *b)
{
	memset(s, 0, sizeof(*s));
	s->builder = b;
	gp_id_map_init(&s->text_map);
	gp_id_map_init(&s->pool_map);
}

void gp_torch_fini(struct gp_torch *s)
{
	for (uint64_t i = 0; i * GP_TORCH_CHUNK < s->n_events; i++)
		free(s->chunks[i]);
	free(s->chunks);
	free(s->traces);
	free(s->blocks);
	free(s->segments);
	free(s->annotations);
	for (uint64_t i = 0; i < s->n_texts; i++)
		free(s->texts[i]);
	free(s->texts);
	gp_id_map_fini(&s->text_map);
	gp_id_map_fini(&s->pool_map);
}

int gp_torch_reserve(void *array, uint64_t n, size_t *capacity, size_t element_size)
{
	void **p = array;
	size_t next = *capacity ? 2 * *capacity : 64;
	void *grown;

	if (n < *capacity)
		return 0;
	grown = realloc(*p, next * element_size);
	if (!grown)
		return -ENOMEM;
	*p = grown;
	*capacity = next;
	return 0;
}

/* ---- values ---- */

static const char *torch_kind_name(const struct gp_plain *v)
{
	static const char *const names[] = {
		[GP_PLAIN_NONE] = "None",
		[GP_PLAIN_BOOL] = "a bool",
		[GP_PLAIN_UNSIGNED] = "a number",
		[GP_PLAIN_NEGATIVE] = "a negative number",
		[GP_PLAIN_HUGE] = "a number of more than 64 bits",
		[GP_PLAIN_FLOAT] = "a fraction",
		[GP_PLAIN_WORD] = "a string",
		[GP_PLAIN_TEXT] = "a string",
		[GP_PLAIN_STRING] = "a string",
		[GP_PLAIN_LIST] = "a list",
		[GP_PLAIN_DICT] = "a dict",
		[GP_PLAIN_SHARED] = "something used twice",
		[GP_PLAIN_OTHER] = "bytes or a set",
	};

	_Static_assert(GP_ARRAY_LEN(names) == GP_PLAIN_N, "every kind has its name");
	return names[v->kind];
}

static bool torch_has(const struct gp_torch_dict *d, enum gp_torch_word key)
{
	return d->seen >> key & 1;
}

/* A whole number into *out, which is left alone when the key is missing and may be. A stream is a
 * handle: any 64 bits. */
static int torch_number(struct gp_torch *s, const struct gp_torch_dict *d, enum gp_torch_word key,
			bool required, uint64_t at, uint64_t *out)
{
	const struct gp_plain *v = &d->value[key];
	const char *name = gp_torch_word_name(key);

	if (!torch_has(d, key) && !required)
		return 0;
	if (!torch_has(d, key))
		return gp_trace_builder_problem(s->builder, GP_SKIP_BAD_EVENT, at,
						"no \"%s\", expected a whole number", name);
	if (v->kind != GP_PLAIN_UNSIGNED &&
	    !(v->kind == GP_PLAIN_NEGATIVE && key == GP_TORCH_STREAM))
		return gp_trace_builder_problem(s->builder, GP_SKIP_BAD_EVENT, at,
						"\"%s\" is %s, expected a whole number, 0 or more",
						name, torch_kind_name(v));
	*out = v->number;
	return 0;
}

/* A pool's id is two numbers; whatever else it is says nothing. */
static bool torch_has_pool(const struct gp_torch_dict *d, enum gp_torch_word key)
{
	return torch_has(d, key) && d->value[key].tag == GP_TORCH_TAG_NUMBERS &&
	       d->value[key].n == 2;
}

/* The string, where we have it; else what it is instead. */
static const char *torch_text(const struct gp_torch *s, const struct gp_plain *v)
{
	if (v->kind == GP_PLAIN_WORD)
		return gp_torch_word_name((uint32_t)v->number);
	return v->kind == GP_PLAIN_TEXT ? s->texts[v->number] : torch_kind_name(v);
}

struct torch_quote {
	char text[44];
};

/* Its beginning in printable ASCII, for a message. */
static struct torch_quote torch_quote(const struct gp_torch *s, const struct gp_plain *v)
{
	struct torch_quote q;
	const char *text = torch_text(s, v);
	size_t n = 0;

	for (; text[n] && n < sizeof(q.text) - 1; n++)
		q.text[n] = (char)(text[n] >= ' ' && text[n] <= '~' ? text[n] : '?');
	q.text[n] = 0;
	return q;
}

/* ---- dicts; each returns 0, GP_REFUSED (left out) or a negative number ---- */

static int torch_add_event(struct gp_torch *s, const struct gp_torch_event *e)
{
	int r;

	if (s->n_events == TORCH_EVENTS_MAX)
		return gp_trace_builder_refuse(s->builder, GP_TRACE_EVENT | s->n_events,
					       "one event more, expected fewer than 2^30");
	if (s->n_events % GP_TORCH_CHUNK == 0) {
		size_t i = (size_t)(s->n_events / GP_TORCH_CHUNK);

		r = gp_torch_reserve(&s->chunks, i, &s->chunks_capacity, sizeof(*s->chunks));
		if (r)
			return r;
		s->chunks[i] = malloc(GP_TORCH_CHUNK * sizeof(**s->chunks));
		if (!s->chunks[i])
			return -ENOMEM;
	}
	*gp_torch_event_at(s, s->n_events++) = *e;
	return 0;
}

static int torch_event(struct gp_torch *s, const struct gp_torch_dict *d, uint64_t at,
		       struct gp_plain *out)
{
	const struct gp_plain *action = &d->value[GP_TORCH_ACTION];
	struct gp_torch_event e = { .addr = 0 };
	bool has_addr, counts;
	int r;

	if (action->kind != GP_PLAIN_WORD || action->number < GP_TORCH_ALLOC ||
	    action->number > GP_TORCH_USER_DEFINED)
		return gp_trace_builder_problem(
			s->builder, GP_SKIP_UNKNOWN_OP, at,
			"\"action\" is %s, expected alloc, free_requested, free_completed, "
			"segment_..., oom or snapshot",
			torch_quote(s, action).text);
	e.action = (uint8_t)action->number;
	counts = e.action < GP_TORCH_SNAPSHOT;
	has_addr = counts && e.action != GP_TORCH_OOM;
	r = torch_number(s, d, GP_TORCH_SIZE, counts, at, &e.size);
	if (!r)
		r = torch_number(s, d, has_addr ? GP_TORCH_ADDR : GP_TORCH_DEVICE_FREE, has_addr,
				 at, &e.addr);
	if (!r)
		r = torch_number(s, d, GP_TORCH_STREAM, false, at, &e.stream);
	if (!r)
		r = torch_number(s, d, GP_TORCH_TIME_US, false, at, &e.time_us);
	e.has_pool = torch_has_pool(d, GP_TORCH_POOL_ID);
	if (!r && e.has_pool)
		r = gp_torch_pool(s, &d->value[GP_TORCH_POOL_ID], &e.pool);
	if (r)
		return r;
	out->tag = GP_TORCH_TAG_EVENT;
	out->number = s->n_events;
	return torch_add_event(s, &e);
}

static int torch_block(struct gp_torch *s, const struct gp_torch_dict *d, uint64_t at,
		       struct gp_plain *out)
{
	const struct gp_plain *state = &d->value[GP_TORCH_STATE];
	const struct gp_plain *history = &d->value[GP_TORCH_HISTORY];
	struct gp_torch_block b = { .has_addr = torch_has(d, GP_TORCH_ADDRESS) };
	int r;

	if (state->kind != GP_PLAIN_WORD || state->number < GP_TORCH_ACTIVE_ALLOCATED ||
	    state->number > GP_TORCH_INACTIVE)
		return gp_trace_builder_problem(s->builder, GP_SKIP_BAD_EVENT, at,
						"\"state\" of a block is %s, expected "
						"active_allocated, active_pending_free or inactive",
						torch_quote(s, state).text);
	b.state = (uint8_t)state->number;
	r = torch_number(s, d, GP_TORCH_SIZE, true, at, &b.true_size);
	/* Files of 2022 and 2023 tell what was asked for in the newest entry of the history. */
	b.size = b.true_size;
	if (!r && torch_has(d, GP_TORCH_HISTORY) && history->tag == GP_TORCH_TAG_HISTORY)
		b.size = history->number;
	if (!r)
		r = torch_number(s, d, GP_TORCH_REQUESTED_SIZE, false, at, &b.size);
	if (!r)
		r = torch_number(s, d, GP_TORCH_ADDRESS, false, at, &b.addr);
	if (!r)
		r = gp_torch_reserve(&s->blocks, s->n_blocks, &s->blocks_capacity,
				     sizeof(*s->blocks));
	if (r)
		return r;
	out->tag = GP_TORCH_TAG_BLOCK;
	out->number = s->n_blocks;
	s->blocks[s->n_blocks++] = b;
	return 0;
}

/* Keeps the segment when it is of a private pool: only those need to be told apart. */
static int torch_add_segment(struct gp_torch *s, const struct gp_torch_dict *d, uint64_t device,
			     uint64_t address, uint64_t at)
{
	struct gp_torch_segment g = { .addr = address, .device = (uint32_t)device };
	int r = 0;

	if (torch_has_pool(d, GP_TORCH_SEGMENT_POOL_ID))
		r = gp_torch_pool(s, &d->value[GP_TORCH_SEGMENT_POOL_ID], &g.pool);
	if (r || !g.pool)
		return r;
	r = torch_number(s, d, GP_TORCH_TOTAL_SIZE, true, at, &g.size);
	if (!r)
		r = gp_torch_reserve(&s->segments, s->n_segments, &s->segments_capacity,
				     sizeof(*s->segments));
	if (!r)
		s->segments[s->n_segments++] = g;
	return r;
}

/* Keeps the blocks in use, which now learn where they are. */
static int torch_segment(struct gp_torch *s, const struct gp_torch_dict *d, uint64_t at,
			 struct gp_plain *out)
{
	const struct gp_plain *list = &d->value[GP_TORCH_BLOCKS];
	uint64_t device = 0, stream = 0, address = 0, kept = list->number;
	int r;

	if (list->kind != GP_PLAIN_LIST || (list->n && list->tag != GP_TORCH_TAG_BLOCK) ||
	    (list->n && list->number + list->n != s->n_blocks))
		return gp_trace_builder_refuse(s->builder, at,
					       "\"blocks\" of a segment is %s%s, expected a list "
					       "of blocks",
					       torch_kind_name(list),
					       list->kind == GP_PLAIN_LIST ? " of other things"
									   : "");
	out->tag = GP_TORCH_TAG_SEGMENT;
	r = torch_number(s, d, GP_TORCH_DEVICE, false, at, &device);
	if (!r)
		r = torch_number(s, d, GP_TORCH_STREAM, false, at, &stream);
	if (!r)
		r = torch_number(s, d, GP_TORCH_ADDRESS, true, at, &address);
	if (!r && device >= GP_TORCH_DEVICES_MAX)
		r = gp_trace_builder_problem(s->builder, GP_SKIP_BAD_EVENT, at,
					     "a segment of device %llu, expected less than %u",
					     (unsigned long long)device, GP_TORCH_DEVICES_MAX);
	if (!r)
		r = torch_add_segment(s, d, device, address, at);
	for (uint64_t i = list->number; !r && i < list->number + list->n; i++) {
		struct gp_torch_block b = s->blocks[i];

		if (!b.has_addr)
			b.addr = address;
		address = b.addr + b.true_size;
		b.device = (uint32_t)device;
		b.stream = stream;
		if (b.state != GP_TORCH_INACTIVE)
			s->blocks[kept++] = b;
	}
	if (list->n)
		s->n_blocks = kept;
	return r;
}

static int torch_annotation(struct gp_torch *s, const struct gp_torch_dict *d, uint64_t at,
			    struct gp_plain *out)
{
	const struct gp_plain *name = &d->value[GP_TORCH_NAME];
	const struct gp_plain *stage = &d->value[GP_TORCH_STAGE];
	struct gp_torch_annotation a = { .device = GP_TORCH_ANY_DEVICE };
	uint64_t device = GP_TORCH_ANY_DEVICE, text = name->number;
	int r = torch_number(s, d, GP_TORCH_DEVICE, false, at, &device);

	if (!r)
		r = torch_number(s, d, GP_TORCH_TIME_US, true, at, &a.time_us);
	if (!r && (!torch_has(d, GP_TORCH_NAME) ||
		   (name->kind != GP_PLAIN_TEXT && name->kind != GP_PLAIN_WORD)))
		r = gp_trace_builder_problem(s->builder, GP_SKIP_BAD_EVENT, at,
					     "an annotation without a name, expected \"name\"");
	/* A mark is the beginning of a phase. Ends are not marks. */
	out->tag = GP_TORCH_TAG_SKIPPED;
	if (r || stage->kind != GP_PLAIN_WORD || stage->number != GP_TORCH_START)
		return r;
	if (name->kind == GP_PLAIN_WORD)
		r = gp_torch_text(s, torch_text(s, name), strlen(torch_text(s, name)), &text);
	if (!r)
		r = gp_torch_reserve(&s->annotations, s->n_annotations, &s->annotations_capacity,
				     sizeof(*s->annotations));
	if (r)
		return r;
	a.text = (uint32_t)text;
	a.device = (uint32_t)gp_min_u64(device, GP_TORCH_ANY_DEVICE);
	out->tag = GP_TORCH_TAG_ANNOTATION;
	out->number = s->n_annotations;
	s->annotations[s->n_annotations++] = a;
	return 0;
}

/* A list of `tag` in the snapshot's own dict, or an empty one. */
static int torch_check_list(struct gp_torch *s, const struct gp_plain *v, enum gp_torch_word key,
			    enum gp_torch_tag tag, const char *expected, uint64_t at)
{
	if (v->kind == GP_PLAIN_LIST && (!v->n || v->tag == tag))
		return 0;
	return gp_trace_builder_refuse(
		s->builder, at, "\"%s\" is %s%s, expected a list of %s", gp_torch_word_name(key),
		torch_kind_name(v), v->kind == GP_PLAIN_LIST ? " of other things" : "", expected);
}

static int torch_snapshot(struct gp_torch *s, const struct gp_torch_dict *d, uint64_t at,
			  struct gp_plain *out)
{
	const struct gp_plain *traces = &d->value[GP_TORCH_DEVICE_TRACES];
	const struct gp_plain *settings = &d->value[GP_TORCH_ALLOCATOR_SETTINGS];
	int r = 0;

	out->tag = GP_TORCH_TAG_SNAPSHOT;
	s->has_state = torch_has(d, GP_TORCH_SEGMENTS);
	if (torch_has(d, GP_TORCH_SEGMENTS))
		r = torch_check_list(s, &d->value[GP_TORCH_SEGMENTS], GP_TORCH_SEGMENTS,
				     GP_TORCH_TAG_SEGMENT, "segments", at);
	if (!r && torch_has(d, GP_TORCH_DEVICE_TRACES)) {
		r = torch_check_list(s, traces, GP_TORCH_DEVICE_TRACES, GP_TORCH_TAG_TRACE,
				     "lists of events, one for each GPU", at);
		s->device_traces.first = traces->number;
		s->device_traces.n = traces->n;
	}
	if (!r && torch_has(d, GP_TORCH_EXTERNAL_ANNOTATIONS))
		r = torch_check_list(s, &d->value[GP_TORCH_EXTERNAL_ANNOTATIONS],
				     GP_TORCH_EXTERNAL_ANNOTATIONS, GP_TORCH_TAG_ANNOTATION,
				     "annotations", at);
	s->has_settings =
		torch_has(d, GP_TORCH_ALLOCATOR_SETTINGS) && settings->tag == GP_TORCH_TAG_SETTINGS;
	s->settings = settings->number;
	return r;
}

int gp_torch_dict(struct gp_torch *s, const struct gp_torch_dict *d, uint64_t at,
		  struct gp_plain *out)
{
	int r = 0;

	if (torch_has(d, GP_TORCH_ACTION)) {
		r = torch_event(s, d, at, out);
	} else if (torch_has(d, GP_TORCH_STATE)) {
		r = torch_block(s, d, at, out);
	} else if (torch_has(d, GP_TORCH_BLOCKS)) {
		r = torch_segment(s, d, at, out);
	} else if (torch_has(d, GP_TORCH_STAGE)) {
		r = torch_annotation(s, d, at, out);
	} else if (torch_has(d, GP_TORCH_REAL_SIZE)) {
		r = torch_number(s, d, GP_TORCH_REAL_SIZE, true, at, &out->number);
		out->tag = GP_TORCH_TAG_HISTORY;
	} else if (torch_has(d, GP_TORCH_ALLOC_CONF) &&
		   d->value[GP_TORCH_ALLOC_CONF].kind == GP_PLAIN_TEXT) {
		out->tag = GP_TORCH_TAG_SETTINGS;
		out->number = d->value[GP_TORCH_ALLOC_CONF].number;
	} else if (torch_has(d, GP_TORCH_SEGMENTS) || torch_has(d, GP_TORCH_DEVICE_TRACES)) {
		r = torch_snapshot(s, d, at, out);
	}
	if (r == GP_REFUSED) {
		out->tag = GP_TORCH_TAG_SKIPPED;
		r = 0;
	}
	return r;
}

/* ---- lists ---- */

static int torch_add_trace(struct gp_torch *s, uint64_t first, uint64_t n)
{
	int r = gp_torch_reserve(&s->traces, s->n_traces, &s->traces_capacity, sizeof(*s->traces));

	if (!r)
		s->traces[s->n_traces++] = (struct gp_torch_range){ first, n };
	return r;
}

/* What the list would hold with this item, and which record that is. */
static enum gp_torch_tag torch_item_tag(const struct gp_plain *item)
{
	if (item->kind == GP_PLAIN_DICT)
		return (enum gp_torch_tag)item->tag;
	if (item->kind == GP_PLAIN_LIST && (!item->n || item->tag == GP_TORCH_TAG_EVENT))
		return GP_TORCH_TAG_TRACE;
	return item->kind == GP_PLAIN_UNSIGNED ? GP_TORCH_TAG_NUMBERS : GP_TORCH_TAG_NONE;
}

static bool torch_is_record(enum gp_torch_tag tag)
{
	return tag == GP_TORCH_TAG_EVENT || tag == GP_TORCH_TAG_TRACE || tag == GP_TORCH_TAG_BLOCK;
}

int gp_torch_list(struct gp_torch *s, struct gp_plain *list, const struct gp_plain *item,
		  uint64_t at)
{
	enum gp_torch_tag tag = torch_item_tag(item);
	uint64_t number = item->number;
	int r;

	if (tag == GP_TORCH_TAG_SKIPPED)
		return 0;
	if (list->n && list->tag != tag && list->tag == GP_TORCH_TAG_EVENT) {
		r = gp_trace_builder_problem(s->builder, GP_SKIP_BAD_EVENT, at,
					     "%s without \"action\" among events, expected events",
					     torch_kind_name(item));
		return r == GP_REFUSED ? 0 : r;
	}
	if (list->n && list->tag != tag)
		list->tag = GP_TORCH_TAG_MIXED;
	if (tag == GP_TORCH_TAG_TRACE && list->tag != GP_TORCH_TAG_MIXED) {
		number = s->n_traces;
		r = torch_add_trace(s, item->number, item->n);
		if (r)
			return r;
	}
	if (!list->n) {
		list->tag = (uint8_t)tag;
		list->number = number;
	} else if (list->tag == GP_TORCH_TAG_NUMBERS) { /* exact for two of 32 bits */
		list->number = (list->number << 32 | list->number >> 32) ^ number;
	} else if (torch_is_record((enum gp_torch_tag)list->tag) &&
		   list->number + list->n != number) {
		return gp_trace_builder_refuse(s->builder, at,
					       "a list is made of parts of others, expected a "
					       "snapshot as PyTorch writes it");
	}
	list->n++;
	return 0;
}

int gp_torch_top(struct gp_torch *s, const struct gp_plain *top, uint64_t at)
{
	if (top->kind == GP_PLAIN_DICT && top->tag == GP_TORCH_TAG_SNAPSHOT)
		return 0;
	/* What torch.cuda.memory_snapshot() returns, and _snapshot() did in 2022. */
	if (top->kind == GP_PLAIN_LIST && top->tag == GP_TORCH_TAG_SEGMENT)
		return 0;
	return gp_trace_builder_refuse(s->builder, at,
				       "%s without \"segments\" and \"device_traces\", expected a "
				       "memory snapshot (torch.cuda.memory._dump_snapshot)",
				       torch_kind_name(top));
}

int gp_torch_cut(struct gp_torch *s, const struct gp_plain *lists, size_t n)
{
	uint64_t covered = 0;
	int r = 0;

	s->cut = true;
	for (size_t i = 0; !r && i + 1 < n; i++)
		r = torch_add_trace(s, lists[i].n ? lists[i].number : 0, lists[i].n);
	for (uint64_t i = 0; i < s->n_traces; i++)
		covered = gp_max_u64(covered, s->traces[i].first + s->traces[i].n);
	if (!r && covered < s->n_events)
		r = torch_add_trace(s, covered, s->n_events - covered);
	s->device_traces = (struct gp_torch_range){ 0, s->n_traces };
	return r;
}
