/* SPDX-License-Identifier: Apache-2.0
 *
 * nsight_csv: the memory events of an Nsight Systems export, written out as CSV:
 *
 *   sqlite3 -csv -header report.sqlite "select * from CUDA_GPU_MEMORY_USAGE_EVENTS"
 *
 *   start,globalPid,deviceId,address,bytes,memKind,memoryOperationType,streamId
 *   104020331,281479271743488,0,140204000000000,2097152,2,0,7
 *
 * Columns     by name, in any order; the rest of the table's are passed over. No device, process or
 *             stream: 0, and so is an empty field of these (calls that have no stream).
 * Numbers     of a kind or an operation mean what Nsight's tables say today, which a CSV does not
 *             hold; a note says so. Their labels may stand in place of them.
 * Threads     caller serialises.
 */
#include "nsight_rows.h"

#include <string.h>

const struct gp_nsight_dialect gp_nsight_dialect = {
	.names = { "start", "address", "bytes", "memkind", "memoryoperationtype", "globalpid",
		   "deviceid", "streamid" },
	.unread = "contextid|pc|name|correlationid|localmemorypooladdress|"
		  "localmemorypoolreleasethreshold|localmemorypoolsize|"
		  "localmemorypoolutilizedsize|importedmemorypooladdress|"
		  "importedmemorypoolprocessid",
	.source = "Nsight Systems",
	.alloc = 0,
	.free = 1,
	.device = 2,
	.host = { 0, 1 },
};

enum gp_nsight_kind gp_nsight_kind_at(const struct gp_nsight_dialect *d, uint64_t number)
{
	if (number == d->device)
		return GP_NSIGHT_DEVICE;
	return number == d->host[0] || number == d->host[1] ? GP_NSIGHT_HOST : GP_NSIGHT_OTHER;
}

enum gp_nsight_op gp_nsight_op_at(const struct gp_nsight_dialect *d, uint64_t number)
{
	if (number == d->alloc)
		return GP_NSIGHT_ALLOC;
	return number == d->free ? GP_NSIGHT_FREE : GP_NSIGHT_NO_OP;
}

enum gp_format_match gp_nsight_probe_csv(const struct gp_nsight_dialect *d,
					 const unsigned char *head, size_t n)
{
	struct gp_csv_row row;

	if (!gp_csv_look(head, n, &row))
		return GP_FORMAT_NO;
	for (unsigned k = 0; k < GP_NSIGHT_COL_PROCESS; k++)
		if (k != GP_NSIGHT_COL_KIND && gp_csv_find(&row, d->names[k]) == GP_CSV_NONE)
			return GP_FORMAT_NO;
	return GP_FORMAT_YES;
}

/* ---- rows ---- */

struct nsight_csv {
	struct gp_csv csv;
	const struct gp_nsight_dialect *dialect;
	struct gp_nsight rows;
	unsigned column[GP_NSIGHT_COLS];
	bool by_number; /* a kind or an operation was a number */
};

/* The field, or NULL: no such column, or empty where it may be. */
static const struct gp_csv_field *nsight_field(const struct nsight_csv *c, enum gp_nsight_column k)
{
	const struct gp_csv_field *f;

	if (c->column[k] == GP_CSV_NONE)
		return NULL;
	f = &c->csv.row.fields[c->column[k]];
	return f->n || k < GP_NSIGHT_COL_PROCESS ? f : NULL;
}

static int nsight_number(struct nsight_csv *c, enum gp_nsight_column k, uint64_t *out)
{
	const struct gp_csv_field *f = nsight_field(c, k);

	*out = 0;
	return !f || gp_csv_u64(f, out) ? 0 : gp_csv_bad_number(&c->csv, c->dialect->names[k], f);
}

static int nsight_kind(struct nsight_csv *c, uint8_t *out)
{
	const struct gp_csv_field *f = nsight_field(c, GP_NSIGHT_COL_KIND);
	uint64_t number;

	if (gp_csv_u64(f, &number)) {
		c->by_number = true;
		*out = (uint8_t)gp_nsight_kind_at(c->dialect, number);
		return 0;
	}
	if (!f->n || (*f->text >= '0' && *f->text <= '9') || *f->text == '-')
		return gp_csv_bad_number(&c->csv, c->dialect->names[GP_NSIGHT_COL_KIND], f);
	*out = (uint8_t)gp_nsight_kind_of(f->text, f->n);
	return 0;
}

static int nsight_op(struct nsight_csv *c, uint8_t *out)
{
	const struct gp_csv_field *f = nsight_field(c, GP_NSIGHT_COL_OP);
	uint64_t number;

	if (gp_csv_u64(f, &number)) {
		c->by_number = true;
		*out = (uint8_t)gp_nsight_op_at(c->dialect, number);
	} else {
		*out = (uint8_t)gp_nsight_op_of(f->text, f->n);
	}
	if (*out != GP_NSIGHT_NO_OP)
		return 0;
	return gp_trace_builder_problem(c->csv.builder, GP_SKIP_UNKNOWN_OP, c->csv.line,
					"unknown operation \"%s\", expected %llu (allocation) or "
					"%llu (deallocation)",
					gp_csv_quote(f).text, (unsigned long long)c->dialect->alloc,
					(unsigned long long)c->dialect->free);
}

static int nsight_row(struct nsight_csv *c)
{
	struct gp_nsight_row row = { .line = c->csv.line };
	int r = nsight_number(c, GP_NSIGHT_COL_START, &row.start_ns);

	if (!r)
		r = nsight_number(c, GP_NSIGHT_COL_ADDRESS, &row.address);
	if (!r)
		r = nsight_number(c, GP_NSIGHT_COL_BYTES, &row.bytes);
	if (!r)
		r = nsight_number(c, GP_NSIGHT_COL_PROCESS, &row.process);
	if (!r)
		r = nsight_number(c, GP_NSIGHT_COL_DEVICE, &row.device);
	if (!r)
		r = nsight_number(c, GP_NSIGHT_COL_STREAM, &row.stream);
	if (!r)
		r = nsight_kind(c, &row.kind);
	if (!r)
		r = nsight_op(c, &row.op);
	return r ? r : gp_nsight_add(&c->rows, &row);
}

static int nsight_rows(struct nsight_csv *c)
{
	const struct gp_nsight_dialect *d = c->dialect;
	int r = gp_csv_header(&c->csv, d->names, GP_NSIGHT_COLS, GP_NSIGHT_COL_PROCESS, d->unread,
			      c->column);

	while (!r) {
		r = gp_csv_next_row(&c->csv);
		if (r != GP_CSV_ROW)
			break;
		r = nsight_row(c);
		if (r == GP_REFUSED)
			r = 0;
	}
	if (!r)
		r = gp_csv_finish(&c->csv);
	if (!r && c->by_number)
		r = gp_trace_builder_note(c->csv.builder,
					  "the numbers of kinds and operations were taken as %s "
					  "writes them today",
					  d->source);
	return r ? r : gp_nsight_finish(&c->rows);
}

int gp_nsight_read_csv(const struct gp_nsight_dialect *d, struct gp_input *in,
		       struct gp_trace_builder *b)
{
	struct nsight_csv c = { .dialect = d };
	int r;

	gp_csv_init(&c.csv, in, b);
	gp_nsight_init(&c.rows, b);
	r = gp_trace_builder_header(b, NULL, d->source, NULL, 0);
	if (!r)
		r = nsight_rows(&c);
	gp_nsight_fini(&c.rows);
	return r;
}

static enum gp_format_match nsight_probe(const unsigned char *head, size_t n)
{
	return gp_nsight_probe_csv(&gp_nsight_dialect, head, n);
}

static int nsight_read(struct gp_input *in, struct gp_trace_builder *b)
{
	return gp_nsight_read_csv(&gp_nsight_dialect, in, b);
}

const struct gp_format gp_nsight_csv_format = {
	.name = "nsight_csv",
	.summary = "Nsight Systems memory events, CSV",
	.probe = nsight_probe,
	.read = nsight_read,
};
