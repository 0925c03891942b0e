/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hist: bucket bounds, the promised error, percentiles on the edge, merging, and the text form
 * as HdrHistogram's tools read it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "replay/hist.h"

static struct gp_hist *create(void)
{
	struct gp_hist *h = malloc(sizeof(*h));

	assert_non_null(h);
	gp_hist_init(h);
	return h;
}

/* The value that comes back for `value` when a larger one hides the cap at max. */
static uint64_t read_back(uint64_t value)
{
	struct gp_hist *h = create();
	uint64_t read;

	gp_hist_record(h, value);
	gp_hist_record(h, UINT64_MAX);
	read = gp_hist_percentile(h, 50);
	free(h);
	return read;
}

static void empty(void **state)
{
	struct gp_hist *h = create();

	(void)state;
	assert_int_equal(gp_hist_percentile(h, 50), 0);
	assert_int_equal(gp_hist_percentile(h, 100), 0);
	assert_true(gp_hist_mean(h) == 0);
	free(h);
}

static void small_values_are_exact(void **state)
{
	(void)state;
	for (uint64_t v = 0; v < 256; v++)
		assert_int_equal(read_back(v), v);
	assert_int_equal(read_back(256), 257);
	assert_int_equal(read_back(257), 257);
	assert_int_equal(read_back(258), 259);
}

/* At, below and above each power of two, and a spread between them. */
static void error_is_bounded(void **state)
{
	(void)state;
	for (unsigned lg = 0; lg < 64; lg++) {
		for (int off = -1; off <= 1; off++) {
			uint64_t v = (UINT64_C(1) << lg) + (uint64_t)off, read = read_back(v);

			assert_true(read >= v);
			assert_true(read - v <= v / 128);
		}
		for (unsigned k = 0; k < 37; k++) {
			uint64_t v = (UINT64_C(1) << lg) + (((UINT64_C(1) << lg) - 1) / 37) * k;
			uint64_t read = read_back(v);

			assert_true(read >= v);
			assert_true(read - v <= v / 128);
		}
	}
}

static void largest_value(void **state)
{
	struct gp_hist *h = create();

	(void)state;
	gp_hist_record(h, UINT64_MAX);
	assert_int_equal(h->buckets[GP_HIST_BUCKETS - 1], 1);
	assert_true(gp_hist_percentile(h, 100) == UINT64_MAX);
	free(h);
}

static void percentile_ranks(void **state)
{
	struct gp_hist *h = create();

	(void)state;
	for (uint64_t v = 1; v <= 100; v++)
		gp_hist_record(h, v);
	assert_int_equal(gp_hist_percentile(h, 0), 1);
	assert_int_equal(gp_hist_percentile(h, 1), 1);
	assert_int_equal(gp_hist_percentile(h, 1.01), 2);
	assert_int_equal(gp_hist_percentile(h, 50), 50);
	assert_int_equal(gp_hist_percentile(h, 99), 99);
	assert_int_equal(gp_hist_percentile(h, 99.5), 100);
	assert_int_equal(gp_hist_percentile(h, 100), 100);
	assert_int_equal(gp_hist_percentile(h, 250), 100);
	assert_int_equal(gp_hist_percentile(h, -3), 1);
	assert_int_equal(gp_hist_percentile(h, NAN), 1);
	free(h);
}

/* 99.9 % of 1000 values are 999 of them, though 99.9 is not a number of base two. */
static void percentile_is_not_rounded_up(void **state)
{
	struct gp_hist *h = create();

	(void)state;
	for (int i = 0; i < 999; i++)
		gp_hist_record(h, 7);
	gp_hist_record(h, 200);
	assert_int_equal(gp_hist_percentile(h, 99.9), 7);
	assert_int_equal(gp_hist_percentile(h, 99.91), 200);
	free(h);
}

static void never_above_max(void **state)
{
	struct gp_hist *h = create();

	(void)state;
	gp_hist_record(h, 1000001);
	gp_hist_record(h, 1000001);
	assert_int_equal(gp_hist_percentile(h, 50), 1000001);
	assert_int_equal(gp_hist_percentile(h, 100), 1000001);
	assert_int_equal(h->min, 1000001);
	assert_int_equal(h->max, 1000001);
	free(h);
}

static void mean_is_exact(void **state)
{
	struct gp_hist *h = create();

	(void)state;
	gp_hist_record(h, 1000003);
	gp_hist_record(h, 1000004);
	assert_true(gp_hist_mean(h) == 1000003.5);
	free(h);
}

static void merged_is_as_recorded_together(void **state)
{
	struct gp_hist *a = create(), *b = create(), *both = create();

	(void)state;
	for (uint64_t i = 0; i < 5000; i++) {
		uint64_t v = i * i * 977 % 1000000;

		gp_hist_record(i % 3 ? a : b, v);
		gp_hist_record(both, v);
	}
	gp_hist_merge(a, b);
	assert_memory_equal(a, both, sizeof(*a));
	gp_hist_init(b);
	gp_hist_merge(a, b);
	assert_memory_equal(a, both, sizeof(*a));
	free(a);
	free(b);
	free(both);
}

static void text_of(const struct gp_hist *h, char **text)
{
	size_t size = 0;
	FILE *out = open_memstream(text, &size);

	assert_non_null(out);
	assert_int_equal(gp_hist_write_hgrm(h, out), 0);
	assert_int_equal(fclose(out), 0);
}

static void text_of_one_value(void **state)
{
	struct gp_hist *h = create();
	char *text;

	(void)state;
	gp_hist_record(h, 100);
	text_of(h, &text);
	assert_string_equal(text, "       Value     Percentile TotalCount 1/(1-Percentile)\n\n"
				  "     100.000 1.000000000000          1\n"
				  "#[Mean    =      100.000, StdDeviation   =        0.000]\n"
				  "#[Max     =      100.000, Total count    =            1]\n"
				  "#[Buckets =           58, SubBuckets     =          256]\n");
	free(text);
	free(h);
}

/* Values and counts never go down, percentiles end at 1 with all values counted, and the line at
 * 50 % agrees with gp_hist_percentile. */
static void text_is_a_distribution(void **state)
{
	struct gp_hist *h = create();
	double value, share, last_value = 0, last_share = -1;
	unsigned long long count = 0;
	bool half = false;
	char *text, *line;

	(void)state;
	for (uint64_t i = 0; i < 20000; i++)
		gp_hist_record(h, 10 + i * i % 9973);
	text_of(h, &text);
	for (line = strchr(text, '\n') + 2; *line != '#'; line = strchr(line, '\n') + 1) {
		assert_int_equal(sscanf(line, "%lf %lf %llu", &value, &share, &count), 3);
		assert_true(value >= last_value && share > last_share);
		if (share == 0.5) {
			half = true;
			assert_true(value == (double)gp_hist_percentile(h, 50));
			assert_true(count >= 10000);
		}
		last_value = value;
		last_share = share;
	}
	assert_true(half);
	assert_true(last_share == 1);
	assert_true(last_value == (double)h->max);
	assert_int_equal(count, 20000);
	free(text);
	free(h);
}

static void text_of_nothing(void **state)
{
	struct gp_hist *h = create();
	char *text = NULL;

	(void)state;
	text_of(h, &text);
	assert_non_null(strstr(text, "Total count    =            0]"));
	free(text);
	free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty),
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(error_is_bounded),
		cmocka_unit_test(largest_value),
		cmocka_unit_test(percentile_ranks),
		cmocka_unit_test(percentile_is_not_rounded_up),
		cmocka_unit_test(never_above_max),
		cmocka_unit_test(mean_is_exact),
		cmocka_unit_test(merged_is_as_recorded_together),
		cmocka_unit_test(text_of_one_value),
		cmocka_unit_test(text_is_a_distribution),
		cmocka_unit_test(text_of_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
