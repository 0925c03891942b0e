/* SPDX-License-Identifier: Apache-2.0
 *
 * csv_pull: see csv_pull.h.
 *
 * Shape       a row is looked for in the window and split where it lies. Only when its newline is
 *             not there yet is the window moved and filled, which copies the piece of one row per
 *             window. A row longer than one can look ahead is read over, in any length.
 * Cost        one pass of memchr and one byte by byte, both over memory just read: about 1 GB/s.
 */
#include "csv_pull.h"

#include <string.h>

#define CSV_BOM "\xef\xbb\xbf"

void gp_csv_init(struct gp_csv *c, struct gp_input *in, struct gp_trace_builder *b)
{
	const unsigned char *head;

	memset(c, 0, sizeof(*c));
	c->in = in;
	c->builder = b;
	if (gp_input_peek(in, &head) >= 3 && !memcmp(head, CSV_BOM, 3))
		in->p += 3;
}

/* ---- one line to fields ---- */

static bool csv_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* p stands behind the opening quote; returns the place behind the closing one and blanks, or NULL:
 * a fault. */
static const char *csv_quoted(const char *p, const char *end, struct gp_csv_field *f,
			      const char **fault)
{
	f->text = p;
	for (;;) {
		p = memchr(p, '"', (size_t)(end - p));
		if (!p) {
			*fault = "a quote that is never closed, expected it closed on its line";
			return NULL;
		}
		if (p + 1 == end || p[1] != '"')
			break;
		p += 2;
	}
	f->n = (size_t)(p - f->text);
	p++;
	while (p < end && csv_is_blank(*p))
		p++;
	if (p == end || *p == ',')
		return p;
	*fault = "text behind a closing quote, expected a comma";
	return NULL;
}

static const char *csv_plain(const char *p, const char *end, struct gp_csv_field *f)
{
	const char *last;

	f->text = p;
	while (p < end && *p != ',')
		p++;
	last = p;
	while (last > f->text && csv_is_blank(last[-1]))
		last--;
	f->n = (size_t)(last - f->text);
	return p;
}

/* NULL: fine; else the fault. */
static const char *csv_split(const char *p, const char *end, struct gp_csv_row *row)
{
	const char *fault = NULL;

	if (end > p && end[-1] == '\r')
		end--;
	for (row->n = 0;; p++) {
		struct gp_csv_field *f = &row->fields[row->n];

		if (row->n == GP_CSV_FIELDS)
			return "more than 64 fields in a row, expected fewer";
		row->n++;
		while (p < end && csv_is_blank(*p))
			p++;
		p = p < end && *p == '"' ? csv_quoted(p + 1, end, f, &fault) : csv_plain(p, end, f);
		if (!p)
			return fault;
		if (p == end)
			return NULL;
	}
}

static bool csv_row_is_empty(const struct gp_csv_row *row)
{
	return row->n == 1 && !row->fields[0].n;
}

/* ---- lines ---- */

/* Finds the line at the window's start, filling the window as far as it takes. False: no byte more.
 * *end is NULL when the line is longer than one can look ahead. */
static bool csv_find_line(struct gp_csv *c, const char **end)
{
	struct gp_input *in = c->in;
	const unsigned char *newline = memchr(in->p, '\n', (size_t)(in->end - in->p));
	const unsigned char *head;

	if (!newline && !gp_input_peek(in, &head))
		return false;
	if (!newline)
		newline = memchr(in->p, '\n', (size_t)(in->end - in->p));
	c->cut = !newline;
	if (c->cut)
		newline = in->end;
	*end = (size_t)(newline - in->p) < GP_INPUT_PEEK_MAX ? (const char *)newline : NULL;
	return true;
}

static void csv_skip_line(struct gp_csv *c)
{
	struct gp_input *in = c->in;

	c->cut = true;
	while (in->p < in->end || gp_input_fill(in)) {
		const unsigned char *newline = memchr(in->p, '\n', (size_t)(in->end - in->p));

		in->p = newline ? newline + 1 : in->end;
		if (newline) {
			in->line++;
			c->cut = false;
			return;
		}
	}
}

enum gp_csv_result gp_csv_next(struct gp_csv *c)
{
	struct gp_input *in = c->in;
	const char *end;

	while (csv_find_line(c, &end)) {
		const char *start = (const char *)in->p;

		c->line = in->line;
		if (!end) {
			csv_skip_line(c);
			c->fault = "a row of 64 KiB or more, expected a shorter one";
			return GP_CSV_BAD;
		}
		in->p = (const unsigned char *)end + !c->cut;
		in->line += !c->cut;
		c->fault = csv_split(start, end, &c->row);
		if (c->fault)
			return GP_CSV_BAD;
		if (!csv_row_is_empty(&c->row))
			return GP_CSV_ROW;
	}
	return GP_CSV_END;
}

/* ---- fields ---- */

static char csv_small(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool gp_csv_is(const struct gp_csv_field *f, const char *words)
{
	while (*words) {
		size_t n = strcspn(words, "|"), i = 0;

		while (n == f->n && i < n && csv_small(f->text[i]) == words[i])
			i++;
		if (n == f->n && i == n)
			return true;
		words += n + (words[n] == '|');
	}
	return false;
}

static bool csv_hex(const char *p, const char *end, uint64_t *out)
{
	uint64_t n = 0;

	if (p == end || end - p > 16)
		return false;
	for (; p < end; p++) {
		unsigned digit = (unsigned char)*p - (unsigned)'0';
		unsigned letter = ((unsigned char)*p | 0x20u) - (unsigned)'a';

		if (digit > 9 && letter > 5)
			return false;
		n = n << 4 | (digit <= 9 ? digit : letter + 10);
	}
	*out = n;
	return true;
}

bool gp_csv_u64(const struct gp_csv_field *f, uint64_t *out)
{
	const char *p = f->text, *end = p + f->n;
	uint64_t n = 0;

	if (f->n > 2 && p[0] == '0' && (p[1] | 0x20) == 'x')
		return csv_hex(p + 2, end, out);
	if (p == end || f->n > 20)
		return false;
	for (; p < end; p++) {
		unsigned digit = (unsigned char)*p - (unsigned)'0';

		/* Only the twentieth digit can be too much. */
		if (digit > 9 ||
		    (p - f->text == 19 && (n > UINT64_MAX / 10 || n * 10 > UINT64_MAX - digit)))
			return false;
		n = n * 10 + digit;
	}
	*out = n;
	return true;
}

struct gp_csv_text gp_csv_quote(const struct gp_csv_field *f)
{
	struct gp_csv_text q;
	size_t room = sizeof(q.text) - sizeof("...");
	size_t n = f->n < room ? f->n : room;

	for (size_t i = 0; i < n; i++)
		q.text[i] = f->text[i] >= ' ' && f->text[i] <= '~' ? f->text[i] : '?';
	strcpy(q.text + n, f->n > n ? "..." : "");
	return q;
}

static bool csv_all_digits(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] < '0' || p[i] > '9')
			return false;
	return n > 0;
}

/* The name that people know a column by: the first of its synonyms. */
static struct gp_csv_text csv_first_word(const char *words)
{
	return gp_csv_quote(&(struct gp_csv_field){ words, strcspn(words, "|") });
}

int gp_csv_bad_number(struct gp_csv *c, const char *name, const struct gp_csv_field *f)
{
	const char *want = "a whole number";

	if (!f->n)
		return gp_trace_builder_problem(c->builder, GP_SKIP_BAD_EVENT, c->line,
						"%s is empty, expected %s",
						csv_first_word(name).text, want);
	if (csv_all_digits(f->text, f->n))
		want = "less than 2^64";
	else if (*f->text == '-' && csv_all_digits(f->text + 1, f->n - 1))
		want = "0 or more";
	return gp_trace_builder_problem(c->builder, GP_SKIP_BAD_EVENT, c->line,
					"%s is \"%s\", expected %s", csv_first_word(name).text,
					gp_csv_quote(f).text, want);
}

/* ---- header ---- */

unsigned gp_csv_find(const struct gp_csv_row *row, const char *words)
{
	unsigned i = 0;

	while (i < row->n && !gp_csv_is(&row->fields[i], words))
		i++;
	return i < row->n ? i : GP_CSV_NONE;
}

/* Which of the names column i has; n: none. */
static unsigned csv_which(const struct gp_csv_row *row, unsigned i, const char *const *names,
			  unsigned n)
{
	unsigned k = 0;

	while (k < n && !gp_csv_is(&row->fields[i], names[k]))
		k++;
	return k;
}

static int csv_note_unknown(struct gp_csv *c, const struct gp_csv_field *f)
{
	return gp_trace_builder_note(c->builder, "column \"%s\" is unknown here and was not read",
				     gp_csv_quote(f).text);
}

int gp_csv_header(struct gp_csv *c, const char *const *names, unsigned n, unsigned n_needed,
		  const char *extra, unsigned *column)
{
	struct gp_trace_builder *b = c->builder;
	int r = 0;

	if (gp_csv_next(c) != GP_CSV_ROW) /* the probe has seen one */
		return gp_trace_builder_refuse(b, c->line, "%s", c->fault);
	for (unsigned k = 0; k < n; k++)
		column[k] = GP_CSV_NONE;
	for (unsigned i = 0; !r && i < c->row.n; i++) {
		const struct gp_csv_field *f = &c->row.fields[i];
		unsigned k = csv_which(&c->row, i, names, n);

		if (k < n && column[k] != GP_CSV_NONE)
			return gp_trace_builder_refuse(b, c->line,
						       "column \"%s\" twice, expected it once",
						       csv_first_word(names[k]).text);
		if (k < n)
			column[k] = i;
		else if (!gp_csv_is(f, extra))
			r = csv_note_unknown(c, f);
	}
	for (unsigned k = 0; !r && k < n_needed; k++)
		if (column[k] == GP_CSV_NONE)
			return gp_trace_builder_refuse(b, c->line, "no column \"%s\", expected one",
						       csv_first_word(names[k]).text);
	c->n_columns = c->row.n;
	return r;
}

/* ---- rows ---- */

/* A row that is not what the header says. GP_REFUSED: left out. */
static int csv_bad_row(struct gp_csv *c, enum gp_csv_result got)
{
	if (c->cut)
		return gp_trace_builder_problem(c->builder, GP_SKIP_TAIL, c->line,
						"the last row ends too early (truncated), "
						"expected %u fields as in the header",
						c->n_columns);
	if (got == GP_CSV_BAD)
		return gp_trace_builder_problem(c->builder, GP_SKIP_BAD_EVENT, c->line, "%s",
						c->fault);
	return gp_trace_builder_problem(c->builder, GP_SKIP_BAD_EVENT, c->line,
					"%u fields in a row, expected %u as in the header",
					c->row.n, c->n_columns);
}

int gp_csv_next_row(struct gp_csv *c)
{
	for (;;) {
		enum gp_csv_result got = gp_csv_next(c);
		int r;

		if (got == GP_CSV_END)
			return GP_CSV_END;
		c->n_rows++;
		if (got == GP_CSV_ROW && c->row.n == c->n_columns)
			return GP_CSV_ROW;
		r = csv_bad_row(c, got);
		if (r < 0)
			return r;
		c->cut = false; /* what could not be whole was left out */
	}
}

int gp_csv_finish(struct gp_csv *c)
{
	if (!c->n_rows)
		return gp_trace_builder_refuse(c->builder, gp_input_end_line(c->in),
					       "no rows after the header, expected at least one");
	if (!c->cut)
		return 0;
	return gp_trace_builder_note(c->builder,
				     "the last line does not end in a newline: if the file was cut "
				     "off there, its last number may be too");
}

/* ---- recognising ---- */

bool gp_csv_look(const unsigned char *head, size_t n, struct gp_csv_row *row)
{
	const char *p = (const char *)head, *end = p + n;

	if (n >= 3 && !memcmp(p, CSV_BOM, 3))
		p += 3;
	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *stop = newline ? newline : end;

		if (csv_split(p, stop, row))
			return false;
		if (!csv_row_is_empty(row))
			return !memchr(p, 0, (size_t)(stop - p));
		p = newline ? newline + 1 : end;
	}
	return false;
}
