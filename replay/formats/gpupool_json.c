/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool_json: the trace as one JSON object (traces/FORMAT.md).
 *
 * Shape       the events are read where they stand, never held as a tree. Header keys may come
 *             after them; so only the end of the object tells whether the header is whole.
 */
#include "json_fields.h"

#include <string.h>

static enum gp_format_match json_probe(const unsigned char *head, size_t n)
{
	struct gp_fields_look look = gp_fields_look(head, n);

	if (look.format && !look.lines)
		return GP_FORMAT_YES;
	return look.object ? GP_FORMAT_MAYBE : GP_FORMAT_NO;
}

/* The current token is the key "events". */
static int json_events(struct gp_fields *f, bool *seen)
{
	int r = 0;

	if (*seen)
		return gp_trace_builder_refuse(f->builder, f->json.line,
					       "key \"events\" twice, expected it once");
	*seen = true;
	gp_json_next(&f->json);
	if (f->json.token != GP_JSON_ARRAY && f->json.token != GP_JSON_ERROR)
		return gp_trace_builder_refuse(f->builder, f->json.line,
					       "\"events\" is %s, expected an array",
					       gp_json_token_name(f->json.token));
	if (f->json.token == GP_JSON_ERROR)
		return 0;
	while (!r && gp_json_next(&f->json) != GP_JSON_ARRAY_END && f->json.token != GP_JSON_ERROR)
		r = gp_fields_event(f);
	return r;
}

static int json_object(struct gp_fields *f)
{
	struct gp_json *j = &f->json;
	bool events = false;
	int r = 0;

	if (gp_json_next(j) != GP_JSON_OBJECT && j->token != GP_JSON_ERROR)
		return gp_trace_builder_refuse(f->builder, j->line, "%s, expected an object",
					       gp_json_token_name(j->token));
	while (!r && j->token != GP_JSON_ERROR && gp_json_next(j) == GP_JSON_KEY) {
		if (j->text_len == 6 && !strcmp(j->text, "events"))
			r = json_events(f, &events);
		else
			r = gp_fields_header_key(f);
	}
	if (r)
		return r;
	if (j->token == GP_JSON_ERROR)
		return gp_fields_broken(f);
	r = gp_fields_header_end(f);
	if (r)
		return r;
	if (!events)
		return gp_trace_builder_refuse(f->builder, j->line,
					       "no \"events\", expected an array of events");
	if (gp_json_next(j) != GP_JSON_END)
		return gp_fields_broken(f);
	return gp_fields_end(f);
}

static int json_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct gp_fields f;
	int r = gp_fields_init(&f, in, b, 0);

	if (!r)
		r = json_object(&f);
	gp_fields_fini(&f);
	return r;
}

const struct gp_format gp_gpupool_json_format = {
	.name = "gpupool_json",
	.summary = "gpupool trace, one JSON object",
	.probe = json_probe,
	.read = json_read,
};
