/* SPDX-License-Identifier: Apache-2.0
 *
 * program: what a timed pass executes. A trace holds what happened; a program holds only what calls
 * an allocator or the device, in the order of the calls, with everything resolved beforehand:
 *
 *   ALLOC   an allocation of at least one byte
 *   FREE    at the free or, for a deferred one, at its reclaim
 *   DEFER, COMPLETE   instead, at both, where the allocator keeps deferred frees (gp_can_defer)
 *   TRIM, SYNC
 *
 * Zero-byte allocations and their frees never reach an allocator (gp_alloc) and are left out.
 */
#ifndef GP_PROGRAM_H
#define GP_PROGRAM_H

#include "allocators/allocator.h"
#include "trace.h"

enum gp_action {
	GP_ACTION_NONE, /* calls nothing; not in a program */
	GP_ACTION_ALLOC,
	GP_ACTION_FREE,
	GP_ACTION_DEFER,
	GP_ACTION_COMPLETE,
	GP_ACTION_TRIM,
	GP_ACTION_SYNC,
};

/* 32 bytes. The request is embedded so that the loop passes a pointer and copies nothing. */
struct gp_action_op {
	struct gp_request req; /* ALLOC */
	uint32_t id;           /* ALLOC .. COMPLETE: indexes the array of addresses */
	uint32_t event;        /* index in the trace */
	uint8_t action;        /* enum gp_action */
};

_Static_assert(sizeof(struct gp_action_op) <= 32, "two operations to a cache line");

struct gp_program {
	struct gp_action_op *ops;
	size_t n_ops;
	uint32_t n_ids;
};

static inline bool gp_action_frees(uint8_t action)
{
	return action >= GP_ACTION_FREE && action <= GP_ACTION_COMPLETE;
}

/* What event `i` of the trace calls when it is replayed without deferred frees. */
enum gp_action gp_program_action(const struct gp_trace *trace, size_t i);

/* The whole trace in recorded order. With two threads and more, each request carries the number of
 * the thread that is to make it: the recorded one, modulo `threads`, where the recording has
 * several; else blocks are dealt round, and a block's free stays with it. With 0 and 1, all carry
 * 0. 0 or -ENOMEM. */
int gp_program_compile(const struct gp_trace *trace, unsigned threads, struct gp_program *out);
/* The same, for one thread and an allocator that keeps deferred frees. */
int gp_program_compile_deferring(const struct gp_trace *trace, struct gp_program *out);
/* Splits a program compiled for `threads` into out[threads], each in recorded order. 0 or -ENOMEM,
 * nothing to undo then. */
int gp_program_split(const struct gp_program *whole, unsigned threads, struct gp_program *out);
/* Drops what comes after event `last`. */
void gp_program_cut(struct gp_program *p, size_t last);
void gp_program_fini(struct gp_program *p);

#endif
