/* SPDX-License-Identifier: Apache-2.0
 *
 * skeleton: a small complete allocator to start from. Not registered; the tests compile it and hold
 * it to the same contract as the others. Copy it to alloc_NAME.c, rename, replace the policy, and
 * add NAME to allocator_names in meson.build: nothing else.
 *
 * Shape        one device reservation per block, and one spare: the block freed last, if it is not
 *              larger than `keep`, waits for a request that it fits
 *
 *                live   | 0x..000 size stream | 0x..400 size stream | ...    by address
 *                spare  | 0x..800 size stream |
 *
 * Invariants   1. no block is live and spare at once   2. reserved = live + spare
 *              -> skeleton_check() tests each
 * Cost         alloc, free: a device call on a miss, else a search among the live blocks
 * Waste        a block from the spare may be twice as large as asked for
 * Not done     more than one spare; alignment beyond that of the device
 * Threads      one at a time; the core puts `threads` on top for more
 */
#include "allocator.h"
#include "range_set.h"
#include "streams.h"

#include <errno.h>
#include <inttypes.h>

/* The state. The core zeroes it and writes the options into it before init. */
struct skeleton {
	uint64_t keep; /* option */

	struct gp_range_set live;    /* tag: the stream it was asked for on */
	struct gp_range_entry spare; /* size 0: none */
	struct gp_streams streams;
};

static int skeleton_init(struct gp_allocator *a)
{
	struct skeleton *s = gp_state(a);

	/* What no size can satisfy is refused here, in words for the user. */
	if (s->keep && s->keep < GP_ALIGN)
		return gp_allocator_why(a, -EINVAL,
					"keep=%" PRIu64 ": expected 0, or at least %" PRIu64,
					s->keep, GP_ALIGN);
	gp_range_set_init(&s->live);
	gp_streams_init(&s->streams, a->dev);
	return 0;
}

/* Gives the spare back. GP_NOMEM never comes from here, faults of the device do. */
static int skeleton_drop_spare(struct gp_allocator *a)
{
	struct skeleton *s = gp_state(a);
	uint64_t addr = s->spare.addr;

	if (!s->spare.size)
		return 0;
	s->spare = (struct gp_range_entry){ 0 };
	return gp_device_release(a->dev, addr);
}

static int skeleton_release(void *arg, const struct gp_range_entry *e)
{
	gp_device_release(arg, e->addr);
	return 0;
}

static void skeleton_fini(struct gp_allocator *a)
{
	struct skeleton *s = gp_state(a);

	skeleton_drop_spare(a);
	gp_range_set_each(&s->live, skeleton_release, a->dev);
	gp_range_set_fini(&s->live);
	gp_streams_fini(&s->streams);
}

/* From the device; out of memory counts only without a spare. */
static int skeleton_reserve(struct gp_allocator *a, uint64_t size, uint64_t *addr)
{
	struct skeleton *s = gp_state(a);
	int r = gp_device_reserve(a->dev, size, addr);

	if (r != GP_NOMEM || !s->spare.size)
		return r;
	r = skeleton_drop_spare(a);
	return r ? r : gp_device_reserve(a->dev, size, addr);
}

static int skeleton_alloc(struct gp_allocator *a, const struct gp_request *req,
			  struct gp_block *out)
{
	struct skeleton *s = gp_state(a);
	uint64_t size = gp_align_up(req->size, GP_ALIGN), addr;
	int r = gp_streams_know(&s->streams, req->stream);

	if (r)
		return r;
	/* An outcome, not a fault: this policy has no answer to such a request. */
	if (req->lg_align > gp_floor_log2(GP_ALIGN))
		return GP_REFUSED;

	if (s->spare.size >= size && s->spare.size / 2 <= size) {
		/* Memory changes streams: the taking one must wait for the freeing one. */
		r = gp_streams_wait(&s->streams, (uint32_t)s->spare.tag, req->stream);
		if (!r)
			r = gp_range_set_insert(&s->live, s->spare.addr, s->spare.size,
						req->stream);
		if (r)
			return r;
		*out = (struct gp_block){ s->spare.addr, s->spare.size };
		s->spare = (struct gp_range_entry){ 0 };
		return 0;
	}

	r = skeleton_reserve(a, size, &addr);
	if (r)
		return r;
	r = gp_range_set_insert(&s->live, addr, size, req->stream);
	if (r) {
		gp_device_release(a->dev, addr);
		return r;
	}
	*out = (struct gp_block){ addr, size };
	return 0;
}

static int skeleton_free(struct gp_allocator *a, uint64_t addr)
{
	struct skeleton *s = gp_state(a);
	struct gp_range_entry e;

	if (gp_range_set_remove(&s->live, addr, &e))
		return s->spare.size && s->spare.addr == addr ? -EALREADY : -EINVAL;
	gp_streams_freed(&s->streams, (uint32_t)e.tag);
	/* The device waits for its queues in a release, so no stream can still use the block. */
	if (e.size > s->keep)
		return gp_device_release(a->dev, addr);
	struct gp_range_entry old = s->spare;

	s->spare = e;
	return old.size ? gp_device_release(a->dev, old.addr) : 0;
}

static void skeleton_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct skeleton *s = gp_state(a);

	*out = (struct gp_usage){ .live_blocks = s->live.n,
				  .granted_bytes = s->live.bytes,
				  .reserved_bytes = s->live.bytes + s->spare.size,
				  .event_waits = s->streams.waits };
}

static int skeleton_check(const struct gp_allocator *a, FILE *why)
{
	const struct skeleton *s = gp_state(a);
	const struct gp_range_entry *e;

	if (!s->spare.size)
		return 0;
	e = gp_range_set_floor(&s->live, s->spare.addr + s->spare.size - 1);
	if (!e || e->addr + e->size <= s->spare.addr)
		return 0;
	fprintf(why, "skeleton: the spare 0x%" PRIx64 " is live\n", s->spare.addr);
	return -EILSEQ;
}

static int skeleton_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct skeleton *s = gp_state(a);
	uint64_t size = s->spare.size;
	int r;

	if (s->live.bytes + size <= keep)
		return 0;
	r = skeleton_drop_spare(a);
	if (!r)
		*released += size;
	return r;
}

struct skeleton_walk {
	gp_walk_fn *fn;
	void *arg;
};

static int skeleton_walk_live(void *arg, const struct gp_range_entry *e)
{
	const struct skeleton_walk *w = arg;

	return w->fn(w->arg, (struct gp_range){ e->addr, e->size }, true);
}

static int skeleton_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	const struct skeleton *s = gp_state(a);
	struct skeleton_walk w = { fn, arg };
	int r = gp_range_set_each(&s->live, skeleton_walk_live, &w);

	if (!r && s->spare.size)
		r = fn(arg, (struct gp_range){ s->spare.addr, s->spare.size }, false);
	return r;
}

static const struct gp_option skeleton_options[] = {
	{ .name = "keep",
	  .help = "largest block that is kept when it is freed (0: none)",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct skeleton, keep),
	  .default_text = "64MiB",
	  .max = GP_SIZE_MAX },
	{ 0 },
};

/* The one symbol that the file exports. */
const struct gp_allocator_ops gp_skeleton_ops = {
	.name = "skeleton",
	.summary = "an example to start from: one spare block before the device",
	.caps = GP_CAP_ANY_SIZE | GP_CAP_COALESCES | GP_CAP_ARENAS,
	.state_size = sizeof(struct skeleton),
	.options = skeleton_options,
	.init = skeleton_init,
	.fini = skeleton_fini,
	.alloc = skeleton_alloc,
	.free = skeleton_free,
	.usage = skeleton_usage,
	.check = skeleton_check,
	.trim = skeleton_trim,
	.walk = skeleton_walk,
};
