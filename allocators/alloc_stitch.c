/* SPDX-License-Identifier: Apache-2.0
 *
 * stitch: holes do not block a request: where none is large enough, several are mapped side by side.
 *
 * Shape        home: fit.h in one mapped range, for blocks of all sizes, so that what a large block
 *              leaves of a page serves small ones. It grows by just what is missing, in physical
 *              handles of at most 64 MiB.
 *              views (stitch_views.c): handles mapped once more, in an order of their own, for
 *              blocks made of several holes; kept for the next such block
 * Choice       a hole at home, the smallest that fits; else growth, as long as what is held stays
 *              within `slack` of the most that was ever granted; else, for a large block, a cached
 *              view, a new one of what is free, or a new one with as much memory as is missing. So
 *              what a block might still need is not bought twice, waste is bounded by `slack` and by
 *              what lies in handles that are free neither wholly nor at an end, and mappings are
 *              few: each costs 22 us, whatever its size.
 * Evidence     allocators/README.md
 * Invariants   those of fit.h and of the views                     -> stitch_check() tests each
 * Cost         alloc, free: as fit.h, but large requests look for the smallest hole of all. A block
 *              in a view: some microseconds, and a mapping a handle where no view serves. None waits
 *              for the device; undoing views does (more than `views` of them, or trim), once for many
 * Waste        internal < 256 bytes a block; external: see Choice
 * Not done     handles are not cut: CUDA maps them whole
 * Threads      one at a time
 */
#include "stitch.h"

#include <errno.h>
#include <inttypes.h>

static struct stitch *stitch_of(const struct gp_allocator *a)
{
	return gp_state(a);
}

/* ---- growth ---- */

/* What to grow by for a block: by what is missing to the hole at the end, if it can go on there; else
 * by all of it. */
struct stitch_growth {
	uint64_t bytes; /* whole pages */
	uint64_t addr;  /* 0: anywhere */
};

static struct stitch_growth stitch_missing(const struct stitch *s, uint64_t size)
{
	const struct gp_pool *p = &s->fit.pool;
	uint64_t end = 0, missing = gp_align_up(size, p->page);
	uint32_t tail = gp_fit_tail(&s->fit, &end);
	const struct gp_range_entry *room = gp_range_set_at(&p->holes, end - p->va.addr);
	uint64_t have = gp_hole_bytes(&s->fit.t.tiles[tail]);

	if (!tail || have >= size || !room || room->size < gp_align_up(size - have, p->page))
		return (struct stitch_growth){ missing, 0 };
	return (struct stitch_growth){ gp_align_up(size - have, p->page), end };
}

/* Gives back the handles in [addr, end), which nobody has used. */
static void stitch_undo(struct stitch *s, uint64_t addr, uint64_t end)
{
	const struct gp_range_entry *e;

	while (addr < end && (e = gp_range_set_at(&s->fit.pool.ranges, addr))) {
		uint64_t size = e->size;

		gp_pool_put(&s->fit.pool, addr);
		addr += size;
	}
}

/* Gets handles for all of [addr, addr + pages), or none. */
static int stitch_get(struct stitch *s, uint64_t addr, uint64_t pages, uint64_t n)
{
	struct gp_pool *p = &s->fit.pool;
	uint64_t at = addr;

	for (uint64_t i = 0; i < n; i++) {
		struct gp_range range;
		int r = gp_pool_get_at(p, at, (pages / n + (i < pages % n)) * p->page, &range);

		if (r) {
			stitch_undo(s, addr, at);
			return r;
		}
		at += range.size;
	}
	return 0;
}

int stitch_add(struct stitch *s, uint64_t addr, uint64_t bytes, uint32_t *out)
{
	struct gp_pool *p = &s->fit.pool;
	uint64_t n = (bytes + s->handle - 1) / s->handle, offset = addr - p->va.addr;
	uint64_t total = p->a->dev->info.total_bytes, end;
	int r;

	if (bytes > total || p->reserved_bytes > total - bytes ||
	    (!addr && !gp_range_set_first_fit(&p->holes, bytes, p->page, &offset)))
		return GP_NOMEM;
	addr = p->va.addr + offset;
	end = addr + bytes;
	r = gp_tiling_room(&s->fit.t, 2 * (uint32_t)n);
	if (!r)
		r = stitch_get(s, addr, bytes / p->page, n);
	while (!r && addr < end) {
		const struct gp_range_entry *e = gp_range_set_at(&p->ranges, addr);

		gp_fit_add(&s->fit, (struct gp_range){ e->addr, e->size }, out);
		addr += e->size;
	}
	return r;
}

/* Most that may be held without need. */
static uint64_t stitch_limit(const struct stitch *s, uint64_t units)
{
	uint64_t most = gp_max_u64(s->peak_units, s->fit.granted_units + units) << GP_TILE_LG_UNIT;

	return most + gp_max_u64((uint64_t)(s->slack * (double)most), s->slack_min);
}

/* ---- large blocks ---- */

/* The smallest hole, before and after what is quick is joined; GP_TILE_NIL: none. */
static int stitch_find(struct gp_fit *f, uint32_t units, uint32_t *n)
{
	int r = 0;

	*n = gp_size_bins_find_best(&f->bins, GP_FIT_MAIN, &f->t, units);
	if (!*n) {
		r = gp_fit_flush(f);
		*n = gp_size_bins_find_best(&f->bins, GP_FIT_MAIN, &f->t, units);
	}
	return r;
}

/* No hole has the block: grows, or makes it of several holes. *n: the hole it is to be cut from;
 * GP_TILE_NIL: it is made, and in *out. */
static int stitch_more(struct stitch *s, uint32_t units, uint32_t stream, uint32_t *n,
		       struct gp_block *out)
{
	uint64_t size = (uint64_t)units << GP_TILE_LG_UNIT;
	struct stitch_growth g = stitch_missing(s, size);
	bool tight = s->fit.pool.reserved_bytes + g.bytes > stitch_limit(s, units);
	int r = tight ? stitch_together(s, units, stream, GP_ALIGN, out) : GP_NOMEM;

	*n = GP_TILE_NIL;
	if (r <= 0)
		return r;
	g = stitch_missing(s, size);
	r = stitch_add(s, g.addr, g.bytes, n);
	if (r <= 0)
		return r;
	*n = GP_TILE_NIL;
	return tight ? r : stitch_together(s, units, stream, GP_ALIGN, out);
}

static GP_NOINLINE int stitch_alloc_large(struct stitch *s, const struct gp_request *req,
					  struct gp_block *out)
{
	uint64_t units = (req->size + GP_ALIGN - 1) >> GP_TILE_LG_UNIT;
	uint32_t stream = req->stream & s->fit.stream_mask, n;
	struct gp_fit *f = &s->fit;
	struct gp_block block;
	int r = units > UINT32_MAX ? GP_NOMEM : gp_fit_know(f, stream);

	if (!r)
		r = stitch_find(f, (uint32_t)units, &n);
	if (!r && !n)
		r = stitch_more(s, (uint32_t)units, stream, &n, &block);
	if (!r && n) {
		r = gp_fit_wait(f, n, stream);
		if (!r)
			r = gp_tiling_room(&f->t, 1);
	}
	if (r)
		return r;
	if (n)
		gp_fit_hand_out(f, n, (uint32_t)units, stream, out);
	else
		*out = block;
	return 0;
}

/* ---- hooks ---- */

/* No memory, and nothing to give back that is empty: several holes may do. */
static GP_NOINLINE int stitch_alloc_short(struct stitch *s, const struct gp_request *req,
					  struct gp_block *out)
{
	uint64_t units = (req->size + GP_ALIGN - 1) >> GP_TILE_LG_UNIT;
	uint64_t align = UINT64_C(1) << gp_min_u64(req->lg_align, 63);

	if (units > UINT32_MAX)
		return GP_NOMEM;
	return stitch_together(s, (uint32_t)units, req->stream & s->fit.stream_mask,
			       gp_max_u64(align, GP_ALIGN), out);
}

static int stitch_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct stitch *s = stitch_of(a);
	int r;

	if (GP_UNLIKELY(req->size >= s->large && req->lg_align <= GP_TILE_LG_UNIT)) {
		r = stitch_alloc_large(s, req, out);
	} else {
		r = gp_fit_alloc(&s->fit, req, out);
		if (GP_UNLIKELY(r == GP_NOMEM))
			r = stitch_alloc_short(s, req, out);
	}
	if (s->fit.granted_units > s->peak_units)
		s->peak_units = s->fit.granted_units;
	return r;
}

/* No block at home starts here: it may be one of a view. */
static GP_NOINLINE int stitch_free_elsewhere(struct stitch *s, uint64_t addr)
{
	int r = stitch_free_view(s, addr);

	return r == -EINVAL ? gp_tiling_refuse(&s->fit.t, addr) : r;
}

static int stitch_free(struct gp_allocator *a, uint64_t addr)
{
	struct stitch *s = stitch_of(a);
	uint32_t slot, n = gp_fit_find(&s->fit, addr, &slot);

	return GP_LIKELY(n) ? gp_fit_free(&s->fit, n, slot, addr) : stitch_free_elsewhere(s, addr);
}

/* Memory is about to go back to the device: undo what maps it a second time. */
static int stitch_idle(struct gp_fit *f)
{
	return stitch_shed(stitch_of(f->pool.a));
}

static void stitch_fini(struct gp_allocator *a)
{
	struct stitch *s = stitch_of(a);

	if (s->views_at.n)
		gp_device_sync(a->dev);
	stitch_views_fini(s, a->dev);
	gp_fit_fini(a);
}

static int stitch_init(struct gp_allocator *a)
{
	struct stitch *s = stitch_of(a);
	int r;

	if (!a->dev->info.vmm)
		return gp_allocator_why(a, -ENOTSUP, "this device maps no memory");
	s->handle = gp_align_up(s->handle, a->dev->info.page_bytes);
	s->fit.classes = 32;
	s->fit.coalesce = true;
	s->fit.idle = stitch_idle;
	s->fit.pool.opt.grow = GP_GROW_VMM;
	s->fit.pool.opt.chunk = a->dev->info.page_bytes; /* no more than is needed */
	r = gp_fit_init(a);
	if (r)
		return r;
	r = stitch_views_init(s, a->dev);
	if (r)
		stitch_fini(a);
	return r;
}

static int stitch_check(const struct gp_allocator *a, FILE *why)
{
	const struct stitch *s = stitch_of(a);
	uint64_t in_views = 0, in_parts = 0;
	int r = gp_fit_check(a, why);

	if (!r)
		r = stitch_check_views(s, &in_views, why);
	for (uint32_t n = 1; n < s->fit.t.n; n++)
		if (s->fit.t.tiles[n].state == GP_TILE_PART)
			in_parts += s->fit.t.tiles[n].units;
	if (r || (in_views == in_parts && s->fit.granted_units <= s->peak_units))
		return r;
	fprintf(why, "stitch: %" PRIu64 " units in views, %" PRIu64 " in parts of blocks\n",
		in_views, in_parts);
	return -EILSEQ;
}

static const struct gp_option stitch_options[] = {
	{ .name = "slack",
	  .help = "share of the most ever granted to hold beside it before blocks are stitched",
	  .type = GP_OPTION_FRACTION,
	  .offset = offsetof(struct stitch, slack),
	  .default_text = "0.02" },
	/* In a small heap a share is less than a page, and everything would be stitched. */
	{ .name = "slack_min",
	  .help = "and at least this much",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct stitch, slack_min),
	  .default_text = "16M",
	  .max = GP_SIZE_MAX },
	{ .name = "large",
	  .help = "smallest block that is stitched rather than grown for",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct stitch, large),
	  .default_text = "8M",
	  .min = GP_MIB,
	  .max = GP_SIZE_MAX },
	{ .name = "handle",
	  .help = "largest piece of physical memory",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct stitch, handle),
	  .default_text = "64M",
	  .min = 2 * GP_MIB,
	  .max = 1024 * GP_GIB },
	{ .name = "views",
	  .help = "stitched ranges that stay mapped",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct stitch, max_views),
	  .default_text = "256",
	  .min = 1,
	  .max = 65536 },
	{ .name = "quick",
	  .help = "largest block in chunks apart, kept whole for the next of its size (0: none)",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct stitch, fit.quick),
	  .default_text = "64K",
	  .max = GP_ALIGN * GP_QUICK_UNITS },
	{ .name = "streams",
	  .help = "ignore: reuse across streams at once (shows what the rule costs)",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct stitch, fit.pool.opt.streams),
	  .default_text = "rule",
	  .choices = gp_stream_rule_choices },
	{ .name = NULL },
};

const struct gp_allocator_ops gp_stitch_ops = {
	.name = "stitch",
	.summary = "large blocks made of several holes, mapped side by side; else as segregated",
	.caps = GP_CAP_ANY_SIZE | GP_CAP_COALESCES | GP_CAP_ARENAS | GP_CAP_STITCHES,
	.state_size = sizeof(struct stitch),
	.options = stitch_options,
	.init = stitch_init,
	.fini = stitch_fini,
	.alloc = stitch_alloc,
	.free = stitch_free,
	.usage = gp_fit_usage,
	.check = stitch_check,
	.trim = gp_fit_trim,
	.walk = gp_fit_walk,
};
