/* SPDX-License-Identifier: Apache-2.0
 *
 * writer: a trace as text on its way to a file or to standard output. The text and the file are
 * those of every trace (replay/writers); here is what a generator calls.
 *
 * Cost         about 50 bytes of text per event and no memory that grows
 * Not done     the compact binary: gpupool-trace converts
 * Threads      caller serialises
 */
#include "writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "replay/writers/json_text.h"

struct gen_writer {
	struct gp_output *out;
	struct gp_json_text text;
};

bool gen_gzip_of(const char *path)
{
	return gp_output_is_gzip(path);
}

enum gen_format gen_format_of(const char *path)
{
	return gp_output_ends_with(path, ".json") ? GEN_JSON : GEN_JSONL;
}

int gen_writer_create(const char *path, enum gen_format format, bool gzip, struct gen_writer **out,
		      char *why, size_t why_size)
{
	struct gen_writer *w = calloc(1, sizeof(*w));
	int r;

	if (!w) {
		snprintf(why, why_size, "out of memory");
		return -ENOMEM;
	}
	r = gp_output_open(path, gzip, &w->out, why, why_size);
	if (r) {
		free(w);
		return r;
	}
	w->text.out = w->out;
	w->text.lines = format == GEN_JSONL;
	*out = w;
	return 0;
}

void gen_writer_header(struct gen_writer *w, const char *name, const char *source,
		       uint64_t n_events)
{
	const struct gp_json_header header = {
		.name = name,
		.source = source,
		.n_events = n_events,
	};

	gp_json_text_header(&w->text, &header);
}

static void writer_event(struct gen_writer *w, enum gp_op op, const struct gen_event *e)
{
	const struct gp_trace_record r = {
		.op = op,
		.id = e->id,
		.size = e->size,
		.stream = e->stream,
		.thread = e->thread,
		.t_ns = e->t_ns,
	};

	gp_json_text_event(&w->text, &r);
}

void gen_writer_alloc(struct gen_writer *w, const struct gen_event *e)
{
	writer_event(w, GP_OP_ALLOC, e);
}

void gen_writer_free(struct gen_writer *w, const struct gen_event *e)
{
	writer_event(w, GP_OP_FREE, e);
}

int gen_writer_error(const struct gen_writer *w)
{
	return w->out->error;
}

int gen_writer_commit(struct gen_writer *w, char *why, size_t why_size)
{
	gp_json_text_end(&w->text);
	return gp_output_commit(w->out, why, why_size);
}

struct gen_writer *gen_writer_destroy(struct gen_writer *w)
{
	if (!w)
		return NULL;
	gp_output_close(w->out);
	free(w);
	return NULL;
}
