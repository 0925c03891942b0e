/* SPDX-License-Identifier: Apache-2.0
 *
 * allocator_sim: lifetimes as allocatorSim reads them, one block a line: the operation that
 * allocates it, the one that frees it, and its bytes. Operations are numbered by one counter.
 *
 *   0 12 92928
 *   1 5 256
 *
 * Shape       each line gives two points on the counter; sorted, these are the events. Where a free
 *             and an allocation have the same number, the free comes first.
 * Time        none is recorded; the number of the operation stands for it.
 * Memory      48 bytes a block, and the sort's scratch, besides the builder's.
 * Threads     caller serialises.
 */
#include <errno.h>
#include <stdlib.h>

#include "text.h"

struct sim_point {
	uint64_t at;
	uint64_t size; /* SIM_FREE: of a free */
	uint64_t line; /* names the block */
};

#define SIM_FREE UINT64_MAX
#define SIM_SIZE_MAX                                                                               \
	(UINT64_C(1) << 63) /* the builder's; it would leave out the allocation alone */

struct sim {
	struct gp_text text;
	struct gp_trace_builder *builder;
	struct sim_point *points;
	size_t n, capacity;
};

static bool sim_parse(struct gp_text *t, uint64_t *start, uint64_t *end, uint64_t *size)
{
	struct gp_text_word a, b, c, more;

	return gp_text_word(t, &a) && gp_text_word(t, &b) && gp_text_word(t, &c) &&
	       !gp_text_word(t, &more) && gp_text_u64(a, start) && gp_text_u64(b, end) &&
	       gp_text_u64(c, size);
}

static bool sim_reserve(struct sim *s)
{
	size_t capacity = s->capacity ? 2 * s->capacity : 1024;
	struct sim_point *next;

	if (s->n + 2 <= s->capacity)
		return true;
	next = capacity > SIZE_MAX / sizeof(*next) ? NULL
						   : realloc(s->points, capacity * sizeof(*next));
	if (!next)
		return false;
	s->points = next;
	s->capacity = capacity;
	return true;
}

static int sim_line(struct sim *s)
{
	struct gp_text_word whole = { s->text.p, (size_t)(s->text.end - s->text.p) };
	uint64_t line = s->text.line, start, end, size;

	if (s->text.too_long || !sim_parse(&s->text, &start, &end, &size))
		return gp_trace_builder_problem(
			s->builder, GP_SKIP_BAD_EVENT, line,
			"\"%s\", expected three whole numbers: first operation, last operation, "
			"bytes",
			gp_text_quote(whole).text);
	if (end <= start)
		return gp_trace_builder_problem(
			s->builder, GP_SKIP_BAD_EVENT, line,
			"a block that is allocated by operation %llu and freed by %llu, expected a "
			"later free",
			(unsigned long long)start, (unsigned long long)end);
	if (size > SIM_SIZE_MAX)
		return gp_trace_builder_problem(s->builder, GP_SKIP_BAD_EVENT, line,
						"a block of %llu bytes, expected at most 2^63",
						(unsigned long long)size);
	if (!sim_reserve(s)) {
		gp_trace_builder_refuse(s->builder, line, "out of memory");
		return -ENOMEM;
	}
	s->points[s->n++] = (struct sim_point){ start, size, line };
	s->points[s->n++] = (struct sim_point){ end, SIM_FREE, line };
	return 0;
}

static int sim_compare(const void *x, const void *y)
{
	const struct sim_point *a = x, *b = y;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	if ((a->size == SIM_FREE) != (b->size == SIM_FREE))
		return a->size == SIM_FREE ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

static int sim_tell(struct sim *s)
{
	int r = 0;

	if (s->n)
		qsort(s->points, s->n, sizeof(*s->points), sim_compare);
	for (size_t i = 0; !r && i < s->n; i++) {
		const struct sim_point *p = &s->points[i];
		struct gp_trace_record record = {
			.op = p->size == SIM_FREE ? GP_OP_FREE : GP_OP_ALLOC,
			.id = p->line,
			.size = p->size == SIM_FREE ? 0 : p->size,
			.t_ns = p->at - s->points[0].at,
		};

		r = gp_trace_builder_add(s->builder, &record, p->line);
	}
	return r;
}

static int sim_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct sim s = { .builder = b };
	int r = gp_text_init(&s.text, in);

	if (r)
		gp_trace_builder_refuse(b, 1, "out of memory");
	while (r >= 0 && gp_text_next(&s.text))
		r = sim_line(&s);
	if (r >= 0)
		r = sim_tell(&s);
	if (!r)
		r = gp_trace_builder_header(b, NULL, "allocatorSim", NULL, 0);
	if (!r)
		r = gp_trace_builder_note(b, "no times are recorded: the numbers of the "
					     "operations stand for them");
	if (!r)
		r = gp_text_note_end(&s.text, b);
	free(s.points);
	gp_text_fini(&s.text);
	return r;
}

static bool sim_fits(struct gp_text *t, unsigned i)
{
	uint64_t start, end, size;

	(void)i;
	return sim_parse(t, &start, &end, &size) && start < end;
}

static enum gp_format_match sim_probe(const unsigned char *head, size_t n)
{
	return gp_text_probe(head, n, 1, sim_fits);
}

const struct gp_format gp_allocator_sim_format = {
	.name = "allocator_sim",
	.summary = "allocatorSim lifetimes: START END BYTES a line",
	.probe = sim_probe,
	.read = sim_read,
};
