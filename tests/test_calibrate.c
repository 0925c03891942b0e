/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of gpupool-calibrate: percentiles and rows, what is called unusual, and the run itself on
 * a simulated device: nothing is kept held, also where memory is short; time, interruption and a
 * device that breaks end it, and what was measured stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/calibrate.h"

static volatile sig_atomic_t interrupted;

static struct cal calibration(const struct gp_device_config *config)
{
	struct cal c = { .interrupted = &interrupted, .quick = true };
	char why[200] = "";

	interrupted = 0;
	assert_int_equal(gp_device_open_sim(config, &c.dev, why, sizeof(why)), 0);
	assert_int_equal(gp_device_mem_info(c.dev, &c.free_bytes, &c.total_bytes), 0);
	c.budget = c.free_bytes / 2;
	return c;
}

static void finish(struct cal *c)
{
	cal_times_fini(c);
	gp_device_close(c->dev);
}

/* The row of a call and size among those that were measured. */
static struct gp_profile_row row_of(const struct cal *c, const char *call, uint64_t size)
{
	struct gp_profile_row found = { .n = 0 };
	size_t n;
	struct gp_profile_row *rows = cal_rows(c, &n);

	assert_non_null(rows);
	for (size_t i = 0; i < n; i++) {
		if (rows[i].size == size && !strcmp(rows[i].call, call))
			found = rows[i];
	}
	free(rows);
	return found;
}

/* -- rows ------------------------------------------------------------------------------------- */

static void rows_have_the_percentiles(void **state)
{
	struct gp_device_config config = { 0 };
	struct cal c = calibration(&config);
	struct gp_profile_row row;

	(void)state;
	for (uint64_t i = 1000; i >= 1; i--)
		assert_int_equal(cal_add(&c, "a", 7, i * 10), 0);
	row = row_of(&c, "a", 7);
	assert_int_equal(row.n, 1000);
	assert_int_equal(row.min, 10);
	assert_int_equal(row.p50, 5000);
	assert_int_equal(row.p90, 9000);
	assert_int_equal(row.p99, 9900);
	assert_int_equal(row.max, 10000);
	assert_int_equal(row.mean, 5005);
	assert_int_equal(cal_add(&c, "b", 1, 5), 0);
	row = row_of(&c, "b", 1);
	assert_int_equal(row.min + row.p50 + row.p90 + row.p99 + row.max + row.mean, 6 * 5);
	/* A time beyond 32 bits is the largest there is. */
	assert_int_equal(cal_add(&c, "c", 1, UINT64_MAX), 0);
	assert_int_equal(row_of(&c, "c", 1).max, UINT32_MAX);
	finish(&c);
}

static void rows_are_sorted(void **state)
{
	static const struct {
		const char *call;
		uint64_t size;
	} order[] = { { "b", 4 }, { "a", 9 }, { "b", 1 }, { "a", 2 }, { "c", 1 }, { "b", 2 } };
	static const char *const calls[] = { "b", "b", "b", "a", "a", "c" };
	static const uint64_t sizes[] = { 1, 2, 4, 2, 9, 1 };
	struct gp_device_config config = { 0 };
	struct cal c = calibration(&config);
	struct gp_profile_row *rows;
	size_t n;

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(order); i++)
		assert_int_equal(cal_add(&c, order[i].call, order[i].size, 1), 0);
	rows = cal_rows(&c, &n);
	assert_int_equal(n, GP_ARRAY_LEN(calls));
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(rows[i].call, calls[i]);
		assert_int_equal(rows[i].size, sizes[i]);
	}
	free(rows);
	finish(&c);
}

/* -- runs ------------------------------------------------------------------------------------- */

static uint64_t held_bytes(struct cal *c)
{
	uint64_t free_bytes = 0, total;

	assert_int_equal(gp_device_mem_info(c->dev, &free_bytes, &total), 0);
	return c->free_bytes - free_bytes;
}

/* Whatever fits is measured, nothing stays held; cards from tiny to real. */
static void a_run_gives_everything_back(void **state)
{
	static const uint64_t capacities[] = { 2 * GP_MIB, 6 * GP_MIB, 100 * GP_MIB, 3 * GP_GIB,
					       140 * GP_GIB };

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(capacities); i++) {
		struct gp_device_config config = { .capacity = capacities[i] };
		struct cal c = calibration(&config);

		assert_int_equal(cal_run(&c, 1000), 0);
		assert_int_equal(c.n_left_out, 0);
		assert_int_equal(held_bytes(&c), 0);
		assert_true(row_of(&c, "cudaMalloc.held", 256).n > 0);
		assert_int_equal(row_of(&c, "cudaMalloc.held", 2 * GP_MIB).n > 0,
				 capacities[i] >= 4 * GP_MIB);
		finish(&c);
	}
}

static void more_memory_is_asked_for_than_there_is(void **state)
{
	struct gp_device_config config = { .capacity = 64 * GP_MIB };
	struct cal c = calibration(&config);

	(void)state;
	/* Somebody else takes it meanwhile. */
	c.budget = GP_GIB;
	assert_int_equal(cal_run(&c, 1000), 0);
	assert_int_equal(held_bytes(&c), 0);
	assert_int_equal(row_of(&c, "cudaMalloc.held", GP_GIB).n, 0);
	finish(&c);
}

static void time_and_interruption_end_a_run(void **state)
{
	struct gp_device_config config = { 0 };
	struct cal c = calibration(&config);
	size_t n;

	(void)state;
	assert_int_equal(cal_run(&c, 0), 0);
	assert_int_equal(c.n_left_out, c.n_steps);
	assert_true(c.n_steps > 50);
	finish(&c);
	c = calibration(&config);
	assert_int_equal(cal_first(&c, 256), 0);
	interrupted = 1;
	assert_int_equal(cal_run(&c, 1000), 0);
	assert_int_equal(c.n_left_out, c.n_steps);
	free(cal_rows(&c, &n));
	assert_int_equal(n, 2); /* what was measured before is kept */
	finish(&c);
}

/* Every step in turn meets a device that breaks in it. */
static void a_device_that_breaks_ends_a_run(void **state)
{
	(void)state;
	for (uint64_t call = 1; call < 20000; call = call * 3 / 2 + 1) {
		struct gp_device_config config = { .inject = { .sticky_call = call } };
		struct cal c = calibration(&config);
		size_t n;

		assert_int_equal(cal_run(&c, 1000), -EIO);
		free(cal_rows(&c, &n));
		assert_int_equal(n > 0, call > 1);
		finish(&c);
	}
}

/* -- what is unusual -------------------------------------------------------------------------- */

static bool noted(const struct cal_notes *notes, const char *words)
{
	for (size_t i = 0; i < notes->n; i++) {
		if (strstr(notes->text[i], words))
			return true;
	}
	return false;
}

#define SAME(call, size, ns)                                                                       \
	{                                                                                          \
		call, size, 100, ns, ns, ns, ns, ns, ns                                            \
	}

static void what_is_unusual_is_noted(void **state)
{
	static const struct gp_profile_row odd_rows[] = {
		SAME("cudaMalloc.first", 4 * GP_GIB, 25000000),
		SAME("cudaMalloc.held", 2 * GP_MIB, 40000),
		SAME("cudaMalloc.held", 4 * GP_MIB, 900000),
		SAME("cudaMalloc.held", 4 * GP_GIB, 1000000),
		SAME("cudaFree.busy", 2 * GP_MIB, 19000000),
		SAME("cudaMalloc.busy", 2 * GP_MIB, 50000),
		{ "cuMemCreate", 2 * GP_MIB, 100, 9000, 9000, 9000, 90000, 90000, 9900 },
		SAME("cuMemCreate.held", 2 * GP_MIB, 9000),
		SAME("cuMemCreate.again", 2 * GP_MIB, 27000),
		SAME("cuMemMap", 2 * GP_MIB, 500),
		SAME("cuMemMap.rested", 2 * GP_MIB, 9000),
	};
	static const struct gp_profile_row usual_rows[] = {
		SAME("cuMemMap", 2 * GP_MIB, 1000),
		SAME("cudaMalloc.held", 2 * GP_MIB, 41000),
		SAME("cudaMalloc.held", 4 * GP_GIB, 990000),
	};
	struct gp_profile odd = { .rows = odd_rows, .n_rows = GP_ARRAY_LEN(odd_rows) };
	struct gp_profile usual = { .name = "usual",
				    .rows = usual_rows,
				    .n_rows = GP_ARRAY_LEN(usual_rows) };
	struct cal_notes notes = { .n = 0 };

	(void)state;
	cal_notes_find(&notes, &odd, &usual);
	assert_true(noted(&notes, "cudaFree behind 20 ms of queued work took 19 ms"));
	assert_false(noted(&notes, "cudaMalloc behind"));
	assert_true(noted(&notes, "cudaMalloc of 4 GiB the first time took 25 ms in the mean, "
				  "else 1 ms (25 times)"));
	assert_true(noted(&notes, "cuMemCreate of 2 MiB on memory that was just given back took"));
	assert_true(noted(&notes, "cuMemMap of 2 MiB after a rest of 20 ms took"));
	assert_true(noted(&notes, "cudaMalloc.held steps from 40 us at 2 MiB to 900 us at 4 MiB"));
	assert_true(noted(&notes, "cuMemCreate of 2 MiB has a tail: p50 9 us, p99 90 us"));
	assert_true(noted(&notes, "cuMemMap takes 0.5 times what it does in the profile usual"));
	assert_int_equal(notes.n, 7);
}

static void nothing_unusual_is_noted(void **state)
{
	static const struct gp_profile_row rows[] = {
		SAME("cudaMalloc.held", 2 * GP_MIB, 40000),
		SAME("cudaMalloc.held", 4 * GP_MIB, 50000),
		SAME("cudaMalloc.first", 4 * GP_MIB, 60000),
		SAME("cudaMalloc.again", 4 * GP_MIB, 60000),
	};
	struct gp_profile p = { .name = "p", .rows = rows, .n_rows = GP_ARRAY_LEN(rows) };
	struct cal_notes notes = { .n = 0 };

	(void)state;
	cal_notes_find(&notes, &p, &p);
	assert_int_equal(notes.n, 0);
	/* More than there is room for: the first ones stay. */
	for (unsigned i = 0; i < 2 * CAL_NOTES; i++)
		cal_note(&notes, "%u", i);
	assert_int_equal(notes.n, CAL_NOTES);
	assert_string_equal(notes.text[CAL_NOTES - 1], "23");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_have_the_percentiles),
		cmocka_unit_test(rows_are_sorted),
		cmocka_unit_test(a_run_gives_everything_back),
		cmocka_unit_test(more_memory_is_asked_for_than_there_is),
		cmocka_unit_test(time_and_interruption_end_a_run),
		cmocka_unit_test(a_device_that_breaks_ends_a_run),
		cmocka_unit_test(what_is_unusual_is_noted),
		cmocka_unit_test(nothing_unusual_is_noted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
