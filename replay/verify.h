/* SPDX-License-Identifier: Apache-2.0
 *
 * verify: holds a model of the recorded allocator against the recording: the address of each
 * allocation, and each segment_alloc, segment_free, segment_map, segment_unmap and oom.
 *
 * The model runs on the recorded addresses of segments (recorded_device.h) and is told of the end of
 * a deferred free when the recording was. What a recording leaves open is inferred:
 *
 *   torch.cuda.empty_cache()   segments given back although no memory limit is set, or not in front
 *                              of an allocation
 *   ends of deferred frees in the middle of an allocation   those recorded behind a segment given
 *                              back, and those that would have served the request had they come
 *                              first: they are left to the model's own flush, in recorded order
 */
#ifndef GP_VERIFY_H
#define GP_VERIFY_H

#include "allocators/device/device.h"
#include "trace.h"

struct gp_verify {
	uint64_t compared, matched;
	bool diverged;
	uint64_t first_event; /* index in the trace of the first that differs */
	char first[512];      /* what differs there, and the state around it, for people */
};

/* Replays on "torch" or "torch:key=value,...". total_bytes: memory of the card; 0: as recorded. 0,
 * or -errno with one line in `why` (-EINVAL: no such model, no recorded addresses). */
int gp_verify_recording(const struct gp_trace *trace, const char *spec, uint64_t total_bytes,
			struct gp_verify *out, char *why, size_t why_size);

#endif
