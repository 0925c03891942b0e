/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_info_json: gpupool-trace info --json: everything that was counted, exactly.
 */
#include "replay/writers/output.h"
#include "trace_info.h"

struct doc {
	struct gp_output *out;
	bool more; /* a member was written before in this object or array */
};

static void doc_next(struct doc *d)
{
	if (d->more)
		gp_output_text(d->out, ",");
	d->more = true;
}

static void doc_key(struct doc *d, const char *key)
{
	doc_next(d);
	gp_output_quoted(d->out, key);
	gp_output_text(d->out, ":");
}

static void doc_open(struct doc *d, const char *key, const char *bracket)
{
	if (key)
		doc_key(d, key);
	else
		doc_next(d);
	gp_output_text(d->out, bracket);
	d->more = false;
}

static void doc_close(struct doc *d, const char *bracket)
{
	gp_output_text(d->out, bracket);
	d->more = true;
}

static void doc_number(struct doc *d, const char *key, uint64_t n)
{
	doc_key(d, key);
	gp_output_number(d->out, n);
}

static void doc_text(struct doc *d, const char *key, const char *text)
{
	doc_key(d, key);
	gp_output_quoted(d->out, text);
}

static void doc_sizes(struct doc *d, const char *key, const struct info_sizes *s)
{
	doc_open(d, key, "{");
	doc_number(d, "count", s->count);
	doc_number(d, "bytes", s->bytes);
	doc_open(d, "by_size", "[");
	for (uint32_t i = 0; i < s->n; i++) {
		doc_open(d, NULL, "{");
		doc_number(d, "size", s->items[i].size);
		doc_number(d, "count", s->items[i].count);
		doc_close(d, "}");
	}
	doc_close(d, "]");
	doc_close(d, "}");
}

/* Classes that occur, each with its lowest value. */
static void doc_classes(struct doc *d, const char *key, const uint64_t *counts)
{
	doc_open(d, key, "[");
	for (unsigned i = 0; i < INFO_LG; i++) {
		if (!counts[i])
			continue;
		doc_open(d, NULL, "{");
		doc_number(d, "from", i ? UINT64_C(1) << (i - 1) : 0);
		doc_number(d, "count", counts[i]);
		doc_close(d, "}");
	}
	doc_close(d, "]");
}

static void doc_head(struct doc *d, const struct trace_info *info)
{
	const struct gp_trace *t = info->t;

	doc_text(d, "path", t->path);
	doc_text(d, "format", t->format);
	doc_text(d, "name", t->name);
	doc_text(d, "source", t->source);
	doc_open(d, "device", "{");
	doc_text(d, "name", t->device_name);
	doc_number(d, "total_bytes", t->device_bytes);
	doc_close(d, "}");
	doc_open(d, "notes", "[");
	for (uint32_t i = 0; i < t->n_notes; i++) {
		doc_next(d);
		gp_output_quoted(d->out, t->notes[i]);
	}
	doc_close(d, "]");
}

static void doc_counts(struct doc *d, const struct trace_info *info)
{
	const struct gp_trace *t = info->t;

	doc_number(d, "events", t->n_events);
	doc_open(d, "ops", "{");
	for (enum gp_op op = 0; op < GP_OP_N; op++)
		doc_number(d, gp_op_name(op), info->n_ops[op]);
	doc_close(d, "}");
	doc_number(d, "duration_ns", info->duration_ns);
	doc_number(d, "load_bytes", t->load_bytes);
	doc_number(d, "load_event", t->n_events ? t->load_event + 1 : 0);
	doc_number(d, "requested_bytes", info->requested_bytes);
	doc_number(d, "end_live_bytes", info->live_bytes);
	doc_open(d, "live_curve", "[");
	for (unsigned i = 0; i < info->n_windows; i++) {
		doc_next(d);
		gp_output_number(d->out, info->curve[i]);
	}
	doc_close(d, "]");
	doc_open(d, "assumed", "{");
	doc_number(d, "count", t->n_assumed);
	doc_number(d, "bytes", t->assumed_bytes);
	doc_close(d, "}");
	doc_open(d, "skipped", "{");
	for (enum gp_skip k = 0; k < GP_SKIP_N; k++)
		if (t->skipped[k])
			doc_number(d, gp_skip_name(k), t->skipped[k]);
	doc_close(d, "}");
}

static void doc_callers(struct doc *d, const struct trace_info *info)
{
	const struct gp_trace *t = info->t;

	doc_open(d, "streams", "[");
	for (uint32_t i = 0; i < t->n_streams; i++) {
		doc_open(d, NULL, "{");
		doc_number(d, "handle", t->stream_handles[i]);
		doc_number(d, "allocs", info->streams[i].n_allocs);
		doc_number(d, "bytes", info->streams[i].bytes);
		doc_close(d, "}");
	}
	doc_close(d, "]");
	doc_open(d, "threads", "[");
	for (uint32_t i = 0; i < t->n_threads; i++) {
		doc_open(d, NULL, "{");
		doc_number(d, "handle", t->thread_handles[i]);
		doc_number(d, "calls", info->threads[i]);
		doc_close(d, "}");
	}
	doc_close(d, "]");
}

static void doc_marks(struct doc *d, const struct gp_trace *t)
{
	doc_open(d, "marks", "[");
	for (size_t i = 0; i < t->n_events; i++) {
		if (t->events[i].op != GP_OP_MARK)
			continue;
		doc_open(d, NULL, "{");
		doc_number(d, "event", i + 1);
		doc_number(d, "t", t->events[i].t_ns);
		doc_text(d, "name", t->marks[t->events[i].id]);
		doc_close(d, "}");
	}
	doc_close(d, "]");
}

int trace_info_json(const struct trace_info *info, char *why, size_t why_size)
{
	struct doc d = { 0 };
	int r = gp_output_open("-", false, &d.out, why, why_size);

	if (r)
		return r;
	doc_open(&d, NULL, "{");
	doc_head(&d, info);
	doc_counts(&d, info);
	doc_sizes(&d, "sizes", &info->sizes);
	doc_sizes(&d, "never_freed", &info->kept);
	doc_classes(&d, "size_classes", info->by_size);
	doc_classes(&d, "lifetime_events", info->by_events);
	if (info->duration_ns)
		doc_classes(&d, "lifetime_ns", info->by_time);
	doc_callers(&d, info);
	doc_marks(&d, info->t);
	doc_open(&d, "recorded", "{");
	doc_number(&d, "peak_reserved_bytes", info->recorded_peak_bytes);
	doc_close(&d, "}");
	doc_close(&d, "}");
	gp_output_text(d.out, "\n");
	r = gp_output_commit(d.out, why, why_size);
	gp_output_close(d.out);
	return r;
}
