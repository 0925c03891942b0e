/* SPDX-License-Identifier: Apache-2.0
 *
 * json_text: a gpupool trace as JSON or JSON Lines (traces/FORMAT.md), event by event: for the
 * writers of whole traces and for who makes events on the way (gpupool-gen).
 *
 * Shape       what has its default value is left out; keys come in one order. So a trace has one
 *             text, whatever it was read from.
 */
#ifndef GP_JSON_TEXT_H
#define GP_JSON_TEXT_H

#include "output.h"
#include "replay/trace.h"

struct gp_json_text {
	struct gp_output *out;
	bool lines; /* JSON Lines; else one document */
	bool more;  /* an event was written */
};

/* Strings may be NULL. */
struct gp_json_header {
	const char *name, *source, *device_name;
	uint64_t device_bytes;
	char *const *notes;
	uint32_t n_notes;
	uint64_t n_events;
};

/* Once, before any event. */
void gp_json_text_header(struct gp_json_text *j, const struct gp_json_header *h);
void gp_json_text_event(struct gp_json_text *j, const struct gp_trace_record *r);
void gp_json_text_end(struct gp_json_text *j);
/* All of it. */
void gp_json_text_trace(struct gp_json_text *j, const struct gp_trace *t);

#endif
