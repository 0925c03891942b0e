/* SPDX-License-Identifier: Apache-2.0
 *
 * json_fields: the keys of a gpupool trace, common to its JSON and its JSON Lines form. What each
 * means and which are asked for is written in traces/FORMAT.md.
 *
 * Functions return 0, or the negative number that ends the reading; the builder then holds why.
 */
#ifndef GP_JSON_FIELDS_H
#define GP_JSON_FIELDS_H

#include "format.h"
#include "json_pull.h"

#define GP_FIELDS_FORMAT  "gpupool-trace"
#define GP_FIELDS_VERSION 1u

struct gp_fields {
	struct gp_json json;
	struct gp_trace_builder *builder;
	/* Of the header. */
	unsigned header_seen; /* bit per key */
	char *name, *source, *device_name;
	uint64_t device_bytes;
	uint64_t n_promised; /* "n_events"; meaningful when the header has it */
	uint64_t n_read;     /* events met so far */
};

int gp_fields_init(struct gp_fields *f, struct gp_input *in, struct gp_trace_builder *b,
		   unsigned json_flags);
void gp_fields_fini(struct gp_fields *f);

/* The current token is a key of the header, "events" excepted: takes its value. */
int gp_fields_header_key(struct gp_fields *f);
/* The header is whole: asks for what must be there and hands it to the builder. */
int gp_fields_header_end(struct gp_fields *f);
/* The current token is the first of an event. Returns 0 too when the JSON of the event is broken:
 * the current token is GP_JSON_ERROR then. */
int gp_fields_event(struct gp_fields *f);
/* All events were read: as many as the header promised? */
int gp_fields_end(struct gp_fields *f);

/* The tokenizer's refusal as the builder's. Lenient, and when the header said before what the file
 * is: counts the rest as its tail, and what was read until here is the trace. */
int gp_fields_broken(struct gp_fields *f);

/* ---- what both parts share ---- */

struct gp_fields_text {
	char text[48];
};

/* The current token's text for a message: its beginning, in printable ASCII. */
struct gp_fields_text gp_fields_quote(const struct gp_json *j);
/* What is wrong with the current token as a whole number, put into `text`; NULL: nothing. */
const char *gp_fields_number_fault(const struct gp_json *j, char *text, size_t size);
/* The current token's text is this word. */
bool gp_fields_is(const struct gp_json *j, const char *word);

/* ---- recognising ---- */

/* What the beginning of a file looks like. */
struct gp_fields_look {
	bool object; /* it opens an object */
	bool format; /* ... with our "format" */
	bool events; /* ... and "events" in it */
	bool lines;  /* ... or none, and the object ended and more follows, or is promised */
};

struct gp_fields_look gp_fields_look(const unsigned char *head, size_t n);

#endif
