/* SPDX-License-Identifier: Apache-2.0
 *
 * rmm_csv: the log of RMM's logging_resource_adaptor.
 *
 *   Thread,Time,Action,Pointer,Size,Stream
 *   4711,09:15:02.000120,allocate,0x7f3a40000000,1048576,0x2
 *   4711,09:15:02.000391,allocate failure,(nil),34359738368,0
 *
 * Generations  up to 0.14 there is no Thread and the stream is decimal; up to 0.19 a colon comes
 *              before the microseconds; failures are logged since 22.04; a null pointer is 0x0 and
 *              later (nil). All are read alike: nothing here depends on which one it is.
 * Blocks       are named by their pointer (by_address.h). RMM serves a request of no bytes with a
 *              null pointer, and any number of those are live at once.
 * Order        that of the file: RMM logs a free before and an allocation after its upstream does
 *              it, so that a pointer's rows are in order whatever thread they come from. The
 *              stamps of two threads may be not; then time stands still for a row.
 * Time         is that of the day, without a date. A step back of more than twelve hours is
 *              midnight; a smaller one was a clock set back (summer time), and time goes on.
 * Not done     more than one log in a file.
 * Threads      caller serialises.
 */
#include "csv_pull.h"

#include <string.h>

#include "by_address.h"

#define RMM_SECOND UINT64_C(1000000000) /* ns */
#define RMM_DAY    (86400 * RMM_SECOND)
#define RMM_RACE   (60 * RMM_SECOND) /* so much may lie between a thread's stamp and its row */

/* Ids of blocks at the null pointer; those of by_address count from 0. */
#define RMM_NULL_IDS (UINT64_C(1) << 63)

enum rmm_column {
	RMM_TIME,
	RMM_ACTION,
	RMM_POINTER,
	RMM_SIZE,
	RMM_STREAM,
	RMM_THREAD, /* the ones before must be there */
	RMM_N,
};

static const char *const rmm_names[RMM_N] = { "time", "action", "pointer",
					      "size", "stream", "thread" };

struct rmm {
	struct gp_csv csv;
	struct gp_trace_builder *builder;
	struct gp_by_address blocks;
	unsigned column[RMM_N];
	bool started;
	uint64_t day_ns; /* of the latest row: since midnight */
	uint64_t t_ns;   /* of the latest row: since the first one */
	uint64_t n_null; /* blocks live at the null pointer */
	uint64_t n_back, n_set_back, n_other_stream;
};

/* ---- recognising ---- */

/* Files that lost their header are common: logs get cut and split. Behind the action come pointer,
 * size and stream. */
static bool rmm_has_no_header(const struct gp_csv_row *row)
{
	return (row->n == RMM_N || row->n == RMM_N - 1) &&
	       gp_csv_is(&row->fields[row->n - 4], "allocate|free|allocate failure");
}

static bool rmm_is_clock(const char *p, size_t n)
{
	static const char form[] = "][dd:dd:dd";

	for (size_t i = 0; i < sizeof(form) - 1; i++)
		if (i >= n || (form[i] == 'd' ? p[i] < '0' || p[i] > '9' : p[i] != form[i]))
			return false;
	return true;
}

/* "[  4711][09:15:02:000120][debug ] ...": the log that a pool writes about itself. */
static bool rmm_is_debug_log(const unsigned char *head, size_t n)
{
	const char *p = (const char *)head, *end = p + n;

	while (p < end && (*p == '\n' || *p == '\r'))
		p++;
	if (p == end || *p != '[')
		return false;
	for (; p < end && *p != '\n'; p++)
		if (rmm_is_clock(p, (size_t)(end - p)))
			return true;
	return false;
}

static enum gp_format_match rmm_probe(const unsigned char *head, size_t n)
{
	struct gp_csv_row row;

	if (rmm_is_debug_log(head, n))
		return GP_FORMAT_YES;
	if (!gp_csv_look(head, n, &row))
		return GP_FORMAT_NO;
	if (rmm_has_no_header(&row))
		return GP_FORMAT_YES;
	if (gp_csv_find(&row, rmm_names[RMM_ACTION]) == GP_CSV_NONE ||
	    gp_csv_find(&row, rmm_names[RMM_POINTER]) == GP_CSV_NONE)
		return GP_FORMAT_NO;
	return GP_FORMAT_YES;
}

/* ---- time ---- */

static bool rmm_two_digits(const char *p, unsigned limit, uint64_t *out)
{
	unsigned tens = (unsigned char)p[0] - (unsigned)'0';
	unsigned ones = (unsigned char)p[1] - (unsigned)'0';

	*out = tens * 10 + ones;
	return tens < 10 && ones < 10 && *out < limit;
}

/* HH:MM:SS, and behind a dot or a colon the fraction of the second. */
static bool rmm_parse_time(const struct gp_csv_field *f, uint64_t *ns)
{
	const char *p = f->text;
	uint64_t hours, minutes, seconds, unit = RMM_SECOND;

	if (f->n < 8 || p[2] != ':' || p[5] != ':' || !rmm_two_digits(p, 24, &hours) ||
	    !rmm_two_digits(p + 3, 60, &minutes) || !rmm_two_digits(p + 6, 61, &seconds))
		return false;
	*ns = ((hours * 60 + minutes) * 60 + seconds) * RMM_SECOND;
	if (f->n == 8)
		return true;
	if ((p[8] != '.' && p[8] != ':') || f->n == 9 || f->n > 18)
		return false;
	for (size_t i = 9; i < f->n; i++) {
		unsigned digit = (unsigned char)p[i] - (unsigned)'0';

		if (digit > 9)
			return false;
		unit /= 10;
		*ns += digit * unit;
	}
	return true;
}

/* Moves the clock to this time of the day. */
static void rmm_advance(struct rmm *m, uint64_t day_ns)
{
	bool back = day_ns < m->day_ns;
	uint64_t ahead = day_ns - m->day_ns + (back ? RMM_DAY : 0);

	if (!m->started) {
		m->started = true;
		ahead = 0;
	} else if (ahead >= RMM_DAY - RMM_RACE) {
		m->n_back++;
		return;
	}
	if (back && ahead > RMM_DAY / 2)
		m->n_set_back++;
	else
		m->t_ns += ahead;
	m->day_ns = day_ns;
}

/* ---- rows ---- */

/* GP_OP_N: none of them. */
static enum gp_op rmm_parse_action(const struct gp_csv_field *f)
{
	if (f->n == 8 && !memcmp(f->text, "allocate", 8))
		return GP_OP_ALLOC;
	if (f->n == 4 && !memcmp(f->text, "free", 4))
		return GP_OP_FREE;
	if (f->n == 16 && !memcmp(f->text, "allocate failure", 16))
		return GP_OP_OOM;
	return GP_OP_N;
}

static const struct gp_csv_field *rmm_field(const struct rmm *m, enum rmm_column column)
{
	return &m->csv.row.fields[m->column[column]];
}

static int rmm_bad_action(struct rmm *m)
{
	const struct gp_csv_field *f = rmm_field(m, RMM_ACTION);

	if (gp_csv_is(f, rmm_names[RMM_ACTION]))
		return gp_trace_builder_problem(
			m->builder, GP_SKIP_BAD_EVENT, m->csv.line,
			"a second header, expected one log in a file (split "
			"it here)");
	return gp_trace_builder_problem(m->builder, GP_SKIP_UNKNOWN_OP, m->csv.line,
					"unknown action \"%s\", expected allocate, free or "
					"allocate failure",
					gp_csv_quote(f).text);
}

static int rmm_number(struct rmm *m, enum rmm_column column, uint64_t *out)
{
	const struct gp_csv_field *f = rmm_field(m, column);

	return gp_csv_u64(f, out) ? 0 : gp_csv_bad_number(&m->csv, rmm_names[column], f);
}

static int rmm_pointer(struct rmm *m, uint64_t *out)
{
	const struct gp_csv_field *f = rmm_field(m, RMM_POINTER);

	*out = 0;
	if (f->n == 5 && !memcmp(f->text, "(nil)", 5))
		return 0;
	return rmm_number(m, RMM_POINTER, out);
}

/* The row as a record; `addr` is the pointer. GP_REFUSED: left out. */
static int rmm_parse(struct rmm *m, struct gp_trace_record *r)
{
	const struct gp_csv_field *time = rmm_field(m, RMM_TIME);
	uint64_t day_ns;
	int ret;

	r->op = rmm_parse_action(rmm_field(m, RMM_ACTION));
	if (r->op == GP_OP_N)
		return rmm_bad_action(m);
	if (!rmm_parse_time(time, &day_ns))
		return gp_trace_builder_problem(m->builder, GP_SKIP_BAD_EVENT, m->csv.line,
						"time is \"%s\", expected HH:MM:SS.ffffff",
						gp_csv_quote(time).text);
	ret = rmm_pointer(m, &r->addr);
	if (!ret)
		ret = rmm_number(m, RMM_SIZE, &r->size);
	if (!ret)
		ret = rmm_number(m, RMM_STREAM, &r->stream);
	if (!ret && m->column[RMM_THREAD] != GP_CSV_NONE)
		ret = rmm_number(m, RMM_THREAD, &r->thread);
	if (ret)
		return ret;
	rmm_advance(m, day_ns);
	r->t_ns = m->t_ns;
	return 0;
}

/* A request of no bytes, or the free of one. */
static int rmm_at_null(struct rmm *m, struct gp_trace_record *r)
{
	if (r->op == GP_OP_FREE) {
		if (!m->n_null)
			return 0; /* as free(NULL): nothing */
		m->n_null--;
		r->size = 0;
	}
	if (r->size)
		return gp_trace_builder_problem(m->builder, GP_SKIP_BAD_EVENT, m->csv.line,
						"allocate of %llu bytes at a null pointer, "
						"expected an address",
						(unsigned long long)r->size);
	r->id = RMM_NULL_IDS + m->n_null;
	m->n_null += r->op == GP_OP_ALLOC;
	return gp_trace_builder_add(m->builder, r, m->csv.line);
}

static int rmm_free(struct rmm *m, const struct gp_trace_record *r)
{
	const struct gp_by_address_block *block = gp_by_address_find(&m->blocks, r->addr);

	m->n_other_stream += block && block->live && block->stream != r->stream;
	return gp_by_address_free(&m->blocks, r, m->csv.line);
}

static int rmm_row(struct rmm *m)
{
	struct gp_trace_record r = { .op = GP_OP_N };
	int ret = rmm_parse(m, &r);

	if (!ret && r.op == GP_OP_OOM)
		ret = gp_trace_builder_add(m->builder, &r, m->csv.line);
	else if (!ret && !r.addr)
		ret = rmm_at_null(m, &r);
	else if (!ret && r.op == GP_OP_ALLOC)
		ret = gp_by_address_alloc(&m->blocks, &r, m->csv.line);
	else if (!ret)
		ret = rmm_free(m, &r);
	return ret == GP_REFUSED ? 0 : ret;
}

/* ---- the file ---- */

static int rmm_header(struct rmm *m)
{
	struct gp_csv_row row;
	const unsigned char *head;
	size_t n = gp_input_peek(m->csv.in, &head);
	unsigned first;

	if (!gp_csv_look(head, n, &row) || !rmm_has_no_header(&row))
		return gp_csv_header(&m->csv, rmm_names, RMM_N, RMM_THREAD, "", m->column);
	first = row.n - (RMM_N - 1);
	m->csv.n_columns = row.n;
	for (unsigned i = 0; i < RMM_THREAD; i++)
		m->column[i] = first + i;
	m->column[RMM_THREAD] = first ? 0 : GP_CSV_NONE;
	return gp_trace_builder_note(m->builder,
				     "the log has no header row (its beginning is missing?); the "
				     "columns were taken for %sTime,Action,Pointer,Size,Stream",
				     first ? "Thread," : "");
}

static int rmm_notes(struct rmm *m)
{
	int r = 0;

	if (m->n_back)
		r = gp_trace_builder_note(m->builder,
					  "%llu rows have an earlier time than the row before "
					  "(threads); they keep their place and take its time",
					  (unsigned long long)m->n_back);
	if (!r && m->n_set_back)
		r = gp_trace_builder_note(m->builder,
					  "the clock of the log was set back %llu times; time "
					  "goes on as if no time had passed then",
					  (unsigned long long)m->n_set_back);
	if (!r && m->n_other_stream)
		r = gp_trace_builder_note(m->builder,
					  "%llu frees name another stream than their allocation; "
					  "the trace keeps that of the allocation",
					  (unsigned long long)m->n_other_stream);
	return r;
}

static int rmm_rows(struct rmm *m)
{
	int r = rmm_header(m);

	while (!r) {
		r = gp_csv_next_row(&m->csv);
		if (r != GP_CSV_ROW)
			break;
		r = rmm_row(m);
	}
	if (!r)
		r = gp_csv_finish(&m->csv);
	return r ? r : rmm_notes(m);
}

static int rmm_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct rmm m = { .builder = b };
	const unsigned char *head;
	size_t n = gp_input_peek(in, &head);
	int r;

	if (rmm_is_debug_log(head, n))
		return gp_trace_builder_refuse(
			b, 1,
			"this is RMM's debug log, which does not hold every allocation; expected the "
			"CSV that logging_resource_adaptor writes (in Python: "
			"rmm.reinitialize(logging=True, log_file_name=...))");
	gp_csv_init(&m.csv, in, b);
	gp_by_address_init(&m.blocks, b, "");
	r = gp_trace_builder_header(b, NULL, "RMM logging_resource_adaptor", NULL, 0);
	if (!r)
		r = rmm_rows(&m);
	gp_by_address_fini(&m.blocks);
	return r;
}

const struct gp_format gp_rmm_csv_format = {
	.name = "rmm_csv",
	.summary = "RMM log of logging_resource_adaptor, CSV",
	.probe = rmm_probe,
	.read = rmm_read,
};
