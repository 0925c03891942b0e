/* SPDX-License-Identifier: Apache-2.0
 *
 * explain: why a request failed, from what the curve pass knows at that moment.
 *
 *   explain.c         the facts, and the class of failure that follows from them
 *   explain_pins.c    which blocks keep the emptiest memory from being one piece
 *   explain_try.c     which other setting would have served it
 *
 * Cost        once a run, at its first failure: a pass over the trace up to there, and a sort of
 *             the live blocks and the holes. Trying settings replays the trace once for each, and
 *             is done only where it is asked for (gp_engine_config.explain).
 * Limits      who may use a hole is known of `torch` alone; of others, which hole lies where.
 */
#ifndef GP_EXPLAIN_H
#define GP_EXPLAIN_H

#include "allocators/allocator.h"

/* From what no allocator can help to what only this one cannot; the first that holds. */
enum gp_oom_class {
	GP_OOM_REFUSED,       /* not a request that this allocator serves, by its own rule      */
	GP_OOM_OVER_CAPACITY, /* requested bytes and this one exceed the device                 */
	GP_OOM_LIMIT,         /* the device had room; a limit of the allocator's own forbade it */
	GP_OOM_STREAM_HELD,   /* a piece is free, on a stream it cannot be taken from           */
	GP_OOM_POOL_HELD,     /* a piece is free, in a pool it cannot be taken from             */
	GP_OOM_ROUNDING,      /* requested bytes would fit; rounded up, they do not             */
	GP_OOM_FRAGMENTATION, /* enough is free, in pieces that are too small                   */
	GP_OOM_N
};

const char *gp_oom_class_name(enum gp_oom_class c); /* the JSON key: "over_capacity", ... */

/* A block that was live. */
struct gp_oom_block {
	uint64_t addr, requested, granted;
	uint64_t event;              /* that allocated it */
	uint64_t age_events, age_ns; /* since then */
	uint32_t stream;             /* dense */
	bool assumed;                /* older than the recording */
};

#define GP_OOM_PINS       3
#define GP_OOM_PIN_BLOCKS 4

/* Memory that would be one piece, were it not for a few blocks (explain_pins.c says which). */
struct gp_oom_pin {
	struct gp_range range;
	uint64_t live_bytes, live_blocks; /* in it, also in part */
	bool whole;                       /* a reservation of its own, which could go back */
	struct gp_oom_block blocks[GP_OOM_PIN_BLOCKS]; /* the largest, in that order */
	size_t n_blocks;
};

/* What one stream holds. */
struct gp_oom_stream {
	uint32_t stream; /* dense */
	uint64_t handle; /* as the recording spells it */
	uint64_t live_blocks, requested_bytes, granted_bytes;
	uint64_t deferred_bytes; /* of the granted ones: freed, still in use on another stream */
	uint64_t free_bytes, largest_bytes; /* cached for it, where knows_pools */
};

/* A replay with one option changed. */
struct gp_oom_setting {
	char text[64];          /* "streams=ignore" */
	char spec[256];         /* "buddy:min_block=4K,streams=ignore" */
	bool survived;          /* the whole trace */
	uint64_t first_event;   /* that failed, where it did not */
	uint64_t peak_reserved; /* until there */
};

struct gp_oom {
	enum gp_oom_class cause;
	uint64_t event, t_ns;
	uint64_t size, granted; /* asked for; what this allocator makes of it */
	uint64_t segment;       /* least that it asks of the device for it */
	uint32_t stream;        /* dense */
	uint64_t stream_handle;
	uint64_t capacity, limit;                   /* of the device; of the allocator, 0: none */
	uint64_t requested, granted_live, reserved; /* Q, G, R */
	uint64_t live_blocks;
	uint64_t device_free;                       /* capacity - R */
	uint64_t free_bytes, n_holes, largest_hole; /* in R */
	bool knows_pools;
	bool large;                       /* the request's pool, where known: for large requests? */
	uint8_t pool;                     /* 0, or its private pool */
	uint64_t pool_free, pool_largest; /* of the request's stream in it */
	uint64_t growth;                  /* what the allocator may still take of the device */
	uint64_t largest_piece;           /* of what the request could have: a hole, or growth */
	uint64_t held_stream_bytes;       /* the largest piece on another stream in it */
	uint64_t held_pool_bytes;         /* the largest piece in another pool */
	struct gp_oom_stream *streams;    /* those with anything, by dense index */
	size_t n_streams;
	struct gp_oom_pin pins[GP_OOM_PINS]; /* the most promising first */
	size_t n_pins;
	bool tried;                      /* settings were */
	struct gp_oom_setting *settings; /* in the order of trial: the nearest first */
	size_t n_settings;
	size_t best; /* n_settings: none of them serves this request */
};

struct gp_oom *gp_oom_destroy(struct gp_oom *oom); /* NULL is fine. Returns NULL. */

/* ---- for the curve pass ---- */

struct gp_action_op;
struct gp_job;
struct gp_metrics;
struct gp_session;
struct gp_shadow;

/* What is known when a request has failed. */
struct gp_explain {
	struct gp_job *job;
	struct gp_session *s;
	struct gp_metrics *metrics;
	const struct gp_shadow *shadow; /* [id] */
	const struct gp_action_op *op;  /* the request */
	int outcome;                    /* enum gp_outcome */
};

/* A live block or a hole; in the order of their addresses. */
struct gp_piece {
	uint64_t addr, size;
	uint64_t tag; /* of gp_metrics: pieces that touch and have the same are of one range */
	uint32_t id;  /* of the block; GP_PIECE_HOLE */
};

#define GP_PIECE_HOLE UINT32_MAX

/* NULL: no host memory for it. */
struct gp_oom *gp_explain(const struct gp_explain *x);
/* Fills in oom->pins, but for what the trace knows of the blocks: their ids go to ids[pin][block].
 * need: bytes that the request takes. */
void gp_explain_pins(struct gp_oom *oom, const struct gp_piece *pieces, size_t n, uint64_t need,
		     uint32_t ids[GP_OOM_PINS][GP_OOM_PIN_BLOCKS]);
/* Replays with other settings. 0 or -ENOMEM. */
int gp_explain_try(struct gp_job *job, struct gp_oom *oom);

#endif
