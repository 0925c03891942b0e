/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV: the rows themselves, RMM's log in each of its generations, and planners' lifetimes; what is
 * wrong with a bad one, and what --lenient makes of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "format_case.h"
#include "replay/formats/csv_pull.h"
#include "replay/formats/order.h"

/* ---- rows ---- */

/* Each row in brackets, fields apart by '/', faults as '!'. */
static void expect_rows(const char *text, size_t n, const char *want)
{
	struct gp_input *in = gp_input_open_memory("file", text, n);
	char got[512] = "";
	struct gp_csv c;
	enum gp_csv_result r;

	assert_non_null(in);
	gp_csv_init(&c, in, NULL);
	while ((r = gp_csv_next(&c)) != GP_CSV_END) {
		strcat(got, r == GP_CSV_BAD ? "!" : "[");
		for (unsigned i = 0; r == GP_CSV_ROW && i < c.row.n; i++) {
			strcat(got, i ? "/" : "");
			strncat(got, c.row.fields[i].text, c.row.fields[i].n);
		}
		strcat(got, r == GP_CSV_ROW ? "]" : "");
	}
	assert_string_equal(got, want);
	gp_input_close(in);
}

static void rows_are_split(void **state)
{
	static const char *const cases[][2] = {
		{ "", "" },
		{ "\n\r\n  \n", "" },
		{ "a", "[a]" },
		{ "a,b\nc,d\n", "[a/b][c/d]" },
		{ "\xef\xbb\xbf"
		  "a,b\r\n\r\nc,d",
		  "[a/b][c/d]" },
		{ ",\n", "[/]" },
		{ "a,,\n", "[a//]" },
		{ " a \t, b c ,\td\n", "[a/b c/d]" },
		{ "\"a\",\"b,c\" ,\"\"\n", "[a/b,c/]" },
		{ "\"say \"\"a\"\"\",2\n", "[say \"\"a\"\"/2]" },
		{ "a\"b,c\n", "[a\"b/c]" },
		{ "\"open,2\nc,d\n", "![c/d]" },
		{ "\"a\"b,2\nc,d\n", "![c/d]" },
		{ "\"\"\"\n1\n", "![1]" },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++)
		expect_rows(cases[i][0], strlen(cases[i][0]), cases[i][1]);
}

static void long_and_wide_rows_are_one_fault(void **state)
{
	size_t n = 3 * GP_INPUT_PEEK_MAX;
	char *text = malloc(n + 5);

	(void)state;
	assert_non_null(text);
	memset(text, 'x', n);
	memcpy(text + n, "\na,b", 5);
	expect_rows(text, n + 4, "![a/b]");
	memset(text, ',', GP_CSV_FIELDS);
	memcpy(text + GP_CSV_FIELDS, "\na,b", 5);
	expect_rows(text, GP_CSV_FIELDS + 4, "![a/b]");
	/* The longest row that there may be. */
	memset(text, ' ', GP_INPUT_PEEK_MAX - 1);
	text[0] = 'x';
	text[GP_INPUT_PEEK_MAX - 2] = ',';
	memcpy(text + GP_INPUT_PEEK_MAX - 1, "\na,b", 5);
	expect_rows(text, GP_INPUT_PEEK_MAX + 3, "[x/][a/b]");
	free(text);
}

/* Rows across the edges of the window of a file. */
static void rows_cross_the_window(void **state)
{
	enum { ROWS = 50000 };
	char path[] = "/tmp/gpupool-test-csv-XXXXXX", why[256];
	struct gp_input *in;
	struct gp_csv c;
	FILE *f = fdopen(mkstemp(path), "w");

	(void)state;
	assert_non_null(f);
	for (uint64_t i = 0; i < ROWS; i++)
		fprintf(f, "%llu,\"%*d\"%s\n", (unsigned long long)(i * i), (int)(i % 23) + 1, 7,
			i % 3 ? "" : "\r");
	assert_int_equal(fclose(f), 0);
	assert_int_equal(gp_input_open(path, &in, why, sizeof(why)), 0);
	gp_csv_init(&c, in, NULL);
	for (uint64_t i = 0; i < ROWS; i++) {
		uint64_t n;

		assert_int_equal(gp_csv_next(&c), GP_CSV_ROW);
		assert_int_equal(c.line, i + 1);
		assert_int_equal(c.row.n, 2);
		assert_true(gp_csv_u64(&c.row.fields[0], &n));
		assert_int_equal(n, i * i);
		assert_int_equal(c.row.fields[1].n, i % 23 + 1);
	}
	assert_int_equal(gp_csv_next(&c), GP_CSV_END);
	gp_input_close(in);
	assert_int_equal(remove(path), 0);
}

static void numbers_are_whole(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		uint64_t n;
	} cases[] = {
		{ "0", true, 0 },
		{ "0x0", true, 0 },
		{ "007", true, 7 },
		{ "18446744073709551615", true, UINT64_MAX },
		{ "18446744073709551616", false, 0 },
		{ "28446744073709551615", false, 0 },
		{ "000000000000000000001", false, 0 },
		{ "0xffffffffffffffff", true, UINT64_MAX },
		{ "0xFf", true, 255 },
		{ "0x1ffffffffffffffff", false, 0 },
		{ "0x", false, 0 },
		{ "0xg", false, 0 },
		{ "", false, 0 },
		{ "-1", false, 0 },
		{ "+1", false, 0 },
		{ "1.0", false, 0 },
		{ "1e3", false, 0 },
		{ "nan", false, 0 },
		{ "1 2", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		struct gp_csv_field f = { cases[i].text, strlen(cases[i].text) };
		uint64_t n = 0;

		if (gp_csv_u64(&f, &n) != cases[i].ok || n != cases[i].n)
			fail_msg("\"%s\" is %llu", cases[i].text, (unsigned long long)n);
	}
}

static void order_is_stable(void **state)
{
	enum { N = 5000 };
	static uint64_t keys[N];
	static uint32_t order[N];
	uint64_t seed = 1;

	(void)state;
	for (unsigned bits = 0; bits <= 64; bits += 8) {
		for (uint32_t i = 0; i < N; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
			keys[i] = bits ? seed >> (64 - bits) : 7;
		}
		assert_int_equal(gp_order_by(keys, N, order), 0);
		for (uint32_t i = 1; i < N; i++) {
			uint64_t a = keys[order[i - 1]], b = keys[order[i]];

			assert_true(a < b || (a == b && order[i - 1] < order[i]));
		}
	}
	assert_int_equal(gp_order_by(keys, 0, order), 0);
}

/* ---- RMM ---- */

#define RMM      "Thread,Time,Action,Pointer,Size,Stream\n"
#define A1       "11,09:00:00.000010,allocate,0x7f00,64,0x2\n"
#define F1       "11,09:00:00.000020,free,0x7f00,64,0x2\n"
#define A1_EVENT "a0 64 s0 h0 +0;"
#define F1_EVENT "f0 h0 +10000;"

static const struct good_case rmm_good[] = {
	/* the five generations */
	{ "Time,Action,Pointer,Size,Stream\n"
	  "09:00:00:000010,allocate,0x7f00,64,94000000000000\n"
	  "09:00:00:000020,free,0x7f00,0,94000000000000\n",
	  "a0 64 s0 h0 +0; f0 h0 +10000;", NULL },
	{ RMM "11,09:00:00:000010,allocate,0x7f00,64,0x0\n12,09:00:00:000020,free,0x7f00,64,0x0\n",
	  "a0 64 s0 h0 +0; f0 h1 +10000;", NULL },
	{ RMM "11,09:00:00.000010,allocate,0x7f00,64,0x1\n11,09:00:00.000020,free,0x7f00,64,0x1\n",
	  A1_EVENT " " F1_EVENT, NULL },
	{ RMM A1 "12,09:00:00.000015,allocate failure,0x0,34359738368,0x0\n" F1,
	  A1_EVENT " o 34359738368 s1 h1 +5000; " F1_EVENT, NULL },
	{ RMM A1 "11,09:00:00.000015,allocate failure,(nil),34359738368,0\n" F1,
	  A1_EVENT " o 34359738368 s1 h0 +5000; " F1_EVENT, NULL },
	/* other spellings of the same rows */
	{ "\xef\xbb\xbf" RMM "\r\n" A1 "\n" F1, A1_EVENT " " F1_EVENT, NULL },
	{ "Thread,Time,Action,Pointer,Size,Stream\r\n"
	  "11,09:00:00.000010,allocate,0x7f00,64,0x2\r\n",
	  A1_EVENT, NULL },
	{ "size,STREAM,\"Action\",Time,pointer,Thread\n\"64\",0x2,allocate,09:00:00,0x7f00,11\n",
	  A1_EVENT, NULL },
	{ RMM A1 "11,09:00:00.000020,free,0x7f00,64,0x2", A1_EVENT " " F1_EVENT,
	  "does not end in a newline" },
	{ "Thread,Time,Action,Pointer,Size,Stream,Tag\n11,09:00:00.1,allocate,0x7f00,64,0x2,x\n",
	  A1_EVENT, "column \"Tag\" is unknown" },
	{ A1 F1, A1_EVENT " " F1_EVENT, "no header row" },
	{ "09:00:00:000010,allocate,0x7f00,64,1\n", A1_EVENT, "no header row" },
	/* addresses come again; one log may have begun late */
	{ RMM A1 F1 "11,09:00:00.000030,allocate,0x7f00,128,0x2\n",
	  A1_EVENT " " F1_EVENT " a1 128 s0 h0 +20000;", NULL },
	{ RMM A1 "11,09:00:00.000015,free,0x8000,32,0x3\n" F1,
	  "a!0 32 s1 h0 +0; a1 64 s0 h0 +0; f0 h0 +5000; f1 h0 +10000;", NULL },
	/* nothing asked for, nothing to free */
	{ RMM A1 "11,09:00:00.000011,allocate,(nil),0,0\n11,09:00:00.000012,allocate,0x0,0,0\n"
		 "11,09:00:00.000013,free,(nil),0,0\n11,09:00:00.000014,free,0,0,0\n"
		 "11,09:00:00.000015,free,(nil),0,0\n" F1,
	  A1_EVENT " a1 0 s1 h0 +1000; a2 0 s1 h0 +2000; f2 h0 +3000; f1 h0 +4000; " F1_EVENT,
	  NULL },
	/* a free of another stream */
	{ RMM A1 "11,09:00:00.000020,free,0x7f00,64,0\n", A1_EVENT " " F1_EVENT,
	  "1 frees name another stream" },
	/* time */
	{ RMM "11,23:59:59.999999,allocate,0x7f00,64,0\n11,00:00:00.000001,free,0x7f00,64,0\n"
	      "11,12:00:00.000001,allocate,0x7f00,64,0\n11,00:00:00.000001,free,0x7f00,64,0\n",
	  "a0 64 s0 h0 +0; f0 h0 +2000; a1 64 s0 h0 +43200000002000; f1 h0 +86400000002000;",
	  NULL },
	{ RMM "11,09:00:00.000030,allocate,0x7f00,64,0\n12,09:00:00.000010,free,0x7f00,64,0\n"
	      "11,09:00:00.000031,allocate,0x7f00,64,0\n",
	  "a0 64 s0 h0 +0; f0 h1 +0; a1 64 s0 h0 +1000;", "1 rows have an earlier time" },
	{ RMM "11,00:00:00.000001,allocate,0x7f00,64,0\n12,23:59:59.999999,free,0x7f00,64,0\n",
	  "a0 64 s0 h0 +0; f0 h1 +0;", "1 rows have an earlier time" },
	{ RMM "11,03:00:00,allocate,0x7f00,64,0\n11,02:00:00,free,0x7f00,64,0\n"
	      "11,02:00:01,allocate,0x7f00,64,0\n",
	  "a0 64 s0 h0 +0; f0 h0 +0; a1 64 s0 h0 +1000000000;", "set back 1 times" },
};

static void rmm_logs_are_read(void **state)
{
	(void)state;
	format_good_cases(rmm_good, GP_ARRAY_LEN(rmm_good), NULL);
}

#define NEVER GP_SKIP_N

static const struct bad_case rmm_bad[] = {
	{ RMM, 1, "no rows after the header", NEVER, "" },
	{ "Thread,Time,Action,Pointer,Size\n", 1, "no column \"stream\"", NEVER, "" },
	{ "Thread,Time,Action,Pointer,Size,Stream,size\n" A1, 1, "column \"size\" twice", NEVER,
	  "" },
	{ RMM A1 RMM F1, 3, "a second header", GP_SKIP_BAD_EVENT, A1_EVENT " " F1_EVENT },
	{ RMM A1 "11,09:00:00.1,resize,0x7f00,64,0\n" F1, 3, "unknown action \"resize\"",
	  GP_SKIP_UNKNOWN_OP, A1_EVENT " " F1_EVENT },
	{ RMM A1 "11,09:00:00.1,Free,0x7f00,64,0\n" F1, 3, "unknown action \"Free\"",
	  GP_SKIP_UNKNOWN_OP, A1_EVENT " " F1_EVENT },
	/* numbers */
	{ RMM A1 "11,09:00:00.1,allocate,0x8000,-5,0\n", 3, "size is \"-5\", expected 0 or more",
	  GP_SKIP_BAD_EVENT, A1_EVENT },
	{ RMM A1 "11,09:00:00.1,allocate,0x8000,1.5,0\n", 3,
	  "size is \"1.5\", expected a whole number", GP_SKIP_BAD_EVENT, A1_EVENT },
	{ RMM A1 "11,09:00:00.1,allocate,0x8000,nan,0\n", 3, "size is \"nan\"", GP_SKIP_BAD_EVENT,
	  A1_EVENT },
	{ RMM A1 "11,09:00:00.1,allocate,0x8000,,0\n", 3, "size is empty", GP_SKIP_BAD_EVENT,
	  A1_EVENT },
	{ RMM A1 "11,09:00:00.1,allocate,0x8000,18446744073709551616,0\n", 3,
	  "expected less than 2^64", GP_SKIP_BAD_EVENT, A1_EVENT },
	{ RMM A1 "11,09:00:00.1,allocate,0x8000,9223372036854775809,0\n", 3,
	  "of 9223372036854775809 bytes", GP_SKIP_BAD_EVENT, A1_EVENT },
	{ RMM A1 "11,09:00:00.1,allocate,pointer,1,0\n", 3, "pointer is \"pointer\"",
	  GP_SKIP_BAD_EVENT, A1_EVENT },
	{ RMM A1 "11,09:00:00.1,allocate,0x8000,1,\x1b[2J\n", 3, "stream is \"?[2J\"",
	  GP_SKIP_BAD_EVENT, A1_EVENT },
	{ RMM A1 "main,09:00:00.1,allocate,0x8000,1,0\n", 3, "thread is \"main\"",
	  GP_SKIP_BAD_EVENT, A1_EVENT },
	{ RMM A1 "11,1634567890.123456,allocate,0x8000,1,0\n", 3, "expected HH:MM:SS",
	  GP_SKIP_BAD_EVENT, A1_EVENT },
	{ RMM A1 "11,24:00:00.1,allocate,0x8000,1,0\n", 3, "time is \"24:00:00.1\"",
	  GP_SKIP_BAD_EVENT, A1_EVENT },
	{ RMM A1 "11,09:00:00.,allocate,0x8000,1,0\n", 3, "time is", GP_SKIP_BAD_EVENT, A1_EVENT },
	{ RMM A1 "11,09:00:00.1234567890,allocate,0x8000,1,0\n", 3, "time is", GP_SKIP_BAD_EVENT,
	  A1_EVENT },
	/* rows */
	{ RMM A1 "11,09:00:00.1,free,0x7f00,64\n" F1, 3, "5 fields in a row, expected 6",
	  GP_SKIP_BAD_EVENT, A1_EVENT " " F1_EVENT },
	{ RMM A1 "11,\"09:00:00.1,free,0x7f00,64,0\n" F1, 3, "a quote that is never closed",
	  GP_SKIP_BAD_EVENT, A1_EVENT " " F1_EVENT },
	{ RMM A1 F1 "11,09:00:00.1,allo", 4, "(truncated)", GP_SKIP_TAIL, A1_EVENT " " F1_EVENT },
	/* blocks */
	{ RMM A1 "11,09:00:00.000015,allocate,0x7f00,8,0x2\n", 3,
	  "an allocation at 0x7f00, where a block of 64 bytes is live", GP_SKIP_DUPLICATE_ID,
	  A1_EVENT " f0 h0 +5000; a1 8 s0 h0 +5000;" },
	{ RMM A1 F1 F1, 4, "(double free)", GP_SKIP_UNKNOWN_ID, A1_EVENT " " F1_EVENT },
	{ RMM A1 "11,09:00:00.000015,free,0x8000,0,0x2\n" F1, 3, "a free at 0x8000",
	  GP_SKIP_UNKNOWN_ID, A1_EVENT " " F1_EVENT },
	{ RMM A1 "11,09:00:00.000020,free,0x7f00,65,0x2\n", 3,
	  "a free of 65 bytes at 0x7f00, expected the 64", GP_SKIP_BAD_EVENT,
	  A1_EVENT " " F1_EVENT },
	{ RMM A1 "11,09:00:00.000011,allocate,(nil),8,0\n" F1, 3, "8 bytes at a null pointer",
	  GP_SKIP_BAD_EVENT, A1_EVENT " " F1_EVENT },
	/* what a pool writes about itself */
	{ "[  4711][09:15:02:000120][info  ] ----- RMM LOG BEGIN [PTDS DISABLED] -----\n", 1,
	  "this is RMM's debug log", NEVER, "" },
	{ "\n[info][4711][09:15:02:000120] ----- RMM LOG BEGIN [PTDS ENABLED] -----\n", 1,
	  "logging_resource_adaptor", NEVER, "" },
	{ "[  4711][09:15:02.000120][debug ] [A][Stream 0x1][64B][0x7f00]\n", 1,
	  "this is RMM's debug log", NEVER, "" },
};

static void bad_rmm_logs_are_refused_or_counted(void **state)
{
	(void)state;
	format_bad_cases(rmm_bad, GP_ARRAY_LEN(rmm_bad));
}

static void rmm_keeps_what_it_was_told(void **state)
{
	static const char text[] =
		RMM "4711,09:00:00.000010,allocate,0x7f3a40000000,64,0x55d0c0ffee10\n";
	struct gp_trace *t;
	char why[512];

	(void)state;
	assert_int_equal(format_load(text, strlen(text), NULL, &t, why, sizeof(why)), 0);
	assert_int_equal(t->stream_handles[0], 0x55d0c0ffee10);
	assert_int_equal(t->thread_handles[0], 4711);
	assert_int_equal(t->addrs[0], 0x7f3a40000000);
	assert_string_equal(t->source, "RMM logging_resource_adaptor");
	assert_string_equal(t->format, "rmm_csv");
	gp_trace_destroy(t);
}

/* ---- lifetimes ---- */

#define LIFE  "id,lower,upper,size\n"
#define STEPS "each was taken for 1 ns"

static const struct good_case life_good[] = {
	{ LIFE "w0,0,40,512\nact1,3,9,128\n",
	  "a0 512 s0 h0 +0; a1 128 s0 h0 +3; f1 h0 +9; f0 h0 +40;", STEPS },
	/* out of order, and not from 0 */
	{ LIFE "a,7,9,1\nb,5,7,2\n", "a0 2 s0 h0 +0; f0 h0 +2; a1 1 s0 h0 +2; f1 h0 +4;", STEPS },
	/* an edge that many share: frees, then allocations, each in order */
	{ LIFE "a,0,4,1\nb,0,4,2\nc,4,8,3\nd,4,5,4\n",
	  "a0 1 s0 h0 +0; a1 2 s0 h0 +0; f0 h0 +4; f1 h0 +4; a2 3 s0 h0 +4; a3 4 s0 h0 +4; "
	  "f3 h0 +5; f2 h0 +8;",
	  STEPS },
	/* synonyms, another order, inclusive "end" */
	{ "size,end,begin,buffer_id\n8,3,1,x\n", "a0 8 s0 h0 +0; f0 h0 +3;", STEPS },
	{ "buffer,start,end,size\nx,1,1,8\n", "a0 8 s0 h0 +0; f0 h0 +1;", STEPS },
	{ "id,lower,upper,size,alignment,hint,offset,gaps\nx,1,2,8,256,-1,0,\ny,1,2,8,,-1,8,\n",
	  "a0 8 s0 h0 +0; a1 8 s0 h0 +0; f0 h0 +1; f1 h0 +1;", STEPS },
	{ "id,lower,upper,size,gaps\nx,1,9,8,2-3 5-7@0:4\ny,1,9,8,\n",
	  "a0 8 s0 h0 +0; a1 8 s0 h0 +0; f0 h0 +8; f1 h0 +8;", "1 buffers have gaps" },
	{ "id,lower,upper,size,colour\nx,1,2,8,red\n", "a0 8 s0 h0 +0; f0 h0 +1;",
	  "column \"colour\" is unknown" },
	{ LIFE "x,1,2,0", "a0 0 s0 h0 +0; f0 h0 +1;", "does not end in a newline" },
};

static void lifetimes_are_read(void **state)
{
	(void)state;
	format_good_cases(life_good, GP_ARRAY_LEN(life_good), NULL);
}

static void ends_may_be_inclusive(void **state)
{
	static const struct good_case inclusive[] = {
		{ LIFE "a,0,3,1\nb,3,3,2\n", "a0 1 s0 h0 +0; a1 2 s0 h0 +3; f0 h0 +4; f1 h0 +4;",
		  STEPS },
		{ "id,start,end,size\na,0,3,1\n", "a0 1 s0 h0 +0; f0 h0 +4;", STEPS },
	};
	struct gp_trace_options options = { .inclusive_ends = true };

	(void)state;
	format_good_cases(inclusive, GP_ARRAY_LEN(inclusive), &options);
}

#define GOOD_ROW   "g,1,5,8\n"
#define GOOD_EVENT "a0 8 s0 h0 +0; f0 h0 +4;"

static const struct bad_case life_bad[] = {
	{ LIFE, 1, "no rows after the header", NEVER, "" },
	{ "id,lower,upper,size,size\n", 1, "column \"size\" twice", NEVER, "" },
	{ "id,lower,upper,begin,size\n", 1, "column \"lower\" twice", NEVER, "" },
	{ "lower,upper,size\n1,2,3\n", 1, "no column \"id\"", NEVER, "" },
	{ "id,lower,size\n1,2,3\n", 1, "text of an unknown format", NEVER, "" },
	{ LIFE GOOD_ROW "x,5,5,8\n", 3, "with inclusive ends", GP_SKIP_BAD_EVENT, GOOD_EVENT },
	{ LIFE GOOD_ROW "x,5,4,8\n", 3, "upper is 4 and lower 5", GP_SKIP_BAD_EVENT, GOOD_EVENT },
	{ LIFE GOOD_ROW "x,-1,4,8\n", 3, "lower is \"-1\", expected 0 or more", GP_SKIP_BAD_EVENT,
	  GOOD_EVENT },
	{ LIFE GOOD_ROW "x,1,18446744073709551615,8\n", 3, "expected less than 2^64 - 1",
	  GP_SKIP_BAD_EVENT, GOOD_EVENT },
	{ LIFE GOOD_ROW "x,1,4,9223372036854775809\n", 3, "size is 9223372036854775809",
	  GP_SKIP_BAD_EVENT, GOOD_EVENT },
	{ LIFE GOOD_ROW "g,2,3,8\n", 3, "buffer \"g\" twice", GP_SKIP_DUPLICATE_ID, GOOD_EVENT },
	{ LIFE GOOD_ROW "x,1,4\n", 3, "3 fields in a row", GP_SKIP_BAD_EVENT, GOOD_EVENT },
	{ LIFE GOOD_ROW "x,1,4,8,9\n", 3, "5 fields in a row", GP_SKIP_BAD_EVENT, GOOD_EVENT },
	{ LIFE GOOD_ROW "x,1,", 3, "(truncated)", GP_SKIP_TAIL, GOOD_EVENT },
	{ LIFE GOOD_ROW "x,1,4,", 3, "size is empty", GP_SKIP_BAD_EVENT, GOOD_EVENT },
	{ "id,lower,upper,size,alignment\nx,1,4,8,3\n", 2,
	  "alignment is 3, expected a power of two", GP_SKIP_BAD_EVENT, "" },
};

static void bad_lifetimes_are_refused_or_counted(void **state)
{
	(void)state;
	format_bad_cases(life_bad, GP_ARRAY_LEN(life_bad));
}

/* ---- truncation ---- */

/* A file cut anywhere is refused, or is what its whole rows say and warns if its last one may not
 * be whole. Lenient never fails on what strict takes. */
static void cut_everywhere(const char *text)
{
	struct gp_trace_options lenient = { .lenient = true };
	struct gp_trace *t;
	char why[512];

	for (size_t n = 0; n <= strlen(text); n++) {
		bool strict_ok = !format_load(text, n, NULL, &t, why, sizeof(why));

		if (strict_ok && text[n - 1] != '\n' &&
		    !format_has_note(t, "does not end in a newline"))
			fail_msg("no warning after %zu bytes of:\n%s", n, text);
		gp_trace_destroy(t);
		if (format_load(text, n, &lenient, &t, why, sizeof(why)) && strict_ok)
			fail_msg("lenient refused %zu bytes of:\n%s", n, text);
		if (t && t->skipped[GP_SKIP_TAIL])
			assert_false(format_has_note(t, "does not end in a newline"));
		gp_trace_destroy(t);
	}
}

static void every_truncation_is_noticed(void **state)
{
	(void)state;
	cut_everywhere(RMM A1 F1 "11,09:00:01.5,allocate failure,(nil),99,0x2\n");
	cut_everywhere("id,lower,upper,size,alignment\r\n\"w\",0,40,512,256\r\nv,4,5,512,16\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_split),
		cmocka_unit_test(long_and_wide_rows_are_one_fault),
		cmocka_unit_test(rows_cross_the_window),
		cmocka_unit_test(numbers_are_whole),
		cmocka_unit_test(order_is_stable),
		cmocka_unit_test(rmm_logs_are_read),
		cmocka_unit_test(bad_rmm_logs_are_refused_or_counted),
		cmocka_unit_test(rmm_keeps_what_it_was_told),
		cmocka_unit_test(lifetimes_are_read),
		cmocka_unit_test(ends_may_be_inclusive),
		cmocka_unit_test(bad_lifetimes_are_refused_or_counted),
		cmocka_unit_test(every_truncation_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
