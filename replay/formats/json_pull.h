/* SPDX-License-Identifier: Apache-2.0
 *
 * json_pull: a strict JSON reader (RFC 8259) that hands out one token at a time and builds no tree,
 * so that a file of any length is read in constant memory.
 *
 *   gp_json_next() -> OBJECT  KEY "op"  STRING "alloc"  KEY "id"  NUMBER 1  OBJECT_END  ...  END
 *
 * Strictness  no comments, no trailing commas, no NaN, no leading zeros or '+'; strings are valid
 *             UTF-8 without NUL; nothing but white space after the value. Limits: GP_JSON_DEPTH
 *             levels, GP_JSON_TEXT bytes in one string or number.
 * Not done    duplicate keys: only who knows the keys can afford to notice them.
 * Lines       with GP_JSON_LINES a value must end on the line it began on, and values follow each
 *             other line by line (JSON Lines); gp_json_resync() leaves a bad line behind.
 * Cost        one pass over the bytes, each looked at once; no allocation after init.
 * Threads     caller serialises.
 */
#ifndef GP_JSON_PULL_H
#define GP_JSON_PULL_H

#include "input.h"

#define GP_JSON_DEPTH 64u
#define GP_JSON_TEXT  ((size_t)64 * 1024)

#define GP_JSON_LINES 1u /* flag of gp_json_init() */

enum gp_json_token {
	GP_JSON_ERROR, /* error, error_line; stays so until gp_json_resync() */
	GP_JSON_END,   /* of the input */
	GP_JSON_OBJECT,
	GP_JSON_OBJECT_END,
	GP_JSON_ARRAY,
	GP_JSON_ARRAY_END,
	GP_JSON_KEY,
	GP_JSON_STRING,
	GP_JSON_NUMBER,
	GP_JSON_TRUE,
	GP_JSON_FALSE,
	GP_JSON_NULL,
};

/* "an object", "a number", ...: for "expected X, found Y". */
const char *gp_json_token_name(enum gp_json_token t);

/* What a number turned out to be. */
enum gp_json_number {
	GP_JSON_UNSIGNED,  /* value in `number` */
	GP_JSON_NEGATIVE,  /* whole and below 0 */
	GP_JSON_FRACTION,  /* has a fraction or an exponent */
	GP_JSON_TOO_LARGE, /* whole, and above 2^64 - 1 */
};

struct gp_json {
	enum gp_json_token token; /* the current one */
	uint64_t line;            /* where it begins */
	/* KEY, STRING: decoded, NUL-terminated. NUMBER: as spelled. Valid until the next call. */
	char *text;
	size_t text_len;
	uint64_t number;
	enum gp_json_number number_kind;

	char error[160];
	uint64_t error_line;
	bool truncated; /* the error is that the input ended */

	/* Below: for json_pull.c and json_pass.c alone. */
	struct gp_input *in;
	unsigned flags;
	unsigned state;
	unsigned depth;
	uint64_t objects; /* bit d: the container at depth d is an object */
};

/* The input stays the caller's. 0 or -ENOMEM. */
int gp_json_init(struct gp_json *j, struct gp_input *in, unsigned flags);
void gp_json_fini(struct gp_json *j);
enum gp_json_token gp_json_next(struct gp_json *j);
/* Leaves the value whose first token is the current one. GP_JSON_ERROR, or its last token. */
enum gp_json_token gp_json_skip(struct gp_json *j);
/* The fast ways out, for what nobody wants to know. They look at brackets and at the ends of
 * strings alone, so that nonsense between them goes unnoticed, and strings may have any length.
 * _leave goes behind the end of the innermost container that is open (a no-op where none is);
 * _pass, when the current token is a KEY, behind its value. GP_JSON_ERROR, or the last token. */
enum gp_json_token gp_json_leave(struct gp_json *j);
enum gp_json_token gp_json_pass(struct gp_json *j);
/* GP_JSON_LINES: goes on behind the end of the line that the error was on. */
void gp_json_resync(struct gp_json *j);

/* ---- what json_pull.c and json_pass.c do for each other ---- */

/* The byte at the front of the window is not what the grammar has here. GP_JSON_ERROR. */
enum gp_json_token gp_json_unexpected(struct gp_json *j, const char *expected);
/* At an opening '"': goes behind the closing one. False: there is none; the error is set. */
bool gp_json_pass_string(struct gp_json *j);
/* Goes behind the end of the container at this depth. */
bool gp_json_pass_to(struct gp_json *j, unsigned depth);

#endif
