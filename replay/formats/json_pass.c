/* SPDX-License-Identifier: Apache-2.0
 *
 * json_pass: over JSON that nobody wants to know, as fast as it can be read. Most of a profiler's
 * trace is that.
 *
 * Shape       brackets are matched on the tokenizer's own bit stack, so that it goes on behind
 *             them as if it had read them; strings are only followed to their end, where an
 *             escaped quote is not one.
 * Not done    all other grammar: commas, numbers, words, UTF-8.
 * Cost        one look at a byte through a table of 256; about 1 GB/s.
 */
#include "json_pull.h"

_Static_assert(GP_JSON_DEPTH == 64, "a message names the limit");

enum pass_class {
	PASS_PLAIN,
	PASS_QUOTE,
	PASS_OPEN,
	PASS_CLOSE,
	PASS_NEWLINE,
};

static const unsigned char pass_classes[256] = {
	['"'] = PASS_QUOTE, ['{'] = PASS_OPEN,  ['['] = PASS_OPEN,
	['}'] = PASS_CLOSE, [']'] = PASS_CLOSE, ['\n'] = PASS_NEWLINE,
};

/* The next byte, not taken; -1 at the end. */
static int pass_peek(struct gp_json *j)
{
	struct gp_input *in = j->in;

	return in->p == in->end && !gp_input_fill(in) ? -1 : *in->p;
}

bool gp_json_pass_string(struct gp_json *j)
{
	struct gp_input *in = j->in;

	in->p++;
	for (;;) {
		int c;

		while (in->p < in->end && *in->p != '"' && *in->p != '\\' && *in->p >= 0x20)
			in->p++;
		c = pass_peek(j);
		if (c == '"')
			break;
		if (c == '\\') { /* whatever comes next belongs to the string */
			in->p++;
			c = pass_peek(j);
		}
		if (c < 0x20)
			return gp_json_unexpected(j, "the '\"' that ends a string"), false;
		in->p++;
	}
	in->p++;
	return true;
}

static bool pass_in_object(const struct gp_json *j)
{
	return j->objects >> (j->depth - 1) & 1;
}

static bool pass_open(struct gp_json *j, bool object)
{
	if (j->depth == GP_JSON_DEPTH)
		return gp_json_unexpected(j, "nothing nested deeper than 64 levels"), false;
	j->objects &= ~(UINT64_C(1) << j->depth);
	j->objects |= (uint64_t)object << j->depth;
	j->depth++;
	j->in->p++;
	return true;
}

static bool pass_close(struct gp_json *j, int c)
{
	const char *end = pass_in_object(j) ? "'}'" : "']'";

	if (c != end[1])
		return gp_json_unexpected(j, end), false;
	j->depth--;
	j->in->p++;
	return true;
}

/* Line by line, a value ends where its line does. */
static bool pass_newline(struct gp_json *j)
{
	if (j->flags & GP_JSON_LINES)
		return gp_json_unexpected(j, "the rest of the value"), false;
	j->in->line++;
	j->in->p++;
	return true;
}

bool gp_json_pass_to(struct gp_json *j, unsigned depth)
{
	struct gp_input *in = j->in;
	bool ok = true;

	while (ok && j->depth >= depth) {
		int c;

		while (in->p < in->end && pass_classes[*in->p] == PASS_PLAIN)
			in->p++;
		c = pass_peek(j);
		if (c < 0)
			return pass_close(j, c);
		if (pass_classes[c] == PASS_QUOTE)
			ok = gp_json_pass_string(j);
		else if (pass_classes[c] == PASS_OPEN)
			ok = pass_open(j, c == '{');
		else if (pass_classes[c] == PASS_CLOSE)
			ok = pass_close(j, c);
		else if (pass_classes[c] == PASS_NEWLINE)
			ok = pass_newline(j);
	}
	return ok;
}
