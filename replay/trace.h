/* SPDX-License-Identifier: Apache-2.0
 *
 * trace: a recorded or generated stream of allocations, whole in memory and already checked.
 *
 *   file --formats/ reader--> gp_trace_builder --finish--> struct gp_trace
 *
 * A reader (formats/) recognises a file by content and feeds the builder, which is the only place
 * where rules are checked: whatever the format, the same trace is refused for the same reason.
 */
#ifndef GP_TRACE_H
#define GP_TRACE_H

#include <stdio.h>

#include "allocators/base.h"
#include "event.h"

struct gp_trace {
	char *name, *source, *device_name; /* from the file; "" when not given, never NULL */
	char *path;                        /* where it came from */
	uint64_t device_bytes;             /* memory of the recorded device; 0: not given */
	struct gp_event *events;
	size_t n_events;
	uint64_t *addrs; /* [event]: recorded address of ALLOC and SEGMENT_*; NULL: none recorded */
	uint8_t *pools;  /* [event]: private pool of the same; 0: the default; NULL: all 0 */
	uint32_t n_ids;  /* = number of ALLOC events */
	uint32_t n_streams, n_threads;
	uint64_t *stream_handles; /* [n_streams]: as the recording spells them */
	uint64_t *thread_handles; /* [n_threads]: the same                     */
	char **marks;
	uint32_t n_marks;
	/* Totals. */
	uint64_t n_allocs, n_frees;
	uint64_t load_bytes; /* most requested bytes live at once; live until RECLAIM, else FREE */
	uint64_t load_event; /* where that is first reached */
	/* ALLOC events at the front that no recording holds: blocks that were live when it began.
	 */
	uint64_t n_assumed, assumed_bytes;
	/* What the file does not say, or what reading it left out: a sentence each, for people. */
	char **notes;
	uint32_t n_notes;
	const char *format; /* name of the reader; "" when built otherwise */
	/* Where events, addrs, pools and the handles lie when a file is used as it is (trace_image.h):
	 * read only. map_bytes: it was mapped; 0: it is from malloc, or there is none. */
	void *map;
	size_t map_bytes;
	/* --lenient: what was skipped, by kind; 0 everywhere otherwise. */
	uint64_t skipped[8]; /* enum gp_skip */
};

static inline uint8_t gp_trace_pool(const struct gp_trace *t, size_t i)
{
	return t->pools ? t->pools[i] : 0;
}

enum gp_skip {
	GP_SKIP_UNKNOWN_OP,
	GP_SKIP_BAD_EVENT, /* wrong type, missing or impossible value */
	GP_SKIP_DUPLICATE_ID,
	GP_SKIP_UNKNOWN_ID,
	GP_SKIP_TIME_BACK,     /* kept, with the time of the event before */
	GP_SKIP_DUPLICATE_KEY, /* the last one counts */
	GP_SKIP_UNKNOWN_KEY,   /* of an event; the rest of it is kept */
	GP_SKIP_TAIL,          /* truncated file or trailing garbage */
	GP_SKIP_N
};

const char *gp_skip_name(enum gp_skip kind);
/* A sentence for people, where nothing more is known. */
const char *gp_skip_text(enum gp_skip kind);

/* Something that lenient reading left out or put right. */
struct gp_trace_issue {
	enum gp_skip kind;
	uint64_t line;    /* of the file; 0: it has none */
	uint64_t event;   /* how many events were met so far, this one included */
	const char *text; /* what is wrong, what was expected; valid during the call */
};

/* Which memory, where a recording holds several kinds. */
enum gp_memory_kind {
	GP_MEMORY_DEVICE, /* of the GPU, not managed */
	GP_MEMORY_HOST,   /* pinned, pageable: whatever is not the GPU's */
	GP_MEMORY_ANY,
};

struct gp_trace_options {
	bool lenient;
	bool has_gpu; /* recordings of several GPUs: take this one; else the busiest, */
	uint32_t gpu; /* with a note that says so                                     */
	enum gp_memory_kind memory;
	bool inclusive_ends; /* lifetimes (minimalloc): the end itself is still live */
	/* Progress, called now and then with bytes read and the total (0: not known); may be NULL.
	 */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *progress_arg;
	/* Lenient: called for each thing that is counted in `skipped`; may be NULL. */
	void (*issue)(void *arg, const struct gp_trace_issue *issue);
	void *issue_arg;
};

/* Loads a file of any known format, gzipped or not; path "-" is standard input. 0, or -errno with
 * one line in `why`: "FILE:LINE: what is wrong, what was expected" (-EINVAL: the content; -ENOENT,
 * -EISDIR, ...: the file). options may be NULL. */
int gp_trace_load(const char *path, const struct gp_trace_options *options, struct gp_trace **out,
		  char *why, size_t why_size);
/* NULL is fine. Returns NULL. */
struct gp_trace *gp_trace_destroy(struct gp_trace *t);

/* ---- for readers and generators ---- */

struct gp_trace_builder;

/* What the functions below take for a line where a file has none: an offset from 0, or the number of
 * an event as the file counts them. */
#define GP_TRACE_BYTE  (UINT64_C(1) << 63) /* + N: "PATH: byte N: ..."  */
#define GP_TRACE_EVENT (UINT64_C(1) << 62) /* + N: "PATH: event N: ..." */
#define GP_TRACE_WHOLE GP_TRACE_EVENT      /* "PATH: ...": the file as a whole */

#define GP_TRACE_POOL_MAX UINT8_MAX

/* One event as a file spells it. */
struct gp_trace_record {
	enum gp_op op;
	uint64_t id;     /* ALLOC, FREE, RECLAIM */
	uint64_t size;   /* ALLOC, SEGMENT_*, OOM */
	uint64_t align;  /* ALLOC; 0: none; else a power of two */
	uint64_t stream; /* any value: made dense */
	uint64_t thread; /* any value: made dense */
	uint64_t t_ns;
	uint64_t addr;    /* 0: none */
	uint64_t pool;    /* ALLOC, SEGMENT_*: the private pool, at most GP_TRACE_POOL_MAX */
	const char *mark; /* MARK: the name */
	bool assumed;     /* ALLOC: was live when the recording began. May be added at any time
			   * before its free; goes to the front, at time 0 */
};

/* Event i of a trace as a file would spell it; the ids count from 1. The mark is the trace's. */
void gp_trace_record_at(const struct gp_trace *t, size_t i, struct gp_trace_record *out);

struct gp_trace_builder *gp_trace_builder_create(const char *path,
						 const struct gp_trace_options *options);
struct gp_trace_builder *gp_trace_builder_destroy(struct gp_trace_builder *b);
/* Any may be NULL / 0. Copied. */
int gp_trace_builder_header(struct gp_trace_builder *b, const char *name, const char *source,
			    const char *device_name, uint64_t device_bytes);
/* line: position in the file for messages; 0: "event N" instead. 0, -EINVAL (why() says), -ENOMEM.
 */
int gp_trace_builder_add(struct gp_trace_builder *b, const struct gp_trace_record *r,
			 uint64_t line);
/* A reader's own refusal, in the same form; returns -EINVAL. Under lenient, use _skip. */
int gp_trace_builder_refuse(struct gp_trace_builder *b, uint64_t line, const char *fmt, ...)
	GP_PRINTF(3, 4);
/* What lenient reading may leave out. Lenient: counts it, tells the issue callback and returns
 * GP_REFUSED: go on without it. Strict: the refusal, -EINVAL. */
int gp_trace_builder_problem(struct gp_trace_builder *b, enum gp_skip kind, uint64_t line,
			     const char *fmt, ...) GP_PRINTF(4, 5);
/* The same where there is more to do than to refuse: lenient, counts and returns true; strict,
 * returns false, and the reader refuses. */
bool gp_trace_builder_skip(struct gp_trace_builder *b, enum gp_skip kind);
const char *gp_trace_builder_why(const struct gp_trace_builder *b);
/* What was asked for. */
const struct gp_trace_options *gp_trace_builder_options(const struct gp_trace_builder *b);
/* Adds a sentence to the trace's notes; the same one twice counts once. 0 or -ENOMEM. */
int gp_trace_builder_note(struct gp_trace_builder *b, const char *fmt, ...) GP_PRINTF(2, 3);
/* Ends the building: *out is owned by the caller, the builder is only fit for destroy. */
int gp_trace_builder_finish(struct gp_trace_builder *b, struct gp_trace **out);

#endif
