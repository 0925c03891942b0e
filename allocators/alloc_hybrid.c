/* SPDX-License-Identifier: Apache-2.0
 *
 * hybrid: tiers, each of which borrows from the one above.
 *
 * Shape        size < slab_below (1 KiB)      slab    slabs of 64 KiB   --+
 *              size <= quick (64 KiB)         fit     small  <------------+  chunks of 2 MiB --+
 *              above                          fit     main   <---------------------------------+
 *                                              |
 *                                              device, by the growth policy
 *
 *              large=buddy instead:
 *
 *              size < slab_below (1 KiB)      slab        slabs of 64 KiB      --+
 *              size <= buddy_above (1 MiB)    segregated  <---------------------+  chunks of 8 MiB --+
 *              above                          buddy       <-------------------------------------------+
 *                                              |
 *                                              device, by the growth policy
 *
 *              Small objects cost a bit each and never fragment what is above them; middle sizes come
 *              from chunks of their own, where blocks wait whole for the next of their size; large
 *              ones are fitted best (fit.h), or come as aligned powers of two. A slab that runs empty
 *              goes back to the tier above, a chunk that does likewise, and what the top has free
 *              serves any of them.
 * Invariants   the tiers' own; an address belongs to the lowest tier that knows it, since a slab is
 *              a block of the segregated tier and a chunk one of the buddy
 * Cost         alloc: a comparison more than the tier's; free: with large=fit one lookup, and the
 *              slab's too for what it has cut and for blocks that could be slabs
 * Waste        that of the tier; with large=buddy large blocks round up to powers of two
 * Threads      one at a time
 */
#include "fit.h"

#include <errno.h>

enum hybrid_large {
	HYBRID_FIT,
	HYBRID_BUDDY,
};

static const char *const hybrid_large_choices[] = { "fit", "buddy", NULL };

struct hybrid {
	uint64_t slab_below, buddy_above, slab_size, keep_empty, chunk, min_block;
	unsigned large; /* enum hybrid_large */
	struct gp_pool_options opt;

	struct gp_allocator *slab, *segregated, *buddy; /* buddy: NULL with large=fit */
	struct gp_fit *fit;                             /* segregated's */
	uint64_t slab_top, fit_top;                     /* largest request of the tier */
	uint32_t slab_units;                            /* of the fit tier, for a slab */
};

/* What a tier lacks may lie empty in the tiers below it. */
static int hybrid_give_back(struct hybrid *h)
{
	uint64_t released = 0;
	int r = gp_trim(h->slab, 0, &released);

	return r || !h->buddy ? r : gp_trim(h->segregated, 0, &released);
}

static GP_NOINLINE int hybrid_retry(struct hybrid *h, struct gp_allocator *tier,
				    const struct gp_request *req, struct gp_block *out)
{
	int r = hybrid_give_back(h);

	if (!r)
		r = tier->ops->alloc(tier, req, out);
	/* No room for a whole slab or chunk: the tier above may have room for the block alone. */
	if (r > 0 && tier == h->slab) {
		tier = h->segregated;
		r = tier->ops->alloc(tier, req, out);
	}
	if (r > 0 && tier == h->segregated && h->buddy)
		r = h->buddy->ops->alloc(h->buddy, req, out);
	return r;
}

static int hybrid_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct hybrid *h = gp_state(a);
	struct gp_allocator *tier = h->segregated;
	int r;

	if (req->size > h->slab_top && GP_LIKELY(req->size <= h->fit_top)) {
		r = gp_fit_alloc(h->fit, req, out);
	} else {
		tier = req->size > h->slab_top ? h->buddy : h->slab;
		r = tier->ops->alloc(tier, req, out);
	}
	return GP_UNLIKELY(r > 0) ? hybrid_retry(h, tier, req, out) : r;
}

/* What the fit tier does not know, and what may be an object at the start of a slab, goes to the
 * slab tier, which passes on to the one above what is not its own. */
static int hybrid_free(struct gp_allocator *a, uint64_t addr)
{
	struct hybrid *h = gp_state(a);
	uint32_t slot = 0, n = gp_fit_find(h->fit, addr, &slot);

	if (GP_LIKELY(n && h->fit->t.tiles[n].units != h->slab_units))
		return gp_fit_free(h->fit, n, slot, addr);
	return h->slab->ops->free(h->slab, addr);
}

static void hybrid_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct hybrid *h = gp_state(a);
	struct gp_usage slab, seg, buddy = { 0 };

	gp_usage(h->slab, &slab);
	gp_usage(h->segregated, &seg);
	/* What a tier holds is granted by the one above, but not to the user. */
	*out = (struct gp_usage){
		.live_blocks =
			slab.live_blocks + seg.live_blocks - slab.reserved_bytes / h->slab_size,
		.granted_bytes = slab.granted_bytes + seg.granted_bytes - slab.reserved_bytes,
		.reserved_bytes = seg.reserved_bytes,
		.event_waits = seg.event_waits,
	};
	if (!h->buddy)
		return;
	gp_usage(h->buddy, &buddy);
	out->live_blocks += buddy.live_blocks - h->fit->pool.ranges.n;
	out->granted_bytes += buddy.granted_bytes - seg.reserved_bytes;
	out->reserved_bytes = buddy.reserved_bytes;
	out->event_waits += buddy.event_waits;
}

static int hybrid_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct hybrid *h = gp_state(a);
	int r = hybrid_give_back(h);

	return r ? r : gp_trim(h->buddy ? h->buddy : h->segregated, keep, released);
}

static int hybrid_check(const struct gp_allocator *a, FILE *why)
{
	const struct hybrid *h = gp_state(a);
	int r = gp_check(h->slab, why);

	if (!r)
		r = gp_check(h->segregated, why);
	return r || !h->buddy ? r : gp_check(h->buddy, why);
}

/* From the lowest tier up: each gives its memory to the one above. */
static void hybrid_fini(struct gp_allocator *a)
{
	struct hybrid *h = gp_state(a);

	gp_allocator_destroy(h->slab);
	gp_allocator_destroy(h->segregated);
	gp_allocator_destroy(h->buddy);
}

/* The tier of middle sizes: all that is above the slabs, or chunks of the buddy. */
static int hybrid_make_segregated(struct gp_allocator *a, const struct gp_env *env)
{
	struct hybrid *h = gp_state(a);
	char base[256], spec[320];
	int r;

	if (h->large == HYBRID_FIT) {
		gp_pool_spec(&h->opt, "segregated", "chunk", base, sizeof(base));
		return gp_allocator_create(base, a->dev, env, &h->segregated, a->why,
					   sizeof(a->why));
	}
	gp_pool_spec(&h->opt, "buddy", "arena", base, sizeof(base));
	snprintf(spec, sizeof(spec), "%s,min_block=%llu", base, (unsigned long long)h->min_block);
	r = gp_allocator_create(spec, a->dev, env, &h->buddy, a->why, sizeof(a->why));
	if (r)
		return r;
	snprintf(spec, sizeof(spec), "segregated:chunk=%llu,streams=%s",
		 (unsigned long long)h->chunk, gp_stream_rule_choices[h->opt.streams]);
	return gp_allocator_create_under(spec, h->buddy, &h->segregated, a->why, sizeof(a->why));
}

static int hybrid_make_tiers(struct gp_allocator *a)
{
	struct hybrid *h = gp_state(a);
	struct gp_env env = a->env;
	char spec[320];
	int r;

	env.threads = 1; /* only called from here */
	r = hybrid_make_segregated(a, &env);
	if (r)
		return r;
	h->fit = gp_fit_of(h->segregated);
	h->slab_top = h->slab_below - 1;
	h->fit_top = h->buddy ? h->buddy_above : GP_SIZE_MAX;
	h->slab_units = (uint32_t)(h->slab_size >> GP_TILE_LG_UNIT);
	snprintf(spec, sizeof(spec), "slab:max_object=%llu,slab=%llu,keep_empty=%llu,streams=%s",
		 (unsigned long long)h->slab_below, (unsigned long long)h->slab_size,
		 (unsigned long long)h->keep_empty, gp_stream_rule_choices[h->opt.streams]);
	return gp_allocator_create_under(spec, h->segregated, &h->slab, a->why, sizeof(a->why));
}

static int hybrid_init(struct gp_allocator *a)
{
	struct hybrid *h = gp_state(a);
	int r;

	if (h->slab_below > h->buddy_above)
		return gp_allocator_why(
			a, -EINVAL, "slab_below=%llu: expected at most buddy_above=%llu",
			(unsigned long long)h->slab_below, (unsigned long long)h->buddy_above);
	if (h->buddy_above > h->chunk)
		return gp_allocator_why(
			a, -EINVAL, "chunk=%llu: expected at least buddy_above=%llu",
			(unsigned long long)h->chunk, (unsigned long long)h->buddy_above);
	r = hybrid_make_tiers(a);
	if (r)
		hybrid_fini(a);
	return r;
}

static const struct gp_option hybrid_options[] = {
	{ .name = "large",
	  .help = "what serves large requests: best fit, or powers of two",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct hybrid, large),
	  .default_text = "fit",
	  .choices = hybrid_large_choices },
	{ .name = "slab_below",
	  .help = "smaller requests go to the slab tier",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct hybrid, slab_below),
	  .default_text = "1K",
	  .min = GP_ALIGN,
	  .max = 512 * GP_KIB },
	{ .name = "slab",
	  .help = "slab tier: bytes of a slab",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct hybrid, slab_size),
	  .default_text = "64K",
	  .min = 4 * GP_KIB,
	  .max = GP_MIB,
	  .pow2 = true },
	{ .name = "keep_empty",
	  .help = "slab tier: empty slabs each cache keeps",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct hybrid, keep_empty),
	  .default_text = "1",
	  .max = 1024 },
	{ .name = "buddy_above",
	  .help = "large=buddy: larger requests go to the buddy tier",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct hybrid, buddy_above),
	  .default_text = "1M",
	  .min = GP_ALIGN,
	  .max = GP_GIB },
	{ .name = "chunk",
	  .help = "large=buddy: what the segregated tier takes from the buddy tier",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct hybrid, chunk),
	  .default_text = "8M",
	  .min = 64 * GP_KIB,
	  .max = GP_GIB,
	  .pow2 = true },
	{ .name = "min_block",
	  .help = "large=buddy: smallest block of the buddy tier",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct hybrid, min_block),
	  .default_text = "64K",
	  .min = GP_ALIGN,
	  .max = 2 * GP_MIB,
	  .pow2 = true },
	GP_POOL_CHUNK_OPTION(struct hybrid, opt.chunk, "arena"),
	GP_POOL_OPTIONS(struct hybrid, opt),
	{ .name = NULL },
};

const struct gp_allocator_ops gp_hybrid_ops = {
	.name = "hybrid",
	.summary = "slab below 1 KiB, own chunks to 64 KiB, best fit (or buddy) above",
	.caps = GP_CAP_ANY_SIZE | GP_CAP_COALESCES | GP_CAP_GROWS | GP_CAP_ARENAS,
	.state_size = sizeof(struct hybrid),
	.options = hybrid_options,
	.init = hybrid_init,
	.fini = hybrid_fini,
	.alloc = hybrid_alloc,
	.free = hybrid_free,
	.usage = hybrid_usage,
	.check = hybrid_check,
	.trim = hybrid_trim,
};
