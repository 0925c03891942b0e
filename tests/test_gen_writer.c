/* SPDX-License-Identifier: Apache-2.0
 *
 * test_gen_writer: the random numbers under gpupool-gen, and the text and the file on top of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>

#include "gen_trace.h"

/* ---- numbers ---- */

static void test_rng_known_answers(void **state)
{
	/* splitmix64 of seed 1234567 and xoshiro256** from the state 1, 2, 3, 4: values that other
	 * implementations test against too. */
	struct gen_rng rng = { { 1, 2, 3, 4 } };
	uint64_t seed = 1234567;

	(void)state;
	assert_true(gen_rng_splitmix(&seed) == UINT64_C(6457827717110365317));
	assert_true(gen_rng_splitmix(&seed) == UINT64_C(3203168211198807973));
	assert_true(gen_rng_next(&rng) == 11520);
	assert_true(gen_rng_next(&rng) == 0);
	assert_true(gen_rng_next(&rng) == 1509978240);
	assert_true(gen_rng_next(&rng) == UINT64_C(1215971899390074240));
}

static void test_rng_below(void **state)
{
	struct gen_rng rng;
	unsigned counts[7] = { 0 };

	(void)state;
	gen_rng_seed(&rng, 0);
	for (int i = 0; i < 70000; i++)
		counts[gen_rng_below(&rng, 7)]++;
	for (int i = 0; i < 7; i++)
		assert_in_range(counts[i], 9600, 10400); /* 4 sigma of 10 000 +- 93 */
	assert_int_equal(gen_rng_below(&rng, 1), 0);
	for (int i = 0; i < 1000; i++) {
		double x = gen_rng_unit(&rng);

		assert_true(x >= 0 && x < 1);
	}
}

/* ---- writer ---- */

static void test_json_has_the_same_events(void **state)
{
	struct gen g = begin("churn");
	char *lines, *json;

	(void)state;
	set(&g, "count", 2);
	write_trace(&g, GEN_JSONL);
	lines = slurp(path);
	write_trace(&g, GEN_JSON);
	json = slurp(path);
	assert_string_equal(strchr(lines, '\n'), "\n{\"op\":\"alloc\",\"id\":1,\"size\":1048576}\n"
						 "{\"op\":\"free\",\"id\":1}\n"
						 "{\"op\":\"alloc\",\"id\":2,\"size\":1048576}\n"
						 "{\"op\":\"free\",\"id\":2}\n");
	assert_string_equal(strstr(json, ",\"events\""),
			    ",\"events\":[\n{\"op\":\"alloc\",\"id\":1,\"size\":1048576},\n"
			    "{\"op\":\"free\",\"id\":1},\n"
			    "{\"op\":\"alloc\",\"id\":2,\"size\":1048576},\n"
			    "{\"op\":\"free\",\"id\":2}\n]}\n");
	free(lines);
	free(json);
}

static void test_extension_decides(void **state)
{
	(void)state;
	assert_int_equal(gen_format_of("a.json"), GEN_JSON);
	assert_int_equal(gen_format_of("a.json.gz"), GEN_JSON);
	assert_int_equal(gen_format_of("a.jsonl"), GEN_JSONL);
	assert_int_equal(gen_format_of("json"), GEN_JSONL);
	assert_int_equal(gen_format_of(".gz"), GEN_JSONL);
	assert_int_equal(gen_format_of(NULL), GEN_JSONL);
	assert_int_equal(gen_format_of("-"), GEN_JSONL);
	assert_true(gen_gzip_of("a.gz"));
	assert_false(gen_gzip_of("a.gzip"));
	assert_false(gen_gzip_of("-"));
}

static void test_header_is_quoted(void **state)
{
	struct gen_writer *w;
	char why[256], *text;

	(void)state;
	assert_int_equal(gen_writer_create(path, GEN_JSONL, false, &w, why, sizeof(why)), 0);
	gen_writer_header(w, "a \"b\" \\c", "x", 0);
	assert_int_equal(gen_writer_commit(w, why, sizeof(why)), 0);
	gen_writer_destroy(w);
	text = slurp(path);
	assert_string_equal(text,
			    "{\"format\":\"gpupool-trace\",\"version\":1,"
			    "\"name\":\"a \\\"b\\\" \\\\c\",\"source\":\"x\",\"n_events\":0}\n");
	free(text);
}

static unsigned count_files(void)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2; /* "." and ".." */
}

static void test_unfinished_leaves_nothing(void **state)
{
	struct gen_writer *w;
	char why[256];

	(void)state;
	unlink(path);
	assert_int_equal(count_files(), 0);
	assert_int_equal(gen_writer_create(path, GEN_JSONL, false, &w, why, sizeof(why)), 0);
	gen_writer_header(w, "x", "x", 1);
	assert_int_equal(access(path, F_OK), -1);
	assert_null(gen_writer_destroy(w));
	assert_int_equal(count_files(), 0);
	assert_int_equal(
		gen_writer_create("/nonexistent/x", GEN_JSONL, false, &w, why, sizeof(why)),
		-ENOENT);
	assert_non_null(strstr(why, "/nonexistent/x"));
}

static void test_full_disk(void **state)
{
	struct gen g = begin("churn");
	char why[256];

	(void)state;
	if (access("/dev/full", W_OK) != 0) {
		print_message("# no /dev/full here\n");
		return;
	}
	set(&g, "count", 1000000);
	assert_int_equal(
		gen_writer_create("/dev/full", GEN_JSONL, false, &g.writer, why, sizeof(why)), 0);
	assert_int_equal(gen_run(&g), -ENOSPC);
	assert_true(g.n_events < 100000); /* it stopped early */
	assert_int_equal(gen_writer_commit(g.writer, why, sizeof(why)), -ENOSPC);
	gen_writer_destroy(g.writer);
}

static void test_command_repeats_every_option(void **state)
{
	struct gen g = begin("sawtooth");
	char command[512];

	(void)state;
	set(&g, "keep", 1);
	g.seed = 9;
	gen_command(&g, command, sizeof(command));
	assert_string_equal(command, "gpupool-gen sawtooth --peak=8589934592 --size=16777216 "
				     "--period=0 --low=0.1 --rounds=10 --jitter=0 --keep --seed=9 "
				     "--streams=1 --threads=1 --interval=0");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rng_known_answers),
		cmocka_unit_test(test_rng_below),
		cmocka_unit_test(test_json_has_the_same_events),
		cmocka_unit_test(test_extension_decides),
		cmocka_unit_test(test_header_is_quoted),
		cmocka_unit_test(test_unfinished_leaves_nothing),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_command_repeats_every_option),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
