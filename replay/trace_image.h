/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_image: a file that holds a trace's arrays as memory does becomes a trace without being
 * parsed: the arrays stay where they are, and one pass makes sure of every rule.
 */
#ifndef GP_TRACE_IMAGE_H
#define GP_TRACE_IMAGE_H

#include "trace.h"

/* All pointers lead into the map, aligned for their type. */
struct gp_trace_image {
	void *map;        /* never NULL */
	size_t map_bytes; /* as in struct gp_trace */
	const struct gp_event *events;
	size_t n_events;
	const uint64_t *addrs; /* [n_events], or NULL */
	const uint8_t *pools;  /* the same */
	const uint64_t *stream_handles, *thread_handles;
	uint32_t n_streams, n_threads;
	const char *marks, *notes; /* so many texts, each with its final NUL */
	uint32_t n_marks, n_notes;
};

/* To be called once, on a builder to which no event was added; the map belongs to the builder from
 * then on, whatever the result. 0, -EINVAL (why() says which event breaks which rule), -ENOMEM. */
int gp_trace_builder_adopt(struct gp_trace_builder *b, const struct gp_trace_image *image);

#endif
