/* SPDX-License-Identifier: Apache-2.0
 *
 * torch: what the model of PyTorch's caching allocator (alloc_torch.c) tells beyond the common
 * interface. The functions take the allocator as gp_allocator_create gave it, decorators included;
 * false: it is another one.
 */
#ifndef GP_TORCH_H
#define GP_TORCH_H

#include "../allocator.h"

/* As torch.cuda.memory_stats counts. Mapping into an expandable segment counts one for each
 * step (each segment_map event of a recording), whatever the pages. */
struct gp_torch_stats {
	uint64_t num_alloc_retries; /* requests that only a flush of the caches let through */
	uint64_t num_ooms;          /* requests refused in the end */
	uint64_t num_device_alloc, num_device_free;
	uint64_t num_sync_all_streams; /* flushes, each of which waits for all pending frees */
	uint64_t num_gc;               /* collections that freed something */
	uint64_t segments;             /* ordinary ones that it holds */
	uint64_t pending_blocks, pending_bytes; /* freed, but in use on other streams */
};

bool gp_torch_stats(const struct gp_allocator *a, struct gp_torch_stats *out);

/* What a recording calls segment_alloc, segment_free, segment_map, segment_unmap and oom, in the
 * order in which PyTorch would record them. An oom carries the rounded size and no address. */
enum gp_torch_event {
	GP_TORCH_SEGMENT_ALLOC,
	GP_TORCH_SEGMENT_FREE,
	GP_TORCH_SEGMENT_MAP,
	GP_TORCH_SEGMENT_UNMAP,
	GP_TORCH_OOM,
};

typedef void gp_torch_observer(void *arg, enum gp_torch_event what, struct gp_range range,
			       uint32_t stream);

/* One observer at a time; NULL ends it. It must not call the allocator. */
bool gp_torch_observe(struct gp_allocator *a, gp_torch_observer *fn, void *arg);

/* The last graph or MemPool that used a private pool is gone: from now on a flush gives back what
 * is free in it. A request in the pool takes this back. */
bool gp_torch_release_pool(struct gp_allocator *a, uint8_t pool);

/* Is there a memory limit? Without one, nothing but the device's own lack makes it give memory
 * back. */
bool gp_torch_is_limited(const struct gp_allocator *a);

/* What a request of that many bytes is rounded to, and the segment that it would need. */
bool gp_torch_sizes(const struct gp_allocator *a, uint64_t size, uint64_t *rounded,
		    uint64_t *segment);
/* How large the free block would be that completing (or freeing) this block makes: with the free
 * neighbours it joins. 0: no such block. Tells a verifier which ends of deferred frees a request
 * cannot have seen. */
uint64_t gp_torch_freed_size(const struct gp_allocator *a, uint64_t addr);

/* What is free on one stream in one pool. */
struct gp_torch_lane {
	uint32_t stream;
	uint8_t pool; /* 0; else the private pool */
	bool large;   /* for requests above 1 MiB */
	uint64_t free_blocks, free_bytes, largest_bytes;
};

/* The i-th of them, which are numbered from 0; false: there are no more. */
bool gp_torch_lane_at(const struct gp_allocator *a, size_t i, struct gp_torch_lane *out);

#endif
