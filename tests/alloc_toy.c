/* SPDX-License-Identifier: Apache-2.0
 *
 * toy: an allocator for the engine's tests, simple enough to predict and able to misbehave.
 *
 * Shape        one array of blocks in order of creation, each its own reservation, rounded up to
 *              256 bytes. A freed block waits for a request of exactly its size; trim gives back
 *              those that wait.
 * Defects      one at a time, see enum toy_defect; each breaks the contract in one way
 * Threads      the caller serialises
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "allocators/allocator.h"

#define TOY_NTH 3 /* the allocation at which defects show */

enum toy_defect {
	TOY_SOUND,
	TOY_OVERLAP,     /* hands out a live block again                     */
	TOY_SMALL,       /* grants less than was asked for                   */
	TOY_FAULT_ALLOC, /* alloc returns -EIO                               */
	TOY_FAULT_FREE,  /* free refuses a live block                        */
	TOY_USAGE,       /* usage counts one byte too much                   */
	TOY_EARLY,       /* gives a live block's memory back to the device   */
	TOY_LEAK,        /* reserves a page and forgets it                   */
	TOY_STUCK,       /* trim keeps everything                            */
	TOY_AUDIT,       /* check finds something                            */
	TOY_INIT,        /* init has no memory                               */
	TOY_DAWDLE,      /* none: the device takes 2 ms for each reservation */
	TOY_DEAD,        /* none: the device fails every reservation         */
};

static const char *const toy_defects[] = { "none",  "overlap", "small", "fault_alloc", "fault_free",
					   "usage", "early",   "leak",  "stuck",       "audit",
					   "init",  "dawdle",  "dead",  NULL };

struct toy_block {
	uint64_t addr, size;
	bool live;
};

struct toy {
	/* Options. */
	unsigned defect;
	uint64_t refuse_above; /* bytes; 0: nothing is refused */
	uint64_t hold_above;   /* the same, with GP_HELD       */
	uint64_t count;        /* most blocks; 0: no limit     */
	bool unused;

	struct toy_block *blocks;
	size_t n, cap;
	uint64_t n_allocs;
	struct gp_usage usage;
};

/* The device under a toy that dawdles or is dead. */
static const struct gp_device_ops *toy_device_ops;
static struct gp_device_ops toy_odd_ops;

static int toy_slow_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	const struct timespec ts = { 0, 2000000 };

	nanosleep(&ts, NULL);
	return toy_device_ops->reserve(dev, size, addr);
}

static int toy_dead_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	(void)size;
	(void)addr;
	return gp_device_fault(dev, -EIO, "the card fell out");
}

static int toy_init(struct gp_allocator *a)
{
	struct toy *t = gp_state(a);

	if (t->defect == TOY_DAWDLE || t->defect == TOY_DEAD) {
		toy_device_ops = a->dev->ops;
		toy_odd_ops = *toy_device_ops;
		toy_odd_ops.reserve = t->defect == TOY_DEAD ? toy_dead_reserve : toy_slow_reserve;
		a->dev->ops = &toy_odd_ops;
	}
	if (t->defect == TOY_INIT)
		return gp_allocator_why(a, GP_NOMEM, "no room for the toy");
	return t->count == 1 ? gp_allocator_why(a, -EINVAL, "count=1 is too few") : 0;
}

static void toy_fini(struct gp_allocator *a)
{
	struct toy *t = gp_state(a);

	for (size_t i = 0; i < t->n; i++)
		gp_device_release(a->dev, t->blocks[i].addr);
	free(t->blocks);
}

static struct toy_block *toy_find_free(struct toy *t, uint64_t size)
{
	for (size_t i = 0; i < t->n; i++)
		if (!t->blocks[i].live && t->blocks[i].size == size)
			return &t->blocks[i];
	return NULL;
}

/* A block of its own from the device. */
static int toy_grow(struct gp_allocator *a, uint64_t size, struct toy_block **out)
{
	struct toy *t = gp_state(a);
	uint64_t addr;
	int r;

	if (t->count && t->n >= t->count)
		return GP_NOMEM;
	if (t->n == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 16;
		struct toy_block *blocks = realloc(t->blocks, cap * sizeof(*blocks));

		if (!blocks)
			return -ENOMEM;
		t->blocks = blocks;
		t->cap = cap;
	}
	r = gp_device_reserve(a->dev, size, &addr);
	if (r)
		return r;
	*out = &t->blocks[t->n++];
	**out = (struct toy_block){ addr, size, false };
	t->usage.reserved_bytes += size;
	return 0;
}

static int toy_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct toy *t = gp_state(a);
	uint64_t size = gp_align_up(req->size, GP_ALIGN);
	struct toy_block *b = toy_find_free(t, size);
	bool show = ++t->n_allocs == TOY_NTH;
	uint64_t lost;
	int r;

	if (t->refuse_above && req->size > t->refuse_above)
		return GP_REFUSED;
	if (t->hold_above && req->size > t->hold_above)
		return GP_HELD;
	if (show && t->defect == TOY_FAULT_ALLOC)
		return gp_allocator_why(a, -EIO, "the toy is broken");
	if (show && t->defect == TOY_LEAK && gp_device_reserve(a->dev, 2 * GP_MIB, &lost))
		return GP_NOMEM;
	if (show && t->defect == TOY_OVERLAP) {
		*out = (struct gp_block){ t->blocks[0].addr, t->blocks[0].size };
		return 0;
	}
	if (!b) {
		r = toy_grow(a, size, &b);
		if (r)
			return r;
	}
	b->live = true;
	t->usage.live_blocks++;
	t->usage.granted_bytes += size;
	*out = (struct gp_block){ b->addr, size };
	if (show && t->defect == TOY_SMALL)
		out->granted = req->size - 1;
	if (show && t->defect == TOY_EARLY) {
		gp_device_release(a->dev, t->blocks[0].addr);
		t->blocks[0] = t->blocks[--t->n];
	}
	return 0;
}

static int toy_free(struct gp_allocator *a, uint64_t addr)
{
	struct toy *t = gp_state(a);

	if (t->defect == TOY_FAULT_FREE)
		return -EINVAL;
	for (size_t i = 0; i < t->n; i++) {
		if (t->blocks[i].addr != addr)
			continue;
		if (!t->blocks[i].live)
			return -EALREADY;
		t->blocks[i].live = false;
		t->usage.live_blocks--;
		t->usage.granted_bytes -= t->blocks[i].size;
		return 0;
	}
	return -EINVAL;
}

static void toy_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct toy *t = gp_state(a);

	*out = t->usage;
	if (t->defect == TOY_USAGE && t->n_allocs >= TOY_NTH)
		out->granted_bytes++;
}

static int toy_check(const struct gp_allocator *a, FILE *why)
{
	const struct toy *t = gp_state(a);

	if (t->defect != TOY_AUDIT)
		return 0;
	fprintf(why, "toy: the toy is sad\nsecond line\n");
	return -EILSEQ;
}

static int toy_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct toy *t = gp_state(a);

	for (size_t i = 0; i < t->n && t->defect != TOY_STUCK;) {
		if (t->blocks[i].live || t->usage.reserved_bytes <= keep) {
			i++;
			continue;
		}
		gp_device_release(a->dev, t->blocks[i].addr);
		t->usage.reserved_bytes -= t->blocks[i].size;
		*released += t->blocks[i].size;
		t->blocks[i] = t->blocks[--t->n];
	}
	return 0;
}

static const struct gp_option toy_options[] = {
	{ .name = "defect",
	  .help = "what is wrong with it",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct toy, defect),
	  .default_text = "none",
	  .choices = toy_defects },
	{ .name = "refuse_above",
	  .help = "refuse larger requests",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct toy, refuse_above),
	  .default_text = "0",
	  .max = GP_SIZE_MAX },
	{ .name = "hold_above",
	  .help = "call larger requests held",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct toy, hold_above),
	  .default_text = "0",
	  .max = GP_SIZE_MAX },
	{ .name = "count",
	  .help = "most blocks",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct toy, count),
	  .default_text = "0" },
	{ .name = "unused",
	  .help = "nothing",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct toy, unused),
	  .default_text = "false" },
	{ .name = NULL },
};

extern const struct gp_allocator_ops gp_toy_ops;
const struct gp_allocator_ops gp_toy_ops = {
	.name = "toy",
	.summary = "for tests of the engine",
	.caps = GP_CAP_ANY_SIZE | GP_CAP_COALESCES,
	.state_size = sizeof(struct toy),
	.options = toy_options,
	.init = toy_init,
	.fini = toy_fini,
	.alloc = toy_alloc,
	.free = toy_free,
	.usage = toy_usage,
	.check = toy_check,
	.trim = toy_trim,
};
