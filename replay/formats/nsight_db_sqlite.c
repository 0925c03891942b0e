/* SPDX-License-Identifier: Apache-2.0
 *
 * nsight_db_sqlite: the table CUDA_GPU_MEMORY_USAGE_EVENTS of an Nsight Systems export.
 *
 *   ENUM_CUDA_MEM_KIND            id, name, label --> kind of memory by number
 *   ENUM_CUDA_DEV_MEM_EVENT_OPER  id, name, label --> operation by number
 *   CUDA_GPU_MEMORY_USAGE_EVENTS  start, address, bytes, memKind, memoryOperationType, ...
 *
 * Columns     by name: exports differ in which they have. Without the two tables of names (they are
 *             there since there is the third) the numbers mean what they do in today's.
 * Hostile     the database is opened read-only where it lies in memory; views and what a schema
 *             could call are not touched; a damaged tree that shows more rows than its file can
 *             hold is refused, not walked to its end.
 * Lines       in messages: the row, in the order of the table.
 * Threads     caller serialises.
 */
#include "nsight_db.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define DB_TABLE "CUDA_GPU_MEMORY_USAGE_EVENTS"
#define DB_NAMES 32u     /* numbers that a table of names may use; today's go to 7 */
#define DB_ROW   4u      /* bytes of the file that the smallest row takes */
#define DB_TEXT  1000000 /* bytes of a row or a text; longer ones are damage */
#define DB_WAL   2       /* format number in the header: changes may lie in another file */

static const char *const db_columns[GP_NSIGHT_COLS] = {
	"start",     "address",  "bytes",    "memKind", "memoryOperationType",
	"globalPid", "deviceId", "streamId",
};

struct db {
	sqlite3 *handle;
	struct gp_nsight *rows;
	struct gp_trace_builder *builder;
	uint64_t n_max; /* rows that the file can hold */
	bool has_kinds, has_ops;
	uint8_t kinds[DB_NAMES]; /* enum gp_nsight_kind */
	uint8_t ops[DB_NAMES];   /* enum gp_nsight_op */
};

/* What the library said, as a refusal. It may quote the file: only printable ASCII is passed on.
 * (That it is out of memory, it says of some damaged files too.) */
static int db_fault(struct db *db, uint64_t line)
{
	char text[100];

	snprintf(text, sizeof(text), "%s", sqlite3_errmsg(db->handle));
	for (char *p = text; *p; p++)
		*p = *p >= ' ' && *p <= '~' ? *p : '?';
	return gp_trace_builder_refuse(db->builder, line,
				       "SQLite says \"%s\", expected a whole database", text);
}

static int db_open(struct db *db, const void *data, size_t size)
{
	const unsigned char *header = data;
	unsigned char *bytes = (unsigned char *)(uintptr_t)data; /* read only, as the flag says */

	if (size > 19 && (header[18] == DB_WAL || header[19] == DB_WAL))
		return gp_trace_builder_refuse(db->builder, 1,
					       "a database in WAL mode, of which a part may be in "
					       "another file; expected it in one: sqlite3 FILE "
					       "'pragma journal_mode=delete'");
	if (sqlite3_open_v2(":memory:", &db->handle, SQLITE_OPEN_READWRITE, NULL) ||
	    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) ||
	    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) ||
	    sqlite3_deserialize(db->handle, "main", bytes, (sqlite3_int64)size, (sqlite3_int64)size,
				SQLITE_DESERIALIZE_READONLY))
		return db_fault(db, 1);
	sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, DB_TEXT);
	return 0;
}

/* ---- what is there ---- */

/* False for a view. */
static bool db_has(struct db *db, const char *table, const char *column)
{
	return !sqlite3_table_column_metadata(db->handle, "main", table, column, NULL, NULL, NULL,
					      NULL, NULL);
}

/* The table is missing. Nsight writes it when there was something to write. */
static int db_no_table(struct db *db)
{
	if (db_has(db, "CUPTI_ACTIVITY_KIND_RUNTIME", NULL))
		return gp_trace_builder_refuse(db->builder, 1,
					       "no memory events in this recording, expected them: "
					       "record with nsys profile --cuda-memory-usage=true");
	return gp_trace_builder_refuse(db->builder, 1,
				       "no table " DB_TABLE
				       ", expected an export of Nsight Systems "
				       "(nsys profile --cuda-memory-usage=true; nsys export --type "
				       "sqlite)");
}

static int db_check_columns(struct db *db)
{
	if (!db_has(db, DB_TABLE, NULL)) {
		/* A database whose schema cannot be read has no table either. */
		int r = sqlite3_exec(db->handle, "select 1 from sqlite_schema", NULL, NULL, NULL);

		return r ? db_fault(db, 1) : db_no_table(db);
	}
	for (unsigned k = 0; k < GP_NSIGHT_COL_PROCESS; k++)
		if (!db_has(db, DB_TABLE, db_columns[k]))
			return gp_trace_builder_refuse(db->builder, 1,
						       "table " DB_TABLE " has no column \"%s\", "
						       "expected one",
						       db_columns[k]);
	return 0;
}

/* ---- tables of names ---- */

static enum gp_nsight_op db_op_of(const unsigned char *name)
{
	return name ? gp_nsight_op_of((const char *)name, strlen((const char *)name))
		    : GP_NSIGHT_NO_OP;
}

static enum gp_nsight_kind db_kind_of(const unsigned char *name)
{
	return name ? gp_nsight_kind_of((const char *)name, strlen((const char *)name))
		    : GP_NSIGHT_OTHER;
}

/* Takes what number `id` is called; by its name where there is one, else its label. */
static void db_take_name(struct db *db, bool is_op, sqlite3_stmt *row)
{
	sqlite3_int64 id = sqlite3_column_int64(row, 0);
	const unsigned char *name = sqlite3_column_text(row, 1);

	if (id < 0 || id >= (sqlite3_int64)DB_NAMES)
		return;
	if (is_op)
		db->ops[id] = (uint8_t)db_op_of(name);
	else
		db->kinds[id] = (uint8_t)db_kind_of(name);
}

static int db_read_names(struct db *db, const char *table, bool is_op, bool *has)
{
	const char *column = db_has(db, table, "name") ? "name" : "label";
	sqlite3_stmt *row = NULL;
	char sql[120];
	int r;

	*has = db_has(db, table, "id") && db_has(db, table, column);
	if (!*has)
		return 0;
	snprintf(sql, sizeof(sql), "select id, %s from main.%s limit 1000", column, table);
	r = sqlite3_prepare_v2(db->handle, sql, -1, &row, NULL);
	while (!r) {
		r = sqlite3_step(row);
		if (r != SQLITE_ROW)
			break;
		db_take_name(db, is_op, row);
		r = 0;
	}
	sqlite3_finalize(row);
	return r == SQLITE_DONE ? 0 : db_fault(db, 1);
}

static int db_read_enums(struct db *db)
{
	int r;

	memset(db->ops, GP_NSIGHT_NO_OP, sizeof(db->ops));
	memset(db->kinds, GP_NSIGHT_OTHER, sizeof(db->kinds));
	r = db_read_names(db, "ENUM_CUDA_MEM_KIND", false, &db->has_kinds);
	if (!r)
		r = db_read_names(db, "ENUM_CUDA_DEV_MEM_EVENT_OPER", true, &db->has_ops);
	if (!r && !(db->has_kinds && db->has_ops))
		r = gp_trace_builder_note(db->builder,
					  "the numbers of kinds and operations were taken as %s "
					  "writes them today",
					  gp_nsight_dialect.source);
	return r;
}

/* ---- rows ---- */

/* NULL is no number, but where a number may be missing it is 0. */
static int db_number(struct db *db, sqlite3_stmt *row, enum gp_nsight_column k, uint64_t line,
		     uint64_t *out)
{
	int type = sqlite3_column_type(row, (int)k);
	sqlite3_int64 n = sqlite3_column_int64(row, (int)k);
	struct gp_csv_field text;

	*out = (uint64_t)n;
	if ((type == SQLITE_INTEGER && n >= 0) ||
	    (type == SQLITE_NULL && k >= GP_NSIGHT_COL_PROCESS))
		return 0;
	text.text = (const char *)sqlite3_column_text(row, (int)k);
	text.n = text.text ? strlen(text.text) : 0;
	return gp_trace_builder_problem(
		db->builder, GP_SKIP_BAD_EVENT, line, "%s is %s%s%s in " DB_TABLE ", expected %s",
		db_columns[k], text.text ? "\"" : "", text.text ? gp_csv_quote(&text).text : "null",
		text.text ? "\"" : "", type == SQLITE_INTEGER ? "0 or more" : "a whole number");
}

static int db_row(struct db *db, sqlite3_stmt *stmt, uint64_t line)
{
	struct gp_nsight_row row = { .line = line };
	uint64_t kind = 0, op = 0;
	uint64_t *const to[GP_NSIGHT_COLS] = {
		&row.start_ns, &row.address, &row.bytes,  &kind,
		&op,           &row.process, &row.device, &row.stream
	};
	int r = 0;

	for (enum gp_nsight_column k = 0; !r && k < GP_NSIGHT_COLS; k++)
		r = db_number(db, stmt, k, line, to[k]);
	if (r)
		return r;
	if (!db->has_kinds)
		row.kind = (uint8_t)gp_nsight_kind_at(&gp_nsight_dialect, kind);
	else
		row.kind = kind < DB_NAMES ? db->kinds[kind] : GP_NSIGHT_OTHER;
	if (!db->has_ops)
		row.op = (uint8_t)gp_nsight_op_at(&gp_nsight_dialect, op);
	else
		row.op = op < DB_NAMES ? db->ops[op] : GP_NSIGHT_NO_OP;
	if (row.op == GP_NSIGHT_NO_OP)
		return gp_trace_builder_problem(db->builder, GP_SKIP_UNKNOWN_OP, line,
						"unknown operation %llu in " DB_TABLE ", expected "
						"that of an allocation or a deallocation",
						(unsigned long long)op);
	return gp_nsight_add(db->rows, &row);
}

/* "select start, ..., null from ...": a column that is not there reads as null. */
static int db_prepare(struct db *db, sqlite3_stmt **out)
{
	char sql[300] = "select";
	size_t n = strlen(sql);

	for (unsigned k = 0; k < GP_NSIGHT_COLS; k++)
		n += (size_t)snprintf(sql + n, sizeof(sql) - n, "%s %s", k ? "," : "",
				      db_has(db, DB_TABLE, db_columns[k]) ? db_columns[k] : "null");
	snprintf(sql + n, sizeof(sql) - n, " from main." DB_TABLE);
	return sqlite3_prepare_v2(db->handle, sql, -1, out, NULL) ? db_fault(db, 1) : 0;
}

static int db_read_rows(struct db *db)
{
	sqlite3_stmt *stmt = NULL;
	uint64_t line = 0;
	int r = db_prepare(db, &stmt);

	while (!r) {
		int got = sqlite3_step(stmt);

		if (got == SQLITE_DONE)
			break;
		line++;
		if (got != SQLITE_ROW)
			r = db_fault(db, line);
		else if (line > db->n_max)
			r = gp_trace_builder_refuse(
				db->builder, line,
				"more rows than the file has room for (damaged), "
				"expected a whole database");
		else
			r = db_row(db, stmt, line);
		if (r == GP_REFUSED)
			r = 0;
	}
	sqlite3_finalize(stmt);
	if (!r && !line)
		r = gp_trace_builder_refuse(db->builder, 1,
					    "table " DB_TABLE " is empty, expected "
					    "events");
	return r;
}

int gp_nsight_read_db(const void *data, size_t size, struct gp_nsight *rows)
{
	struct db db = { .rows = rows, .builder = rows->builder, .n_max = size / DB_ROW };
	int r = db_open(&db, data, size);

	if (!r)
		r = db_check_columns(&db);
	if (!r)
		r = db_read_enums(&db);
	if (!r)
		r = db_read_rows(&db);
	sqlite3_close(db.handle);
	return r;
}
