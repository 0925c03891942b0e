/* SPDX-License-Identifier: Apache-2.0
 *
 * same_trace: for the tests of writers: a trace that has something of everything, and whether two
 * traces are the same in all that gpupool's own formats keep.
 *
 * Include after cmocka.h.
 */
#ifndef TESTS_SAME_TRACE_H
#define TESTS_SAME_TRACE_H

#include <stdlib.h>
#include <string.h>

#include "trace_of.h"

/* clang-format off */
static const struct gp_trace_record rich_records[] = {
	ALLOC(.id = 7, .size = 4096, .assumed = true, .stream = 0x7f00, .addr = 0x200, .pool = 255),
	MARK(.mark = "warm-up \"1\" \\ gr\xc3\xbc", .t_ns = 10),
	ALLOC(.id = 100, .size = 1 << 20, .align = 512, .stream = 5, .thread = 77, .t_ns = 20, .addr = 1 << 24),
	ALLOC(.id = 101, .size = 0, .thread = 3, .t_ns = 20),
	FREE(.id = 100, .thread = 78, .t_ns = 86400000000000),
	{ .op = GP_OP_SEGMENT_ALLOC, .size = 1 << 21, .stream = 5, .addr = 1 << 25, .pool = 3, .t_ns = 86400000000000 },
	{ .op = GP_OP_SEGMENT_MAP, .size = 1 << 21, .addr = 1 << 26, .t_ns = 86400000000000 },
	ALLOC(.id = 100, .size = 300, .stream = UINT64_MAX, .thread = UINT64_MAX, .t_ns = 86400000001000),
	FREE(.id = 7, .t_ns = 86400000001000),
	RECLAIM(.id = 7, .t_ns = 86400000001001),
	FREE(.id = 100, .thread = 77, .t_ns = 86400000001002),
	{ .op = GP_OP_OOM, .size = UINT64_C(1) << 40, .stream = 5, .thread = 77, .t_ns = 86400000001002 },
	SYNC(.thread = 3, .t_ns = 86400000001003),
	TRIM(.t_ns = 86400000001003),
	{ .op = GP_OP_SEGMENT_UNMAP, .size = 1 << 21, .addr = 1 << 26, .t_ns = 86400000001004 },
	{ .op = GP_OP_SEGMENT_FREE, .size = 1 << 21, .stream = 5, .addr = 1 << 25, .t_ns = 86400000001004 },
	MARK(.mark = "", .t_ns = UINT64_C(1) << 63),
	/* Comes last, counts as the second. */
	ALLOC(.id = 8, .size = 64, .assumed = true, .thread = 3, .t_ns = 5),
};
/* clang-format on */

static inline struct gp_trace *rich_trace(void)
{
	struct gp_trace_builder *b = gp_trace_builder_create("rich", NULL);
	struct gp_trace *t = NULL;

	assert_non_null(b);
	assert_int_equal(gp_trace_builder_header(b, "rich \"name\"", "a\\b", "device", 1 << 30), 0);
	assert_int_equal(gp_trace_builder_note(b, "two blocks were live before"), 0);
	assert_int_equal(gp_trace_builder_note(b, "and a second note"), 0);
	for (size_t i = 0; i < GP_ARRAY_LEN(rich_records); i++)
		if (gp_trace_builder_add(b, &rich_records[i], 0))
			fail_msg("%s", gp_trace_builder_why(b));
	assert_int_equal(gp_trace_builder_finish(b, &t), 0);
	gp_trace_builder_destroy(b);
	return t;
}

static inline void same_header(const struct gp_trace *a, const struct gp_trace *b)
{
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->source, b->source);
	assert_string_equal(a->device_name, b->device_name);
	assert_int_equal(a->device_bytes, b->device_bytes);
	assert_int_equal(a->n_notes, b->n_notes);
	for (uint32_t i = 0; i < a->n_notes; i++)
		assert_string_equal(a->notes[i], b->notes[i]);
}

/* All that a file says, whatever the numbers inside are. */
static inline void same_trace(const struct gp_trace *a, const struct gp_trace *b)
{
	same_header(a, b);
	assert_int_equal(a->n_events, b->n_events);
	assert_int_equal(a->n_ids, b->n_ids);
	assert_int_equal(a->n_allocs, b->n_allocs);
	assert_int_equal(a->n_frees, b->n_frees);
	assert_int_equal(a->n_streams, b->n_streams);
	assert_int_equal(a->n_threads, b->n_threads);
	assert_int_equal(a->n_marks, b->n_marks);
	assert_int_equal(a->load_bytes, b->load_bytes);
	assert_int_equal(a->load_event, b->load_event);
	assert_int_equal(a->n_assumed, b->n_assumed);
	assert_int_equal(a->assumed_bytes, b->assumed_bytes);
	assert_int_equal(a->addrs != NULL, b->addrs != NULL);
	assert_int_equal(a->pools != NULL, b->pools != NULL);
	for (size_t i = 0; i < a->n_events; i++) {
		struct gp_trace_record x, y;

		gp_trace_record_at(a, i, &x);
		gp_trace_record_at(b, i, &y);
		assert_int_equal(x.op, y.op);
		assert_int_equal(x.id, y.id);
		assert_int_equal(x.size, y.size);
		assert_int_equal(x.align, y.align);
		assert_int_equal(x.stream, y.stream);
		assert_int_equal(x.thread, y.thread);
		assert_int_equal(x.t_ns, y.t_ns);
		assert_int_equal(x.addr, y.addr);
		assert_int_equal(x.pool, y.pool);
		assert_int_equal(x.assumed, y.assumed);
		assert_string_equal(x.mark ? x.mark : "", y.mark ? y.mark : "");
		assert_int_equal(a->events[i].link, b->events[i].link);
		assert_int_equal(gp_event_flags(&a->events[i]), gp_event_flags(&b->events[i]));
	}
}

/* ---- files ---- */

static char same_dir[] = "/tmp/test_writers.XXXXXX";

static inline int same_make_dir(void **state)
{
	(void)state;
	return mkdtemp(same_dir) ? 0 : -1;
}

static inline int same_remove_dir(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", same_dir);
	return system(command);
}

/* One buffer: valid until the next call. */
static inline const char *same_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", same_dir, name);
	return path;
}

static inline struct gp_trace *same_load(const char *path)
{
	struct gp_trace *t = NULL;
	char why[512] = "";

	if (gp_trace_load(path, NULL, &t, why, sizeof(why)))
		fail_msg("%s", why);
	return t;
}

/* The caller frees it; with a final 0 that *n does not count. */
static inline char *same_slurp(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *text = malloc(1 << 22);

	assert_non_null(f);
	assert_non_null(text);
	*n = fread(text, 1, (1 << 22) - 1, f);
	text[*n] = '\0';
	fclose(f);
	return text;
}

#endif
