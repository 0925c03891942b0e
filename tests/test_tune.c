/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tune: what gpupool-tune computes, from traces written down here: probes, the search for the
 * smallest card, what is told from a recording, the choice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tune.h"
#include "trace_of.h"

#define SEGMENT_ALLOC(...)                                                                         \
	{                                                                                          \
		.op = GP_OP_SEGMENT_ALLOC, __VA_ARGS__                                             \
	}
#define SEGMENT_FREE(...)                                                                          \
	{                                                                                          \
		.op = GP_OP_SEGMENT_FREE, __VA_ARGS__                                              \
	}
#define OOM(...)                                                                                   \
	{                                                                                          \
		.op = GP_OP_OOM, __VA_ARGS__                                                       \
	}

/* A job with its grid. */
struct bench {
	struct gp_trace *t;
	struct tune_options o;
	struct tune_grid grid;
	struct tune_job job;
	struct tune_row *rows;
	struct tune_result result;
};

/* The trace becomes the bench's. */
static void bench_open(struct bench *b, struct gp_trace *t, const struct tune_options *o)
{
	char why[256];

	*b = (struct bench){ .t = t, .o = *o };
	assert_int_equal(tune_grid_make(&b->o, &b->grid), -1);
	assert_int_equal(tune_job_init(&b->job, t, &b->o, why, sizeof(why)), 0);
	b->rows = calloc(b->grid.n, sizeof(*b->rows));
	assert_non_null(b->rows);
}

static void bench_run(struct bench *b)
{
	assert_int_equal(tune_work(&b->job, &b->grid, b->rows, 2), 0);
	assert_true(tune_result_make(&b->job, &b->o, b->rows, b->grid.n, &b->result));
}

static void bench_close(struct bench *b)
{
	tune_result_fini(&b->result);
	free(b->rows);
	tune_job_fini(&b->job);
	tune_grid_fini(&b->grid);
	gp_trace_destroy(b->t);
}

static const struct tune_row *row_of(const struct bench *b, const char *label)
{
	for (size_t i = 0; i < b->grid.n; i++)
		if (strcmp(tune_label(&b->grid.settings[i]), label) == 0)
			return &b->rows[i];
	fail_msg("no row %s", label);
	return NULL;
}

/* 8 blocks of 16 MiB, all freed, then 4 of 32 MiB: PYTORCH_CUDA_ALLOC_CONF's textbook case. */
static struct gp_trace *textbook(void)
{
	struct gp_trace_record r[20];

	for (unsigned i = 0; i < 8; i++) {
		r[i] = (struct gp_trace_record)ALLOC(.id = i + 1, .size = 16 * GP_MIB);
		r[8 + i] = (struct gp_trace_record)FREE(.id = i + 1);
	}
	for (unsigned i = 0; i < 4; i++)
		r[16 + i] = (struct gp_trace_record)ALLOC(.id = 9 + i, .size = 32 * GP_MIB);
	return trace_of(r, 20);
}

static void test_textbook(void **state)
{
	struct bench b;
	const struct tune_row *usual, *grown;

	(void)state;
	bench_open(&b, textbook(), &(struct tune_options){ .extent = TUNE_FULL });
	bench_run(&b);
	usual = row_of(&b, "(defaults)");
	grown = row_of(&b, "expandable_segments:True");
	assert_int_equal(usual->at.peak_reserved, 256 * GP_MIB);
	assert_int_equal(usual->at.device_allocs, 12);
	assert_int_equal(grown->at.peak_reserved, 140 * GP_MIB); /* in pages of 20 MiB */
	assert_true(usual->at.survived && grown->at.survived);
	/* Flushed, the defaults do with what is live. */
	assert_int_equal(b.job.need_bytes, 128 * GP_MIB);
	assert_int_equal(usual->smallest, 128 * GP_MIB);
	assert_int_equal(usual->fails_above, 0);
	assert_ptr_equal(b.result.defaults, usual);
	assert_non_null(b.result.best);
	assert_int_equal(b.result.goal, TUNE_MEMORY);
	assert_false(b.result.partial);
	bench_close(&b);
}

/* A device that breaks at any of its calls is the end of a probe, told as such, and of nothing else. */
static void test_broken_device(void **state)
{
	struct tune_options o = { .extent = TUNE_SHORT };
	size_t n_broken = 0, n_before;
	struct bench b;

	(void)state;
	bench_open(&b, textbook(), &o);
	for (uint64_t n = 1; n < 100; n++) {
		n_before = n_broken;
		b.job.device.inject.lost_call = n;
		memset(b.rows, 0, b.grid.n * sizeof(*b.rows));
		assert_int_equal(tune_work(&b.job, &b.grid, b.rows, 2), 0);
		for (size_t i = 0; i < b.grid.n; i++) {
			if (!b.rows[i].at.fault)
				continue;
			n_broken++;
			assert_int_equal(b.rows[i].at.fault, -ENODEV);
			assert_false(b.rows[i].at.survived);
			assert_true(b.rows[i].at.why[0] != '\0');
		}
		if (n_broken == n_before)
			break;
	}
	assert_true(n_broken > b.grid.n && n_broken == n_before);
	bench_close(&b);
}

/* A probe ends where the first request fails, or where more fail than the program gets over. */
static void test_failure(void **state)
{
	struct tune_options o = { .extent = TUNE_NONE, .capacity = 64 * GP_MIB };
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 40 * GP_MIB), ALLOC(.id = 2, .size = 30 * GP_MIB),
			 FREE(.id = 2), ALLOC(.id = 3, .size = 30 * GP_MIB),
			 ALLOC(.id = 4, .size = 20 * GP_MIB));
	struct bench b;

	(void)state;
	bench_open(&b, t, &o);
	bench_run(&b);
	assert_false(b.rows[0].at.survived);
	assert_int_equal(b.rows[0].at.failed_event, 1);
	assert_int_equal(b.rows[0].at.failed_bytes, 30 * GP_MIB);
	assert_int_equal(b.rows[0].at.failed_reserved, 40 * GP_MIB);
	assert_int_equal(b.rows[0].at.ooms, 1);
	assert_int_equal(b.rows[0].at.retries, 1);
	assert_int_equal(b.rows[0].smallest, 90 * GP_MIB);
	assert_int_equal(b.result.goal, TUNE_FIT);
	assert_null(b.result.best);
	assert_non_null(strstr(b.result.advice, "no setting helps: the job needs 90 MiB live at "
						"event 5, the card has 64 MiB"));
	assert_int_equal(tune_live_at(t, 2), 70 * GP_MIB);
	tune_result_fini(&b.result);
	b.job.allow_ooms = 1;
	bench_run(&b);
	assert_false(b.rows[0].at.survived);
	assert_int_equal(b.rows[0].at.failed_event, 3);
	assert_int_equal(b.rows[0].at.ooms, 2);
	tune_result_fini(&b.result);
	b.job.allow_ooms = 2;
	bench_run(&b);
	assert_true(b.rows[0].at.survived);
	assert_int_equal(b.rows[0].at.peak_reserved, 60 * GP_MIB);
	bench_close(&b);
}

/* On a trace without an obvious answer: what a row says of cards is so. */
static void test_search(void **state)
{
	struct tune_options o = { .extent = TUNE_SHORT, .capacity = GP_GIB };
	struct gp_trace_record r[60];
	uint64_t addrs[40];
	struct bench b;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		uint64_t big = (3 + i * 7 % 13) * 4 * GP_MIB, small = (1 + i % 4) * GP_MIB;

		r[3 * i] = (struct gp_trace_record)ALLOC(.id = 2 * i + 1, .size = big);
		r[3 * i + 1] = (struct gp_trace_record)FREE(.id = 2 * i + 1);
		r[3 * i + 2] = (struct gp_trace_record)ALLOC(.id = 2 * i + 2, .size = small);
	}
	bench_open(&b, trace_of(r, 60), &o);
	bench_run(&b);
	for (size_t i = 0; i < b.grid.n; i++) {
		const struct tune_row *row = &b.rows[i];
		struct tune_probe p;

		assert_true(row->at.survived);
		tune_probe(&b.job, row->s, row->smallest, addrs, &p);
		assert_true(p.survived);
		tune_probe(&b.job, row->s, row->smallest - TUNE_PAGE, addrs, &p);
		assert_false(p.survived);
		if (row->fails_above) {
			tune_probe(&b.job, row->s, row->fails_above, addrs, &p);
			assert_false(p.survived);
		}
		if (row->survives_below) {
			tune_probe(&b.job, row->s, row->survives_below, addrs, &p);
			assert_true(p.survived);
		}
	}
	bench_close(&b);
}

/* A block freed on another stream counts for the need up to its free, for the load up to its
 * reclaim. */
static void test_need(void **state)
{
	struct tune_options o = { .extent = TUNE_NONE };
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 50 * GP_MIB), FREE(.id = 1),
				      ALLOC(.id = 2, .size = 60 * GP_MIB), RECLAIM(.id = 1));
	struct bench b;

	(void)state;
	bench_open(&b, t, &o);
	bench_run(&b);
	assert_int_equal(t->load_bytes, 110 * GP_MIB);
	assert_int_equal(b.job.need_bytes, 60 * GP_MIB);
	assert_int_equal(b.job.need_event, 2);
	assert_int_equal(b.rows[0].at.peak_reserved, 110 * GP_MIB);
	/* Short of memory, it waits for the block. */
	assert_int_equal(b.rows[0].smallest, 60 * GP_MIB);
	bench_close(&b);
}

static uint32_t trims_of(struct gp_trace *t, uint64_t card, uint64_t limit)
{
	struct bench b;
	uint32_t n;

	t->device_bytes = card;
	bench_open(&b, t, &(struct tune_options){ .extent = TUNE_NONE, .limit = limit });
	n = b.job.n_trims;
	bench_close(&b);
	return n;
}

static void test_trims(void **state)
{
#define FLUSH(last)                                                                                \
	TRACE_OF(SEGMENT_ALLOC(.size = 64 * GP_MIB, .addr = GP_GIB),                               \
		 ALLOC(.id = 1, .size = 64 * GP_MIB), FREE(.id = 1),                               \
		 SEGMENT_FREE(.size = 64 * GP_MIB, .addr = GP_GIB),                                \
		 SEGMENT_ALLOC(.size = 32 * GP_MIB, .addr = GP_GIB), last)
	(void)state;
	/* There was room for both segments: nothing but empty_cache() explains it. */
	assert_int_equal(trims_of(FLUSH(ALLOC(.id = 2, .size = 32 * GP_MIB)), GP_GIB, 0), 1);
	/* There was none. */
	assert_int_equal(trims_of(FLUSH(ALLOC(.id = 2, .size = 32 * GP_MIB)), 90 * GP_MIB, 0), 0);
	assert_int_equal(trims_of(FLUSH(ALLOC(.id = 2, .size = 32 * GP_MIB)), GP_GIB, 90 * GP_MIB),
			 0);
	/* A request failed in spite of it. */
	assert_int_equal(trims_of(FLUSH(OOM(.size = 512)), GP_GIB, 0), 0);
	/* The trace says it itself. */
	assert_int_equal(trims_of(FLUSH(TRIM(.t_ns = 0)), GP_GIB, 0), 0);
#undef FLUSH
}

/* Addresses of reservations of these sizes, on a device that knows of places. */
static void reserve(const struct gp_range *places, size_t n_places, const uint64_t *sizes,
		    size_t n_sizes, uint64_t *addrs)
{
	struct gp_device_config config = { .places = places, .n_places = n_places };
	struct gp_device *dev = NULL;
	char why[160];

	assert_int_equal(gp_device_open_sim(&config, &dev, why, sizeof(why)), 0);
	for (size_t i = 0; i < n_sizes; i++)
		assert_int_equal(gp_device_reserve(dev, sizes[i], &addrs[i]), 0);
	for (size_t i = 0; i < n_sizes; i++)
		assert_int_equal(gp_device_release(dev, addrs[i]), 0);
	gp_device_close(dev);
}

/* Each size has its own places, in order; what has none goes below all of them. */
static void test_places(void **state)
{
	const uint64_t base = UINT64_C(0x7f0000000000), m = GP_MIB;
	const struct gp_range places[] = {
		{ base + 64 * m, 20 * m },
		{ base, 2 * m },
		{ base + 32 * m, 20 * m },
		{ base + 2 * m, 2 * m },
	};
	const uint64_t sizes[] = { 20 * m, 2 * m, 4 * m, 20 * m, 2 * m, 20 * m };
	uint64_t addrs[6];
	struct gp_device_config config = { .places = places, .n_places = 4 };
	struct gp_device *dev = NULL;
	char why[160];

	(void)state;
	reserve(places, 4, sizes, 6, addrs);
	assert_int_equal(addrs[0], base + 64 * m);
	assert_int_equal(addrs[1], base);
	assert_true(addrs[2] + 4 * m <= base);
	assert_int_equal(addrs[3], base + 32 * m);
	assert_int_equal(addrs[4], base + 2 * m);
	assert_true(addrs[5] + 20 * m <= base);
	/* Until something is released. */
	assert_int_equal(gp_device_open_sim(&config, &dev, why, sizeof(why)), 0);
	assert_int_equal(gp_device_reserve(dev, 2 * m, &addrs[0]), 0);
	assert_int_equal(gp_device_release(dev, addrs[0]), 0);
	assert_int_equal(gp_device_reserve(dev, 20 * m, &addrs[0]), 0);
	assert_true(addrs[0] + 20 * m <= base);
	assert_int_equal(gp_device_release(dev, addrs[0]), 0);
	gp_device_close(dev);
}

/* What a broken recording says is no place: the device goes by its own rule, as without. */
static void test_untrue_places(void **state)
{
	const uint64_t base = UINT64_C(0x7f0000000000), m = GP_MIB, size = 4 * m;
	const struct gp_range untrue[][2] = {
		{ { base, 4 * m }, { base + 2 * m, 4 * m } },
		{ { base, 4 * m }, { base, 4 * m } },
		{ { base + 512, 4 * m }, { base - 64 * m, 4 * m } },
		{ { base, 4 * m }, { base + 4 * m, 3 * m } },
		{ { base, 4 * m }, { base + 4 * m, 0 } },
		{ { base, 4 * m }, { 0, 4 * m } },
		{ { base, 4 * m }, { UINT64_MAX - 2 * m + 1, 4 * m } },
		{ { base, 4 * m }, { base + 4 * m, UINT64_MAX - 2 * m + 1 } },
	};
	uint64_t usual, addr;

	(void)state;
	reserve(NULL, 0, &size, 1, &usual);
	for (size_t i = 0; i < GP_ARRAY_LEN(untrue); i++) {
		reserve(untrue[i], 2, &size, 1, &addr);
		assert_int_equal(addr, usual);
	}
}

/* Less than 1 % is not worth a setting; of equal ones, the one with the fewest keys. */
static void test_choice(void **state)
{
	struct tune_options o = { .extent = TUNE_FULL };
	uint64_t least;
	struct bench b;

	(void)state;
	bench_open(&b, TRACE_OF(ALLOC(.id = 1, .size = GP_GIB)), &o);
	bench_run(&b);
	assert_null(b.result.best);
	assert_non_null(strstr(b.result.advice, "no setting helps: the job needs 1 GiB live at "
						"event 1, and the defaults reserve 1 GiB"));
	bench_close(&b);
	bench_open(&b, textbook(), &o);
	bench_run(&b);
	least = b.result.rows[0]->at.peak_reserved;
	assert_true(b.result.best->at.peak_reserved <= least + least / 100);
	for (size_t i = 1; i < b.result.n_rows; i++) {
		const struct tune_row *row = b.result.rows[i];

		assert_true(b.result.rows[i - 1]->at.peak_reserved <= row->at.peak_reserved);
		if (row->at.peak_reserved <= least + least / 100)
			assert_true(b.result.best->s->n_keys <= row->s->n_keys);
	}
	bench_close(&b);
}

/* An interruption leaves rows undone, and says so. */
static void test_interrupted(void **state)
{
	volatile sig_atomic_t now = 1;
	struct tune_options o = { .extent = TUNE_SHORT };
	struct bench b;

	(void)state;
	bench_open(&b, textbook(), &o);
	b.job.interrupted = &now;
	bench_run(&b);
	assert_true(b.result.partial);
	assert_int_equal(b.result.n_rows, 0);
	assert_null(b.result.defaults);
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_textbook), cmocka_unit_test(test_broken_device),
		cmocka_unit_test(test_failure),  cmocka_unit_test(test_search),
		cmocka_unit_test(test_need),     cmocka_unit_test(test_trims),
		cmocka_unit_test(test_places),   cmocka_unit_test(test_untrue_places),
		cmocka_unit_test(test_choice),   cmocka_unit_test(test_interrupted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
