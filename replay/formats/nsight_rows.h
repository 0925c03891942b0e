/* SPDX-License-Identifier: Apache-2.0
 *
 * nsight_rows: memory events as NVIDIA's profilers record them, one row an event, whatever file the
 * rows come from (an SQLite export, a CSV of it, a CUPTI dump).
 *
 *   rows of the file --gp_nsight_add--> array --gp_nsight_finish--> the asked-for device and kind
 *   of memory, in order of time, paired by address --> builder
 *
 * Shape       rows are kept until the file is read, because they come in no order of time and only
 *             the end tells which device is the busiest.
 * Blocks      addresses are those of one process: those of several are kept apart, and the trace's
 *             thread is the process.
 * Memory      64 bytes a row, and what by_address.h takes.
 * Threads     caller serialises.
 */
#ifndef GP_NSIGHT_ROWS_H
#define GP_NSIGHT_ROWS_H

#include "csv_pull.h"

/* What the profilers' numbers mean is said by tables of their names; these are the classes. */
enum gp_nsight_kind {
	GP_NSIGHT_DEVICE,
	GP_NSIGHT_HOST,  /* pinned, pageable */
	GP_NSIGHT_OTHER, /* managed, arrays, static: not what an allocator serves */
};

enum gp_nsight_op {
	GP_NSIGHT_ALLOC,
	GP_NSIGHT_FREE,
	GP_NSIGHT_NO_OP, /* no such name */
};

struct gp_nsight_row {
	uint64_t start_ns, process, device, address, bytes, stream, line;
	uint8_t kind, op;
};

struct gp_nsight {
	struct gp_trace_builder *builder;
	struct gp_nsight_row *rows;
	uint32_t n, capacity;
};

void gp_nsight_init(struct gp_nsight *n, struct gp_trace_builder *b);
void gp_nsight_fini(struct gp_nsight *n);
/* 0 or a negative number that ends the reading. */
int gp_nsight_add(struct gp_nsight *n, const struct gp_nsight_row *row);
/* Hands the rows to the builder. */
int gp_nsight_finish(struct gp_nsight *n);

/* By label or name: "Device", "CUDA_MEMOPR_MEMORY_KIND_DEVICE"; "Allocation", ... */
enum gp_nsight_kind gp_nsight_kind_of(const char *name, size_t n);
enum gp_nsight_op gp_nsight_op_of(const char *name, size_t n);

/* ---- as CSV ---- */

enum gp_nsight_column {
	GP_NSIGHT_COL_START,
	GP_NSIGHT_COL_ADDRESS,
	GP_NSIGHT_COL_BYTES,
	GP_NSIGHT_COL_KIND,
	GP_NSIGHT_COL_OP, /* up to here they must be there */
	GP_NSIGHT_COL_PROCESS,
	GP_NSIGHT_COL_DEVICE,
	GP_NSIGHT_COL_STREAM,
	GP_NSIGHT_COLS,
};

/* What tells one table of these from another. */
struct gp_nsight_dialect {
	const char *names[GP_NSIGHT_COLS]; /* as gp_csv_header() takes them */
	const char *unread;                /* columns that are known and not wanted */
	const char *source;
	/* What the numbers mean, for a file without the tables that say it. */
	uint64_t alloc, free, device;
	uint64_t host[2];
};

enum gp_format_match gp_nsight_probe_csv(const struct gp_nsight_dialect *d,
					 const unsigned char *head, size_t n);
int gp_nsight_read_csv(const struct gp_nsight_dialect *d, struct gp_input *in,
		       struct gp_trace_builder *b);
enum gp_nsight_kind gp_nsight_kind_at(const struct gp_nsight_dialect *d, uint64_t number);
enum gp_nsight_op gp_nsight_op_at(const struct gp_nsight_dialect *d, uint64_t number);

extern const struct gp_nsight_dialect gp_nsight_dialect; /* of Nsight Systems */

#endif
