/* SPDX-License-Identifier: Apache-2.0
 *
 * event: one entry of a trace in memory. Ids, streams and threads are dense (0, 1, 2, ...) by the
 * time an event exists, so that a replay indexes arrays and never hashes.
 */
#ifndef GP_EVENT_H
#define GP_EVENT_H

#include <stdint.h>

enum gp_op {
	GP_OP_ALLOC,
	GP_OP_FREE,
	GP_OP_RECLAIM, /* the freed block becomes reusable only now                */
	GP_OP_SYNC,    /* the device was synchronised                              */
	GP_OP_TRIM,    /* cached memory was given back (torch.cuda.empty_cache)    */
	GP_OP_MARK,    /* a phase begins; id indexes gp_trace.marks                */
	/* What the recorded allocator did. No allocator sees these. */
	GP_OP_SEGMENT_ALLOC,
	GP_OP_SEGMENT_FREE,
	GP_OP_SEGMENT_MAP,
	GP_OP_SEGMENT_UNMAP,
	GP_OP_OOM,
	GP_OP_N
};

/* As the trace formats spell it: "alloc", "segment_map", ... */
const char *gp_op_name(enum gp_op op);

/* Which facts an event of this kind carries; the others are 0. */
enum gp_op_use {
	GP_USE_SIZE = 1,   /* `size` is asked for                            */
	GP_USE_STREAM = 2, /* `stream` is one the program or its driver used */
	GP_USE_THREAD = 4, /* `thread`: the program itself called            */
	GP_USE_ADDR = 8,   /* it may have a recorded address, and a pool     */
};

/* Of a FREE and RECLAIM: what is not its block's. */
unsigned gp_op_uses(enum gp_op op);

#define GP_EVENT_DEFERRED 1 /* FREE: a RECLAIM of the same id follows; `link` is its index */
#define GP_EVENT_ASSUMED  2 /* ALLOC: not recorded; the block was live when the recording began */

/* 32 bytes. */
struct gp_event {
	uint64_t t_ns; /* since the first event; never decreases                            */
	uint64_t size; /* ALLOC, FREE, RECLAIM, SEGMENT_*, OOM: requested bytes             */
	uint32_t id;   /* ALLOC, FREE, RECLAIM: block id, counting the ALLOC events; MARK: which */
	uint32_t link; /* ALLOC: index of its FREE, or GP_EVENT_NONE; FREE: see flags, else index
			* of its ALLOC; RECLAIM: index of its ALLOC                         */
	uint32_t stream; /* dense; of a FREE and RECLAIM: its block's                          */
	uint16_t thread; /* dense; who called                                                 */
	uint8_t op;      /* enum gp_op                                                        */
	uint8_t lg_align_flags; /* low 6 bits: log2 of the alignment asked for (ALLOC); high 2:
				   flags */
};

#define GP_EVENT_NONE UINT32_MAX

static inline unsigned gp_event_lg_align(const struct gp_event *e)
{
	return e->lg_align_flags & 63u;
}

static inline unsigned gp_event_flags(const struct gp_event *e)
{
	return e->lg_align_flags >> 6;
}

_Static_assert(sizeof(struct gp_event) == 32, "an event is half a cache line");

#endif
