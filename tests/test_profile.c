/* SPDX-License-Identifier: Apache-2.0
 *
 * Device profiles: what is charged against what was measured (quantiles, their sum, sizes between
 * and beyond), the file and what is refused in it, and that the built-in profile is its file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocators/device/device.h"
#include "replay/profile.h"

/* A file with this text, which the caller unlinks. */
static const char *write_file(const char *text)
{
	static char path[64];
	FILE *f;
	int fd;

	snprintf(path, sizeof(path), "/tmp/gp-profile-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	f = fdopen(fd, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	return path;
}

static int load_text(const char *text, struct gp_profile **out, char *why, size_t why_size)
{
	const char *path = write_file(text);
	int r = gp_profile_load(path, out, why, why_size);

	unlink(path);
	return r;
}

#define SIGNATURE "{\"format\":\"gpupool-profile\",\"version\":1,"
#define NAMES     "\"name\":\"mine\",\"simulated\":false,\"machine\":{\"card\":\"A card\"},\n"
#define MEMORY    "\"memory\":{\"total_bytes\":2000,\"free_bytes\":1000,\"page_bytes\":2097152},\n"
#define ROW(size, t)                                                                               \
	"{\"size\":" #size ",\"n\":9,\"min_ns\":" #t ",\"p50_ns\":" #t ",\"p90_ns\":" #t           \
	",\"p99_ns\":" #t ",\"max_ns\":" #t "}"
#define MALLOCS                                                                                    \
	"\"cudaMalloc.held\":[" ROW(256, 10) "],\n\"cudaMalloc.pair\":[" ROW(2097152, 50) "]"
#define FREES                                                                                      \
	",\n\"cudaFree.held\":[" ROW(256, 11) "],\"cudaFree.pair\":[" ROW(1048576, 12) "," ROW(    \
		2097152, 51) "]"
#define FRONT SIGNATURE NAMES MEMORY
#define GOOD  FRONT "\"calls\":{" MALLOCS FREES "}}"

static void file_is_read(void **state)
{
	struct gp_profile *p = NULL;
	char why[200] = "";
	size_t n;

	(void)state;
	if (load_text(GOOD, &p, why, sizeof(why)))
		fail_msg("%s", why);
	assert_string_equal(p->name, "mine");
	assert_string_equal(p->card, "A card");
	assert_string_equal(p->cpu, "");
	assert_int_equal(p->total_bytes, 2000);
	assert_int_equal(p->n_rows, 5);
	assert_int_equal(gp_profile_rows(p, "cudaFree.pair", &n)[1].p99, 51);
	assert_int_equal(n, 2);
	assert_null(gp_profile_rows(p, "cudaFree", &n));
	assert_int_equal(n, 0);
	assert_int_equal(p->curves[GP_COST_CREATE].n, 0);
	assert_int_equal(gp_profile_nth_ns(p, GP_COST_CREATE, 1, 0), 0);
	assert_int_equal(gp_profile_mean_ns(p, GP_COST_CREATE, 1), 0);
	assert_int_equal(gp_profile_mean_ns(p, GP_COST_FREE_PAGES, 4 * GP_MIB), 102);
	assert_null(gp_profile_free(p));
	/* Keys in another order, and some of a later version. */
	assert_int_equal(load_text(SIGNATURE "\"later\":[{}]," MEMORY "\"calls\":{" MALLOCS FREES
					     ",\"new\":[]}," NAMES "\"notes\":[\"n\"]}",
				   &p, why, sizeof(why)),
			 0);
	gp_profile_free(p);
}

static void bad_files_are_refused(void **state)
{
	static const char *const cases[][2] = {
		{ "", ":1: " },
		{ "cudaMalloc.held\t256\t400\t34.4\n", ":1: " },
		{ "[]", ":1: \"the file\" is an array, expected an object" },
		{ "{}", ":1: no device profile, expected one made by gpupool-calibrate" },
		{ "{\"format\":\"gpupool-trace\"", ":1: no device profile" },
		{ "{\"format\":\"gpupool-profile\"}", "expected \"version\": 1" },
		{ "{\"format\":\"gpupool-profile\",\"version\":2}", "expected \"version\": 1" },
		{ SIGNATURE "\"name\":\"x\"}", "no \"simulated\"" },
		{ SIGNATURE "\"name\":7}", "\"name\" is a number, expected a string" },
		{ SIGNATURE "\"name\":\"x\",\"name\":\"y\"}", "key \"name\" twice" },
		{ SIGNATURE "\"name\":\"0123456789012345678901234567890123\"}",
		  "has 34 bytes, expected at most 31" },
		{ SIGNATURE "\"simulated\":0}", "expected true or false" },
		{ SIGNATURE "\"memory\":[]}", "\"memory\" is an array, expected an object" },
		{ SIGNATURE "\"memory\":{\"total_bytes\":1}}", "no \"free_bytes\"" },
		{ SIGNATURE "\"memory\":{\"total_bytes\":0}}", "expected a whole number from 1" },
		{ SIGNATURE
		  "\"memory\":{\"total_bytes\":1,\"free_bytes\":2,\"page_bytes\":2097152}}",
		  "free_bytes is 2, expected no more" },
		{ SIGNATURE "\"memory\":{\"total_bytes\":3,\"free_bytes\":2,\"page_bytes\":65536}}",
		  "page_bytes is 65536, expected 2097152" },
		{ FRONT "\"calls\":[]}", ":3: \"calls\" is an array" },
		{ FRONT "\"calls\":{\"a b\":[]}}", "\"a b\" cannot name a call" },
		{ FRONT "\"calls\":{\"\":[]}}", "cannot name a call" },
		{ FRONT "\"calls\":{\"a123456789012345678901234567890123\":[]}}",
		  "cannot name a call" },
		{ FRONT "\"calls\":{\"a\":{}}}", "\"a\" is an object, expected an array" },
		{ FRONT "\"calls\":{\"a\":[7]}}", "\"a\" is a number, expected an array of obj" },
		{ FRONT "\"calls\":{\"a\":[" ROW(0, 1) "]}}", "\"size\" is 0, expected" },
		{ FRONT "\"calls\":{\"a\":[" ROW(-5, 1) "]}}", "\"size\" is -5, expected" },
		{ FRONT "\"calls\":{\"a\":[" ROW(1e3, 1) "]}}", "\"size\" is 1e3, expected" },
		{ FRONT "\"calls\":{\"a\":[" ROW(99999999999999999999, 1) "]}}", "\"size\" is 9" },
		{ FRONT "\"calls\":{\"a\":[" ROW(1, 1.5) "]}}", "\"min_ns\" is 1.5, expected" },
		{ FRONT "\"calls\":{\"a\":[" ROW(1, NaN) "]}}", ":3: " },
		{ FRONT "\"calls\":{\"a\":[" ROW(1, null) "]}}", "\"min_ns\" is null, expected" },
		{ FRONT "\"calls\":{\"a\":[" ROW(1, 1000000000001) "]}}", "expected a whole" },
		{ FRONT "\"calls\":{\"a\":[" ROW(2, 1) ",\n" ROW(2, 1) "]}}",
		  ":4: \"a\": size 2 after 2, expected ascending sizes" },
		{ FRONT "\"calls\":{\"a\":[{\"size\":1,\"n\":1,\"min_ns\":5,\"p50_ns\":4,"
			"\"p90_ns\":6,\"p99_ns\":7,\"max_ns\":8}]}}",
		  "expected min_ns <= p50_ns" },
		{ FRONT "\"calls\":{\"a\":[{\"size\":1,\"n\":1,\"min_ns\":5,\"p50_ns\":5,"
			"\"p90_ns\":6,\"p99_ns\":7,\"max_ns\":8,\"mean_ns\":9}]}}",
		  "mean_ns is 9, expected one between" },
		{ FRONT "\"calls\":{\"a\":[{\"size\":1,\"n\":1}]}}", "no \"min_ns\"" },
		{ FRONT "\"calls\":{\"a\":[" ROW(1, 1) "],\"a\":[]}}", "key \"a\" twice" },
		{ FRONT "\"calls\":{" MALLOCS "}}",
		  "expected \"cudaFree.held\" with a size above 0" },
		{ FRONT "\"calls\":{" MALLOCS FREES "}", ":5: " },
		{ GOOD "{", ":5: " },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		struct gp_profile *p = NULL;
		char why[300] = "";

		assert_int_equal(load_text(cases[i][0], &p, why, sizeof(why)), -EINVAL);
		assert_null(p);
		if (!strstr(why, cases[i][1]) || strncmp(why, "/tmp/gp-profile-", 16) != 0)
			fail_msg("case %zu: got \"%s\"", i, why);
	}
}

static void unreadable_file_is_refused(void **state)
{
	struct gp_profile *p = NULL;
	char why[200] = "";

	(void)state;
	assert_int_equal(gp_profile_load("/nonexistent/p.json", &p, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "/nonexistent/p.json"));
}

/* One row too many of a call, and of all. */
static void too_many_rows_are_refused(void **state)
{
	size_t size = 8 << 20, used;
	char *text = malloc(size), why[200] = "";
	struct gp_profile *p = NULL;

	(void)state;
	assert_non_null(text);
	used = (size_t)snprintf(text, size, FRONT "\"calls\":{\"a\":[");
	for (unsigned i = 1; i <= GP_PROFILE_SIZES + 1; i++)
		used += (size_t)snprintf(text + used, size - used,
					 "%s{\"size\":%u,\"n\":1,\"min_ns\":1,\"p50_ns\":1,"
					 "\"p90_ns\":1,\"p99_ns\":1,\"max_ns\":1}",
					 i > 1 ? "," : "", i);
	assert_int_equal(load_text(text, &p, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "\"a\": one size more, expected at most 32"));
	used = (size_t)snprintf(text, size, FRONT "\"calls\":{");
	for (unsigned i = 0; i <= GP_PROFILE_ROWS; i++)
		used += (size_t)snprintf(text + used, size - used, "%s\"a%u\":[" ROW(1, 1) "]",
					 i ? "," : "", i);
	assert_int_equal(load_text(text, &p, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "expected at most 4096"));
	free(text);
}

static void assert_same_profile(const struct gp_profile *a, const struct gp_profile *b)
{
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->source, b->source);
	assert_string_equal(a->card, b->card);
	assert_string_equal(a->driver, b->driver);
	assert_string_equal(a->cuda, b->cuda);
	assert_string_equal(a->cpu, b->cpu);
	assert_string_equal(a->os, b->os);
	assert_string_equal(a->date, b->date);
	assert_string_equal(a->gpupool, b->gpupool);
	assert_int_equal(a->simulated, b->simulated);
	assert_int_equal(a->cores, b->cores);
	assert_int_equal(a->total_bytes, b->total_bytes);
	assert_int_equal(a->free_bytes, b->free_bytes);
	assert_int_equal(a->page_bytes, b->page_bytes);
	assert_int_equal(a->n_rows, b->n_rows);
	for (size_t i = 0; i < a->n_rows; i++)
		assert_memory_equal(&a->rows[i], &b->rows[i], sizeof(a->rows[i]));
}

static void builtin_is_its_file(void **state)
{
	struct gp_profile *p = NULL;
	char why[300] = "";

	(void)state;
	if (gp_profile_load(GP_TEST_PROFILE, &p, why, sizeof(why)))
		fail_msg("%s", why);
	assert_same_profile(p, gp_profile_builtin());
	gp_profile_free(p);
}

static void what_is_saved_is_read_again(void **state)
{
	const struct gp_profile *builtin = gp_profile_builtin();
	const char *const notes[] = { "a \"note\"", "another" };
	struct gp_profile copy = *builtin, *back = NULL;
	const char *path = write_file("");
	char why[300] = "";

	(void)state;
	copy.simulated = true;
	snprintf(copy.cpu, sizeof(copy.cpu), "back\\slash \"quote\" \xc3\xa9");
	assert_int_equal(gp_profile_save(&copy, notes, 2, path, why, sizeof(why)), 0);
	assert_int_equal(gp_profile_load(path, &back, why, sizeof(why)), 0);
	assert_same_profile(&copy, back);
	gp_profile_free(back);
	unlink(path);
	assert_int_equal(gp_profile_save(&copy, NULL, 0, "/nonexistent/p.json", why, sizeof(why)),
			 -ENOENT);
	assert_non_null(strstr(why, "/nonexistent/p.json"));
}

/* -- what is charged -------------------------------------------------------------------------- */

static void builtin_is_complete(void **state)
{
	const struct gp_profile *p = gp_profile_builtin();

	(void)state;
	assert_true(p->free_bytes && p->free_bytes < p->total_bytes);
	for (unsigned i = 0; i < GP_COST_N; i++) {
		uint64_t last = 0;

		assert_true(p->curves[i].n > 0);
		for (uint64_t size = 1; size <= 512 * GP_GIB; size *= 2) {
			last = gp_profile_mean_ns(p, (enum gp_cost)i, size);
			assert_true(last > 0);
			assert_true(gp_profile_nth_ns(p, (enum gp_cost)i, size, 0) > 0);
		}
		assert_true(last < UINT64_C(10000000000));
	}
	/* The measured shape that matters: sharing a page is far cheaper than opening one. */
	assert_true(10 * gp_profile_mean_ns(p, GP_COST_MALLOC_SHARED, GP_MIB) <
		    gp_profile_mean_ns(p, GP_COST_MALLOC_PAGES, 2 * GP_MIB));
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* A profile whose cudaMalloc of whole pages is this row. */
static struct gp_profile profile_of(struct gp_profile_row *rows, const struct gp_profile_row *row)
{
	struct gp_profile p = { .rows = rows, .n_rows = 4 };
	char why[100];

	rows[0] = (struct gp_profile_row){ "cudaMalloc.held", 256, 1, 1, 1, 1, 1, 1, 1 };
	rows[1] = *row;
	rows[2] = (struct gp_profile_row){ "cudaFree.held", 256, 1, 1, 1, 1, 1, 1, 1 };
	rows[3] = (struct gp_profile_row){ "cudaFree.pair", 2 * GP_MIB, 1, 1, 1, 1, 1, 1, 1 };
	assert_int_equal(gp_profile_price(&p, why, sizeof(why)), 0);
	return p;
}

/* Many calls have the quantiles of the row; taken one in two or in three as well, as a program does
 * that takes two or three sizes in turn. */
static void calls_have_the_measured_distribution(void **state)
{
	enum { N = 10000 };
	struct gp_profile_row rows[4],
		row = { "cudaMalloc.pair", 2 * GP_MIB, 1000, 1000, 2000, 3000, 5000, 900000, 3500 };
	struct gp_profile p = profile_of(rows, &row);
	static uint64_t ns[N];

	(void)state;
	/* The first call costs the median. */
	assert_in_range(gp_profile_nth_ns(&p, GP_COST_MALLOC_PAGES, row.size, 0), 2000, 2012);
	/* 0.5 * 1000 / ln 2 + 0.4 * 1000 / ln 1.5 + 0.09 * 2000 / ln (5 / 3) + 0.01 * 5000 */
	assert_in_range(gp_profile_mean_ns(&p, GP_COST_MALLOC_PAGES, row.size), 2105, 2115);
	for (unsigned step = 1; step <= 3; step++) {
		double sum = 0;

		for (unsigned i = 0; i < N; i++) {
			ns[i] = gp_profile_nth_ns(&p, GP_COST_MALLOC_PAGES, row.size, i * step);
			sum += (double)ns[i];
		}
		qsort(ns, N, sizeof(ns[0]), by_value);
		assert_in_range((uint64_t)(sum / N), 2060, 2160);
		assert_in_range(ns[0], 1000, 1010);
		assert_in_range(ns[N / 2], 1985, 2015);
		assert_in_range(ns[N * 9 / 10], 2980, 3090);
		assert_in_range(ns[N - 1], 4800, 5000);
	}
}

/* A quantile that fewer than ten calls exceeded is charged as the one below it. */
static void what_few_calls_say_does_not_count(void **state)
{
	struct gp_profile_row rows[4],
		row = { "cudaMalloc.pair", 2 * GP_MIB, 1000, 1000, 1000, 1000, 1000, 501000, 1500 };
	struct gp_profile p = profile_of(rows, &row);

	(void)state;
	assert_int_equal(gp_profile_mean_ns(&p, GP_COST_MALLOC_PAGES, row.size), 1000);
	row.p99 = 501000;
	p = profile_of(rows, &row);
	assert_true(gp_profile_mean_ns(&p, GP_COST_MALLOC_PAGES, row.size) > 2000);
	row.n = 999;
	p = profile_of(rows, &row);
	assert_int_equal(gp_profile_mean_ns(&p, GP_COST_MALLOC_PAGES, row.size), 1000);
	row.p90 = 501000;
	p = profile_of(rows, &row);
	assert_true(gp_profile_mean_ns(&p, GP_COST_MALLOC_PAGES, row.size) > 2000);
	row.n = 99;
	p = profile_of(rows, &row);
	assert_int_equal(gp_profile_mean_ns(&p, GP_COST_MALLOC_PAGES, row.size), 1000);
}

static void sizes_between_are_interpolated(void **state)
{
	const struct gp_profile *p = gp_profile_builtin();
	size_t n;
	const struct gp_profile_row *row = gp_profile_rows(p, "cuMemCreate.held", &n);

	(void)state;
	assert_true(n > 1);
	for (size_t i = 0; i + 1 < n; i++) {
		uint64_t lo = gp_profile_nth_ns(p, GP_COST_CREATE, row[i].size, 0);
		uint64_t hi = gp_profile_nth_ns(p, GP_COST_CREATE, row[i + 1].size, 0);
		uint64_t ns = gp_profile_nth_ns(p, GP_COST_CREATE, row[i].size + GP_MIB, 0);

		assert_in_range(lo, row[i].p50, row[i].p90);
		assert_in_range(ns, gp_min_u64(lo, hi), gp_max_u64(lo, hi));
	}
	assert_int_equal(gp_profile_nth_ns(p, GP_COST_CREATE, 1, 0),
			 gp_profile_nth_ns(p, GP_COST_CREATE, row[0].size, 0));
	assert_int_equal(gp_profile_mean_ns(p, GP_COST_CREATE, 2 * row[n - 1].size) / 2,
			 gp_profile_mean_ns(p, GP_COST_CREATE, row[n - 1].size));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_is_read),
		cmocka_unit_test(bad_files_are_refused),
		cmocka_unit_test(unreadable_file_is_refused),
		cmocka_unit_test(too_many_rows_are_refused),
		cmocka_unit_test(builtin_is_its_file),
		cmocka_unit_test(what_is_saved_is_read_again),
		cmocka_unit_test(builtin_is_complete),
		cmocka_unit_test(calls_have_the_measured_distribution),
		cmocka_unit_test(what_few_calls_say_does_not_count),
		cmocka_unit_test(sizes_between_are_interpolated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
