/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_builder: what the parts of the builder share: trace_builder.c (adding), trace_finish.c (the
 * end) and trace_image.c (a file that is used as it is). Readers see trace.h only.
 */
#ifndef GP_TRACE_BUILDER_H
#define GP_TRACE_BUILDER_H

#include "id_map.h"
#include "trace.h"

#define GP_TRACE_SIZE_MAX    (UINT64_C(1) << 63)
#define GP_TRACE_THREADS_MAX ((uint32_t)UINT16_MAX + 1)
#define GP_TRACE_TEXT_MAX    ((size_t)65535) /* as long as a JSON trace may have it */
#define GP_TRACE_NOTES_MAX   1000u           /* nobody reads more; the rest is dropped */

struct gp_trace_builder {
	struct gp_trace *trace;
	struct gp_trace_options options;
	size_t capacity; /* of events, and of addrs and pools where there are any */
	uint64_t n_seen; /* records offered: "event N" in messages, from 1 */
	uint64_t last_ns;
	struct gp_id_map ids;     /* id of the file -> index of its last ALLOC */
	struct gp_id_map streams; /* stream of the file -> dense */
	struct gp_id_map threads;
	char why[512];
};

/* -ENOMEM, and says so. */
int gp_trace_no_memory(struct gp_trace_builder *b);
/* Room for `n` elements; *p, an array, is unchanged when there is no memory. */
bool gp_trace_resize(void *p, size_t n, size_t element_size);
/* A copy fit to be shown, of at most GP_TRACE_TEXT_MAX bytes. NULL: no memory. */
char *gp_trace_copy_text(const char *s);
/* Put the dense number into the event. 0 or -ENOMEM. */
int gp_trace_set_stream(struct gp_trace_builder *b, struct gp_event *e, uint64_t stream);
int gp_trace_set_thread(struct gp_trace_builder *b, struct gp_event *e, uint64_t thread);

#endif
