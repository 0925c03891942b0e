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
 * Memory      40 bytes a buffer, 12 to 24 for its id, and 20 while they are put in order.
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
	uint64_t lower, upper; /* half-open */
	uint64_t size, line;
	uint32_t id; /* while it is live; ids are used again, so that the builder's map stays small
		      */
	uint8_t lg_align;
};

struct life {
	struct gp_csv csv;
	struct gp_trace_builder *builder;
	unsigned column[LIFE_N];
	bool inclusive;
	struct life_buffer *buffers;
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

static int life_reserve(struct life *l)
{
	size_t n = l->capacity ? 2 * (size_t)l->capacity : LIFE_MIN;
	struct life_buffer *buffers;

	if (l->n < l->capacity)
		return 0;
	if (n > UINT32_MAX / 2)
		return gp_trace_builder_refuse(l->builder, l->csv.line,
					       "one buffer more, expected fewer than 2^31");
	buffers = realloc(l->buffers, n * sizeof(*buffers));
	if (!buffers)
		return life_no_memory(l);
	l->buffers = buffers;
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
	uint32_t before = l->names.n;

	if (gp_id_map_put(&l->names, hash, l->n))
		return life_no_memory(l);
	if (l->names.n > before)
		return 0;
	return gp_trace_builder_problem(l->builder, GP_SKIP_DUPLICATE_ID, l->csv.line,
					"buffer \"%s\" twice, expected each id once",
					gp_csv_quote(f).text);
}

static int life_number(struct life *l, enum life_column column, uint64_t *out)
{
	const struct gp_csv_field *f = &l->csv.row.fields[l->column[column]];

	return gp_csv_u64(f, out) ? 0 : gp_csv_bad_number(&l->csv, life_names[column], f);
}

/* Makes upper the first step that the buffer does not live in. */
static int life_check_ends(struct life *l, struct life_buffer *buffer)
{
	unsigned long long lower = buffer->lower, upper = buffer->upper;

	if (upper < lower || (upper == lower && !l->inclusive))
		return gp_trace_builder_problem(
			l->builder, GP_SKIP_BAD_EVENT, l->csv.line,
			"upper is %llu and lower %llu, expected lower < upper%s", upper, lower,
			upper == lower ? " (does this planner count the upper end in? then read it "
					 "with inclusive ends)"
				       : "");
	if (upper == UINT64_MAX)
		return gp_trace_builder_problem(l->builder, GP_SKIP_BAD_EVENT, l->csv.line,
						"upper is %llu, expected less than 2^64 - 1",
						upper);
	buffer->upper += l->inclusive;
	return 0;
}

/* What the builder would refuse later, out of the order of the file. */
static int life_check_request(struct life *l, struct life_buffer *buffer, uint64_t align)
{
	if (buffer->size > UINT64_C(1) << 63)
		return gp_trace_builder_problem(l->builder, GP_SKIP_BAD_EVENT, l->csv.line,
						"size is %llu, expected at most 2^63",
						(unsigned long long)buffer->size);
	if (align && (!gp_is_pow2(align) || align > GP_SIZE_MAX))
		return gp_trace_builder_problem(l->builder, GP_SKIP_BAD_EVENT, l->csv.line,
						"alignment is %llu, expected a power of two of at "
						"most 2^60",
						(unsigned long long)align);
	buffer->lg_align = (uint8_t)(align ? gp_floor_log2(align) : 0);
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
	uint64_t align = 0;
	int r = life_number(l, LIFE_LOWER, &buffer.lower);

	if (!r)
		r = life_number(l, LIFE_UPPER, &buffer.upper);
	if (!r)
		r = life_number(l, LIFE_SIZE, &buffer.size);
	if (!r && life_has(l, LIFE_ALIGNMENT))
		r = life_number(l, LIFE_ALIGNMENT, &align);
	if (!r)
		r = life_check_ends(l, &buffer);
	if (!r)
		r = life_check_request(l, &buffer, align);
	if (!r)
		r = life_check_id(l);
	if (!r)
		r = life_reserve(l);
	if (r)
		return r;
	l->n_gaps += life_has(l, LIFE_GAPS);
	l->buffers[l->n++] = buffer;
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

/* The buffers in the order of their beginnings and in that of their ends, and ids to give again. */
struct life_order {
	uint32_t *begins, *ends, *ids;
	uint32_t n_ids, next_id;
};

static int life_alloc(struct life *l, struct life_order *o, struct life_buffer *buffer,
		      uint64_t first)
{
	struct gp_trace_record r = {
		.op = GP_OP_ALLOC,
		.size = buffer->size,
		.align = UINT64_C(1) << buffer->lg_align,
		.t_ns = buffer->lower - first,
	};

	buffer->id = o->n_ids ? o->ids[--o->n_ids] : o->next_id++;
	r.id = buffer->id;
	return gp_trace_builder_add(l->builder, &r, buffer->line);
}

static int life_free(struct life *l, struct life_order *o, const struct life_buffer *buffer,
		     uint64_t first)
{
	struct gp_trace_record r = {
		.op = GP_OP_FREE,
		.id = buffer->id,
		.t_ns = buffer->upper - first,
	};

	o->ids[o->n_ids++] = buffer->id;
	return gp_trace_builder_add(l->builder, &r, buffer->line);
}

/* Merges the beginnings with the ends. */
static int life_merge(struct life *l, struct life_order *o)
{
	uint64_t first = l->n ? l->buffers[o->begins[0]].lower : 0;
	uint32_t b = 0, e = 0;
	int r = 0;

	while (!r && e < l->n) {
		struct life_buffer *next = b < l->n ? &l->buffers[o->begins[b]] : NULL;
		struct life_buffer *last = &l->buffers[o->ends[e]];

		if (next && next->lower < last->upper) {
			r = life_alloc(l, o, next, first);
			b++;
		} else {
			r = life_free(l, o, last, first);
			e++;
		}
	}
	return r;
}

/* False: no memory. */
static bool life_sort(struct life *l, struct life_order *o)
{
	uint64_t *keys = malloc((l->n + (size_t)1) * sizeof(*keys));
	bool ok = keys != NULL;

	for (uint32_t i = 0; ok && i < l->n; i++)
		keys[i] = l->buffers[i].lower;
	ok = ok && !gp_order_by(keys, l->n, o->begins);
	for (uint32_t i = 0; ok && i < l->n; i++)
		keys[i] = l->buffers[i].upper;
	ok = ok && !gp_order_by(keys, l->n, o->ends);
	free(keys);
	return ok;
}

static int life_events(struct life *l)
{
	size_t bytes = (l->n + (size_t)1) * sizeof(uint32_t);
	struct life_order o = { malloc(bytes), malloc(bytes), malloc(bytes), 0, 0 };
	int r;

	if (!o.begins || !o.ends || !o.ids || !life_sort(l, &o))
		r = life_no_memory(l);
	else
		r = life_merge(l, &o);
	free(o.begins);
	free(o.ends);
	free(o.ids);
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
	return r;
}

const struct gp_format gp_minimalloc_csv_format = {
	.name = "minimalloc_csv",
	.summary = "buffers with lifetimes of a memory planner (minimalloc), CSV",
	.probe = life_probe,
	.read = life_read,
};
