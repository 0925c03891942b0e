/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool_binary: the trace as memory has it (replay/formats/gpupool_binary.h).
 *
 * Cost        a copy: the disk is the limit
 */
#include "replay/formats/gpupool_binary.h"

#include <string.h>

#include "writer.h"

#define BINARY_EVENTS_ALIGN 64u

static uint64_t binary_texts_bytes(const struct gp_trace *t)
{
	uint64_t n = strlen(t->name) + strlen(t->source) + strlen(t->device_name) + 3;

	for (uint32_t i = 0; i < t->n_marks; i++)
		n += strlen(t->marks[i]) + 1;
	for (uint32_t i = 0; i < t->n_notes; i++)
		n += strlen(t->notes[i]) + 1;
	return n;
}

static struct gp_binary_header binary_header(const struct gp_trace *t)
{
	struct gp_binary_header h = {
		.endian = GP_BINARY_ENDIAN,
		.version = GP_BINARY_VERSION,
		.header_bytes = sizeof(h),
		.event_bytes = sizeof(struct gp_event),
		.n_events = t->n_events,
		.device_bytes = t->device_bytes,
		.n_streams = t->n_streams,
		.n_threads = t->n_threads,
		.n_marks = t->n_marks,
		.n_notes = t->n_notes,
		.events_at = gp_align_up(sizeof(h), BINARY_EVENTS_ALIGN),
		.texts_bytes = binary_texts_bytes(t),
	};
	uint64_t at = h.events_at + t->n_events * sizeof(struct gp_event);

	memcpy(h.magic, GP_BINARY_MAGIC, GP_BINARY_MARK);
	if (t->addrs) {
		h.addrs_at = at;
		at += t->n_events * sizeof(*t->addrs);
	}
	h.streams_at = at;
	h.threads_at = h.streams_at + t->n_streams * sizeof(*t->stream_handles);
	h.texts_at = h.threads_at + t->n_threads * sizeof(*t->thread_handles);
	if (t->pools) {
		h.pools_at = h.texts_at;
		h.texts_at += t->n_events * sizeof(*t->pools);
	}
	h.file_bytes = gp_align_up(h.texts_at + h.texts_bytes, 8) + sizeof(struct gp_binary_tail);
	h.checksum = gp_binary_checksum(&h);
	return h;
}

static void binary_text(struct gp_output *out, const char *text)
{
	gp_output_short(out, text, strlen(text) + 1);
}

static void binary_zeros(struct gp_output *out, uint64_t n)
{
	static const char zeros[BINARY_EVENTS_ALIGN];

	gp_output_short(out, zeros, (size_t)n);
}

static int binary_write(const struct gp_trace *t, struct gp_output *out)
{
	struct gp_binary_header h = binary_header(t);
	struct gp_binary_tail tail = { .n_events = t->n_events };
	uint64_t end = h.texts_at + h.texts_bytes;

	memcpy(tail.magic, GP_BINARY_END, GP_BINARY_MARK);
	gp_output_bytes(out, &h, sizeof(h));
	binary_zeros(out, h.events_at - sizeof(h));
	gp_output_bytes(out, t->events, t->n_events * sizeof(struct gp_event));
	if (t->addrs)
		gp_output_bytes(out, t->addrs, t->n_events * sizeof(*t->addrs));
	gp_output_bytes(out, t->stream_handles, t->n_streams * sizeof(*t->stream_handles));
	gp_output_bytes(out, t->thread_handles, t->n_threads * sizeof(*t->thread_handles));
	if (t->pools)
		gp_output_bytes(out, t->pools, t->n_events * sizeof(*t->pools));
	binary_text(out, t->name);
	binary_text(out, t->source);
	binary_text(out, t->device_name);
	for (uint32_t i = 0; i < t->n_marks; i++)
		binary_text(out, t->marks[i]);
	for (uint32_t i = 0; i < t->n_notes; i++)
		binary_text(out, t->notes[i]);
	binary_zeros(out, gp_align_up(end, 8) - end);
	gp_output_bytes(out, &tail, sizeof(tail));
	return 0;
}

const struct gp_writer gp_gpupool_binary_writer = {
	.name = "gpupool_binary",
	.summary = "gpupool trace, binary (mapped, not parsed)",
	.ending = ".gpt",
	.ops = GP_OPS_ALL,
	.keeps = GP_KEEP_ALL,
	.write = binary_write,
};
