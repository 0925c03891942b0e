/* SPDX-License-Identifier: Apache-2.0
 *
 * json_text: see json_text.h.
 *
 * Cost        about 55 bytes of text and 40 ns an event
 * Threads     caller serialises
 */
#include "json_text.h"

static void text_key(struct gp_output *o, const char *key, const char *value)
{
	gp_output_text(o, key);
	gp_output_quoted(o, value ? value : "");
}

static void text_device(struct gp_output *o, const struct gp_json_header *h)
{
	if ((!h->device_name || !h->device_name[0]) && !h->device_bytes)
		return;
	text_key(o, ",\"device\":{\"name\":", h->device_name);
	if (h->device_bytes) {
		gp_output_text(o, ",\"total_bytes\":");
		gp_output_number(o, h->device_bytes);
	}
	gp_output_text(o, "}");
}

void gp_json_text_header(struct gp_json_text *j, const struct gp_json_header *h)
{
	struct gp_output *o = j->out;

	gp_output_text(o, "{\"format\":\"gpupool-trace\",\"version\":1");
	text_key(o, ",\"name\":", h->name);
	text_key(o, ",\"source\":", h->source);
	text_device(o, h);
	for (uint32_t i = 0; i < h->n_notes; i++)
		text_key(o, i ? "," : ",\"notes\":[", h->notes[i]);
	if (h->n_notes)
		gp_output_text(o, "]");
	gp_output_text(o, ",\"n_events\":");
	gp_output_number(o, h->n_events);
	gp_output_text(o, j->lines ? "}\n" : ",\"events\":[\n");
}

#define TEXT_UNLESS_0(o, key, value)                                                               \
	do {                                                                                       \
		if (value) {                                                                       \
			gp_output_text(o, ",\"" key "\":");                                        \
			gp_output_number(o, value);                                                \
		}                                                                                  \
	} while (0)

void gp_json_text_event(struct gp_json_text *j, const struct gp_trace_record *r)
{
	struct gp_output *o = j->out;
	unsigned uses = gp_op_uses(r->op);

	if (j->more && !j->lines)
		gp_output_text(o, ",\n");
	j->more = true;
	gp_output_text(o, "{\"op\":\"");
	gp_output_text(o, gp_op_name(r->op));
	gp_output_text(o, "\"");
	if (r->op == GP_OP_ALLOC || r->op == GP_OP_FREE || r->op == GP_OP_RECLAIM) {
		gp_output_text(o, ",\"id\":");
		gp_output_number(o, r->id);
	}
	if (uses & GP_USE_SIZE) {
		gp_output_text(o, ",\"size\":");
		gp_output_number(o, r->size);
	}
	if (uses & GP_USE_STREAM)
		TEXT_UNLESS_0(o, "stream", r->stream);
	if (uses & GP_USE_THREAD)
		TEXT_UNLESS_0(o, "thread", r->thread);
	if (r->op == GP_OP_ALLOC && r->align > 1)
		TEXT_UNLESS_0(o, "align", r->align);
	if (uses & GP_USE_ADDR)
		TEXT_UNLESS_0(o, "addr", r->addr);
	if (uses & GP_USE_ADDR)
		TEXT_UNLESS_0(o, "pool", r->pool);
	if (r->op == GP_OP_MARK) {
		gp_output_text(o, ",\"name\":");
		gp_output_quoted(o, r->mark);
	}
	if (r->op == GP_OP_ALLOC && r->assumed)
		gp_output_text(o, ",\"assumed\":true");
	TEXT_UNLESS_0(o, "t", r->t_ns);
	gp_output_text(o, j->lines ? "}\n" : "}");
}

void gp_json_text_end(struct gp_json_text *j)
{
	if (!j->lines)
		gp_output_text(j->out, j->more ? "\n]}\n" : "]}\n");
}

void gp_json_text_trace(struct gp_json_text *j, const struct gp_trace *t)
{
	const struct gp_json_header header = {
		.name = t->name,
		.source = t->source,
		.device_name = t->device_name,
		.device_bytes = t->device_bytes,
		.notes = t->notes,
		.n_notes = t->n_notes,
		.n_events = t->n_events,
	};

	gp_json_text_header(j, &header);
	for (size_t i = 0; i < t->n_events && !j->out->error; i++) {
		struct gp_trace_record r;

		gp_trace_record_at(t, i, &r);
		gp_json_text_event(j, &r);
	}
	gp_json_text_end(j);
}
