/* SPDX-License-Identifier: Apache-2.0
 *
 * test_program: what of a trace becomes an operation, in which order, and on which thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "replay/program.h"
#include "trace_of.h"

static struct gp_program compile(const struct gp_trace *trace, unsigned threads)
{
	struct gp_program p;

	assert_int_equal(gp_program_compile(trace, threads, &p), 0);
	return p;
}

static void expect_op(const struct gp_program *p, size_t i, enum gp_action action, uint32_t id,
		      uint32_t event)
{
	assert_true(i < p->n_ops);
	assert_int_equal(p->ops[i].action, action);
	assert_int_equal(p->ops[i].event, event);
	if (action == GP_ACTION_ALLOC || gp_action_frees((uint8_t)action))
		assert_int_equal(p->ops[i].id, id);
}

static void only_calls_are_compiled(void **state)
{
	struct gp_trace *t = TRACE_OF(MARK(.mark = "begin"), ALLOC(.id = 70, .size = 512), SYNC(),
				      ALLOC(.id = 71, .size = 0), FREE(.id = 70), TRIM(),
				      FREE(.id = 71), ALLOC(.id = 70, .size = 1));
	struct gp_program p = compile(t, 0);

	(void)state;
	assert_int_equal(p.n_ops, 5);
	assert_int_equal(p.n_ids, 3);
	expect_op(&p, 0, GP_ACTION_ALLOC, 0, 1);
	expect_op(&p, 1, GP_ACTION_SYNC, 0, 2);
	expect_op(&p, 2, GP_ACTION_FREE, 0, 4);
	expect_op(&p, 3, GP_ACTION_TRIM, 0, 5);
	expect_op(&p, 4, GP_ACTION_ALLOC, 2, 7);
	gp_program_fini(&p);
	gp_trace_destroy(t);
}

static void deferred_free_happens_at_its_reclaim(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 512), ALLOC(.id = 2, .size = 0),
				      FREE(.id = 1), FREE(.id = 2), ALLOC(.id = 3, .size = 8),
				      RECLAIM(.id = 1), RECLAIM(.id = 2));
	struct gp_program p = compile(t, 0);

	(void)state;
	assert_int_equal(p.n_ops, 3);
	expect_op(&p, 0, GP_ACTION_ALLOC, 0, 0);
	expect_op(&p, 1, GP_ACTION_ALLOC, 2, 4);
	expect_op(&p, 2, GP_ACTION_FREE, 0, 5);
	gp_program_fini(&p);
	gp_trace_destroy(t);
}

static void deferring_allocators_hear_of_both(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 512), ALLOC(.id = 2, .size = 0),
				      FREE(.id = 1), FREE(.id = 2), ALLOC(.id = 3, .size = 8),
				      RECLAIM(.id = 1), RECLAIM(.id = 2), FREE(.id = 3));
	struct gp_program p;

	(void)state;
	assert_int_equal(gp_program_compile_deferring(t, &p), 0);
	assert_int_equal(p.n_ops, 5);
	expect_op(&p, 0, GP_ACTION_ALLOC, 0, 0);
	expect_op(&p, 1, GP_ACTION_DEFER, 0, 2);
	expect_op(&p, 2, GP_ACTION_ALLOC, 2, 4);
	expect_op(&p, 3, GP_ACTION_COMPLETE, 0, 5);
	expect_op(&p, 4, GP_ACTION_FREE, 2, 7);
	gp_program_fini(&p);
	gp_trace_destroy(t);
}

static void request_is_resolved(void **state)
{
	struct gp_trace *t = TRACE_OF(
		ALLOC(.id = 1, .size = 5, .stream = 900),
		ALLOC(.id = 2, .size = 768, .align = 4096, .stream = 33, .thread = 5, .pool = 9));
	struct gp_program p = compile(t, 0);

	(void)state;
	assert_int_equal(p.ops[0].req.size, 5);
	assert_int_equal(p.ops[0].req.stream, 0);
	assert_int_equal(p.ops[1].req.size, 768);
	assert_int_equal(p.ops[1].req.stream, 1);
	assert_int_equal(p.ops[1].req.lg_align, 12);
	assert_int_equal(p.ops[0].req.pool, 0);
	assert_int_equal(p.ops[1].req.pool, 9);
	/* Two recorded threads, but one replays. */
	assert_int_equal(p.ops[1].req.thread, 0);
	gp_program_fini(&p);
	gp_trace_destroy(t);
}

static void empty_trace(void **state)
{
	struct gp_trace none = { 0 };
	struct gp_program p = compile(&none, 0), parts[2];

	(void)state;
	assert_int_equal(p.n_ops, 0);
	gp_program_cut(&p, 0);
	assert_int_equal(gp_program_split(&p, 2, parts), 0);
	assert_int_equal(parts[1].n_ops, 0);
	gp_program_fini(&parts[0]);
	gp_program_fini(&parts[1]);
	gp_program_fini(&p);
}

static void blocks_are_dealt_round(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 1), ALLOC(.id = 2, .size = 2),
				      ALLOC(.id = 3, .size = 3), FREE(.id = 2), FREE(.id = 1),
				      TRIM(), FREE(.id = 3));
	struct gp_program whole = compile(t, 2), parts[2];

	(void)state;
	assert_int_equal(gp_program_split(&whole, 2, parts), 0);
	assert_int_equal(parts[0].n_ops, 5);
	expect_op(&parts[0], 0, GP_ACTION_ALLOC, 0, 0);
	expect_op(&parts[0], 1, GP_ACTION_ALLOC, 2, 2);
	expect_op(&parts[0], 2, GP_ACTION_FREE, 0, 4);
	expect_op(&parts[0], 3, GP_ACTION_TRIM, 0, 5);
	expect_op(&parts[0], 4, GP_ACTION_FREE, 2, 6);
	assert_int_equal(parts[1].n_ops, 2);
	expect_op(&parts[1], 0, GP_ACTION_ALLOC, 1, 1);
	expect_op(&parts[1], 1, GP_ACTION_FREE, 1, 3);
	assert_int_equal(parts[1].ops[0].req.thread, 1);
	assert_int_equal(parts[0].n_ids, 3);
	for (unsigned i = 0; i < 2; i++)
		gp_program_fini(&parts[i]);
	gp_program_fini(&whole);
	gp_trace_destroy(t);
}

static void recorded_threads_are_kept(void **state)
{
	struct gp_trace *t =
		TRACE_OF(ALLOC(.id = 1, .size = 1, .thread = 10),
			 ALLOC(.id = 2, .size = 2, .thread = 11), FREE(.id = 1, .thread = 11),
			 ALLOC(.id = 3, .size = 3, .thread = 12), FREE(.id = 3, .thread = 11));
	struct gp_program whole = compile(t, 2), parts[2];

	(void)state;
	assert_int_equal(gp_program_split(&whole, 2, parts), 0);
	assert_int_equal(parts[0].n_ops, 2); /* recorded threads 0 and 2 */
	expect_op(&parts[0], 0, GP_ACTION_ALLOC, 0, 0);
	expect_op(&parts[0], 1, GP_ACTION_ALLOC, 2, 3);
	assert_int_equal(parts[1].n_ops, 3);
	expect_op(&parts[1], 1, GP_ACTION_FREE, 0, 2);
	expect_op(&parts[1], 2, GP_ACTION_FREE, 2, 4);
	for (unsigned i = 0; i < 2; i++)
		gp_program_fini(&parts[i]);
	gp_program_fini(&whole);
	gp_trace_destroy(t);
}

static void cut_drops_later_events(void **state)
{
	struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 1), MARK(.mark = "x"), FREE(.id = 1),
				      ALLOC(.id = 2, .size = 2));
	struct gp_program p = compile(t, 0);

	(void)state;
	gp_program_cut(&p, 3);
	assert_int_equal(p.n_ops, 3);
	gp_program_cut(&p, 1);
	assert_int_equal(p.n_ops, 1);
	gp_program_cut(&p, 0);
	assert_int_equal(p.n_ops, 1);
	gp_program_fini(&p);
	gp_trace_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_calls_are_compiled),
		cmocka_unit_test(deferred_free_happens_at_its_reclaim),
		cmocka_unit_test(deferring_allocators_hear_of_both),
		cmocka_unit_test(request_is_resolved),
		cmocka_unit_test(empty_trace),
		cmocka_unit_test(blocks_are_dealt_round),
		cmocka_unit_test(recorded_threads_are_kept),
		cmocka_unit_test(cut_drops_later_events),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
