/* SPDX-License-Identifier: Apache-2.0
 *
 * writer: a trace as text on its way to a file or to standard output.
 *
 *   digits and keys --> text[] --(deflate)--> FILE, under a temporary name until commit
 *
 * Shape        Numbers are formatted by hand: printf would take most of the time, and a generator
 *              should not be slower than the replay it feeds.
 * Invariants   1. text[] has room for one more event (EVENT_MAX) between two calls
 *              2. the first error stays; after it nothing is written
 * Cost         about 50 bytes of text per event and no memory that grows
 * Not done     the compact binary: gpupool-trace converts
 * Threads      caller serialises
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/atomic_file.h"
#include "deflate.h"
#include "writer.h"

#define TEXT_BYTES (1u << 18) /* few enough calls; fits in a second-level cache */
#define EVENT_MAX  256u       /* five numbers of at most 20 digits and their keys */

struct gen_writer {
	struct gp_atomic_file file;
	FILE *out;  /* file.stream or stdout */
	char *path; /* for messages */
	enum gen_format format;
	struct gen_fields fields;
	bool first; /* no event written yet */
	int error;
	size_t used;
	struct gen_deflate *deflate; /* NULL: not compressed */
	char text[TEXT_BYTES];
};

static bool path_is_stdout(const char *path)
{
	return !path || strcmp(path, "-") == 0;
}

static bool ends_with(const char *s, size_t length, const char *end)
{
	size_t n = strlen(end);

	return length >= n && memcmp(s + length - n, end, n) == 0;
}

bool gen_gzip_of(const char *path)
{
	return !path_is_stdout(path) && ends_with(path, strlen(path), ".gz");
}

enum gen_format gen_format_of(const char *path)
{
	size_t length = path_is_stdout(path) ? 0 : strlen(path);

	if (gen_gzip_of(path))
		length -= strlen(".gz");
	return ends_with(path, length, ".json") ? GEN_JSON : GEN_JSONL;
}

/* ---- bytes ---- */

static void writer_put(void *arg, const void *data, size_t size)
{
	struct gen_writer *w = arg;

	errno = 0;
	if (!w->error && size && fwrite(data, 1, size, w->out) != size)
		w->error = errno ? -errno : -EIO;
}

/* Empties text[]; `last`: nothing follows. */
static void writer_flush(struct gen_writer *w, bool last)
{
	if (w->deflate)
		gen_deflate_feed(w->deflate, w->text, w->used, last, writer_put, w);
	else
		writer_put(w, w->text, w->used);
	w->used = 0;
}

/* ---- text ---- */

static void text_string(struct gen_writer *w, const char *s)
{
	size_t n = strlen(s);

	memcpy(w->text + w->used, s, n);
	w->used += n;
}

static void text_number(struct gen_writer *w, uint64_t n)
{
	char digits[20];
	size_t i = sizeof(digits);

	do
		digits[--i] = (char)('0' + n % 10);
	while (n /= 10);
	memcpy(w->text + w->used, digits + i, sizeof(digits) - i);
	w->used += sizeof(digits) - i;
}

/* A JSON string; the caller promises printable ASCII. */
static void text_quoted(struct gen_writer *w, const char *s)
{
	text_string(w, "\"");
	for (; *s; s++) {
		if (w->used > sizeof(w->text) - EVENT_MAX)
			writer_flush(w, false);
		if (*s == '"' || *s == '\\')
			w->text[w->used++] = '\\';
		w->text[w->used++] = *s;
	}
	text_string(w, "\"");
}

void gen_writer_header(struct gen_writer *w, const char *name, const char *source,
		       uint64_t n_events)
{
	text_string(w, "{\"format\":\"gpupool-trace\",\"version\":1,\"name\":");
	text_quoted(w, name);
	text_string(w, ",\"source\":");
	text_quoted(w, source);
	text_string(w, ",\"n_events\":");
	text_number(w, n_events);
	text_string(w, w->format == GEN_JSON ? ",\"events\":[\n" : "}\n");
}

static void event_begin(struct gen_writer *w)
{
	if (w->used > sizeof(w->text) - EVENT_MAX)
		writer_flush(w, false);
	if (w->format == GEN_JSON && !w->first)
		text_string(w, ",\n");
	w->first = false;
}

static void event_end(struct gen_writer *w, const struct gen_event *e)
{
	if (w->fields.thread) {
		text_string(w, ",\"thread\":");
		text_number(w, e->thread);
	}
	if (w->fields.time) {
		text_string(w, ",\"t\":");
		text_number(w, e->t_ns);
	}
	text_string(w, w->format == GEN_JSON ? "}" : "}\n");
}

void gen_writer_alloc(struct gen_writer *w, const struct gen_event *e)
{
	event_begin(w);
	text_string(w, "{\"op\":\"alloc\",\"id\":");
	text_number(w, e->id);
	text_string(w, ",\"size\":");
	text_number(w, e->size);
	if (w->fields.stream) {
		text_string(w, ",\"stream\":");
		text_number(w, e->stream);
	}
	event_end(w, e);
}

void gen_writer_free(struct gen_writer *w, const struct gen_event *e)
{
	event_begin(w);
	text_string(w, "{\"op\":\"free\",\"id\":");
	text_number(w, e->id);
	event_end(w, e);
}

/* ---- the file ---- */

int gen_writer_error(const struct gen_writer *w)
{
	return w->error;
}

static int writer_explain(const char *path, int error, char *why, size_t why_size)
{
	const char *what = error == -ENOTSUP ? "this build has no gzip (zlib)" : strerror(-error);

	snprintf(why, why_size, "%s: %s", path_is_stdout(path) ? "standard output" : path, what);
	return error;
}

static int writer_open(struct gen_writer *w, const char *path, bool gzip)
{
	int r = gzip ? gen_deflate_create(&w->deflate) : 0;

	if (!r && !path_is_stdout(path))
		r = gp_atomic_open(&w->file, path);
	if (r)
		return r;
	w->out = w->file.stream ? w->file.stream : stdout;
	w->path = strdup(path_is_stdout(path) ? "-" : path);
	return w->path ? 0 : -ENOMEM;
}

int gen_writer_create(const char *path, enum gen_format format, bool gzip, struct gen_fields fields,
		      struct gen_writer **out, char *why, size_t why_size)
{
	struct gen_writer *w = calloc(1, sizeof(*w));
	int r = w ? 0 : -ENOMEM;

	if (!r) {
		w->format = format;
		w->fields = fields;
		w->first = true;
		r = writer_open(w, path, gzip);
	}
	if (r) {
		gen_writer_destroy(w);
		return writer_explain(path, r, why, why_size);
	}
	*out = w;
	return 0;
}

int gen_writer_commit(struct gen_writer *w, char *why, size_t why_size)
{
	int r;

	if (w->format == GEN_JSON)
		text_string(w, w->first ? "]}\n" : "\n]}\n");
	writer_flush(w, true);
	r = w->error;
	errno = 0;
	if (!r && w->file.stream)
		r = gp_atomic_close(&w->file);
	else if (!r && (fflush(w->out) != 0 || ferror(w->out)))
		r = errno ? -errno : -EIO;
	w->error = r;
	return r ? writer_explain(w->path, r, why, why_size) : 0;
}

struct gen_writer *gen_writer_destroy(struct gen_writer *w)
{
	if (!w)
		return NULL;
	gen_deflate_destroy(w->deflate);
	gp_atomic_discard(&w->file);
	free(w->path);
	free(w);
	return NULL;
}
