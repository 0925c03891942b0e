/* SPDX-License-Identifier: Apache-2.0
 *
 * output: text or bytes on their way to a file or to standard output.
 *
 *   text, numbers --> buffer --(deflate)--> file, under a temporary name until commit
 *
 * Errors      the first one stays; after it nothing is written. Whoever has much to write looks at
 *             it now and then; commit returns it.
 * Cost        numbers are formatted by hand: printf would take most of the time.
 * Threads     caller serialises.
 */
#ifndef GP_OUTPUT_H
#define GP_OUTPUT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GP_OUTPUT_BYTES ((size_t)256 * 1024) /* few enough calls; fits a second-level cache */

struct gp_output {
	int error; /* -errno; -EINTR: interrupted */
	/* May be set; looked at whenever the buffer is full. */
	const volatile sig_atomic_t *interrupted;
	uint64_t n_written; /* bytes that left the buffer, before compression */

	/* Below: for output.c and the functions here. */
	size_t used;
	char *buffer; /* GP_OUTPUT_BYTES */
};

/* Does the path, without a final ".gz", end so? NULL and "-" are standard output and end in
 * nothing. */
bool gp_output_ends_with(const char *path, const char *ending);
bool gp_output_is_gzip(const char *path);

/* NULL and "-": standard output. 0, or -errno with one line in `why`; -ENOTSUP: gzip in a build
 * without zlib. */
int gp_output_open(const char *path, bool gzip, struct gp_output **out, char *why, size_t why_size);
/* Writes the rest and gives the file its name. 0 or -errno with one line in `why`. */
int gp_output_commit(struct gp_output *o, char *why, size_t why_size);
/* Without a commit before, nothing of the file remains. NULL is fine. Returns NULL. */
struct gp_output *gp_output_close(struct gp_output *o);

/* Empties the buffer. */
void gp_output_flush(struct gp_output *o);
/* Any amount. */
void gp_output_bytes(struct gp_output *o, const void *data, size_t n);
/* A JSON string. The text is valid UTF-8 (as all text of a trace is). */
void gp_output_quoted(struct gp_output *o, const char *text);

/* Short texts: at most GP_OUTPUT_BYTES. */
static inline void gp_output_short(struct gp_output *o, const char *text, size_t n)
{
	if (n > GP_OUTPUT_BYTES - o->used)
		gp_output_flush(o);
	memcpy(o->buffer + o->used, text, n);
	o->used += n;
}

/* A literal: its length is known to the compiler. */
static inline void gp_output_text(struct gp_output *o, const char *text)
{
	gp_output_short(o, text, strlen(text));
}

static inline void gp_output_number(struct gp_output *o, uint64_t n)
{
	char digits[20];
	size_t i = sizeof(digits);

	do
		digits[--i] = (char)('0' + n % 10);
	while (n /= 10);
	gp_output_short(o, digits + i, sizeof(digits) - i);
}

/* With exactly `width` digits; higher ones are dropped. */
static inline void gp_output_padded(struct gp_output *o, uint64_t n, unsigned width)
{
	char digits[20];

	for (unsigned i = width; i-- > 0; n /= 10)
		digits[i] = (char)('0' + n % 10);
	gp_output_short(o, digits, width);
}

/* "0x7f00" */
static inline void gp_output_hex(struct gp_output *o, uint64_t n)
{
	char digits[18];
	size_t i = sizeof(digits);

	do
		digits[--i] = "0123456789abcdef"[n & 15];
	while (n >>= 4);
	digits[--i] = 'x';
	digits[--i] = '0';
	gp_output_short(o, digits + i, sizeof(digits) - i);
}

#endif
