/* SPDX-License-Identifier: Apache-2.0
 *
 * pool: the growth policies of pool.h.
 *
 *   vmm       va    |mapped|mapped|      hole      |mapped|             hole              |
 *             One mapping with one physical handle for each get: a mapping can only be undone
 *             whole, and making one costs about 50 us whatever its size. A get takes the lowest
 *             hole that fits, so that what is mapped stays together.
 *   chunk     one reservation for each get
 *   prealloc  one reservation at init, handed out by the first get
 *   tier      one block of the parent for each get
 *
 * Invariants  ranges and holes are disjoint, and under vmm they tile va; reserved_bytes is the
 *             sum of ranges.
 * Cost        off the hot path: a few binary searches beside one or more driver calls.
 */
#include "pool.h"

/* Growth by a 128th of what is held: at most 1 % more than needed (a 32nd cost 3 to 5 % on the
 * recordings, and saved a third of the calls), and some hundred driver calls from nothing to a whole
 * card. Above 64 MiB a call costs more as it grows (creating 256 MiB takes 1.5 times as long as
 * 2 MiB), so there is nothing left to save. */
#define POOL_GROWTH_SHARE 128
#define POOL_GROWTH_MAX   (64 * GP_MIB)
/* A tier takes blocks of its parent; less than this would make it ask all the time. */
#define POOL_TIER_CHUNK (8 * GP_MIB)
#define POOL_TIER_PAGE  (64 * GP_KIB)

const char *const gp_grow_choices[] = { "vmm", "chunk", "prealloc", NULL };
const char *const gp_stream_rule_choices[] = { "rule", "ignore", NULL };

void gp_pool_spec(const struct gp_pool_options *opt, const char *name, const char *chunk_name,
		  char *out, size_t out_size)
{
	snprintf(out, out_size, "%s:grow=%s,streams=%s,%s=%llu,initial=%llu", name,
		 gp_grow_choices[opt->grow], gp_stream_rule_choices[opt->streams], chunk_name,
		 (unsigned long long)opt->chunk, (unsigned long long)opt->initial);
}

static int pool_init_vmm(struct gp_pool *p)
{
	struct gp_device *dev = p->a->dev;
	/* Twice the card: alignment and holes left by trims never run out of addresses. */
	uint64_t size = UINT64_C(2) << gp_ceil_log2(dev->info.total_bytes);
	int r = gp_device_va_reserve(dev, size, &p->va.addr);

	if (r)
		return r;
	p->va.size = size;
	r = gp_range_set_insert(&p->holes, 0, size, 0);
	if (r)
		gp_device_va_release(dev, p->va.addr, size);
	return r;
}

static int pool_init_prealloc(struct gp_pool *p)
{
	struct gp_device *dev = p->a->dev;
	uint64_t size = p->opt.initial, free_bytes, total, addr;
	int r;

	if (!size) {
		r = gp_device_mem_info(dev, &free_bytes, &total);
		if (r)
			return r;
		size = gp_align_down(free_bytes / 2, p->page);
	}
	if (p->a->env.share > 1)
		size = gp_max_u64(size / p->a->env.share, 1);
	size = gp_align_up(size, p->page);
	r = gp_device_reserve(dev, size, &addr);
	if (r)
		return gp_allocator_why(p->a, r, "initial=%llu bytes: %s", (unsigned long long)size,
					gp_result_text(r));
	r = gp_range_set_insert(&p->ranges, addr, size, 0);
	if (r) {
		gp_device_release(dev, addr);
		return r;
	}
	p->unused = (struct gp_range){ addr, size };
	p->reserved_bytes = size;
	return 0;
}

int gp_pool_init(struct gp_pool *p, struct gp_allocator *a)
{
	int r = 0;

	p->a = a;
	p->page = a->inner ? POOL_TIER_PAGE : a->dev->info.page_bytes;
	gp_range_set_init(&p->ranges);
	gp_range_set_init(&p->holes);
	if (a->inner || (p->opt.grow == GP_GROW_VMM && !a->dev->info.vmm))
		p->opt.grow = GP_GROW_CHUNK;
	if (p->opt.grow == GP_GROW_VMM)
		r = pool_init_vmm(p);
	else if (p->opt.grow == GP_GROW_PREALLOC)
		r = pool_init_prealloc(p);
	if (r) {
		gp_range_set_fini(&p->ranges);
		gp_range_set_fini(&p->holes);
	}
	return r;
}

/* Gives one range back to where it came from. */
static int pool_release(struct gp_pool *p, const struct gp_range_entry *e)
{
	struct gp_device *dev = p->a->dev;
	int r, r2;

	if (p->a->inner)
		return gp_free(p->a->inner, e->addr);
	if (p->opt.grow != GP_GROW_VMM)
		return gp_device_release(dev, e->addr);
	r = gp_device_unmap(dev, e->addr, e->size);
	r2 = gp_device_destroy(dev, e->tag, e->size);
	return r ? r : r2;
}

void gp_pool_fini(struct gp_pool *p)
{
	const struct gp_range_entry *e;

	if (p->opt.grow == GP_GROW_VMM && p->ranges.n)
		gp_device_sync(p->a->dev);
	while ((e = gp_range_set_ceiling(&p->ranges, 0))) {
		struct gp_range_entry range = *e;

		gp_range_set_remove(&p->ranges, range.addr, NULL);
		pool_release(p, &range);
	}
	if (p->va.size)
		gp_device_va_release(p->a->dev, p->va.addr, p->va.size);
	gp_range_set_fini(&p->ranges);
	gp_range_set_fini(&p->holes);
}

uint64_t gp_pool_growth(const struct gp_pool *p, uint64_t size)
{
	uint64_t chunk = p->opt.chunk;

	if (!chunk)
		chunk = p->a->inner ? POOL_TIER_CHUNK
				    : gp_min_u64(p->reserved_bytes / POOL_GROWTH_SHARE,
						 POOL_GROWTH_MAX);
	return gp_align_up(gp_max_u64(size, chunk), p->page);
}

static int pool_remember(struct gp_pool *p, struct gp_range range, uint64_t tag)
{
	int r = gp_range_set_insert(&p->ranges, range.addr, range.size, tag);

	if (!r)
		p->reserved_bytes += range.size;
	return r;
}

/* Creates memory and maps it at an offset of the address range. */
static int pool_map(struct gp_pool *p, uint64_t offset, uint64_t size, struct gp_range *out)
{
	struct gp_device *dev = p->a->dev;
	uint64_t addr = p->va.addr + offset, handle;
	int r = gp_device_create(dev, size, &handle);

	if (r)
		return r;
	r = gp_device_map(dev, addr, size, handle);
	if (r)
		goto destroy;
	*out = (struct gp_range){ addr, size };
	r = gp_range_set_carve(&p->holes, offset, size);
	if (r)
		goto unmap;
	r = pool_remember(p, *out, handle);
	if (!r)
		return 0;
	gp_range_set_insert_merge(&p->holes, offset, size, 0);
unmap:
	gp_device_unmap(dev, addr, size);
destroy:
	gp_device_destroy(dev, handle, size);
	return r;
}

static int pool_get_vmm(struct gp_pool *p, uint64_t size, uint64_t align, struct gp_range *out)
{
	uint64_t offset;

	if (!gp_range_set_first_fit(&p->holes, size, gp_max_u64(align, p->page), &offset))
		return GP_NOMEM;
	return pool_map(p, offset, size, out);
}

static int pool_get_chunk(struct gp_pool *p, uint64_t size, struct gp_range *out)
{
	uint64_t addr;
	int r = gp_device_reserve(p->a->dev, size, &addr);

	if (r)
		return r;
	*out = (struct gp_range){ addr, size };
	r = pool_remember(p, *out, 0);
	if (r)
		gp_device_release(p->a->dev, addr);
	return r;
}

static int pool_get_tier(struct gp_pool *p, uint64_t size, uint64_t align, uint32_t stream,
			 struct gp_range *out)
{
	struct gp_request req = { .size = size,
				  .stream = stream,
				  .lg_align = (uint8_t)gp_ceil_log2(align) };
	struct gp_block block;
	int r = gp_alloc(p->a->inner, &req, &block);

	if (r)
		return r;
	*out = (struct gp_range){ block.addr, block.granted };
	r = pool_remember(p, *out, stream);
	if (r)
		gp_free(p->a->inner, block.addr);
	return r;
}

static int pool_get_prealloc(struct gp_pool *p, uint64_t need, struct gp_range *out)
{
	if (need > p->unused.size)
		return GP_NOMEM;
	*out = p->unused;
	p->unused = (struct gp_range){ 0, 0 };
	return 0;
}

static int pool_get_once(struct gp_pool *p, uint64_t size, uint64_t align, uint32_t stream,
			 struct gp_range *out)
{
	if (p->a->inner)
		return pool_get_tier(p, size, align, stream, out);
	if (p->opt.grow == GP_GROW_VMM)
		return pool_get_vmm(p, size, align, out);
	if (p->opt.grow == GP_GROW_CHUNK)
		return pool_get_chunk(p, size, out);
	return pool_get_prealloc(p, size, out);
}

int gp_pool_get(struct gp_pool *p, uint64_t want, uint64_t need, uint64_t align, uint32_t stream,
		struct gp_range *out)
{
	int r = pool_get_once(p, want, align, stream, out);

	if (r > 0 && need < want)
		r = pool_get_once(p, need, align, stream, out);
	return r;
}

int gp_pool_get_at(struct gp_pool *p, uint64_t addr, uint64_t size, struct gp_range *out)
{
	uint64_t offset = addr - p->va.addr;
	const struct gp_range_entry *hole = gp_range_set_at(&p->holes, offset);

	if (!hole || hole->size < size)
		return GP_NOMEM;
	return pool_map(p, offset, size, out);
}

int gp_pool_put(struct gp_pool *p, uint64_t addr)
{
	struct gp_range_entry e;
	int r = gp_range_set_remove(&p->ranges, addr, &e);

	if (r)
		return r;
	p->reserved_bytes -= e.size;
	r = pool_release(p, &e);
	if (p->opt.grow == GP_GROW_VMM) {
		int r2 = gp_range_set_insert_merge(&p->holes, addr - p->va.addr, e.size, 0);

		r = r ? r : r2;
	}
	return r;
}

bool gp_pool_range_within(const struct gp_pool *p, uint64_t from, uint64_t end,
			  struct gp_range *out)
{
	const struct gp_range_entry *e = gp_range_set_ceiling(&p->ranges, from);

	if (!e || e->addr + e->size > end || p->opt.grow == GP_GROW_PREALLOC)
		return false;
	*out = (struct gp_range){ e->addr, e->size };
	return true;
}
