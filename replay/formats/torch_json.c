/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_json: a PyTorch memory snapshot that someone turned into JSON (json.dump of what
 * _snapshot() returned, or of the unpickled file).
 *
 * Shape       as torch_pickle.c: torch_dict.c is told of each object and array when it is whole.
 *             Keys without a meaning, the stack frames above all, are passed over unread.
 * Lenient     a file that breaks off is read up to there; something behind the end is left out.
 */
#include <errno.h>
#include <stdlib.h>

#include "format.h"
#include "json_pull.h"
#include "torch_snapshot.h"

struct torch_json {
	struct gp_torch torch;
	struct gp_json json;
};

static int torch_json_value(struct torch_json *t, bool keep, struct gp_plain *out);

static int torch_json_string(struct torch_json *t, bool keep, struct gp_plain *out)
{
	const struct gp_json *j = &t->json;
	uint32_t word = gp_torch_word(j->text, j->text_len);

	out->kind = word != GP_TORCH_NO_WORD ? GP_PLAIN_WORD
		    : keep                   ? GP_PLAIN_TEXT
					     : GP_PLAIN_STRING;
	out->number = word;
	if (out->kind != GP_PLAIN_TEXT)
		return 0;
	return gp_torch_text(&t->torch, j->text, j->text_len, &out->number);
}

static void torch_json_number(const struct gp_json *j, struct gp_plain *out)
{
	static const uint8_t kinds[] = {
		[GP_JSON_UNSIGNED] = GP_PLAIN_UNSIGNED,
		[GP_JSON_NEGATIVE] = GP_PLAIN_NEGATIVE,
		[GP_JSON_FRACTION] = GP_PLAIN_FLOAT,
		[GP_JSON_TOO_LARGE] = GP_PLAIN_HUGE,
	};

	out->kind = kinds[j->number_kind];
	out->number = j->number;
	if (out->kind == GP_PLAIN_NEGATIVE)
		out->number = (uint64_t)strtoll(j->text, NULL, 10);
}

/* Broken JSON ends these early, without a result; the token stays GP_JSON_ERROR. */
static int torch_json_object(struct torch_json *t, struct gp_plain *out)
{
	struct gp_json *j = &t->json;
	struct gp_torch_dict d;
	int r = 0;

	d.seen = 0;
	out->kind = GP_PLAIN_DICT;
	while (!r && gp_json_next(j) == GP_JSON_KEY) {
		uint32_t key = gp_torch_word(j->text, j->text_len);

		out->n++;
		if (key >= GP_TORCH_KEYS) {
			gp_json_pass(j);
			continue;
		}
		d.seen |= 1u << key;
		gp_json_next(j);
		r = torch_json_value(t, gp_torch_keeps(key), &d.value[key]);
	}
	if (r || j->token == GP_JSON_ERROR || !d.seen)
		return r;
	return gp_torch_dict(&t->torch, &d, j->line, out);
}

static int torch_json_array(struct torch_json *t, struct gp_plain *out)
{
	struct gp_json *j = &t->json;
	int r = 0;

	out->kind = GP_PLAIN_LIST;
	while (!r && gp_json_next(j) != GP_JSON_ARRAY_END && j->token != GP_JSON_ERROR) {
		struct gp_plain item;

		r = torch_json_value(t, false, &item);
		if (!r && j->token != GP_JSON_ERROR)
			r = gp_torch_list(&t->torch, out, &item, j->line);
	}
	return r;
}

/* The value that begins with the current token. */
static int torch_json_value(struct torch_json *t, bool keep, struct gp_plain *out)
{
	const struct gp_json *j = &t->json;

	*out = (struct gp_plain){ .kind = GP_PLAIN_NONE };
	switch (j->token) {
	case GP_JSON_OBJECT:
		return torch_json_object(t, out);
	case GP_JSON_ARRAY:
		return torch_json_array(t, out);
	case GP_JSON_STRING:
		return torch_json_string(t, keep, out);
	case GP_JSON_NUMBER:
		torch_json_number(j, out);
		return 0;
	case GP_JSON_TRUE:
	case GP_JSON_FALSE:
		out->kind = GP_PLAIN_BOOL;
		return 0;
	default: /* null; or broken, which the caller sees */
		return 0;
	}
}

static int torch_json_broken(struct torch_json *t)
{
	const struct gp_json *j = &t->json;
	struct gp_trace_builder *b = t->torch.builder;

	if (t->torch.n_events && gp_trace_builder_skip(b, GP_SKIP_TAIL))
		return gp_torch_cut(&t->torch, NULL, 0);
	return gp_trace_builder_refuse(b, j->error_line, "%s", j->error);
}

static int torch_json_run(struct torch_json *t)
{
	struct gp_json *j = &t->json;
	struct gp_plain top;
	int r;

	gp_json_next(j);
	r = torch_json_value(t, false, &top);
	if (r)
		return r;
	if (j->token == GP_JSON_ERROR)
		return torch_json_broken(t);
	r = gp_torch_top(&t->torch, &top, j->line);
	if (r || gp_json_next(j) == GP_JSON_END)
		return r;
	if (gp_trace_builder_skip(t->torch.builder, GP_SKIP_TAIL))
		return 0;
	return gp_trace_builder_refuse(t->torch.builder, j->error_line, "%s", j->error);
}

static int torch_json_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct torch_json t;
	int r;

	gp_torch_init(&t.torch, b);
	r = gp_json_init(&t.json, in, 0);
	if (!r)
		r = torch_json_run(&t);
	gp_json_fini(&t.json);
	if (!r)
		r = gp_torch_feed(&t.torch);
	gp_torch_fini(&t.torch);
	if (r == -ENOMEM)
		gp_trace_builder_refuse(b, GP_TRACE_WHOLE,
					"out of memory, expected a file that "
					"fits");
	return r;
}

/* ---- recognising ---- */

/* A key that a snapshot's own object has, or a segment, at the level that is now open. */
static bool torch_json_key(const struct gp_json *j, bool segment)
{
	uint32_t word = gp_torch_word(j->text, j->text_len);

	if (segment)
		return word == GP_TORCH_BLOCKS || word == GP_TORCH_TOTAL_SIZE;
	return word == GP_TORCH_SEGMENTS || word == GP_TORCH_DEVICE_TRACES ||
	       word == GP_TORCH_ALLOCATOR_SETTINGS;
}

static enum gp_format_match torch_json_probe(const unsigned char *head, size_t n)
{
	struct gp_input *in = gp_input_open_memory("", head, n);
	struct gp_json j = { 0 };
	enum gp_format_match match = GP_FORMAT_NO;
	bool segment = false;

	if (!in || gp_json_init(&j, in, 0))
		goto out;
	if (gp_json_next(&j) == GP_JSON_ARRAY) { /* torch.cuda.memory_snapshot(): the segments */
		segment = true;
		gp_json_next(&j);
	}
	if (j.token != GP_JSON_OBJECT)
		goto out;
	while (match == GP_FORMAT_NO && gp_json_next(&j) == GP_JSON_KEY) {
		if (torch_json_key(&j, segment))
			match = GP_FORMAT_YES;
		else
			gp_json_pass(&j);
	}
out:
	gp_json_fini(&j);
	gp_input_close(in);
	return match;
}

const struct gp_format gp_torch_json_format = {
	.name = "torch_json",
	.summary = "PyTorch memory snapshot, JSON",
	.probe = torch_json_probe,
	.read = torch_json_read,
};
