/* SPDX-License-Identifier: Apache-2.0
 *
 * lists: blocks of powers of two that are never cut, joined or given back: about the least that an
 * allocator can do which is told an address at the free, and so the floor for the others.
 *
 * Shape       block i is at address (i + 1) << LG_STRIDE, so that finding it is a shift; a record of
 *             8 bytes for each, linked into the free list of its order and stream
 *                lifo   the list's head is the block freed last
 *                fifo   blocks are taken from the other end
 * Cost        alloc, free: O(1), a line of the record and one of the list
 * Waste       the sum over all orders of each one's own peak: 1.2 to 2.5 x load on the recordings
 * Not done    memory: addresses are made up, no device is asked
 * Threads     one at a time
 */
#include "allocators/allocator.h"

#include <errno.h>
#include <stdlib.h>

#define LG_STRIDE 32 /* of addresses, not of memory */
#define STREAMS   64
#define ORDERS    41
#define NIL       0 /* record 0 is none */

struct block {
	uint32_t next;
	uint8_t order, stream;
	bool live;
};

struct list {
	uint32_t head, tail;
};

struct lists {
	unsigned order; /* option */

	struct block *blocks;
	uint32_t n, cap;
	uint64_t live, granted, reserved;
	struct list free[STREAMS][ORDERS];
};

enum { LIFO, FIFO };

static int lists_init(struct gp_allocator *a)
{
	struct lists *l = gp_state(a);

	l->cap = 1024;
	l->n = 1;
	l->blocks = calloc(l->cap, sizeof(*l->blocks));
	return l->blocks ? 0 : -ENOMEM;
}

static void lists_fini(struct gp_allocator *a)
{
	free(((struct lists *)gp_state(a))->blocks);
}

/* A new record; NIL: no memory. */
static GP_NOINLINE uint32_t lists_grow(struct lists *l, unsigned order, unsigned stream)
{
	struct block *grown;

	if (l->n == l->cap) {
		grown = realloc(l->blocks, 2 * (size_t)l->cap * sizeof(*grown));
		if (!grown)
			return NIL;
		l->blocks = grown;
		l->cap *= 2;
	}
	l->blocks[l->n] = (struct block){ .order = (uint8_t)order, .stream = (uint8_t)stream };
	l->reserved += UINT64_C(1) << order;
	return l->n++;
}

static int lists_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct lists *l = gp_state(a);
	unsigned order = gp_ceil_log2(req->size);
	struct list *list = &l->free[req->stream % STREAMS][order];
	uint32_t i = list->head;

	if (GP_LIKELY(i))
		list->head = l->blocks[i].next;
	else
		i = lists_grow(l, order, req->stream % STREAMS);
	if (GP_UNLIKELY(!i))
		return -ENOMEM;
	l->blocks[i].live = true;
	l->live++;
	l->granted += UINT64_C(1) << order;
	out->addr = (uint64_t)i << LG_STRIDE;
	out->granted = UINT64_C(1) << order;
	return 0;
}

static int lists_free(struct gp_allocator *a, uint64_t addr)
{
	struct lists *l = gp_state(a);
	uint32_t i = (uint32_t)(addr >> LG_STRIDE);
	struct block *b = &l->blocks[i];
	struct list *list;

	if (i >= l->n || !b->live)
		return i < l->n ? -EALREADY : -EINVAL;
	list = &l->free[b->stream][b->order];
	b->live = false;
	l->live--;
	l->granted -= UINT64_C(1) << b->order;
	if (l->order == LIFO) {
		b->next = list->head;
		list->head = i;
		return 0;
	}
	b->next = NIL;
	if (list->head)
		l->blocks[list->tail].next = i;
	else
		list->head = i;
	list->tail = i;
	return 0;
}

static void lists_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct lists *l = gp_state(a);

	*out = (struct gp_usage){ .live_blocks = l->live,
				  .granted_bytes = l->granted,
				  .reserved_bytes = l->reserved };
}

static const char *const lists_orders[] = { "lifo", "fifo", NULL };

static const struct gp_option lists_options[] = {
	{ .name = "order",
	  .help = "which free block is taken: the one freed last, or first",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct lists, order),
	  .default_text = "lifo",
	  .choices = lists_orders },
	{ .name = NULL },
};

const struct gp_allocator_ops gp_lists_ops = {
	.name = "lists",
	.summary = "free lists of powers of two, never cut or joined; no device",
	.state_size = sizeof(struct lists),
	.options = lists_options,
	.init = lists_init,
	.fini = lists_fini,
	.alloc = lists_alloc,
	.free = lists_free,
	.usage = lists_usage,
};
