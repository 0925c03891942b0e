/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool_binary: the trace as memory has it (gpupool_binary.h; traces/FORMAT.md, "Binary").
 *
 * Shape       what the header says about the file is checked here; what the events say about each
 *             other, in trace_image.c, in one pass over them. Nothing is believed: a file may
 *             have been made to harm.
 * Cost        that pass; no copy, unless the input is compressed or a pipe.
 * Lenient     nothing can be left out of it; a bad file is refused.
 */
#include "gpupool_binary.h"

#include <string.h>

#include "format.h"
#include "input_map.h"
#include "replay/trace_builder.h"
#include "replay/trace_image.h"

#define BINARY_EVENTS_ALIGN 64u

static enum gp_format_match binary_probe(const unsigned char *head, size_t n)
{
	if (n >= GP_BINARY_MARK && !memcmp(head, GP_BINARY_MAGIC, GP_BINARY_MARK))
		return GP_FORMAT_YES;
	/* The first four bytes are left of it, or all but what a text mode has changed. */
	return n >= 4 && !memcmp(head, GP_BINARY_MAGIC, 4) ? GP_FORMAT_MAYBE : GP_FORMAT_NO;
}

struct binary {
	struct gp_trace_builder *b;
	struct gp_input_map map;
	struct gp_binary_header h; /* a copy: nobody changes it after it was looked at */
	struct gp_trace_image image;
	const char *name, *source, *device_name;
};

#define BINARY_AT(field) offsetof(struct gp_binary_header, field)

static int binary_check_form(struct binary *f)
{
	const struct gp_binary_header *h = &f->h;

	if (f->map.size < sizeof(*h))
		return gp_trace_builder_refuse(f->b, GP_TRACE_BYTE + f->map.size,
					       "the file ends in its header (truncated), "
					       "expected %zu bytes of it",
					       sizeof(*h));
	memcpy(&f->h, f->map.data, sizeof(*h));
	if (memcmp(h->magic, GP_BINARY_MAGIC, GP_BINARY_MARK))
		return gp_trace_builder_refuse(f->b, GP_TRACE_BYTE + 4,
					       "line ends were changed on the way, expected the "
					       "file as it was (copy it in binary mode)");
	if (h->endian != GP_BINARY_ENDIAN)
		return gp_trace_builder_refuse(
			f->b, GP_TRACE_BYTE + BINARY_AT(endian),
			"written on a machine with another byte order, expected this one's "
			"(convert it to JSON Lines there)");
	if (h->version != GP_BINARY_VERSION)
		return gp_trace_builder_refuse(
			f->b, GP_TRACE_BYTE + BINARY_AT(version),
			"version %u, expected %u, the one this program knows", h->version,
			GP_BINARY_VERSION);
	if (h->checksum != gp_binary_checksum(h))
		return gp_trace_builder_refuse(
			f->b, GP_TRACE_BYTE + BINARY_AT(checksum),
			"the header is damaged, expected its checksum to be right");
	if (h->header_bytes != sizeof(*h) || h->event_bytes != sizeof(struct gp_event))
		return gp_trace_builder_refuse(
			f->b, GP_TRACE_BYTE + BINARY_AT(header_bytes),
			"a header of %u and events of %u bytes, expected %zu and %zu",
			h->header_bytes, h->event_bytes, sizeof(*h), sizeof(struct gp_event));
	return 0;
}

static int binary_check_end(struct binary *f)
{
	struct gp_binary_tail tail;

	if (f->map.size < f->h.file_bytes)
		return gp_trace_builder_refuse(
			f->b, GP_TRACE_BYTE + f->map.size,
			"the file ends here (truncated), expected %llu bytes",
			(unsigned long long)f->h.file_bytes);
	if (f->map.size > f->h.file_bytes)
		return gp_trace_builder_refuse(f->b, GP_TRACE_BYTE + f->h.file_bytes,
					       "something follows the trace, expected its end");
	if (f->map.size < sizeof(f->h) + sizeof(tail))
		return gp_trace_builder_refuse(f->b, GP_TRACE_BYTE + BINARY_AT(file_bytes),
					       "no room for the tail, expected one");
	memcpy(&tail, (char *)f->map.data + f->map.size - sizeof(tail), sizeof(tail));
	if (memcmp(tail.magic, GP_BINARY_END, GP_BINARY_MARK) || tail.n_events != f->h.n_events)
		return gp_trace_builder_refuse(f->b, GP_TRACE_BYTE + f->map.size - sizeof(tail),
					       "a wrong tail, expected the number of events and "
					       "\"GPT-end\" (damaged?)");
	return 0;
}

/* The part [at, at + n * size) of the file, or NULL: not one. */
static const void *binary_part(struct binary *f, uint64_t at, uint64_t n, uint64_t size,
			       uint64_t align)
{
	uint64_t end = f->map.size - sizeof(struct gp_binary_tail), bytes;

	if (at < sizeof(f->h) || at % align || at > end || !gp_mul_u64(n, size, &bytes) ||
	    bytes > end - at)
		return NULL;
	return (const char *)f->map.data + at;
}

/* Steps over `n` texts; NULL: there are not so many in [p, end). */
static const char *binary_skip_texts(const char *p, const char *end, uint32_t n)
{
	for (; p && n; n--) {
		p = memchr(p, '\0', (size_t)(end - p));
		p = p ? p + 1 : NULL;
	}
	return p;
}

static bool binary_find_texts(struct binary *f, const char *p)
{
	const char *end = p + f->h.texts_bytes;

	f->name = p;
	f->source = binary_skip_texts(f->name, end, 1);
	f->device_name = binary_skip_texts(f->source, end, 1);
	f->image.marks = binary_skip_texts(f->device_name, end, 1);
	f->image.notes = binary_skip_texts(f->image.marks, end, f->h.n_marks);
	return binary_skip_texts(f->image.notes, end, f->h.n_notes) == end;
}

static int binary_find_parts(struct binary *f)
{
	const struct gp_binary_header *h = &f->h;
	struct gp_trace_image *image = &f->image;
	const char *texts = binary_part(f, h->texts_at, h->texts_bytes, 1, 1);

	image->events = binary_part(f, h->events_at, h->n_events, sizeof(struct gp_event),
				    BINARY_EVENTS_ALIGN);
	image->stream_handles = binary_part(f, h->streams_at, h->n_streams, 8, 8);
	image->thread_handles = binary_part(f, h->threads_at, h->n_threads, 8, 8);
	if (h->addrs_at)
		image->addrs = binary_part(f, h->addrs_at, h->n_events, 8, 8);
	if (h->pools_at)
		image->pools = binary_part(f, h->pools_at, h->n_events, 1, 1);
	if (!image->events || !image->stream_handles || !image->thread_handles || !texts ||
	    (h->addrs_at && !image->addrs) || (h->pools_at && !image->pools))
		return gp_trace_builder_refuse(
			f->b, GP_TRACE_BYTE + BINARY_AT(events_at),
			"a part lies outside of the file, expected all in it");
	if (h->n_events >= GP_EVENT_NONE || !h->n_streams || !h->n_threads ||
	    h->n_threads > GP_TRACE_THREADS_MAX || h->n_notes > GP_TRACE_NOTES_MAX)
		return gp_trace_builder_refuse(
			f->b, GP_TRACE_BYTE + BINARY_AT(n_events),
			"impossible counts, expected at most 2^32 - 2 events and 1000 notes, at "
			"least one stream, and 1 to 65536 threads");
	if (!binary_find_texts(f, texts))
		return gp_trace_builder_refuse(f->b, GP_TRACE_BYTE + h->texts_at,
					       "not as many texts as the header says, expected "
					       "each with its final 0");
	image->n_events = (size_t)h->n_events;
	image->n_streams = h->n_streams;
	image->n_threads = h->n_threads;
	image->n_marks = h->n_marks;
	image->n_notes = h->n_notes;
	return 0;
}

/* How much of an input that claims this header is worth having: one byte more than there should be,
 * so that what follows is noticed. */
static size_t binary_limit(struct gp_input *in)
{
	struct gp_binary_header h = { .file_bytes = 0 };
	const unsigned char *head;

	if (gp_input_peek(in, &head) >= sizeof(h))
		memcpy(&h, head, sizeof(h));
	return (size_t)gp_min_u64(gp_max_u64(h.file_bytes, sizeof(h)), SIZE_MAX - 1) + 1;
}

static int binary_read(struct gp_input *in, struct gp_trace_builder *b)
{
	struct binary f = { .b = b };
	int r = gp_input_map(in, binary_limit(in), &f.map);

	if (r) {
		gp_trace_builder_refuse(b, GP_TRACE_BYTE + 0,
					"out of memory, expected the file to fit");
		return r;
	}
	r = binary_check_form(&f);
	if (!r)
		r = binary_check_end(&f);
	if (!r)
		r = binary_find_parts(&f);
	if (!r)
		r = gp_trace_builder_header(b, f.name, f.source, f.device_name, f.h.device_bytes);
	if (r) {
		gp_input_unmap(&f.map);
		return r;
	}
	f.image.map = f.map.data;
	f.image.map_bytes = f.map.map_bytes;
	return gp_trace_builder_adopt(b, &f.image);
}

const struct gp_format gp_gpupool_binary_format = {
	.name = "gpupool_binary",
	.summary = "gpupool trace, binary (mapped, not parsed)",
	.probe = binary_probe,
	.read = binary_read,
};
