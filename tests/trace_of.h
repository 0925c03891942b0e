/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_of: a trace written down in a test, through the builder that every format uses.
 *
 *   struct gp_trace *t = TRACE_OF(ALLOC(.id = 1, .size = 512), FREE(.id = 1, .t_ns = 70));
 *
 * Include after cmocka.h.
 */
#ifndef TESTS_TRACE_OF_H
#define TESTS_TRACE_OF_H

#include "replay/trace.h"

/* clang-format off */
#define ALLOC(...) { .op = GP_OP_ALLOC, __VA_ARGS__ }
#define FREE(...) { .op = GP_OP_FREE, __VA_ARGS__ }
#define RECLAIM(...) { .op = GP_OP_RECLAIM, __VA_ARGS__ }
#define SYNC(...) { .op = GP_OP_SYNC, __VA_ARGS__ }
#define TRIM(...) { .op = GP_OP_TRIM, __VA_ARGS__ }
#define MARK(...) { .op = GP_OP_MARK, __VA_ARGS__ }
/* clang-format on */

#define TRACE_OF(...)                                                                              \
	trace_of((const struct gp_trace_record[]){ __VA_ARGS__ },                                  \
		 sizeof((const struct gp_trace_record[]){ __VA_ARGS__ }) /                         \
			 sizeof(struct gp_trace_record))

static inline struct gp_trace *trace_of(const struct gp_trace_record *records, size_t n)
{
	struct gp_trace_builder *b = gp_trace_builder_create("test", NULL);
	struct gp_trace *trace = NULL;

	assert_non_null(b);
	for (size_t i = 0; i < n; i++)
		if (gp_trace_builder_add(b, &records[i], 0))
			fail_msg("%s", gp_trace_builder_why(b));
	assert_int_equal(gp_trace_builder_finish(b, &trace), 0);
	gp_trace_builder_destroy(b);
	return trace;
}

#endif
