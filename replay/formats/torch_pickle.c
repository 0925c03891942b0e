/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_pickle: a PyTorch memory snapshot as torch.cuda.memory._dump_snapshot() writes it. How to
 * record one is in traces/README.md.
 *
 * Shape       pickle.c runs the pickle, torch_dict.c knows what the dicts in it are.
 * Lenient     a file that breaks off is read up to there; something behind the end is left out.
 */
#include <errno.h>
#include <string.h>

#include "format.h"
#include "pickle.h"
#include "torch_snapshot.h"

_Static_assert(GP_TORCH_NO_WORD == GP_PICKLE_NO_WORD, "both mean a string of no interest");

struct torch_pickle {
	struct gp_torch torch;
	struct gp_pickle pickle;
	struct gp_torch_dict dict;
};

static uint64_t torch_pickle_at(const struct torch_pickle *t)
{
	return GP_TRACE_BYTE | t->pickle.at;
}

static int torch_pickle_text(void *arg, const char *text, size_t n, uint64_t *out)
{
	struct torch_pickle *t = arg;

	return gp_torch_text(&t->torch, text, n, out);
}

static int torch_pickle_dict(void *arg, struct gp_plain *dict, const struct gp_plain *pairs,
			     size_t n)
{
	struct torch_pickle *t = arg;
	struct gp_torch_dict *d = &t->dict;
	bool more = dict->n > 0;
	uint8_t before = dict->tag;
	int r;

	d->seen = 0;
	for (size_t i = 0; i < n; i++) {
		const struct gp_plain *key = &pairs[2 * i];

		if (key->kind != GP_PLAIN_WORD || key->number >= GP_TORCH_KEYS)
			continue;
		d->seen |= 1u << key->number;
		d->value[key->number] = pairs[2 * i + 1];
	}
	dict->n += n;
	if (!d->seen)
		return 0;
	r = gp_torch_dict(&t->torch, d, torch_pickle_at(t), dict);
	/* Python writes a dict in pieces from 1000 keys on. */
	if (!r && more && (before || dict->tag))
		return gp_trace_builder_refuse(t->torch.builder, torch_pickle_at(t),
					       "a dict comes in pieces, expected a snapshot as "
					       "PyTorch writes it");
	return r;
}

static int torch_pickle_list(void *arg, struct gp_plain *list, const struct gp_plain *items,
			     size_t n)
{
	struct torch_pickle *t = arg;
	int r = 0;

	for (size_t i = 0; !r && i < n; i++)
		r = gp_torch_list(&t->torch, list, &items[i], torch_pickle_at(t));
	return r;
}

static const struct gp_pickle_reader torch_pickle_reader = {
	.word = gp_torch_word,
	.keeps = gp_torch_keeps,
	.text = torch_pickle_text,
	.dict = torch_pickle_dict,
	.list = torch_pickle_list,
};

/* ---- the end ---- */

/* Lenient: the events up to where the file breaks off. On the stack, behind "device_traces" and the
 * list of all, are the traces that are not in it yet. */
static int torch_pickle_cut(struct torch_pickle *t)
{
	const struct gp_pickle *p = &t->pickle;
	size_t first = 0, n = 0;

	while (first < p->n && !(p->stack[first].kind == GP_PLAIN_WORD &&
				 p->stack[first].number == GP_TORCH_DEVICE_TRACES))
		first++;
	first += 2;
	while (first + n < p->n && p->stack[first + n].kind == GP_PLAIN_LIST)
		n++;
	return gp_torch_cut(&t->torch, n ? p->stack + first : NULL, n);
}

static int torch_pickle_bad(struct torch_pickle *t)
{
	struct gp_pickle *p = &t->pickle;
	struct gp_trace_builder *b = t->torch.builder;

	if (p->truncated && t->torch.n_events && gp_trace_builder_skip(b, GP_SKIP_TAIL))
		return torch_pickle_cut(t);
	return gp_trace_builder_refuse(b, torch_pickle_at(t), "%s%s", p->error,
				       strstr(p->error, "Python object")
					       ? " (record with torch.cuda.memory._dump_snapshot)"
					       : "");
}

static int torch_pickle_tail(struct torch_pickle *t)
{
	struct gp_trace_builder *b = t->torch.builder;
	struct gp_input *in = t->pickle.in;

	if (in->p == in->end && !gp_input_fill(in))
		return 0;
	if (gp_trace_builder_skip(b, GP_SKIP_TAIL))
		return 0;
	return gp_trace_builder_refuse(
		b, GP_TRACE_BYTE | (t->pickle.at + 1),
		"something follows the STOP of the pickle, expected the end");
}

static int torch_pickle_run(struct torch_pickle *t)
{
	struct gp_plain top;
	int r = gp_pickle_run(&t->pickle, &top);

	if (r == GP_PICKLE_BAD)
		return torch_pickle_bad(t);
	if (!r)
		r = gp_torch_top(&t->torch, &top, torch_pickle_at(t));
	return r ? r : torch_pickle_tail(t);
}

static int torch_pickle_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct torch_pickle t;
	int r;

	gp_torch_init(&t.torch, b);
	r = gp_pickle_init(&t.pickle, in, &torch_pickle_reader, &t);
	if (!r)
		r = torch_pickle_run(&t);
	gp_pickle_fini(&t.pickle); /* before the trace needs the memory */
	if (!r)
		r = gp_torch_feed(&t.torch);
	gp_torch_fini(&t.torch);
	if (r == -ENOMEM)
		gp_trace_builder_refuse(b, torch_pickle_at(&t),
					"out of memory, expected a file "
					"that fits");
	return r;
}

/* ---- recognising ---- */

/* Protocol 2 on begins with PROTO and a small version. */
static bool torch_pickle_looks(const unsigned char *head, size_t n)
{
	return n >= 2 && head[0] == 0x80 && head[1] < 32;
}

static enum gp_format_match torch_pickle_probe(const unsigned char *head, size_t n)
{
	static const char protocol_0[] = "(dp0\n", protocol_1[] = "}q";

	if (torch_pickle_looks(head, n))
		return GP_FORMAT_YES;
	if ((n >= 5 && !memcmp(head, protocol_0, 5)) || (n >= 2 && !memcmp(head, protocol_1, 2)))
		return GP_FORMAT_MAYBE;
	return GP_FORMAT_NO;
}

const struct gp_format gp_torch_pickle_format = {
	.name = "torch_pickle",
	.summary = "PyTorch memory snapshot, pickle",
	.probe = torch_pickle_probe,
	.read = torch_pickle_read,
};
