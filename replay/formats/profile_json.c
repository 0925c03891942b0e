/* SPDX-License-Identifier: Apache-2.0
 *
 * profile_json: reads a device profile; replay/profile.h has the keys.
 *
 * Shape       the objects of fixed keys are tables of fields with their place in struct gp_profile
 *             or in a row; "calls" has keys of its own
 * Limits      GP_PROFILE_ROWS rows, GP_PROFILE_SIZES of one call; texts as long as their fields; a
 *             time is below 1 000 s, a size at most GP_SIZE_MAX. The rest is json_pull's.
 * Not done    duplicate keys inside values that are not read
 * Threads     caller serialises
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_fields.h"
#include "replay/profile.h"

#define NS_MAX UINT64_C(1000000000000) /* a slower call than 1 000 s is a mistake */

struct reader {
	struct gp_json json;
	struct gp_profile *p;
	struct gp_profile_row *rows; /* p->rows, to be written */
	size_t cap_rows;
	const char *path;
	char *why;
	size_t why_size;
};

enum field_kind {
	FIELD_TEXT,
	FIELD_NUMBER,
	FIELD_BOOL,
	FIELD_OBJECT, /* `read` takes it */
};

struct field {
	const char *key;
	enum field_kind kind;
	bool required;
	size_t offset, size;  /* in what the table describes; size: of a text, with its NUL */
	uint64_t least, most; /* of a number */
	int (*read)(struct reader *in);
};

static int refuse(struct reader *in, uint64_t line, const char *fmt, ...) GP_PRINTF(3, 4);

static int refuse(struct reader *in, uint64_t line, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(in->why, in->why_size, "%s:%" PRIu64 ": ", in->path, line);

	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < in->why_size)
		vsnprintf(in->why + n, in->why_size - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* The current token is not what it should be; or broken, which goes before. */
static int refuse_token(struct reader *in, const char *key, const char *expected)
{
	const struct gp_json *j = &in->json;

	if (j->token == GP_JSON_ERROR)
		return refuse(in, j->error_line, "%s", j->error);
	return refuse(in, j->line, "\"%s\" is %s, expected %s", key, gp_json_token_name(j->token),
		      expected);
}

static bool key_is(const struct gp_json *j, const char *key)
{
	return j->text_len == strlen(key) && !memcmp(j->text, key, j->text_len);
}

/* -- fields ----------------------------------------------------------------------------------- */

static int read_text(struct reader *in, const struct field *f, char *to)
{
	const struct gp_json *j = &in->json;

	if (j->token == GP_JSON_NULL)
		return 0;
	if (j->token != GP_JSON_STRING)
		return refuse_token(in, f->key, "a string");
	if (j->text_len >= f->size)
		return refuse(in, j->line, "\"%s\" has %zu bytes, expected at most %zu", f->key,
			      j->text_len, f->size - 1);
	memcpy(to, j->text, j->text_len + 1);
	return 0;
}

static int read_number(struct reader *in, const struct field *f, uint64_t *to)
{
	const struct gp_json *j = &in->json;

	if (j->token != GP_JSON_NUMBER)
		return refuse_token(in, f->key, "a whole number");
	if (j->number_kind != GP_JSON_UNSIGNED || j->number < f->least || j->number > f->most)
		return refuse(in, j->line,
			      "\"%s\" is %.30s, expected a whole number from %" PRIu64
			      " to %" PRIu64,
			      f->key, j->text, f->least, f->most);
	*to = j->number;
	return 0;
}

/* The value whose first token is the current one. */
static int read_value(struct reader *in, const struct field *f, void *base)
{
	enum gp_json_token token = in->json.token;
	char *to = (char *)base + f->offset;

	switch (f->kind) {
	case FIELD_TEXT:
		return read_text(in, f, to);
	case FIELD_NUMBER:
		return read_number(in, f, (uint64_t *)(void *)to);
	case FIELD_BOOL:
		if (token != GP_JSON_TRUE && token != GP_JSON_FALSE)
			return refuse_token(in, f->key, "true or false");
		*(bool *)(void *)to = token == GP_JSON_TRUE;
		return 0;
	case FIELD_OBJECT:
		break;
	}
	return token == GP_JSON_OBJECT ? f->read(in) : refuse_token(in, f->key, "an object");
}

/* One member: the current token is its key. */
static int read_member(struct reader *in, const struct field *fields, size_t n, void *base,
		       unsigned *seen)
{
	struct gp_json *j = &in->json;
	size_t i = 0;

	while (i < n && !key_is(j, fields[i].key))
		i++;
	if (i < n && *seen & 1u << i)
		return refuse(in, j->line, "key \"%s\" twice, expected it once", fields[i].key);
	gp_json_next(j);
	if (i == n) {
		gp_json_skip(j);
		return 0;
	}
	*seen |= 1u << i;
	return read_value(in, &fields[i], base);
}

/* An object of these fields, in any order; the current token opens it. */
static int read_object(struct reader *in, const struct field *fields, size_t n, void *base)
{
	struct gp_json *j = &in->json;
	unsigned seen = 0;
	int r = 0;

	while (!r && gp_json_next(j) == GP_JSON_KEY)
		r = read_member(in, fields, n, base, &seen);
	if (r)
		return r;
	if (j->token != GP_JSON_OBJECT_END)
		return refuse(in, j->error_line, "%s", j->error);
	for (size_t i = 0; i < n; i++) {
		if (fields[i].required && !(seen & 1u << i))
			return refuse(in, j->line, "no \"%s\", expected one in this object",
				      fields[i].key);
	}
	return 0;
}

#define ROW_TIME(key_, member, required_)                                                          \
	{                                                                                          \
		.key = key_, .kind = FIELD_NUMBER, .required = required_,                          \
		.offset = offsetof(struct gp_profile_row, member), .most = NS_MAX                  \
	}

static const struct field row_fields[] = {
	{ .key = "size",
	  .kind = FIELD_NUMBER,
	  .required = true,
	  .offset = offsetof(struct gp_profile_row, size),
	  .least = 1,
	  .most = GP_SIZE_MAX },
	{ .key = "n",
	  .kind = FIELD_NUMBER,
	  .required = true,
	  .offset = offsetof(struct gp_profile_row, n),
	  .least = 1,
	  .most = UINT32_MAX },
	ROW_TIME("min_ns", min, true),
	ROW_TIME("p50_ns", p50, true),
	ROW_TIME("p90_ns", p90, true),
	ROW_TIME("p99_ns", p99, true),
	ROW_TIME("max_ns", max, true),
	ROW_TIME("mean_ns", mean, false),
};

/* -- rows ------------------------------------------------------------------------------------- */

static int row_check(struct reader *in, const struct gp_profile_row *row,
		     const struct gp_profile_row *before)
{
	uint64_t line = in->json.line;

	if (before && before->size >= row->size)
		return refuse(in, line,
			      "\"%s\": size %" PRIu64 " after %" PRIu64
			      ", expected ascending sizes",
			      row->call, row->size, before->size);
	if (row->min > row->p50 || row->p50 > row->p90 || row->p90 > row->p99 ||
	    row->p99 > row->max)
		return refuse(in, line,
			      "\"%s\": expected min_ns <= p50_ns <= p90_ns <= p99_ns <= max_ns",
			      row->call);
	if (row->mean && (row->mean < row->min || row->mean > row->max))
		return refuse(in, line,
			      "\"%s\": mean_ns is %" PRIu64
			      ", expected one between min_ns and max_ns",
			      row->call, row->mean);
	return 0;
}

/* Room for one more row; NULL after refuse. */
static struct gp_profile_row *row_room(struct reader *in)
{
	size_t cap = in->cap_rows ? 2 * in->cap_rows : 64;
	struct gp_profile_row *grown;

	if (in->p->n_rows == GP_PROFILE_ROWS) {
		refuse(in, in->json.line, "one row more, expected at most %u", GP_PROFILE_ROWS);
		return NULL;
	}
	if (in->p->n_rows < in->cap_rows)
		return &in->rows[in->p->n_rows];
	grown = realloc(in->rows, cap * sizeof(*grown));
	if (!grown) {
		refuse(in, in->json.line, "out of memory");
		return NULL;
	}
	in->p->rows = in->rows = grown;
	in->cap_rows = cap;
	return &in->rows[in->p->n_rows];
}

static int read_row(struct reader *in, const char *call, size_t n_before)
{
	struct gp_profile_row *row = row_room(in);
	int r;

	if (!row)
		return -EINVAL;
	if (in->json.token != GP_JSON_OBJECT)
		return refuse_token(in, call, "an array of objects");
	if (n_before == GP_PROFILE_SIZES)
		return refuse(in, in->json.line, "\"%s\": one size more, expected at most %u", call,
			      GP_PROFILE_SIZES);
	memset(row, 0, sizeof(*row));
	strcpy(row->call, call);
	r = read_object(in, row_fields, GP_ARRAY_LEN(row_fields), row);
	if (!r)
		r = row_check(in, row, n_before ? row - 1 : NULL);
	if (!r)
		in->p->n_rows++;
	return r;
}

/* The current token is the name of a call. */
static int read_call(struct reader *in)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._";
	struct gp_json *j = &in->json;
	char call[sizeof(in->rows->call)];
	size_t n;

	if (!j->text_len || j->text_len >= sizeof(call) || strspn(j->text, letters) != j->text_len)
		return refuse(
			in, j->line,
			"\"%s\" cannot name a call, expected letters, digits, '.' and '_', at "
			"most %zu of them",
			gp_fields_quote(j).text, sizeof(call) - 1);
	memcpy(call, j->text, j->text_len + 1);
	if (gp_profile_rows(in->p, call, &n))
		return refuse(in, j->line, "key \"%s\" twice, expected it once", call);
	if (gp_json_next(j) != GP_JSON_ARRAY)
		return refuse_token(in, call, "an array of objects");
	for (n = 0; gp_json_next(j) != GP_JSON_ARRAY_END; n++) {
		int r = read_row(in, call, n);

		if (r)
			return r;
	}
	return 0;
}

static int read_calls(struct reader *in)
{
	struct gp_json *j = &in->json;
	int r = 0;

	while (!r && gp_json_next(j) == GP_JSON_KEY)
		r = read_call(in);
	if (r || j->token == GP_JSON_OBJECT_END)
		return r;
	return refuse(in, j->error_line, "%s", j->error);
}

/* -- the document ----------------------------------------------------------------------------- */

#define TEXT(key_, member)                                                                         \
	{                                                                                          \
		.key = key_, .kind = FIELD_TEXT, .offset = offsetof(struct gp_profile, member),    \
		.size = sizeof(((struct gp_profile *)0)->member)                                   \
	}
#define BYTES(key_, member)                                                                        \
	{                                                                                          \
		.key = key_, .kind = FIELD_NUMBER, .required = true,                               \
		.offset = offsetof(struct gp_profile, member), .least = 1, .most = GP_SIZE_MAX     \
	}

static int read_machine(struct reader *in)
{
	static const struct field fields[] = {
		TEXT("card", card),
		TEXT("driver", driver),
		TEXT("cuda", cuda),
		TEXT("cpu", cpu),
		{ .key = "cores",
		  .kind = FIELD_NUMBER,
		  .offset = offsetof(struct gp_profile, cores),
		  .most = UINT32_MAX },
		TEXT("os", os),
		TEXT("date", date),
		TEXT("gpupool", gpupool),
	};

	return read_object(in, fields, GP_ARRAY_LEN(fields), in->p);
}

static int read_memory(struct reader *in)
{
	static const struct field fields[] = {
		BYTES("total_bytes", total_bytes),
		BYTES("free_bytes", free_bytes),
		BYTES("page_bytes", page_bytes),
	};
	struct gp_profile *p = in->p;
	int r = read_object(in, fields, GP_ARRAY_LEN(fields), p);

	if (r)
		return r;
	if (p->free_bytes > p->total_bytes)
		return refuse(in, in->json.line,
			      "free_bytes is %" PRIu64
			      ", expected no more than total_bytes, %" PRIu64,
			      p->free_bytes, p->total_bytes);
	if (p->page_bytes != 2 * GP_MIB)
		return refuse(in, in->json.line,
			      "page_bytes is %" PRIu64 ", expected 2097152: no other size of page "
			      "is simulated",
			      p->page_bytes);
	return 0;
}

/* The first two keys say what the file is, so that nothing else is misread. */
static int read_signature(struct reader *in)
{
	struct gp_json *j = &in->json;

	gp_json_next(j);
	if (j->token != GP_JSON_OBJECT)
		return refuse_token(in, "the file", "an object, made by gpupool-calibrate");
	if (gp_json_next(j) != GP_JSON_KEY || !key_is(j, "format") ||
	    gp_json_next(j) != GP_JSON_STRING || !key_is(j, GP_PROFILE_FORMAT))
		return j->token == GP_JSON_ERROR
			       ? refuse(in, j->error_line, "%s", j->error)
			       : refuse(in, j->line,
					"no device profile, expected one made by gpupool-calibrate: "
					"{\"format\": \"" GP_PROFILE_FORMAT "\", ...");
	if (gp_json_next(j) != GP_JSON_KEY || !key_is(j, "version") ||
	    gp_json_next(j) != GP_JSON_NUMBER || j->number_kind != GP_JSON_UNSIGNED ||
	    j->number != GP_PROFILE_VERSION)
		return j->token == GP_JSON_ERROR
			       ? refuse(in, j->error_line, "%s", j->error)
			       : refuse(in, j->line, "expected \"version\": %u after \"format\"",
					GP_PROFILE_VERSION);
	return 0;
}

static int read_document(struct reader *in)
{
	static const struct field fields[] = {
		{ .key = "name",
		  .kind = FIELD_TEXT,
		  .required = true,
		  .offset = offsetof(struct gp_profile, name),
		  .size = sizeof(in->p->name) },
		TEXT("source", source),
		{ .key = "simulated",
		  .kind = FIELD_BOOL,
		  .required = true,
		  .offset = offsetof(struct gp_profile, simulated) },
		{ .key = "machine", .kind = FIELD_OBJECT, .required = true, .read = read_machine },
		{ .key = "memory", .kind = FIELD_OBJECT, .required = true, .read = read_memory },
		{ .key = "calls", .kind = FIELD_OBJECT, .required = true, .read = read_calls },
	};
	char missing[160];
	int r = read_signature(in);

	if (!r)
		r = read_object(in, fields, GP_ARRAY_LEN(fields), in->p);
	if (!r && gp_json_next(&in->json) != GP_JSON_END)
		r = refuse(in, in->json.error_line, "%s", in->json.error);
	if (!r && gp_profile_price(in->p, missing, sizeof(missing)))
		r = refuse(in, in->json.line, "%s", missing);
	return r;
}

int gp_profile_read(struct gp_input *input, struct gp_profile **out, char *why, size_t why_size)
{
	struct reader in = { .path = input->path, .why = why, .why_size = why_size };
	int r;

	in.p = calloc(1, sizeof(*in.p));
	r = in.p ? gp_json_init(&in.json, input, 0) : -ENOMEM;
	if (r)
		snprintf(why, why_size, "%s: out of memory", in.path);
	else
		r = read_document(&in);
	gp_json_fini(&in.json);
	if (r && gp_input_error(input)) {
		r = gp_input_error(input);
		snprintf(why, why_size, "%s: %s", in.path, input->error_text);
	}
	if (r)
		gp_profile_free(in.p);
	else
		*out = in.p;
	return r;
}

int gp_profile_load(const char *path, struct gp_profile **out, char *why, size_t why_size)
{
	struct gp_input *input;
	int r = gp_input_open(path, &input, why, why_size);

	if (r)
		return r;
	r = gp_profile_read(input, out, why, why_size);
	gp_input_close(input);
	return r;
}

struct gp_profile *gp_profile_free(struct gp_profile *p)
{
	if (p)
		free((void *)p->rows);
	free(p);
	return NULL;
}
