/* SPDX-License-Identifier: Apache-2.0
 *
 * trace: from a file to a checked trace. Opens it, asks every format whether it knows it, lets the
 * best one read; the rules are in trace_builder.c.
 *
 * Formats     the list is generated from format_names in replay/meson.build.
 * Threads     loading different files at once is fine.
 */
#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "formats/format.h"

const char *gp_op_name(enum gp_op op)
{
	static const char *const names[] = {
		[GP_OP_ALLOC] = "alloc",
		[GP_OP_FREE] = "free",
		[GP_OP_RECLAIM] = "reclaim",
		[GP_OP_SYNC] = "sync",
		[GP_OP_TRIM] = "trim",
		[GP_OP_MARK] = "mark",
		[GP_OP_SEGMENT_ALLOC] = "segment_alloc",
		[GP_OP_SEGMENT_FREE] = "segment_free",
		[GP_OP_SEGMENT_MAP] = "segment_map",
		[GP_OP_SEGMENT_UNMAP] = "segment_unmap",
		[GP_OP_OOM] = "oom",
	};

	_Static_assert(GP_ARRAY_LEN(names) == GP_OP_N, "every op has its name");
	return names[op];
}

unsigned gp_op_uses(enum gp_op op)
{
	static const unsigned uses[GP_OP_N] = {
		[GP_OP_ALLOC] = GP_USE_SIZE | GP_USE_STREAM | GP_USE_THREAD | GP_USE_ADDR,
		[GP_OP_FREE] = GP_USE_THREAD,
		[GP_OP_SYNC] = GP_USE_THREAD,
		[GP_OP_TRIM] = GP_USE_THREAD,
		[GP_OP_SEGMENT_ALLOC] = GP_USE_SIZE | GP_USE_STREAM | GP_USE_ADDR,
		[GP_OP_SEGMENT_FREE] = GP_USE_SIZE | GP_USE_STREAM | GP_USE_ADDR,
		[GP_OP_SEGMENT_MAP] = GP_USE_SIZE | GP_USE_STREAM | GP_USE_ADDR,
		[GP_OP_SEGMENT_UNMAP] = GP_USE_SIZE | GP_USE_STREAM | GP_USE_ADDR,
		[GP_OP_OOM] = GP_USE_SIZE | GP_USE_STREAM | GP_USE_THREAD,
	};

	return uses[op];
}

const char *gp_skip_name(enum gp_skip kind)
{
	static const char *const names[] = {
		[GP_SKIP_UNKNOWN_OP] = "unknown_op",     [GP_SKIP_BAD_EVENT] = "bad_event",
		[GP_SKIP_DUPLICATE_ID] = "duplicate_id", [GP_SKIP_UNKNOWN_ID] = "unknown_id",
		[GP_SKIP_TIME_BACK] = "time_back",       [GP_SKIP_DUPLICATE_KEY] = "duplicate_key",
		[GP_SKIP_UNKNOWN_KEY] = "unknown_key",   [GP_SKIP_TAIL] = "tail",
	};

	_Static_assert(GP_ARRAY_LEN(names) == GP_SKIP_N, "every kind has its name");
	return names[kind];
}

const char *gp_skip_text(enum gp_skip kind)
{
	static const char *const texts[] = {
		[GP_SKIP_UNKNOWN_OP] = "an operation that is not known",
		[GP_SKIP_BAD_EVENT] = "a value is missing or impossible",
		[GP_SKIP_DUPLICATE_ID] = "an allocation of a block that is live",
		[GP_SKIP_UNKNOWN_ID] = "a free of a block that is not live",
		[GP_SKIP_TIME_BACK] = "time goes back",
		[GP_SKIP_DUPLICATE_KEY] = "a key twice",
		[GP_SKIP_UNKNOWN_KEY] = "a key that is not known",
		[GP_SKIP_TAIL] = "the file breaks off, or goes on with something else",
	};

	_Static_assert(GP_ARRAY_LEN(texts) == GP_SKIP_N, "every kind has its text");
	return texts[kind];
}

/* What is not part of the map that the file is. */
static void trace_free_arrays(struct gp_trace *t)
{
	if (t->map_bytes) {
		munmap(t->map, t->map_bytes);
	} else if (t->map) {
		free(t->map);
	} else {
		free(t->stream_handles);
		free(t->thread_handles);
		free(t->addrs);
		free(t->pools);
		free(t->events);
	}
}

struct gp_trace *gp_trace_destroy(struct gp_trace *t)
{
	if (!t)
		return NULL;
	for (uint32_t i = 0; i < t->n_marks; i++)
		free(t->marks[i]);
	free(t->marks);
	for (uint32_t i = 0; i < t->n_notes; i++)
		free(t->notes[i]);
	free(t->notes);
	trace_free_arrays(t);
	free(t->name);
	free(t->source);
	free(t->device_name);
	free(t->path);
	free(t);
	return NULL;
}

void gp_trace_record_at(const struct gp_trace *t, size_t i, struct gp_trace_record *out)
{
	const struct gp_event *e = &t->events[i];
	unsigned uses = gp_op_uses((enum gp_op)e->op);

	*out = (struct gp_trace_record){
		.op = (enum gp_op)e->op,
		.t_ns = e->t_ns,
		.size = uses & GP_USE_SIZE ? e->size : 0,
		.stream = uses & GP_USE_STREAM ? t->stream_handles[e->stream] : 0,
		.thread = uses & GP_USE_THREAD ? t->thread_handles[e->thread] : 0,
		.addr = t->addrs && uses & GP_USE_ADDR ? t->addrs[i] : 0,
		.pool = uses & GP_USE_ADDR ? gp_trace_pool(t, i) : 0,
	};
	if (e->op == GP_OP_MARK)
		out->mark = t->marks[e->id];
	else
		out->id = (uint64_t)e->id + 1;
	if (e->op == GP_OP_ALLOC) {
		out->align = gp_event_lg_align(e) ? UINT64_C(1) << gp_event_lg_align(e) : 0;
		out->assumed = (gp_event_flags(e) & GP_EVENT_ASSUMED) != 0;
	}
}

/* ---- loading ---- */

#define GP_FORMAT(name) extern const struct gp_format gp_##name##_format;
#include "format_list.inc"
#undef GP_FORMAT

static const struct gp_format *const trace_formats[] = {
#define GP_FORMAT(name) &gp_##name##_format,
#include "format_list.inc"
#undef GP_FORMAT
};

const struct gp_format *gp_format_at(size_t i)
{
	return i < GP_ARRAY_LEN(trace_formats) ? trace_formats[i] : NULL;
}

static const struct gp_format *trace_find_format(const unsigned char *head, size_t n)
{
	enum gp_format_match best = GP_FORMAT_NO;
	const struct gp_format *found = NULL;

	for (size_t i = 0; i < GP_ARRAY_LEN(trace_formats); i++) {
		enum gp_format_match match = trace_formats[i]->probe(head, n);

		if (match > best) {
			best = match;
			found = trace_formats[i];
		}
	}
	return found;
}

/* Nobody knows the file: says what it looks like, and what is known. */
static int trace_unknown_format(struct gp_trace_builder *b, const unsigned char *head, size_t n)
{
	char known[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < GP_ARRAY_LEN(trace_formats) && used < sizeof(known); i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
					 trace_formats[i]->name);
	return gp_trace_builder_refuse(b, 1, "%s, expected a trace (one of: %s)",
				       !n                   ? "the file is empty"
				       : memchr(head, 0, n) ? "binary data of an unknown format"
							    : "text of an unknown format",
				       known);
}

/* What ended the input, if it did not just end. The reader saw a file that ends too early and said
 * so; the true reason is the better message. */
static int trace_input_fault(struct gp_input *in, struct gp_trace_builder *b, int r)
{
	int error = gp_input_error(in);

	if (!error || (error == -EINVAL && !r && gp_trace_builder_skip(b, GP_SKIP_TAIL)))
		return r;
	gp_trace_builder_refuse(b, gp_input_end_line(in), "%s, expected a whole file",
				in->error_text);
	return error;
}

int gp_trace_load_input(struct gp_input *in, const struct gp_trace_options *options,
			struct gp_trace **out, char *why, size_t why_size)
{
	struct gp_trace_builder *b = gp_trace_builder_create(in->path, options);
	const struct gp_format *format;
	const unsigned char *head;
	size_t n;
	int r;

	if (!b) {
		snprintf(why, why_size, "%s: out of memory", in->path);
		return -ENOMEM;
	}
	n = gp_input_peek(in, &head);
	format = trace_find_format(head, n);
	r = format ? format->read(in, b) : trace_unknown_format(b, head, n);
	r = trace_input_fault(in, b, r);
	if (!r)
		r = gp_trace_builder_finish(b, out);
	if (!r)
		(*out)->format = format->name;
	if (r)
		snprintf(why, why_size, "%s", gp_trace_builder_why(b));
	gp_trace_builder_destroy(b);
	return r;
}

int gp_trace_load(const char *path, const struct gp_trace_options *options, struct gp_trace **out,
		  char *why, size_t why_size)
{
	struct gp_input *in;
	int r = gp_input_open(path, &in, why, why_size);

	if (r)
		return r;
	if (options) {
		in->progress = options->progress;
		in->progress_arg = options->progress_arg;
	}
	r = gp_trace_load_input(in, options, out, why, why_size);
	gp_input_close(in);
	return r;
}
