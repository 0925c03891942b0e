/* SPDX-License-Identifier: Apache-2.0
 *
 * test_explain: what is said of the first failure of a run: a case worked out by hand for each
 * class, the facts around it, the blocks in the way, and the settings that would have helped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine_job.h"
#include "replay/explain.h"
#include "replay/report.h"

/* A run of the curve pass alone, which ends in a failure. */
static struct gp_run *explain(struct gp_trace *t, const char *spec, uint64_t capacity,
			      bool settings)
{
	struct gp_engine_config cfg = sim(GP_PASS_CURVE);
	struct gp_run *r;

	cfg.device_config.capacity = capacity;
	cfg.explain = settings;
	r = run(t, spec, &cfg);
	assert_int_equal(r->status, GP_STATUS_OK);
	assert_non_null(r->oom);
	assert_int_equal(r->oom->event, r->failures.first_event);
	return r;
}

static const struct gp_oom_setting *setting(const struct gp_oom *o, const char *text)
{
	for (size_t i = 0; i < o->n_settings; i++)
		if (!strcmp(o->settings[i].text, text))
			return &o->settings[i];
	fail_msg("%s was not tried", text);
	return NULL;
}

/* ---- classes ---- */

static void nothing_to_explain(void **state)
{
	struct gp_trace *t = churn(4, MIB, 1);
	struct gp_engine_config cfg = sim(GP_PASS_CURVE);
	struct gp_run *r;

	(void)state;
	cfg.explain = true;
	r = run(t, "torch", &cfg);
	assert_null(r->oom);
	finish(r, t);
}

static void over_capacity(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 40 * MIB, .t_ns = 5),
				      ALLOC(.id = 2, .size = 30 * MIB, .stream = 9, .t_ns = 7));
	struct gp_run *r = explain(t, "raw", 64 * MIB, true);

	(void)state;
	assert_int_equal(r->oom->cause, GP_OOM_OVER_CAPACITY);
	assert_int_equal(r->oom->event, 1);
	assert_int_equal(r->oom->t_ns, 7);
	assert_int_equal(r->oom->size, 30 * MIB);
	assert_int_equal(r->oom->stream_handle, 9);
	assert_int_equal(r->oom->requested, 40 * MIB);
	assert_int_equal(r->oom->live_blocks, 1);
	assert_int_equal(r->oom->device_free, 24 * MIB);
	assert_int_equal(r->oom->growth, 24 * MIB);
	assert_int_equal(r->oom->n_pins, 0);
	assert_int_equal(r->oom->n_streams, 1);
	assert_false(r->oom->tried); /* in vain */
	finish(r, t);

	/* More than there can be, and more than any device has. */
	t = TRACE_OF(ALLOC(.id = 1, .size = MIB), ALLOC(.id = 2, .size = UINT64_C(1) << 62));
	r = explain(t, "buddy", 64 * MIB, true);
	assert_int_equal(r->oom->cause, GP_OOM_OVER_CAPACITY);
	finish(r, t);
}

/* Even where the memory at hand lies on another stream. */
static void over_capacity_comes_before_held(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 5 * MIB), ALLOC(.id = 2, .size = 5 * MIB),
			 ALLOC(.id = 3, .size = 5 * MIB), ALLOC(.id = 4, .size = 5 * MIB),
			 FREE(.id = 1), FREE(.id = 2), ALLOC(.id = 5, .size = 9 * MIB, .stream = 1),
			 ALLOC(.id = 6, .size = 10 * MIB, .stream = 1));
	struct gp_run *r = explain(t, "torch", 22 * MIB, false);

	(void)state;
	assert_int_equal(r->oom->event, 6);
	assert_int_equal(r->oom->cause, GP_OOM_STREAM_HELD);
	finish(r, t);
	t = TRACE_OF(ALLOC(.id = 1, .size = 5 * MIB), ALLOC(.id = 2, .size = 5 * MIB),
		     ALLOC(.id = 3, .size = 5 * MIB), ALLOC(.id = 4, .size = 5 * MIB),
		     FREE(.id = 1), FREE(.id = 2), ALLOC(.id = 5, .size = 13 * MIB, .stream = 1));
	r = explain(t, "torch", 22 * MIB, false);
	assert_int_equal(r->oom->cause, GP_OOM_OVER_CAPACITY);
	finish(r, t);
}

/* 20 and 20 MiB are two blocks of 32: no room for a third, though 60 of 64 MiB are asked for. */
static void rounding_of_what_is_live(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 20 * MIB), ALLOC(.id = 2, .size = 20 * MIB),
			 ALLOC(.id = 3, .size = 20 * MIB));
	struct gp_run *r = explain(t, "buddy", 64 * MIB, true);

	(void)state;
	assert_int_equal(r->oom->cause, GP_OOM_ROUNDING);
	assert_int_equal(r->oom->requested, 40 * MIB);
	assert_int_equal(r->oom->granted_live, 64 * MIB);
	assert_int_equal(r->oom->granted, 32 * MIB);
	assert_int_equal(r->oom->largest_piece, 0);
	assert_true(r->oom->tried);
	assert_true(r->oom->n_settings > 0);
	assert_int_equal(r->oom->best, r->oom->n_settings);
	assert_int_equal(setting(r->oom, "streams=ignore")->first_event, 2);
	finish(r, t);
}

/* 48 MiB are free beside a block of 16, which is enough for 40, but not for 64. */
static void rounding_of_the_request(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 16 * MIB), ALLOC(.id = 2, .size = 40 * MIB));
	struct gp_run *r = explain(t, "buddy", 64 * MIB, false);

	(void)state;
	assert_int_equal(r->oom->cause, GP_OOM_ROUNDING);
	assert_int_equal(r->oom->granted, 64 * MIB);
	assert_true(r->oom->largest_piece >= 40 * MIB);
	assert_int_equal(r->oom->free_bytes + r->oom->device_free, 48 * MIB);
	assert_false(r->oom->tried);
	finish(r, t);
}

static void limit(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 20 * MIB), ALLOC(.id = 2, .size = 20 * MIB));
	struct gp_run *r = explain(t, "torch:limit=30MiB,max_split_size_mb=32", 64 * MIB, true);

	(void)state;
	assert_int_equal(r->oom->cause, GP_OOM_LIMIT);
	assert_int_equal(r->oom->limit, 30 * MIB);
	assert_int_equal(r->oom->reserved, 20 * MIB);
	assert_int_equal(r->oom->growth, 10 * MIB);
	assert_int_equal(r->oom->device_free, 44 * MIB);
	assert_false(setting(r->oom, "expandable_segments=true")->survived);
	assert_true(setting(r->oom, "limit=0")->survived);
	assert_int_equal(setting(r->oom, "limit=0")->peak_reserved, 40 * MIB);
	assert_true(r->oom->best < r->oom->n_settings);
	assert_string_equal(r->oom->settings[r->oom->best].spec,
			    "torch:max_split_size_mb=32,limit=0");
	gp_run_destroy(r);

	r = explain(t, "torch:per_process_memory_fraction=0.5", 64 * MIB, true);
	assert_int_equal(r->oom->cause, GP_OOM_LIMIT);
	assert_int_equal(r->oom->limit, 32 * MIB);
	assert_string_equal(r->oom->settings[r->oom->best].text, "per_process_memory_fraction=1");
	gp_run_destroy(r);

	r = explain(t, "segregated:grow=prealloc,initial=32M", 64 * MIB, true);
	assert_int_equal(r->oom->cause, GP_OOM_LIMIT);
	assert_int_equal(r->oom->limit, 32 * MIB);
	assert_string_equal(r->oom->settings[r->oom->best].spec, "segregated:initial=32M,grow=vmm");
	finish(r, t);
}

/* The device was never asked: so says a decorator, here. */
static void limit_of_no_known_size(void **state)
{
	static const char *const wraps[] = { "fault:nth=2" };
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 4 * MIB), ALLOC(.id = 2, .size = 4 * MIB));
	struct gp_engine_config cfg = sim(GP_PASS_CURVE);
	struct gp_run *r;

	(void)state;
	cfg.wraps = wraps;
	cfg.n_wraps = 1;
	cfg.explain = true;
	r = run(t, "raw", &cfg);
	assert_int_equal(r->oom->cause, GP_OOM_LIMIT);
	assert_int_equal(r->oom->limit, 0);
	assert_true(r->oom->tried);
	assert_int_equal(r->oom->n_settings, 0);
	finish(r, t);
}

/* The segment of stream 0 keeps 15 MiB free beside a block of 5; stream 1 may not have them. */
static void held_by_another_stream(void **state)
{
	struct gp_trace *t = TRACE_OF(
		ALLOC(.id = 1, .size = 5 * MIB), ALLOC(.id = 2, .size = 5 * MIB),
		ALLOC(.id = 3, .size = 5 * MIB), ALLOC(.id = 4, .size = 5 * MIB), FREE(.id = 1),
		FREE(.id = 2), FREE(.id = 3), ALLOC(.id = 5, .size = 12 * MIB, .stream = 77));
	struct gp_run *r = explain(t, "torch", 24 * MIB, false);
	const struct gp_oom *o = r->oom;

	(void)state;
	assert_int_equal(o->cause, GP_OOM_STREAM_HELD);
	assert_true(o->knows_pools);
	assert_true(o->large);
	assert_int_equal(o->pool_free, 0);
	assert_int_equal(o->held_stream_bytes, 15 * MIB);
	assert_int_equal(o->held_pool_bytes, 0);
	assert_int_equal(o->n_streams, 1);
	assert_int_equal(o->streams[0].stream, 0);
	assert_int_equal(o->streams[0].granted_bytes, 5 * MIB);
	assert_int_equal(o->streams[0].free_bytes, 15 * MIB);
	assert_int_equal(o->streams[0].largest_bytes, 15 * MIB);
	/* The whole segment would go back for one block of 5 MiB. */
	assert_int_equal(o->n_pins, 1);
	assert_true(o->pins[0].whole);
	assert_int_equal(o->pins[0].live_blocks, 1);
	assert_int_equal(o->pins[0].blocks[0].granted, 5 * MIB);
	assert_int_equal(o->pins[0].blocks[0].event, 3);
	finish(r, t);
}

/* Stream 0 has half a slab free, and all the rest is taken. */
static void held_in_a_slab(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 1024), ALLOC(.id = 2, .size = MIB),
			 ALLOC(.id = 3, .size = 512 * GP_KIB), ALLOC(.id = 4, .size = 256 * GP_KIB),
			 ALLOC(.id = 5, .size = 1024, .stream = 1));
	struct gp_run *r = explain(t, "slab:slab=256K", 2 * MIB, false);

	(void)state;
	assert_int_equal(r->oom->event, 4);
	assert_int_equal(r->oom->cause, GP_OOM_STREAM_HELD);
	assert_false(r->oom->knows_pools);
	assert_int_equal(r->oom->n_streams, 1);
	assert_int_equal(r->oom->streams[0].live_blocks, 4);
	assert_int_equal(r->oom->granted, 1024);
	finish(r, t);
}

/* A small request needs a segment of 2 MiB; what is free belongs to the large pool. */
static void held_by_another_pool(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 2 * MIB), ALLOC(.id = 2, .size = 600));
	struct gp_run *r = explain(t, "torch", 20 * MIB, false);

	(void)state;
	assert_int_equal(r->oom->cause, GP_OOM_POOL_HELD);
	assert_false(r->oom->large);
	assert_int_equal(r->oom->granted, 1024);
	assert_int_equal(r->oom->segment, 2 * MIB);
	assert_int_equal(r->oom->held_pool_bytes, 18 * MIB);
	assert_int_equal(r->oom->pool_free, 0);
	finish(r, t);
}

static void refused(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = MIB), ALLOC(.id = 2, .size = MIB),
				      ALLOC(.id = 3, .size = MIB));
	struct gp_run *r = explain(t, "fixed:block=1M,count=2,when_empty=refuse", 64 * MIB, true);

	(void)state;
	assert_int_equal(r->oom->cause, GP_OOM_REFUSED);
	assert_string_equal(r->oom->settings[r->oom->best].spec,
			    "fixed:block=1M,count=2,when_empty=device");
	finish(r, t);
}

/* ---- fragmentation, and what is around it ---- */

/* 4 x 16 MiB fill the device; the first and the third are gone when 32 are asked for. */
static void fragmentation(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 16 * MIB, .t_ns = 10),
			 ALLOC(.id = 2, .size = 16 * MIB, .t_ns = 20, .stream = 5),
			 ALLOC(.id = 3, .size = 16 * MIB, .t_ns = 30),
			 ALLOC(.id = 4, .size = 16 * MIB, .t_ns = 40), FREE(.id = 1, .t_ns = 50),
			 FREE(.id = 3, .t_ns = 60), ALLOC(.id = 5, .size = 32 * MIB, .t_ns = 100));
	struct gp_run *r = explain(t, "segregated:grow=prealloc,initial=64M", 64 * MIB, false);
	const struct gp_oom *o = r->oom;

	(void)state;
	assert_int_equal(o->cause, GP_OOM_FRAGMENTATION);
	assert_int_equal(o->requested, 32 * MIB);
	assert_int_equal(o->reserved, 64 * MIB);
	assert_int_equal(o->free_bytes, 32 * MIB);
	assert_int_equal(o->n_holes, 2);
	assert_int_equal(o->largest_hole, 16 * MIB);
	assert_int_equal(o->largest_piece, 16 * MIB);
	assert_int_equal(o->n_streams, 2);
	assert_int_equal(o->streams[0].live_blocks, 1);
	assert_int_equal(o->streams[1].handle, 5);
	assert_int_equal(o->streams[1].requested_bytes, 16 * MIB);
	/* Two holes, and the block of stream 5 between them. */
	assert_int_equal(o->n_pins, 1);
	assert_int_equal(o->pins[0].range.size, 48 * MIB);
	assert_int_equal(o->pins[0].live_bytes, 16 * MIB);
	assert_int_equal(o->pins[0].n_blocks, 1);
	assert_int_equal(o->pins[0].blocks[0].event, 1);
	assert_int_equal(o->pins[0].blocks[0].age_events, 5);
	assert_int_equal(o->pins[0].blocks[0].age_ns, 80);
	assert_int_equal(o->pins[0].blocks[0].stream, 1);
	assert_false(o->pins[0].blocks[0].assumed);
	finish(r, t);
}

/* Freed, but not over: still live, and told apart. One older than the recording is, too. */
static void deferred_and_assumed(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 9, .size = 8 * MIB, .assumed = true),
				      ALLOC(.id = 1, .size = 8 * MIB, .stream = 1), FREE(.id = 1),
				      ALLOC(.id = 2, .size = 60 * MIB), RECLAIM(.id = 1));
	struct gp_run *r = explain(t, "raw", 64 * MIB, false);

	(void)state;
	assert_int_equal(r->oom->n_streams, 2);
	assert_int_equal(r->oom->streams[0].deferred_bytes, 0);
	assert_int_equal(r->oom->streams[1].deferred_bytes, 8 * MIB);
	finish(r, t);
	t = TRACE_OF(ALLOC(.id = 9, .size = 3 * MIB, .assumed = true),
		     ALLOC(.id = 2, .size = 18 * MIB));
	r = explain(t, "torch", 22 * MIB, false);
	assert_int_equal(r->oom->n_pins, 1);
	assert_true(r->oom->pins[0].whole);
	assert_true(r->oom->pins[0].blocks[0].assumed);
	finish(r, t);
}

/* A setting that serves the request and fails later is better than none, and worse than one that
 * does not fail. */
static void settings_are_judged(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 20 * MIB), ALLOC(.id = 2, .size = 20 * MIB),
			 ALLOC(.id = 3, .size = 80 * MIB));
	struct gp_run *r = explain(t, "torch:limit=30MiB", 64 * MIB, true);
	const struct gp_oom_setting *s = setting(r->oom, "limit=0");

	(void)state;
	assert_false(s->survived);
	assert_int_equal(s->first_event, 2);
	assert_ptr_equal(&r->oom->settings[r->oom->best], s);
	finish(r, t);
}

/* ---- pins ---- */

#define HOLE GP_PIECE_HOLE

static size_t pins(struct gp_oom *o, const struct gp_piece *p, size_t n, uint64_t need,
		   uint32_t ids[GP_OOM_PINS][GP_OOM_PIN_BLOCKS])
{
	*o = (struct gp_oom){ 0 };
	gp_explain_pins(o, p, n, need, ids);
	return o->n_pins;
}

static void pins_of_small_ranges(void **state)
{
	/* Three reservations whose addresses touch; one of them has nothing free, a fourth nothing
	 * live. */
	static const struct gp_piece p[] = { { 100, 10, 100, 1 },    { 110, 30, 100, HOLE },
					     { 140, 40, 140, 2 },    { 180, 2, 180, 3 },
					     { 182, 38, 180, HOLE }, { 300, 50, 300, HOLE } };
	uint32_t ids[GP_OOM_PINS][GP_OOM_PIN_BLOCKS];
	struct gp_oom o;

	(void)state;
	assert_int_equal(pins(&o, p, 6, 1000, ids), 2);
	assert_int_equal(o.pins[0].range.addr, 180);
	assert_int_equal(o.pins[0].range.size, 40);
	assert_true(o.pins[0].whole);
	assert_int_equal(o.pins[0].live_bytes, 2);
	assert_int_equal(ids[0][0], 3);
	assert_int_equal(o.pins[1].range.addr, 100);
	assert_int_equal(ids[1][0], 1);
}

static void pins_of_a_mapped_range(void **state)
{
	/* need 40: [100,140) has 6 in it, and so has the whole from hole to hole. */
	static const struct gp_piece p[] = { { 90, 10, 0, 1 },     { 100, 20, 0, HOLE },
					     { 120, 5, 0, 2 },     { 125, 1, 0, 3 },
					     { 126, 14, 0, HOLE }, { 140, 60, 0, 4 } };
	uint32_t ids[GP_OOM_PINS][GP_OOM_PIN_BLOCKS];
	struct gp_oom o;

	(void)state;
	assert_int_equal(pins(&o, p, 6, 40, ids), 1);
	assert_int_equal(o.pins[0].range.addr, 100);
	assert_int_equal(o.pins[0].range.size, 40);
	assert_false(o.pins[0].whole);
	assert_int_equal(o.pins[0].live_blocks, 2);
	assert_int_equal(o.pins[0].live_bytes, 6);
	assert_int_equal(ids[0][0], 2);
	assert_int_equal(ids[0][1], 3);
	/* A request that fits between two blocks: what is in the way of it is not memory. */
	assert_int_equal(pins(&o, p, 6, 20, ids), 1);
	assert_int_equal(o.pins[0].range.size, 40);
	assert_int_equal(pins(&o, p, 0, 20, ids), 0);
}

static void pins_name_the_largest(void **state)
{
	static const struct gp_piece p[] = { { 0x100, 1, 256, 1 },     { 0x101, 3, 256, 2 },
					     { 0x104, 50, 256, HOLE }, { 0x136, 2, 256, 3 },
					     { 0x138, 9, 256, 4 },     { 0x141, 5, 256, 5 },
					     { 0x146, 4, 256, 6 } };
	uint32_t ids[GP_OOM_PINS][GP_OOM_PIN_BLOCKS];
	static const uint32_t want[] = { 4, 5, 6, 2 };
	struct gp_oom o;

	(void)state;
	assert_int_equal(pins(&o, p, 7, 1000, ids), 1);
	assert_int_equal(o.pins[0].live_blocks, 6);
	assert_int_equal(o.pins[0].live_bytes, 24);
	assert_int_equal(o.pins[0].n_blocks, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(ids[0][i], want[i]);
}

/* ---- the document ---- */

static void document(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 20 * MIB), ALLOC(.id = 2, .size = 20 * MIB));
	struct gp_run *r = explain(t, "torch:limit=30MiB", 64 * MIB, true);
	struct gp_environment env = { .build = "test" };
	struct gp_report report = { .trace = t, .environment = &env, .runs = &r, .n_runs = 1 };
	json_t *json, *oom, *settings;
	char *text;

	(void)state;
	text = gp_report_json(&report, true);
	assert_non_null(text);
	json = json_loads(text, 0, NULL);
	assert_non_null(json);
	oom = json_object_get(json_array_get(json_object_get(json, "runs"), 0), "oom");
	assert_string_equal(json_string_value(json_object_get(oom, "class")), "limit");
	assert_int_equal(json_integer_value(json_object_get(oom, "event")), 1);
	assert_int_equal(json_integer_value(json_object_get(oom, "limit_bytes")), 30 * MIB);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(oom, "pool"), "kind")), "large");
	assert_int_equal(json_array_size(json_object_get(oom, "streams")), 1);
	settings = json_object_get(oom, "settings");
	assert_int_equal(json_array_size(settings), r->oom->n_settings);
	assert_string_equal(json_string_value(json_object_get(oom, "best_setting")),
			    "torch:limit=0");
	json_decref(json);
	free(text);
	finish(r, t);
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(gp_oom_class_name(GP_OOM_REFUSED), "refused");
	assert_string_equal(gp_oom_class_name(GP_OOM_FRAGMENTATION), "fragmentation");
	assert_string_equal(gp_oom_class_name(GP_OOM_POOL_HELD), "pool_held");
	assert_string_equal(gp_oom_class_name(GP_OOM_N), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_to_explain),
		cmocka_unit_test(over_capacity),
		cmocka_unit_test(over_capacity_comes_before_held),
		cmocka_unit_test(rounding_of_what_is_live),
		cmocka_unit_test(rounding_of_the_request),
		cmocka_unit_test(limit),
		cmocka_unit_test(limit_of_no_known_size),
		cmocka_unit_test(held_by_another_stream),
		cmocka_unit_test(held_in_a_slab),
		cmocka_unit_test(held_by_another_pool),
		cmocka_unit_test(refused),
		cmocka_unit_test(fragmentation),
		cmocka_unit_test(deferred_and_assumed),
		cmocka_unit_test(settings_are_judged),
		cmocka_unit_test(pins_of_small_ranges),
		cmocka_unit_test(pins_of_a_mapped_range),
		cmocka_unit_test(pins_name_the_largest),
		cmocka_unit_test(document),
		cmocka_unit_test(names),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
