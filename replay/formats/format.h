/* SPDX-License-Identifier: Apache-2.0
 *
 * format: what a reader of one trace format is.
 *
 * A reader recognises a file by its first bytes, turns it into gp_trace_record after
 * gp_trace_record and hands each to the builder (trace.h), which checks the rules. It knows nothing
 * of the file's name or ending.
 *
 * To add one: formats/NAME.c that exports `const struct gp_format gp_NAME_format`, and 'NAME' in
 * the list format_names of replay/meson.build.
 *
 * Refusals    gp_trace_builder_refuse() with the line, or the builder's own; a reader returns the
 *             negative number that these return. Whether the input broke off in a fault
 *             (gp_input_error) is the loader's business: the reader just sees its end.
 * Lenient     gp_trace_builder_skip() says whether something may be left out and counts it.
 */
#ifndef GP_FORMAT_H
#define GP_FORMAT_H

#include "input.h"
#include "replay/trace.h"

enum gp_format_match {
	GP_FORMAT_NO,
	GP_FORMAT_MAYBE, /* would give a better message than "unknown format" */
	GP_FORMAT_YES,
};

struct gp_format {
	const char *name;    /* [a-z0-9_]+ */
	const char *summary; /* one line for people: "gpupool trace, JSON" */
	/* Looks at the first n bytes: the whole file, or GP_INPUT_PEEK_MAX of it. The best match
	 * reads; of equal ones the first in the list. */
	enum gp_format_match (*probe)(const unsigned char *head, size_t n);
	int (*read)(struct gp_input *in, struct gp_trace_builder *b);
};

/* NULL behind the last one. */
const struct gp_format *gp_format_at(size_t i);

/* gp_trace_load() from bytes that are already at hand; `in` stays the caller's. */
int gp_trace_load_input(struct gp_input *in, const struct gp_trace_options *options,
			struct gp_trace **out, char *why, size_t why_size);

#endif
