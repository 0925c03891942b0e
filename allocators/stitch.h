/* SPDX-License-Identifier: Apache-2.0
 *
 * stitch: what the files of the allocator `stitch` share.
 *
 *   alloc_stitch.c   the ordinary path, growth, giving back
 *   stitch_plan.c    which holes a block is made of
 *   stitch_views.c   mapping them side by side
 */
#ifndef GP_STITCH_H
#define GP_STITCH_H

#include "fit.h"

/* Memory mapped once more, side by side in an order of its own. Mapped it stays, with a block in it
 * or not. */
struct stitch_view {
	struct gp_range at;
	struct gp_range *parts; /* the home of each handle, in the order they are mapped here */
	uint32_t n_parts;
	uint32_t tiles; /* of its block, chained by `chain`; GP_TILE_NIL: no block */
	uint64_t block; /* its address */
	uint64_t used;  /* the clock at its last use */
};

/* A handle that is free wholly, or at its start, or at its end. */
struct stitch_piece {
	struct gp_range handle;
	struct gp_range free;
	uint32_t tile; /* the one in whose hole it was when it was looked up */
};

struct stitch {
	struct gp_fit fit; /* first: gp_fit_of(). Home: its pool has each handle where it was mapped
			    * first */
	/* Options. */
	double slack;
	uint64_t slack_min, large, handle, max_views;

	uint64_t peak_units; /* granted at most */

	struct gp_range va; /* of the views */
	struct gp_range_set va_holes;
	struct gp_range_set views_at; /* tag: number in views */
	struct stitch_view *views;    /* .n_parts == 0: not in use */
	uint32_t n_views, cap_views;
	uint64_t clock;

	/* Scratch: what is free, by address, and what was chosen of it, in order. */
	struct stitch_piece *pieces, *chosen;
	size_t n_pieces, cap_pieces, n_chosen, cap_chosen;
};

/* Gets whole pages of memory, in handles of at most s->handle, mapped at addr (0: the lowest place),
 * which become free; *out: the tile that has them. GP_NOMEM, -errno: nothing was got. */
int stitch_add(struct stitch *s, uint64_t addr, uint64_t bytes, uint32_t *out);

/* stitch_plan.c: chooses pieces for a block, in their order, and gets what memory is missing to them.
 * *view: one that has them so; NULL: there is none. GP_NOMEM, -errno. */
int stitch_choose(struct stitch *s, uint64_t size, uint64_t align, struct stitch_view **view);

/* stitch_views.c */

int stitch_views_init(struct stitch *s, struct gp_device *dev);
void stitch_views_fini(struct stitch *s, struct gp_device *dev);
/* A block of what is free, and of as little new memory as that needs. GP_NOMEM: there is not enough;
 * -errno. */
int stitch_together(struct stitch *s, uint32_t units, uint32_t stream, uint64_t align,
		    struct gp_block *out);
/* -EINVAL, or -EALREADY in a view whose block is free. */
int stitch_free_view(struct stitch *s, uint64_t addr);
/* Undoes views without a block, the longest unused first, until at most `keep` views are left. The
 * device must have been synchronised since their last use. */
int stitch_drop_views(struct stitch *s, uint32_t keep);
/* Undoes all mappings of views but those that a block is in; the same holds. */
int stitch_shed(struct stitch *s);
/* 0, or -EILSEQ with a line on `why`. */
int stitch_check_views(const struct stitch *s, uint64_t *units, FILE *why);

#endif
