/* SPDX-License-Identifier: Apache-2.0
 *
 * text: see text.h.
 */
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int gp_text_init(struct gp_text *t, struct gp_input *in)
{
	memset(t, 0, sizeof(*t));
	t->in = in;
	t->buffer = malloc(GP_TEXT_LINE);
	return t->buffer ? 0 : -ENOMEM;
}

void gp_text_fini(struct gp_text *t)
{
	free(t->buffer);
	t->buffer = NULL;
}

/* ---- lines ---- */

void gp_text_skip_mark(struct gp_input *in)
{
	static const unsigned char mark[] = { 0xef, 0xbb, 0xbf };
	const unsigned char *head;

	if (gp_input_peek(in, &head) >= sizeof(mark) && !memcmp(head, mark, sizeof(mark)))
		in->p += sizeof(mark);
}

/* The line does not end in the window: gathers it in the buffer. */
static void text_gather(struct gp_text *t)
{
	struct gp_input *in = t->in;
	size_t n = 0;

	while (!t->whole && (in->p < in->end || gp_input_fill(in))) {
		const unsigned char *nl = memchr(in->p, '\n', (size_t)(in->end - in->p));
		size_t part = (size_t)((nl ? nl : in->end) - in->p);
		size_t room = GP_TEXT_LINE - n;

		t->too_long |= part > room;
		memcpy(t->buffer + n, in->p, part < room ? part : room);
		n += part < room ? part : room;
		in->p += part;
		if (nl) {
			in->p++;
			in->line++;
			t->whole = true;
		}
	}
	t->p = t->buffer;
	t->end = t->buffer + n;
}

/* The next line, blank or not. */
static void text_line(struct gp_text *t)
{
	struct gp_input *in = t->in;
	const unsigned char *nl = memchr(in->p, '\n', (size_t)(in->end - in->p));

	t->line = in->line;
	t->whole = t->too_long = false;
	if (!nl || (size_t)(nl - in->p) > GP_TEXT_LINE) {
		text_gather(t);
		return;
	}
	t->p = (const char *)in->p;
	t->end = (const char *)nl;
	t->whole = true;
	in->p = nl + 1;
	in->line++;
}

static bool text_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static void text_skip_blanks(struct gp_text *t)
{
	while (t->p < t->end && text_is_blank(*t->p))
		t->p++;
}

bool gp_text_next(struct gp_text *t)
{
	if (!t->begun)
		gp_text_skip_mark(t->in);
	t->begun = true;
	while (t->in->p < t->in->end || gp_input_fill(t->in)) {
		text_line(t);
		text_skip_blanks(t);
		while (t->p < t->end && text_is_blank(t->end[-1]))
			t->end--;
		if (t->p < t->end)
			return true;
	}
	return false;
}

/* ---- words ---- */

bool gp_text_word(struct gp_text *t, struct gp_text_word *out)
{
	text_skip_blanks(t);
	out->p = t->p;
	while (t->p < t->end && !text_is_blank(*t->p))
		t->p++;
	out->n = (size_t)(t->p - out->p);
	return out->n > 0;
}

struct gp_text_word gp_text_rest(struct gp_text *t)
{
	struct gp_text_word w;

	text_skip_blanks(t);
	w = (struct gp_text_word){ t->p, (size_t)(t->end - t->p) };
	t->p = t->end;
	return w;
}

bool gp_text_is(struct gp_text_word w, const char *word)
{
	return w.n == strlen(word) && !memcmp(w.p, word, w.n);
}

bool gp_text_has(struct gp_text_word w, const char *word)
{
	size_t n = strlen(word);

	for (; w.n >= n; w.p++, w.n--)
		if (!memcmp(w.p, word, n))
			return true;
	return false;
}

struct gp_text_quote gp_text_quote(struct gp_text_word w)
{
	struct gp_text_quote q;
	size_t n = w.n < 40 ? w.n : 40;

	for (size_t i = 0; i < n; i++)
		q.text[i] = (char)(w.p[i] >= ' ' && w.p[i] < 0x7f ? w.p[i] : '?');
	memcpy(q.text + n, "...", 4);
	if (w.n <= n)
		q.text[n] = '\0';
	return q;
}

/* ---- numbers ---- */

/* One more digit; false: it does not fit. */
static bool text_add_digit(uint64_t *n, unsigned base, unsigned digit)
{
	if (*n > (UINT64_MAX - digit) / base)
		return false;
	*n = *n * base + digit;
	return true;
}

bool gp_text_u64(struct gp_text_word w, uint64_t *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < w.n; i++)
		if (w.p[i] < '0' || w.p[i] > '9' ||
		    !text_add_digit(&n, 10, (unsigned)(w.p[i] - '0')))
			return false;
	*out = n;
	return w.n > 0;
}

bool gp_text_address(struct gp_text_word w, uint64_t *out)
{
	uint64_t n = 0;

	*out = 0;
	if (gp_text_is(w, "0") || gp_text_is(w, "(nil)"))
		return true;
	if (w.n < 3 || w.p[0] != '0' || (w.p[1] | 0x20) != 'x')
		return false;
	for (size_t i = 2; i < w.n; i++) {
		int c = w.p[i] | 0x20;
		int digit = w.p[i] >= '0' && w.p[i] <= '9' ? w.p[i] - '0'
			    : c >= 'a' && c <= 'f'         ? c - 'a' + 10
							   : -1;

		if (digit < 0 || !text_add_digit(&n, 16, (unsigned)digit))
			return false;
	}
	*out = n;
	return true;
}

/* "e", a sign perhaps, and up to four digits, or nothing. */
static bool text_exponent(struct gp_text_word w, int *out)
{
	struct gp_text_word digits = { w.p + 1, w.n - 1 };
	uint64_t n;
	bool negative;

	*out = 0;
	if (!w.n)
		return true;
	negative = w.n > 1 && w.p[1] == '-';
	if (w.n > 1 && (negative || w.p[1] == '+'))
		digits = (struct gp_text_word){ w.p + 2, w.n - 2 };
	if ((w.p[0] | 0x20) != 'e' || digits.n > 4 || !gp_text_u64(digits, &n))
		return false;
	*out = negative ? -(int)n : (int)n;
	return true;
}

/* n * 10^power, rounded towards 0. */
static bool text_scale(uint64_t *n, int power)
{
	for (; power > 0 && *n; power--)
		if (!gp_mul_u64(*n, 10, n))
			return false;
	for (; power < 0 && *n; power++)
		*n /= 10;
	return true;
}

bool gp_text_decimal(struct gp_text_word w, unsigned scale, int64_t *out)
{
	bool negative = w.n && w.p[0] == '-', point = false, any = false;
	size_t i = negative;
	uint64_t n = 0;
	int power = (int)scale, exponent;

	for (; i < w.n; i++) {
		if (w.p[i] == '.' && !point) {
			point = true;
			continue;
		}
		if (w.p[i] < '0' || w.p[i] > '9')
			break;
		any = true;
		/* Digits behind the point that no longer fit are below any unit. */
		if (text_add_digit(&n, 10, (unsigned)(w.p[i] - '0')))
			power -= point;
		else if (!point)
			return false;
	}
	if (!any || !text_exponent((struct gp_text_word){ w.p + i, w.n - i }, &exponent) ||
	    !text_scale(&n, power + exponent) || n > INT64_MAX)
		return false;
	*out = negative ? -(int64_t)n : (int64_t)n;
	return true;
}

/* ---- for formats without a signature ---- */

#define TEXT_PROBE_LINES 16u

/* How many of the first lines fit, one after the other; *all: none follows that does not. */
static unsigned text_count_fits(struct gp_text *t, bool (*fits)(struct gp_text *t, unsigned i),
				bool *all)
{
	unsigned n = 0;

	*all = true;
	while (n < TEXT_PROBE_LINES && gp_text_next(t)) {
		/* The last line may be cut, by whoever wrote the file or by how far we look. */
		if (n && !t->whole)
			break;
		*all = fits(t, n);
		if (!*all)
			break;
		n++;
	}
	return n;
}

enum gp_format_match gp_text_probe(const unsigned char *head, size_t n, unsigned enough,
				   bool (*fits)(struct gp_text *t, unsigned i))
{
	struct gp_input *in = gp_input_open_memory("", head, n);
	struct gp_text t;
	unsigned found = 0;
	bool all = false;

	if (in && !gp_text_init(&t, in)) {
		found = text_count_fits(&t, fits, &all);
		gp_text_fini(&t);
	}
	gp_input_close(in);
	if (!found)
		return GP_FORMAT_NO;
	return all && found >= enough ? GP_FORMAT_YES : GP_FORMAT_MAYBE;
}

int gp_text_note_end(const struct gp_text *t, struct gp_trace_builder *b)
{
	if (t->whole || !t->line)
		return 0;
	return gp_trace_builder_note(b, "the last line does not end: if the file was cut there, "
					"its last number may be too short");
}
