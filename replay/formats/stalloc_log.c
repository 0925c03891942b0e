/* SPDX-License-Identifier: Apache-2.0
 *
 * stalloc_log: the memory log of STAlloc (mem_log_dev0.txt), which records PyTorch through its
 * pluggable allocator.
 *
 *   Iteration Index : 0                          a marker: anything with a ':'
 *   1 0x7f5500000000 20971520 0                  1 allocates, 0 frees: address, size, stream
 *   0 0x7f5500000000 20971520 0
 *
 * Time        none is recorded; the number of the line stands for it.
 * Zero sizes  come with address 0 and are left out.
 * Threads     caller serialises.
 */
#include <stdio.h>
#include <string.h>

#include "by_address.h"
#include "text.h"

struct stalloc {
	struct gp_text text;
	struct gp_trace_builder *builder;
	struct gp_by_address blocks;
	uint64_t n_null;
};

static bool stalloc_is_marker(const struct gp_text *t)
{
	return memchr(t->p, ':', (size_t)(t->end - t->p)) != NULL;
}

/* The current line as an event; false: it is none. */
static bool stalloc_parse(struct gp_text *t, struct gp_trace_record *r)
{
	struct gp_text_word op, addr, size, stream, more;

	if (!gp_text_word(t, &op) || !gp_text_word(t, &addr) || !gp_text_word(t, &size) ||
	    !gp_text_word(t, &stream) || gp_text_word(t, &more))
		return false;
	r->op = gp_text_is(op, "1") ? GP_OP_ALLOC : GP_OP_FREE;
	return (r->op == GP_OP_ALLOC || gp_text_is(op, "0")) && gp_text_address(addr, &r->addr) &&
	       gp_text_u64(size, &r->size) && gp_text_address(stream, &r->stream);
}

static int stalloc_marker(struct stalloc *s)
{
	struct gp_text_word w = gp_text_rest(&s->text);
	char name[128];
	struct gp_trace_record r = { .op = GP_OP_MARK, .mark = name, .t_ns = s->text.line - 1 };

	snprintf(name, sizeof(name), "%.*s", (int)gp_min_u64(w.n, sizeof(name) - 1), w.p);
	return gp_trace_builder_add(s->builder, &r, s->text.line);
}

static int stalloc_line(struct stalloc *s)
{
	struct gp_text_word whole = { s->text.p, (size_t)(s->text.end - s->text.p) };
	struct gp_trace_record r = { .t_ns = s->text.line - 1 };

	if (stalloc_is_marker(&s->text))
		return stalloc_marker(s);
	if (s->text.too_long || !stalloc_parse(&s->text, &r))
		return gp_trace_builder_problem(
			s->builder, GP_SKIP_BAD_EVENT, s->text.line,
			"\"%s\", expected \"1 ADDRESS SIZE STREAM\" (0 for a free) or a marker "
			"\"NAME : VALUE\"",
			gp_text_quote(whole).text);
	if (!r.addr) {
		s->n_null += r.size != 0;
		return 0;
	}
	return r.op == GP_OP_ALLOC ? gp_by_address_alloc(&s->blocks, &r, s->text.line)
				   : gp_by_address_free(&s->blocks, &r, s->text.line);
}

static int stalloc_notes(struct stalloc *s)
{
	int r = gp_trace_builder_note(s->builder,
				      "no times are recorded: line numbers stand for them");

	if (!r && s->n_null)
		r = gp_trace_builder_note(s->builder, "left out: %llu events at address 0",
					  (unsigned long long)s->n_null);
	return r ? r : gp_text_note_end(&s->text, s->builder);
}

static int stalloc_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct stalloc s = { .builder = b };
	int r = gp_text_init(&s.text, in);

	gp_by_address_init(&s.blocks, b, " (STAlloc appends to its log: are two runs in it?)");
	if (r)
		gp_trace_builder_refuse(b, 1, "out of memory");
	while (r >= 0 && gp_text_next(&s.text))
		r = stalloc_line(&s);
	if (r >= 0)
		r = gp_trace_builder_header(b, NULL, "STAlloc", NULL, 0);
	if (!r)
		r = stalloc_notes(&s);
	gp_by_address_fini(&s.blocks);
	gp_text_fini(&s.text);
	return r;
}

static bool stalloc_fits(struct gp_text *t, unsigned i)
{
	struct gp_trace_record r = { .size = 0 };
	struct gp_text_word w;

	(void)i;
	if (!stalloc_is_marker(t))
		return stalloc_parse(t, &r);
	/* Of all lines with a ':' in them only the log's own can tell what the file is. */
	w = gp_text_rest(t);
	return gp_text_has(w, "Iteration Index") || gp_text_has(w, "micro-batch") ||
	       (gp_text_has(w, "->") && gp_text_has(w, "Layer"));
}

static enum gp_format_match stalloc_probe(const unsigned char *head, size_t n)
{
	return gp_text_probe(head, n, 1, stalloc_fits);
}

const struct gp_format gp_stalloc_log_format = {
	.name = "stalloc_log",
	.summary = "STAlloc memory log",
	.probe = stalloc_probe,
	.read = stalloc_read,
};
