/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_image: see trace_image.h.
 *
 * Shape       nothing in the file is believed, the totals included: they are counted again. One
 *             pass looks at each event once, and from a FREE or RECLAIM back at its ALLOC. That
 *             every link leads to the right partner then follows by counting:
 *
 *               FREE -> its ALLOC -> back here               (looked at, each)
 *               RECLAIM -> its ALLOC -> a FREE -> back here  (looked at, each)
 *               as many ALLOCs with a link as FREEs; as many deferred FREEs as RECLAIMs
 *
 * Cost        2.6 ns an event while the blocks of the last 10 000 frees are near (in the cache), 6
 *             ns with a million live blocks freed in random order.
 * Not done    a checksum: a bit that flips and leaves all rules kept is not noticed.
 * Threads     caller serialises.
 */
#include "trace_image.h"

#include <stdlib.h>
#include <string.h>

#include "trace_builder.h"

#define IMAGE_AHEAD 32u /* events between a hint to the cache and its use */

struct image_pass {
	const struct gp_event *events;
	size_t n;
	uint64_t last_ns, live;
	uint64_t n_ended, n_deferred, n_reclaims;
	uint32_t n_marks;
	struct gp_trace *t; /* its n_* and totals grow */
};

/* Each of these returns what is wrong with event i, or NULL. */

static inline const char *image_alloc(struct image_pass *p, size_t i)
{
	const struct gp_event *e = &p->events[i];
	struct gp_trace *t = p->t;

	if (e->id != t->n_ids)
		return "an alloc out of order, expected ids that count them";
	if (e->link != GP_EVENT_NONE && (e->link <= i || e->link >= p->n))
		return "an alloc whose free is not behind it, expected that";
	if (gp_event_lg_align(e) > 60 || gp_event_flags(e) & ~GP_EVENT_ASSUMED)
		return "an alloc with impossible flags, expected an alignment of at most 2^60";
	if (e->size > GP_TRACE_SIZE_MAX - p->live)
		return "more than 2^63 bytes live at once, expected less";
	if (gp_event_flags(e)) {
		if (i != t->n_assumed || e->t_ns)
			return "an assumed alloc behind others, expected it at the front";
		t->n_assumed++;
		t->assumed_bytes += e->size;
	}
	p->live += e->size;
	if (p->live > t->load_bytes) {
		t->load_bytes = p->live;
		t->load_event = i;
	}
	p->n_ended += e->link != GP_EVENT_NONE;
	t->n_ids++;
	return NULL;
}

static inline bool image_same_block(const struct gp_event *a, const struct gp_event *b)
{
	return a->id == b->id && a->size == b->size && a->stream == b->stream;
}

static inline const char *image_free(struct image_pass *p, size_t i)
{
	const struct gp_event *e = &p->events[i], *other;

	p->t->n_frees++;
	if (e->lg_align_flags == GP_EVENT_DEFERRED << 6) {
		p->n_deferred++;
		if (e->link <= i || e->link >= p->n)
			return "a free whose reclaim is not behind it, expected that";
		return NULL;
	}
	if (e->link >= i || e->lg_align_flags)
		return "a free whose alloc is not before it, expected that";
	other = &p->events[e->link];
	if (other->op != GP_OP_ALLOC || other->link != i || !image_same_block(other, e))
		return "a free that does not belong to its alloc, expected that it does";
	p->live -= e->size;
	return NULL;
}

static const char *image_reclaim(struct image_pass *p, size_t i)
{
	static const char wrong[] =
		"a reclaim that does not belong to its alloc and free, expected that it does";
	const struct gp_event *e = &p->events[i], *a, *f;

	p->n_reclaims++;
	if (e->link >= i || e->lg_align_flags)
		return wrong;
	a = &p->events[e->link];
	if (a->op != GP_OP_ALLOC || a->link >= i || !image_same_block(a, e))
		return wrong;
	f = &p->events[a->link];
	if (f->op != GP_OP_FREE || f->link != i || f->lg_align_flags != GP_EVENT_DEFERRED << 6 ||
	    f->thread != e->thread || !image_same_block(f, e))
		return wrong;
	p->live -= e->size;
	return NULL;
}

/* What is not a block's: the fields that its kind does not have are 0. */
static const char *image_other(struct image_pass *p, size_t i)
{
	const struct gp_event *e = &p->events[i];
	unsigned uses;

	if (e->op >= GP_OP_N)
		return "an unknown op, expected one of this version";
	uses = gp_op_uses((enum gp_op)e->op);
	if (e->link != GP_EVENT_NONE || e->lg_align_flags || e->size > GP_TRACE_SIZE_MAX ||
	    (e->size && !(uses & GP_USE_SIZE)) || (e->stream && !(uses & GP_USE_STREAM)) ||
	    (e->thread && !(uses & GP_USE_THREAD)))
		return "an impossible value, expected those that its kind has";
	if (e->id != (e->op == GP_OP_MARK ? p->n_marks : 0))
		return "an impossible number, expected marks that are counted";
	p->n_marks += e->op == GP_OP_MARK;
	return NULL;
}

static inline const char *image_event(struct image_pass *p, size_t i)
{
	const struct gp_event *e = &p->events[i];

	if (e->t_ns < p->last_ns)
		return "time goes back, expected it never to";
	p->last_ns = e->t_ns;
	if (e->stream >= p->t->n_streams || e->thread >= p->t->n_threads)
		return "an unknown stream or thread, expected one that the file names";
	if (e->op == GP_OP_ALLOC)
		return image_alloc(p, i);
	if (e->op == GP_OP_FREE)
		return image_free(p, i);
	return e->op == GP_OP_RECLAIM ? image_reclaim(p, i) : image_other(p, i);
}

/* A hint to fetch the ALLOC of a FREE that comes soon: the only thing that is not read in order. */
static inline void image_prefetch(const struct image_pass *p, size_t i)
{
#if defined(__GNUC__)
	if (i < p->n && p->events[i].op == GP_OP_FREE && p->events[i].link < p->n)
		__builtin_prefetch(&p->events[p->events[i].link]);
#else
	(void)p;
	(void)i;
#endif
}

static int image_check(struct gp_trace_builder *b)
{
	struct gp_trace *t = b->trace;
	struct image_pass pass = { .events = t->events, .n = t->n_events, .t = t };
	const char *fault = NULL;
	size_t i;

	for (i = 0; i < pass.n && !fault; i++) {
		image_prefetch(&pass, i + IMAGE_AHEAD);
		fault = image_event(&pass, i);
	}
	b->n_seen = i;
	if (!fault && (pass.n_ended != t->n_frees || pass.n_deferred != pass.n_reclaims))
		fault = "an alloc or free whose end is missing, expected each one's";
	if (!fault && pass.n_marks != t->n_marks)
		fault = "not as many marks as names of marks, expected that";
	t->n_allocs = t->n_ids;
	return fault ? gp_trace_builder_refuse(b, 0, "%s", fault) : 0;
}

/* Copies `n` texts that follow each other. */
static int image_texts(struct gp_trace_builder *b, const char *from, uint32_t n, char ***out,
		       uint32_t *n_out)
{
	if (!n)
		return 0;
	*out = calloc(n, sizeof(**out));
	if (!*out)
		return gp_trace_no_memory(b);
	for (; *n_out < n; ++*n_out) {
		(*out)[*n_out] = gp_trace_copy_text(from);
		if (!(*out)[*n_out])
			return gp_trace_no_memory(b);
		from += strlen(from) + 1;
	}
	return 0;
}

/* The trace's arrays are the reader's to change only while it builds them; these it never does. */
static void *image_unconst(const void *p)
{
	return (void *)(uintptr_t)p;
}

int gp_trace_builder_adopt(struct gp_trace_builder *b, const struct gp_trace_image *image)
{
	struct gp_trace *t = b->trace;
	int r;

	t->map = image->map;
	t->map_bytes = image->map_bytes;
	t->events = image_unconst(image->events);
	t->n_events = image->n_events;
	t->addrs = image_unconst(image->addrs);
	t->stream_handles = image_unconst(image->stream_handles);
	t->thread_handles = image_unconst(image->thread_handles);
	t->n_streams = image->n_streams;
	t->n_threads = image->n_threads;
	r = image_texts(b, image->marks, image->n_marks, &t->marks, &t->n_marks);
	if (!r)
		r = image_texts(b, image->notes, image->n_notes, &t->notes, &t->n_notes);
	return r ? r : image_check(b);
}
