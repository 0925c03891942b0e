/* SPDX-License-Identifier: Apache-2.0
 *
 * text: what readers of line-by-line formats share: lines, the words in them, and numbers.
 *
 *   while (gp_text_next(&t))            a line that is not blank; t.line is its number
 *           while (gp_text_word(&t, &w))    "1"  "0x7f3a40000000"  "512"
 *
 * Lines       end in '\n', "\r\n" or with the file; blank ones are passed over, and so is a byte
 *             order mark at the front. A line of GP_TEXT_LINE bytes and more is cut and says so.
 * Cost        one look at each byte for its line, one for its words; lines stay where they are in
 *             the input's window, except those that lie across its edge.
 * Threads     caller serialises.
 */
#ifndef GP_TEXT_H
#define GP_TEXT_H

#include "format.h"

#define GP_TEXT_LINE ((size_t)64 * 1024)

struct gp_text_word {
	const char *p;
	size_t n;
};

struct gp_text {
	const char *p, *end; /* of the current line, what is not taken yet; valid until _next */
	uint64_t line;
	bool whole;    /* the line has its '\n': the file cannot have been cut in it */
	bool too_long; /* only its beginning is here */

	/* Below: for text.c alone. */
	struct gp_input *in;
	char *buffer; /* of a line that lies across the edge of the window */
	bool begun;
};

/* Passes over a byte order mark, if that is next. */
void gp_text_skip_mark(struct gp_input *in);

/* The input stays the caller's. 0 or -ENOMEM. */
int gp_text_init(struct gp_text *t, struct gp_input *in);
void gp_text_fini(struct gp_text *t);
/* Goes to the next line that is not blank; false: there is none. */
bool gp_text_next(struct gp_text *t);

/* Takes the next word of the line; words lie between blanks. */
bool gp_text_word(struct gp_text *t, struct gp_text_word *out);
/* Takes the rest of the line, without blanks at either end; may be empty. */
struct gp_text_word gp_text_rest(struct gp_text *t);
bool gp_text_is(struct gp_text_word w, const char *word);
/* `word` is somewhere in it. */
bool gp_text_has(struct gp_text_word w, const char *word);

/* The word as a number, digits only; false: it is none, or above 2^64 - 1. */
bool gp_text_u64(struct gp_text_word w, uint64_t *out);
/* An address: 0x and hexadecimal digits; or none: "0", "(nil)". */
bool gp_text_address(struct gp_text_word w, uint64_t *out);
/* A decimal fraction, times ten to the power of `scale`, exactly; what is below one is dropped.
 * "12.5" at scale 3 is 12500, "1e-3" at 9 is 1000000. False: no number, or too large. */
bool gp_text_decimal(struct gp_text_word w, unsigned scale, int64_t *out);

/* A word for a message: its beginning, in printable ASCII. */
struct gp_text_quote {
	char text[48];
};

struct gp_text_quote gp_text_quote(struct gp_text_word w);

/* For a format without a signature: do the first lines of the file (up to 16) fit it? `fits` looks
 * at the i-th, from 0. YES: all do, and there are `enough`; MAYBE: the first does. */
enum gp_format_match gp_text_probe(const unsigned char *head, size_t n, unsigned enough,
				   bool (*fits)(struct gp_text *t, unsigned i));
/* What a file without a signature cannot tell: whether its last line is whole. 0 or -ENOMEM. */
int gp_text_note_end(const struct gp_text *t, struct gp_trace_builder *b);

#endif
