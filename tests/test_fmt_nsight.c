/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory events of NVIDIA's profilers: Nsight's table as SQLite and as CSV, CUPTI records as CSV.
 * The databases are made here, in memory; GP_TEST_SQLITE: this build can read them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#ifdef GP_TEST_SQLITE
#include <sqlite3.h>
#endif

#include "format_case.h"

/* ---- CSV ---- */

#define CSV    "start,globalPid,deviceId,address,bytes,memKind,memoryOperationType,streamId\n"
#define ALLOC1 "100,281479271743488,0,4096,512,2,0,7\n"
#define FREE1  "150,281479271743488,0,4096,512,2,1,7\n"
#define EVENT1 "a0 512 s0 h0 +0; f0 h0 +50;"
#define TODAY  "as Nsight Systems writes them today"

static const struct good_case csv_good[] = {
	{ CSV ALLOC1 FREE1, EVENT1, TODAY },
	/* in no order, by labels, with less and with more columns */
	{ CSV FREE1 ALLOC1, EVENT1, TODAY },
	{ "START,Address,bytes,memKind,memoryOperationType\n100,0x1000,512,Device,Allocation\n"
	  "150,0x1000,512,Device,Deallocation\n",
	  EVENT1, NULL },
	{ "pc,name,start,address,bytes,memKind,memoryOperationType,streamId,correlationId\n"
	  "1,\"a, b\",100,4096,512,CUDA_MEMOPR_MEMORY_KIND_DEVICE,"
	  "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION,,3\r\n",
	  "a0 512 s0 h0 +0;", NULL },
	/* what is not device memory */
	{ CSV ALLOC1
	  "110,281479271743488,0,8192,99,1,0,\n120,281479271743488,0,9000,99,4,0,\n" FREE1,
	  EVENT1, "2 of 4 events are of another kind of memory" },
	{ CSV "90,281479271743488,0,0,0,2,0,\n" ALLOC1 FREE1, EVENT1,
	  "1 of 3 events are at address 0" },
	/* GPUs and processes */
	{ CSV "10,5,1,4096,8,2,0,1\n" ALLOC1 FREE1, EVENT1, "this is GPU 0" },
	{ CSV ALLOC1 "110,7,0,4096,64,2,0,7\n120,7,0,4096,64,2,1,7\n" FREE1,
	  "a0 512 s0 h0 +0; a1 64 s0 h1 +10; f1 h1 +20; f0 h0 +50;", "2 processes were recorded" },
	/* allocated before the recording */
	{ CSV "90,281479271743488,0,8192,32,2,1,7\n" ALLOC1 FREE1,
	  "a!0 32 s0 h0 +0; f0 h0 +0; a1 512 s0 h0 +10; f1 h0 +60;", TODAY },
	/* CUPTI */
	{ "timestamp_ns,op,kind,address,bytes,pid,device,context,stream,async,correlation,"
	  "pool_type,pool_address,pool_threshold,pool_size,pool_used,name\n"
	  "90001200,1,3,0x7f1200000000,4096,812,0,1,13,1,55,1,0x7f1200000000,0,33554432,4096,\n"
	  "90001300,1,2,0x7f1300000000,4096,812,0,1,13,1,55,,,,,,\n"
	  "90020050,2,3,0x7f1200000000,4096,812,0,1,13,1,61,1,0x7f1200000000,0,33554432,0,\n",
	  "a0 4096 s0 h0 +0; f0 h0 +18850;", "as CUPTI writes them today" },
};

static void tables_as_csv_are_read(void **state)
{
	(void)state;
	format_good_cases(csv_good, GP_ARRAY_LEN(csv_good), NULL);
}

#define TWO_GPUS                                                                                   \
	CSV "10,5,1,4096,8,2,0,1\n" ALLOC1 FREE1 "20,5,1,4096,8,2,1,1\n"                           \
	    "130,281479271743488,0,8192,64,1,0,\n"

static void gpu_and_memory_can_be_chosen(void **state)
{
	static const char text[] = TWO_GPUS;
	struct gp_trace_options gpu = { .has_gpu = true, .gpu = 1 };
	struct gp_trace_options none = { .has_gpu = true, .gpu = 2 };
	struct gp_trace_options host = { .memory = GP_MEMORY_HOST };
	struct gp_trace_options any = { .memory = GP_MEMORY_ANY };

	(void)state;
	format_reads(text, strlen(text), &gpu, "a0 8 s0 h0 +0; f0 h0 +10;", "another kind", text);
	format_reads(text, strlen(text), &host, "a0 64 s0 h0 +0;", "another kind", text);
	format_reads(text, strlen(text), &any, "a0 512 s0 h0 +0; a1 64 s1 h0 +30; f0 h0 +50;",
		     "this is GPU 0, which has the most events (3 of 5)", text);
	format_refuses(text, strlen(text), &none, 1, "no event is of GPU 2", text);
}

static const struct bad_case csv_bad[] = {
	{ CSV, 1, "no rows after the header", GP_SKIP_N, "" },
	{ "start,address,bytes,memoryOperationType\n1,2,3,0\n", 1, "no column \"memkind\"",
	  GP_SKIP_N, "" },
	{ CSV "1,1,0,4096,8,1,0,\n", 1, "none of 1 memory events is of device memory", GP_SKIP_N,
	  "" },
	{ CSV ALLOC1 "110,1,0,4096,8,2,7,7\n" FREE1, 3, "unknown operation \"7\"",
	  GP_SKIP_UNKNOWN_OP, EVENT1 },
	{ CSV ALLOC1 "110,1,0,4096,8,2,Copy,7\n" FREE1, 3, "unknown operation \"Copy\"",
	  GP_SKIP_UNKNOWN_OP, EVENT1 },
	{ CSV ALLOC1 "110,1,0,4096,-8,2,0,7\n" FREE1, 3, "bytes is \"-8\", expected 0 or more",
	  GP_SKIP_BAD_EVENT, EVENT1 },
	{ CSV ALLOC1 "110,1,0,4096,8,2.0,0,7\n" FREE1, 3, "memkind is \"2.0\"", GP_SKIP_BAD_EVENT,
	  EVENT1 },
	{ CSV ALLOC1 "110,1,zero,4096,8,2,0,7\n" FREE1, 3, "deviceid is \"zero\"",
	  GP_SKIP_BAD_EVENT, EVENT1 },
	{ CSV ALLOC1 "110,1,0,,8,2,0,7\n" FREE1, 3, "address is empty", GP_SKIP_BAD_EVENT, EVENT1 },
	{ CSV ALLOC1 "110,1,0,8192,8,2,0\n" FREE1, 3, "7 fields in a row", GP_SKIP_BAD_EVENT,
	  EVENT1 },
	{ CSV ALLOC1 FREE1 "160,1,0,81", 4, "(truncated)", GP_SKIP_TAIL, EVENT1 },
	{ CSV ALLOC1 "120,281479271743488,0,4096,8,2,0,7\n", 3,
	  "an allocation at 0x1000, where a block of 512 bytes is live", GP_SKIP_DUPLICATE_ID,
	  "a0 512 s0 h0 +0; f0 h0 +20; a1 8 s0 h0 +20;" },
	{ CSV ALLOC1 FREE1 "160,281479271743488,0,4096,512,2,1,7\n", 4, "(double free)",
	  GP_SKIP_UNKNOWN_ID, EVENT1 },
};

static void bad_tables_are_refused_or_counted(void **state)
{
	(void)state;
	format_bad_cases(csv_bad, GP_ARRAY_LEN(csv_bad));
}

/* ---- SQLite ---- */

#ifdef GP_TEST_SQLITE

/* Names and numbers are others than today's on purpose: the tables say what they mean. */
#define ENUMS                                                                                       \
	"create table ENUM_CUDA_MEM_KIND(id integer primary key, name text, label text);"           \
	"insert into ENUM_CUDA_MEM_KIND values(0, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'),"     \
	"(1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'),"                                          \
	"(2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC', 'Device Static');"                            \
	"create table ENUM_CUDA_DEV_MEM_EVENT_OPER(id integer primary key, name text, label text);" \
	"insert into ENUM_CUDA_DEV_MEM_EVENT_OPER values"                                           \
	"(5, 'CUDA_DEV_MEM_EVENT_OPR_ALLOCATION', 'Allocation'),"                                   \
	"(6, 'CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION', 'Deallocation');"
#define TABLE                                                                                      \
	"create table CUDA_GPU_MEMORY_USAGE_EVENTS(start integer not null, globalPid integer,"     \
	"deviceId integer, contextId integer, address integer, pc integer, bytes integer,"         \
	"memKind integer, memoryOperationType integer, name text, streamId integer);"
#define ROW(start, address, bytes, kind, op, stream)                                               \
	"insert into CUDA_GPU_MEMORY_USAGE_EVENTS values(" start ",7,0,1," address ",0," bytes     \
	"," kind "," op ",null," stream ");"
#define ALLOC_ROW ROW("100", "4096", "512", "0", "5", "null")
#define FREE_ROW  ROW("150", "4096", "512", "0", "6", "null")

/* The bytes of a database file; for sqlite3_free(). */
static unsigned char *database(const char *sql, size_t *n)
{
	unsigned char *bytes;
	sqlite3_int64 size;
	sqlite3 *db;

	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL))
		fail_msg("%s in:\n%s", sqlite3_errmsg(db), sql);
	bytes = sqlite3_serialize(db, "main", &size, 0);
	assert_non_null(bytes);
	sqlite3_close(db);
	*n = (size_t)size;
	return bytes;
}

static const struct good_case db_good[] = {
	{ ENUMS TABLE ALLOC_ROW FREE_ROW, EVENT1, NULL },
	{ ENUMS TABLE FREE_ROW ALLOC_ROW, EVENT1, NULL },
	{ ENUMS TABLE ALLOC_ROW ROW("110", "8192", "9", "1", "5", "3")
		  ROW("120", "9000", "9", "2", "5", "3") FREE_ROW,
	  EVENT1, "2 of 4 events are of another kind" },
	/* without the tables of names, numbers mean what they do today */
	{ TABLE ROW("100", "4096", "512", "2", "0", "7") ROW("150", "4096", "512", "2", "1", "7"),
	  EVENT1, TODAY },
	/* a schema with fewer columns, in another case and order */
	{ ENUMS "create table CUDA_GPU_MEMORY_USAGE_EVENTS(bytes, memkind, memoryOperationType,"
		"address, START); insert into CUDA_GPU_MEMORY_USAGE_EVENTS values"
		"(512,0,5,4096,100),(512,0,6,4096,150);",
	  EVENT1, NULL },
	{ ENUMS "create table CUDA_GPU_MEMORY_USAGE_EVENTS(bytes, memkind, memoryOperationType,"
		"address, start primary key) without rowid;"
		"insert into CUDA_GPU_MEMORY_USAGE_EVENTS values"
		"(512,0,5,4096,100),(512,0,6,4096,150);",
	  EVENT1, NULL },
};

static void exports_are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(db_good); i++) {
		size_t n;
		unsigned char *bytes = database(db_good[i].text, &n);

		format_reads(bytes, n, NULL, db_good[i].events, db_good[i].note, db_good[i].text);
		sqlite3_free(bytes);
	}
}

static const struct bad_case db_bad[] = {
	{ "create table CUPTI_ACTIVITY_KIND_RUNTIME(start integer);", 1,
	  "record with nsys profile --cuda-memory-usage=true", GP_SKIP_N, "" },
	{ "create table notes(text);", 1, "no table CUDA_GPU_MEMORY_USAGE_EVENTS", GP_SKIP_N, "" },
	{ "create view CUDA_GPU_MEMORY_USAGE_EVENTS as with recursive n(x) as (select 1 union all "
	  "select x + 1 from n) select x start, x address, x bytes, 2 memKind, 0 "
	  "memoryOperationType from n;",
	  1, "no table CUDA_GPU_MEMORY_USAGE_EVENTS", GP_SKIP_N, "" },
	{ ENUMS TABLE, 1, "is empty", GP_SKIP_N, "" },
	{ ENUMS "create table CUDA_GPU_MEMORY_USAGE_EVENTS(start, address, bytes, memKind);", 1,
	  "has no column \"memoryOperationType\"", GP_SKIP_N, "" },
	{ ENUMS TABLE ALLOC_ROW ROW("'soon'", "8", "9", "0", "5", "7") FREE_ROW, 2,
	  "start is \"soon\" in CUDA_GPU_MEMORY_USAGE_EVENTS, expected a whole number",
	  GP_SKIP_BAD_EVENT, EVENT1 },
	{ ENUMS TABLE ALLOC_ROW ROW("110", "8", "9.5", "0", "5", "7") FREE_ROW, 2,
	  "bytes is \"9.5\"", GP_SKIP_BAD_EVENT, EVENT1 },
	{ ENUMS TABLE ALLOC_ROW ROW("110", "8", "-9", "0", "5", "7") FREE_ROW, 2,
	  "bytes is \"-9\" in CUDA_GPU_MEMORY_USAGE_EVENTS, expected 0 or more", GP_SKIP_BAD_EVENT,
	  EVENT1 },
	{ ENUMS TABLE ALLOC_ROW ROW("110", "null", "9", "0", "5", "7") FREE_ROW, 2,
	  "address is null", GP_SKIP_BAD_EVENT, EVENT1 },
	{ ENUMS TABLE ALLOC_ROW ROW("110", "x'00ff'", "9", "0", "5", "7") FREE_ROW, 2, "address is",
	  GP_SKIP_BAD_EVENT, EVENT1 },
	{ ENUMS TABLE ALLOC_ROW ROW("110", "8", "9", "0", "0", "7") FREE_ROW, 2,
	  "unknown operation 0", GP_SKIP_UNKNOWN_OP, EVENT1 },
	{ ENUMS TABLE ROW("110", "8", "9", "1", "5", "7"), 1, "is of device memory", GP_SKIP_N,
	  "" },
};

static void bad_exports_are_refused_or_counted(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(db_bad); i++) {
		size_t n;
		unsigned char *bytes = database(db_bad[i].text, &n);

		format_refuses(bytes, n, NULL, db_bad[i].line, db_bad[i].what, db_bad[i].text);
		format_counts(bytes, n, db_bad[i].kind, db_bad[i].kept, db_bad[i].text);
		sqlite3_free(bytes);
	}
}

/* The size in the header is that of the whole file. */
static void cut_exports_are_refused(void **state)
{
	size_t n;
	unsigned char *bytes = database(ENUMS TABLE ALLOC_ROW FREE_ROW, &n);
	struct gp_trace *t;
	char why[512];

	(void)state;
	for (size_t i = 0; i < n; i += i < 200 ? 1 : 509)
		if (format_load(bytes, i, NULL, &t, why, sizeof(why)) != -EINVAL)
			fail_msg("%zu of %zu bytes were taken", i, n);
	sqlite3_free(bytes);
}

static void wal_is_refused(void **state)
{
	size_t n;
	unsigned char *bytes = database(ENUMS TABLE ALLOC_ROW, &n);

	(void)state;
	bytes[18] = bytes[19] = 2;
	format_refuses(bytes, n, NULL, 1, "WAL", "a database in WAL mode");
	sqlite3_free(bytes);
}

/* From a file, mapped; and it is left as it was. */
static void a_file_is_read_where_it_is(void **state)
{
	char path[] = "/tmp/gpupool-test-nsight-XXXXXX", why[512] = "";
	size_t n;
	unsigned char *bytes = database(ENUMS TABLE ALLOC_ROW FREE_ROW, &n), *after = malloc(n + 1);
	FILE *f = fdopen(mkstemp(path), "w+b");
	struct gp_trace *t;

	(void)state;
	assert_non_null(f);
	assert_non_null(after);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fflush(f), 0);
	if (gp_trace_load(path, NULL, &t, why, sizeof(why)))
		fail_msg("%s", why);
	format_expect_events(t, EVENT1, "a file");
	assert_string_equal(t->format, "nsight_sqlite");
	gp_trace_destroy(t);
	rewind(f);
	assert_int_equal(fread(after, 1, n + 1, f), n);
	assert_memory_equal(bytes, after, n);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(remove(path), 0);
	sqlite3_free(bytes);
	free(after);
}

#else

static void a_build_without_sqlite_says_so(void **state)
{
	static const char text[100] = "SQLite format 3";

	(void)state;
	format_refuses(text, sizeof(text), NULL, 1, "this build has no sqlite3", text);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_as_csv_are_read),
		cmocka_unit_test(gpu_and_memory_can_be_chosen),
		cmocka_unit_test(bad_tables_are_refused_or_counted),
#ifdef GP_TEST_SQLITE
		cmocka_unit_test(exports_are_read),
		cmocka_unit_test(bad_exports_are_refused_or_counted),
		cmocka_unit_test(cut_exports_are_refused),
		cmocka_unit_test(wal_is_refused),
		cmocka_unit_test(a_file_is_read_where_it_is),
#else
		cmocka_unit_test(a_build_without_sqlite_says_so),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
