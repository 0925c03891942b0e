/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_sizes: see trace_sizes.h.
 *
 * Shape       every event goes through the builder again, so that the new trace is as checked as
 *             any other and its load is counted.
 * Cost        one pass over the events
 * Threads     any
 */
#include "trace_sizes.h"

#include <errno.h>
#include <string.h>

/* False: too large. */
static bool sizes_change(const struct gp_trace_sizes *how, uint64_t *size)
{
	uint64_t n = *size;

	if (!n)
		return true;
	if (how->times) {
		uint64_t whole, rest = n % how->over * how->times;

		if (!gp_mul_u64(n / how->over, how->times, &whole))
			return false;
		rest = rest / how->over + (rest % how->over != 0);
		if (whole > UINT64_MAX - rest)
			return false;
		n = whole + rest;
	}
	if (how->cap)
		n = gp_min_u64(n, how->cap);
	*size = n;
	return true;
}

static bool sizes_keeps(enum gp_op op)
{
	return op == GP_OP_ALLOC || op == GP_OP_FREE || op == GP_OP_RECLAIM || op == GP_OP_SYNC ||
	       op == GP_OP_TRIM || op == GP_OP_MARK;
}

static int sizes_events(const struct gp_trace *t, const struct gp_trace_sizes *how,
			struct gp_trace_builder *b)
{
	for (size_t i = 0; i < t->n_events; i++) {
		struct gp_trace_record rec;
		int r;

		gp_trace_record_at(t, i, &rec);
		if (!sizes_keeps(rec.op))
			continue;
		rec.addr = 0;
		if (!sizes_change(how, &rec.size))
			return gp_trace_builder_refuse(b, GP_TRACE_EVENT + i + 1,
						       "a size beyond 2^64, expected a smaller "
						       "factor");
		r = gp_trace_builder_add(b, &rec, GP_TRACE_EVENT + i + 1);
		if (r)
			return r;
	}
	return 0;
}

static int sizes_notes(const struct gp_trace *t, const struct gp_trace_sizes *how,
		       struct gp_trace_builder *b)
{
	int r = 0;

	for (uint32_t i = 0; i < t->n_notes && !r; i++)
		r = gp_trace_builder_note(b, "%s", t->notes[i]);
	if (!r && how->times)
		r = gp_trace_builder_note(b, "sizes are the recorded ones times %llu/%llu",
					  (unsigned long long)how->times,
					  (unsigned long long)how->over);
	if (!r && how->cap)
		r = gp_trace_builder_note(b, "sizes above %llu bytes became that",
					  (unsigned long long)how->cap);
	return r;
}

int gp_trace_scale(const struct gp_trace *t, const struct gp_trace_sizes *how,
		   struct gp_trace **out, char *why, size_t why_size)
{
	struct gp_trace_builder *b = gp_trace_builder_create(t->path, NULL);
	int r = b ? gp_trace_builder_header(b, t->name, t->source, t->device_name, t->device_bytes)
		  : -ENOMEM;

	if (!r)
		r = sizes_events(t, how, b);
	if (!r)
		r = sizes_notes(t, how, b);
	if (!r)
		r = gp_trace_builder_finish(b, out);
	if (!r) {
		(*out)->format = t->format;
		memcpy((*out)->skipped, t->skipped, sizeof(t->skipped));
	} else {
		snprintf(why, why_size, "%s",
			 b && gp_trace_builder_why(b)[0] ? gp_trace_builder_why(b)
							 : "out of memory");
	}
	gp_trace_builder_destroy(b);
	return r;
}
