/* SPDX-License-Identifier: Apache-2.0
 *
 * minimalloc_csv: buffers with lifetimes, as planners of static memory exchange them.
 *
 *   id,lower,upper,size,alignment
 *   w0,0,40,512,256
 *   act1,3,9,128,256
 *
 * Lifetimes   half-open, [lower, upper). A column "end" instead of "upper" holds the last step that
 *             is still live, by minimalloc's own rule; other planners write such ends under "upper"
 *             too, which nothing in a file tells: options.inclusive_ends does.
 * Order       of equal time, frees come before allocations, and each kind in the order of the file:
 *             two buffers that share a step only at its edge are never live together.
 * Time        a step of the planner is taken for one nanosecond, the first one for 0.
 * Memory      40 bytes a buffer, and 24 while they are put in order.
 * Not done    gaps (times in a lifetime when the memory is free): noted, and read as live. `hint`
 *             and `offset` are a planner's answer, not a request, and left alone.
 * Threads     caller serialises.
 */
#include "csv_pull.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"
#include "replay/id_map.h"

#define LIFE_MIN 1024u /* buffers to begin with */

enum life_column {
	LIFE_ID,
	LIFE_LOWER,
	LIFE_UPPER,
	LIFE_SIZE, /* up to here they must be there */
	LIFE_ALIGNMENT,
	LIFE_GAPS,
	LIFE_N,
};

static const char *const life_names[LIFE_N] = {
	"id|buffer|buffer_id", "lower|begin|start", "upper|end", "size", "alignment", "gaps",
};

struct life_buffer {
	uint64_t size, align, line;
};

struct life {
	struct gp_csv csv;
	struct gp_trace_builder *builder;
	unsigned column[LIFE_N];
	bool inclusive;
	struct life_buffer *buffers;
	uint64_t *lower, *upper; /* [buffer]; apart, because they are sorted by */
	uint32_t n, capacity;
	uint64_t n_gaps;
	struct gp_id_map names; /* hash of an id -> its buffer */
};

static enum gp_format_match life_probe(const unsigned char *head, size_t n)
{
	struct gp_csv_row row;

	if (!gp_csv_look(head, n, &row))
		return GP_FORMAT_NO;
	for (unsigned k = LIFE_LOWER; k <= LIFE_SIZE; k++)
		if (gp_csv_find(&row, life_names[k]) == GP_CSV_NONE)
			return GP_FORMAT_NO;
	return gp_csv_find(&row, life_names[LIFE_ID]) == GP_CSV_NONE ? GP_FORMAT_MAYBE
								      : GP_FORMAT_YES;
}

static int life_no_memory(struct life *l)
{
	gp_trace_builder_refuse(l->builder, l->csv.line, "out of memory");
	return -ENOMEM;
}

/* ---- rows ---- */

static bool life_grow_one(void *p, size_t n, size_t element_size)
{
	void **array = p;
	void *next = realloc(*array, n * element_size);

	if (next)
		*array = next;
	return next != NULL;
}

static int life_reserve(struct life *l)
{
	size_t n = l->capacity ? 2 * (size_t)l->capacity : LIFE_MIN;

	if (l->n < l->capacity)
		return 0;
	if (n > UINT32_MAX / 2)
		return gp_trace_builder_refuse(l->builder, l->csv.line,
					       "one buffer more, expected fewer than 2^31");
	if (!life_grow_one(&l->buffers, n, sizeof(*l->buffers)) ||
	    !life_grow_one(&l->lower, n, sizeof(*l->lower)) ||
	    !life_grow_one(&l->upper, n, sizeof(*l->upper)))
		return life_no_memory(l);
	l->capacity = (uint32_t)n;
	return 0;
}

/* FNV-1a. Two ids of one hash would be told to be one id: among 2^32 of them that is unlikely. */
static uint64_t life_hash(const struct gp_csv_field *f)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < f->n; i++)
		hash = (hash ^ (unsigned char)f->text[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static int life_check_id(struct life *l)
{
	const struct gp_csv_field *f = &l->csv.row.fields[l->column[LIFE_ID]];
	uint64_t hash = life_hash(f);

	if (gp_id_map_find(&l->names, hash) != GP_ID_MAP_NONE)
		return gp_trace_builder_problem(l->builder, GP_SKIP_DUPLICATE_ID, l->csv.line,
						"buffer \"%s\" twice, expected each id once",
						gp_csv_quote(f).text);
	return gp_id_map_put(&l->names, hash, l->n) ? life_no_memory(l) : 0;
}

static int life_number(struct life *l, enum life_column column, uint64_t *out)
{
	const struct gp_csv_field *f = &l->csv.row.fields[l->column[column]];

	if (gp_csv_u64(f, out))
		return 0;
	return gp_csv_bad_number(&l->csv, column == LIFE_LOWER   ? "lower"
					  : column == LIFE_UPPER ? "upper"
					  : column == LIFE_SIZE  ? "size"
								 : "alignment",
				 f);
}

/* Makes upper the first step that the buffer does not live in. */
static int life_check_ends(struct life *l, uint64_t lower, uint64_t *upper)
{
	if (*upper < lower || (*upper == lower && !l->inclusive))
		return gp_trace_builder_problem(
			l->builder, GP_SKIP_BAD_EVENT, l->csv.line,
			"upper is %llu and lower %llu, expected lower < upper%s",
			(unsigned long long)*upper, (unsigned long long)lower,
			*upper == lower ? " (does this planner count the upper end in? then read "
					  "it with inclusive ends)"
					: "");
	if (*upper == UINT64_MAX)
		return gp_trace_builder_problem(l->builder, GP_SKIP_BAD_EVENT, l->csv.line,
						"upper is %llu, expected less than 2^64 - 1",
						(unsigned long long)*upper);
	*upper += l->inclusive;
	return 0;
}

/* What the builder would refuse later, out of the order of the file. */
static int life_check_request(struct life *l, const struct life_buffer *buffer)
{
	if (buffer->size > UINT64_C(1) << 63)
		return gp_trace_builder_problem(l->builder, GP_SKIP_BAD_EVENT, l->csv.line,
						"size is %llu, expected at most 2^63",
						(unsigned long long)buffer->size);
	if (buffer->align && (!gp_is_pow2(buffer->align) || buffer->align > GP_SIZE_MAX))
		return gp_trace_builder_problem(l->builder, GP_SKIP_BAD_EVENT, l->csv.line,
						"alignment is %llu, expected a power of two of at "
						"most 2^60",
						(unsigned long long)buffer->align);
	return 0;
}

static bool life_has(const struct life *l, enum life_column column)
{
	return l->column[column] != GP_CSV_NONE && l->csv.row.fields[l->column[column]].n;
}

/* Keeps the row. GP_REFUSED: left out. */
static int life_row(struct life *l)
{
	struct life_buffer buffer = { .line = l->csv.line };
	uint64_t lower = 0, upper = 0;
	int r = life_number(l, LIFE_LOWER, &lower);

	if (!r)
		r = life_number(l, LIFE_UPPER, &upper);
	if (!r)
		r = life_number(l, LIFE_SIZE, &buffer.size);
	if (!r && life_has(l, LIFE_ALIGNMENT))
		r = life_number(l, LIFE_ALIGNMENT, &buffer.align);
	if (!r)
		r = life_check_ends(l, lower, &upper);
	if (!r)
		r = life_check_request(l, &buffer);
	if (!r)
		r = life_check_id(l);
	if (!r)
		r = life_reserve(l);
	if (r)
		return r;
	l->n_gaps += life_has(l, LIFE_GAPS);
	l->buffers[l->n] = buffer;
	l->lower[l->n] = lower;
	l->upper[l->n] = upper;
	l->n++;
	return 0;
}

static int life_header(struct life *l)
{
	int r = gp_csv_header(&l->csv, life_names, LIFE_N, LIFE_ALIGNMENT, "hint|offset",
			      l->column);

	if (r)
		return r;
	l->inclusive = gp_trace_builder_options(l->builder)->inclusive_ends ||
		       gp_csv_is(&l->csv.row.fields[l->column[LIFE_UPPER]], "end");
	return gp_trace_builder_header(l->builder, NULL, "memory planner", NULL, 0);
}

static int life_rows(struct life *l)
{
	int r = life_header(l);

	while (!r) {
		r = gp_csv_next_row(&l->csv);
		if (r != GP_CSV_ROW)
			break;
		r = life_row(l);
		if (r == GP_REFUSED)
			r = 0;
	}
	return r ? r : gp_csv_finish(&l->csv);
}

/* ---- events ---- */

static int life_add(struct life *l, enum gp_op op, uint32_t i, uint64_t t_ns)
{
	const struct life_buffer *buffer = &l->buffers[i];
	struct gp_trace_record r = { .op = op, .id = i, .t_ns = t_ns };

	if (op == GP_OP_ALLOC) {
		r.size = buffer->size;
		r.align = buffer->align;
	}
	return gp_trace_builder_add(l->builder, &r, buffer->line);
}

/* Merges the beginnings, in their order, with the ends, in theirs. */
static int life_merge(struct life *l, const uint32_t *begins, const uint32_t *ends)
{
	uint64_t first = l->n ? l->lower[begins[0]] : 0;
	uint32_t b = 0, e = 0;
	int r = 0;

	while (!r && e < l->n) {
		if (b < l->n && l->lower[begins[b]] < l->upper[ends[e]]) {
			r = life_add(l, GP_OP_ALLOC, begins[b], l->lower[begins[b]] - first);
			b++;
		} else {
			r = life_add(l, GP_OP_FREE, ends[e], l->upper[ends[e]] - first);
			e++;
		}
	}
	return r;
}

static int life_events(struct life *l)
{
	size_t n = l->n ? l->n : 1;
	uint32_t *begins = malloc(n * sizeof(*begins));
	uint32_t *ends = malloc(n * sizeof(*ends));
	int r;

	if (!begins || !ends || gp_order_by(l->lower, l->n, begins) ||
	    gp_order_by(l->upper, l->n, ends))
		r = life_no_memory(l);
	else
		r = life_merge(l, begins, ends);
	free(begins);
	free(ends);
	return r;
}

static int life_notes(struct life *l)
{
	int r = gp_trace_builder_note(l->builder,
				      "the file has steps and no times; each was taken for 1 ns");

	if (!r && l->n_gaps)
		r = gp_trace_builder_note(l->builder,
					  "%llu buffers have gaps, in which their memory could "
					  "serve others; they were read as live throughout",
					  (unsigned long long)l->n_gaps);
	return r;
}

static int life_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct life l = { .builder = b };
	int r;

	gp_id_map_init(&l.names);
	gp_csv_init(&l.csv, in, b);
	r = life_rows(&l);
	gp_id_map_fini(&l.names);
	if (!r)
		r = life_events(&l);
	if (!r)
		r = life_notes(&l);
	free(l.buffers);
	free(l.lower);
	free(l.upper);
	return r;
}

const struct gp_format gp_minimalloc_csv_format = {
	.name = "minimalloc_csv",
	.summary = "buffers with lifetimes of a memory planner (minimalloc), CSV",
	.probe = life_probe,
	.read = life_read,
};
