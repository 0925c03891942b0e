/* SPDX-License-Identifier: Apache-2.0
 *
 * test_writers: what traces look like when they are written, and that gpupool's own formats lose
 * nothing. GPUPOOL_TRACE_DIR names the folder traces/.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include "replay/writers/json_text.h"
#include "replay/writers/writer.h"
#include "same_trace.h"

static void save(const char *writer, const struct gp_trace *t, const char *path, bool gzip)
{
	char why[512] = "";

	assert_non_null(gp_writer_find(writer));
	if (gp_writer_save(gp_writer_find(writer), t, path, gzip, NULL, why, sizeof(why)))
		fail_msg("%s", why);
}

static void writes(const char *writer, const struct gp_trace *t, const char *want)
{
	size_t n;
	char *text;

	save(writer, t, same_path("out"), false);
	text = same_slurp(same_path("out"), &n);
	assert_string_equal(text, want);
	free(text);
}

/* ---- the texts ---- */

#define RICH_HEADER                                                                                \
	"{\"format\":\"gpupool-trace\",\"version\":1,\"name\":\"rich \\\"name\\\"\","              \
	"\"source\":\"a\\\\b\",\"device\":{\"name\":\"device\",\"total_bytes\":1073741824},"       \
	"\"notes\":[\"two blocks were live before\",\"and a second note\"],\"n_events\":18"

#define RICH_EVENTS(end)                                                                           \
	"{\"op\":\"alloc\",\"id\":1,\"size\":4096,\"stream\":32512,\"addr\":512,"                  \
	"\"pool\":255,\"assumed\":true}" end                                                       \
	"{\"op\":\"alloc\",\"id\":2,\"size\":64,\"thread\":3,\"assumed\":true}" end                \
	"{\"op\":\"mark\",\"name\":\"warm-up \\\"1\\\" \\\\ gr\xc3\xbc\",\"t\":10}" end            \
	"{\"op\":\"alloc\",\"id\":3,\"size\":1048576,\"stream\":5,\"thread\":77,\"align\":512,"    \
	"\"addr\":16777216,\"t\":20}" end                                                          \
	"{\"op\":\"alloc\",\"id\":4,\"size\":0,\"thread\":3,\"t\":20}" end                         \
	"{\"op\":\"free\",\"id\":3,\"thread\":78,\"t\":86400000000000}" end                        \
	"{\"op\":\"segment_alloc\",\"size\":2097152,\"stream\":5,\"addr\":33554432,"               \
	"\"pool\":3,\"t\":86400000000000}" end                                                     \
	"{\"op\":\"segment_map\",\"size\":2097152,\"addr\":67108864,\"t\":86400000000000}" end     \
	"{\"op\":\"alloc\",\"id\":5,\"size\":300,\"stream\":18446744073709551615,"                 \
	"\"thread\":18446744073709551615,\"t\":86400000001000}" end                                \
	"{\"op\":\"free\",\"id\":1,\"t\":86400000001000}" end                                      \
	"{\"op\":\"reclaim\",\"id\":1,\"t\":86400000001001}" end                                   \
	"{\"op\":\"free\",\"id\":5,\"thread\":77,\"t\":86400000001002}" end                        \
	"{\"op\":\"oom\",\"size\":1099511627776,\"stream\":5,\"thread\":77,"                       \
	"\"t\":86400000001002}" end "{\"op\":\"sync\",\"thread\":3,\"t\":86400000001003}" end      \
	"{\"op\":\"trim\",\"t\":86400000001003}" end                                               \
	"{\"op\":\"segment_unmap\",\"size\":2097152,\"addr\":67108864,\"t\":86400000001004}" end   \
	"{\"op\":\"segment_free\",\"size\":2097152,\"stream\":5,\"addr\":33554432,"                \
	"\"t\":86400000001004}" end "{\"op\":\"mark\",\"name\":\"\",\"t\":9223372036854775808}"

static void json_says_everything(void **state)
{
	struct gp_trace *t = rich_trace();

	(void)state;
	writes("jsonl", t, RICH_HEADER "}\n" RICH_EVENTS("\n") "\n");
	writes("json", t, RICH_HEADER ",\"events\":[\n" RICH_EVENTS(",\n") "\n]}\n");
	gp_trace_destroy(t);
	t = trace_of(NULL, 0);
	writes("jsonl", t,
	       "{\"format\":\"gpupool-trace\",\"version\":1,\"name\":\"\",\"source\":\"\","
	       "\"n_events\":0}\n");
	writes("json", t,
	       "{\"format\":\"gpupool-trace\",\"version\":1,\"name\":\"\",\"source\":\"\","
	       "\"n_events\":0,\"events\":[\n]}\n");
	gp_trace_destroy(t);
}

/* The day wraps; blocks without an address get one that nobody else has. */
static void rmm_log_has_the_form_of_rmm(void **state)
{
	struct gp_trace *t = rich_trace();

	(void)state;
	writes("rmm_csv", t,
	       "Thread,Time,Action,Pointer,Size,Stream\n"
	       "0,00:00:00.000000,allocate,0x200,4096,0x7f00\n"
	       "3,00:00:00.000000,allocate,0x7e0000000000,64,0\n"
	       "77,00:00:00.000000,allocate,0x1000000,1048576,0x5\n"
	       "3,00:00:00.000000,allocate,0x7e0000000100,0,0\n"
	       "78,00:00:00.000000,free,0x1000000,1048576,0x5\n"
	       "18446744073709551615,00:00:00.000001,allocate,0x7e0000000200,300,"
	       "0xffffffffffffffff\n"
	       "0,00:00:00.000001,free,0x200,4096,0x7f00\n"
	       "77,00:00:00.000001,free,0x7e0000000200,300,0xffffffffffffffff\n"
	       "77,00:00:00.000001,allocate failure,(nil),1099511627776,0x5\n");
	gp_trace_destroy(t);
	t = TRACE_OF(ALLOC(.id = 1, .size = 1, .t_ns = UINT64_C(86399999999999)));
	writes("rmm_csv", t,
	       "Thread,Time,Action,Pointer,Size,Stream\n"
	       "0,23:59:59.999999,allocate,0x7e0000000000,1,0\n");
	gp_trace_destroy(t);
}

/* A block ends with its reclaim; what is never freed, with the trace. */
static void lifetimes_are_half_open(void **state)
{
	struct gp_trace *t = rich_trace();

	(void)state;
	writes("minimalloc_csv", t,
	       "id,lower,upper,size,alignment\n"
	       "b1,0,6,4096,1\n"
	       "b2,1,8,64,1\n"
	       "b3,2,4,1048576,512\n"
	       "b4,3,8,0,1\n"
	       "b5,5,7,300,1\n");
	gp_trace_destroy(t);
	t = TRACE_OF(ALLOC(.id = 1, .size = 10), SYNC(), FREE(.id = 1), ALLOC(.id = 1, .size = 5));
	writes("minimalloc_csv", t, "id,lower,upper,size\nb1,0,1,10\nb2,2,3,5\n");
	gp_trace_destroy(t);
}

static void losses_are_named(void **state)
{
	struct gp_trace *t = rich_trace();
	char text[512];

	(void)state;
	assert_string_equal(gp_writer_losses(gp_writer_find("jsonl"), t, text, sizeof(text)), "");
	assert_string_equal(gp_writer_losses(gp_writer_find("binary"), t, text, sizeof(text)), "");
	assert_string_equal(gp_writer_losses(gp_writer_find("rmm_csv"), t, text, sizeof(text)),
			    "1 reclaim, 1 sync, 1 trim, 2 mark, 1 segment_alloc, 1 segment_free, "
			    "1 segment_map, 1 segment_unmap, name, source and notes, alignment, "
			    "private pools");
	assert_string_equal(gp_writer_losses(gp_writer_find("rmm_csv"), t, text, 12),
			    "1 reclaim, ");
	gp_trace_destroy(t);
	t = TRACE_OF(ALLOC(.id = 1, .size = 10));
	assert_string_equal(
		gp_writer_losses(gp_writer_find("minimalloc_csv"), t, text, sizeof(text)), "");
	gp_trace_destroy(t);
}

/* ---- there and back ---- */

static void goes_round(const struct gp_trace *t)
{
	static const char *const names[] = { "json", "binary", "jsonl", "binary", "json" };
	const struct gp_trace *from = t;
	struct gp_trace *next = NULL;
	char *first, *last;
	size_t n_first, n_last;

	for (size_t i = 0; i < GP_ARRAY_LEN(names); i++) {
		struct gp_trace *read;

		save(names[i], from, same_path(i ? "round" : "first"), false);
		read = same_load(same_path(i ? "round" : "first"));
		same_trace(t, read);
		gp_trace_destroy(next);
		from = next = read;
	}
	gp_trace_destroy(next);
	first = same_slurp(same_path("first"), &n_first);
	last = same_slurp(same_path("round"), &n_last);
	assert_int_equal(n_first, n_last);
	assert_memory_equal(first, last, n_first);
	free(first);
	free(last);
}

static void nothing_is_lost_on_the_way(void **state)
{
	static const char *const names[] = {
		"llm.json",
		"tiny_empty.json",
		"tiny_lifo.json",
		"tiny_lines.jsonl",
		"tiny_one_event.json",
		"tiny_oom.json",
		"tiny_recording.json",
		"tiny_streams.json",
		"tiny_threads.json",
	};
	struct gp_trace *t = rich_trace();
	char path[1024];

	(void)state;
	goes_round(t);
	gp_trace_destroy(t);
	for (size_t i = 0; i < GP_ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", getenv("GPUPOOL_TRACE_DIR"), names[i]);
		t = same_load(path);
		goes_round(t);
		gp_trace_destroy(t);
	}
}

#ifdef GP_TEST_ZLIB

static void gzip_is_read_again(void **state)
{
	struct gp_trace *t = rich_trace(), *back;
	char why[512];

	(void)state;
	for (size_t i = 0; gp_writer_at(i); i++) {
		if (!(gp_writer_at(i)->keeps & GP_KEEP_HEADER))
			continue;
		assert_int_equal(gp_writer_save(gp_writer_at(i), t, same_path("packed"), true, NULL,
						why, sizeof(why)),
				 0);
		back = same_load(same_path("packed"));
		same_trace(t, back);
		assert_string_equal(back->format, gp_writer_at(i)->name);
		gp_trace_destroy(back);
	}
	gp_trace_destroy(t);
}

#endif

/* ---- which writer ---- */

static void writers_are_found(void **state)
{
	size_t n = 0;

	(void)state;
	for (; gp_writer_at(n); n++) {
		const struct gp_writer *w = gp_writer_at(n);
		char path[64];

		assert_ptr_equal(gp_writer_find(w->name), w);
		snprintf(path, sizeof(path), "a.b%s", w->ending);
		assert_ptr_equal(gp_writer_for_path(path), w);
		snprintf(path, sizeof(path), "a.b%s.gz", w->ending);
		assert_ptr_equal(gp_writer_for_path(path), w);
		assert_true(w->summary[0]);
	}
	assert_int_equal(n, 5);
	assert_null(gp_writer_find("csv"));
	assert_null(gp_writer_find(""));
	assert_null(gp_writer_for_path("a.csv"));
	assert_null(gp_writer_for_path(".gz"));
	assert_null(gp_writer_for_path("-"));
	assert_null(gp_writer_for_path("json"));
}

/* ---- whole or not at all ---- */

static unsigned count_files(void)
{
	DIR *d = opendir(same_dir);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2; /* "." and ".." */
}

static void an_interruption_leaves_nothing(void **state)
{
	static const volatile sig_atomic_t now = 1;
	struct gp_trace *t = rich_trace();
	unsigned before;
	char why[512];

	(void)state;
	save("jsonl", t, same_path("kept"), false);
	before = count_files();
	assert_int_equal(gp_writer_save(gp_writer_find("json"), t, same_path("kept"), false, &now,
					why, sizeof(why)),
			 -EINTR);
	assert_int_equal(count_files(), before);
	gp_trace_destroy(same_load(same_path("kept")));
	gp_trace_destroy(t);
}

static void what_cannot_be_written_is_told(void **state)
{
	struct gp_trace *t = rich_trace();
	char why[512];

	(void)state;
	assert_int_equal(gp_writer_save(gp_writer_find("json"), t, "/nonexistent/x", false, NULL,
					why, sizeof(why)),
			 -ENOENT);
	assert_string_equal(why, "/nonexistent/x: No such file or directory");
	if (access("/dev/full", W_OK) == 0) {
		assert_int_equal(gp_writer_save(gp_writer_find("binary"), t, "/dev/full", false,
						NULL, why, sizeof(why)),
				 -ENOSPC);
		assert_non_null(strstr(why, "/dev/full"));
	}
	gp_trace_destroy(t);
}

/* ---- text that is none ---- */

static void bad_text_becomes_good_text(void **state)
{
	struct gp_trace *t = TRACE_OF(MARK(.mark = "a\xff\xc0\x80\xed\xa0\x80\xf5"
						   "b\xe2\x82\xac\xc2\x80\x01"));

	(void)state;
	assert_string_equal(t->marks[0], "a???????b\xe2\x82\xac???");
	goes_round(t);
	gp_trace_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_says_everything),
		cmocka_unit_test(rmm_log_has_the_form_of_rmm),
		cmocka_unit_test(lifetimes_are_half_open),
		cmocka_unit_test(losses_are_named),
		cmocka_unit_test(nothing_is_lost_on_the_way),
#ifdef GP_TEST_ZLIB
		cmocka_unit_test(gzip_is_read_again),
#endif
		cmocka_unit_test(writers_are_found),
		cmocka_unit_test(an_interruption_leaves_nothing),
		cmocka_unit_test(what_cannot_be_written_is_told),
		cmocka_unit_test(bad_text_becomes_good_text),
	};

	return cmocka_run_group_tests(tests, same_make_dir, same_remove_dir);
}
