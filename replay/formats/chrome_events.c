/* SPDX-License-Identifier: Apache-2.0
 *
 * chrome_events: see chrome_events.h. This file walks through the document; what one event says is
 * put together in chrome_event.c.
 */
#include "chrome_event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

void gp_chrome_fini(struct gp_chrome *c)
{
	free(c->events);
	c->events = NULL;
}

static uint64_t *chrome_device_field(struct gp_chrome_device *d, const struct gp_json *j)
{
	if (gp_fields_is(j, "id"))
		return &d->id;
	return gp_fields_is(j, "totalGlobalMem") ? &d->total_bytes : NULL;
}

/* One element of "deviceProperties". It only serves people: what is odd in it is passed over. */
static void chrome_device(struct gp_chrome *c, struct gp_json *j)
{
	struct gp_chrome_device d = { 0 };

	while (gp_json_next(j) == GP_JSON_KEY) {
		uint64_t *to = chrome_device_field(&d, j);

		if (gp_fields_is(j, "name") && gp_json_next(j) == GP_JSON_STRING)
			snprintf(d.name, sizeof(d.name), "%s", j->text);
		else if (to && gp_json_next(j) == GP_JSON_NUMBER &&
			 j->number_kind == GP_JSON_UNSIGNED)
			*to = j->number;
		else if (j->token == GP_JSON_KEY)
			gp_json_pass(j);
		gp_json_skip(j);
	}
	if (j->token == GP_JSON_OBJECT_END && c->n_devices < GP_ARRAY_LEN(c->devices))
		c->devices[c->n_devices++] = d;
}

static void chrome_devices(struct gp_chrome *c, struct gp_json *j)
{
	if (gp_json_next(j) != GP_JSON_ARRAY) {
		gp_json_skip(j);
		return;
	}
	while (gp_json_next(j) != GP_JSON_ARRAY_END && j->token != GP_JSON_ERROR) {
		if (j->token == GP_JSON_OBJECT)
			chrome_device(c, j);
		else
			gp_json_skip(j);
	}
}

/* The current token opens the array of events. */
static int chrome_events(struct gp_chrome *c, struct gp_json *j, struct gp_trace_builder *b)
{
	int r = 0;

	c->line = j->line;
	while (r >= 0 && gp_json_next(j) != GP_JSON_ARRAY_END && j->token != GP_JSON_ERROR) {
		c->n_all++;
		if (j->token == GP_JSON_OBJECT) {
			r = gp_chrome_event(c, j, b);
			continue;
		}
		r = gp_trace_builder_problem(b, GP_SKIP_BAD_EVENT, j->line,
					     "traceEvents[%llu] is %s, expected an object",
					     (unsigned long long)c->n_all - 1,
					     gp_json_token_name(j->token));
		gp_json_skip(j);
	}
	return r < 0 ? r : 0;
}

/* The current token is a key of the document. */
static int chrome_member(struct gp_chrome *c, struct gp_json *j, struct gp_trace_builder *b)
{
	if (gp_fields_is(j, "deviceProperties")) {
		chrome_devices(c, j);
	} else if (gp_fields_is(j, "profile_memory")) {
		gp_json_next(j);
		c->profile_memory =
			j->token == GP_JSON_TRUE || (j->token == GP_JSON_NUMBER && j->number);
		gp_json_skip(j);
	} else if (!gp_fields_is(j, "traceEvents")) {
		gp_json_pass(j);
	} else if (c->line) {
		return gp_trace_builder_refuse(b, j->line,
					       "key \"traceEvents\" twice, expected it once");
	} else if (gp_json_next(j) == GP_JSON_ARRAY) {
		return chrome_events(c, j, b);
	} else if (j->token != GP_JSON_ERROR) {
		return gp_trace_builder_refuse(b, j->line,
					       "\"traceEvents\" is %s, expected an array",
					       gp_json_token_name(j->token));
	}
	return 0;
}

static int chrome_document(struct gp_chrome *c, struct gp_json *j, struct gp_trace_builder *b)
{
	int r = 0;

	gp_json_next(j);
	if (j->token == GP_JSON_ARRAY)
		r = chrome_events(c, j, b);
	while (!r && j->depth && gp_json_next(j) == GP_JSON_KEY)
		r = chrome_member(c, j, b);
	if (r)
		return r;
	if (j->token != GP_JSON_ERROR && gp_json_next(j) == GP_JSON_END)
		return 0;
	/* Cut, or not JSON from here on: lenient, what came before is the trace. */
	if (c->line && gp_trace_builder_skip(b, GP_SKIP_TAIL))
		return 0;
	return gp_trace_builder_refuse(b, j->error_line, "%s", j->error);
}

int gp_chrome_read(struct gp_chrome *c, struct gp_input *in, struct gp_trace_builder *b)
{
	struct gp_json j;
	int r;

	memset(c, 0, sizeof(*c));
	gp_text_skip_mark(in);
	r = gp_json_init(&j, in, 0);
	if (r)
		gp_trace_builder_refuse(b, 1, "out of memory");
	else
		r = chrome_document(c, &j, b);
	gp_json_fini(&j);
	return r;
}

/* ---- recognising ---- */

/* Keys that the profilers' documents have, and no other format that is read here. */
static bool chrome_is_own_key(const struct gp_json *j)
{
	return gp_fields_is(j, "traceEvents") || gp_fields_is(j, "displayTimeUnit") ||
	       gp_fields_is(j, "schemaVersion") || gp_fields_is(j, "deviceProperties");
}

enum gp_format_match gp_chrome_probe(const unsigned char *head, size_t n)
{
	struct gp_input *in = gp_input_open_memory("", head, n);
	struct gp_json j = { 0 };
	bool array = false, found = false;

	if (in)
		gp_text_skip_mark(in);
	if (in && !gp_json_init(&j, in, 0)) {
		array = gp_json_next(&j) == GP_JSON_ARRAY;
		if (array)
			gp_json_next(&j);
		while (!found && j.depth && gp_json_next(&j) == GP_JSON_KEY) {
			found = array ? gp_fields_is(&j, "ph") : chrome_is_own_key(&j);
			gp_json_pass(&j);
		}
	}
	gp_json_fini(&j);
	gp_input_close(in);
	return found ? GP_FORMAT_YES : GP_FORMAT_NO;
}
