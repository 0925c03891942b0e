/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_state: what the files of the model of PyTorch's caching allocator share.
 *
 *   alloc_torch.c    sizes, lookup, splitting, the steps of an allocation, freeing; the hooks
 *   torch_block.h    blocks: cut, joined, found by address; torch_order.h: in order of size
 *   torch_lane.c     the sets of free blocks
 *   torch_segment.c  taking memory from the device: segments, expandable ones
 *   torch_release.c  giving it back: collection, oversize blocks, the flush; deferred frees
 *   torch_option.c   settings
 *   torch_audit.c    the audit and the heap map
 *
 * A lane is the free memory of one stream in one pool. There is a pair of pools, small and large,
 * for the program and for each private pool; pools[2 * pool + kind].
 */
#ifndef GP_TORCH_STATE_H
#define GP_TORCH_STATE_H

#include "torch_order.h"
#include "torch.h"

#define TORCH_MIN_BLOCK    UINT64_C(512)   /* kMinBlockSize */
#define TORCH_SMALL_SIZE   (1 * GP_MIB)    /* kSmallSize: up to it, the small pool */
#define TORCH_SMALL_BUFFER (2 * GP_MIB)    /* kSmallBuffer: segment of the small pool */
#define TORCH_MIN_LARGE    (10 * GP_MIB)   /* kMinLargeAlloc: below it, a shared segment */
#define TORCH_ROUND_LARGE  (2 * GP_MIB)    /* kRoundLarge: granularity of large segments */
#define TORCH_DIVISIONS    16              /* kRoundUpPowerOfTwoIntervals: 1 MiB .. 32 GiB */
#define TORCH_RANGE_MAX    (2047 * GP_GIB) /* of an expandable segment: a block is < 2 TiB */

enum torch_kind {
	TORCH_SMALL,
	TORCH_LARGE,
	TORCH_KINDS,
};

struct torch_lane {
	struct torch_order free;
	uint32_t holes; /* the first, by address */
	uint32_t stream;
	uint16_t pool, number; /* index in pools; in lanes */
};

struct torch_pool {
	struct torch_lane **lanes; /* [stream]; NULL: never used */
	uint32_t n_lanes;
	uint32_t calls; /* lookups, while collection is armed */
	bool freeable;  /* private, and nobody uses it any more */
};

/* An expandable segment: its addresses, and a handle for each page that is mapped. */
struct torch_range {
	struct gp_range va;
	uint64_t page;
	uint64_t *handles; /* 0: not mapped; else handle + 1 */
};

/* A deferred free, in a ring through entry 0 in the order of the calls. */
struct torch_pending {
	uint32_t block, ticket;
	uint32_t prev, next; /* next also chains unused entries */
};

struct torch_options {
	uint64_t max_split_size_mb, max_non_split_rounding_mb, large_segment_size_mb;
	char divisions[GP_OPTION_TEXT_MAX], version[GP_OPTION_TEXT_MAX];
	double gc_threshold, memory_fraction;
	uint64_t limit;
	bool expandable, lookup_after_flush;
};

struct torch {
	struct torch_options opt;
	/* What they mean in bytes. */
	uint64_t max_split, max_non_split_rounding, large_segment;
	uint64_t limit;      /* UINT64_MAX: none */
	uint64_t gc_trigger; /* bytes reserved; UINT64_MAX: collection is not armed */
	uint32_t division_of[TORCH_DIVISIONS];

	struct torch_blocks b;
	struct torch_pool *pools;
	struct torch_lane **lanes;
	uint32_t n_pools, n_lanes;
	struct torch_range *ranges;
	uint32_t n_ranges;
	struct torch_pending *pending;
	uint32_t n_pending, unused_pending; /* entries made; first unused one */
	uint64_t reserved_bytes, live_blocks, granted_bytes;
	struct gp_torch_stats stats;
	gp_torch_observer *observer;
	void *observer_arg;
};

/* A request, as the steps of an allocation see it. */
struct torch_want {
	struct torch_lane *lane;
	uint64_t size;         /* rounded */
	uint64_t segment_size; /* of a new segment for it */
};

/* ---- torch_lane.c ---- */

static inline struct torch_block *torch_at(const struct torch *s, uint32_t n)
{
	return &s->b.at[n];
}

/* What a block of that size has at least; for a size above all, what no block has. */
static inline uint32_t torch_units(uint64_t size)
{
	return (uint32_t)gp_min_u64(size >> TORCH_LG_UNIT, UINT32_MAX);
}

static inline struct torch_lane *torch_lane_of(const struct torch *s, const struct torch_block *b)
{
	return s->lanes[b->lane];
}

static inline bool torch_is_large(const struct torch_lane *lane)
{
	return lane->pool % TORCH_KINDS == TORCH_LARGE;
}

static inline bool torch_gc_armed(const struct torch *s)
{
	return s->gc_trigger != UINT64_MAX;
}

static inline void torch_tell(const struct torch *s, enum gp_torch_event what,
			      struct gp_range range, uint32_t stream)
{
	if (s->observer)
		s->observer(s->observer_arg, what, range, stream);
}

/* The lane of a stream in a pool, made where it is missing. 0, -E2BIG, -ENOMEM. */
int torch_lane_at(struct torch *s, uint32_t pool, uint32_t stream, struct torch_lane **out);
/* A block that is in no set joins the free ones of its lane, or the holes. Cannot fail. */
void torch_put(struct torch *s, uint32_t n, enum torch_state state);
void torch_take(struct torch *s, uint32_t n);
/* Cuts the first bytes off a block that is in no set; returns them as a block, in none either. Room
 * for a block is there. */
static inline uint32_t torch_cut(struct torch *s, uint32_t n, uint64_t bytes)
{
	return torch_block_cut(&s->b, n, torch_units(bytes));
}

/* The same, after it has taken in its neighbours of that state. */
void torch_join(struct torch *s, uint32_t n, enum torch_state state);
/* A free ordinary segment in one piece. */
bool torch_is_segment(const struct torch *s, uint32_t n);
/* Lookups of its pool since such a segment was freed. */
uint32_t torch_age(const struct torch *s, uint32_t n);

/* ---- torch_segment.c ---- */

/* alloc_block: memory for the request, in no set. 0, GP_NOMEM, -errno. */
int torch_grow(struct gp_allocator *a, const struct torch_want *w, uint32_t *out);
/* release_block, of a free segment. The block is gone unless it fails. */
int torch_release_segment(struct gp_allocator *a, uint32_t n, uint64_t *released);
/* unmap_block: the whole pages inside a free block of an expandable segment, and that too when
 * nothing else is left of it. */
int torch_unmap(struct gp_allocator *a, uint32_t n, uint64_t *released);
void torch_segments_fini(struct gp_allocator *a);

/* ---- torch_release.c ---- */

int torch_collect(struct gp_allocator *a);
/* release_available_cached_blocks. 0: enough may be there now; GP_NOMEM; -errno. */
int torch_release_available(struct gp_allocator *a, const struct torch_want *w);
/* release_cached_blocks, as long as more than `keep` bytes are reserved. */
int torch_flush(struct gp_allocator *a, uint64_t keep, uint64_t *released);
int torch_defer(struct gp_allocator *a, uint64_t addr, uint32_t ticket);
int torch_complete(struct gp_allocator *a, uint64_t addr, uint32_t ticket);

/* ---- alloc_torch.c ---- */

extern const struct gp_allocator_ops gp_torch_ops;

/* The live block of an address that is about to be freed; 0 or what gp_allocator_ops.free says. */
int torch_live(const struct torch *s, uint64_t addr, uint32_t *n);
/* free_block: the last use of a block is over. */
void torch_free_block(struct torch *s, uint32_t n);

/* ---- torch_option.c ---- */

extern const struct gp_option torch_option_table[];
/* Works out what the options mean. 0, or -EINVAL with the reason in a->why. */
int torch_configure(struct gp_allocator *a);
/* roundup_power2_divisions, as a number or a list. NULL, or what is wrong with it. */
const char *torch_parse_divisions(const char *text, bool overwrites_last,
				  uint32_t divisions[TORCH_DIVISIONS]);

/* ---- torch_audit.c ---- */

int torch_check(const struct gp_allocator *a, FILE *why);
int torch_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg);

#endif
