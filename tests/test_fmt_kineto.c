/* SPDX-License-Identifier: Apache-2.0
 *
 * kineto: profiler traces in Chrome's format. What is read, in which order and of which device,
 * what a bad one is told, and that everything else in the file is passed over unharmed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fmt_case.h"
#include "replay/formats/json_pull.h"

/* clang-format off */
#define EVENT(name, ts, tid, args) \
	"{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"" name "\",\"pid\":1,\"tid\":" tid \
	",\n\"ts\":" ts ",\"args\":{" args "}}"
#define ON(type, id, bytes, addr, total, index) \
	"\"Total Reserved\":9,\"Total Allocated\":" total ",\"Bytes\":" bytes ",\"Device Id\":" id \
	",\"Device Type\":" type ",\"Addr\":" addr ",\"finished\":false,\"Ev Idx\":" index
#define GPU(ts, bytes, addr, total, index) \
	EVENT("[memory]", ts, "7", ON("1", "0", bytes, addr, total, index))
#define GPU1(ts, bytes, addr) EVENT("[memory]", ts, "7", ON("1", "1", bytes, addr, "0", "0"))
#define CPU(ts, bytes, addr) EVENT("[memory]", ts, "7", ON("0", "-1", bytes, addr, "0", "0"))
#define TID8(ts, bytes, addr, index) \
	EVENT("[memory]", ts, "8", ON("1", "0", bytes, addr, "0", index))
/* Another kind, with everything in it that could lead a hasty reader astray. */
#define OTHER \
	"{\"ph\":\"X\",\"name\":\"[memory ]\",\"ts\":-1,\"dur\":[1,{\"a]\":\"}\\\\\\\"{\"}],\"args\":" \
	"{\"Bytes\":\"x\",\"nested\":{\"traceEvents\":[],\"name\":\"[memory]\"}}},\n" \
	"{\"args\":{\"Bytes\":1.5,\"Addr\":null,\"s\":\"\\u00e9\\n\"},\"ts\":\"now\",\"name\":\"k\"},\n" \
	"{\"ph\":\"M\"},{},\n"
#define TRACE(events) "{\"schemaVersion\":1,\"traceEvents\":[\n" events "]}"
#define TF(name, ts, more) EVENT(name, ts, "7", "\"allocator_name\":\"GPU_1_bfc\"," more)
/* clang-format on */

#define GPU_N(n)     .options = { .has_gpu = true, .gpu = n }
#define MEMORY(kind) .options = { .memory = GP_MEMORY_##kind }

static const struct fmt_good good[] = {
	{ "an allocation and its free",
	  TRACE(GPU("12.5", "512", "4096", "512", "1") "," GPU("20", "-512", "4096", "0", "2")),
	  "a0:512@0 f0@7500", "rounded up", .options = { 0 } },
	{ "the array alone", "[" GPU("1", "512", "4096", "512", "1") "]", "a0:512@0",
	  .options = { 0 } },
	{ "other events, CR LF, a blank line first, no line at the end",
	  "\r\n" TRACE(OTHER GPU("1", "512", "4096", "512",
				 "1") ",\r\n" OTHER GPU("2", "-512", "4096", "0", "2")),
	  "a0:512@0 f0@1000", .options = { 0 } },
	{ "a byte order mark", "\xef\xbb\xbf" TRACE(GPU("1", "512", "4096", "512", "1")),
	  "a0:512@0", .options = { 0 } },
	{ "keys in another order",
	  "{\"traceEvents\":[{\"args\":{" ON("1", "0", "512", "1", "0",
					     "0") "},\"ts\":1,\"name\":\"[memory]\"}],\"x\":[{}]}",
	  "a0:512@0", .options = { 0 } },
	{ "the older name of Ev Idx",
	  TRACE(EVENT("[memory]", "1", "7",
		      "\"Bytes\":2,\"Device Id\":0,\"Device Type\":1,\"Addr\":2,\"Profiler Event "
		      "Index\":9") "," EVENT("[memory]", "1", "7",
					     "\"Bytes\":1,\"Device Id\":0,\"Device Type\":1,"
					     "\"Addr\":1,\"Profiler Event Index\":8")),
	  "a0:1@0 a1:2@0", .options = { 0 } },
	{ "sorted by time, then number, then place",
	  TRACE(GPU("3", "3", "3", "0", "0") "," GPU("2", "2", "22", "0", "6") "," GPU(
		  "2", "1", "21", "0", "5") "," GPU("2.000", "9", "23", "0", "6")),
	  "a0:1@0 a1:2@0 a2:9@0 a3:3@1000", .options = { 0 } },
	{ "microseconds to the nanosecond, at 2^62 of them and as an exponent",
	  TRACE(GPU("4611686018427387.001", "1", "1", "0",
		    "0") "," GPU("4611686018427387.0029", "2", "2", "0",
				 "0") "," GPU("4.6116860184273871E+15", "3", "3", "0", "0")),
	  "a0:1@0 a1:2@1 a2:3@99", .options = { 0 } },
	{ "before 0", TRACE(GPU("-1.5", "1", "1", "0", "0") "," GPU("0", "2", "2", "0", "0")),
	  "a0:1@0 a1:2@1500", .options = { 0 } },
	{ "two threads",
	  TRACE(GPU("1", "1", "1", "0", "0") "," TID8("2", "2", "2", "0") "," GPU("3", "-2", "2",
										  "0", "0")),
	  "a0:1@0 a1:2@1000/1 f1@2000", .options = { 0 } },
	{ "threads and processes with names",
	  "[{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":\"p\",\"tid\":\"main\",\"ts\":1,\"args\":{" ON(
		  "1", "0", "1", "1", "0", "0") "}}]",
	  "a0:1@0", .options = { 0 } },
	{ "freed, never allocated: was live before",
	  TRACE(GPU("5", "512", "1", "1536", "0") "," GPU("6", "-1024", "2", "512", "0")),
	  "A0:1024@0 a1:512@0 f0@1000", .options = { 0 } },
	{ "more was live before and stayed",
	  TRACE(GPU("5", "1048576", "1", "6291456", "0") "," GPU("6", "-1048576", "1", "5242880",
								 "0")),
	  "a0:1048576@0 f0@1000", "5.0 MiB more were live", .options = { 0 } },
	{ "the profiler counts what it does not show",
	  TRACE(GPU("1", "1", "1", "1", "0") "," GPU("2", "1", "2", "2", "0") "," GPU(
		  "3", "1", "3", "13", "0") "," GPU("4", "1", "4", "14", "0")),
	  "a0:1@0 a1:1@1000 a2:1@2000 a3:1@3000", "10 bytes above", .options = { 0 } },
	{ "a free stamped after the address was taken again",
	  TRACE(GPU("1", "512", "9", "0", "0") "," TID8("2", "256", "9", "0") "," GPU(
		  "3", "-512", "9", "0", "0") "," TID8("4", "-256", "9", "0")),
	  "a0:512@0 f0@1000 a1:256@1000/1 f1@3000/1", "1 frees were stamped", .options = { 0 } },
	{ "out of memory",
	  TRACE(GPU("1", "1", "1", "0", "0") "," EVENT(
		  "[OutOfMemory]", "2", "7",
		  "\"Bytes\":4096,\"Device Id\":0,\"Device Type\":1,\"Total Allocated\":1")),
	  "a0:1@0 o:4096@1000", .options = { 0 } },
	{ "0 bytes", TRACE(GPU("1", "0", "1", "0", "0") "," GPU("2", "5", "1", "5", "0")), "a0:5@0",
	  "1 events of 0 bytes", .options = { 0 } },
	{ "the GPU only, unless asked",
	  TRACE(CPU("1", "64", "8") "," GPU("2", "512", "8", "0", "0") "," CPU("3", "-64", "8")),
	  "a0:512@0", "left out: 2 events", .options = { 0 } },
	{ "the host's", TRACE(CPU("1", "64", "8") "," GPU("2", "512", "16", "0", "0")), "a0:64@0",
	  "the host's memory; left out: 1", MEMORY(HOST) },
	{ "both", TRACE(CPU("1", "64", "8") "," GPU("2", "512", "16", "0", "0")),
	  "a0:64@0 a1:512@1000", MEMORY(ANY) },
	{ "only the host's, when any will do", TRACE(CPU("1", "64", "8")), "a0:64@0", MEMORY(ANY) },
	{ "the busiest GPU",
	  TRACE(GPU1("1", "1", "1") "," GPU("2", "512", "1", "0", "0") "," GPU("3", "-512", "1",
									       "0", "0")),
	  "a0:512@0 f0@1000", "taken: GPU 0, 2 events; left out: 1", .options = { 0 } },
	{ "the GPU that is asked for",
	  TRACE(GPU1("1", "1", "1") "," GPU("2", "512", "1", "0", "0") "," GPU("3", "-512", "1",
									       "0", "0")),
	  "a0:1@0", "taken: GPU 1, 1 events", GPU_N(1) },
	{ "TensorFlow's",
	  TRACE(TF("MemoryAllocation", "1", "\"addr\":\"139900\",\"requested_bytes\":\"1000\",\"allocation_bytes\":\"1024\"") "," TF(
		  "MemoryAllocation", "2",
		  "\"addr\":140924,\"requested_bytes\":0,\"allocation_bytes\":512") "," TF("MemoryDeallocation",
											   "3",
											   "\"addr\":139900,\"requested_bytes\":0,\"allocation_bytes\":1024")),
	  "a0:1000@0 a1:512@1000 f0@2000", .options = { 0 } },
};

#define ONE       GPU("1", "512", "4096", "512", "1")
#define BAD(args) TRACE(ONE ",\n" EVENT("[memory]", "2", "7", args))

static const struct fmt_bad bad[] = {
	/* nothing to read */
	{ TRACE(OTHER "{}"), "1: ",
	  "no [memory] event among 5, expected a trace recorded with "
	  "torch.profiler.profile(profile_memory=True)",
	  NULL, .options = { 0 } },
	{ "{\"profile_memory\":1,\"traceEvents\":[{}]}",
	  "1: ", "though profile_memory was on: this PyTorch does not export them", NULL,
	  .options = { 0 } },
	{ "{\"schemaVersion\":1}", "1: ", "no [memory] event among 0", NULL, .options = { 0 } },
	{ TRACE(CPU("1", "64", "8")), "1: ", "all 1 memory events are of the host's memory (CPU)",
	  NULL, .options = { 0 } },
	{ TRACE(ONE), "1: ", "all of GPU memory", NULL, MEMORY(HOST) },
	{ TRACE(ONE "," GPU1("1", "1", "1")),
	  "1: ", "no memory events of GPU 2, expected --gpu= one of: 0, 1", NULL, GPU_N(2) },
	{ BAD("\"Bytes\":1,\"Device Id\":0,\"Device Type\":1"), "4: ", "without \"Addr\"", NULL,
	  .options = { 0 } },
	/* values */
	{ BAD(ON("1", "0", "\"512\"", "1", "0", "0")),
	  "4: ", "traceEvents[1], [memory]: \"Bytes\" is a string, expected a whole number",
	  "a0:512@0", GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ BAD(ON("1", "0", "1.5", "1", "0", "0")), "4: ", "\"Bytes\" is 1.5", "a0:512@0",
	  GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ BAD(ON("1", "0", "18446744073709551616", "1", "0", "0")), "4: ", "less than 2^64",
	  "a0:512@0", GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ BAD(ON("1", "0", "-18446744073709551616", "1", "0", "0")),
	  "4: ", "\"Bytes\" is -18446744073709551616", "a0:512@0", GP_SKIP_BAD_EVENT, 1,
	  .options = { 0 } },
	{ BAD(ON("1", "0", "9223372036854775809", "1", "0", "0")), "4: ", "at most 2^63",
	  "a0:512@0", GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ BAD(ON("1", "0", "1", "-4096", "0", "0")), "4: ", "\"Addr\" is -4096", "a0:512@0",
	  GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ BAD(ON("[1]", "0", "1", "1", "0", "0")), "4: ", "\"Device Type\" is an array", "a0:512@0",
	  GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ BAD(ON("99999", "0", "1", "1", "0", "0")), "4: ", "\"Device Type\" is 99999", "a0:512@0",
	  GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ BAD(ON("1", "70000", "1", "1", "0", "0")), "4: ", "\"Device Id\" is 70000", "a0:512@0",
	  GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ BAD("\"Bytes\":1,\"Addr\":1,\"Device Id\":0"), "4: ", "without \"Device Type\"",
	  "a0:512@0", GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ BAD("\"Addr\":1,\"Device Id\":0,\"Device Type\":1"), "4: ", "without \"Bytes\"",
	  "a0:512@0", GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ BAD("\"Bytes\":1," ON("1", "0", "1", "1", "0", "0")), "4: ", "key \"Bytes\" twice",
	  "a0:512@0", GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ TRACE(ONE ",\n{\"name\":\"[memory]\",\"ts\":1,\"args\":[]}"), "4: ", "without \"Bytes\"",
	  "a0:512@0", GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ TRACE(ONE ",\n{\"name\":\"[memory]\",\"args\":{" ON("1", "0", "1", "1", "0", "0") "}}"),
	  "4: ", "without \"ts\"", "a0:512@0", GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ TRACE(ONE ",\n" GPU("1e16", "1", "1", "0", "0")), "4: ", "\"ts\" is 1e16", "a0:512@0",
	  GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ TRACE(ONE ",\n" GPU("\"1\"", "1", "1", "0", "0")), "4: ", "\"ts\" is a string",
	  "a0:512@0", GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	{ TRACE(ONE ",\n7"), "4: ", "traceEvents[1] is a number", "a0:512@0", GP_SKIP_BAD_EVENT, 1,
	  .options = { 0 } },
	/* blocks */
	{ TRACE(ONE
		",\n" GPU("2", "256", "4096", "0", "0") ",\n" GPU("3", "-256", "4096", "0", "0")),
	  "4: ", "an allocation at 0x1000, where a block of 512 bytes is live",
	  "a0:512@0 f0@1000 a1:256@1000 f1@2000", GP_SKIP_DUPLICATE_ID, 1, .options = { 0 } },
	{ TRACE(ONE
		",\n" GPU("2", "-512", "4096", "0", "0") ",\n" GPU("3", "-512", "4096", "0", "0")),
	  "6: ", "a free at 0x1000, which was freed before (double free)", "a0:512@0 f0@1000",
	  GP_SKIP_UNKNOWN_ID, 1, .options = { 0 } },
	{ TRACE(ONE ",\n" GPU("2", "-256", "4096", "0", "0")),
	  "4: ", "a free of 256 bytes at 0x1000, expected the 512 of its allocation",
	  "a0:512@0 f0@1000", GP_SKIP_BAD_EVENT, 1, .options = { 0 } },
	/* the document */
	{ "{\"traceEvents\":{}}", "1: ", "\"traceEvents\" is an object, expected an array", NULL,
	  .options = { 0 } },
	{ "{\"traceEvents\":[],\n\"traceEvents\":[]}", "2: ", "key \"traceEvents\" twice", NULL,
	  .options = { 0 } },
	{ "{\"traceEvents\":[\n" ONE "\n", "3: ", "too early (truncated)", "a0:512@0", GP_SKIP_TAIL,
	  1, .options = { 0 } },
	{ TRACE(ONE) "\n{}", "4: ", "trailing garbage", "a0:512@0", GP_SKIP_TAIL, 1,
	  .options = { 0 } },
	{ TRACE(ONE ",\n{\"name\":\"x\",\"args\":{\"a\":[1}}"), "4: ", "expected ']'", "a0:512@0",
	  GP_SKIP_TAIL, 1, .options = { 0 } },
	{ TRACE(ONE ",\n{\"name\":\"x\",\"a\":\"\n\"}"), "4: ", "the '\"' that ends a string",
	  "a0:512@0", GP_SKIP_TAIL, 1, .options = { 0 } },
	{ "[" ONE ",{\"name\":\"[memory]\",\"ts\":NaN}]", "2: ", "\"NaN\"", "a0:512@0",
	  GP_SKIP_TAIL, 1, .options = { 0 } },
};

static void good_files_are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(good); i++)
		fmt_check_good(&good[i], "kineto");
}

static void bad_files_are_refused_or_skipped(void **state)
{
	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(bad); i++)
		fmt_check_bad(&bad[i]);
}

static void header_describes_the_device(void **state)
{
	static const char text[] =
		"{\"deviceProperties\":[7,{\"id\":1,\"name\":\"one\",\"totalGlobalMem\":1},\n"
		"{\"id\":0,\"x\":{\"name\":\"no\"},\"name\":\"NVIDIA H200\",\"totalGlobalMem\":"
		"150109880320,\"numSms\":132}],\"traceEvents\":[" ONE "]}";
	struct gp_trace *t;
	char why[512];

	(void)state;
	assert_int_equal(fmt_load(text, strlen(text), NULL, &t, why, sizeof(why)), 0);
	assert_string_equal(t->device_name, "NVIDIA H200");
	assert_int_equal(t->device_bytes, 150109880320);
	assert_string_equal(t->source, "PyTorch profiler");
	gp_trace_destroy(t);
}

/* A file cut anywhere is refused; leniently it is what came before, or refused. */
static void every_truncation_is_noticed(void **state)
{
	static const char text[] = TRACE(OTHER ONE ",\n" GPU("2", "-512", "4096", "0", "2"));
	struct gp_trace_options lenient = { .lenient = true };
	struct gp_trace *t;
	char why[512];

	(void)state;
	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		assert_int_equal(fmt_load(text, n, NULL, &t, why, sizeof(why)), -EINVAL);
		if (!fmt_load(text, n, &lenient, &t, why, sizeof(why))) {
			assert_int_equal(t->skipped[GP_SKIP_TAIL], 1);
			assert_in_range(t->n_events, 1, 2);
			gp_trace_destroy(t);
		}
	}
}

/* What is passed over has no limits but its depth. */
static void long_strings_pass_and_deep_nesting_does_not(void **state)
{
	static const char before[] = "{\"traceEvents\":[" ONE ",{\"name\":\"x\",\"args\":{\"s\":";
	size_t n = 4 * GP_JSON_TEXT, at = sizeof(before) - 1;
	char *text = malloc(at + n + 16);
	struct gp_trace *t;
	char why[512];

	(void)state;
	assert_non_null(text);
	memcpy(text, before, at);
	memset(text + at, 's', n);
	text[at] = '"';
	text[at + n - 1] = '"';
	memcpy(text + at + n, "}}]}", 5);
	assert_int_equal(fmt_load(text, strlen(text), NULL, &t, why, sizeof(why)), 0);
	gp_trace_destroy(t);
	memset(text + at, '[', n);
	assert_int_equal(fmt_load(text, strlen(text), NULL, &t, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "expected nothing nested deeper than 64 levels"));
	memset(text + at, '[', 60); /* with those around it 64 */
	memset(text + at + 60, ']', 60);
	memcpy(text + at + 120, "}}]}", 5);
	assert_int_equal(fmt_load(text, strlen(text), NULL, &t, why, sizeof(why)), 0);
	gp_trace_destroy(t);
	free(text);
}

static void more_owners_than_there_is_room_for_are_refused(void **state)
{
	char *text = NULL, why[512];
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct gp_trace *t;

	(void)state;
	assert_non_null(f);
	fputs("[", f);
	for (int i = 0; i < 65; i++)
		fprintf(f,
			"%s{\"ph\":\"i\",\"pid\":%d,\"name\":\"[memory]\",\"ts\":1,\"args\":{" ON(
				"1", "0", "1", "1", "0", "0") "}}",
			i ? ",\n" : "", i);
	fputs("]", f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(fmt_load(text, size, NULL, &t, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "in:65: memory of one device or process more"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_files_are_read),
		cmocka_unit_test(bad_files_are_refused_or_skipped),
		cmocka_unit_test(header_describes_the_device),
		cmocka_unit_test(every_truncation_is_noticed),
		cmocka_unit_test(long_strings_pass_and_deep_nesting_does_not),
		cmocka_unit_test(more_owners_than_there_is_room_for_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
