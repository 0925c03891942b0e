/* SPDX-License-Identifier: Apache-2.0
 *
 * arena: one endless range, and the rule of a textbook for which hole a request gets. Shows what
 * memory a rule needs; how fast it can be made is another matter, and nothing is done for that.
 *
 * Shape       | used |  hole  | used | used | hole | used |        endless
 *                                                         top
 *             first  the lowest hole that is large enough
 *             best   the smallest; of equals, the lowest
 *             worst  the largest
 *             What lies above the top counts as a hole only when no other serves.
 * Invariants  no two holes touch, and none touches the top
 * Cost        first: O(log n) or so; best, worst: O(n)
 * Waste       512-byte units, as in PyTorch's allocator; external as the rule has it
 * Not done    memory: addresses are made up; streams are ignored, as if all work were done at once
 * Threads     one at a time
 */
#include "allocators/allocator.h"
#include "allocators/range_set.h"

#include <errno.h>

#define UNIT UINT64_C(512)
#define BASE GP_GIB

struct arena {
	unsigned fit; /* option */

	uint64_t top, highest;
	struct gp_range_set live, holes;
};

enum { FIRST, BEST, WORST };

static int arena_init(struct gp_allocator *a)
{
	struct arena *s = gp_state(a);

	s->top = s->highest = BASE;
	gp_range_set_init(&s->live);
	gp_range_set_init(&s->holes);
	return 0;
}

static void arena_fini(struct gp_allocator *a)
{
	struct arena *s = gp_state(a);

	gp_range_set_fini(&s->live);
	gp_range_set_fini(&s->holes);
}

struct search {
	uint64_t size;
	bool largest;
	struct gp_range_entry found; /* size 0: none */
};

static int search_hole(void *arg, const struct gp_range_entry *hole)
{
	struct search *s = arg;

	if (hole->size < s->size)
		return 0;
	if (!s->found.size ||
	    (s->largest ? hole->size > s->found.size : hole->size < s->found.size))
		s->found = *hole;
	return 0;
}

/* Where the rule puts it among the holes; false: in none. */
static bool arena_place(struct arena *s, uint64_t size, uint64_t *addr)
{
	struct search search = { .size = size, .largest = s->fit == WORST };

	if (s->fit == FIRST)
		return gp_range_set_first_fit(&s->holes, size, UNIT, addr);
	gp_range_set_each(&s->holes, search_hole, &search);
	*addr = search.found.addr;
	return search.found.size > 0;
}

static int arena_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct arena *s = gp_state(a);
	uint64_t size = gp_align_up(req->size, UNIT), addr;
	int r;

	if (arena_place(s, size, &addr)) {
		r = gp_range_set_carve(&s->holes, addr, size);
	} else {
		addr = s->top;
		s->top += size;
		s->highest = gp_max_u64(s->highest, s->top);
		r = 0;
	}
	if (!r)
		r = gp_range_set_insert(&s->live, addr, size, 0);
	if (!r)
		*out = (struct gp_block){ addr, size };
	return r;
}

static int arena_free(struct gp_allocator *a, uint64_t addr)
{
	struct arena *s = gp_state(a);
	struct gp_range_entry was;
	const struct gp_range_entry *last;
	int r = gp_range_set_remove(&s->live, addr, &was);

	if (r)
		return -EINVAL;
	r = gp_range_set_insert_merge(&s->holes, was.addr, was.size, 0);
	last = gp_range_set_floor(&s->holes, s->top);
	if (last && last->addr + last->size == s->top) {
		s->top = last->addr;
		gp_range_set_remove(&s->holes, s->top, NULL);
	}
	return r;
}

static void arena_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct arena *s = gp_state(a);

	*out = (struct gp_usage){ .live_blocks = s->live.n,
				  .granted_bytes = s->live.bytes,
				  .reserved_bytes = s->highest - BASE };
}

static const char *const arena_fits[] = { "first", "best", "worst", NULL };

static const struct gp_option arena_options[] = {
	{ .name = "fit",
	  .help = "which hole a request gets",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct arena, fit),
	  .default_text = "first",
	  .choices = arena_fits },
	{ .name = NULL },
};

const struct gp_allocator_ops gp_arena_ops = {
	.name = "arena",
	.summary = "one endless range, by a rule of the textbooks; no device",
	.state_size = sizeof(struct arena),
	.options = arena_options,
	.init = arena_init,
	.fini = arena_fini,
	.alloc = arena_alloc,
	.free = arena_free,
	.usage = arena_usage,
};
