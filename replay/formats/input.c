/* SPDX-License-Identifier: Apache-2.0
 *
 * input: see input.h.
 *
 * Shape       the byte before the window is kept too (buffer[0] at first), so that the end of the
 *             file can be told to lie on the line before when the last byte is a '\n'.
 */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inflate.h"

#define INPUT_WINDOW ((size_t)128 * 1024) /* of each of the two buffers */

_Static_assert(GP_INPUT_PEEK_MAX < INPUT_WINDOW, "what one can look ahead at fits the window");

static void input_fail(struct gp_input *in, int error, const char *text)
{
	in->error = error;
	snprintf(in->error_text, sizeof(in->error_text), "%s", text);
}

/* Reads from the source as it is; 0 at its end and after a fault. */
static size_t input_read(struct gp_input *in, unsigned char *to, size_t room)
{
	ssize_t n;

	do {
		n = read(in->fd, to, room);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		int error = errno;

		input_fail(in, -error, strerror(error));
		return 0;
	}
	in->n_read += (uint64_t)n;
	if (in->progress)
		in->progress(in->progress_arg, in->n_read, in->n_total);
	return (size_t)n;
}

static size_t input_read_gzip(struct gp_input *in, unsigned char *to, size_t room)
{
	size_t n_out = 0;

	while (!n_out) {
		size_t n_in;
		int r;

		if (in->packed_at == in->n_packed) {
			in->packed_at = 0;
			in->n_packed = input_read(in, in->packed, INPUT_WINDOW);
			if (!in->n_packed) {
				if (!in->error && in->in_member)
					input_fail(in, -EINVAL,
						   "the gzip data end too early (truncated)");
				return 0;
			}
		}
		n_in = in->n_packed - in->packed_at;
		n_out = room;
		r = gp_inflate_run(in->inflate, in->packed + in->packed_at, &n_in, to, &n_out);
		in->packed_at += n_in;
		in->in_member = r != GP_INFLATE_MEMBER_END;
		if (r == -ENOMEM)
			input_fail(in, r, "out of memory");
		else if (r < 0)
			input_fail(in, -EINVAL, "the gzip data are damaged");
		if (r < 0)
			return n_out; /* what came out before the damage still counts */
	}
	return n_out;
}

/* Appends to the window, at most up to the end of the buffer. */
static bool input_append(struct gp_input *in)
{
	size_t used = (size_t)(in->end - in->buffer);
	size_t n;

	if (in->at_end)
		return false;
	if (in->inflate)
		n = input_read_gzip(in, in->buffer + used, INPUT_WINDOW - used);
	else
		n = input_read(in, in->buffer + used, INPUT_WINDOW - used);
	in->end += n;
	in->at_end = !n || in->error;
	return n > 0;
}

/* Moves the window, and the byte before it, to the front of the buffer. */
static void input_rewind(struct gp_input *in)
{
	size_t n = (size_t)(in->end - in->p);

	memmove(in->buffer, in->p - 1, n + 1);
	in->p = in->buffer + 1;
	in->end = in->p + n;
}

bool gp_input_fill(struct gp_input *in)
{
	if (!in->buffer)
		return false;
	input_rewind(in);
	return input_append(in);
}

size_t gp_input_peek(struct gp_input *in, const unsigned char **data)
{
	if (in->buffer) {
		input_rewind(in);
		while ((size_t)(in->end - in->p) < GP_INPUT_PEEK_MAX && input_append(in))
			;
	}
	*data = in->p;
	return (size_t)gp_min_u64((uint64_t)(in->end - in->p), GP_INPUT_PEEK_MAX);
}

uint64_t gp_input_end_line(const struct gp_input *in)
{
	return in->line > 1 && in->p[-1] == '\n' ? in->line - 1 : in->line;
}

struct gp_input *gp_input_close(struct gp_input *in)
{
	if (!in)
		return NULL;
	if (in->owns_fd)
		close(in->fd);
	gp_inflate_destroy(in->inflate);
	free(in->packed);
	free(in->buffer);
	free(in->path);
	free(in);
	return NULL;
}

struct gp_input *gp_input_open_memory(const char *path, const void *data, size_t n)
{
	struct gp_input *in = calloc(1, sizeof(*in));

	if (!in)
		return NULL;
	in->fd = -1;
	in->line = 1;
	in->p = n ? data : (const void *)"";
	in->end = in->p + n;
	in->path = strdup(path);
	return in->path ? in : gp_input_close(in);
}

/* Two bytes tell gzip from everything else. */
static int input_detect_gzip(struct gp_input *in)
{
	size_t n;
	int r;

	while (in->end - in->p < 2 && input_append(in))
		;
	n = (size_t)(in->end - in->p);
	if (n < 2 || in->p[0] != 0x1f || in->p[1] != 0x8b)
		return 0;
	r = gp_inflate_create(&in->inflate);
	if (r)
		return r;
	in->packed = malloc(INPUT_WINDOW);
	if (!in->packed)
		return -ENOMEM;
	memcpy(in->packed, in->p, n);
	in->n_packed = n;
	in->end = in->p;
	return 0;
}

static int input_open_fd(struct gp_input *in)
{
	struct stat st;

	in->owns_fd = strcmp(in->path, "-") != 0;
	in->fd = in->owns_fd ? open(in->path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (in->fd < 0) {
		in->owns_fd = false;
		return -errno;
	}
	if (fstat(in->fd, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	in->n_total = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	return 0;
}

int gp_input_open(const char *path, struct gp_input **out, char *why, size_t why_size)
{
	struct gp_input *in = gp_input_open_memory(path, "", 0);
	int r = -ENOMEM;

	if (!in)
		goto fail;
	in->buffer = malloc(INPUT_WINDOW);
	if (!in->buffer)
		goto fail;
	in->buffer[0] = 0;
	in->p = in->end = in->buffer + 1;
	r = input_open_fd(in);
	if (!r)
		r = input_detect_gzip(in);
	if (!r)
		r = in->error;
	if (r)
		goto fail;
	*out = in;
	return 0;
fail:
	if (r == -ENOTSUP)
		snprintf(why, why_size,
			 "%s:1: gzip-compressed, and this build has no zlib; "
			 "expected an uncompressed trace (gunzip it)",
			 path);
	else
		snprintf(why, why_size, "%s: %s, expected a file that can be read", path,
			 strerror(-r));
	gp_input_close(in);
	return r;
}
