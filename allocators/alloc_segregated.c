/* SPDX-License-Identifier: Apache-2.0
 *
 * segregated: free lists by size class over blocks that split and coalesce.
 *
 * All of it is fit.h, which tells shape, invariants, cost and waste; this file has the settings and
 * the hooks.
 */
#include "fit.h"

#include <errno.h>

struct seg {
	struct gp_fit fit; /* first: gp_fit_of() */
};

static const char *const seg_fit_choices[] = { "good", "class", "best", NULL };

static int seg_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	return gp_fit_alloc(gp_fit_of(a), req, out);
}

static int seg_free(struct gp_allocator *a, uint64_t addr)
{
	return gp_fit_free_at(gp_fit_of(a), addr);
}

static const struct gp_option seg_options[] = {
	{ .name = "classes",
	  .help = "coalesce=false: size classes in each doubling",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct seg, fit.classes),
	  .default_text = "8",
	  .min = 1,
	  .max = 1 << GP_BINS_LG_STEPS,
	  .pow2 = true },
	{ .name = "fit",
	  .help = "which block of a class is taken",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct seg, fit.rule),
	  .default_text = "good",
	  .choices = seg_fit_choices },
	{ .name = "coalesce",
	  .help = "join free neighbours; false: blocks keep their class",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct seg, fit.coalesce),
	  .default_text = "true" },
	{ .name = "quick",
	  .help = "largest block in chunks apart, kept whole for the next of its size (0: none)",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct seg, fit.quick),
	  .default_text = "64K",
	  .max = GP_ALIGN * GP_QUICK_UNITS },
	GP_POOL_CHUNK_OPTION(struct seg, fit.pool.opt.chunk, "chunk"),
	GP_POOL_OPTIONS(struct seg, fit.pool.opt),
	{ .name = NULL },
};

const struct gp_allocator_ops gp_segregated_ops = {
	.name = "segregated",
	.summary = "free lists by size class, split and coalesced, found by bitmap (TLSF)",
	.caps = GP_CAP_ANY_SIZE | GP_CAP_COALESCES | GP_CAP_GROWS | GP_CAP_TIER | GP_CAP_ARENAS,
	.state_size = sizeof(struct seg),
	.options = seg_options,
	.init = gp_fit_init,
	.fini = gp_fit_fini,
	.alloc = seg_alloc,
	.free = seg_free,
	.usage = gp_fit_usage,
	.check = gp_fit_check,
	.trim = gp_fit_trim,
	.walk = gp_fit_walk,
};
