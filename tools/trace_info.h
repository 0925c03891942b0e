/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_info: what gpupool-trace info counts (trace_info.c) and prints, as text (trace_info_text.c)
 * or as JSON (trace_info_json.c).
 */
#ifndef GP_TRACE_INFO_H
#define GP_TRACE_INFO_H

#include "replay/trace.h"

#define INFO_WINDOWS 60u /* of the curve: it fits a line */
#define INFO_LG      65u /* classes [0], [1], [2, 4), [4, 8), ... of a 64-bit number */

/* Blocks of one size. */
struct info_size {
	uint64_t size, count;
};

struct info_sizes {
	struct info_size *items; /* the most frequent first; of equals the larger */
	uint32_t n;
	uint64_t count, bytes;
};

struct info_stream {
	uint64_t n_allocs, bytes; /* requested in all */
};

struct trace_info {
	const struct gp_trace *t;
	uint64_t n_ops[GP_OP_N];
	uint64_t duration_ns;
	uint64_t requested_bytes, live_bytes; /* in all; at the end */
	uint64_t curve[INFO_WINDOWS];         /* most bytes live in each part of the events */
	unsigned n_windows;
	struct info_sizes sizes, kept; /* of all allocations; of those that are never freed */
	/* Allocations by size, and ended ones by lifetime: class 0 is 0, class k is [2^(k-1), 2^k).
	 */
	uint64_t by_size[INFO_LG], by_events[INFO_LG], by_time[INFO_LG];
	struct info_stream *streams;  /* [t->n_streams] */
	uint64_t *threads;            /* [t->n_threads]: calls */
	uint64_t recorded_peak_bytes; /* what the recorded allocator held at most */
};

/* 0 or -ENOMEM. Call trace_info_fini either way. */
int trace_info_count(struct trace_info *info, const struct gp_trace *t);
void trace_info_fini(struct trace_info *info);

/* On standard output. */
void trace_info_text(const struct trace_info *info);
/* 0 or -errno with one line in `why`. */
int trace_info_json(const struct trace_info *info, char *why, size_t why_size);

#endif
