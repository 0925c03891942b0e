/* SPDX-License-Identifier: Apache-2.0
 *
 * test_metrics: the shadow of device memory against a map of units that is looked through afresh
 * after every step, what the shadow refuses, and windows, peaks and means of the curve.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "replay/curve.h"
#include "replay/metrics.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-12)

static void add(struct gp_metrics *m, uint64_t addr, uint64_t size, bool joins)
{
	gp_metrics_observe(m, true, (struct gp_range){ addr, size }, joins, 0);
	assert_int_equal(m->fault, 0);
}

static void gone(struct gp_metrics *m, uint64_t addr, uint64_t size, bool joins)
{
	gp_metrics_observe(m, false, (struct gp_range){ addr, size }, joins, 0);
}

static struct gp_shadow take(struct gp_metrics *m, uint64_t addr, uint64_t granted,
			     uint64_t requested)
{
	struct gp_shadow block = { 0 };

	assert_int_equal(gp_metrics_take(m, &(struct gp_block){ addr, granted }, requested, &block),
			 0);
	return block;
}

static struct gp_sample sample(struct gp_metrics *m)
{
	struct gp_sample s;

	gp_metrics_sample(m, m->observed, &s);
	return s;
}

/* ---- by hand ---- */

/* Where nobody tells where memory lies, what is live is known and what is free is not. */
static void blind(void **state)
{
	struct gp_shadow a, b;
	struct gp_metrics m;
	struct gp_sample s;

	(void)state;
	gp_metrics_init(&m);
	m.blind = true;
	a = take(&m, 4096, 1024, 1000);
	b = take(&m, 8192, 512, 500);
	gp_metrics_sample(&m, 1 << 20, &s);
	assert_true(s.requested == 1500 && s.granted == 1536 && s.reserved == 1 << 20);
	NEAR(s.internal, 1 - 1500.0 / 1536);
	assert_true(isnan(s.external) && isnan(s.external_sq));
	assert_int_equal(gp_metrics_give(&m, &a), 0);
	gp_metrics_sample(&m, 1 << 20, &s);
	assert_true(s.requested == 500 && s.granted == 512);
	assert_int_equal(gp_metrics_give(&m, &b), 0);
	assert_int_equal(gp_metrics_settle(&m), 0);
	gp_metrics_fini(&m);
}

static void nothing(void **state)
{
	struct gp_metrics m;
	struct gp_sample s;

	(void)state;
	gp_metrics_init(&m);
	s = sample(&m);
	assert_true(s.internal == 0 && s.external == 0 && s.external_sq == 0);
	assert_int_equal(s.requested + s.granted + s.reserved, 0);
	gp_metrics_fini(&m);
}

/* 0       1024      2048      3072      4096
 * |  hole   |  block  |       hole        |    300 of 1024 bytes asked for */
static void fractions(void **state)
{
	struct gp_metrics m;
	struct gp_shadow b;
	struct gp_sample s;

	(void)state;
	gp_metrics_init(&m);
	add(&m, 65536, 4096, false);
	b = take(&m, 65536 + 1024, 1024, 300);
	s = sample(&m);
	assert_int_equal(s.requested, 300);
	assert_int_equal(s.granted, 1024);
	assert_int_equal(s.reserved, 4096);
	NEAR(s.internal, 1 - 300.0 / 1024);
	NEAR(s.external, 1 - 2048.0 / 3072);
	NEAR(s.external_sq, 1 - (1024.0 * 1024 + 2048.0 * 2048) / (3072.0 * 3072));
	assert_int_equal(gp_metrics_give(&m, &b), 0);
	s = sample(&m);
	assert_true(s.external == 0 && s.external_sq == 0 && s.internal == 0);
	assert_int_equal(m.holes.n, 1);
	gp_metrics_fini(&m);
}

/* Two reservations that touch are two holes; two mapped ranges that touch are one. */
static void only_joining_ranges_join(void **state)
{
	struct gp_metrics m;
	struct gp_shadow b;

	(void)state;
	gp_metrics_init(&m);
	add(&m, 4096, 4096, false);
	add(&m, 8192, 4096, false);
	NEAR(sample(&m).external, 0.5);
	gone(&m, 4096, 4096, false);
	gone(&m, 8192, 4096, false);
	assert_int_equal(m.observed, 0);
	add(&m, 4096, 4096, true);
	add(&m, 8192, 4096, true);
	assert_true(sample(&m).external == 0);
	/* A block over the seam, and holes that grow together over it. */
	b = take(&m, 6144, 4096, 4096);
	NEAR(sample(&m).external, 0.5);
	assert_int_equal(gp_metrics_give(&m, &b), 0);
	assert_true(sample(&m).external == 0);
	/* The first page goes, the second stays. */
	gone(&m, 4096, 4096, true);
	assert_int_equal(m.fault, 0);
	assert_int_equal(m.holes.bytes, 4096);
	gp_metrics_fini(&m);
}

/* |page 1|page 2|page 3|page 4|, and at 0x100000 pages 3 and 1: a block there is made of the end of
 * page 3 and the start of page 1. */
static void stitched_memory_is_one_memory(void **state)
{
	struct gp_metrics m;
	struct gp_shadow b, c;

	(void)state;
	gp_metrics_init(&m);
	m.stitches = true;
	for (uint64_t page = 1; page <= 4; page++)
		add(&m, page * 4096, 4096, true);
	gp_metrics_observe(&m, true, (struct gp_range){ 0x100000, 4096 }, true, 3 * 4096);
	gp_metrics_observe(&m, true, (struct gp_range){ 0x101000, 4096 }, true, 1 * 4096);
	assert_int_equal(m.observed, 4 * 4096);
	assert_int_equal(gp_metrics_largest(&m), 4 * 4096);
	b = take(&m, 0x100000 + 3072, 2048, 2048);
	assert_int_equal(m.holes.n, 2); /* 1K of page 1 to 3K of page 3; page 4 */
	assert_int_equal(m.whole_pages, 2 * 4096);
	/* 3K of page 1, page 2, 3K of page 3 are one hole, too. */
	assert_int_equal(gp_metrics_largest(&m), 4096 + 2 * 3072);
	c = take(&m, 2 * 4096 + 512, 256, 256);
	assert_int_equal(m.holes.n, 3);
	assert_int_equal(gp_metrics_largest(&m), 3584 - 256 + 3072);
	NEAR(sample(&m).external, 1 - (3584.0 - 256 + 3072) / (3 * 4096 + 2048 - 256));
	NEAR(sample(&m).external_sq,
	     1 - (3584.0 * 3584 + 6400.0 * 6400 + 4096.0 * 4096) / (14080.0 * 14080));
	assert_int_equal(gp_metrics_give(&m, &b), 0);
	assert_int_equal(gp_metrics_give(&m, &c), 0);
	assert_int_equal(gp_metrics_largest(&m), 4 * 4096);
	/* Live through one place, it is not free through the other. */
	b = take(&m, 0x101000, 256, 256);
	assert_int_equal(gp_metrics_take(&m, &(struct gp_block){ 4096 + 128, 256 }, 256, &c),
			 -EILSEQ);
	gp_metrics_fini(&m);
}

static void joining_and_separate_ranges_do_not_join(void **state)
{
	struct gp_metrics m;
	struct gp_shadow b;

	(void)state;
	gp_metrics_init(&m);
	add(&m, 4096, 4096, true);
	add(&m, 8192, 4096, false);
	b = take(&m, 8192, 1024, 1024);
	assert_int_equal(gp_metrics_give(&m, &b), 0);
	assert_int_equal(m.holes.n, 2);
	gp_metrics_fini(&m);
}

/* Squares of holes of a terabyte need more than 64 bits; what is added must come off again. */
static void squares_are_exact(void **state)
{
	const uint64_t size = UINT64_C(1) << 40;
	struct gp_metrics m;
	struct gp_shadow b;

	(void)state;
	gp_metrics_init(&m);
	add(&m, size, size, false);
	sample(&m);
	assert_true(m.hole_squares.high == 1 << 16 && m.hole_squares.low == 0);
	b = take(&m, size + 12345, 256, 256);
	assert_int_equal(gp_metrics_give(&m, &b), 0);
	sample(&m);
	assert_true(m.hole_squares.high == 1 << 16 && m.hole_squares.low == 0);
	gone(&m, size, size, false);
	assert_true(m.hole_squares.high == 0 && m.hole_squares.low == 0);
	/* (2^33 - 1)^2 = 2^66 - 2^34 + 1 */
	add(&m, 4096, (UINT64_C(1) << 33) - 1, false);
	sample(&m);
	assert_true(m.hole_squares.high == 3);
	assert_true(m.hole_squares.low == (UINT64_C(0) - (UINT64_C(1) << 34)) + 1);
	/* Twice that carries, and borrows on the way back. */
	add(&m, UINT64_C(1) << 40, (UINT64_C(1) << 33) - 1, false);
	sample(&m);
	assert_true(m.hole_squares.high == 7);
	assert_true(m.hole_squares.low == (UINT64_C(0) - (UINT64_C(1) << 35)) + 2);
	gone(&m, UINT64_C(1) << 40, (UINT64_C(1) << 33) - 1, false);
	sample(&m);
	assert_true(m.hole_squares.high == 3);
	gp_metrics_fini(&m);
}

/* What comes and goes between two samples: a range that becomes a block as a whole, in part, or
 * together with its neighbour; a block whose range goes right after it. */
static void holes_pass_by(void **state)
{
	struct gp_metrics m;
	struct gp_shadow a, b;

	(void)state;
	gp_metrics_init(&m);
	add(&m, 8192, 4096, false);
	a = take(&m, 8192, 4096, 4096);
	add(&m, 65536, 8192, false);
	b = take(&m, 65536 + 1024, 4096, 4096);
	NEAR(sample(&m).external, 1 - 3072.0 / 4096);
	assert_int_equal(gp_metrics_give(&m, &b), 0);
	gone(&m, 65536, 8192, false);
	assert_int_equal(gp_metrics_give(&m, &a), 0);
	gone(&m, 8192, 4096, false);
	assert_int_equal(m.fault, 0);
	assert_int_equal(sample(&m).granted + m.observed + m.holes.n, 0);

	add(&m, 8192, 4096, true);
	add(&m, 8192 + 4096, 4096, true);
	a = take(&m, 8192 + 1024, 4096 + 1024, 4096);
	NEAR(sample(&m).external, 1 - 2048.0 / 3072);
	assert_int_equal(m.fault, 0);
	gp_metrics_fini(&m);
}

/* ---- what is refused ---- */

static int try_take(struct gp_metrics *m, uint64_t addr, uint64_t granted, uint64_t requested)
{
	struct gp_shadow block;

	return gp_metrics_take(m, &(struct gp_block){ addr, granted }, requested, &block);
}

static void bad_blocks(void **state)
{
	static const struct {
		uint64_t addr, granted, requested;
		const char *why;
	} cases[] = {
		{ 4096, 512, 512, "overlaps a live block" },       /* the block itself  */
		{ 4096 + 256, 256, 256, "overlaps a live block" }, /* inside it         */
		{ 4096 + 256, 512, 512, "overlaps a live block" }, /* over its end      */
		{ 8192 - 256, 512, 512, "not reserved memory" },   /* over the range's  */
		{ 1024, 512, 512, "not reserved memory" },         /* before the range  */
		{ 4096 + 1024, 512, 513, "smaller than asked for" },
		{ UINT64_MAX - 100, 512, 512, "not reserved memory" },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		struct gp_metrics m;

		gp_metrics_init(&m);
		add(&m, 4096, 4096, false);
		take(&m, 4096, 512, 500);
		assert_int_equal(try_take(&m, cases[i].addr, cases[i].granted, cases[i].requested),
				 -EILSEQ);
		assert_non_null(strstr(m.why, cases[i].why));
		/* From then on nothing is believed. */
		assert_int_equal(try_take(&m, 4096 + 2048, 256, 256), -EILSEQ);
		assert_int_equal(m.granted, 512);
		gp_metrics_fini(&m);
	}
}

static void bad_ranges(void **state)
{
	struct gp_metrics m;

	(void)state;
	/* Over two ranges that touch and do not join, the second just added. */
	gp_metrics_init(&m);
	add(&m, 4096, 4096, false);
	add(&m, 8192, 4096, false);
	assert_int_equal(try_take(&m, 4096 + 2048, 4096 + 2048, 4096), -EILSEQ);
	assert_int_equal(try_take(&m, 4096, 4096, 4096), -EILSEQ);
	gp_metrics_fini(&m);

	gp_metrics_init(&m);
	add(&m, 4096, 4096, false);
	take(&m, 4096, 512, 512);
	gone(&m, 4096, 4096, false);
	assert_true(m.fault < 0);
	assert_non_null(strstr(m.why, "went back to the device with blocks in it"));
	gp_metrics_fini(&m);

	gp_metrics_init(&m);
	add(&m, 4096, 4096, false);
	gp_metrics_observe(&m, true, (struct gp_range){ 8191, 10 }, false, 0);
	gp_metrics_sample(&m, 0, &(struct gp_sample){ 0 });
	assert_true(m.fault < 0);
	assert_non_null(strstr(m.why, "free already"));
	gp_metrics_fini(&m);
}

/* ---- against a map of units ---- */

#define UNIT        256
#define UNITS       512
#define RANGE_UNITS 32 /* of each range */
#define BASE        UINT64_C(0x10000000)

struct map {
	bool reserved[UNITS];
	unsigned owner[UNITS]; /* block number + 1; 0: none */
};

static uint64_t random_next(uint64_t *seed)
{
	uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* The first half of the ranges are mappings, the others are reservations. */
static bool range_joins(unsigned range)
{
	return range < UNITS / RANGE_UNITS / 2;
}

/* Does the hole at unit u - 1 reach over to unit u? */
static bool map_one_piece(unsigned u)
{
	return u % RANGE_UNITS ||
	       (range_joins(u / RANGE_UNITS) && range_joins(u / RANGE_UNITS - 1));
}

/* Whole ranges in [first, end), in units; *before: units that lie before the first of them. */
static unsigned map_whole(unsigned first, unsigned end, unsigned *before)
{
	unsigned from = (first + RANGE_UNITS - 1) / RANGE_UNITS * RANGE_UNITS;
	unsigned to = end / RANGE_UNITS * RANGE_UNITS;

	*before = from - first;
	return to > from ? to - from : 0;
}

static void map_compare(const struct map *map, struct gp_metrics *m)
{
	double sum = 0, squares = 0, largest = 0, together = 0;
	struct gp_sample s = sample(m);
	unsigned u = 0, n = 0;

	while (u < UNITS) {
		unsigned first = u;

		while (u < UNITS && map->reserved[u] && !map->owner[u] &&
		       (u == first || map_one_piece(u)))
			u++;
		if (u == first) {
			u++;
			continue;
		}
		double size = (double)(u - first) * UNIT;
		unsigned before, whole = m->stitches ? map_whole(first, u, &before) : 0;

		n++;
		sum += size;
		largest = size > largest ? size : largest;
		if (whole) {
			double head = (double)before * UNIT, pages = (double)whole * UNIT;

			together += pages;
			squares += head * head + (size - head - pages) * (size - head - pages);
		} else {
			squares += size * size;
		}
	}
	squares += together * together;
	largest = together > largest ? together : largest;
	assert_int_equal(m->holes.n, n);
	NEAR(s.external, sum > 0 ? 1 - largest / sum : 0);
	NEAR(s.external_sq, sum > 0 ? 1 - squares / (sum * sum) : 0);
}

static bool map_is(const struct map *map, unsigned first, unsigned n, bool reserved)
{
	for (unsigned u = first; u < first + n; u++)
		if (u >= UNITS || map->reserved[u] != reserved || map->owner[u] ||
		    (reserved && u > first && !map_one_piece(u)))
			return false;
	return true;
}

#define BLOCKS 64

struct model {
	struct map map;
	struct gp_metrics m;
	struct gp_shadow blocks[BLOCKS];
	unsigned at[BLOCKS], n[BLOCKS]; /* views */
	uint64_t seed;
};

/* Where stitches, the mappings are there a second time, behind everything and in another order. A
 * view is a unit at either place. */
#define N_MAPPED     (UNITS / RANGE_UNITS / 2)
#define MAPPED_UNITS (N_MAPPED * RANGE_UNITS)

static unsigned second_place(unsigned range)
{
	return range * 5 % N_MAPPED;
}

static unsigned unit_of_view(unsigned view)
{
	if (view < UNITS)
		return view;
	for (unsigned range = 0; range < N_MAPPED; range++)
		if (second_place(range) == (view - UNITS) / RANGE_UNITS)
			return range * RANGE_UNITS + view % RANGE_UNITS;
	return UINT_MAX;
}

static bool views_are_free(const struct model *t, unsigned first, unsigned n)
{
	if (first < UNITS)
		return map_is(&t->map, first, n, true);
	for (unsigned v = first; v < first + n; v++)
		if (v >= UNITS + MAPPED_UNITS || !map_is(&t->map, unit_of_view(v), 1, true))
			return false;
	return true;
}

static void model_show(struct model *t, bool added, unsigned range)
{
	uint64_t at = BASE + (UNITS + second_place(range) * RANGE_UNITS) * UNIT;

	if (t->m.stitches && range_joins(range))
		gp_metrics_observe(&t->m, added, (struct gp_range){ at, RANGE_UNITS * UNIT }, true,
				   BASE + range * RANGE_UNITS * UNIT);
}

static void model_range(struct model *t)
{
	unsigned range = (unsigned)(random_next(&t->seed) % (UNITS / RANGE_UNITS));
	unsigned first = range * RANGE_UNITS;
	bool reserved = t->map.reserved[first];

	for (unsigned u = first; u < first + RANGE_UNITS; u++)
		if (t->map.owner[u])
			return;
	for (unsigned u = first; u < first + RANGE_UNITS; u++)
		t->map.reserved[u] = !reserved;
	if (reserved)
		model_show(t, false, range);
	gp_metrics_observe(&t->m, !reserved,
			   (struct gp_range){ BASE + first * UNIT, RANGE_UNITS * UNIT },
			   range_joins(range), 0);
	if (!reserved)
		model_show(t, true, range);
}

static void model_block(struct model *t)
{
	unsigned b = (unsigned)(random_next(&t->seed) % BLOCKS);
	unsigned n_views = UNITS + (t->m.stitches ? MAPPED_UNITS : 0);
	unsigned first = (unsigned)(random_next(&t->seed) % n_views);
	unsigned n = 1 + (unsigned)(random_next(&t->seed) % 12);
	bool live = t->blocks[b].addr != 0;

	if (live) {
		assert_int_equal(gp_metrics_give(&t->m, &t->blocks[b]), 0);
		assert_int_equal(t->blocks[b].addr, 0);
	} else if (views_are_free(t, first, n)) {
		t->blocks[b] = take(&t->m, BASE + first * UNIT, n * UNIT, n * UNIT - 7);
		t->at[b] = first;
		t->n[b] = n;
	} else {
		return;
	}
	for (unsigned v = t->at[b]; v < t->at[b] + t->n[b]; v++)
		t->map.owner[unit_of_view(v)] = live ? 0 : b + 1;
}

static void random_steps(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 16; seed++) {
		struct model t = { .seed = seed };

		gp_metrics_init(&t.m);
		t.m.stitches = seed > 8;
		for (unsigned step = 0; step < 4000; step++) {
			if (random_next(&t.seed) % 8)
				model_block(&t);
			else
				model_range(&t);
			if (t.m.fault)
				fail_msg("seed %u, step %u: %s", (unsigned)seed, step, t.m.why);
			/* A comparison settles what came last; changes meet without one too. */
			if (random_next(&t.seed) % 4 == 0)
				map_compare(&t.map, &t.m);
		}
		map_compare(&t.map, &t.m);
		gp_metrics_fini(&t.m);
	}
}

/* ---- the curve ---- */

static struct gp_sample at(uint64_t requested, uint64_t reserved, double external)
{
	return (struct gp_sample){ .requested = requested,
				   .granted = requested,
				   .reserved = reserved,
				   .internal = external / 2,
				   .external = external,
				   .external_sq = external / 4 };
}

static void curve_of_nothing(void **state)
{
	struct gp_run run = { .memory.utilization = 9 };
	struct gp_curve c;

	(void)state;
	gp_curve_init(&c, NULL, gp_curve_windows(0, 2000), 0);
	gp_curve_finish(&c, &run);
	assert_int_equal(run.n_windows, 0);
	assert_true(run.memory.utilization == 1 && run.memory.overhead == 0);
	assert_true(run.fragmentation.external_mean == 0);
}

/* The greatest R decides, then the greatest Q, then the first. */
static void peak_is_of_reserved_then_requested(void **state)
{
	const struct gp_sample s[] = { at(50, 100, 0.1), at(80, 100, 0.2), at(90, 90, 0.3),
				       at(80, 100, 0.4), at(60, 100, 0.6) };
	struct gp_window windows[5];
	struct gp_run run = { 0 };
	struct gp_curve c;

	(void)state;
	gp_curve_init(&c, windows, 5, 5);
	for (size_t i = 0; i < 5; i++)
		gp_curve_add(&c, &s[i], i);
	gp_curve_finish(&c, &run);
	assert_int_equal(run.memory.load, 90);
	assert_int_equal(run.memory.peak_reserved, 100);
	assert_int_equal(run.memory.end_reserved, 100);
	NEAR(run.memory.utilization, 0.9);
	NEAR(run.memory.overhead, 100.0 / 90 - 1);
	NEAR(run.fragmentation.external_at_peak, 0.2);
	NEAR(run.fragmentation.internal_at_peak, 0.1);
	NEAR(run.fragmentation.external_sq_at_peak, 0.05);
}

static void means_weight_by_time(void **state)
{
	struct gp_window windows[3];
	struct gp_run run = { 0 };
	struct gp_curve c;
	const struct gp_sample a = at(1, 1, 0.8), b = at(1, 1, 0.2), end = at(1, 1, 0.5);

	(void)state;
	gp_curve_init(&c, windows, 3, 3);
	gp_curve_add(&c, &a, 5);    /* holds for 10 */
	gp_curve_add(&c, &b, 15);   /* holds for 30 */
	gp_curve_add(&c, &end, 45); /* holds for nothing */
	gp_curve_finish(&c, &run);
	NEAR(run.fragmentation.external_mean, (0.8 * 10 + 0.2 * 30) / 40);
	NEAR(run.fragmentation.internal_mean, (0.4 * 10 + 0.1 * 30) / 40);
	/* Without times each event counts the same. */
	gp_curve_init(&c, windows, 3, 3);
	gp_curve_add(&c, &a, 0);
	gp_curve_add(&c, &b, 0);
	gp_curve_add(&c, &end, 0);
	gp_curve_finish(&c, &run);
	NEAR(run.fragmentation.external_mean, (0.8 + 0.2 + 0.5) / 3);
}

static void windows_cover_all_events(void **state)
{
	static struct gp_window windows[7];
	const uint64_t n_events = 100;
	struct gp_run run = { 0 };
	struct gp_curve c;

	(void)state;
	assert_int_equal(gp_curve_windows(n_events, 7), 7);
	gp_curve_init(&c, windows, 7, n_events);
	for (uint64_t i = 0; i < n_events; i++) {
		/* A spike of one event, which no window may miss. */
		const struct gp_sample s = i == 33 ? at(1000, 2000, 0.9) : at(i, 100 + i, 0.1);

		gp_curve_add(&c, &s, i * 10);
	}
	gp_curve_finish(&c, &run);
	assert_int_equal(run.n_windows, 7);
	assert_int_equal(windows[0].first_event, 0);
	assert_int_equal(windows[6].last_event, 99);
	for (size_t w = 0; w < 7; w++) {
		uint64_t n = windows[w].last_event - windows[w].first_event + 1;
		bool spike = windows[w].first_event <= 33 && windows[w].last_event >= 33;

		assert_true(n == 14 || n == 15);
		assert_true(!w || windows[w].first_event == windows[w - 1].last_event + 1);
		assert_int_equal(windows[w].t_ns, windows[w].last_event * 10);
		assert_int_equal(windows[w].reserved.min, 100 + windows[w].first_event);
		assert_int_equal(windows[w].reserved.last, 100 + windows[w].last_event);
		assert_int_equal(windows[w].reserved.max,
				 spike ? 2000 : 100 + windows[w].last_event);
		NEAR(windows[w].external.max, spike ? 0.9 : 0.1);
		NEAR(windows[w].external.min, 0.1);
	}
}

static void few_events_have_a_window_each(void **state)
{
	struct gp_window windows[3];
	struct gp_run run = { 0 };
	struct gp_curve c;

	(void)state;
	assert_int_equal(gp_curve_windows(3, 2000), 3);
	gp_curve_init(&c, windows, 3, 3);
	for (uint64_t i = 0; i < 2; i++) {
		const struct gp_sample s = at(i, i, 0);

		gp_curve_add(&c, &s, 0);
	}
	/* Ended early: only what was seen. */
	gp_curve_finish(&c, &run);
	assert_int_equal(run.n_windows, 2);
	assert_int_equal(windows[1].first_event, 1);
	assert_int_equal(windows[1].last_event, 1);
	assert_int_equal(windows[1].requested.min, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing),
		cmocka_unit_test(blind),
		cmocka_unit_test(fractions),
		cmocka_unit_test(only_joining_ranges_join),
		cmocka_unit_test(stitched_memory_is_one_memory),
		cmocka_unit_test(joining_and_separate_ranges_do_not_join),
		cmocka_unit_test(squares_are_exact),
		cmocka_unit_test(holes_pass_by),
		cmocka_unit_test(bad_blocks),
		cmocka_unit_test(bad_ranges),
		cmocka_unit_test(random_steps),
		cmocka_unit_test(curve_of_nothing),
		cmocka_unit_test(peak_is_of_reserved_then_requested),
		cmocka_unit_test(means_weight_by_time),
		cmocka_unit_test(windows_cover_all_events),
		cmocka_unit_test(few_events_have_a_window_each),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
