/* SPDX-License-Identifier: Apache-2.0
 *
 * fixed: slabs of N equal blocks and a stack of free ones.
 *
 * Shape        slab 0        | 0 | 1 | 2 | ... | N-1 |      preallocated
 *              slab 1        | N | N+1 | ...              when_empty=grow
 *
 *              next[block]: the free blocks of one stream form a stack (LIFO: the block freed last
 *              comes back first); blocks at and above `unused` were never handed out and are in
 *              no stack, so setting up a slab touches nothing
 * Invariants   1. each block is live, in one stack, or never used   2. live + free = blocks
 *                                                                   -> fixed_check() tests each
 * Cost         alloc, free: O(1), a handful of loads; 7 bytes a block in host memory
 * Waste        internal: block - size for each block; and the whole slab from the first moment.
 *              Requests above `block` don't belong here: refused, or passed on (when_empty=device)
 * Threads      one at a time
 */
#include "addr_index.h"
#include "lazy.h"
#include "pool.h"
#include "streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIXED_NIL        UINT32_MAX
#define FIXED_BLOCKS_MAX (UINT32_C(1) << 28) /* 7 bytes each: 1.9 GiB of tables */
#define FIXED_SLABS_MAX  4096
/* Without a trace to go by: the classic pool test, 1 024 blocks of 1 MiB. */
#define FIXED_BLOCK (1 * GP_MIB)
#define FIXED_COUNT 1024

enum fixed_when_empty {
	FIXED_DEVICE,
	FIXED_GROW,
	FIXED_REFUSE,
};

static const char *const fixed_when_empty_choices[] = { "device", "grow", "refuse", NULL };

enum fixed_state {
	FIXED_UNUSED, /* zero: what a fresh table holds */
	FIXED_LIVE,
	FIXED_FREE,
};

struct fixed_slab {
	uint64_t base; /* 0: position not in use */
	uint32_t live;
};

struct fixed {
	uint64_t block, count;
	unsigned when_empty;
	struct gp_pool pool;

	struct gp_streams streams;
	struct gp_allocator *device; /* raw: where requests are passed on to */
	struct gp_addr_index pages;  /* page of a slab -> slab */
	struct fixed_slab *slabs;
	uint32_t n_slabs;
	uint32_t *next;   /* [block] */
	uint16_t *stream; /* [block] last user */
	uint8_t *state;   /* [block] enum fixed_state */
	uint32_t *top;    /* [stream] of the stack */
	uint32_t n_tops;
	uint32_t unused, unused_end; /* never handed out, in the newest slab */
	unsigned lg_page;
	uint64_t magic; /* divides by the block's size in units of GP_ALIGN */
	uint64_t live;
};

/* ---- slabs ---- */

static uint64_t fixed_slab_bytes(const struct fixed *f)
{
	return gp_align_up(f->block * f->count, f->pool.page);
}

static int fixed_index_slab(struct fixed *f, uint32_t slab, struct gp_range range)
{
	uint64_t pages = range.size >> f->lg_page;
	int r = pages > GP_INDEX_VALUE_MAX ? -E2BIG
					   : gp_addr_index_reserve(&f->pages, (uint32_t)pages);

	for (uint64_t i = 0; i < pages && !r; i++)
		gp_addr_index_add(&f->pages, (range.addr >> f->lg_page) + i, slab);
	return r;
}

static int fixed_add_slab(struct fixed *f, uint32_t stream)
{
	uint64_t size = fixed_slab_bytes(f);
	uint32_t slab = 0;
	struct gp_range range;
	int r;

	while (slab < f->n_slabs && f->slabs[slab].base)
		slab++;
	if (slab == FIXED_SLABS_MAX || (slab + 1) * f->count > FIXED_BLOCKS_MAX)
		return GP_NOMEM;
	r = gp_pool_get(&f->pool, size, size, f->pool.page, stream, &range);
	if (r)
		return r;
	r = fixed_index_slab(f, slab, range);
	if (r) {
		gp_pool_put(&f->pool, range.addr);
		return r;
	}
	f->slabs[slab] = (struct fixed_slab){ .base = range.addr };
	if (slab == f->n_slabs)
		f->n_slabs++;
	f->unused = (uint32_t)(slab * f->count);
	f->unused_end = f->unused + (uint32_t)f->count;
	return 0;
}

static uint64_t fixed_addr(const struct fixed *f, uint32_t block)
{
	uint32_t slab = f->n_slabs == 1 ? 0 : block / (uint32_t)f->count;

	return f->slabs[slab].base + (block - slab * f->count) * f->block;
}

/* The block that starts at addr, or FIXED_NIL. */
static uint32_t fixed_block_at(const struct fixed *f, uint64_t addr)
{
	uint32_t slab = gp_addr_index_find(&f->pages, addr >> f->lg_page);
	uint64_t offset, i;

	if (GP_UNLIKELY(slab == GP_INDEX_NONE))
		return FIXED_NIL;
	offset = addr - f->slabs[slab].base;
	i = gp_divide(offset / GP_ALIGN, f->magic);
	if (GP_UNLIKELY(i * f->block != offset || i >= f->count))
		return FIXED_NIL;
	return (uint32_t)(slab * f->count + i);
}

/* ---- taking and returning ---- */

static uint32_t fixed_pop(struct fixed *f, uint32_t stream)
{
	uint32_t block = f->top[stream];

	if (block != FIXED_NIL)
		f->top[stream] = f->next[block];
	return block;
}

static int fixed_steal(struct fixed *f, uint32_t stream, uint32_t *out)
{
	for (uint32_t other = 0; other < f->n_tops; other++) {
		int r;

		if (other == stream || f->top[other] == FIXED_NIL)
			continue;
		r = gp_streams_wait(&f->streams, other, stream);
		if (!r)
			*out = fixed_pop(f, other);
		return r;
	}
	return GP_NOMEM;
}

/* Nothing free on this stream. */
static GP_NOINLINE int fixed_obtain(struct fixed *f, uint32_t stream, uint32_t *out)
{
	int r;

	if (f->unused == f->unused_end) {
		r = fixed_steal(f, stream, out);
		if (r <= 0)
			return r;
		if (f->when_empty != FIXED_GROW || gp_is_sparing(f->pool.a))
			return GP_NOMEM;
		r = fixed_add_slab(f, stream);
		if (r)
			return r;
	}
	*out = f->unused++;
	return 0;
}

static GP_NOINLINE int fixed_new_stream(struct fixed *f, uint32_t stream)
{
	int r = gp_streams_know(&f->streams, stream);
	uint32_t *top;

	if (r)
		return r;
	top = realloc(f->top, (stream + 1) * sizeof(*top));
	if (!top)
		return -ENOMEM;
	f->top = top;
	while (f->n_tops <= stream)
		top[f->n_tops++] = FIXED_NIL;
	return 0;
}

static int fixed_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct fixed *f = gp_state(a);
	uint32_t stream = gp_pool_stream(&f->pool, req->stream), block;
	bool fits = req->size <= f->block && req->lg_align <= gp_floor_log2(GP_ALIGN);
	int r = GP_REFUSED;

	if (GP_LIKELY(fits)) {
		r = GP_LIKELY(stream < f->n_tops) ? 0 : fixed_new_stream(f, stream);
		if (GP_UNLIKELY(r))
			return r;
		block = fixed_pop(f, stream);
		if (GP_UNLIKELY(block == FIXED_NIL))
			r = fixed_obtain(f, stream, &block);
	}
	if (GP_UNLIKELY(r)) {
		if (r > 0 && f->when_empty == FIXED_DEVICE && !(fits && gp_is_sparing(a)))
			return gp_alloc(f->device, req, out);
		return r == GP_NOMEM && f->when_empty == FIXED_REFUSE ? GP_REFUSED : r;
	}
	f->state[block] = FIXED_LIVE;
	f->stream[block] = (uint16_t)stream;
	f->slabs[f->n_slabs == 1 ? 0 : block / (uint32_t)f->count].live++;
	f->live++;
	*out = (struct gp_block){ fixed_addr(f, block), f->block };
	return 0;
}

static int fixed_free(struct gp_allocator *a, uint64_t addr)
{
	struct fixed *f = gp_state(a);
	uint32_t block = fixed_block_at(f, addr), stream;

	if (GP_UNLIKELY(block == FIXED_NIL))
		return f->device ? gp_free(f->device, addr) : -EINVAL;
	if (GP_UNLIKELY(f->state[block] != FIXED_LIVE))
		return f->state[block] == FIXED_FREE ? -EALREADY : -EINVAL;
	stream = f->stream[block];
	f->state[block] = FIXED_FREE;
	f->next[block] = f->top[stream];
	f->top[stream] = block;
	f->slabs[f->n_slabs == 1 ? 0 : block / (uint32_t)f->count].live--;
	f->live--;
	gp_streams_freed(&f->streams, stream);
	return 0;
}

/* ---- the other hooks ---- */

/* Takes the blocks of one slab out of every stack, which keep their order. */
static void fixed_unstack(struct fixed *f, uint32_t slab)
{
	for (uint32_t s = 0; s < f->n_tops; s++) {
		uint32_t *link = &f->top[s];

		while (*link != FIXED_NIL) {
			uint32_t block = *link;

			if (block / (uint32_t)f->count == slab)
				*link = f->next[block];
			else
				link = &f->next[block];
		}
	}
}

/* Slab 0 is what was preallocated: it stays. */
static int fixed_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct fixed *f = gp_state(a);
	uint64_t pages = fixed_slab_bytes(f) >> f->lg_page;
	int r = gp_device_sync(a->dev);

	for (uint32_t slab = f->n_slabs; slab-- > 1 && !r && f->pool.reserved_bytes > keep;) {
		uint64_t base = f->slabs[slab].base;

		if (!base || f->slabs[slab].live)
			continue;
		fixed_unstack(f, slab);
		memset(f->state + slab * f->count, FIXED_UNUSED, f->count);
		if (f->unused_end == (slab + 1) * f->count)
			f->unused = f->unused_end;
		for (uint64_t i = 0; i < pages; i++)
			gp_addr_index_remove(&f->pages, (base >> f->lg_page) + i);
		f->slabs[slab].base = 0;
		r = gp_pool_put(&f->pool, base);
		*released += fixed_slab_bytes(f);
	}
	return r;
}

static void fixed_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct fixed *f = gp_state(a);
	struct gp_usage passed = { 0 };

	if (f->device)
		gp_usage(f->device, &passed);
	*out = (struct gp_usage){ f->live + passed.live_blocks,
				  f->live * f->block + passed.granted_bytes,
				  f->pool.reserved_bytes + passed.reserved_bytes,
				  f->streams.waits };
}

static int fixed_check(const struct gp_allocator *a, FILE *why)
{
	const struct fixed *f = gp_state(a);
	uint64_t live = 0, is_free = 0, stacked = 0;

	for (uint64_t b = 0; b < f->n_slabs * f->count; b++) {
		live += f->state[b] == FIXED_LIVE;
		is_free += f->state[b] == FIXED_FREE;
	}
	for (uint32_t s = 0; s < f->n_tops; s++)
		for (uint32_t b = f->top[s]; b != FIXED_NIL; b = f->next[b]) {
			if (f->state[b] != FIXED_FREE || f->stream[b] != s || stacked++ > is_free) {
				fprintf(why, "fixed: block %u is in the wrong stack\n", b);
				return -EILSEQ;
			}
		}
	if (live == f->live && stacked == is_free)
		return f->device ? gp_check(f->device, why) : 0;
	fprintf(why, "fixed: %llu live and %llu stacked blocks, expected %llu and %llu\n",
		(unsigned long long)live, (unsigned long long)stacked, (unsigned long long)f->live,
		(unsigned long long)is_free);
	return -EILSEQ;
}

static void fixed_fini(struct gp_allocator *a)
{
	struct fixed *f = gp_state(a);
	uint64_t blocks = FIXED_BLOCKS_MAX;

	gp_allocator_destroy(f->device);
	gp_pool_fini(&f->pool);
	gp_streams_fini(&f->streams);
	gp_addr_index_fini(&f->pages);
	gp_lazy_free(f->next, blocks * sizeof(*f->next));
	gp_lazy_free(f->stream, blocks * sizeof(*f->stream));
	gp_lazy_free(f->state, blocks);
	free(f->slabs);
	free(f->top);
}

/* block and count as given, or from what is known of the job. */
static int fixed_settle(struct gp_allocator *a)
{
	struct fixed *f = gp_state(a);
	uint64_t bytes;

	if (!f->block)
		f->block = a->env.typical_size ? a->env.typical_size : FIXED_BLOCK;
	if (!f->count)
		f->count = a->env.typical_live ? a->env.typical_live : FIXED_COUNT;
	if (a->env.share > 1)
		f->count = (f->count + a->env.share - 1) / a->env.share;
	if (f->block % GP_ALIGN)
		return gp_allocator_why(a, -EINVAL, "block=%llu: expected a multiple of %llu",
					(unsigned long long)f->block, (unsigned long long)GP_ALIGN);
	/* What gp_divide is exact for. */
	if (!gp_mul_u64(f->block, f->count, &bytes) || bytes / GP_ALIGN > UINT32_MAX)
		return gp_allocator_why(a, GP_NOMEM, "%llu blocks of %llu bytes: no card has that",
					(unsigned long long)f->count, (unsigned long long)f->block);
	return 0;
}

static int fixed_init_tables(struct gp_allocator *a)
{
	struct fixed *f = gp_state(a);
	uint64_t blocks = FIXED_BLOCKS_MAX;

	f->next = gp_lazy_alloc(blocks * sizeof(*f->next));
	f->stream = gp_lazy_alloc(blocks * sizeof(*f->stream));
	f->state = gp_lazy_alloc(blocks);
	f->slabs = calloc(FIXED_SLABS_MAX, sizeof(*f->slabs));
	if (!f->next || !f->stream || !f->state || !f->slabs)
		return -ENOMEM;
	return gp_addr_index_init(&f->pages);
}

static int fixed_init(struct gp_allocator *a)
{
	struct fixed *f = gp_state(a);
	int r = fixed_settle(a);

	if (r)
		return r;
	f->lg_page = gp_floor_log2(a->dev->info.page_bytes);
	f->magic = gp_divide_magic(f->block / GP_ALIGN);
	gp_streams_init(&f->streams, a->dev);
	r = gp_pool_init(&f->pool, a);
	if (r)
		return r;
	r = fixed_init_tables(a);
	if (!r)
		r = fixed_new_stream(f, 0);
	if (!r && f->when_empty == FIXED_DEVICE)
		r = gp_allocator_create("raw", a->dev, &a->env, &f->device, NULL, 0);
	if (!r)
		r = fixed_add_slab(f, 0);
	if (r == GP_NOMEM)
		gp_allocator_why(a, r, "%llu blocks of %llu bytes do not fit the device",
				 (unsigned long long)f->count, (unsigned long long)f->block);
	if (r)
		fixed_fini(a);
	return r;
}

static const struct gp_option fixed_options[] = {
	{ .name = "block",
	  .help = "bytes of a block (0: what 90 % of the trace's requests fit in)",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct fixed, block),
	  .default_text = "0",
	  .max = 1024 * GP_GIB },
	{ .name = "count",
	  .help = "blocks in a slab (0: the most of those alive at once)",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct fixed, count),
	  .default_text = "0",
	  .max = FIXED_BLOCKS_MAX },
	{ .name = "when_empty",
	  .help = "and for requests above `block`, which grow can't serve",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct fixed, when_empty),
	  .default_text = "device",
	  .choices = fixed_when_empty_choices },
	GP_POOL_OPTIONS(struct fixed, pool.opt),
	{ .name = NULL },
};

const struct gp_allocator_ops gp_fixed_ops = {
	.name = "fixed",
	.summary = "equal blocks from a preallocated slab, last freed first out",
	.caps = GP_CAP_ANY_SIZE | GP_CAP_GROWS | GP_CAP_ARENAS,
	.state_size = sizeof(struct fixed),
	.options = fixed_options,
	.init = fixed_init,
	.fini = fixed_fini,
	.alloc = fixed_alloc,
	.free = fixed_free,
	.usage = fixed_usage,
	.check = fixed_check,
	.trim = fixed_trim,
};
