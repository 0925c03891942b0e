/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_block: the blocks that the segments of the model of PyTorch's allocator are cut into.
 *
 * Shape       | used | free |  used  |     free     |     prev, next: by address, 0 at both ends
 *             Block 0 is TORCH_NIL: dead, and takes harmless writes. left, right are the links of
 *             what a block is in by its state. The index finds used and pending blocks by their
 *             address; free ones are not in it, so that cutting and joining changes links only
 *             (tiling.h, which has them in, also joins ranges, which segments never do).
 * Cost        everything O(1); 32 bytes a block, and what the index takes for a used one
 * Threads     one at a time
 */
#ifndef GP_TORCH_BLOCK_H
#define GP_TORCH_BLOCK_H

#include "../addr_index.h"

#define TORCH_LG_UNIT 9 /* sizes count in units of 512 bytes: a block is below 2 TiB */
#define TORCH_NIL     0

enum torch_state {
	TORCH_DEAD, /* record not in use; right chains them                  */
	TORCH_USED,
	TORCH_PENDING, /* freed, but in use on other streams; left: its entry   */
	TORCH_FREE,    /* left, right: in the set of its lane (torch_order.h)   */
	TORCH_HOLE,    /* not mapped; right: next hole of its lane              */
};

struct torch_block {
	uint64_t addr;
	uint32_t units;
	uint16_t lane; /* stream and pool (torch_state.h) */
	uint8_t state;
	bool expandable; /* part of an expandable segment */
	uint32_t prev, next;
	uint32_t left, right;
};

_Static_assert(sizeof(struct torch_block) == 32, "two blocks a cache line");

struct torch_blocks {
	struct torch_block *at;
	uint32_t *freed_at; /* [block]: counter of its pool when it was freed; NULL: not kept */
	struct gp_addr_index index;
	uint32_t n, cap; /* records used so far, allocated */
	uint32_t dead;   /* first unused record */
};

int torch_blocks_init(struct torch_blocks *t, bool with_ages);
void torch_blocks_fini(struct torch_blocks *t);
int torch_blocks_grow(struct torch_blocks *t);

static inline uint64_t torch_bytes(const struct torch_block *b)
{
	return (uint64_t)b->units << TORCH_LG_UNIT;
}

/* Room for n more blocks, and for one more that is used. */
static inline int torch_blocks_room(struct torch_blocks *t, uint32_t n)
{
	if (GP_UNLIKELY(t->n + n > t->cap)) {
		int r = torch_blocks_grow(t);

		if (r)
			return r;
	}
	return gp_addr_index_reserve(&t->index, 1);
}

/* The used or pending block that starts at addr; TORCH_NIL: none. */
static inline uint32_t torch_blocks_find(const struct torch_blocks *t, uint64_t addr)
{
	uint32_t n = gp_addr_index_find(&t->index, addr >> TORCH_LG_UNIT);

	return GP_LIKELY(n != GP_INDEX_NONE && t->at[n].addr == addr) ? n : TORCH_NIL;
}

/* A block in no set is handed out; room is there. */
static inline void torch_block_use(struct torch_blocks *t, uint32_t n)
{
	t->at[n].state = TORCH_USED;
	gp_addr_index_add(&t->index, t->at[n].addr >> TORCH_LG_UNIT, n);
}

/* And taken back. */
static inline void torch_block_unuse(struct torch_blocks *t, uint32_t n)
{
	gp_addr_index_remove(&t->index, t->at[n].addr >> TORCH_LG_UNIT);
}

static inline uint32_t torch_block_record(struct torch_blocks *t)
{
	uint32_t n = t->dead;

	if (GP_LIKELY(n))
		t->dead = t->at[n].right;
	else
		n = t->n++;
	return n;
}

static inline void torch_block_forget(struct torch_blocks *t, uint32_t n)
{
	t->at[n].state = TORCH_DEAD;
	t->at[n].right = t->dead;
	t->dead = n;
}

/* Cuts the first `units` off block n, which is in no set: they become its left neighbour, which is
 * returned, like it in all else. Room is there. */
static inline uint32_t torch_block_cut(struct torch_blocks *t, uint32_t n, uint32_t units)
{
	uint32_t front = torch_block_record(t);
	struct torch_block *b = &t->at[n];

	t->at[front] = *b;
	t->at[front].units = units;
	t->at[front].next = n;
	t->at[b->prev].next = front;
	b->prev = front;
	b->units -= units;
	b->addr += (uint64_t)units << TORCH_LG_UNIT;
	return front;
}

/* Block n takes in a neighbour; neither is used or in a set. */
static inline void torch_block_take_left(struct torch_blocks *t, uint32_t n)
{
	struct torch_block *b = &t->at[n];
	uint32_t left = b->prev;

	b->units += t->at[left].units;
	b->addr = t->at[left].addr;
	b->prev = t->at[left].prev;
	t->at[b->prev].next = n;
	torch_block_forget(t, left);
}

static inline void torch_block_take_right(struct torch_blocks *t, uint32_t n)
{
	struct torch_block *b = &t->at[n];
	uint32_t right = b->next;

	b->units += t->at[right].units;
	b->next = t->at[right].next;
	t->at[b->next].prev = n;
	torch_block_forget(t, right);
}

/* Is this block all there is of its segment? */
static inline bool torch_block_alone(const struct torch_block *b)
{
	return !b->prev && !b->next;
}

/* A segment as one block in no set; room for one is there. */
uint32_t torch_block_add(struct torch_blocks *t, struct gp_range segment, uint16_t lane,
			 bool expandable);
/* Why no block can be freed at this address: -EALREADY where free memory holds it, else -EINVAL. */
int torch_blocks_refuse(const struct torch_blocks *t, uint64_t addr);
/* What is wrong with how block n fits in; NULL: nothing. */
const char *torch_block_fault(const struct torch_blocks *t, uint32_t n);

#endif
