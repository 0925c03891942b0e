/* SPDX-License-Identifier: Apache-2.0
 *
 * test_gen: the patterns of gpupool-gen do what their headers say, and what is written is what was
 * counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "gen_trace.h"

/* ---- all patterns ---- */

static void test_every_pattern(void **state)
{
	unsigned n = 0;

	(void)state;
	for (; gen_pattern_at(n); n++) {
		struct gen g;
		struct readback r;

		gen_init(&g, gen_pattern_at(n));
		g.n_streams = 3;
		g.n_threads = 2;
		g.interval_ns = 50;
		r = produce(&g, 0);
		assert_true(r.n > 100);
		for (size_t i = 0; i < r.n; i++) {
			assert_int_equal(r.ops[i].t, i * 50);
			assert_int_equal(r.ops[i].thread, (r.ops[i].id - 1) % 2);
			if (r.ops[i].is_alloc)
				assert_int_equal(r.ops[i].stream, (r.ops[i].id - 1) % 3);
		}
		free(r.ops);
	}
	assert_int_equal(n, 5);
}

static void test_same_seed_same_bytes(void **state)
{
	static const char *const patterns[] = { "random", "sawtooth" };

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(patterns); i++) {
		struct gen g = begin(patterns[i]);
		char *first, *again, *other;

		write_trace(&g, GEN_JSONL);
		first = slurp(path);
		write_trace(&g, GEN_JSONL);
		again = slurp(path);
		g.seed = 2;
		write_trace(&g, GEN_JSONL);
		other = slurp(path);
		assert_string_equal(first, again);
		/* The header names the seed; the events must differ as well. */
		assert_string_not_equal(strchr(first, '\n'), strchr(other, '\n'));
		free(first);
		free(again);
		free(other);
	}
}

static void test_jitter(void **state)
{
	struct gen g = begin("churn");
	struct readback r;
	uint64_t least = UINT64_MAX, most = 0;

	(void)state;
	set(&g, "size", 1000);
	set(&g, "jitter", 0.25);
	r = produce(&g, 0);
	assert_false(g.plan.has_load);
	for (size_t i = 0; i < r.n; i++) {
		if (!r.ops[i].is_alloc)
			continue;
		least = gp_min_u64(least, r.ops[i].size);
		most = gp_max_u64(most, r.ops[i].size);
	}
	assert_in_range(least, 750, 770);
	assert_in_range(most, 1230, 1250);
	free(r.ops);
}

/* ---- one pattern each ---- */

static void test_churn_order(void **state)
{
	struct gen g = begin("churn");
	struct readback r;

	(void)state;
	set(&g, "count", 7);
	set(&g, "live", 3);
	set(&g, "keep", 1);
	r = produce(&g, 3);
	assert_int_equal(g.load_bytes, 3 << 20);
	assert_int_equal(r.n, 11); /* 7 allocations, 4 frees */
	for (uint64_t i = 3; i < r.n; i++) {
		assert_int_equal(r.ops[i].is_alloc, i % 2 == 0);
		if (!r.ops[i].is_alloc)
			assert_int_equal(r.ops[i].id, (i - 1) / 2); /* the oldest */
	}
	free(r.ops);
	g = begin("churn");
	set(&g, "count", 2);
	set(&g, "live", 50);
	r = produce(&g, 0);
	assert_int_equal(g.load_bytes, 2 << 20);
	free(r.ops);
}

static void test_random_rules(void **state)
{
	struct gen g = begin("random");
	struct readback r;
	double sum = 0;
	uint64_t live = 0, n_live = 0, n_free_to_choose = 0, n_chose_alloc = 0, n_allocs = 0;
	uint64_t *size_of = calloc(20002, sizeof(*size_of));

	(void)state;
	assert_non_null(size_of);
	set(&g, "count", 20000);
	set(&g, "max-size", 1 << 20);
	r = produce(&g, 0);
	assert_int_equal(r.n, 40000);
	for (size_t i = 0; i < r.n; i++) {
		/* Where neither rule stands in the way, 73 % of the operations allocate. The cap is
		 * left alone below it by one largest size. */
		if (n_live && n_allocs < 20000 && live + (1 << 20) < (UINT64_C(16000) << 20)) {
			n_free_to_choose++;
			n_chose_alloc += r.ops[i].is_alloc;
		}
		if (r.ops[i].is_alloc) {
			assert_in_range(r.ops[i].size, 1, 1 << 20);
			size_of[r.ops[i].id] = r.ops[i].size;
			sum += (double)r.ops[i].size;
			live += r.ops[i].size;
			n_live++;
			n_allocs++;
		} else {
			live -= size_of[r.ops[i].id];
			n_live--;
		}
		assert_true(live < UINT64_C(16000) << 20);
	}
	assert_int_equal(n_allocs, 20000);
	assert_in_range((uint64_t)(sum / 20000), 510000, 538000); /* half of 2^20, 4 sigma */
	assert_in_range(n_chose_alloc * 1000 / n_free_to_choose, 719, 741);
	free(size_of);
	free(r.ops);
}

/* First fit by address in an arena without end: how far it ever reaches. */
static uint64_t first_fit_heap(const struct readback *r)
{
	struct gp_range *used = calloc(r->n + 1, sizeof(*used)); /* by address */
	uint64_t *id_of = calloc(r->n + 1, sizeof(*id_of));
	uint64_t top = 0;
	size_t n = 0;

	assert_non_null(used);
	assert_non_null(id_of);
	for (size_t i = 0; i < r->n; i++) {
		const struct op *o = &r->ops[i];
		uint64_t addr = 0;
		size_t k = 0;

		if (!o->is_alloc) {
			while (id_of[k] != o->id)
				k++;
			n--;
			memmove(&used[k], &used[k + 1], (n - k) * sizeof(*used));
			memmove(&id_of[k], &id_of[k + 1], (n - k) * sizeof(*id_of));
			continue;
		}
		for (; k < n && used[k].addr - addr < o->size; k++)
			addr = used[k].addr + used[k].size;
		memmove(&used[k + 1], &used[k], (n - k) * sizeof(*used));
		memmove(&id_of[k + 1], &id_of[k], (n - k) * sizeof(*id_of));
		used[k] = (struct gp_range){ addr, o->size };
		id_of[k] = o->id;
		n++;
		top = gp_max_u64(top, addr + o->size);
	}
	free(used);
	free(id_of);
	return top;
}

static void test_checkerboard_defeats_first_fit(void **state)
{
	(void)state;
	for (unsigned rounds = 0; rounds <= 6; rounds++) {
		struct gen g = begin("checkerboard");
		struct readback r;

		set(&g, "count", 1024);
		set(&g, "size", 1 << 20);
		set(&g, "rounds", rounds);
		r = produce(&g, 0);
		assert_int_equal(g.load_bytes, 1 << 30);
		/* Robson: half of the load more in each round. */
		assert_int_equal(first_fit_heap(&r), (UINT64_C(1) << 30) / 2 * (2 + rounds));
		free(r.ops);
	}
}

static void test_checkerboard_any_count(void **state)
{
	(void)state;
	for (unsigned count = 1; count < 70; count++) {
		struct gen g = begin("checkerboard");
		struct readback r;

		set(&g, "count", count);
		set(&g, "rounds", 60);
		set(&g, "jitter", count % 2 ? 0.5 : 0);
		r = produce(&g, 0);
		assert_true(g.load_bytes <= (uint64_t)count * 1572864); /* 1.5 MiB each */
		free(r.ops);
	}
}

static void test_sawtooth_teeth(void **state)
{
	struct gen g = begin("sawtooth");
	struct readback r;
	uint64_t live = 0, least = UINT64_MAX, size;
	unsigned n_tops = 0;

	(void)state;
	set(&g, "peak", 1 << 30);
	set(&g, "period", 200);
	set(&g, "rounds", 4);
	set(&g, "keep", 1);
	r = produce(&g, 11);
	size = r.ops[0].size;
	/* One long rise, three of 100, four falls of 100. */
	assert_in_range(r.n, 805, 815);
	for (size_t i = 0; i < r.n; i++) {
		live += r.ops[i].is_alloc ? size : -size;
		n_tops += i && r.ops[i - 1].is_alloc && !r.ops[i].is_alloc;
		if (n_tops)
			least = gp_min_u64(least, live);
	}
	assert_int_equal(n_tops, 4);
	assert_in_range(least, (1 << 30) / 10 - size, (1 << 30) / 10);
	assert_in_range(g.load_bytes, (1 << 30) - size, 1 << 30);
	free(r.ops);
}

static void test_ramp_steps(void **state)
{
	struct gen g = begin("ramp");
	struct readback r;
	const uint64_t expected[] = { 100, 150, 225, 337, 100, 150, 225 };

	(void)state;
	set(&g, "count", 7);
	set(&g, "size", 100);
	set(&g, "ratio", 1.5);
	set(&g, "max-size", 400);
	r = produce(&g, 0);
	assert_int_equal(g.load_bytes, 225 + 337);
	for (size_t i = 0; i < 7; i++) {
		const struct op *o = &r.ops[i ? 2 * i - 1 : 0];

		assert_true(o->is_alloc);
		assert_int_equal(o->size, expected[i]);
		/* The one before is freed right after. */
		if (i) {
			assert_false(o[1].is_alloc);
			assert_int_equal(o[1].id, i);
		}
	}
	free(r.ops);
	/* A few bytes times 1.1 is no more bytes: it must grow all the same, and end. */
	g = begin("ramp");
	set(&g, "size", 1);
	set(&g, "max-size", 1);
	r = produce(&g, 0);
	assert_int_equal(g.load_bytes, 2);
	free(r.ops);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *pattern, *option;
		double value;
	} cases[] = {
		{ "churn", "size", GEN_BYTES_MAX }, /* with live = 2: 2^61 */
		{ "checkerboard", "size", GEN_BYTES_MAX },
		{ "sawtooth", "size", 0x1.0p40 }, /* larger than the peak */
		{ "sawtooth", "low", 0.999 },     /* one block, which would stay */
		{ "ramp", "size", 0x1.0p40 },     /* larger than max-size */
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		struct gen g = begin(cases[i].pattern);

		if (i == 0)
			set(&g, "live", 2);
		if (i == 3)
			set(&g, "size", 0x1.4p32); /* 5 of 8 GiB */
		set(&g, cases[i].option, cases[i].value);
		assert_int_equal(gen_run(&g), -EINVAL);
		assert_true(strlen(g.why) > 10);
	}
}

/* A pattern that lies about its load. */
static int liar_plan(struct gen *g, struct gen_plan *out)
{
	(void)g;
	out->has_load = true;
	out->load_bytes = 2;
	return 0;
}

static void liar_run(struct gen *g)
{
	gen_free(g, gen_alloc(g, 1));
}

static void test_wrong_closed_form_is_caught(void **state)
{
	static const struct gen_option none[] = { { 0 } };
	static const struct gen_pattern liar = { "liar", "", none, liar_plan, liar_run };
	struct gen g;

	(void)state;
	gen_init(&g, &liar);
	assert_int_equal(gen_run(&g), -EILSEQ);
	assert_non_null(strstr(g.why, "2 bytes"));
}

static void test_interrupted(void **state)
{
	volatile sig_atomic_t flag = 1;
	struct gen g = begin("churn");

	(void)state;
	g.interrupted = &flag;
	set(&g, "count", 1000000);
	assert_int_equal(gen_run(&g), -EINTR);
	assert_true(g.n_events < 100000);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_pattern),
		cmocka_unit_test(test_same_seed_same_bytes),
		cmocka_unit_test(test_jitter),
		cmocka_unit_test(test_churn_order),
		cmocka_unit_test(test_random_rules),
		cmocka_unit_test(test_checkerboard_defeats_first_fit),
		cmocka_unit_test(test_checkerboard_any_count),
		cmocka_unit_test(test_sawtooth_teeth),
		cmocka_unit_test(test_ramp_steps),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_wrong_closed_form_is_caught),
		cmocka_unit_test(test_interrupted),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
