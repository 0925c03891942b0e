/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool_jsonl: the trace as JSON Lines (traces/FORMAT.md): the header on the first line, then one
 * event on each.
 *
 * Lenient     a line that is no JSON is left out alone: the next one is a fresh start.
 */
#include "json_fields.h"

#include <errno.h>

static enum gp_format_match jsonl_probe(const unsigned char *head, size_t n)
{
	struct gp_fields_look look = gp_fields_look(head, n);

	return look.format && look.lines ? GP_FORMAT_YES : GP_FORMAT_NO;
}

static int jsonl_header(struct gp_fields *f)
{
	struct gp_json *j = &f->json;
	int r = 0;

	gp_json_next(j); /* the probe saw that it is an object */
	while (!r && j->token != GP_JSON_ERROR && gp_json_next(j) == GP_JSON_KEY)
		r = gp_fields_header_key(f);
	if (!r && j->token == GP_JSON_ERROR)
		r = gp_trace_builder_refuse(f->builder, j->error_line, "%s", j->error);
	return r ? r : gp_fields_header_end(f);
}

/* The JSON of a line is broken. */
static int jsonl_bad_line(struct gp_fields *f)
{
	if (f->json.truncated)
		return gp_fields_broken(f);
	if (gp_trace_builder_problem(f->builder, GP_SKIP_BAD_EVENT, f->json.error_line, "%s",
				     f->json.error) < 0)
		return -EINVAL;
	gp_json_resync(&f->json);
	return 0;
}

static int jsonl_events(struct gp_fields *f)
{
	struct gp_json *j = &f->json;
	int r = 0;

	while (!r && gp_json_next(j) != GP_JSON_END) {
		if (j->token != GP_JSON_ERROR)
			r = gp_fields_event(f);
		if (!r && j->token == GP_JSON_ERROR) {
			bool last = j->truncated;

			r = jsonl_bad_line(f);
			if (last)
				return r;
		}
	}
	return r ? r : gp_fields_end(f);
}

static int jsonl_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct gp_fields f;
	int r = gp_fields_init(&f, in, b, GP_JSON_LINES);

	if (!r)
		r = jsonl_header(&f);
	if (!r)
		r = jsonl_events(&f);
	gp_fields_fini(&f);
	return r;
}

const struct gp_format gp_gpupool_jsonl_format = {
	.name = "gpupool_jsonl",
	.summary = "gpupool trace, JSON Lines",
	.probe = jsonl_probe,
	.read = jsonl_read,
};
