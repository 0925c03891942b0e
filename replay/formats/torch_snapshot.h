/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_snapshot: what torch.cuda.memory._dump_snapshot() writes, one meaning for its pickle and
 * its JSON form.
 *
 *   dict, list, bottom up ──torch_dict.c──> events, live blocks, annotations ──torch_feed.c──>
 * trace
 *
 *   {"segments": [{"device", "address", "stream", "blocks": [{"size", "state", ...}]}],
 *    "device_traces": [[{"action", "addr", "size", "stream", "time_us"}, ...], one list a GPU],
 *    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "..."},
 *    "external_annotations": [{"stage", "name", "device", "time_us"}]}
 *
 * Which GPU the trace is about is known when all were read, and how the blocks stand at the end is
 * written before the events. So both are put aside, 40 bytes each, and given away while the builder
 * takes them over.
 *
 * Positions   `at` is what gp_trace_builder_refuse() takes: a line, or GP_TRACE_BYTE + offset.
 * Threads     caller serialises.
 */
#ifndef GP_TORCH_SNAPSHOT_H
#define GP_TORCH_SNAPSHOT_H

#include "plain.h"
#include "replay/id_map.h"
#include "replay/trace.h"

/* The strings that matter. Keys first: a dict has a place for each. */
enum gp_torch_word {
	GP_TORCH_ACTION,
	GP_TORCH_ADDR,
	GP_TORCH_SIZE,
	GP_TORCH_STREAM,
	GP_TORCH_TIME_US,
	GP_TORCH_DEVICE_FREE,
	GP_TORCH_STATE,
	GP_TORCH_ADDRESS,
	GP_TORCH_REQUESTED_SIZE,
	GP_TORCH_REAL_SIZE,
	GP_TORCH_HISTORY,
	GP_TORCH_BLOCKS,
	GP_TORCH_DEVICE,
	GP_TORCH_TOTAL_SIZE,
	GP_TORCH_NAME,
	GP_TORCH_STAGE,
	GP_TORCH_SEGMENTS,
	GP_TORCH_DEVICE_TRACES,
	GP_TORCH_ALLOCATOR_SETTINGS,
	GP_TORCH_EXTERNAL_ANNOTATIONS,
	GP_TORCH_ALLOC_CONF,
	GP_TORCH_POOL_ID,
	GP_TORCH_SEGMENT_POOL_ID,
	GP_TORCH_KEYS,

	/* Values of "action". */
	GP_TORCH_ALLOC = GP_TORCH_KEYS,
	GP_TORCH_FREE, /* made by viewers: the two below at once */
	GP_TORCH_FREE_REQUESTED,
	GP_TORCH_FREE_COMPLETED,
	GP_TORCH_SEGMENT_ALLOC,
	GP_TORCH_SEGMENT_FREE,
	GP_TORCH_SEGMENT_MAP,
	GP_TORCH_SEGMENT_UNMAP,
	GP_TORCH_OOM,
	GP_TORCH_SNAPSHOT,
	GP_TORCH_USER_DEFINED,
	/* Of "state". */
	GP_TORCH_ACTIVE_ALLOCATED,
	GP_TORCH_ACTIVE_PENDING_FREE,
	GP_TORCH_ACTIVE_AWAITING_FREE, /* as the documentation spells it */
	GP_TORCH_INACTIVE,
	/* Of "stage". */
	GP_TORCH_START,
	GP_TORCH_END,
	GP_TORCH_WORDS
};

#define GP_TORCH_NO_WORD UINT32_MAX

/* What a dict turned out to be; of a list, what it is a list of. */
enum gp_torch_tag {
	GP_TORCH_TAG_NONE,
	GP_TORCH_TAG_EVENT,
	GP_TORCH_TAG_TRACE, /* a list of events; also an empty list */
	GP_TORCH_TAG_BLOCK,
	GP_TORCH_TAG_SEGMENT,
	GP_TORCH_TAG_ANNOTATION,
	GP_TORCH_TAG_HISTORY,
	GP_TORCH_TAG_SETTINGS,
	GP_TORCH_TAG_SNAPSHOT,
	GP_TORCH_TAG_NUMBERS, /* a list of whole numbers; `number`: made of them */
	GP_TORCH_TAG_MIXED,   /* of a list: this and that */
	GP_TORCH_TAG_SKIPPED, /* lenient: left out, and counted */
};

/* A dict on its way in. */
struct gp_torch_dict {
	uint32_t seen; /* bit per key */
	struct gp_plain value[GP_TORCH_KEYS];
};

struct gp_torch_event {
	uint64_t addr; /* of an OOM: what the device had left */
	uint64_t size;
	uint64_t stream;
	uint64_t time_us; /* 0: not recorded */
	uint8_t action;   /* enum gp_torch_word */
	uint8_t pool;     /* meaningful when it has */
	bool has_pool;
};

/* A block in use when the snapshot was taken. */
struct gp_torch_block {
	uint64_t addr;
	uint64_t size; /* requested */
	uint64_t stream;
	uint64_t true_size; /* rounded; until the segment is known */
	uint32_t device;
	uint8_t state; /* enum gp_torch_word */
	bool has_addr; /* until the segment is known */
};

/* A segment of a private pool that was there when the snapshot was taken. */
struct gp_torch_segment {
	uint64_t addr, size;
	uint64_t since; /* number of the event that took it; 0: before the recording */
	uint32_t device;
	uint8_t pool;
};

struct gp_torch_annotation {
	uint64_t time_us;
	uint32_t text;   /* which text names it */
	uint32_t device; /* GP_TORCH_ANY_DEVICE: not told */
};

#define GP_TORCH_ANY_DEVICE  UINT32_MAX
#define GP_TORCH_DEVICES_MAX 4096u
#define GP_TORCH_TEXTS_MAX   (1u << 24)
#define GP_TORCH_CHUNK       ((uint64_t)4096) /* events */

struct gp_torch_range {
	uint64_t first, n;
};

struct gp_torch {
	struct gp_trace_builder *builder;
	/* Events of all devices, in chunks, so that they can go one by one. */
	struct gp_torch_event **chunks;
	uint64_t n_events;
	size_t chunks_capacity;
	struct gp_torch_range *traces; /* events of GPU 0, 1, ... */
	uint64_t n_traces;
	size_t traces_capacity;
	struct gp_torch_block *blocks;
	uint64_t n_blocks;
	size_t blocks_capacity;
	struct gp_torch_segment *segments;
	uint64_t n_segments;
	size_t segments_capacity;
	struct gp_id_map pool_map; /* PyTorch's name of a private pool -> which, from 0 */
	struct gp_torch_annotation *annotations;
	uint64_t n_annotations;
	size_t annotations_capacity;
	char **texts;
	uint64_t n_texts;
	size_t texts_capacity;
	struct gp_id_map text_map; /* hash of a text -> which */
	/* The snapshot's own dict. */
	struct gp_torch_range device_traces; /* of traces */
	bool has_state;                      /* how the blocks stand at the end */
	bool has_settings;
	uint64_t settings; /* which text; meaningful when it has */
	bool cut;          /* the file breaks off */
};

void gp_torch_init(struct gp_torch *s, struct gp_trace_builder *b);
void gp_torch_fini(struct gp_torch *s);

/* ---- torch_words.c ---- */

uint32_t gp_torch_word(const char *text, size_t n);
const char *gp_torch_word_name(uint32_t word);
/* The value of this key is kept when it is no word. */
bool gp_torch_keeps(uint32_t word);
/* Keeps a text, once; *out says which it is. 0 or -ENOMEM. */
int gp_torch_text(struct gp_torch *s, const char *text, size_t n, uint64_t *out);

/* ---- torch_dict.c: 0, or the negative number that ends the reading ---- */

/* All keys of a dict were read: *out gets its tag and number. */
int gp_torch_dict(struct gp_torch *s, const struct gp_torch_dict *d, uint64_t at,
		  struct gp_plain *out);
/* Adds an item. */
int gp_torch_list(struct gp_torch *s, struct gp_plain *list, const struct gp_plain *item,
		  uint64_t at);
/* The outermost value was read. */
int gp_torch_top(struct gp_torch *s, const struct gp_plain *top, uint64_t at);
/* The file breaks off there, and lenient reading wants what it has. `lists`: traces read so far
 * that have not found their way into the list of all, the one at work being the last. */
int gp_torch_cut(struct gp_torch *s, const struct gp_plain *lists, size_t n);

/* ---- torch_pools.c ---- */

/* The number of the pool that goes by this id, two numbers of PyTorch's. 0 or -ENOMEM. */
int gp_torch_pool(struct gp_torch *s, const struct gp_plain *id, uint8_t *pool);
/* These events of this GPU it will be about: to be called before those below. */
void gp_torch_pools_begin(struct gp_torch *s, uint32_t device, struct gp_torch_range events);
/* The pool of what event `number` (from 1; 0: what was before) does there. */
uint8_t gp_torch_pool_at(const struct gp_torch *s, uint64_t addr, uint64_t number);

/* ---- torch_feed.c ---- */

/* Makes the trace of it. */
int gp_torch_feed(struct gp_torch *s);

/* ---- what these share ---- */

static inline struct gp_torch_event *gp_torch_event_at(const struct gp_torch *s, uint64_t i)
{
	return &s->chunks[i / GP_TORCH_CHUNK][i % GP_TORCH_CHUNK];
}

/* Room for one more at the end of *array. 0 or -ENOMEM. */
int gp_torch_reserve(void *array, uint64_t n, size_t *capacity, size_t element_size);

#endif
