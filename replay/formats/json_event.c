/* SPDX-License-Identifier: Apache-2.0
 *
 * json_event: one event of a gpupool trace; see json_fields.h.
 *
 * Shape       an event is read to its end before it is judged, because its keys come in any order.
 *             Strict, the first problem ends the reading. Lenient, it drops the event, which counts
 *             once, and the rest of it is only read over.
 */
#include "json_fields.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum event_key {
	EVENT_OP,
	EVENT_ID,
	EVENT_SIZE,
	EVENT_STREAM,
	EVENT_THREAD,
	EVENT_T,
	EVENT_ALIGN,
	EVENT_ADDR,
	EVENT_POOL,
	EVENT_NAME,
	EVENT_ASSUMED,
	EVENT_N,
};

#define EVENT_BIT(key) (1u << EVENT_##key)

static const struct {
	const char *name;
	size_t length;
} event_names[] = {
	[EVENT_OP] = { "op", 2 },         [EVENT_ID] = { "id", 2 },
	[EVENT_SIZE] = { "size", 4 },     [EVENT_STREAM] = { "stream", 6 },
	[EVENT_THREAD] = { "thread", 6 }, [EVENT_T] = { "t", 1 },
	[EVENT_ALIGN] = { "align", 5 },   [EVENT_ADDR] = { "addr", 4 },
	[EVENT_NAME] = { "name", 4 },     [EVENT_ASSUMED] = { "assumed", 7 },
	[EVENT_POOL] = { "pool", 4 },
};

/* Keys besides those that every event may have. */
#define EVENT_COMMON (EVENT_BIT(OP) | EVENT_BIT(STREAM) | EVENT_BIT(THREAD) | EVENT_BIT(T))
/* Where the recorded allocator had it. */
#define EVENT_PLACE (EVENT_BIT(ADDR) | EVENT_BIT(POOL))

static const struct {
	unsigned needs, takes;
} event_rules[GP_OP_N] = {
	[GP_OP_ALLOC] = { EVENT_BIT(ID) | EVENT_BIT(SIZE),
			  EVENT_BIT(ALIGN) | EVENT_PLACE | EVENT_BIT(ASSUMED) },
	[GP_OP_FREE] = { EVENT_BIT(ID), EVENT_BIT(SIZE) },
	[GP_OP_RECLAIM] = { EVENT_BIT(ID), EVENT_BIT(SIZE) },
	[GP_OP_MARK] = { EVENT_BIT(NAME), 0 },
	[GP_OP_SEGMENT_ALLOC] = { EVENT_BIT(SIZE), EVENT_PLACE },
	[GP_OP_SEGMENT_FREE] = { EVENT_BIT(SIZE), EVENT_PLACE },
	[GP_OP_SEGMENT_MAP] = { EVENT_BIT(SIZE), EVENT_PLACE },
	[GP_OP_SEGMENT_UNMAP] = { EVENT_BIT(SIZE), EVENT_PLACE },
	[GP_OP_OOM] = { EVENT_BIT(SIZE), 0 },
};

struct event {
	struct gp_trace_record record;
	uint64_t line;
	unsigned seen; /* bit per key */
	bool dropped;  /* lenient: something in it was wrong */
	char *mark;
};

/* Strict: refuses. Lenient: the event will be left out, and counts once. */
GP_PRINTF(4, 5)
static int event_problem(struct gp_fields *f, struct event *e, enum gp_skip kind, const char *fmt,
			 ...)
{
	char text[200];
	va_list ap;

	int r;

	if (e->dropped)
		return 0;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r = gp_trace_builder_problem(f->builder, kind, f->json.line, "%s", text);
	e->dropped = r == GP_REFUSED;
	return e->dropped ? 0 : r;
}

static int event_op(struct gp_fields *f, struct event *e)
{
	struct gp_json *j = &f->json;

	if (j->token != GP_JSON_STRING)
		return event_problem(f, e, GP_SKIP_BAD_EVENT, "\"op\" is %s, expected a string",
				     gp_json_token_name(j->token));
	for (enum gp_op op = 0; op < GP_OP_N; op++) {
		if (gp_fields_is(j, gp_op_name(op))) {
			e->record.op = op;
			return 0;
		}
	}
	return event_problem(f, e, GP_SKIP_UNKNOWN_OP,
			     "unknown op \"%s\", expected one of alloc, free, reclaim, sync, trim, "
			     "mark, oom, segment_alloc, _free, _map, _unmap",
			     gp_fields_quote(j).text);
}

static int event_mark(struct gp_fields *f, struct event *e)
{
	struct gp_json *j = &f->json;

	if (j->token != GP_JSON_STRING)
		return event_problem(f, e, GP_SKIP_BAD_EVENT, "\"name\" is %s, expected a string",
				     gp_json_token_name(j->token));
	free(e->mark);
	e->mark = strdup(j->text);
	e->record.mark = e->mark;
	if (!e->mark) {
		gp_trace_builder_refuse(f->builder, j->line, "out of memory");
		return -ENOMEM;
	}
	return 0;
}

static int event_assumed(struct gp_fields *f, struct event *e)
{
	struct gp_json *j = &f->json;

	if (j->token != GP_JSON_TRUE && j->token != GP_JSON_FALSE)
		return event_problem(f, e, GP_SKIP_BAD_EVENT,
				     "\"assumed\" is %s, expected true or false",
				     gp_json_token_name(j->token));
	e->record.assumed = j->token == GP_JSON_TRUE;
	return 0;
}

static int event_number(struct gp_fields *f, struct event *e, enum event_key key)
{
	char text[128];
	const char *fault = gp_fields_number_fault(&f->json, text, sizeof(text));
	uint64_t *const to[EVENT_N] = {
		[EVENT_ID] = &e->record.id,         [EVENT_SIZE] = &e->record.size,
		[EVENT_STREAM] = &e->record.stream, [EVENT_THREAD] = &e->record.thread,
		[EVENT_T] = &e->record.t_ns,        [EVENT_ALIGN] = &e->record.align,
		[EVENT_ADDR] = &e->record.addr,     [EVENT_POOL] = &e->record.pool,
	};

	if (fault)
		return event_problem(f, e, GP_SKIP_BAD_EVENT, "\"%s\" %s", event_names[key].name,
				     fault);
	*to[key] = f->json.number;
	return 0;
}

static enum event_key event_find_key(const struct gp_json *j)
{
	enum event_key key = 0;

	while (key < EVENT_N && (j->text_len != event_names[key].length ||
				 memcmp(j->text, event_names[key].name, j->text_len)))
		key++;
	return key;
}

static int event_unknown_key(struct gp_fields *f)
{
	struct gp_json *j = &f->json;

	int r = gp_trace_builder_problem(f->builder, GP_SKIP_UNKNOWN_KEY, j->line,
					 "unknown key \"%s\" in an event, expected only op, id, "
					 "size, stream, thread, t, align, addr, pool, assumed, "
					 "name",
					 gp_fields_quote(j).text);

	if (r < 0)
		return r;
	gp_json_next(j);
	gp_json_skip(j);
	return 0;
}

static int event_member(struct gp_fields *f, struct event *e)
{
	struct gp_json *j = &f->json;
	enum event_key key = event_find_key(j);
	int r;

	if (key == EVENT_N)
		return event_unknown_key(f);
	r = e->seen & 1u << key
		    ? gp_trace_builder_problem(f->builder, GP_SKIP_DUPLICATE_KEY, j->line,
					       "key \"%s\" twice in an event, expected it once",
					       event_names[key].name)
		    : 0;
	if (r < 0)
		return r;
	e->seen |= 1u << key;
	if (gp_json_next(j) == GP_JSON_ERROR)
		return 0;
	if (key == EVENT_OP)
		r = event_op(f, e);
	else if (key == EVENT_NAME)
		r = event_mark(f, e);
	else if (key == EVENT_ASSUMED)
		r = event_assumed(f, e);
	else
		r = event_number(f, e, key);
	if (!r)
		gp_json_skip(j); /* lenient: a value that is an array or object */
	return r;
}

/* The event is whole: are all keys there that its op needs, and no others? */
static int event_check_keys(struct gp_fields *f, struct event *e)
{
	unsigned missing, extra;
	const char *op;

	if (!(e->seen & EVENT_BIT(OP)))
		return event_problem(f, e, GP_SKIP_BAD_EVENT,
				     "an event without \"op\", expected one");
	op = gp_op_name(e->record.op);
	missing = event_rules[e->record.op].needs & ~e->seen;
	if (missing)
		return event_problem(f, e, GP_SKIP_BAD_EVENT, "%s without \"%s\", expected one", op,
				     event_names[gp_lowest_bit(missing)].name);
	extra = e->seen &
		~(EVENT_COMMON | event_rules[e->record.op].needs | event_rules[e->record.op].takes);
	if (extra &&
	    gp_trace_builder_problem(f->builder, GP_SKIP_UNKNOWN_KEY, f->json.line,
				     "\"%s\" in a %s event, expected only keys that it has",
				     event_names[gp_lowest_bit(extra)].name, op) < 0)
		return -EINVAL;
	/* Lenient: what does not belong here must not count either. */
	if (extra & EVENT_BIT(ASSUMED))
		e->record.assumed = false;
	if (extra & EVENT_BIT(ALIGN))
		e->record.align = 0;
	if (extra & EVENT_BIT(SIZE))
		e->record.size = 0;
	return 0;
}

int gp_fields_event(struct gp_fields *f)
{
	struct gp_json *j = &f->json;
	struct event e = { .line = j->line };
	int r = 0;

	f->n_read++;
	if (j->token != GP_JSON_OBJECT) {
		r = event_problem(f, &e, GP_SKIP_BAD_EVENT, "an event is %s, expected an object",
				  gp_json_token_name(j->token));
		if (!r)
			gp_json_skip(j);
		return r;
	}
	while (!r && gp_json_next(j) == GP_JSON_KEY)
		r = event_member(f, &e);
	if (!r && j->token == GP_JSON_OBJECT_END && !e.dropped)
		r = event_check_keys(f, &e);
	if (!r && j->token == GP_JSON_OBJECT_END && !e.dropped)
		r = gp_trace_builder_add(f->builder, &e.record, e.line);
	free(e.mark);
	return r;
}
