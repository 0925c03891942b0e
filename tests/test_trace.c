/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces that are right: what they become in memory, whatever the spelling; the recordings of
 * traces/ to the byte; and what the file system can do to a load.
 *
 * GPUPOOL_TRACE_DIR names the folder traces/.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/formats/format.h"

static struct gp_trace *load_text(const char *text)
{
	struct gp_input *in = gp_input_open_memory("text", text, strlen(text));
	struct gp_trace *t = NULL;
	char why[512] = "";

	assert_non_null(in);
	if (gp_trace_load_input(in, NULL, &t, why, sizeof(why)))
		fail_msg("%s", why);
	gp_input_close(in);
	return t;
}

static const char *trace_path(const char *name)
{
	static char path[1024];
	const char *dir = getenv("GPUPOOL_TRACE_DIR");

	if (!dir)
		fail_msg("GPUPOOL_TRACE_DIR is not set");
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static struct gp_trace *load_file(const char *name)
{
	struct gp_trace *t = NULL;
	char why[512] = "";

	if (gp_trace_load(trace_path(name), NULL, &t, why, sizeof(why)))
		fail_msg("%s", why);
	return t;
}

/* The invariants of trace_builder.c, looked at from outside. */
static void audit(const struct gp_trace *t)
{
	uint64_t live = 0, load = 0, allocs = 0, frees = 0;

	for (size_t i = 0; i < t->n_events; i++) {
		const struct gp_event *e = &t->events[i];
		bool deferred = gp_event_flags(e) & GP_EVENT_DEFERRED;

		assert_true(e->op < GP_OP_N);
		assert_true(e->stream < t->n_streams && e->thread < t->n_threads);
		assert_true(!i || e->t_ns >= e[-1].t_ns);
		assert_true(!deferred || e->op == GP_OP_FREE);
		if (e->op == GP_OP_ALLOC) {
			assert_int_equal(e->id, allocs++);
			live += e->size;
			load = gp_max_u64(load, live);
			if (e->link != GP_EVENT_NONE) {
				assert_true(e->link > i && e->link < t->n_events);
				assert_int_equal(t->events[e->link].op, GP_OP_FREE);
				assert_int_equal(t->events[e->link].id, e->id);
			}
		} else if (e->op == GP_OP_FREE || e->op == GP_OP_RECLAIM) {
			const struct gp_event *other = &t->events[e->link];

			assert_true(e->link < t->n_events);
			assert_int_equal(other->op, deferred ? GP_OP_RECLAIM : GP_OP_ALLOC);
			assert_true(deferred ? other > e : other < e);
			assert_int_equal(other->id, e->id);
			assert_int_equal(other->size, e->size);
			assert_int_equal(other->stream, e->stream);
			frees += e->op == GP_OP_FREE;
			live -= deferred ? 0 : e->size;
		} else if (e->op == GP_OP_MARK) {
			assert_true(e->id < t->n_marks);
		}
	}
	assert_int_equal(allocs, t->n_allocs);
	assert_int_equal(allocs, t->n_ids);
	assert_int_equal(frees, t->n_frees);
	assert_int_equal(load, t->load_bytes);
}

#define HEADER                                                                                     \
	"\"format\":\"gpupool-trace\",\"version\":1,\"name\":\"n\",\"source\":\"s\","              \
	"\"device\":{\"name\":\"d\",\"total_bytes\":12345678901234567890}"
#define EVENTS(comma)                                                                              \
	"{\"op\":\"mark\",\"name\":\"gr\\u00fc\\n\\ud83d\\ude00\",\"t\":1}" comma "\n"             \
	"{\"op\":\"alloc\",\"id\":18446744073709551615,\"size\":100,\"stream\":77,\"thread\":9,"   \
	"\"align\":1,\"t\":2}" comma "\n"                                                          \
	"{\"t\":3,\"addr\":4096,\"align\":4096,\"size\":0,\"pool\":255,\"id\":0,"                  \
	"\"op\":\"alloc\"}" comma "\n"                                                             \
	"{\"op\":\"free\",\"id\":18446744073709551615,\"thread\":4,\"stream\":5,\"t\":3}" comma    \
	"\n"                                                                                       \
	"{\"op\":\"free\",\"id\":0,\"size\":0,\"t\":4}" comma "\n"                                 \
	"{\"op\":\"alloc\",\"id\":0,\"size\":50,\"t\":5}" comma "\n"                               \
	"{\"op\":\"reclaim\",\"id\":18446744073709551615,\"t\":6}" comma "\n"                      \
	"{\"op\":\"segment_alloc\",\"size\":2097152,\"addr\":8192,\"stream\":77,\"t\":7}" comma    \
	"\n"                                                                                       \
	"{\"op\":\"trim\",\"t\":8}\n"

static void check_fields(const char *text)
{
	struct gp_trace *t = load_text(text);
	const struct gp_event *e = t->events;

	audit(t);
	assert_string_equal(t->name, "n");
	assert_string_equal(t->source, "s");
	assert_string_equal(t->device_name, "d");
	assert_string_equal(t->path, "text");
	assert_true(t->device_bytes == UINT64_C(12345678901234567890));
	assert_int_equal(t->n_events, 9);
	assert_int_equal(t->n_ids, 3);
	assert_int_equal(t->n_streams, 2); /* 77, 0: that of a free does not count */
	assert_int_equal(t->stream_handles[0], 77);
	assert_int_equal(t->stream_handles[1], 0);
	assert_int_equal(t->n_threads, 3); /* 9, 0, 4 */
	assert_int_equal(t->load_bytes, 150);
	assert_int_equal(t->load_event, 5);
	assert_int_equal(t->n_marks, 1);
	assert_string_equal(t->marks[0], "gr\xc3\xbc?\xf0\x9f\x98\x80");
	assert_int_equal(gp_event_lg_align(&e[1]), 0);
	assert_int_equal(gp_event_lg_align(&e[2]), 12);
	assert_int_equal(gp_event_flags(&e[3]), GP_EVENT_DEFERRED);
	assert_int_equal(e[3].link, 6);
	assert_int_equal(e[3].thread, 2);
	assert_int_equal(e[6].link, 1);
	assert_int_equal(e[6].size, 100);
	assert_int_equal(e[6].thread, 2);
	assert_int_equal(gp_event_flags(&e[4]), 0);
	assert_int_equal(e[4].link, 2);
	assert_int_equal(e[5].link, GP_EVENT_NONE);
	assert_non_null(t->addrs);
	assert_int_equal(t->addrs[1], 0);
	assert_int_equal(t->addrs[2], 4096);
	assert_int_equal(t->addrs[7], 8192);
	assert_non_null(t->pools);
	for (size_t i = 0; i < t->n_events; i++)
		assert_int_equal(t->pools[i], i == 2 ? 255 : 0);
	assert_int_equal(e[8].t_ns, 8);
	assert_null(gp_trace_destroy(t));
}

static void all_fields_are_read_in_both_spellings(void **state)
{
	(void)state;
	check_fields("{" HEADER ",\"events\":[\n" EVENTS(",") "]}");
	check_fields("{\"events\":[" EVENTS(",") "],\"later\":{\"x\":[1,-2.5e-3,null]}," HEADER
						 "}\r\n");
	check_fields("{" HEADER ",\"n_events\":9,\"later\":[[]]}\n" EVENTS(""));
	check_fields("\n {" HEADER "}\r\n\r\n" EVENTS("\r") "\n");
}

static void an_empty_trace_has_a_stream_and_a_thread(void **state)
{
	static const char *const texts[] = {
		"{" HEADER ",\"events\":[]}",
		"{" HEADER ",\"n_events\":0}",
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(texts); i++) {
		struct gp_trace *t = load_text(texts[i]);

		assert_int_equal(t->n_events, 0);
		assert_int_equal(t->n_streams, 1);
		assert_int_equal(t->stream_handles[0], 0);
		assert_int_equal(t->n_threads, 1);
		assert_int_equal(t->load_bytes, 0);
		assert_null(t->addrs);
		gp_trace_destroy(t);
	}
	assert_null(gp_trace_destroy(NULL));
}

/* Names are shown on terminals: no escape sequence gets through. */
static void control_characters_in_names_are_replaced(void **state)
{
	struct gp_trace *t =
		load_text("{\"format\":\"gpupool-trace\",\"version\":1,"
			  "\"name\":\"a\\u001b[2J\\u007f\\u009b1\xc2\x85?\",\"events\":[]}");

	(void)state;
	assert_string_equal(t->name, "a?[2J???1???");
	gp_trace_destroy(t);
}

static void the_builder_grows_and_keeps_what_it_has(void **state)
{
	struct gp_trace_builder *b = gp_trace_builder_create("made", NULL);
	struct gp_trace *t;

	(void)state;
	assert_non_null(b);
	for (uint64_t i = 0; i < 50000; i++) {
		struct gp_trace_record r = {
			.op = GP_OP_ALLOC,
			.id = i * i,
			.size = i,
			.stream = i % 1000,
			.t_ns = i,
			.addr = i == 40000 ? 512 : 0,
			.pool = i >= 30000 ? i % 256 : 0,
			.mark = "m",
		};

		assert_int_equal(gp_trace_builder_add(b, &r, 0), 0);
		r.op = i % 3 ? GP_OP_FREE : GP_OP_MARK;
		assert_int_equal(gp_trace_builder_add(b, &r, 0), 0);
	}
	assert_int_equal(gp_trace_builder_finish(b, &t), 0);
	assert_null(gp_trace_builder_destroy(b));
	audit(t);
	assert_int_equal(t->n_events, 100000);
	assert_int_equal(t->n_streams, 1000);
	assert_int_equal(t->n_marks, 16667);
	assert_int_equal(t->addrs[80000], 512);
	assert_int_equal(t->addrs[79998], 0);
	for (size_t i = 0; i < t->n_events; i++)
		assert_int_equal(t->pools[i], i % 2 || i < 60000 ? 0 : i / 2 % 256);
	assert_int_equal(t->events[99999].size, 49999);
	gp_trace_destroy(t);
}

/* ---- the traces of this project ---- */

#ifdef GP_TEST_ZLIB

static void recordings_have_the_load_that_was_measured(void **state)
{
	static const struct {
		const char *name;
		uint64_t events, allocs, frees, load;
		uint32_t streams;
	} want[] = {
		{ "llm_train.jsonl.gz", 46256, 23059, 23056, 9961490336, 1 },
		{ "llm_serve.jsonl.gz", 132284, 66124, 66123, 688460032, 1 },
		{ "vision_train.jsonl.gz", 24604, 12234, 12231, 4069464604, 1 },
		{ "diffusion.jsonl.gz", 17099, 8528, 8528, 522007744, 1 },
		{ "multi_stream.jsonl.gz", 13670, 5835, 5832, 1717075968, 3 },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(want); i++) {
		struct gp_trace *t = load_file(want[i].name);

		audit(t);
		assert_int_equal(t->n_events, want[i].events);
		assert_int_equal(t->n_allocs, want[i].allocs);
		assert_int_equal(t->n_frees, want[i].frees);
		assert_int_equal(t->load_bytes, want[i].load);
		assert_int_equal(t->n_streams, want[i].streams);
		assert_int_equal(t->device_bytes, 150109880320);
		assert_non_null(t->addrs);
		gp_trace_destroy(t);
	}
}

#endif

static void the_cut_begins_with_what_was_live(void **state)
{
	struct gp_trace *t = load_file("llm.json");

	(void)state;
	audit(t);
	assert_string_equal(t->marks[0], "live before the cut");
	assert_string_equal(t->marks[1], "step 6");
	assert_string_equal(t->marks[t->n_marks - 1], "step 11");
	assert_int_equal(t->n_marks, 8);
	assert_int_equal(t->events[1 + 449].op, GP_OP_MARK);
	/* A step ends with as many blocks live as it began with. */
	assert_int_equal(t->n_allocs - t->n_frees, 449);
	assert_int_equal(t->load_bytes, 9905417496);
	gp_trace_destroy(t);
}

static void the_tiny_traces_load(void **state)
{
	static const struct {
		const char *name;
		uint64_t events, load;
	} want[] = {
		{ "tiny_empty.json", 0, 0 },          { "tiny_lifo.json", 10, 3149924 },
		{ "tiny_lines.jsonl", 6, 20480 },     { "tiny_one_event.json", 1, 1000 },
		{ "tiny_oom.json", 14, 104857600 },   { "tiny_recording.json", 12, 4195840 },
		{ "tiny_streams.json", 13, 3145728 }, { "tiny_threads.json", 8, 196608 },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(want); i++) {
		struct gp_trace *t = load_file(want[i].name);

		audit(t);
		assert_int_equal(t->n_events, want[i].events);
		assert_int_equal(t->load_bytes, want[i].load);
		gp_trace_destroy(t);
	}
}

/* The text between the line "```LANGUAGE" and the next "```", cut out in place. */
static char *fenced(char *text, const char *language)
{
	char fence[32];
	char *from, *to;

	snprintf(fence, sizeof(fence), "```%s\n", language);
	from = strstr(text, fence);
	assert_non_null(from);
	from += strlen(fence);
	to = strstr(from, "```");
	assert_non_null(to);
	*to = '\0';
	return from;
}

static void the_examples_of_the_format_page_load(void **state)
{
	static char page[65536];
	FILE *f = fopen(trace_path("FORMAT.md"), "r");
	struct gp_trace *t;
	char *example;
	size_t n;

	(void)state;
	assert_non_null(f);
	n = fread(page, 1, sizeof(page) - 1, f);
	fclose(f);
	page[n] = '\0';
	example = fenced(page, "json");
	t = load_text(example);
	audit(t);
	assert_int_equal(t->n_events, 9);
	assert_int_equal(t->load_bytes, 154389504 + 4096);
	gp_trace_destroy(t);
	t = load_text(fenced(example + strlen(example) + 1, "jsonl"));
	audit(t);
	assert_int_equal(t->n_events, 2);
	gp_trace_destroy(t);
}

/* ---- files ---- */

static void refuses_path(const char *path, int want, const char *what)
{
	struct gp_trace *t = NULL;
	char why[512] = "";

	assert_int_equal(gp_trace_load(path, NULL, &t, why, sizeof(why)), want);
	assert_null(t);
	assert_int_equal(strncmp(why, path, strlen(path)), 0);
	if (!strstr(why, what) || !strstr(why, "expected "))
		fail_msg("\"%s\" lacks \"%s\"", why, what);
}

static void what_is_no_file_is_refused(void **state)
{
	(void)state;
	refuses_path("/nonexistent/trace.json", -ENOENT, "No such file");
	refuses_path("/", -EISDIR, "Is a directory");
	refuses_path("/dev/null", -EINVAL, ":1: the file is empty");
	refuses_path("", -ENOENT, "No such file");
}

static void standard_input_is_read(void **state)
{
	int saved = dup(STDIN_FILENO);
	struct gp_trace *t = NULL;
	char why[512] = "";
	int r;

	(void)state;
	assert_non_null(freopen(trace_path("tiny_lifo.json"), "r", stdin));
	r = gp_trace_load("-", NULL, &t, why, sizeof(why));
	dup2(saved, STDIN_FILENO);
	close(saved);
	if (r)
		fail_msg("%s", why);
	assert_int_equal(t->n_events, 10);
	assert_string_equal(t->path, "-");
	gp_trace_destroy(t);
}

struct progress {
	uint64_t calls, done, total;
};

static void count_progress(void *arg, uint64_t done, uint64_t total)
{
	struct progress *p = arg;

	assert_true(done >= p->done && done <= total);
	p->calls++;
	p->done = done;
	p->total = total;
}

static void progress_ends_at_the_size_of_the_file(void **state)
{
	struct progress p = { 0 };
	struct gp_trace_options options = { .progress = count_progress, .progress_arg = &p };
	struct gp_trace *t;
	struct stat st;
	char why[512];

	(void)state;
	assert_int_equal(stat(trace_path("llm.json"), &st), 0);
	assert_int_equal(gp_trace_load(trace_path("llm.json"), &options, &t, why, sizeof(why)), 0);
	gp_trace_destroy(t);
	assert_true(p.calls > 3);
	assert_int_equal(p.done, st.st_size);
	assert_int_equal(p.total, st.st_size);
}

static void formats_are_found_by_name_and_content(void **state)
{
	size_t n = 0;

	(void)state;
	for (; gp_format_at(n); n++) {
		const struct gp_format *f = gp_format_at(n);

		assert_true(f->name && *f->name && f->summary && *f->summary);
		assert_int_equal(f->probe((const unsigned char *)"", 0), GP_FORMAT_NO);
		for (size_t i = 0; i < n; i++)
			assert_string_not_equal(f->name, gp_format_at(i)->name);
	}
	assert_true(n >= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_fields_are_read_in_both_spellings),
		cmocka_unit_test(an_empty_trace_has_a_stream_and_a_thread),
		cmocka_unit_test(control_characters_in_names_are_replaced),
		cmocka_unit_test(the_builder_grows_and_keeps_what_it_has),
#ifdef GP_TEST_ZLIB
		cmocka_unit_test(recordings_have_the_load_that_was_measured),
#endif
		cmocka_unit_test(the_cut_begins_with_what_was_live),
		cmocka_unit_test(the_tiny_traces_load),
		cmocka_unit_test(the_examples_of_the_format_page_load),
		cmocka_unit_test(what_is_no_file_is_refused),
		cmocka_unit_test(standard_input_is_read),
		cmocka_unit_test(progress_ends_at_the_size_of_the_file),
		cmocka_unit_test(formats_are_found_by_name_and_content),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
