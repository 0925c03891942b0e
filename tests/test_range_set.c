/* SPDX-License-Identifier: Apache-2.0
 *
 * range_set: each function by hand, then random operations against a plain sorted array, which
 * also audits the invariants of range_set.c from outside (order, sums, largest).
 *
 * GP_TEST_SEED sets the seed of the random part; a failure prints the one that was used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/range_set.h"

static void insert_refuses_what_is_no_range(void **state)
{
	struct gp_range_set s;

	(void)state;
	gp_range_set_init(&s);
	assert_int_equal(gp_range_set_insert(&s, 4096, 0, 0), -EINVAL);
	assert_int_equal(gp_range_set_insert(&s, UINT64_MAX - 10, 12, 0), -EINVAL);
	assert_int_equal(gp_range_set_insert_merge(&s, 4096, 0, 0), -EINVAL);
	assert_int_equal(gp_range_set_insert(&s, 0, UINT64_MAX, 7), 0);
	assert_int_equal(gp_range_set_largest(&s), UINT64_MAX);
	gp_range_set_fini(&s);
	assert_int_equal(s.n, 0);
}

static void insert_refuses_overlap(void **state)
{
	struct gp_range_set s;

	(void)state;
	gp_range_set_init(&s);
	assert_int_equal(gp_range_set_insert(&s, 100, 50, 1), 0);
	assert_int_equal(gp_range_set_insert(&s, 100, 50, 1), -EEXIST);
	assert_int_equal(gp_range_set_insert(&s, 149, 1, 1), -EEXIST);
	assert_int_equal(gp_range_set_insert(&s, 50, 51, 1), -EEXIST);
	assert_int_equal(gp_range_set_insert(&s, 0, 1000, 1), -EEXIST);
	assert_int_equal(gp_range_set_insert_merge(&s, 99, 2, 1), -EEXIST);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.bytes, 50);
	assert_int_equal(gp_range_set_insert(&s, 150, 10, 1), 0);
	assert_int_equal(gp_range_set_insert(&s, 90, 10, 1), 0);
	assert_int_equal(s.n, 3);
	gp_range_set_fini(&s);
}

static void lookups_on_an_empty_set_find_nothing(void **state)
{
	struct gp_range_set s;
	uint64_t addr = 77;

	(void)state;
	gp_range_set_init(&s);
	assert_null(gp_range_set_at(&s, 0));
	assert_null(gp_range_set_containing(&s, 0));
	assert_null(gp_range_set_floor(&s, UINT64_MAX));
	assert_null(gp_range_set_ceiling(&s, 0));
	assert_int_equal(gp_range_set_largest(&s), 0);
	assert_false(gp_range_set_first_fit(&s, 1, 1, &addr));
	assert_int_equal(addr, 77);
	assert_int_equal(gp_range_set_remove(&s, 0, NULL), -ENOENT);
	assert_int_equal(gp_range_set_carve(&s, 0, 1), -ENOENT);
	gp_range_set_fini(&s);
}

static void lookups_take_the_right_neighbour(void **state)
{
	struct gp_range_set s;

	(void)state;
	gp_range_set_init(&s);
	assert_int_equal(gp_range_set_insert(&s, 100, 50, 1), 0);
	assert_int_equal(gp_range_set_insert(&s, 200, 50, 2), 0);
	assert_int_equal(gp_range_set_at(&s, 200)->tag, 2);
	assert_null(gp_range_set_at(&s, 201));
	assert_int_equal(gp_range_set_containing(&s, 149)->tag, 1);
	assert_null(gp_range_set_containing(&s, 150));
	assert_null(gp_range_set_containing(&s, 99));
	assert_int_equal(gp_range_set_floor(&s, 199)->tag, 1);
	assert_int_equal(gp_range_set_floor(&s, 200)->tag, 2);
	assert_int_equal(gp_range_set_ceiling(&s, 100)->tag, 1);
	assert_int_equal(gp_range_set_ceiling(&s, 101)->tag, 2);
	assert_null(gp_range_set_ceiling(&s, 201));
	gp_range_set_fini(&s);
}

static void carve_leaves_both_ends(void **state)
{
	struct gp_range_set s;

	(void)state;
	gp_range_set_init(&s);
	assert_int_equal(gp_range_set_insert(&s, 1000, 100, 9), 0);
	assert_int_equal(gp_range_set_carve(&s, 1090, 11), -ENOENT);
	assert_int_equal(gp_range_set_carve(&s, 999, 2), -ENOENT);
	assert_int_equal(gp_range_set_carve(&s, 1000, 0), -ENOENT);
	assert_int_equal(gp_range_set_carve(&s, 1090, UINT64_MAX), -ENOENT);
	assert_int_equal(gp_range_set_carve(&s, 1040, 20), 0); /* the middle */
	assert_int_equal(s.n, 2);
	assert_int_equal(gp_range_set_at(&s, 1060)->size, 40);
	assert_int_equal(gp_range_set_at(&s, 1060)->tag, 9);
	assert_int_equal(gp_range_set_carve(&s, 1000, 10), 0); /* the front */
	assert_int_equal(gp_range_set_at(&s, 1010)->size, 30);
	assert_int_equal(gp_range_set_carve(&s, 1090, 10), 0); /* the end */
	assert_int_equal(gp_range_set_at(&s, 1060)->size, 30);
	assert_int_equal(gp_range_set_carve(&s, 1010, 30), 0); /* all */
	assert_int_equal(s.n, 1);
	assert_int_equal(s.bytes, 30);
	assert_int_equal(gp_range_set_largest(&s), 30);
	gp_range_set_fini(&s);
}

static void merge_joins_equal_tags_only(void **state)
{
	struct gp_range_set s;

	(void)state;
	gp_range_set_init(&s);
	assert_int_equal(gp_range_set_insert_merge(&s, 100, 10, 1), 0);
	assert_int_equal(gp_range_set_insert_merge(&s, 120, 10, 1), 0);
	assert_int_equal(gp_range_set_insert_merge(&s, 130, 10, 2), 0); /* other tag */
	assert_int_equal(s.n, 3);
	assert_int_equal(gp_range_set_insert_merge(&s, 110, 10, 1), 0); /* both sides */
	assert_int_equal(s.n, 2);
	assert_int_equal(gp_range_set_at(&s, 100)->size, 30);
	assert_int_equal(gp_range_set_insert_merge(&s, 90, 10, 1), 0); /* right side */
	assert_int_equal(gp_range_set_at(&s, 90)->size, 40);
	assert_int_equal(gp_range_set_insert_merge(&s, 140, 5, 2), 0); /* left side */
	assert_int_equal(gp_range_set_at(&s, 130)->size, 15);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.bytes, 55);
	gp_range_set_fini(&s);
}

static void first_fit_respects_alignment(void **state)
{
	struct gp_range_set s;
	uint64_t addr = 0;

	(void)state;
	gp_range_set_init(&s);
	assert_int_equal(gp_range_set_insert(&s, 100, 200, 0), 0); /* 256 .. 300: 44 bytes */
	assert_int_equal(gp_range_set_insert(&s, 1000, 400, 0), 0);
	assert_true(gp_range_set_first_fit(&s, 44, 256, &addr));
	assert_int_equal(addr, 256);
	assert_true(gp_range_set_first_fit(&s, 45, 256, &addr));
	assert_int_equal(addr, 1024);
	assert_true(gp_range_set_first_fit(&s, 200, 1, &addr));
	assert_int_equal(addr, 100);
	assert_false(gp_range_set_first_fit(&s, 400, 256, &addr));
	assert_false(gp_range_set_first_fit(&s, 1, 4096, &addr));
	gp_range_set_fini(&s);
}

static void replace_changes_extent_and_tag(void **state)
{
	struct gp_range_set s;

	(void)state;
	gp_range_set_init(&s);
	assert_int_equal(gp_range_set_insert(&s, 100, 10, 1), 0);
	assert_int_equal(gp_range_set_insert(&s, 200, 20, 2), 0);
	assert_int_equal(gp_range_set_replace(&s, 150, (struct gp_range_entry){ 150, 1, 1 }),
			 -ENOENT);
	assert_int_equal(gp_range_set_largest(&s), 20);
	assert_int_equal(gp_range_set_replace(&s, 200, (struct gp_range_entry){ 110, 5, 3 }), 0);
	assert_int_equal(gp_range_set_largest(&s), 10);
	assert_int_equal(gp_range_set_at(&s, 110)->tag, 3);
	assert_null(gp_range_set_at(&s, 200));
	assert_int_equal(s.bytes, 15);
	gp_range_set_fini(&s);
}

static int stop_at_third(void *arg, const struct gp_range_entry *e)
{
	int *n = arg;

	(void)e;
	return ++*n == 3 ? 42 : 0;
}

static void each_stops_and_returns(void **state)
{
	struct gp_range_set s;
	int n = 0;

	(void)state;
	gp_range_set_init(&s);
	for (uint64_t i = 0; i < 300; i++)
		assert_int_equal(gp_range_set_insert(&s, i * 16, 8, i), 0);
	assert_int_equal(gp_range_set_each(&s, stop_at_third, &n), 42);
	assert_int_equal(n, 3);
	gp_range_set_fini(&s);
}

/* The reference: a sorted array with linear searches. */
struct model {
	struct gp_range_entry e[4096];
	size_t n;
};

static uint64_t rng_state;

static uint64_t rng(uint64_t below)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (rng_state >> 11) % below;
}

static size_t model_upper(const struct model *m, uint64_t addr)
{
	size_t i = 0;

	while (i < m->n && m->e[i].addr <= addr)
		i++;
	return i;
}

static void model_delete(struct model *m, size_t i)
{
	memmove(&m->e[i], &m->e[i + 1], (--m->n - i) * sizeof(m->e[0]));
}

static int model_insert(struct model *m, struct gp_range_entry e, bool merge)
{
	size_t i = model_upper(m, e.addr);

	if ((i && m->e[i - 1].addr + m->e[i - 1].size > e.addr) ||
	    (i < m->n && m->e[i].addr < e.addr + e.size))
		return -EEXIST;
	memmove(&m->e[i + 1], &m->e[i], (m->n++ - i) * sizeof(e));
	m->e[i] = e;
	if (merge && i + 1 < m->n && m->e[i + 1].tag == e.tag &&
	    e.addr + e.size == m->e[i + 1].addr) {
		m->e[i].size += m->e[i + 1].size;
		model_delete(m, i + 1);
	}
	if (merge && i && m->e[i - 1].tag == e.tag &&
	    m->e[i - 1].addr + m->e[i - 1].size == e.addr) {
		m->e[i - 1].size += m->e[i].size;
		model_delete(m, i);
	}
	return 0;
}

static int model_carve(struct model *m, uint64_t addr, uint64_t size)
{
	size_t i = model_upper(m, addr);
	struct gp_range_entry e;

	if (!i || !size || addr + size > m->e[i - 1].addr + m->e[i - 1].size)
		return -ENOENT;
	e = m->e[--i];
	model_delete(m, i);
	if (addr > e.addr)
		model_insert(m, (struct gp_range_entry){ e.addr, addr - e.addr, e.tag }, false);
	if (addr + size < e.addr + e.size)
		model_insert(m,
			     (struct gp_range_entry){ addr + size, e.addr + e.size - addr - size,
						      e.tag },
			     false);
	return 0;
}

static uint64_t model_first_fit(const struct model *m, uint64_t size, uint64_t align)
{
	for (size_t i = 0; i < m->n; i++) {
		uint64_t start = gp_align_up(m->e[i].addr, align);

		if (start + size <= m->e[i].addr + m->e[i].size)
			return start;
	}
	return UINT64_MAX;
}

static int model_compare(void *arg, const struct gp_range_entry *e)
{
	struct gp_range_entry **next = arg;

	assert_memory_equal(e, *next, sizeof(*e));
	++*next;
	return 0;
}

static void compare_all(struct gp_range_set *s, struct model *m)
{
	struct gp_range_entry *next = m->e;
	uint64_t largest = 0, bytes = 0;

	assert_int_equal(s->n, m->n);
	assert_int_equal(gp_range_set_each(s, model_compare, &next), 0);
	assert_ptr_equal(next, m->e + m->n);
	for (size_t i = 0; i < m->n; i++) {
		largest = gp_max_u64(largest, m->e[i].size);
		bytes += m->e[i].size;
	}
	assert_int_equal(gp_range_set_largest(s), largest);
	assert_int_equal(s->bytes, bytes);
	/* Leaves at least a quarter full but the last. */
	assert_true(s->n_leaves <= m->n / 32 + 1);
}

static void compare_lookups(struct gp_range_set *s, const struct model *m, uint64_t addr)
{
	size_t i = model_upper(m, addr);
	const struct gp_range_entry *e = gp_range_set_floor(s, addr);
	uint64_t size = 1 + rng(40), align = UINT64_C(1) << rng(7), at = UINT64_MAX;

	assert_true(i ? e && e->addr == m->e[i - 1].addr : !e);
	e = gp_range_set_ceiling(s, addr);
	if (i && m->e[i - 1].addr == addr)
		i--;
	assert_true(i < m->n ? e && e->addr == m->e[i].addr : !e);
	assert_int_equal(gp_range_set_first_fit(s, size, align, &at),
			 model_first_fit(m, size, align) != UINT64_MAX);
	assert_int_equal(at, model_first_fit(m, size, align));
}

/* One random change on both; `grow` per cent of them add. */
static void random_step(struct gp_range_set *s, struct model *m, uint64_t grow)
{
	struct gp_range_entry e = { rng(60000), 1 + rng(24), rng(2) };
	bool merge = rng(2);
	size_t i = model_upper(m, e.addr);

	if (rng(100) < grow && m->n < GP_ARRAY_LEN(m->e) - 2) {
		assert_int_equal(merge ? gp_range_set_insert_merge(s, e.addr, e.size, e.tag)
				       : gp_range_set_insert(s, e.addr, e.size, e.tag),
				 model_insert(m, e, merge));
	} else if (merge && m->n < GP_ARRAY_LEN(m->e) - 2) {
		assert_int_equal(gp_range_set_carve(s, e.addr, e.size),
				 model_carve(m, e.addr, e.size));
	} else if (i) {
		struct gp_range_entry out, was = m->e[i - 1];

		assert_int_equal(gp_range_set_remove(s, was.addr, &out), 0);
		assert_memory_equal(&out, &was, sizeof(was));
		assert_int_equal(gp_range_set_remove(s, was.addr, &out), -ENOENT);
		model_delete(m, i - 1);
	}
	compare_lookups(s, m, rng(61000));
}

static void random_operations_match_the_model(void **state)
{
	static struct model m;
	const char *text = getenv("GP_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 20240607;
	struct gp_range_set s;

	(void)state;
	print_message("# seed %" PRIu64 "\n", seed);
	rng_state = seed ? seed : 1;
	m.n = 0;
	gp_range_set_init(&s);
	/* Filling, churning, and emptying: splits, then joins. */
	for (int i = 0; i < 60000; i++) {
		random_step(&s, &m, i / 10000 % 3 == 0 ? 85 : i / 10000 % 3 == 1 ? 50 : 10);
		if (i % 500 == 0)
			compare_all(&s, &m);
	}
	compare_all(&s, &m);
	while (m.n) {
		size_t i = rng(m.n);

		assert_int_equal(gp_range_set_remove(&s, m.e[i].addr, NULL), 0);
		model_delete(&m, i);
		if (m.n % 64 == 0)
			compare_all(&s, &m);
	}
	assert_int_equal(s.n_leaves, 0);
	gp_range_set_fini(&s);
}

/* Ascending, descending: the shapes that make lopsided splits. */
static void ordered_insertion_and_removal(void **state)
{
	enum { N = 2000 };
	struct gp_range_set s;

	(void)state;
	gp_range_set_init(&s);
	for (uint64_t i = 0; i < N; i++)
		assert_int_equal(gp_range_set_insert(&s, i * 10, 5, i), 0);
	assert_int_equal(s.n_leaves, (N + 127) / 128);
	for (uint64_t i = 0; i < N; i++)
		assert_int_equal(gp_range_set_remove(&s, i * 10, NULL), 0);
	for (uint64_t i = N; i-- > 0;)
		assert_int_equal(gp_range_set_insert(&s, i * 10, 5, i), 0);
	assert_true(s.n_leaves <= N / 32 + 1);
	for (uint64_t i = N; i-- > 0;)
		assert_int_equal(gp_range_set_remove(&s, i * 10, NULL), 0);
	assert_int_equal(s.n_leaves, 0);
	assert_int_equal(s.bytes, 0);
	gp_range_set_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(insert_refuses_what_is_no_range),
		cmocka_unit_test(insert_refuses_overlap),
		cmocka_unit_test(lookups_on_an_empty_set_find_nothing),
		cmocka_unit_test(lookups_take_the_right_neighbour),
		cmocka_unit_test(carve_leaves_both_ends),
		cmocka_unit_test(merge_joins_equal_tags_only),
		cmocka_unit_test(first_fit_respects_alignment),
		cmocka_unit_test(replace_changes_extent_and_tag),
		cmocka_unit_test(each_stops_and_returns),
		cmocka_unit_test(random_operations_match_the_model),
		cmocka_unit_test(ordered_insertion_and_removal),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
