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
 * Cost        3.8 ns an event (one server core); 6 ns with a million live blocks that are freed in
 *             random order.
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

static const char *image_alloc(struct image_pass *p, size_t i)
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

static bool image_same_block(const struct gp_event *a, const struct gp_event *b)
{
	return a->id == b->id && a->size == b->size && a->stream == b->stream;
}

static const char *image_free(struct image_pass *p, size_t i)
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

static const char *image_event(struct image_pass *p, size_t i)
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

/* A hint to fetch what event i looks back at: the only thing that is not read in order. */
static inline void image_prefetch(const struct gp_event *events, size_t i)
{
#if defined(__GNUC__)
	size_t link = events[i].link;

	__builtin_prefetch(&events[link & (0 - (size_t)(link < i))]);
#else
	(void)events;
	(void)i;
#endif
}

_Static_assert(GP_OP_ALLOC == 0 && GP_OP_FREE == 1, "image_pair_fault() calculates with them");

/* What is wrong with event i when it is an ALLOC with a FREE behind it, or a FREE with its ALLOC
 * before it; 0: nothing. No branch on which of them it is: that would be guessed wrong every other
 * time, and cost more than all the rest. back: all bits when its link leads back, else 0; an ALLOC
 * is compared with itself. */
static inline uint64_t image_pair_fault(const struct gp_event *events, size_t i, uint64_t back,
					uint32_t n_ids)
{
	const struct gp_event *e = &events[i];
	const struct gp_event *a = &events[i ^ ((i ^ e->link) & back)];

	return (a->id ^ e->id) | (a->size ^ e->size) | (a->stream ^ e->stream) | a->op |
	       (e->op + back) | (back & (a->link ^ i)) | (~back & (e->id ^ n_ids)) |
	       (e->link == i) | (e->lg_align_flags > (~back & 60)) | (e->size > GP_TRACE_SIZE_MAX);
}

/* Goes over such events from i on and returns the first that is none, or of which something is
 * wrong: image_event() knows all about those. */
static size_t image_run(struct image_pass *p, size_t i)
{
	const struct gp_event *events = p->events;
	struct gp_trace *t = p->t;
	size_t first = i, load_event = t->load_event, last = p->n ? p->n - 1 : 0;
	uint64_t last_ns = p->last_ns, live = p->live, load = t->load_bytes;
	uint32_t n_ids = t->n_ids, n_streams = t->n_streams, n_threads = t->n_threads;

	for (; i < p->n; i++) {
		const struct gp_event *e = &events[i];
		uint64_t back = 0 - (uint64_t)(e->link < i);
		uint64_t now = live + ((e->size ^ back) - back); /* minus size, when back */

		image_prefetch(events, i + IMAGE_AHEAD < last ? i + IMAGE_AHEAD : last);
		if (image_pair_fault(events, i, back, n_ids) | (e->link > last) |
		    (e->t_ns < last_ns) | (e->stream >= n_streams) | (e->thread >= n_threads) |
		    (now > GP_TRACE_SIZE_MAX))
			break;
		n_ids += 1 + (uint32_t)back;
		live = now;
		load_event = live > load ? i : load_event;
		load = live > load ? live : load;
		last_ns = e->t_ns;
	}
	p->last_ns = last_ns;
	p->live = live;
	p->n_ended += n_ids - t->n_ids;
	t->n_frees += i - first - (n_ids - t->n_ids);
	t->n_ids = n_ids;
	t->load_bytes = load;
	t->load_event = load_event;
	return i;
}

static int image_check(struct gp_trace_builder *b)
{
	struct gp_trace *t = b->trace;
	struct image_pass pass = { .events = t->events, .n = t->n_events, .t = t };
	const char *fault = NULL;
	size_t i = 0;

	while (!fault && (i = image_run(&pass, i)) < pass.n)
		fault = image_event(&pass, i++);
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
	t->pools = image_unconst(image->pools);
	t->stream_handles = image_unconst(image->stream_handles);
	t->thread_handles = image_unconst(image->thread_handles);
	t->n_streams = image->n_streams;
	t->n_threads = image->n_threads;
	r = image_texts(b, image->marks, image->n_marks, &t->marks, &t->n_marks);
	if (!r)
		r = image_texts(b, image->notes, image->n_notes, &t->notes, &t->n_notes);
	return r ? r : image_check(b);
}
