/* SPDX-License-Identifier: Apache-2.0
 *
 * json_header: the keys of a gpupool trace outside its events; see json_fields.h.
 *
 * Not done    duplicate keys inside values that are not read (unknown keys of the header).
 */
#include "json_fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum header_key {
	HEADER_FORMAT,
	HEADER_VERSION,
	HEADER_NAME,
	HEADER_SOURCE,
	HEADER_DEVICE,
	HEADER_N_EVENTS,
	HEADER_NOTES,
	HEADER_DEVICE_NAME, /* from here on: in "device" */
	HEADER_DEVICE_BYTES,
	HEADER_N,
};

static const char *const header_names[] = {
	[HEADER_FORMAT] = "format",
	[HEADER_VERSION] = "version",
	[HEADER_NAME] = "name",
	[HEADER_SOURCE] = "source",
	[HEADER_DEVICE] = "device",
	[HEADER_N_EVENTS] = "n_events",
	[HEADER_NOTES] = "notes",
	[HEADER_DEVICE_NAME] = "name",
	[HEADER_DEVICE_BYTES] = "total_bytes",
};

static int header_key(struct gp_fields *f, enum header_key first, enum header_key end);

static int header_string(struct gp_fields *f, enum header_key key, char **out)
{
	struct gp_json *j = &f->json;

	if (j->token != GP_JSON_STRING)
		return gp_trace_builder_refuse(f->builder, j->line,
					       "\"%s\" is %s, expected a string", header_names[key],
					       gp_json_token_name(j->token));
	free(*out);
	*out = strdup(j->text);
	if (!*out) {
		gp_trace_builder_refuse(f->builder, j->line, "out of memory");
		return -ENOMEM;
	}
	return 0;
}

static int header_number(struct gp_fields *f, enum header_key key, uint64_t *out)
{
	char text[128];
	const char *fault = gp_fields_number_fault(&f->json, text, sizeof(text));

	if (fault)
		return gp_trace_builder_refuse(f->builder, f->json.line, "\"%s\" %s",
					       header_names[key], fault);
	*out = f->json.number;
	return 0;
}

static int header_format(struct gp_fields *f)
{
	struct gp_json *j = &f->json;

	if (j->token == GP_JSON_STRING && gp_fields_is(j, GP_FIELDS_FORMAT))
		return 0;
	return gp_trace_builder_refuse(
		f->builder, j->line, "\"format\" is %s%s%s, expected \"" GP_FIELDS_FORMAT "\"",
		j->token == GP_JSON_STRING ? "\"" : "",
		j->token == GP_JSON_STRING ? gp_fields_quote(j).text : gp_json_token_name(j->token),
		j->token == GP_JSON_STRING ? "\"" : "");
}

static int header_version(struct gp_fields *f)
{
	uint64_t version = 0;
	int r = header_number(f, HEADER_VERSION, &version);

	if (r || version == GP_FIELDS_VERSION)
		return r;
	return gp_trace_builder_refuse(
		f->builder, f->json.line,
		"\"version\" is %llu, expected %u, the one this program knows",
		(unsigned long long)version, GP_FIELDS_VERSION);
}

static int header_device(struct gp_fields *f)
{
	struct gp_json *j = &f->json;
	int r = 0;

	if (j->token != GP_JSON_OBJECT)
		return gp_trace_builder_refuse(f->builder, j->line,
					       "\"device\" is %s, expected an object",
					       gp_json_token_name(j->token));
	while (!r && gp_json_next(j) == GP_JSON_KEY)
		r = header_key(f, HEADER_DEVICE_NAME, HEADER_N);
	return r;
}

static int header_notes(struct gp_fields *f)
{
	struct gp_json *j = &f->json;
	int r = 0;

	if (j->token != GP_JSON_ARRAY)
		return gp_trace_builder_refuse(f->builder, j->line,
					       "\"notes\" is %s, expected an array of strings",
					       gp_json_token_name(j->token));
	while (!r && gp_json_next(j) == GP_JSON_STRING)
		r = gp_trace_builder_note(f->builder, "%s", j->text);
	if (r || j->token == GP_JSON_ARRAY_END || j->token == GP_JSON_ERROR)
		return r;
	return gp_trace_builder_refuse(f->builder, j->line,
				       "one of the \"notes\" is %s, expected a string",
				       gp_json_token_name(j->token));
}

static int header_value(struct gp_fields *f, enum header_key key)
{
	switch (key) {
	case HEADER_FORMAT:
		return header_format(f);
	case HEADER_VERSION:
		return header_version(f);
	case HEADER_NAME:
		return header_string(f, key, &f->name);
	case HEADER_SOURCE:
		return header_string(f, key, &f->source);
	case HEADER_DEVICE:
		return header_device(f);
	case HEADER_N_EVENTS:
		return header_number(f, key, &f->n_promised);
	case HEADER_NOTES:
		return header_notes(f);
	case HEADER_DEVICE_NAME:
		return header_string(f, key, &f->device_name);
	case HEADER_DEVICE_BYTES:
		return header_number(f, key, &f->device_bytes);
	case HEADER_N:
		break;
	}
	return 0;
}

/* One member whose key is one of [first, end). A key that this version does not know is passed
 * over: later ones may add some. */
static int header_key(struct gp_fields *f, enum header_key first, enum header_key end)
{
	struct gp_json *j = &f->json;
	enum header_key key = first;

	while (key < end && !gp_fields_is(j, header_names[key]))
		key++;
	if (key < end && f->header_seen & 1u << key &&
	    gp_trace_builder_problem(f->builder, GP_SKIP_DUPLICATE_KEY, j->line,
				     "key \"%s\" twice, expected it once", header_names[key]) < 0)
		return -EINVAL;
	gp_json_next(j);
	if (key == end)
		gp_json_skip(j);
	if (key == end || j->token == GP_JSON_ERROR)
		return 0;
	f->header_seen |= 1u << key;
	return header_value(f, key);
}

int gp_fields_header_key(struct gp_fields *f)
{
	return header_key(f, HEADER_FORMAT, HEADER_DEVICE_NAME);
}

static bool header_is_ours(const struct gp_fields *f)
{
	unsigned both = 1u << HEADER_FORMAT | 1u << HEADER_VERSION;

	return (f->header_seen & both) == both;
}

int gp_fields_header_end(struct gp_fields *f)
{
	if (!(f->header_seen & 1u << HEADER_FORMAT))
		return gp_trace_builder_refuse(f->builder, f->json.line,
					       "no \"format\", expected \"" GP_FIELDS_FORMAT "\"");
	if (!(f->header_seen & 1u << HEADER_VERSION))
		return gp_trace_builder_refuse(f->builder, f->json.line,
					       "no \"version\", expected %u", GP_FIELDS_VERSION);
	return gp_trace_builder_header(f->builder, f->name, f->source, f->device_name,
				       f->device_bytes);
}

int gp_fields_broken(struct gp_fields *f)
{
	if (!header_is_ours(f))
		return gp_trace_builder_refuse(f->builder, f->json.error_line, "%s", f->json.error);
	if (gp_trace_builder_problem(f->builder, GP_SKIP_TAIL, f->json.error_line, "%s",
				     f->json.error) < 0)
		return -EINVAL;
	return gp_fields_header_end(f);
}

int gp_fields_end(struct gp_fields *f)
{
	int r;

	if (!(f->header_seen & 1u << HEADER_N_EVENTS) || f->n_read == f->n_promised)
		return 0;
	r = gp_trace_builder_problem(f->builder, GP_SKIP_TAIL, gp_input_end_line(f->json.in),
				     "the file ends after %llu events (truncated?), expected the "
				     "%llu of \"n_events\"",
				     (unsigned long long)f->n_read,
				     (unsigned long long)f->n_promised);
	return r == GP_REFUSED ? 0 : r;
}
