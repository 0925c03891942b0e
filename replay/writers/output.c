/* SPDX-License-Identifier: Apache-2.0
 *
 * output: see output.h.
 */
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "deflate.h"
#include "replay/atomic_file.h"

/* Of what is written as it is: small enough for an interruption to be noticed, large enough for the
 * kernel to keep the file in large pages, which a map of it takes over. */
#define OUTPUT_PIECE ((size_t)8 * 1024 * 1024)

struct output {
	struct gp_output public; /* the first: callers hold this */
	struct gp_atomic_file file;
	FILE *stream;               /* file.stream or stdout */
	char *path;                 /* for messages */
	struct gp_deflate *deflate; /* NULL: not compressed */
};

static bool path_is_stdout(const char *path)
{
	return !path || strcmp(path, "-") == 0;
}

static bool ends_with(const char *s, size_t length, const char *ending)
{
	size_t n = strlen(ending);

	return length >= n && memcmp(s + length - n, ending, n) == 0;
}

bool gp_output_is_gzip(const char *path)
{
	return !path_is_stdout(path) && ends_with(path, strlen(path), ".gz");
}

bool gp_output_ends_with(const char *path, const char *ending)
{
	size_t length = path_is_stdout(path) ? 0 : strlen(path);

	if (gp_output_is_gzip(path))
		length -= strlen(".gz");
	return length && ends_with(path, length, ending);
}

/* ---- bytes ---- */

static void output_put(void *arg, const void *data, size_t size)
{
	struct output *o = arg;

	errno = 0;
	if (!o->public.error && size && fwrite(data, 1, size, o->stream) != size)
		o->public.error = errno ? -errno : -EIO;
}

static void output_pass(struct output *o, const void *data, size_t size, bool last)
{
	o->public.n_written += size;
	if (o->public.interrupted && *o->public.interrupted && !o->public.error)
		o->public.error = -EINTR;
	if (o->public.error)
		return;
	if (o->deflate)
		gp_deflate_feed(o->deflate, data, size, last, output_put, o);
	else
		output_put(o, data, size);
}

void gp_output_flush(struct gp_output *o)
{
	output_pass((struct output *)o, o->buffer, o->used, false);
	o->used = 0;
}

void gp_output_bytes(struct gp_output *o, const void *data, size_t n)
{
	const char *p = data;

	gp_output_flush(o);
	while (n) {
		size_t piece = n < OUTPUT_PIECE ? n : OUTPUT_PIECE;

		output_pass((struct output *)o, p, piece, false);
		p += piece;
		n -= piece;
	}
}

void gp_output_quoted(struct gp_output *o, const char *text)
{
	gp_output_text(o, "\"");
	for (; *text; text++) {
		char escaped[8];

		if (*text == '"' || *text == '\\')
			gp_output_short(o, "\\", 1);
		if ((unsigned char)*text >= ' ') {
			gp_output_short(o, text, 1);
		} else {
			snprintf(escaped, sizeof(escaped), "\\u%04x", (unsigned)*text);
			gp_output_text(o, escaped);
		}
	}
	gp_output_text(o, "\"");
}

/* ---- the file ---- */

static int output_explain(const char *path, int error, char *why, size_t why_size)
{
	const char *what = error == -ENOTSUP ? "this build has no gzip (zlib)"
			   : error == -EINTR ? "interrupted"
					     : strerror(-error);

	snprintf(why, why_size, "%s: %s", path_is_stdout(path) ? "standard output" : path, what);
	return error;
}

static int output_start(struct output *o, const char *path, bool gzip)
{
	int r = gzip ? gp_deflate_create(&o->deflate) : 0;

	if (!r && !path_is_stdout(path))
		r = gp_atomic_open(&o->file, path);
	if (r)
		return r;
	o->stream = o->file.stream ? o->file.stream : stdout;
	o->path = strdup(path_is_stdout(path) ? "-" : path);
	o->public.buffer = malloc(GP_OUTPUT_BYTES);
	return o->path && o->public.buffer ? 0 : -ENOMEM;
}

int gp_output_open(const char *path, bool gzip, struct gp_output **out, char *why, size_t why_size)
{
	struct output *o = calloc(1, sizeof(*o));
	int r = o ? output_start(o, path, gzip) : -ENOMEM;

	if (r) {
		if (o)
			gp_output_close(&o->public);
		return output_explain(path, r, why, why_size);
	}
	*out = &o->public;
	return 0;
}

int gp_output_commit(struct gp_output *public, char *why, size_t why_size)
{
	struct output *o = (struct output *)public;
	int r;

	output_pass(o, public->buffer, public->used, true);
	public->used = 0;
	r = public->error;
	errno = 0;
	if (!r && o->file.stream)
		r = gp_atomic_close(&o->file);
	else if (!r && (fflush(o->stream) != 0 || ferror(o->stream)))
		r = errno ? -errno : -EIO;
	public->error = r;
	return r ? output_explain(o->path, r, why, why_size) : 0;
}

struct gp_output *gp_output_close(struct gp_output *public)
{
	struct output *o = (struct output *)public;

	if (!o)
		return NULL;
	gp_deflate_destroy(o->deflate);
	gp_atomic_discard(&o->file);
	free(o->path);
	free(public->buffer);
	free(o);
	return NULL;
}
