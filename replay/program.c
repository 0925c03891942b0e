/* SPDX-License-Identifier: Apache-2.0
 *
 * program: compiles a trace into the operations that a timed pass executes.
 *
 * Cost        two passes over the events; 32 bytes an operation
 * Threads     a program is read only once compiled; any number of threads may run it
 */
#include <errno.h>
#include <stdlib.h>

#include "program.h"

enum gp_action gp_program_action(const struct gp_trace *trace, size_t i)
{
	const struct gp_event *e = &trace->events[i];

	switch (e->op) {
	case GP_OP_ALLOC:
		return e->size ? GP_ACTION_ALLOC : GP_ACTION_NONE;
	case GP_OP_FREE:
		if (gp_event_flags(e) & GP_EVENT_DEFERRED)
			return GP_ACTION_NONE;
		return e->size ? GP_ACTION_FREE : GP_ACTION_NONE;
	case GP_OP_RECLAIM:
		return e->size ? GP_ACTION_FREE : GP_ACTION_NONE;
	case GP_OP_TRIM:
		return GP_ACTION_TRIM;
	case GP_OP_SYNC:
		return GP_ACTION_SYNC;
	default:
		return GP_ACTION_NONE;
	}
}

/* The same with them. */
static enum gp_action program_deferring(const struct gp_trace *trace, size_t i)
{
	const struct gp_event *e = &trace->events[i];

	if (e->op == GP_OP_FREE && gp_event_flags(e) & GP_EVENT_DEFERRED)
		return e->size ? GP_ACTION_DEFER : GP_ACTION_NONE;
	if (e->op == GP_OP_RECLAIM)
		return e->size ? GP_ACTION_COMPLETE : GP_ACTION_NONE;
	return gp_program_action(trace, i);
}

/* Which of `threads` threads makes the call of event `e`. */
static unsigned program_thread(const struct gp_trace *trace, const struct gp_event *e,
			       unsigned threads)
{
	if (threads < 2)
		return 0;
	if (trace->n_threads >= 2)
		return e->thread % threads;
	if (e->op == GP_OP_ALLOC || e->op == GP_OP_FREE || e->op == GP_OP_RECLAIM)
		return e->id % threads;
	return 0;
}

static struct gp_action_op program_op(const struct gp_trace *trace, size_t i, enum gp_action action,
				      unsigned threads)
{
	const struct gp_event *e = &trace->events[i];
	struct gp_action_op op = { .id = e->id, .event = (uint32_t)i, .action = (uint8_t)action };

	op.req.stream = e->stream;
	op.req.thread = (uint16_t)program_thread(trace, e, threads);
	if (action == GP_ACTION_ALLOC) {
		op.req.size = e->size;
		op.req.lg_align = (uint8_t)gp_event_lg_align(e);
		op.req.pool = gp_trace_pool(trace, i);
	}
	return op;
}

static int program_reserve(struct gp_program *p, size_t n_ops, uint32_t n_ids)
{
	*p = (struct gp_program){ .n_ids = n_ids };
	p->ops = calloc(n_ops ? n_ops : 1, sizeof(*p->ops));
	return p->ops ? 0 : -ENOMEM;
}

static int program_compile(const struct gp_trace *trace, unsigned threads,
			   enum gp_action (*action_of)(const struct gp_trace *trace, size_t i),
			   struct gp_program *out)
{
	size_t n = 0;

	for (size_t i = 0; i < trace->n_events; i++)
		n += action_of(trace, i) != GP_ACTION_NONE;
	if (program_reserve(out, n, trace->n_ids))
		return -ENOMEM;
	for (size_t i = 0; i < trace->n_events; i++) {
		enum gp_action action = action_of(trace, i);

		if (action != GP_ACTION_NONE)
			out->ops[out->n_ops++] = program_op(trace, i, action, threads);
	}
	return 0;
}

int gp_program_compile(const struct gp_trace *trace, unsigned threads, struct gp_program *out)
{
	return program_compile(trace, threads, gp_program_action, out);
}

int gp_program_compile_deferring(const struct gp_trace *trace, struct gp_program *out)
{
	return program_compile(trace, 1, program_deferring, out);
}

int gp_program_split(const struct gp_program *whole, unsigned threads, struct gp_program *out)
{
	size_t *counts = calloc(threads, sizeof(*counts));
	unsigned made = 0;

	if (!counts)
		return -ENOMEM;
	for (size_t i = 0; i < whole->n_ops; i++)
		counts[whole->ops[i].req.thread]++;
	while (made < threads && !program_reserve(&out[made], counts[made], whole->n_ids))
		made++;
	free(counts);
	if (made < threads) {
		while (made)
			gp_program_fini(&out[--made]);
		return -ENOMEM;
	}
	for (size_t i = 0; i < whole->n_ops; i++) {
		struct gp_program *p = &out[whole->ops[i].req.thread];

		p->ops[p->n_ops++] = whole->ops[i];
	}
	return 0;
}

void gp_program_cut(struct gp_program *p, size_t last)
{
	while (p->n_ops && p->ops[p->n_ops - 1].event > last)
		p->n_ops--;
}

void gp_program_fini(struct gp_program *p)
{
	free(p->ops);
	*p = (struct gp_program){ 0 };
}
