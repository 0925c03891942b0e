/* SPDX-License-Identifier: Apache-2.0
 *
 * input: the bytes of a trace file, decompressed where needed, through a window of fixed size.
 *
 *   file / stdin / memory --> [inflate, when it starts as gzip does] --> window --> reader
 *
 * Memory      a constant (below 400 KiB), whatever the size of the input.
 * Errors      opening tells at once. While reading, the window just ends; gp_input_error() then
 *             says whether that was the end of the file or a fault (damaged gzip data, I/O).
 * Lines       `line` is that of the next byte. Whoever takes a '\n' out of the window by hand adds
 *             one; gp_input_getc() does so itself.
 * Threads     caller serialises.
 */
#ifndef GP_INPUT_H
#define GP_INPUT_H

#include "allocators/base.h"

/* gp_input_peek() can look ahead this far. */
#define GP_INPUT_PEEK_MAX ((size_t)64 * 1024)

struct gp_inflate;

struct gp_input {
	const unsigned char *p, *end; /* the window: read, but not taken yet */
	uint64_t line;                /* of *p, from 1 */

	/* Below: for input.c alone. */
	char *path;
	unsigned char *buffer; /* the window lies in here; NULL when the source is memory */
	unsigned char *packed; /* compressed bytes on their way to inflate */
	size_t packed_at, n_packed;
	struct gp_inflate *inflate; /* NULL: the bytes are plain */
	int fd;                     /* -1: memory */
	bool owns_fd, at_end;
	bool in_member; /* the gzip member that inflate is in has not ended yet */
	int error;      /* -errno; -EINVAL: the gzip data are bad */
	char error_text[96];
	uint64_t n_read, n_total; /* of the source, before decompression; n_total 0: not known */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *progress_arg;
};

/* "-" is standard input. 0, or -errno with one line in `why`. */
int gp_input_open(const char *path, struct gp_input **out, char *why, size_t why_size);
/* Bytes that the caller keeps; `path` is only a name for messages. Plain, never decompressed.
 * NULL: out of memory. */
struct gp_input *gp_input_open_memory(const char *path, const void *data, size_t n);
/* NULL is fine. Returns NULL. */
struct gp_input *gp_input_close(struct gp_input *in);

/* Makes an empty window hold at least one byte; false: no more. */
bool gp_input_fill(struct gp_input *in);
/* Looks at up to GP_INPUT_PEEK_MAX bytes without taking them; fewer only when the input ends. */
size_t gp_input_peek(struct gp_input *in, const unsigned char **data);
/* The line of the last byte there is: where a file that ends too early ends. */
uint64_t gp_input_end_line(const struct gp_input *in);

/* 0, or what ended the reading (then `error_text` is set). */
static inline int gp_input_error(const struct gp_input *in)
{
	return in->error;
}

/* The next byte, or -1. */
static inline int gp_input_getc(struct gp_input *in)
{
	if (in->p == in->end && !gp_input_fill(in))
		return -1;
	in->line += *in->p == '\n';
	return *in->p++;
}

#endif
