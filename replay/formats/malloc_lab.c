/* SPDX-License-Identifier: Apache-2.0
 *
 * malloc_lab: the .rep traces of the malloc exercise of "Computer Systems: A Programmer's
 * Perspective", and of the many allocators that are measured with them.
 *
 *   20000        suggested heap, or a weight
 *   2            ids: 0 and 1
 *   3            operations that follow
 *   1            weight
 *   a 0 512      malloc
 *   r 0 640      realloc: here a free and an allocation; of an id that is not live, a malloc
 *   f 0          free; "f -1" frees NULL and is left out
 *
 * Time        none is recorded; the number of the operation stands for it.
 * Threads     caller serialises.
 */
#include <errno.h>

#include "replay/id_map.h"
#include "text.h"

#define LAB_HEADER 4u

struct lab {
	struct gp_text text;
	struct gp_trace_builder *builder;
	struct gp_id_map live; /* id -> 1 or 0 */
	uint64_t header[LAB_HEADER];
	uint64_t n_ops, n_reallocs;
};

enum lab_op {
	LAB_ALLOC = 'a',
	LAB_REALLOC = 'r',
	LAB_FREE = 'f',
};

struct lab_line {
	enum lab_op op;
	uint64_t id, size;
	bool null; /* f -1 */
};

static bool lab_parse_op(struct gp_text *t, struct lab_line *out)
{
	struct gp_text_word op, id, size, more;

	if (!gp_text_word(t, &op) || op.n != 1 || !gp_text_word(t, &id))
		return false;
	out->op = (enum lab_op)op.p[0];
	out->size = 0;
	out->null = out->op == LAB_FREE && gp_text_is(id, "-1");
	if (!out->null && !gp_text_u64(id, &out->id))
		return false;
	if (out->op == LAB_FREE)
		return !gp_text_word(t, &more);
	return (out->op == LAB_ALLOC || out->op == LAB_REALLOC) && gp_text_word(t, &size) &&
	       gp_text_u64(size, &out->size) && !gp_text_word(t, &more);
}

static bool lab_parse_header(struct gp_text *t, uint64_t *out)
{
	struct gp_text_word w, more;

	return gp_text_word(t, &w) && gp_text_u64(w, out) && !gp_text_word(t, &more);
}

static int lab_add(struct lab *l, const struct lab_line *line, enum gp_op op)
{
	struct gp_trace_record r = {
		.op = op,
		.id = line->id,
		.size = op == GP_OP_ALLOC ? line->size : 0,
		.t_ns = l->n_ops - 1,
	};

	if (gp_id_map_put(&l->live, line->id, op == GP_OP_ALLOC)) {
		gp_trace_builder_refuse(l->builder, l->text.line, "out of memory");
		return -ENOMEM;
	}
	return gp_trace_builder_add(l->builder, &r, l->text.line);
}

static int lab_apply(struct lab *l, const struct lab_line *line)
{
	int r = 0;

	if (line->null)
		return 0;
	if (line->op == LAB_REALLOC) {
		l->n_reallocs++;
		if (gp_id_map_find(&l->live, line->id) == 1)
			r = lab_add(l, line, GP_OP_FREE);
	}
	return r ? r : lab_add(l, line, line->op == LAB_FREE ? GP_OP_FREE : GP_OP_ALLOC);
}

static int lab_line(struct lab *l)
{
	struct gp_text_word whole = { l->text.p, (size_t)(l->text.end - l->text.p) };
	struct lab_line line;

	l->n_ops++;
	if (l->text.too_long || !lab_parse_op(&l->text, &line))
		return gp_trace_builder_problem(
			l->builder, GP_SKIP_BAD_EVENT, l->text.line,
			"\"%s\", expected \"a ID SIZE\", \"r ID SIZE\" or \"f ID\"",
			gp_text_quote(whole).text);
	if (!line.null && line.id >= l->header[1])
		return gp_trace_builder_problem(
			l->builder, GP_SKIP_BAD_EVENT, l->text.line,
			"id %llu, expected one below the %llu of the second line",
			(unsigned long long)line.id, (unsigned long long)l->header[1]);
	return lab_apply(l, &line);
}

static int lab_header(struct lab *l)
{
	static const char *const what[LAB_HEADER] = { "the heap's size", "the number of ids",
						      "the number of operations", "a weight" };

	for (unsigned i = 0; i < LAB_HEADER; i++)
		if (!gp_text_next(&l->text) || !lab_parse_header(&l->text, &l->header[i]))
			return gp_trace_builder_refuse(
				l->builder, l->text.line ? l->text.line : 1,
				"line %u of the header is missing or bad, expected %s alone", i + 1,
				what[i]);
	return gp_trace_builder_header(l->builder, NULL, "malloc lab", NULL, 0);
}

static int lab_end(struct lab *l)
{
	int r = 0;

	if (l->n_ops != l->header[2])
		r = gp_trace_builder_problem(
			l->builder, GP_SKIP_TAIL, l->text.line,
			"the file has %llu operations (truncated?), expected the %llu of its third "
			"line",
			(unsigned long long)l->n_ops, (unsigned long long)l->header[2]);
	if (r >= 0)
		r = gp_trace_builder_note(l->builder, "no times are recorded: the numbers of the "
						      "operations stand for them");
	if (!r && l->n_reallocs)
		r = gp_trace_builder_note(l->builder,
					  "%llu reallocs are each a free and an allocation here",
					  (unsigned long long)l->n_reallocs);
	return r ? r : gp_text_note_end(&l->text, l->builder);
}

static int lab_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct lab l = { .builder = b };
	int r = gp_text_init(&l.text, in);

	gp_id_map_init(&l.live);
	if (r)
		gp_trace_builder_refuse(b, 1, "out of memory");
	else
		r = lab_header(&l);
	while (r >= 0 && gp_text_next(&l.text))
		r = lab_line(&l);
	if (r >= 0)
		r = lab_end(&l);
	gp_id_map_fini(&l.live);
	gp_text_fini(&l.text);
	return r;
}

static bool lab_fits(struct gp_text *t, unsigned i)
{
	struct lab_line line;
	uint64_t number;

	return i < LAB_HEADER ? lab_parse_header(t, &number) : lab_parse_op(t, &line);
}

static enum gp_format_match lab_probe(const unsigned char *head, size_t n)
{
	return gp_text_probe(head, n, LAB_HEADER + 1, lab_fits);
}

const struct gp_format gp_malloc_lab_format = {
	.name = "malloc_lab",
	.summary = "malloc lab trace (.rep)",
	.probe = lab_probe,
	.read = lab_read,
};
