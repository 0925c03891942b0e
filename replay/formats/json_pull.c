/* SPDX-License-Identifier: Apache-2.0
 *
 * json_pull: see json_pull.h.
 *
 * Shape       a state says what may come next; a bit stack says whether a ',' is followed by a key
 *             or by a value. Strings and numbers are copied into one buffer, because the input's
 *             window may move in the middle of one.
 */
#include "json_pull.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum json_state {
	JSON_START,       /* before the value (or, line by line, before the next one) */
	JSON_VALUE,       /* after ':' or ',' */
	JSON_FIRST_VALUE, /* after '[': a value or ']' */
	JSON_KEY,         /* after ',' */
	JSON_FIRST_KEY,   /* after '{': a key or '}' */
	JSON_MORE,        /* after a value in a container: ',' or its end */
	JSON_DONE,        /* after the outermost value */
	JSON_BROKEN,
};

_Static_assert(GP_JSON_DEPTH <= 64, "the bit stack is one word");

const char *gp_json_token_name(enum gp_json_token t)
{
	static const char *const names[] = {
		[GP_JSON_ERROR] = "an error",   [GP_JSON_END] = "the end of the file",
		[GP_JSON_OBJECT] = "an object", [GP_JSON_OBJECT_END] = "'}'",
		[GP_JSON_ARRAY] = "an array",   [GP_JSON_ARRAY_END] = "']'",
		[GP_JSON_KEY] = "a key",        [GP_JSON_STRING] = "a string",
		[GP_JSON_NUMBER] = "a number",  [GP_JSON_TRUE] = "true",
		[GP_JSON_FALSE] = "false",      [GP_JSON_NULL] = "null",
	};

	return names[t];
}

int gp_json_init(struct gp_json *j, struct gp_input *in, unsigned flags)
{
	memset(j, 0, sizeof(*j));
	j->in = in;
	j->flags = flags;
	j->state = JSON_START;
	j->text = malloc(GP_JSON_TEXT);
	return j->text ? 0 : -ENOMEM;
}

void gp_json_fini(struct gp_json *j)
{
	free(j->text);
	j->text = NULL;
}

GP_PRINTF(2, 3)
GP_NOINLINE static enum gp_json_token json_fail(struct gp_json *j, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(j->error, sizeof(j->error), fmt, ap);
	va_end(ap);
	j->error_line = j->in->line;
	j->state = JSON_BROKEN;
	return j->token = GP_JSON_ERROR;
}

/* The byte at the front of the window is not what the grammar has here. */
GP_NOINLINE enum gp_json_token gp_json_unexpected(struct gp_json *j, const char *expected)
{
	int c;

	if (j->in->p == j->in->end && !gp_input_fill(j->in)) {
		json_fail(j, "the file ends too early (truncated), expected %s", expected);
		j->error_line = gp_input_end_line(j->in);
		j->truncated = true;
		return GP_JSON_ERROR;
	}
	c = *j->in->p;
	if (c == '\n')
		return json_fail(j, "the line ends too early, expected %s", expected);
	if (c > ' ' && c < 0x7f)
		return json_fail(j, "unexpected '%c', expected %s", c, expected);
	return json_fail(j, "unexpected byte 0x%02x, expected %s", (unsigned)c, expected);
}

/* The next byte, not taken; -1 at the end. */
static inline int json_peek(struct gp_json *j)
{
	struct gp_input *in = j->in;

	return in->p == in->end && !gp_input_fill(in) ? -1 : *in->p;
}

/* Skips white space and looks at what follows. Line by line, a '\n' inside a value is no space. */
static inline int json_peek_token(struct gp_json *j)
{
	struct gp_input *in = j->in;

	for (;;) {
		while (in->p < in->end) {
			unsigned char c = *in->p;

			if (c > ' ')
				return c;
			if (c == '\n') {
				if ((j->flags & GP_JSON_LINES) && j->state != JSON_START)
					return c;
				in->line++;
			} else if (c != ' ' && c != '\t' && c != '\r') {
				return c;
			}
			in->p++;
		}
		if (!gp_input_fill(in))
			return -1;
	}
}

static bool json_put(struct gp_json *j, int c)
{
	if (GP_UNLIKELY(j->text_len + 1 >= GP_JSON_TEXT)) {
		json_fail(j, "a string or number is too long, expected at most %zu bytes",
			  GP_JSON_TEXT - 1);
		return false;
	}
	j->text[j->text_len++] = (char)c;
	return true;
}

/* ---- strings ---- */

static bool json_put_utf8(struct gp_json *j, uint32_t u)
{
	if (u < 0x80)
		return json_put(j, (int)u);
	if (u < 0x800)
		return json_put(j, (int)(0xc0 | u >> 6)) && json_put(j, (int)(0x80 | (u & 0x3f)));
	if (u < 0x10000)
		return json_put(j, (int)(0xe0 | u >> 12)) &&
		       json_put(j, (int)(0x80 | (u >> 6 & 0x3f))) &&
		       json_put(j, (int)(0x80 | (u & 0x3f)));
	return json_put(j, (int)(0xf0 | u >> 18)) && json_put(j, (int)(0x80 | (u >> 12 & 0x3f))) &&
	       json_put(j, (int)(0x80 | (u >> 6 & 0x3f))) && json_put(j, (int)(0x80 | (u & 0x3f)));
}

/* Four hexadecimal digits. */
static bool json_hex4(struct gp_json *j, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < 4; i++) {
		int c = json_peek(j);
		uint32_t digit;

		if (c >= '0' && c <= '9')
			digit = (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			digit = (uint32_t)((c | 0x20) - 'a' + 10);
		else
			return gp_json_unexpected(j, "four hexadecimal digits after \\u"), false;
		*out = *out << 4 | digit;
		j->in->p++;
	}
	return true;
}

/* After "\u". A character above U+FFFF comes as two halves, high before low. */
static bool json_unicode_escape(struct gp_json *j)
{
	uint32_t u, low;

	if (!json_hex4(j, &u))
		return false;
	if (!u)
		return json_fail(j, "\\u0000 in a string, expected text without NUL"), false;
	if (u >= 0xdc00 && u < 0xe000)
		return json_fail(j, "a low surrogate alone, expected a pair of \\u escapes"), false;
	if (u >= 0xd800 && u < 0xdc00) {
		for (const char *p = "\\u"; *p; p++, j->in->p++) {
			if (json_peek(j) != *p)
				return gp_json_unexpected(j, "the low half of a surrogate pair"),
				       false;
		}
		if (!json_hex4(j, &low))
			return false;
		if (low < 0xdc00 || low >= 0xe000)
			return json_fail(j,
					 "a high surrogate alone, expected a pair of \\u escapes"),
			       false;
		u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
	}
	return json_put_utf8(j, u);
}

/* After '\'. */
static bool json_escape(struct gp_json *j)
{
	static const char names[] = "\"\\/bfnrt";
	static const char values[] = "\"\\/\b\f\n\r\t";
	int c = json_peek(j);
	const char *at = c > 0 ? strchr(names, c) : NULL;

	if (!at && c != 'u')
		return gp_json_unexpected(j, "one of \"\\/bfnrtu after a backslash"), false;
	j->in->p++;
	return at ? json_put(j, values[at - names]) : json_unicode_escape(j);
}

/* A character of two to four bytes, well-formed as in Unicode 15, table 3-7: no overlong forms, no
 * surrogates, nothing above U+10FFFF. The first byte alone bounds the second. */
static bool json_utf8(struct gp_json *j, int first)
{
	int low = 0x80, high = 0xbf, n;

	if (first >= 0xc2 && first <= 0xdf) {
		n = 1;
	} else if (first >= 0xe0 && first <= 0xef) {
		n = 2;
		low = first == 0xe0 ? 0xa0 : low;
		high = first == 0xed ? 0x9f : high;
	} else if (first >= 0xf0 && first <= 0xf4) {
		n = 3;
		low = first == 0xf0 ? 0x90 : low;
		high = first == 0xf4 ? 0x8f : high;
	} else {
		return gp_json_unexpected(j, "valid UTF-8"), false;
	}
	for (; json_put(j, first); n--, low = 0x80, high = 0xbf) {
		j->in->p++;
		if (!n)
			return true;
		first = json_peek(j);
		if (first < low || first > high)
			return gp_json_unexpected(j, "valid UTF-8"), false;
	}
	return false;
}

/* At the opening '"'. */
static bool json_string(struct gp_json *j)
{
	j->text_len = 0;
	j->in->p++;
	for (;;) {
		int c = json_peek(j);
		bool ok;

		if (c == '"')
			break;
		if (c == '\\') {
			j->in->p++;
			ok = json_escape(j);
		} else if (c >= 0x80) {
			ok = json_utf8(j, c);
		} else if (c >= 0x20) {
			ok = json_put(j, c);
			j->in->p++;
		} else {
			gp_json_unexpected(j, "the '\"' that ends a string");
			ok = false;
		}
		if (!ok)
			return false;
	}
	j->in->p++;
	j->text[j->text_len] = '\0';
	return true;
}

/* ---- numbers and words ---- */

/* One digit or more; adds them up in `number` as long as that is a whole number. */
static bool json_digits(struct gp_json *j)
{
	int c = json_peek(j);

	if (c < '0' || c > '9')
		return gp_json_unexpected(j, "a digit"), false;
	for (; c >= '0' && c <= '9'; c = json_peek(j)) {
		uint64_t digit = (uint64_t)(c - '0');

		if (j->number > (UINT64_MAX - digit) / 10)
			j->number_kind = GP_JSON_TOO_LARGE;
		else
			j->number = j->number * 10 + digit;
		if (!json_put(j, c))
			return false;
		j->in->p++;
	}
	return true;
}

/* '.' and digits, or 'e', a sign perhaps, and digits. */
static bool json_number_part(struct gp_json *j, int c)
{
	uint64_t whole = j->number;
	bool ok;

	if (!json_put(j, c))
		return false;
	j->in->p++;
	c = json_peek(j);
	if ((j->text[j->text_len - 1] | 0x20) == 'e' && (c == '+' || c == '-')) {
		if (!json_put(j, c))
			return false;
		j->in->p++;
	}
	ok = json_digits(j);
	j->number = whole;
	j->number_kind = GP_JSON_FRACTION;
	return ok;
}

static bool json_number(struct gp_json *j)
{
	bool negative = *j->in->p == '-';
	bool zero;
	int c;

	j->text_len = 0;
	j->number = 0;
	j->number_kind = GP_JSON_UNSIGNED;
	if (negative) {
		json_put(j, '-');
		j->in->p++;
	}
	zero = json_peek(j) == '0';
	if (!json_digits(j))
		return false;
	if (zero && j->text_len > 1u + negative)
		return json_fail(j, "a number begins with 0, expected no leading zeros"), false;
	if (negative)
		j->number_kind = GP_JSON_NEGATIVE;
	c = json_peek(j);
	if (c == '.') {
		if (!json_number_part(j, c))
			return false;
		c = json_peek(j);
	}
	if (c == 'e' || c == 'E') {
		if (!json_number_part(j, c))
			return false;
	}
	j->text[j->text_len] = '\0';
	return true;
}

static enum gp_json_token json_word(struct gp_json *j)
{
	static const struct {
		const char *word;
		enum gp_json_token token;
	} words[] = {
		{ "true", GP_JSON_TRUE },
		{ "false", GP_JSON_FALSE },
		{ "null", GP_JSON_NULL },
	};
	char word[16];
	size_t n = 0;
	int c;

	/* The whole word first, so that "NaN" is named in the message and "nulls" is no null. */
	for (c = json_peek(j); n < sizeof(word) - 1 && (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
	     c = json_peek(j)) {
		word[n++] = (char)c;
		j->in->p++;
	}
	word[n] = '\0';
	for (size_t i = 0; i < GP_ARRAY_LEN(words); i++) {
		if (!strcmp(word, words[i].word))
			return words[i].token;
	}
	if (!n || c < 0)
		return gp_json_unexpected(j, "a value");
	return json_fail(j, "\"%s\" is no JSON value, expected an object, array, string or number",
			 word);
}

/* ---- structure ---- */

static enum gp_json_token json_open(struct gp_json *j, bool object)
{
	if (j->depth == GP_JSON_DEPTH)
		return json_fail(j, "nested deeper than %u levels, expected fewer", GP_JSON_DEPTH);
	j->in->p++;
	j->objects &= ~(UINT64_C(1) << j->depth);
	j->objects |= (uint64_t)object << j->depth;
	j->depth++;
	j->state = object ? JSON_FIRST_KEY : JSON_FIRST_VALUE;
	return object ? GP_JSON_OBJECT : GP_JSON_ARRAY;
}

static bool json_in_object(const struct gp_json *j)
{
	return j->depth && (j->objects >> (j->depth - 1) & 1);
}

static void json_value_ended(struct gp_json *j)
{
	j->state = j->depth ? JSON_MORE : JSON_DONE;
}

/* At '}' or ']' that matches. */
static enum gp_json_token json_close(struct gp_json *j)
{
	enum gp_json_token t = json_in_object(j) ? GP_JSON_OBJECT_END : GP_JSON_ARRAY_END;

	j->in->p++;
	j->depth--;
	json_value_ended(j);
	return t;
}

static enum gp_json_token json_scalar(struct gp_json *j, int c)
{
	enum gp_json_token t;

	if (c == '"')
		t = json_string(j) ? GP_JSON_STRING : GP_JSON_ERROR;
	else if (c == '-' || (c >= '0' && c <= '9'))
		t = json_number(j) ? GP_JSON_NUMBER : GP_JSON_ERROR;
	else
		t = json_word(j);
	if (t != GP_JSON_ERROR)
		json_value_ended(j);
	return t;
}

static enum gp_json_token json_key(struct gp_json *j, int c)
{
	if (c != '"')
		return gp_json_unexpected(j, j->state == JSON_KEY ? "a key in quotes"
								  : "a key in quotes or '}'");
	if (!json_string(j))
		return GP_JSON_ERROR;
	if (json_peek_token(j) != ':')
		return gp_json_unexpected(j, "':'");
	j->in->p++;
	j->state = JSON_VALUE;
	return GP_JSON_KEY;
}

/* After a value inside a container. True: it went on to the next member. */
static bool json_comma(struct gp_json *j, int c)
{
	if (c != ',')
		return false;
	j->in->p++;
	j->state = json_in_object(j) ? JSON_KEY : JSON_VALUE;
	return true;
}

static enum gp_json_token json_after(struct gp_json *j, int c)
{
	if (c < 0)
		return GP_JSON_END;
	return json_fail(j,
			 "something follows the value (trailing garbage), expected the end of "
			 "the %s",
			 j->flags & GP_JSON_LINES ? "line" : "file");
}

static enum gp_json_token json_dispatch(struct gp_json *j, int c)
{
	switch ((enum json_state)j->state) {
	case JSON_MORE:
		if (c != (json_in_object(j) ? '}' : ']'))
			return gp_json_unexpected(j,
						  json_in_object(j) ? "',' or '}'" : "',' or ']'");
		return json_close(j);
	case JSON_FIRST_KEY:
		if (c == '}')
			return json_close(j);
		return json_key(j, c);
	case JSON_KEY:
		return json_key(j, c);
	case JSON_DONE:
		return json_after(j, c);
	case JSON_START:
		if (c < 0 && (j->flags & GP_JSON_LINES))
			return GP_JSON_END;
		break;
	case JSON_FIRST_VALUE:
		if (c == ']')
			return json_close(j);
		break;
	default:
		break;
	}
	return c == '{' || c == '[' ? json_open(j, c == '{') : json_scalar(j, c);
}

enum gp_json_token gp_json_next(struct gp_json *j)
{
	int c;

	if (j->state == JSON_BROKEN)
		return GP_JSON_ERROR;
	c = json_peek_token(j);
	if (j->state == JSON_MORE && json_comma(j, c)) {
		c = json_peek_token(j);
	} else if (j->state == JSON_DONE && c == '\n') { /* line by line: the next value */
		j->state = JSON_START;
		c = json_peek_token(j);
	}
	j->line = j->in->line;
	return j->token = json_dispatch(j, c);
}

enum gp_json_token gp_json_skip(struct gp_json *j)
{
	unsigned depth = j->depth;

	if (j->token != GP_JSON_OBJECT && j->token != GP_JSON_ARRAY)
		return j->token;
	while (gp_json_next(j) != GP_JSON_ERROR && j->depth >= depth)
		;
	return j->token;
}

enum gp_json_token gp_json_leave(struct gp_json *j)
{
	bool object = json_in_object(j);

	if (j->state == JSON_BROKEN || !j->depth)
		return j->token;
	if (!gp_json_pass_to(j, j->depth))
		return GP_JSON_ERROR;
	json_value_ended(j);
	return j->token = object ? GP_JSON_OBJECT_END : GP_JSON_ARRAY_END;
}

enum gp_json_token gp_json_pass(struct gp_json *j)
{
	int c = j->token == GP_JSON_KEY ? json_peek_token(j) : -1;

	if (c == '{' || c == '[') {
		j->token = json_open(j, c == '{');
		return j->token == GP_JSON_ERROR ? j->token : gp_json_leave(j);
	}
	if (c != '"')
		return gp_json_next(j);
	if (!gp_json_pass_string(j))
		return GP_JSON_ERROR;
	json_value_ended(j);
	return j->token = GP_JSON_STRING;
}

void gp_json_resync(struct gp_json *j)
{
	int c;

	do {
		c = gp_input_getc(j->in);
	} while (c >= 0 && c != '\n');
	j->depth = 0;
	j->state = JSON_START;
	j->truncated = false;
}
