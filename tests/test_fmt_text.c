/* SPDX-License-Identifier: Apache-2.0
 *
 * The small text formats: STAlloc's log, allocatorSim's lifetimes, malloc lab's .rep, Kokkos'
 * memory events; and that their readers, whose formats have no signature, claim no other file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fmt_case.h"
#include "replay/formats/text.h"

#define MEMORY(kind) .options = { .memory = GP_MEMORY_##kind }
#define NO_OPTIONS   .options = { 0 }

/* ---- STAlloc ---- */

#define ST1 "1 0x7f5500000000 20971520 0\n"
#define ST0 "0 0x7f5500000000 20971520 0\n"

static const struct fmt_good stalloc_good[] = {
	{ "the form in its documents", "Iteration Index : 0\n" ST1 ST0,
	  "m{Iteration Index : 0}@0 a0:20971520@1 f0@2", "line numbers stand", NO_OPTIONS },
	{ "markers, CR LF, a blank line, no line at the end",
	  "Iteration Index : 0\r\nmicro-batch 0 : F\r\n\r\nlayers.0.mlp->ParallelMLP Layer : "
	  "F-start\r\n1 0x10 5 0x2\r\n1 0x20 6 0\r\nIteration Index : end\r\n0 0x10 5 0x2",
	  "m{Iteration Index : 0}@0 m{micro-batch 0 : F}@1 m{layers.0.mlp->ParallelMLP Layer : "
	  "F-start}@3 a0:5@4 a1:6@5#1 m{Iteration Index : end}@6 f0@7",
	  "the last line does not end", NO_OPTIONS },
	{ "events alone, a byte order mark", "\xef\xbb\xbf" ST1, "a0:20971520@0", NO_OPTIONS },
	{ "an address used again, tabs", "1\t0x10 5 0\n0 0x10 5 0\n1 0x10  9 0 \n",
	  "a0:5@0 f0@1 a1:9@2", NO_OPTIONS },
	{ "live before", ST1 "0 0x10 64 0\n", "A0:64@0 a1:20971520@0 f0@1", NO_OPTIONS },
	{ "0 bytes at address 0", ST1 "1 0 0 0\n0 0 0 0\n", "a0:20971520@0", NO_OPTIONS },
	{ "more at address 0", ST1 "1 0 8 0\n", "a0:20971520@0", "1 events at address 0",
	  NO_OPTIONS },
};

#define ST_BAD(line)                                                                               \
	{                                                                                          \
		ST1 line "\n", "2: ", "expected \"1 ADDRESS SIZE STREAM\"", "a0:20971520@0",       \
			GP_SKIP_BAD_EVENT, 1, NO_OPTIONS                                           \
	}

static const struct fmt_bad stalloc_bad[] = {
	ST_BAD("2 0x10 5 0"),
	ST_BAD("1 0x10 5"),
	ST_BAD("1 0x10 5 0 7"),
	ST_BAD("1 0x10 -5 0"),
	ST_BAD("1 0x10 nan 0"),
	ST_BAD("1 0x10 \"5\" 0"),
	ST_BAD("1 0x10 18446744073709551616 0"),
	ST_BAD("1 0x10000000000000000 5 0"),
	ST_BAD("1 0x 5 0"),
	ST_BAD("1 0x1g 5 0"),
	ST_BAD("1 10 5 0"),
	ST_BAD("hello"),
	{ ST1 "1 0x10 9223372036854775809 0\n", "2: ", "at most 2^63", "a0:20971520@0",
	  GP_SKIP_BAD_EVENT, 1, NO_OPTIONS },
	{ ST1 ST1, "2: ", "is live, expected its free before (STAlloc appends to its log",
	  "a0:20971520@0 f0@1 a1:20971520@1", GP_SKIP_DUPLICATE_ID, 1, NO_OPTIONS },
	{ ST1 ST0 ST0, "3: ", "double free", "a0:20971520@0 f0@1", GP_SKIP_UNKNOWN_ID, 1,
	  NO_OPTIONS },
	{ ST1 "0 0x7f5500000000 9 0\n", "2: ", "a free of 9 bytes", "a0:20971520@0 f0@1",
	  GP_SKIP_BAD_EVENT, 1, NO_OPTIONS },
	{ ST1 "0 0x10 0 0\n", "2: ", "a free at 0x10, where no block is known", "a0:20971520@0",
	  GP_SKIP_UNKNOWN_ID, 1, NO_OPTIONS },
};

/* ---- allocatorSim ---- */

static const struct fmt_good sim_good[] = {
	{ "the form in its documents", "0 12 92928\n1 5 256\n2 9 1228800\n",
	  "a0:92928@0 a1:256@1 a2:1228800@2 f1@5 f2@9 f0@12", "numbers of the operations",
	  NO_OPTIONS },
	{ "in any order, and not from 0", "12 14 3\n10 13 1\n\n11 15 2\n",
	  "a0:1@0 a1:2@1 a2:3@2 f0@3 f2@4 f1@5", NO_OPTIONS },
	{ "a free first where the numbers are the same", "0 5 1\n5 6 2", "a0:1@0 f0@5 a1:2@5 f1@6",
	  "does not end", NO_OPTIONS },
	{ "0 bytes, CR LF", "0 1 0\r\n", "a0:0@0 f0@1", NO_OPTIONS },
};

#define SIM_BAD(line, why)                                                                         \
	{                                                                                          \
		"0 2 7\n" line "\n", "2: ", why, "a0:7@0 f0@2", GP_SKIP_BAD_EVENT, 1, NO_OPTIONS   \
	}
#define SIM_THREE "expected three whole numbers"

static const struct fmt_bad sim_bad[] = {
	SIM_BAD("1 2", SIM_THREE),
	SIM_BAD("1 2 3 4", SIM_THREE),
	SIM_BAD("1 2 -3", SIM_THREE),
	SIM_BAD("1 2 3.5", SIM_THREE),
	SIM_BAD("1 2 nan", SIM_THREE),
	SIM_BAD("1,2,3", SIM_THREE),
	SIM_BAD("1 \"2\" 3", SIM_THREE),
	SIM_BAD("18446744073709551616 2 3", SIM_THREE),
	SIM_BAD("1 2 18446744073709551615", "expected at most 2^63"),
	SIM_BAD("5 5 1", "allocated by operation 5 and freed by 5, expected a later free"),
	SIM_BAD("5 4 1", "expected a later free"),
	SIM_BAD("1 2 9223372036854775809", "expected at most 2^63"),
};

/* ---- malloc lab ---- */

#define LAB(ids, ops) "20000\n" ids "\n" ops "\n1\n"
#define LAB_A         "a 0 512\na 1 4096\nf 0\n"

static const struct fmt_good lab_good[] = {
	{ "the form in its documents", LAB("2", "3") LAB_A, "a0:512@0 a1:4096@1 f0@2",
	  "numbers of the operations", NO_OPTIONS },
	{ "realloc", LAB("2", "6") LAB_A "r 1 10\nr 0 20\nf 0",
	  "a0:512@0 a1:4096@1 f0@2 f1@3 a2:10@3 a3:20@4 f3@5", "2 reallocs", NO_OPTIONS },
	{ "CR LF, blank lines, free of NULL",
	  "20000\r\n1\r\n\r\n3\r\n1\r\na 0 0\r\nf -1\r\n\r\nf 0\r\n", "a0:0@0 f0@2", NO_OPTIONS },
};

#define LAB_BAD(line)                                                                              \
	{                                                                                          \
		LAB("2", "4")                                                                      \
		LAB_A line "\n", "8: ", "expected \"a ID SIZE\"", "a0:512@0 a1:4096@1 f0@2",       \
			GP_SKIP_BAD_EVENT, 1, NO_OPTIONS                                           \
	}

static const struct fmt_bad lab_bad[] = {
	LAB_BAD("a 1"),
	LAB_BAD("f 1 2"),
	LAB_BAD("x 1 2"),
	LAB_BAD("aa 1 2"),
	LAB_BAD("a -1 2"),
	LAB_BAD("a 1 -2"),
	LAB_BAD("a 1 1e3"),
	LAB_BAD("a 1 2 3"),
	LAB_BAD("r -1 2"),
	LAB_BAD("17"),
	{ LAB("2", "4") LAB_A "a 2 1\n", "8: ", "id 2, expected one below the 2",
	  "a0:512@0 a1:4096@1 f0@2", GP_SKIP_BAD_EVENT, 1, NO_OPTIONS },
	{ LAB("2", "4") LAB_A "a 1 1\n", "8: ", "alloc of id 1, which is live",
	  "a0:512@0 a1:4096@1 f0@2", GP_SKIP_DUPLICATE_ID, 1, NO_OPTIONS },
	{ LAB("2", "4") LAB_A "f 0\n", "8: ", "double free", "a0:512@0 a1:4096@1 f0@2",
	  GP_SKIP_UNKNOWN_ID, 1, NO_OPTIONS },
	{ LAB("2", "4") LAB_A, "7: ", "3 operations (truncated?), expected the 4",
	  "a0:512@0 a1:4096@1 f0@2", GP_SKIP_TAIL, 1, NO_OPTIONS },
	{ LAB("2", "2") LAB_A, "7: ", "3 operations", "a0:512@0 a1:4096@1 f0@2", GP_SKIP_TAIL, 1,
	  NO_OPTIONS },
	{ "1\n2\n", "2: ", "line 3 of the header is missing or bad", NULL, NO_OPTIONS },
	{ "1\n2\n3\nx\n", "4: ", "expected a weight alone", NULL, NO_OPTIONS },
};

/* ---- Kokkos ---- */

#define KOKKOS                                                                                     \
	"# Memory Events\n"                                                                        \
	"# Time     Ptr                  Size        MemSpace      Op         Name\n"
#define K_ALLOC                                                                                    \
	"0.120331   0x7f2200000000        8388608             Cuda Allocate   density of it\n"

static const struct fmt_good kokkos_good[] = {
	{ "regions, and the size of a free below 0",
	  KOKKOS K_ALLOC "0.120402 PushRegion step 1 {\n"
			 "0.245110   0x7f2200000000       -8388608             Cuda DeAllocate d\n"
			 "0.245120 } PopRegion \n",
	  "a0:8388608@0 m{step 1 }@71000 f0@124779000", NO_OPTIONS },
	{ "a free with its size as it is, no heading, no name",
	  K_ALLOC "0.2 0x7f2200000000 8388608 Cuda DeAllocate", "a0:8388608@0 f0@79669000",
	  "does not end", NO_OPTIONS },
	{ "device memory only",
	  KOKKOS "0.1 0x10 8 Host Allocate h\n" K_ALLOC "0.3 0x20 8 CudaUVM Allocate u\n",
	  "a0:8388608@20331000", "left out: 2 events", NO_OPTIONS },
	{ "the other memory", KOKKOS "0.1 0x10 8 Host Allocate h\n" K_ALLOC, "a0:8@0",
	  "left out: 1", MEMORY(HOST) },
	{ "both", KOKKOS "0.1 0x10 8 Host Allocate h\n" K_ALLOC, "a0:8@0 a1:8388608@20331000",
	  MEMORY(ANY) },
	{ "a heading and nothing else", KOKKOS, "", NO_OPTIONS },
};

#define KOKKOS_BAD(line)                                                                           \
	{                                                                                          \
		KOKKOS K_ALLOC line "\n", "4: ", "expected \"TIME ADDRESS SIZE SPACE",             \
			"a0:8388608@0", GP_SKIP_BAD_EVENT, 1, NO_OPTIONS                           \
	}

static const struct fmt_bad kokkos_bad[] = {
	KOKKOS_BAD("nan 0x10 8 Cuda Allocate x"),
	KOKKOS_BAD("0.5 16 8 Cuda Allocate x"),
	KOKKOS_BAD("0.5 0x10 -8 Cuda Allocate x"),
	KOKKOS_BAD("0.5 0x10 8 Cuda Free x"),
	KOKKOS_BAD("0.5 0x10 8 Cuda"),
	KOKKOS_BAD("0.5 } Pop"),
	KOKKOS_BAD("0.5"),
	KOKKOS_BAD("1e30 0x10 8 Cuda Allocate x"),
	KOKKOS_BAD("-0.5 0x10 8 Cuda Allocate x"),
	{ KOKKOS K_ALLOC "0.12 0x10 8 Cuda Allocate x\n0.120332 0x20 8 Cuda Allocate x\n",
	  "4: ", "time goes back by 331000 ns", "a0:8388608@0 a1:8@0 a2:8@1000", GP_SKIP_TIME_BACK,
	  1, NO_OPTIONS },
	{ KOKKOS "0.1 0x10 8 Host Allocate h\n",
	  "3: ", "none of the 1 events is of device (Cuda, HIP, ...) memory", NULL, NO_OPTIONS },
	{ KOKKOS K_ALLOC, "3: ", "leave --memory=host out", NULL, MEMORY(HOST) },
};

static void check(const struct fmt_good *good, size_t n_good, const struct fmt_bad *bad,
		  size_t n_bad, const char *format)
{
	for (size_t i = 0; i < n_good; i++)
		fmt_check_good(&good[i], format);
	for (size_t i = 0; i < n_bad; i++)
		fmt_check_bad(&bad[i]);
}

static void stalloc_logs(void **state)
{
	(void)state;
	check(stalloc_good, GP_ARRAY_LEN(stalloc_good), stalloc_bad, GP_ARRAY_LEN(stalloc_bad),
	      "stalloc_log");
}

static void allocator_sim_lifetimes(void **state)
{
	(void)state;
	check(sim_good, GP_ARRAY_LEN(sim_good), sim_bad, GP_ARRAY_LEN(sim_bad), "allocator_sim");
}

static void malloc_lab_traces(void **state)
{
	(void)state;
	check(lab_good, GP_ARRAY_LEN(lab_good), lab_bad, GP_ARRAY_LEN(lab_bad), "malloc_lab");
}

static void kokkos_memory_events(void **state)
{
	(void)state;
	check(kokkos_good, GP_ARRAY_LEN(kokkos_good), kokkos_bad, GP_ARRAY_LEN(kokkos_bad),
	      "kokkos_events");
}

/* ---- all of them ---- */

/* Cut anywhere: refused, or a trace that is whole but for its last line, of which a note warns. */
static void truncation_is_refused_or_noted(void **state)
{
	static const char *const files[] = {
		"Iteration Index : 0\n" ST1 ST0 "1 0x10 777 0\n",
		"0 12 92928\n1 5 256\n2 9 1228800\n",
		LAB("2", "3") LAB_A,
		KOKKOS K_ALLOC "0.2 0x7f2200000000 8388608 Cuda DeAllocate x\n",
	};
	struct gp_trace *t;
	char why[512];
	unsigned taken = 0;

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(files); i++) {
		for (size_t n = 0; n < strlen(files[i]); n++) {
			int r = fmt_load(files[i], n, NULL, &t, why, sizeof(why));
			bool whole = n && files[i][n - 1] == '\n';

			if (r) {
				assert_int_equal(r, -EINVAL);
				continue;
			}
			taken++;
			if (!whole && !fmt_has_note(t, "the last line does not end"))
				fail_msg("no note on:\n%.*s", (int)n, files[i]);
			gp_trace_destroy(t);
		}
	}
	assert_in_range(taken, 20, 400);
}

/* Text that is none of these, and looks a little like one. */
static void other_text_is_not_claimed(void **state)
{
	static const char *const files[] = {
		"hello\n",        "1 2\n",
		"1 2 three\n",    "2 1 5\n",
		"1, 2, 3\n",      "1 2 3 4 5\n",
		"a 0 512\n",      "# a comment\n1 2 3\n",
		"1 7f00 512 0\n", "INFO: 1 2 3\n",
		"-1 2 3\n",       "1.5 2 3\n",
		"{}\n",           "id,lower,upper,size\n",
		"\n\n",           "1 2 3.0\n",
	};
	struct gp_trace *t;
	char why[512];

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(files); i++) {
		for (size_t f = 0; gp_format_at(f); f++) {
			const struct gp_format *format = gp_format_at(f);
			bool ours = !strcmp(format->name, "stalloc_log") ||
				    !strcmp(format->name, "allocator_sim") ||
				    !strcmp(format->name, "malloc_lab") ||
				    !strcmp(format->name, "kokkos_events");

			if (ours && format->probe((const unsigned char *)files[i],
						  strlen(files[i])) != GP_FORMAT_NO)
				fail_msg("%s claims:\n%s", format->name, files[i]);
		}
		assert_int_equal(fmt_load(files[i], strlen(files[i]), NULL, &t, why, sizeof(why)),
				 -EINVAL);
	}
}

/* The first line fits, a later one does not: its number is told. */
static void a_line_that_does_not_fit_is_named(void **state)
{
	static const struct fmt_bad files[] = {
		{ "0 1 2\n3 4 5\nx\n", "3: ", "\"x\", expected three whole numbers",
		  "a0:2@0 f0@1 "
		  "a1:5@3 f1@4",
		  GP_SKIP_BAD_EVENT, 1, NO_OPTIONS },
		{ "1 0x10 5 0\n1 0x20 5\n", "2: ", "\"1 0x20 5\"", "a0:5@0", GP_SKIP_BAD_EVENT, 1,
		  NO_OPTIONS },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(files); i++)
		fmt_check_bad(&files[i]);
}

/* A line of any length, across the edges of the window; and one that is too long. */
static void long_lines(void **state)
{
	size_t n = 3 * GP_TEXT_LINE;
	char *text = malloc(n + 64);
	struct gp_trace *t;
	char why[512];

	(void)state;
	assert_non_null(text);
	memset(text, ' ', n);
	memcpy(text, "0 1 2\n3", 7);
	strcpy(text + GP_TEXT_LINE, " 4 5\n");
	assert_int_equal(fmt_load(text, strlen(text), NULL, &t, why, sizeof(why)), 0);
	fmt_check_spelling(t, "a0:2@0 f0@1 a1:5@3 f1@4", "a long line");
	gp_trace_destroy(t);
	memset(text + GP_TEXT_LINE, ' ', n - GP_TEXT_LINE);
	strcpy(text + n, " 4 5\n6 7 x\n");
	assert_int_equal(fmt_load(text, strlen(text), NULL, &t, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "in:2: \"3"));
	free(text);
}

static void decimals_are_exact(void **state)
{
	static const struct {
		const char *text;
		unsigned scale;
		bool ok;
		int64_t value;
	} numbers[] = {
		{ "0", 3, true, 0 },
		{ "1.5", 3, true, 1500 },
		{ "-1.5", 3, true, -1500 },
		{ "0.1203319", 6, true, 120331 },
		{ "5112794879478.983", 3, true, 5112794879478983 },
		{ "9223372036854775.807", 3, true, INT64_MAX },
		{ "9223372036854775.808", 3, false, 0 },
		{ "0.00000000000000000000000000001", 3, true, 0 },
		{ "1.00000000000000000000000000001", 9, true, 1000000000 },
		{ "1e3", 0, true, 1000 },
		{ "1.5E+3", 0, true, 1500 },
		{ "15e-1", 3, true, 1500 },
		{ "0e9999", 9, true, 0 },
		{ "1e-9999", 9, true, 0 },
		{ "1e9999", 9, false, 0 },
		{ "1e99999", 9, false, 0 },
		{ "18446744073709551616", 0, false, 0 },
		{ "", 3, false, 0 },
		{ "-", 3, false, 0 },
		{ ".", 3, false, 0 },
		{ "1.2.3", 3, false, 0 },
		{ "1e", 3, false, 0 },
		{ "1e+", 3, false, 0 },
		{ "1x", 3, false, 0 },
		{ "nan", 3, false, 0 },
		{ "+1", 3, false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(numbers); i++) {
		struct gp_text_word w = { numbers[i].text, strlen(numbers[i].text) };
		int64_t value = 0;
		bool ok = gp_text_decimal(w, numbers[i].scale, &value);

		if (ok != numbers[i].ok || value != numbers[i].value)
			fail_msg("\"%s\" at scale %u is %d, %lld", numbers[i].text,
				 numbers[i].scale, ok, (long long)value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stalloc_logs),
		cmocka_unit_test(allocator_sim_lifetimes),
		cmocka_unit_test(malloc_lab_traces),
		cmocka_unit_test(kokkos_memory_events),
		cmocka_unit_test(truncation_is_refused_or_noted),
		cmocka_unit_test(other_text_is_not_claimed),
		cmocka_unit_test(a_line_that_does_not_fit_is_named),
		cmocka_unit_test(long_lines),
		cmocka_unit_test(decimals_are_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
