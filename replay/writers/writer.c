/* SPDX-License-Identifier: Apache-2.0
 *
 * writer: the list of writers and what is the same for all; see writer.h.
 */
#include "writer.h"

#include <stdarg.h>
#include <stdio.h>

#define GP_WRITER(name) extern const struct gp_writer gp_##name##_writer;
#include "writer_list.inc"
#undef GP_WRITER

static const struct gp_writer *const writers[] = {
#define GP_WRITER(name) &gp_##name##_writer,
#include "writer_list.inc"
#undef GP_WRITER
};

const struct gp_writer *gp_writer_at(size_t i)
{
	return i < GP_ARRAY_LEN(writers) ? writers[i] : NULL;
}

const struct gp_writer *gp_writer_find(const char *name)
{
	static const char ours[] = "gpupool_";

	for (size_t i = 0; i < GP_ARRAY_LEN(writers); i++) {
		const char *full = writers[i]->name;

		if (!strcmp(full, name) ||
		    (!strncmp(full, ours, strlen(ours)) && !strcmp(full + strlen(ours), name)))
			return writers[i];
	}
	return NULL;
}

const struct gp_writer *gp_writer_for_path(const char *path)
{
	for (size_t i = 0; i < GP_ARRAY_LEN(writers); i++)
		if (gp_output_ends_with(path, writers[i]->ending))
			return writers[i];
	return NULL;
}

/* ---- what is lost ---- */

struct losses {
	char *text;
	size_t size, used;
};

GP_PRINTF(2, 3)
static void losses_add(struct losses *l, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (l->used >= l->size)
		return;
	l->used +=
		(size_t)snprintf(l->text + l->used, l->size - l->used, "%s", l->used ? ", " : "");
	if (l->used >= l->size)
		return;
	va_start(ap, fmt);
	n = vsnprintf(l->text + l->used, l->size - l->used, fmt, ap);
	va_end(ap);
	l->used += (size_t)n;
}

/* What the trace has at all, as enum gp_writer_keep; and how many of each operation. */
static unsigned losses_has(const struct gp_trace *t, uint64_t *n_ops)
{
	unsigned has = 0;

	for (size_t i = 0; i < t->n_events; i++) {
		const struct gp_event *e = &t->events[i];

		n_ops[e->op]++;
		has |= e->op == GP_OP_ALLOC && gp_event_lg_align(e) ? GP_KEEP_ALIGN : 0;
	}
	has |= t->n_events && t->events[t->n_events - 1].t_ns ? GP_KEEP_TIME : 0;
	has |= t->n_streams > 1 ? GP_KEEP_STREAM : 0;
	has |= t->n_threads > 1 ? GP_KEEP_THREAD : 0;
	has |= t->addrs ? GP_KEEP_ADDR : 0;
	has |= t->pools ? GP_KEEP_POOL : 0;
	has |= t->name[0] || t->source[0] || t->device_name[0] || t->n_notes || t->n_assumed
		       ? GP_KEEP_HEADER
		       : 0;
	return has;
}

const char *gp_writer_losses(const struct gp_writer *w, const struct gp_trace *t, char *text,
			     size_t size)
{
	static const char *const names[] = {
		"name, source and notes", "times",         "streams", "threads", "alignment",
		"recorded addresses",     "private pools",
	};
	struct losses l = { text, size, 0 };
	uint64_t n_ops[GP_OP_N] = { 0 };
	unsigned lost = losses_has(t, n_ops) & ~w->keeps;

	text[0] = '\0';
	for (enum gp_op op = 0; op < GP_OP_N; op++)
		if (n_ops[op] && !(w->ops & 1u << op))
			losses_add(&l, "%llu %s", (unsigned long long)n_ops[op], gp_op_name(op));
	for (unsigned i = 0; i < GP_ARRAY_LEN(names); i++)
		if (lost & 1u << i)
			losses_add(&l, "%s", names[i]);
	return text;
}

/* ---- saving ---- */

int gp_writer_save(const struct gp_writer *w, const struct gp_trace *t, const char *path, bool gzip,
		   const volatile sig_atomic_t *interrupted, char *why, size_t why_size)
{
	struct gp_output *out;
	int r = gp_output_open(path, gzip, &out, why, why_size);

	if (r)
		return r;
	out->interrupted = interrupted;
	r = w->write(t, out);
	if (r)
		snprintf(why, why_size, "%s: %s", path ? path : "standard output", strerror(-r));
	else
		r = gp_output_commit(out, why, why_size);
	gp_output_close(out);
	return r;
}
