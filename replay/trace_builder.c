/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_builder: every rule that a trace must keep, whatever file it comes from.
 *
 * Shape        events are appended to one array that doubles and is cut to size at the end. While
 *              building, a map leads from an id of the file to the event of its last ALLOC; that
 *              event's `link` (its FREE) and the FREE's DEFERRED flag (its RECLAIM) are the state
 *              of the block, so that no other table is kept:
 *
 *                id 7 -> ALLOC -link-> FREE (DEFERRED) -link-> RECLAIM
 *                          ^------------------------------------ link
 *
 * Invariants   1. an id names one live block at most   2. FREE follows its ALLOC, RECLAIM its FREE,
 *              once each   3. t_ns never decreases   4. dense numbers are below their n_*
 * Cost         O(1) an event. Memory per event: 32 bytes (40 with addresses, one more with
 *              pools), half as much again where realloc has to copy; and 16 to 48 bytes per
 *              allocation for the map, until finish.
 * Threads      caller serialises.
 */
#include "trace_builder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_EVENTS_MIN 1024u
#define TRACE_PATH_SHOWN 200u /* bytes of it in a message */

/* ---- memory, messages ---- */

struct gp_trace_builder *gp_trace_builder_destroy(struct gp_trace_builder *b)
{
	if (!b)
		return NULL;
	gp_trace_destroy(b->trace);
	gp_id_map_fini(&b->ids);
	gp_id_map_fini(&b->streams);
	gp_id_map_fini(&b->threads);
	free(b);
	return NULL;
}

struct gp_trace_builder *gp_trace_builder_create(const char *path,
						 const struct gp_trace_options *options)
{
	struct gp_trace_builder *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	if (options)
		b->options = *options;
	gp_id_map_init(&b->ids);
	gp_id_map_init(&b->streams);
	gp_id_map_init(&b->threads);
	b->trace = calloc(1, sizeof(*b->trace));
	if (b->trace) {
		b->trace->format = "";
		b->trace->path = strdup(path);
	}
	if (!b->trace || !b->trace->path || gp_trace_builder_header(b, NULL, NULL, NULL, 0))
		return gp_trace_builder_destroy(b);
	return b;
}

const char *gp_trace_builder_why(const struct gp_trace_builder *b)
{
	return b->why;
}

const struct gp_trace_options *gp_trace_builder_options(const struct gp_trace_builder *b)
{
	return &b->options;
}

/* Begins a message: "PATH:LINE: ", "PATH: event N: "; `before` NULL: "PATH: ". */
static size_t trace_place(struct gp_trace_builder *b, const char *before, uint64_t n)
{
	const char *path = b->trace->path;
	size_t length = strlen(path);
	const char *dots = length > TRACE_PATH_SHOWN ? "..." : "";

	/* The end of a long path says more than its beginning. */
	path += length > TRACE_PATH_SHOWN ? length - TRACE_PATH_SHOWN : 0;
	if (!before)
		return (size_t)snprintf(b->why, sizeof(b->why), "%s%s: ", dots, path);
	return (size_t)snprintf(b->why, sizeof(b->why), "%s%s:%s%llu: ", dots, path, before,
				(unsigned long long)n);
}

static size_t trace_line(struct gp_trace_builder *b, uint64_t line)
{
	if (line == GP_TRACE_WHOLE)
		return trace_place(b, NULL, 0);
	if (line & GP_TRACE_BYTE)
		return trace_place(b, " byte ", line & ~GP_TRACE_BYTE);
	if (line & GP_TRACE_EVENT)
		return trace_place(b, " event ", line & ~GP_TRACE_EVENT);
	return line ? trace_place(b, "", line) : trace_place(b, " event ", b->n_seen);
}

int gp_trace_builder_refuse(struct gp_trace_builder *b, uint64_t line, const char *fmt, ...)
{
	size_t n = trace_line(b, line);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(b->why + n, sizeof(b->why) - n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* Counts what lenient reading leaves out; false: it was counted before. */
static bool trace_count_skip(struct gp_trace_builder *b, enum gp_skip kind)
{
	if (kind == GP_SKIP_TAIL && b->trace->skipped[kind])
		return false; /* a file has one tail, whoever notices it */
	b->trace->skipped[kind]++;
	return true;
}

static void trace_tell_issue(struct gp_trace_builder *b, enum gp_skip kind, uint64_t line,
			     const char *text)
{
	struct gp_trace_issue issue = {
		.kind = kind, .line = line, .event = b->n_seen, .text = text
	};

	if (line & GP_TRACE_EVENT)
		issue.event = line & ~GP_TRACE_EVENT;
	if (line & (GP_TRACE_BYTE | GP_TRACE_EVENT))
		issue.line = 0;
	b->options.issue(b->options.issue_arg, &issue);
}

bool gp_trace_builder_skip(struct gp_trace_builder *b, enum gp_skip kind)
{
	if (b->options.lenient && trace_count_skip(b, kind) && b->options.issue)
		trace_tell_issue(b, kind, 0, gp_skip_text(kind));
	return b->options.lenient;
}

int gp_trace_builder_problem(struct gp_trace_builder *b, enum gp_skip kind, uint64_t line,
			     const char *fmt, ...)
{
	size_t n = 0;
	va_list ap;

	/* Only who looks at the text pays for it: a bad log may have millions of these. */
	if (b->options.lenient && (!trace_count_skip(b, kind) || !b->options.issue))
		return GP_REFUSED;
	if (!b->options.lenient)
		n = trace_line(b, line);
	va_start(ap, fmt);
	vsnprintf(b->why + n, sizeof(b->why) - n, fmt, ap);
	va_end(ap);
	if (!b->options.lenient)
		return -EINVAL;
	trace_tell_issue(b, kind, line, b->why);
	return GP_REFUSED;
}

int gp_trace_no_memory(struct gp_trace_builder *b)
{
	snprintf(b->why, sizeof(b->why), "%s: out of memory after %zu events", b->trace->path,
		 b->trace->n_events);
	return -ENOMEM;
}

int gp_trace_builder_header(struct gp_trace_builder *b, const char *name, const char *source,
			    const char *device_name, uint64_t device_bytes)
{
	struct gp_trace *t = b->trace;

	free(t->name);
	free(t->source);
	free(t->device_name);
	t->name = gp_trace_copy_text(name);
	t->source = gp_trace_copy_text(source);
	t->device_name = gp_trace_copy_text(device_name);
	t->device_bytes = device_bytes;
	return t->name && t->source && t->device_name ? 0 : gp_trace_no_memory(b);
}

/* Room for `n` elements; *p is unchanged when there is no memory. */
bool gp_trace_resize(void *p, size_t n, size_t element_size)
{
	void **array = p;
	void *next;

	if (n > SIZE_MAX / element_size)
		return false;
	next = realloc(*array, n * element_size);
	if (!next)
		return false;
	*array = next;
	return true;
}

/* Takes the text over. */
static int trace_add_note(struct gp_trace_builder *b, char *text)
{
	struct gp_trace *t = b->trace;
	uint32_t n = t->n_notes;

	for (uint32_t i = 0; i < n; i++) {
		if (!strcmp(t->notes[i], text) || n == GP_TRACE_NOTES_MAX) {
			free(text);
			return 0;
		}
	}
	if ((!n || gp_is_pow2(n)) &&
	    !gp_trace_resize(&t->notes, n ? 2 * (size_t)n : 1, sizeof(*t->notes))) {
		free(text);
		return gp_trace_no_memory(b);
	}
	t->notes[n] = text;
	t->n_notes = n + 1;
	return 0;
}

int gp_trace_builder_note(struct gp_trace_builder *b, const char *fmt, ...)
{
	char *text, *copy;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	text = malloc((size_t)n + 1);
	if (!text)
		return gp_trace_no_memory(b);
	va_start(ap, fmt);
	vsnprintf(text, (size_t)n + 1, fmt, ap);
	va_end(ap);
	copy = gp_trace_copy_text(text);
	free(text);
	return copy ? trace_add_note(b, copy) : gp_trace_no_memory(b);
}

/* Room for one more event, and in the arrays beside, which begin with the first that needs them. */
static int trace_reserve(struct gp_trace_builder *b, bool with_addrs, bool with_pools)
{
	struct gp_trace *t = b->trace;
	size_t capacity = b->capacity;

	if (t->n_events == capacity) {
		capacity = capacity ? 2 * capacity : TRACE_EVENTS_MIN;
		if (!gp_trace_resize(&t->events, capacity, sizeof(*t->events)) ||
		    (t->addrs && !gp_trace_resize(&t->addrs, capacity, sizeof(*t->addrs))) ||
		    (t->pools && !gp_trace_resize(&t->pools, capacity, sizeof(*t->pools))))
			return gp_trace_no_memory(b);
		b->capacity = capacity;
	}
	if (with_addrs && !t->addrs) {
		if (!gp_trace_resize(&t->addrs, capacity, sizeof(*t->addrs)))
			return gp_trace_no_memory(b);
		memset(t->addrs, 0, t->n_events * sizeof(*t->addrs));
	}
	if (with_pools && !t->pools) {
		if (!gp_trace_resize(&t->pools, capacity, sizeof(*t->pools)))
			return gp_trace_no_memory(b);
		memset(t->pools, 0, t->n_events * sizeof(*t->pools));
	}
	return 0;
}

/* ---- numbers made dense ---- */

/* The dense number of key, or the next free one; GP_ID_MAP_NONE: no memory. */
static uint32_t trace_dense(struct gp_id_map *m, uint64_t key)
{
	uint32_t dense = gp_id_map_find(m, key);

	if (dense == GP_ID_MAP_NONE) {
		dense = m->n;
		if (gp_id_map_put(m, key, dense))
			return GP_ID_MAP_NONE;
	}
	return dense;
}

int gp_trace_set_stream(struct gp_trace_builder *b, struct gp_event *e, uint64_t stream)
{
	struct gp_trace *t = b->trace;
	uint32_t n = b->streams.n;

	e->stream = trace_dense(&b->streams, stream);
	if (e->stream == GP_ID_MAP_NONE)
		return gp_trace_no_memory(b);
	if (e->stream < n)
		return 0;
	/* One more: the array grows whenever its length is a power of two. */
	if ((!n || gp_is_pow2(n)) &&
	    !gp_trace_resize(&t->stream_handles, n ? 2 * (size_t)n : 1, sizeof(*t->stream_handles)))
		return gp_trace_no_memory(b);
	t->stream_handles[n] = stream;
	t->n_streams = n + 1;
	return 0;
}

int gp_trace_set_thread(struct gp_trace_builder *b, struct gp_event *e, uint64_t thread)
{
	struct gp_trace *t = b->trace;
	uint32_t n = b->threads.n;
	uint32_t dense = trace_dense(&b->threads, thread);

	if (dense == GP_ID_MAP_NONE)
		return gp_trace_no_memory(b);
	e->thread = (uint16_t)dense; /* trace_check_common() kept it in range */
	if (dense < n)
		return 0;
	if ((!n || gp_is_pow2(n)) &&
	    !gp_trace_resize(&t->thread_handles, n ? 2 * (size_t)n : 1, sizeof(*t->thread_handles)))
		return gp_trace_no_memory(b);
	t->thread_handles[n] = thread;
	t->n_threads = n + 1;
	return 0;
}

static int trace_add_mark(struct gp_trace_builder *b, struct gp_event *e, const char *name)
{
	struct gp_trace *t = b->trace;
	uint32_t n = t->n_marks;
	char *copy;

	if ((!n || gp_is_pow2(n)) &&
	    !gp_trace_resize(&t->marks, n ? 2 * (size_t)n : 1, sizeof(*t->marks)))
		return gp_trace_no_memory(b);
	copy = gp_trace_copy_text(name);
	if (!copy)
		return gp_trace_no_memory(b);
	t->marks[n] = copy;
	t->n_marks = n + 1;
	e->id = n;
	return 0;
}

/* ---- the rules ---- */

static int trace_check_common(struct gp_trace_builder *b, const struct gp_trace_record *r,
			      uint64_t line)
{
	const char *op = gp_op_name(r->op);

	if (r->size > GP_TRACE_SIZE_MAX)
		return gp_trace_builder_problem(b, GP_SKIP_BAD_EVENT, line,
						"%s of %llu bytes, expected a size of at most 2^63",
						op, (unsigned long long)r->size);
	if (r->align && (!gp_is_pow2(r->align) || r->align > GP_SIZE_MAX))
		return gp_trace_builder_problem(
			b, GP_SKIP_BAD_EVENT, line,
			"\"align\" is %llu, expected a power of two of at most 2^60",
			(unsigned long long)r->align);
	if ((gp_op_uses(r->op) & GP_USE_ADDR) && r->pool > GP_TRACE_POOL_MAX)
		return gp_trace_builder_problem(b, GP_SKIP_BAD_EVENT, line,
						"\"pool\" is %llu, expected at most %u",
						(unsigned long long)r->pool, GP_TRACE_POOL_MAX);
	if (r->op == GP_OP_MARK && !r->mark)
		return gp_trace_builder_problem(b, GP_SKIP_BAD_EVENT, line,
						"a mark without a name, expected "
						"\"name\"");
	if ((gp_op_uses(r->op) & GP_USE_THREAD) && b->threads.n == GP_TRACE_THREADS_MAX &&
	    gp_id_map_find(&b->threads, r->thread) == GP_ID_MAP_NONE)
		return gp_trace_builder_problem(
			b, GP_SKIP_BAD_EVENT, line,
			"one thread more, expected at most %u different ones",
			GP_TRACE_THREADS_MAX);
	return 0;
}

static int trace_check_alloc(struct gp_trace_builder *b, const struct gp_trace_record *r,
			     uint64_t line)
{
	uint32_t at = gp_id_map_find(&b->ids, r->id);

	if (at != GP_ID_MAP_NONE && b->trace->events[at].link == GP_EVENT_NONE)
		return gp_trace_builder_problem(
			b, GP_SKIP_DUPLICATE_ID, line,
			"alloc of id %llu, which is live, expected an id not in use",
			(unsigned long long)r->id);
	return 0;
}

/* FREE and RECLAIM: finds the ALLOC that they belong to. */
static int trace_check_end(struct gp_trace_builder *b, const struct gp_trace_record *r,
			   uint64_t line, uint32_t *alloc)
{
	const struct gp_event *events = b->trace->events;
	const char *op = gp_op_name(r->op);
	unsigned long long id = (unsigned long long)r->id;
	uint32_t at = gp_id_map_find(&b->ids, r->id);
	uint32_t end;

	if (at == GP_ID_MAP_NONE)
		return gp_trace_builder_problem(
			b, GP_SKIP_UNKNOWN_ID, line,
			"%s of unknown id %llu, expected an id allocated before", op, id);
	end = events[at].link;
	if (r->op == GP_OP_FREE && end != GP_EVENT_NONE)
		return gp_trace_builder_problem(
			b, GP_SKIP_UNKNOWN_ID, line,
			"free of id %llu, which was freed before (double free), "
			"expected a live id",
			id);
	if (r->op == GP_OP_RECLAIM && end == GP_EVENT_NONE)
		return gp_trace_builder_problem(
			b, GP_SKIP_UNKNOWN_ID, line,
			"reclaim of id %llu, which is live, expected its free before", id);
	if (r->op == GP_OP_RECLAIM && gp_event_flags(&events[end]) & GP_EVENT_DEFERRED)
		return gp_trace_builder_problem(
			b, GP_SKIP_UNKNOWN_ID, line,
			"reclaim of id %llu, which was reclaimed before, expected one "
			"reclaim after each free at most",
			id);
	if (r->size && r->size != events[at].size)
		return gp_trace_builder_problem(
			b, GP_SKIP_BAD_EVENT, line,
			"%s of id %llu with %llu bytes, expected the %llu of its alloc", op, id,
			(unsigned long long)r->size, (unsigned long long)events[at].size);
	*alloc = at;
	return 0;
}

/* Time is looked at last: under lenient the event is kept, with the time of the one before. */
static int trace_check_time(struct gp_trace_builder *b, const struct gp_trace_record *r,
			    uint64_t line, uint64_t *t_ns)
{
	int ret;

	*t_ns = r->assumed ? 0 : r->t_ns;
	if (r->assumed || r->t_ns >= b->last_ns)
		return 0;
	*t_ns = b->last_ns;
	ret = gp_trace_builder_problem(b, GP_SKIP_TIME_BACK, line,
				       "time goes back to %llu ns, expected %llu or later",
				       (unsigned long long)r->t_ns, (unsigned long long)b->last_ns);
	return ret == GP_REFUSED ? 0 : ret;
}

/* ---- adding ---- */

/* Fills the event of a FREE or RECLAIM from its ALLOC, and links them. */
static void trace_link_end(struct gp_trace *t, struct gp_event *e, uint32_t alloc)
{
	uint32_t here = (uint32_t)t->n_events;
	struct gp_event *a = &t->events[alloc];

	e->id = a->id;
	e->size = a->size;
	e->stream = a->stream;
	e->link = alloc;
	if (e->op == GP_OP_FREE) {
		a->link = here;
		t->n_frees++;
	} else {
		struct gp_event *f = &t->events[a->link];

		e->thread = f->thread;
		f->link = here;
		f->lg_align_flags |= GP_EVENT_DEFERRED << 6;
	}
}

static int trace_fill(struct gp_trace_builder *b, const struct gp_trace_record *r,
		      struct gp_event *e, uint32_t alloc)
{
	struct gp_trace *t = b->trace;
	unsigned use = gp_op_uses(r->op);
	int ret = 0;

	if (use & GP_USE_SIZE)
		e->size = r->size;
	if (use & GP_USE_STREAM)
		ret = gp_trace_set_stream(b, e, r->stream);
	if (!ret && use & GP_USE_THREAD)
		ret = gp_trace_set_thread(b, e, r->thread);
	if (ret)
		return ret;
	if (r->op == GP_OP_ALLOC) {
		e->id = t->n_ids;
		e->lg_align_flags = (uint8_t)(r->align ? gp_floor_log2(r->align) : 0);
		if (gp_id_map_put(&b->ids, r->id, (uint32_t)t->n_events))
			return gp_trace_no_memory(b);
		if (r->assumed) {
			e->lg_align_flags |= GP_EVENT_ASSUMED << 6;
			t->n_assumed++;
			t->assumed_bytes += r->size;
		}
		t->n_ids++;
		t->n_allocs++;
	} else if (r->op == GP_OP_FREE || r->op == GP_OP_RECLAIM) {
		trace_link_end(t, e, alloc);
	} else if (r->op == GP_OP_MARK) {
		return trace_add_mark(b, e, r->mark);
	}
	return 0;
}

int gp_trace_builder_add(struct gp_trace_builder *b, const struct gp_trace_record *r, uint64_t line)
{
	struct gp_trace *t = b->trace;
	struct gp_event e = { .link = GP_EVENT_NONE, .op = (uint8_t)r->op };
	bool placed = gp_op_uses(r->op) & GP_USE_ADDR;
	uint64_t addr = placed ? r->addr : 0, pool = placed ? r->pool : 0;
	uint32_t alloc = GP_EVENT_NONE;
	int ret;

	b->n_seen++;
	ret = trace_check_common(b, r, line);
	if (!ret && r->op == GP_OP_ALLOC)
		ret = trace_check_alloc(b, r, line);
	else if (!ret && (r->op == GP_OP_FREE || r->op == GP_OP_RECLAIM))
		ret = trace_check_end(b, r, line, &alloc);
	if (ret)
		return ret == GP_REFUSED ? 0 : ret;
	if (t->n_events == GP_EVENT_NONE)
		return gp_trace_builder_refuse(b, line,
					       "one event more, expected at most 2^32 - 1");
	ret = trace_check_time(b, r, line, &e.t_ns);
	if (!ret)
		ret = trace_reserve(b, addr != 0, pool != 0);
	if (!ret)
		ret = trace_fill(b, r, &e, alloc);
	if (ret)
		return ret;
	if (!r->assumed)
		b->last_ns = e.t_ns;
	if (t->addrs)
		t->addrs[t->n_events] = addr;
	if (t->pools)
		t->pools[t->n_events] = (uint8_t)pool;
	t->events[t->n_events++] = e;
	return 0;
}
