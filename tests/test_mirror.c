/* SPDX-License-Identifier: Apache-2.0
 *
 * test_mirror: the comparison of a run on a GPU with its simulation, by two simulated devices that
 * differ in what is to be found: nothing, the time of calls, the memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "allocators/device/device_profile.h"
#include "engine_job.h"
#include "replay/report.h"

/* The events at which 40 MiB are held, and then 64. */
static struct gp_trace *staircase(void)
{
	return TRACE_OF(ALLOC(.id = 1, .size = 40 * MIB), ALLOC(.id = 2, .size = 700),
			ALLOC(.id = 3, .size = 12 * MIB), FREE(.id = 2), FREE(.id = 3),
			ALLOC(.id = 4, .size = 20 * MIB), FREE(.id = 4), FREE(.id = 1));
}

struct pair {
	struct gp_trace *trace;
	struct gp_run *cuda, *sim;
	struct gp_mirror mirror;
};

static void set_up(struct pair *p, const char *spec, const struct gp_profile *profile,
		   uint64_t capacity)
{
	struct gp_engine_config cfg = sim(GP_PASS_ALL);

	cfg.repeat = 1;
	p->trace = staircase();
	p->cuda = run(p->trace, spec, &cfg);
	cfg.device_config.profile = profile;
	cfg.device_config.capacity = capacity;
	p->sim = run(p->trace, spec, &cfg);
	p->cuda->device = "cuda";
	gp_mirror_compare(p->cuda, p->sim, &p->mirror);
}

static void clear(struct pair *p)
{
	gp_run_destroy(p->cuda);
	finish(p->sim, p->trace);
}

/* The built-in card, with the calls of one kind slower. */
static void slow_profile(struct gp_profile *out, enum gp_cost cost, float factor)
{
	*out = *gp_profile_builtin();
	for (unsigned i = 0; i < out->curves[cost].n; i++)
		for (unsigned k = 0; k < GP_COST_SHARES; k++)
			out->curves[cost].at[i].ns[k] *= factor;
}

static void nothing_differs(void **state)
{
	static const char *const must[] = { "hybrid",
					    "buddy",
					    "segregated",
					    "slab",
					    "hybrid:grow=prealloc,initial=60M",
					    "torch:expandable_segments=true" };
	struct pair p;

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(must); i++) {
		set_up(&p, must[i], NULL, 64 * MIB);
		assert_true(p.mirror.whole && p.mirror.must_match && p.mirror.memory_equal);
		assert_false(gp_mirror_is_wrong(&p.mirror));
		assert_null(p.mirror.parting.what);
		assert_true(p.mirror.cuda_ns > 0 && p.mirror.cuda_ns == p.mirror.sim_ns);
		assert_true(gp_mirror_ratio(p.mirror.cuda_ns, p.mirror.sim_ns) == 1);
		assert_true(p.mirror.worst < GP_CALL_N);
		clear(&p);
	}
}

static void time_differs(void **state)
{
	static struct gp_profile slow;
	struct pair p;

	(void)state;
	slow_profile(&slow, GP_COST_CREATE, 3);
	set_up(&p, "hybrid", &slow, 64 * MIB);
	assert_true(p.mirror.memory_equal);
	assert_int_equal(p.mirror.worst, GP_CALL_CREATE);
	assert_true(fabs(gp_mirror_ratio(p.cuda->calls[GP_CALL_CREATE].time_ns,
					 p.sim->calls[GP_CALL_CREATE].time_ns) -
			 3) < 0.01);
	assert_true(p.cuda->calls[GP_CALL_MAP].time_ns == p.sim->calls[GP_CALL_MAP].time_ns);
	assert_true(p.mirror.sim_ns > p.mirror.cuda_ns);
	assert_true(isnan(gp_mirror_ratio(0, 5)));
	clear(&p);
}

/* The smaller card refuses what makes 60 MiB of 40: event 5, in a window of its own. */
static void memory_differs(void **state)
{
	struct pair p;

	(void)state;
	set_up(&p, "segregated", NULL, 56 * MIB);
	assert_true(p.mirror.whole && p.mirror.must_match);
	assert_false(p.mirror.memory_equal);
	assert_true(gp_mirror_is_wrong(&p.mirror));
	assert_string_equal(p.mirror.parting.what, "requested");
	assert_int_equal(p.mirror.parting.first_event, 5);
	assert_int_equal(p.mirror.parting.last_event, 5);
	assert_int_equal(p.mirror.parting.cuda, 60 * MIB);
	assert_int_equal(p.mirror.parting.sim, 40 * MIB);
	clear(&p);
	/* Where the driver decides, that is a finding, not a fault. */
	set_up(&p, "raw", NULL, 56 * MIB);
	assert_false(p.mirror.must_match || p.mirror.memory_equal);
	assert_false(gp_mirror_is_wrong(&p.mirror));
	clear(&p);
}

/* Only the least of a window differs. */
static void least_differs(void **state)
{
	struct gp_mirror m;
	struct pair p;

	(void)state;
	set_up(&p, "hybrid", NULL, 64 * MIB);
	p.sim->windows[3].reserved.min -= MIB;
	gp_mirror_compare(p.cuda, p.sim, &m);
	assert_false(m.memory_equal);
	assert_string_equal(m.parting.what, "reserved");
	assert_int_equal(m.parting.first_event, 3);
	assert_int_equal(m.parting.cuda, m.parting.sim + MIB);
	clear(&p);
}

static void a_broken_run_is_no_comparison(void **state)
{
	struct gp_mirror m;
	struct pair p;

	(void)state;
	set_up(&p, "hybrid", NULL, 64 * MIB);
	p.cuda->status = GP_STATUS_PARTIAL;
	gp_mirror_compare(p.cuda, p.sim, &m);
	assert_false(m.whole || gp_mirror_is_wrong(&m));
	clear(&p);
}

/* ---- what is written ---- */

static uint64_t whole(const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return (uint64_t)json_integer_value(value);
}

static void the_document_has_both(void **state)
{
	struct gp_environment env = { .build = "release" };
	struct gp_engine_config cfg = { 0 };
	json_t *document, *m, *parting;
	struct gp_report report;
	struct gp_run *runs[2];
	struct pair p;
	char *text;

	(void)state;
	set_up(&p, "segregated", NULL, 56 * MIB);
	runs[0] = p.cuda;
	runs[1] = p.sim;
	report = (struct gp_report){ p.trace, &env, &cfg, runs, 2, &p.mirror, 1, NULL };
	assert_int_equal(gp_report_label(runs, 2), 0);
	assert_string_equal(p.cuda->label, "segregated");
	assert_string_equal(p.sim->label, "segregated-sim");
	text = gp_report_json(&report, true);
	document = json_loads(text, 0, NULL);
	assert_non_null(document);
	assert_int_equal(json_array_size(json_object_get(document, "runs")), 2);
	m = json_array_get(json_object_get(document, "mirror"), 0);
	assert_string_equal(json_string_value(json_object_get(m, "allocator")), "segregated");
	assert_true(json_is_true(json_object_get(m, "memory_must_match")));
	assert_true(json_is_false(json_object_get(m, "memory_equal")));
	assert_int_equal(whole(json_object_get(m, "peak_reserved_bytes"), "cuda"),
			 p.cuda->memory.peak_reserved);
	assert_int_equal(whole(json_object_get(m, "failures"), "sim"), 1);
	parting = json_object_get(m, "first_difference");
	assert_int_equal(whole(parting, "first_event"), 5);
	assert_int_equal(whole(json_object_get(json_object_get(m, "calls"), "create"), "cuda"),
			 p.cuda->calls[GP_CALL_CREATE].count);
	assert_null(json_object_get(json_object_get(m, "calls"), "reserve"));
	assert_true(json_is_real(json_object_get(json_object_get(m, "time_ratio"), "all")));
	assert_string_equal(json_string_value(json_object_get(json_object_get(document, "settings"),
							      "profile")),
			    "h200");
	json_decref(document);
	free(text);
	clear(&p);
}

static void the_table_has_a_line_for_each_call(void **state)
{
	struct gp_report report = { .n_mirrors = 1 };
	size_t size = 0, lines = 0, kinds = 0;
	char *text = NULL, *all;
	char expect[100];
	struct pair p;
	FILE *out;

	(void)state;
	set_up(&p, "hybrid", NULL, 64 * MIB);
	report.mirrors = &p.mirror;
	out = open_memstream(&text, &size);
	assert_non_null(out);
	assert_int_equal(gp_report_write_mirror(&report, out), 0);
	fclose(out);
	for (const char *c = text; (c = strchr(c, '\n')); c++)
		lines++;
	for (unsigned i = 0; i < GP_CALL_N; i++)
		kinds += p.cuda->calls[i].count > 0;
	assert_true(kinds > 2);
	assert_int_equal(lines, 2 + kinds);
	all = strstr(text, "\nhybrid\tall\t");
	assert_non_null(all);
	snprintf(expect, sizeof(expect), "\t1.0000\t%llu\t%llu\tequal\tmust\n",
		 (unsigned long long)p.cuda->memory.peak_reserved,
		 (unsigned long long)p.sim->memory.peak_reserved);
	assert_non_null(strstr(all, expect));
	free(text);
	clear(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_differs),
		cmocka_unit_test(time_differs),
		cmocka_unit_test(memory_differs),
		cmocka_unit_test(least_differs),
		cmocka_unit_test(a_broken_run_is_no_comparison),
		cmocka_unit_test(the_document_has_both),
		cmocka_unit_test(the_table_has_a_line_for_each_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
