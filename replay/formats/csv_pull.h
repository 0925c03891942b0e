/* SPDX-License-Identifier: Apache-2.0
 *
 * csv_pull: comma-separated rows, one at a time, over a gp_input.
 *
 *   while ((got = gp_csv_next(&c)) != GP_CSV_END)
 *           c.row.fields[i].text, .n -- until the next call
 *
 * Rows        one a line; LF and CR LF; a BOM, empty lines and a missing last newline are fine.
 *             Blanks around a field do not count. A field in quotes may hold commas and doubled
 *             quotes, which stay doubled (no reader here wants such a text).
 * Faults      a bad row is one result and the next row a fresh start, so that a lenient reader can
 *             go on. Unclosed quotes end with their line: one stray quote does not eat the file.
 * Memory      none: fields point into the window of the input.
 * Not done    newlines inside quotes, other separators, other encodings than UTF-8.
 * Threads     caller serialises.
 */
#ifndef GP_CSV_PULL_H
#define GP_CSV_PULL_H

#include "format.h"

#define GP_CSV_FIELDS 64u           /* of a row; the widest table read here has 20 */
#define GP_CSV_NONE   GP_CSV_FIELDS /* "no such column" */

struct gp_csv_field {
	const char *text; /* not terminated */
	size_t n;
};

struct gp_csv_row {
	struct gp_csv_field fields[GP_CSV_FIELDS];
	unsigned n;
};

enum gp_csv_result {
	GP_CSV_END,
	GP_CSV_ROW,
	GP_CSV_BAD, /* `fault` says why */
};

struct gp_csv {
	struct gp_input *in;
	struct gp_trace_builder *builder;
	struct gp_csv_row row;
	uint64_t line;      /* of the row */
	bool cut;           /* no newline behind the row: it is the last one, and maybe not whole */
	const char *fault;  /* "what is wrong, expected what" */
	unsigned n_columns; /* of the header */
	uint64_t n_rows;    /* met so far behind the header, bad ones too */
};

void gp_csv_init(struct gp_csv *c, struct gp_input *in, struct gp_trace_builder *b);
enum gp_csv_result gp_csv_next(struct gp_csv *c);

/* ---- rows with a header ---- */

/* Takes the first row for the header: column[i] becomes the place of names[i] (its synonyms
 * separated by '|', in small letters, of any case in the file), or GP_CSV_NONE. A column twice is
 * refused, and so is one of the first n_needed that is not there. Others are noted in one sentence
 * unless `extra` (same spelling as one of names) lists them. */
int gp_csv_header(struct gp_csv *c, const char *const *names, unsigned n, unsigned n_needed,
		  const char *extra, unsigned *column);
/* The next row with as many fields as the header: GP_CSV_ROW, GP_CSV_END, or a negative number
 * that ends the reading. Lenient, others are left out and counted. */
int gp_csv_next_row(struct gp_csv *c);
/* After the last row: refuses a file without any, and notes a missing last newline. */
int gp_csv_finish(struct gp_csv *c);

/* ---- fields ---- */

/* A whole number, decimal or 0x and hexadecimal. False: something else, or 2^64 and more. */
bool gp_csv_u64(const struct gp_csv_field *f, uint64_t *out);
/* Refuses the row for a field that is not such a number; `name` is its column's, as the header
 * function takes it. Lenient: counts it and returns GP_REFUSED: leave the row out. */
int gp_csv_bad_number(struct gp_csv *c, const char *name, const struct gp_csv_field *f);
/* The field is one of the words, which '|' separates; case does not count (words: small). */
bool gp_csv_is(const struct gp_csv_field *f, const char *words);

struct gp_csv_text {
	char text[48];
};

/* The field's text for a message: its beginning, in printable ASCII. */
struct gp_csv_text gp_csv_quote(const struct gp_csv_field *f);

/* ---- recognising ---- */

/* Splits the first row of a file's first bytes. False: it has none, or is not text. */
bool gp_csv_look(const unsigned char *head, size_t n, struct gp_csv_row *row);
/* The place of the column with one of these names, or GP_CSV_NONE. */
unsigned gp_csv_find(const struct gp_csv_row *row, const char *words);

#endif
