/* SPDX-License-Identifier: Apache-2.0
 *
 * test_registry: the list of allocators, and specs such as "buddy:min_block=512" good and bad.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

#include <errno.h>
#include <string.h>

static void every_entry_is_sound(void **state)
{
	size_t n = gp_allocator_count();

	(void)state;
	assert_true(n > 0);
	assert_null(gp_allocator_at(n));
	for (size_t i = 0; i < n; i++) {
		const struct gp_allocator_ops *ops = gp_allocator_at(i);

		assert_ptr_equal(gp_allocator_find(ops->name), ops);
		assert_true(ops->summary && *ops->summary);
		assert_true(ops->init && ops->fini && ops->alloc && ops->free && ops->usage);
		for (const struct gp_option *o = ops->options; o && o->name; o++)
			for (const struct gp_option *other = ops->options; other != o; other++)
				assert_string_not_equal(o->name, other->name);
	}
	assert_null(gp_allocator_find("nonesuch"));
	assert_null(gp_allocator_find(""));
	assert_string_equal(gp_allocator_named_by("buddy:min_block=512")->name, "buddy");
	assert_string_equal(gp_allocator_named_by("raw")->name, "raw");
	assert_null(gp_allocator_named_by("rawest"));
	assert_null(gp_allocator_named_by("budd:min_block=512"));
	assert_null(gp_allocator_named_by(":"));
}

static void sizes_are_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "64K", 64 * GP_KIB },
		{ "64KiB", 64 * GP_KIB },
		{ "2M", 2 * GP_MIB },
		{ "2MiB", 2 * GP_MIB },
		{ "1.5GiB", 3 * GP_GIB / 2 },
		{ "0.5K", 512 },
		{ "12B", 12 },
		{ "18446744073709551615", UINT64_MAX },
	};
	/* clang-format off */
	static const char *const bad[] = {
		"", "-1", "+1", " 1", "1 ", "x", "K", "1X", "1KK", "1.K", ".5K", "1.5", "1e3",
		"0x10", "1KiBs", "nan", "inf", "1,000", "18446744073709551616",
		"18014398509481984K", "16777216T",
	};
	/* clang-format on */
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(good); i++) {
		v = 1;
		if (!gp_parse_size(good[i].text, &v) || v != good[i].value)
			fail_msg("\"%s\"", good[i].text);
	}
	for (size_t i = 0; i < GP_ARRAY_LEN(bad); i++) {
		v = 7;
		if (gp_parse_size(bad[i], &v) || v != 7)
			fail_msg("\"%s\" was taken", bad[i]);
	}
}

static void close_misspellings_are_suggested(void **state)
{
	(void)state;
	assert_string_equal(gp_allocator_nearest("budy"), "buddy");
	assert_string_equal(gp_allocator_nearest("bubdy"), "buddy");
	assert_string_equal(gp_allocator_nearest("segregate"), "segregated");
	assert_string_equal(gp_allocator_nearest("seg"), "segregated");
	assert_string_equal(gp_allocator_nearest("hybird"), "hybrid");
	assert_null(gp_allocator_nearest("quicksort"));
	assert_null(gp_allocator_nearest("a-name-longer-than-anything-that-could-be-meant-by-it"));
}

/* Refused with -EINVAL, in words that hold `say`; nothing is left on the device. */
static void refused(const char *spec, const char *say)
{
	const struct gp_device_config cfg = { .capacity = TEST_CAPACITY };
	struct gp_allocator *a = (struct gp_allocator *)1;
	struct gp_device *dev;
	char why[200] = "";
	int r;

	assert_int_equal(gp_device_open_sim(&cfg, &dev, why, sizeof(why)), 0);
	r = gp_allocator_create(spec, dev, &test_env, &a, why, sizeof(why));
	if (r != -EINVAL || !strstr(why, say) || strchr(why, '\n'))
		fail_msg("%s: %d: \"%s\", expected \"%s\"", spec, r, why, say);
	assert_null(a);
	assert_int_equal(dev->reserved_bytes, 0);
	/* The words are wanted by most, not by all. */
	assert_int_equal(gp_allocator_create(spec, dev, NULL, &a, NULL, 0), -EINVAL);
	gp_device_close(dev);
}

static void bad_specs_are_refused_in_words(void **state)
{
	(void)state;
	refused("", "unknown allocator");
	refused(":", "unknown allocator");
	refused("nonesuch", "unknown allocator \"nonesuch\"");
	refused("budy", "did you mean \"buddy\"?");
	refused("Buddy", "did you mean \"buddy\"?");
	refused("buddy:min_blok=512", "did you mean \"min_block\"?");
	refused("buddy:zzzzzz=1", "unknown option \"zzzzzz\"");
	refused("buddy:min_block", "key=value");
	refused("buddy:=512", "key=value");
	refused("buddy:min_block=", "min_block=");
	refused("buddy:min_block=lots", "expected a size");
	refused("buddy:min_block=-1", "expected a size");
	refused("buddy:min_block=768", "power of two");
	refused("buddy:grow=sideways", "vmm or chunk or prealloc");
	refused("buddy:grow=", "vmm or chunk or prealloc");
	refused("raw:grow=vmm", "unknown option \"grow\"");
	refused("check", "wraps another allocator");
	refused("threads", "wraps another allocator");
}

static void ranges_are_kept(void **state)
{
	(void)state;
	for (size_t i = 0; i < gp_allocator_count(); i++) {
		const struct gp_allocator_ops *ops = gp_allocator_at(i);
		char spec[160];

		if (ops->caps & GP_CAP_DECORATOR)
			continue;
		for (const struct gp_option *o = ops->options; o && o->name; o++) {
			if (o->type != GP_OPTION_SIZE && o->type != GP_OPTION_COUNT)
				continue;
			snprintf(spec, sizeof(spec), "%s:%s=18446744073709551616", ops->name,
				 o->name);
			refused(spec, "expected a");
			if (o->max && o->max < UINT64_MAX) {
				snprintf(spec, sizeof(spec), "%s:%s=%llu", ops->name, o->name,
					 (unsigned long long)o->max + 1);
				refused(spec, "expected");
			}
			if (o->min) {
				snprintf(spec, sizeof(spec), "%s:%s=%llu", ops->name, o->name,
					 (unsigned long long)o->min - 1);
				refused(spec, "expected");
			}
		}
	}
}

static void every_way_of_growing_is_taken(void **state)
{
	struct pool p;

	(void)state;
	for (size_t i = 0; i < gp_allocator_count(); i++) {
		char specs[TEST_SPECS][TEST_SPEC_SIZE];
		size_t n;

		if (gp_allocator_at(i)->caps & (GP_CAP_DECORATOR | GP_CAP_OFFLINE))
			continue;
		n = test_specs(gp_allocator_at(i)->name, specs);
		for (size_t k = 0; k < n; k++) {
			pool_open(&p, specs[k], NULL, TEST_CAPACITY, 1);
			pool_close(&p);
		}
	}
}

static void the_last_value_counts(void **state)
{
	uint64_t addr;
	struct pool p;

	(void)state;
	pool_open(&p, "fixed:block=4K,block=1M", NULL, TEST_CAPACITY, 1);
	assert_int_equal(pool_alloc(&p, GP_MIB, 0, 0, &addr), 0);
	pool_close(&p);
}

static void wrapping_owns_the_inner_even_when_it_fails(void **state)
{
	char why[200] = "";
	uint64_t addr;
	struct pool p;

	(void)state;
	pool_open(&p, "buddy:grow=prealloc", NULL, TEST_CAPACITY, 1);
	assert_int_equal(pool_alloc(&p, GP_MIB, 0, 0, &addr), 0);
	assert_int_equal(gp_allocator_wrap("fault:nth=x", p.a, &p.a, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "nth=x"));
	assert_null(p.a);
	pool_close(&p);
	pool_open(&p, "buddy", NULL, TEST_CAPACITY, 1);
	assert_int_equal(gp_allocator_wrap("raw", p.a, &p.a, why, sizeof(why)), -EINVAL);
	assert_null(p.a);
	pool_close(&p);
}

static void several_threads_get_the_decorator(void **state)
{
	struct pool p;

	(void)state;
	pool_open(&p, "buddy", NULL, TEST_CAPACITY, 1);
	assert_string_equal(p.a->ops->name, "buddy");
	pool_close(&p);
	pool_open(&p, "buddy", NULL, TEST_CAPACITY, 2);
	assert_string_equal(p.a->ops->name, "threads");
	pool_close(&p);
	pool_open(&p, "raw", NULL, TEST_CAPACITY, 2);
	assert_string_equal(p.a->ops->name, "raw");
	pool_close(&p);
}

static void results_have_words(void **state)
{
	static const int results[] = { GP_OK,     GP_NOMEM, GP_REFUSED, GP_HELD, -EINVAL,
				       -EALREADY, -EILSEQ,  -EIO,       99 };

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(results); i++) {
		assert_true(*gp_result_text(results[i]));
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(gp_result_text(results[i]),
						gp_result_text(results[k]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_entry_is_sound),
		cmocka_unit_test(sizes_are_read),
		cmocka_unit_test(close_misspellings_are_suggested),
		cmocka_unit_test(bad_specs_are_refused_in_words),
		cmocka_unit_test(ranges_are_kept),
		cmocka_unit_test(every_way_of_growing_is_taken),
		cmocka_unit_test(the_last_value_counts),
		cmocka_unit_test(wrapping_owns_the_inner_even_when_it_fails),
		cmocka_unit_test(several_threads_get_the_decorator),
		cmocka_unit_test(results_have_words),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
