/* SPDX-License-Identifier: Apache-2.0
 *
 * gen: what all patterns share: the list, ids, jitter, and the counts that the summary shows.
 *
 * Invariants   1. live_bytes is the sum over blocks allocated and not freed; load_bytes its maximum
 *              2. both stay <= GP_SIZE_MAX, so that no sum in here can overflow
 * Cost         O(1) and no memory per event; a pattern holds at most its live blocks
 * Threads      caller serialises
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen.h"
#include "writer.h"

#define GEN_PATTERN(name) extern const struct gen_pattern gen_##name##_pattern;
#include "pattern_list.inc"
#undef GEN_PATTERN

static const struct gen_pattern *const gen_patterns[] = {
#define GEN_PATTERN(name) &gen_##name##_pattern,
#include "pattern_list.inc"
#undef GEN_PATTERN
};

const struct gen_pattern *gen_pattern_at(unsigned i)
{
	return i < GP_ARRAY_LEN(gen_patterns) ? gen_patterns[i] : NULL;
}

const struct gen_pattern *gen_pattern_find(const char *name)
{
	for (size_t i = 0; i < GP_ARRAY_LEN(gen_patterns); i++)
		if (strcmp(gen_patterns[i]->name, name) == 0)
			return gen_patterns[i];
	return NULL;
}

int gen_pattern_option(const struct gen_pattern *p, const char *name)
{
	for (int i = 0; p->options[i].name; i++)
		if (strcmp(p->options[i].name, name) == 0)
			return i;
	return -1;
}

void gen_init(struct gen *g, const struct gen_pattern *p)
{
	memset(g, 0, sizeof(*g));
	g->pattern = p;
	g->seed = 1;
	g->n_streams = 1;
	g->n_threads = 1;
	for (int i = 0; p->options[i].name; i++) {
		if (p->options[i].kind == GEN_REAL)
			g->values[i].x = p->options[i].initial;
		else
			g->values[i].n = (uint64_t)p->options[i].initial;
	}
}

bool gen_ok(const struct gen *g)
{
	return g->error == 0;
}

int gen_refuse(struct gen *g, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(g->why, sizeof(g->why), fmt, args);
	va_end(args);
	g->error = -EINVAL;
	return g->error;
}

static void gen_fail(struct gen *g, int error)
{
	g->error = error;
	snprintf(g->why, sizeof(g->why), "%s", strerror(-error));
}

uint64_t gen_jitter(struct gen *g, uint64_t size)
{
	double factor;
	uint64_t moved;

	if (g->jitter == 0)
		return size;
	/* One rounding per statement: within one, a compiler may fuse a product and a sum, and
	 * another machine would write another trace. */
	factor = 2 * gen_rng_unit(&g->rng);
	factor -= 1;
	factor *= g->jitter;
	factor += 1;
	moved = (uint64_t)((double)size * factor);
	return moved ? moved : 1;
}

/* The event that every call ends in: its place in time, and now and then a look around. */
static void gen_event(struct gen *g, struct gen_block block, struct gen_event *e)
{
	e->id = block.id;
	e->size = block.size;
	e->stream = (block.id - 1) % g->n_streams;
	e->thread = (block.id - 1) % g->n_threads;
	e->t_ns = g->n_events * g->interval_ns;
	g->n_events++;
	if (GP_LIKELY(g->n_events & 0xffff))
		return;
	if (g->interrupted && *g->interrupted)
		gen_fail(g, -EINTR);
	if (g->progress && g->n_expected > g->n_events)
		g->progress(g->n_events, g->n_expected);
}

struct gen_block gen_alloc(struct gen *g, uint64_t size)
{
	struct gen_block block = { g->n_allocs + 1, size };
	struct gen_event e;

	if (!gen_ok(g))
		return block;
	/* A trace numbers its events in 32 bits. Each block needs two. */
	if (g->n_events + 2 + g->live_blocks > UINT32_MAX) {
		gen_refuse(g, "more than 2^32 events");
		return block;
	}
	if (size > GP_SIZE_MAX - g->live_bytes) {
		gen_refuse(g, "more than 1 EiB would be live at once");
		return block;
	}
	gen_event(g, block, &e);
	g->n_allocs++;
	g->live_blocks++;
	g->live_bytes += size;
	g->most_blocks = gp_max_u64(g->most_blocks, g->live_blocks);
	g->load_bytes = gp_max_u64(g->load_bytes, g->live_bytes);
	if (g->writer)
		gen_writer_alloc(g->writer, &e);
	return block;
}

void gen_free(struct gen *g, struct gen_block block)
{
	struct gen_event e;

	if (!gen_ok(g))
		return;
	gen_event(g, block, &e);
	g->live_blocks--;
	g->live_bytes -= block.size;
	if (g->writer) {
		gen_writer_free(g->writer, &e);
		if (gen_writer_error(g->writer))
			gen_fail(g, gen_writer_error(g->writer));
	}
}

void gen_finish(struct gen *g, const struct gen_block *blocks, uint64_t n)
{
	if (g->keep)
		return;
	for (uint64_t i = 0; i < n && gen_ok(g); i++)
		gen_free(g, blocks[i]);
}

struct gen_block *gen_blocks(struct gen *g, uint64_t n)
{
	struct gen_block *blocks = calloc(n ? n : 1, sizeof(*blocks));

	if (!blocks)
		gen_fail(g, -ENOMEM);
	return blocks;
}

static void gen_reset(struct gen *g)
{
	int i;

	i = gen_pattern_option(g->pattern, "jitter");
	g->jitter = i >= 0 ? g->values[i].x : 0;
	i = gen_pattern_option(g->pattern, "keep");
	g->keep = i >= 0 && g->values[i].n;
	g->plan = (struct gen_plan){ 0 };
	g->n_events = g->n_allocs = 0;
	g->live_blocks = g->most_blocks = 0;
	g->live_bytes = g->load_bytes = 0;
	g->error = 0;
	g->why[0] = '\0';
	gen_rng_seed(&g->rng, g->seed);
}

int gen_run(struct gen *g)
{
	int r;

	gen_reset(g);
	r = g->pattern->plan(g, &g->plan);
	if (r < 0)
		return r;
	g->pattern->run(g);
	if (g->progress && g->n_expected)
		g->progress(g->n_expected, g->n_expected);
	if (!gen_ok(g))
		return g->error;
	if (g->plan.has_load && g->plan.load_bytes != g->load_bytes) {
		gen_refuse(g,
			   "load by closed form is %" PRIu64 " bytes, but %" PRIu64 " were counted",
			   g->plan.load_bytes, g->load_bytes);
		g->error = -EILSEQ;
	}
	return g->error;
}

GP_PRINTF(3, 4)
static void gen_append(char *buf, size_t size, const char *fmt, ...)
{
	size_t used = strlen(buf);
	va_list args;

	va_start(args, fmt);
	vsnprintf(buf + used, size - used, fmt, args);
	va_end(args);
}

/* The shortest decimal that reads back as x: "0.1". */
static void gen_append_real(char *buf, size_t size, const char *name, double x)
{
	char text[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, x);
		if (strtod(text, NULL) == x)
			break;
	}
	gen_append(buf, size, " --%s=%s", name, text);
}

void gen_command(const struct gen *g, char *buf, size_t size)
{
	buf[0] = '\0';
	gen_append(buf, size, "gpupool-gen %s", g->pattern->name);
	for (int i = 0; g->pattern->options[i].name; i++) {
		const struct gen_option *o = &g->pattern->options[i];

		if (o->kind == GEN_REAL)
			gen_append_real(buf, size, o->name, g->values[i].x);
		else if (o->kind != GEN_FLAG)
			gen_append(buf, size, " --%s=%" PRIu64, o->name, g->values[i].n);
		else if (g->values[i].n)
			gen_append(buf, size, " --%s", o->name);
	}
	gen_append(buf, size,
		   " --seed=%" PRIu64 " --streams=%" PRIu64 " --threads=%" PRIu64
		   " --interval=%" PRIu64,
		   g->seed, g->n_streams, g->n_threads, g->interval_ns);
}
