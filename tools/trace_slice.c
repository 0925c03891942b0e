/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_slice: gpupool-trace slice: a part of a recording that can be replayed by itself.
 *
 *   before the cut       | slice                      | behind it
 *   alloc 1 ------------ | ------------------ free 1  |   1: an assumed allocation at the start
 *   alloc 2 ---- free 2  | reclaim 2                  |   2: the same, freed at once
 *                        | alloc 3 ------------------ | free 3   3: live at the end
 *                        | alloc 4 -------- free 4    | reclaim 4   4: reclaimed at the end
 *
 * Invariants  at every event of the slice as many bytes are live as there were in the whole.
 * Cost        one pass over what lies before the cut, and the building of the slice
 */
#include "trace_tool.h"

#include <errno.h>
#include <stdlib.h>

#include "allocators/range_set.h"

struct slice {
	struct trace_tool tool; /* the first: WRITE_OPTIONS, READ_OPTIONS */
	const char *events, *time;
	const char *mark, *to_mark;
	/* What is cut: events [from, to) of the trace. */
	const struct gp_trace *t;
	size_t from, to;
	struct gp_trace_builder *b;
	uint64_t t0_ns;
};

/* ---- where to cut ---- */

static bool slice_count(const char *text, size_t n, uint64_t otherwise, uint64_t *out)
{
	char digits[24];

	*out = otherwise;
	if (!n)
		return true;
	snprintf(digits, sizeof(digits), "%.*s", (int)n, text);
	return n < sizeof(digits) && cli_count("events", digits, 1, UINT32_MAX, out);
}

/* Nanoseconds; or with a unit: "1.5s", "20ms". */
static bool slice_time(const char *text, size_t n, uint64_t otherwise, uint64_t *out)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "", 1 }, { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	char copy[40], *end;
	double x;

	*out = otherwise;
	if (!n)
		return true;
	snprintf(copy, sizeof(copy), "%.*s", (int)n, text);
	x = strtod(copy, &end);
	for (size_t i = 0; i < GP_ARRAY_LEN(units); i++) {
		double ns = x * units[i].ns;

		if (end != copy && n < sizeof(copy) && strcmp(end, units[i].name) == 0 && ns >= 0 &&
		    ns < 1.8e19) {
			*out = (uint64_t)ns;
			return true;
		}
	}
	cli_error("--time=%s: expected FROM..TO, each as 1500, 20us, 3ms or 1.5s", text);
	return false;
}

typedef bool slice_value(const char *text, size_t n, uint64_t otherwise, uint64_t *out);

/* "FROM..TO", of which either may be missing. */
static bool slice_range(const char *name, const char *text, slice_value *value, uint64_t *from,
			uint64_t *to)
{
	const char *dots = strstr(text, "..");

	if (!dots || strlen(text) == 2) {
		cli_error("--%s=%s: expected FROM..TO, FROM.. or ..TO", name, text);
		return false;
	}
	return value(text, (size_t)(dots - text), 0, from) &&
	       value(dots + 2, strlen(dots + 2), UINT64_MAX, to);
}

/* The first event at t_ns or later. */
static size_t slice_find_time(const struct gp_trace *t, uint64_t t_ns)
{
	size_t low = 0, high = t->n_events;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->events[middle].t_ns < t_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The next mark of that name (any, when NULL) at or behind event i; n_events: none. */
static size_t slice_find_mark(const struct gp_trace *t, size_t i, const char *name)
{
	for (; i < t->n_events; i++)
		if (t->events[i].op == GP_OP_MARK &&
		    (!name || strcmp(t->marks[t->events[i].id], name) == 0))
			break;
	return i;
}

static bool slice_by_mark(struct slice *s)
{
	const struct gp_trace *t = s->t;

	s->from = s->mark ? slice_find_mark(t, 0, s->mark) : 0;
	if (s->mark && s->from == t->n_events) {
		cli_error("--mark=%s: the trace has no such mark; gpupool-trace info lists them",
			  s->mark);
		return false;
	}
	s->to = slice_find_mark(t, s->mark ? s->from + 1 : 0, s->to_mark);
	if (s->to_mark && s->to == t->n_events) {
		cli_error("--to-mark=%s: the trace has no such mark behind the beginning; "
			  "gpupool-trace info lists them",
			  s->to_mark);
		return false;
	}
	return true;
}

static bool slice_place(struct slice *s)
{
	const struct gp_trace *t = s->t;
	uint64_t from = 0, to = UINT64_MAX;

	if (s->events) {
		if (!slice_range("events", s->events, slice_count, &from, &to))
			return false;
		s->from = from ? (size_t)gp_min_u64(from - 1, t->n_events) : 0;
		s->to = (size_t)gp_min_u64(to, t->n_events);
	} else if (s->time) {
		if (!slice_range("time", s->time, slice_time, &from, &to))
			return false;
		s->from = slice_find_time(t, from);
		s->to = slice_find_time(t, to);
	} else if (!slice_by_mark(s)) {
		return false;
	}
	if (s->from < s->to)
		return true;
	cli_error("%s: nothing lies in this part, expected some of its %zu events", t->path,
		  t->n_events);
	return false;
}

/* ---- what the recorded allocator held ---- */

/* Tag of a range: stream handle index, pool and how it came. */
static uint64_t held_tag(const struct gp_event *e, uint8_t pool)
{
	return (uint64_t)e->stream << 9 | (uint64_t)pool << 1 | (e->op == GP_OP_SEGMENT_MAP);
}

/* Takes [addr, addr + size) out of the ranges that hold parts of it. */
static int held_cut(struct gp_range_set *held, uint64_t addr, uint64_t size)
{
	const struct gp_range_entry *at = gp_range_set_containing(held, addr);
	struct gp_range_entry e;
	int r = 0;

	if (!at)
		return 0;
	gp_range_set_remove(held, at->addr, &e);
	if (e.addr < addr)
		r = gp_range_set_insert(held, e.addr, addr - e.addr, e.tag);
	if (!r && e.size - (addr - e.addr) > size)
		r = gp_range_set_insert(held, addr + size, e.size - (addr - e.addr) - size, e.tag);
	return r;
}

static int held_at(const struct gp_trace *t, size_t to, struct gp_range_set *held)
{
	int r = 0;

	for (size_t i = 0; i < to && r != -ENOMEM && t->addrs; i++) {
		const struct gp_event *e = &t->events[i];

		if (!t->addrs[i] || !e->size)
			continue;
		if (e->op == GP_OP_SEGMENT_ALLOC || e->op == GP_OP_SEGMENT_MAP)
			r = gp_range_set_insert(held, t->addrs[i], e->size,
						held_tag(e, gp_trace_pool(t, i)));
		else if (e->op == GP_OP_SEGMENT_FREE || e->op == GP_OP_SEGMENT_UNMAP)
			r = held_cut(held, t->addrs[i], e->size);
	}
	return r == -ENOMEM ? r : 0;
}

static int slice_add_held(struct slice *s)
{
	struct gp_range_set held;
	uint64_t addr = 0;
	int r;

	gp_range_set_init(&held);
	r = held_at(s->t, s->from, &held);
	for (const struct gp_range_entry *e; !r && (e = gp_range_set_ceiling(&held, addr));
	     addr = e->addr + 1) {
		const struct gp_trace_record record = {
			.op = e->tag & 1 ? GP_OP_SEGMENT_MAP : GP_OP_SEGMENT_ALLOC,
			.size = e->size,
			.addr = e->addr,
			.pool = e->tag >> 1 & UINT8_MAX,
			.stream = s->t->stream_handles[e->tag >> 9],
		};

		r = gp_trace_builder_add(s->b, &record, 0);
	}
	gp_range_set_fini(&held);
	return r;
}

/* ---- the slice ---- */

/* The event that makes a block reusable; n_events: none does. */
static size_t slice_end_of(const struct gp_trace *t, const struct gp_event *alloc)
{
	const struct gp_event *f;

	if (alloc->link == GP_EVENT_NONE)
		return t->n_events;
	f = &t->events[alloc->link];
	return gp_event_flags(f) & GP_EVENT_DEFERRED ? f->link : alloc->link;
}

static int slice_add(struct slice *s, size_t i, uint64_t t_ns)
{
	struct gp_trace_record r;

	gp_trace_record_at(s->t, i, &r);
	r.t_ns = t_ns;
	r.assumed |= r.op == GP_OP_ALLOC && i < s->from;
	return gp_trace_builder_add(s->b, &r, 0);
}

/* Blocks that are live at the cut, and the frees of those that wait for their reclaim. */
static int slice_add_live(struct slice *s)
{
	const struct gp_trace *t = s->t;
	int r = 0;

	for (size_t i = 0; i < s->from && !r; i++)
		if (t->events[i].op == GP_OP_ALLOC && slice_end_of(t, &t->events[i]) >= s->from)
			r = slice_add(s, i, 0);
	for (size_t i = 0; i < s->from && !r; i++)
		if (gp_event_flags(&t->events[i]) & GP_EVENT_DEFERRED &&
		    t->events[i].op == GP_OP_FREE && t->events[i].link >= s->from)
			r = slice_add(s, i, 0);
	return r;
}

/* Reclaims that lie behind the end. */
static int slice_add_reclaims(struct slice *s)
{
	const struct gp_trace *t = s->t;
	uint64_t last_ns = t->events[s->to - 1].t_ns - s->t0_ns;
	int r = 0;

	for (size_t i = 0; i < s->to && !r; i++)
		if (gp_event_flags(&t->events[i]) & GP_EVENT_DEFERRED &&
		    t->events[i].op == GP_OP_FREE && t->events[i].link >= s->to)
			r = slice_add(s, t->events[i].link, last_ns);
	return r;
}

static int slice_build(struct slice *s, struct gp_trace **out)
{
	const struct gp_trace *t = s->t;
	size_t size = strlen(t->source) + 80;
	char *source = malloc(size);
	int r = -ENOMEM;

	s->b = gp_trace_builder_create(t->path, NULL);
	if (!s->b || !source)
		goto out;
	s->t0_ns = t->events[s->from].t_ns;
	snprintf(source, size, "%s%sevents %zu to %zu of %zu", t->source, t->source[0] ? "; " : "",
		 s->from + 1, s->to, t->n_events);
	r = gp_trace_builder_header(s->b, t->name, source, t->device_name, t->device_bytes);
	for (uint32_t i = 0; i < t->n_notes && !r; i++)
		r = gp_trace_builder_note(s->b, "%s", t->notes[i]);
	if (!r)
		r = slice_add_live(s);
	if (!r)
		r = slice_add_held(s);
	for (size_t i = s->from; i < s->to && !r; i++)
		r = slice_add(s, i, t->events[i].t_ns - s->t0_ns);
	if (!r)
		r = slice_add_reclaims(s);
	if (!r)
		r = gp_trace_builder_finish(s->b, out);
out:
	if (r)
		cli_error("%s", r == -ENOMEM ? "out of memory" : gp_trace_builder_why(s->b));
	gp_trace_builder_destroy(s->b);
	free(source);
	return r ? CLI_USAGE : -1;
}

/* ---- the command ---- */

static bool parse_cut(void *ctx, const char *name, const char *value)
{
	struct slice *s = ctx;

	if (strcmp(name, "events") == 0)
		s->events = value;
	else if (strcmp(name, "time") == 0)
		s->time = value;
	else if (strcmp(name, "mark") == 0)
		s->mark = value;
	else
		s->to_mark = value;
	return true;
}

static const struct cli_option options[] = {
	{ "events", "FROM..TO", "these, counted from 1; either may be left out", parse_cut },
	{ "time", "FROM..TO", "from FROM until TO: 1500 (ns), 20us, 3ms, 1.5s", parse_cut },
	{ "mark", "NAME", "from the first mark so named until the next mark", parse_cut },
	{ "to-mark", "NAME", "until the next mark so named instead", parse_cut },
	WRITE_OPTIONS,
	READ_OPTIONS,
	{ NULL, NULL, NULL, NULL },
};

static const struct cli_program program = {
	.name = "gpupool-trace slice",
	.synopsis = "[OPTION]... FILE [OUTPUT]",
	.about =
		"Cuts a part out. Blocks that are live at the cut become allocations at its\nstart.",
	.options = options,
	.examples = "  gpupool-trace slice --mark='step 6' trace.jsonl.gz step6.json\n"
		    "  gpupool-trace slice --mark='step 6' --to-mark=end trace.json some.gpt\n"
		    "  gpupool-trace slice --time=1.5s..2s trace.json part.json\n"
		    "  gpupool-trace slice --events=1000.. trace.json | gpupool-replay -\n",
};

static int slice_check(const struct slice *s)
{
	int ways = (s->events != NULL) + (s->time != NULL) + (s->mark || s->to_mark);

	if (ways == 1)
		return -1;
	cli_error("expected one of --events, --time and --mark (--to-mark); --help shows examples");
	return CLI_USAGE;
}

int trace_slice_main(int argc, char **argv)
{
	struct slice s = { 0 };
	const struct gp_writer *writer = NULL;
	struct gp_trace *whole = NULL, *part = NULL;
	int n = 0, r = cli_parse(&program, &s, argc, argv, &n);

	if (r < 0)
		r = trace_tool_operands(&s.tool, argv, n);
	if (r < 0)
		r = slice_check(&s);
	if (r < 0)
		r = trace_tool_writer(&s.tool, &writer);
	if (r < 0)
		r = read_options_load(&s.tool.read, argv[0], &whole);
	s.t = whole;
	if (r < 0 && !slice_place(&s))
		r = CLI_USAGE;
	if (r < 0)
		r = slice_build(&s, &part);
	if (r < 0)
		r = trace_tool_save(&s.tool, writer, part);
	gp_trace_destroy(part);
	gp_trace_destroy(whole);
	return r;
}
