/* SPDX-License-Identifier: Apache-2.0
 *
 * json_fields: see json_fields.h.
 *
 * The header is in json_header.c, an event in json_event.c; here is what both need.
 */
#include "json_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gp_fields_init(struct gp_fields *f, struct gp_input *in, struct gp_trace_builder *b,
		   unsigned json_flags)
{
	int r;

	memset(f, 0, sizeof(*f));
	f->builder = b;
	r = gp_json_init(&f->json, in, json_flags);
	if (r)
		gp_trace_builder_refuse(b, 1, "out of memory");
	return r;
}

void gp_fields_fini(struct gp_fields *f)
{
	free(f->name);
	free(f->source);
	free(f->device_name);
	gp_json_fini(&f->json);
}

struct gp_fields_text gp_fields_quote(const struct gp_json *j)
{
	struct gp_fields_text q;
	size_t n = j->text_len < 40 ? j->text_len : 40;

	for (size_t i = 0; i < n; i++)
		q.text[i] = (char)(j->text[i] >= ' ' && j->text[i] < 0x7f ? j->text[i] : '?');
	memcpy(q.text + n, j->text_len > n ? "..." : "", 4 - 3 * (size_t)(j->text_len <= n));
	return q;
}

const char *gp_fields_number_fault(const struct gp_json *j, char *text, size_t size)
{
	const char *expected = NULL;

	if (j->token != GP_JSON_NUMBER) {
		snprintf(text, size, "is %s, expected a whole number",
			 gp_json_token_name(j->token));
		return text;
	}
	switch (j->number_kind) {
	case GP_JSON_UNSIGNED:
		return NULL;
	case GP_JSON_NEGATIVE:
		expected = "0 or more";
		break;
	case GP_JSON_FRACTION:
		expected = "a whole number without '.' and 'e'";
		break;
	case GP_JSON_TOO_LARGE:
		expected = "less than 2^64";
		break;
	}
	snprintf(text, size, "is %s, expected %s", gp_fields_quote(j).text, expected);
	return text;
}

bool gp_fields_is(const struct gp_json *j, const char *word)
{
	return j->text_len == strlen(word) && !memcmp(j->text, word, j->text_len);
}

/* ---- recognising ---- */

struct gp_fields_look gp_fields_look(const unsigned char *head, size_t n)
{
	struct gp_fields_look look = { 0 };
	struct gp_input *in = gp_input_open_memory("", head, n);
	struct gp_json j = { 0 };
	bool promised = false;

	if (!in || gp_json_init(&j, in, 0))
		goto out;
	look.object = gp_json_next(&j) == GP_JSON_OBJECT;
	while (look.object && !look.events && gp_json_next(&j) == GP_JSON_KEY) {
		bool format = gp_fields_is(&j, "format");

		promised |= gp_fields_is(&j, "n_events");
		look.events = gp_fields_is(&j, "events");
		gp_json_next(&j);
		look.format |=
			format && j.token == GP_JSON_STRING && gp_fields_is(&j, GP_FIELDS_FORMAT);
		gp_json_skip(&j);
	}
	if (look.object && !look.events && j.token == GP_JSON_OBJECT_END)
		look.lines = gp_json_next(&j) != GP_JSON_END || promised;
out:
	gp_json_fini(&j);
	gp_input_close(in);
	return look;
}
