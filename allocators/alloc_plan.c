/* SPDX-License-Identifier: Apache-2.0
 *
 * plan: puts every block where a plan made from the whole trace says (gp_env.placement). No program
 * could use it, since none knows its future; it shows what an allocator could have reached at best.
 *
 *   device   | one reservation, as high as the plan                       |
 *   request  0   1        2     ...  the k-th request gets the k-th offset
 *
 * Shape        live      the blocks that are handed out, with their streams
 *              left      what freed blocks have left in memory, with the stream that freed it. What
 *                        another stream takes is waited for, as in every other pool.
 * Invariants   1. `live` and `left` are disjoint
 *              2. requests come in the order of the plan, none of them is left out
 * Cost         a few binary searches a call; it is not meant to be fast
 * Waste        none of its own: sizes rounded up to 256 bytes
 * Threads      one: the order of the requests is the plan's
 */
#include <errno.h>

#include "allocator.h"
#include "range_set.h"
#include "streams.h"

struct plan {
	struct gp_range_set live; /* tag: the stream */
	struct gp_range_set left; /* tag: the stream */
	struct gp_streams streams;
	const struct gp_placement *placement;
	uint64_t base;
	uint32_t next; /* request */
};

static int plan_init(struct gp_allocator *a)
{
	struct plan *p = gp_state(a);
	int r;

	p->placement = a->env.placement;
	if (!p->placement)
		return gp_allocator_why(a, -EINVAL,
					"needs the whole trace beforehand: for replays");
	if (p->placement->height) {
		r = gp_device_reserve(a->dev, p->placement->height, &p->base);
		if (r)
			return gp_allocator_why(a, r, "a plan of %llu bytes: %s",
						(unsigned long long)p->placement->height,
						gp_result_text(r));
	}
	gp_range_set_init(&p->live);
	gp_range_set_init(&p->left);
	gp_streams_init(&p->streams, a->dev);
	return 0;
}

static void plan_fini(struct gp_allocator *a)
{
	struct plan *p = gp_state(a);

	if (p->base)
		gp_device_release(a->dev, p->base);
	gp_range_set_fini(&p->live);
	gp_range_set_fini(&p->left);
	gp_streams_fini(&p->streams);
}

/* The part of [addr, end) that was left first, or false. */
static bool plan_left_in(const struct plan *p, uint64_t addr, uint64_t end,
			 struct gp_range_entry *out)
{
	const struct gp_range_entry *e = gp_range_set_containing(&p->left, addr);

	if (!e)
		e = gp_range_set_ceiling(&p->left, addr);
	if (!e || e->addr >= end)
		return false;
	out->addr = gp_max_u64(e->addr, addr);
	out->size = gp_min_u64(e->addr + e->size, end) - out->addr;
	out->tag = e->tag;
	return true;
}

/* Takes over what other blocks have left there. */
static int plan_take(struct plan *p, uint64_t addr, uint64_t size, uint32_t stream)
{
	struct gp_range_entry e;
	int r = 0;

	while (!r && plan_left_in(p, addr, addr + size, &e)) {
		if (e.tag != stream)
			r = gp_streams_wait(&p->streams, (uint32_t)e.tag, stream);
		if (!r)
			r = gp_range_set_carve(&p->left, e.addr, e.size);
	}
	return r;
}

static int plan_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct plan *p = gp_state(a);
	uint64_t size = gp_align_up(req->size, GP_ALIGN), addr;
	int r;

	if (p->next >= p->placement->n || p->placement->sizes[p->next] != size)
		return gp_allocator_why(a, -EINVAL, "request %u is not the plan's", p->next);
	addr = p->base + p->placement->offsets[p->next];
	if (req->lg_align > 8 && addr & ((UINT64_C(1) << req->lg_align) - 1))
		return GP_REFUSED; /* more than the device aligns its reservations to */
	r = gp_streams_know(&p->streams, req->stream);
	if (!r)
		r = plan_take(p, addr, size, req->stream);
	if (!r)
		r = gp_range_set_insert(&p->live, addr, size, req->stream);
	if (r)
		return r;
	p->next++;
	*out = (struct gp_block){ addr, size };
	return 0;
}

static int plan_free(struct gp_allocator *a, uint64_t addr)
{
	struct plan *p = gp_state(a);
	struct gp_range_entry e;
	const struct gp_range_entry *found = gp_range_set_at(&p->live, addr);
	int r;

	if (!found)
		return gp_range_set_containing(&p->left, addr) ? -EALREADY : -EINVAL;
	e = *found;
	r = gp_range_set_insert_merge(&p->left, e.addr, e.size, e.tag);
	if (r)
		return r;
	gp_streams_freed(&p->streams, (uint32_t)e.tag);
	return gp_range_set_remove(&p->live, addr, NULL);
}

static void plan_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct plan *p = gp_state(a);

	*out = (struct gp_usage){
		.live_blocks = p->live.n,
		.granted_bytes = p->live.bytes,
		.reserved_bytes = p->base ? p->placement->height : 0,
		.event_waits = p->streams.waits,
	};
}

const struct gp_allocator_ops gp_plan_ops = {
	.name = "plan",
	.summary = "every block where a plan of the whole trace puts it: the best one could do",
	.caps = GP_CAP_OFFLINE,
	.state_size = sizeof(struct plan),
	.init = plan_init,
	.fini = plan_fini,
	.alloc = plan_alloc,
	.free = plan_free,
	.usage = plan_usage,
};
