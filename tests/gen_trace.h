/* SPDX-License-Identifier: Apache-2.0
 *
 * gen_trace: for the tests of gpupool-gen: a pattern, written to a file and read back line by line,
 * so that the text is tested with the numbers in it.
 *
 * Include after cmocka.h.
 */
#ifndef TESTS_GEN_TRACE_H
#define TESTS_GEN_TRACE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/gen/gen.h"
#include "tools/gen/writer.h"

struct op {
	bool is_alloc;
	uint64_t id, size, stream, thread, t;
};

struct readback {
	struct op *ops;
	size_t n;
	uint64_t n_events; /* as the header says */
};

static char dir[] = "/tmp/test_gen.XXXXXX";
static char path[64]; /* of the trace in there */

static inline uint64_t key(const char *line, const char *name)
{
	const char *p = strstr(line, name);

	return p ? strtoull(p + strlen(name), NULL, 10) : 0;
}

static inline struct readback read_trace(void)
{
	struct readback r = { calloc(1 << 20, sizeof(*r.ops)), 0, 0 };
	FILE *f = fopen(path, "r");
	char line[1024];

	assert_non_null(r.ops);
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_ptr_equal(strstr(line, "{\"format\":\"gpupool-trace\",\"version\":1,"), line);
	r.n_events = key(line, "\"n_events\":");
	while (fgets(line, sizeof(line), f)) {
		struct op *o = &r.ops[r.n++];

		assert_true(r.n < 1 << 20);
		o->is_alloc = strncmp(line, "{\"op\":\"alloc\",", 14) == 0;
		assert_true(o->is_alloc || strncmp(line, "{\"op\":\"free\",", 13) == 0);
		assert_int_equal(line[strlen(line) - 1], '\n');
		o->id = key(line, "\"id\":");
		o->size = key(line, "\"size\":");
		o->stream = key(line, "\"stream\":");
		o->thread = key(line, "\"thread\":");
		o->t = key(line, "\"t\":");
		assert_true(!o->is_alloc || strstr(line, "\"size\":"));
	}
	fclose(f);
	return r;
}

static inline void set(struct gen *g, const char *option, double value)
{
	int i = gen_pattern_option(g->pattern, option);

	assert_true(i >= 0);
	g->values[i].n = (uint64_t)value;
	g->values[i].x = value;
}

static inline struct gen begin(const char *pattern)
{
	struct gen g;

	assert_non_null(gen_pattern_find(pattern));
	gen_init(&g, gen_pattern_find(pattern));
	return g;
}

static inline void write_trace(struct gen *g, enum gen_format format)
{
	char why[256] = "", source[512];

	assert_int_equal(gen_run(g), 0);
	gen_command(g, source, sizeof(source));
	assert_int_equal(gen_writer_create(path, format, false, &g->writer, why, sizeof(why)), 0);
	gen_writer_header(g->writer, g->pattern->name, source, g->n_events);
	assert_int_equal(gen_run(g), 0);
	assert_int_equal(gen_writer_commit(g->writer, why, sizeof(why)), 0);
	g->writer = gen_writer_destroy(g->writer);
}

/* Replays the text: ids in order, frees of live blocks only, totals as counted. Gives the number
 * of blocks left. */
static inline uint64_t verify(const struct gen *g, const struct readback *r)
{
	uint64_t *size_of = calloc(r->n + 2, sizeof(*size_of));
	uint64_t live = 0, load = 0, n_allocs = 0, n_live = 0;

	assert_non_null(size_of);
	for (size_t i = 0; i < r->n; i++) {
		const struct op *o = &r->ops[i];

		if (o->is_alloc) {
			assert_int_equal(o->id, ++n_allocs);
			assert_true(o->size > 0);
			size_of[o->id] = o->size;
			live += o->size;
			n_live++;
		} else {
			assert_in_range(o->id, 1, n_allocs);
			assert_true(size_of[o->id] > 0);
			live -= size_of[o->id];
			size_of[o->id] = 0;
			n_live--;
		}
		load = live > load ? live : load;
	}
	free(size_of);
	assert_int_equal(r->n, g->n_events);
	assert_int_equal(r->n_events, g->n_events);
	assert_int_equal(n_allocs, g->n_allocs);
	assert_int_equal(load, g->load_bytes);
	assert_int_equal(live, g->live_bytes);
	assert_int_equal(n_live, g->live_blocks);
	if (g->plan.has_load)
		assert_int_equal(load, g->plan.load_bytes);
	return n_live;
}

/* Writes, reads back, verifies. The caller frees .ops. */
static inline struct readback produce(struct gen *g, uint64_t expected_left)
{
	struct readback r;

	write_trace(g, GEN_JSONL);
	r = read_trace();
	assert_int_equal(verify(g, &r), expected_left);
	return r;
}

static inline char *slurp(const char *file)
{
	FILE *f = fopen(file, "r");
	char *text = calloc(1, 1 << 22);

	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 22) - 1, f) < (1 << 22) - 1);
	fclose(f);
	return text;
}

static inline int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/trace", dir);
	return 0;
}

static inline int remove_dir(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

#endif
