/* SPDX-License-Identifier: Apache-2.0
 *
 * allocator: the one interface behind which every allocator sits, and the one header to read
 * before writing one. alloc_skeleton.c is a complete small example.
 *
 *   gp_allocator_create("buddy:min_block=512", ...)  ->  ops->init
 *       gp_alloc, gp_free    the hot path: straight to the hooks
 *       gp_usage             O(1) totals
 *       gp_trim, gp_check, gp_walk    optional hooks, with their defaults
 *   gp_allocator_destroy     ->  ops->fini, everything goes back to the device
 *
 * Ownership   a block belongs to the caller from gp_alloc to gp_free; the address is all that the
 *             caller need keep, as with cudaFree, so finding the block is the allocator's work.
 * Streams     a block may be used on the stream it was asked for from the moment it is handed
 *             out. Memory freed on stream s is reusable at once on s; before another stream gets
 *             it, the allocator makes that stream wait for s (streams.h), at that moment only.
 * Threads     hooks are called by one thread at a time unless caps has GP_CAP_CONCURRENT.
 *             gp_allocator_create puts the `threads` decorator on top when env.threads > 1: an
 *             instance of its own for each thread, by the request's number (GP_CAP_ARENAS), or
 *             one lock; a single-threaded run does not contain it.
 */
#ifndef GP_ALLOCATOR_H
#define GP_ALLOCATOR_H

#include <stdio.h>

#include "base.h"
#include "device/device.h"

struct gp_allocator;

struct gp_request {
	uint64_t size;    /* bytes, as asked for; 1 .. GP_SIZE_MAX inside a hook */
	uint32_t stream;  /* dense index; 0 is the default stream                */
	uint16_t thread;  /* dense index of the caller; 0 in a single-threaded program. Which of
			   * several arenas serves it: a wrong one costs speed, no more */
	uint8_t lg_align; /* log2 of the alignment; below GP_ALIGN means GP_ALIGN */
	uint8_t pool;     /* 0; else a pool of the program's own (a CUDA graph's, a MemPool), whose
			    * memory an allocator that knows of pools keeps apart */
};

struct gp_block {
	uint64_t addr;
	uint64_t granted; /* bytes that are the caller's: >= the size asked for */
};

struct gp_usage {
	uint64_t live_blocks;    /* handed out and not freed                       */
	uint64_t granted_bytes;  /* their granted sizes                            */
	uint64_t reserved_bytes; /* held from the device (or from the tier above)  */
	uint64_t event_waits;    /* stream waits made when memory changed streams  */
};

/* What the allocator claims; the conformance suite holds it to each claim. */
enum gp_cap {
	GP_CAP_CONCURRENT = 1 << 0, /* hooks may run on several threads at once          */
	GP_CAP_ANY_SIZE = 1 << 1,   /* serves every size the device has memory for       */
	GP_CAP_COALESCES = 1 << 2,  /* all blocks freed and trimmed: holds nothing       */
	GP_CAP_DECORATOR = 1 << 3,  /* wraps another allocator; not part of --alloc=all  */
	GP_CAP_GROWS = 1 << 4,      /* takes the options of pool.h (grow, chunk, ...)    */
	GP_CAP_TIER = 1 << 5,       /* works below a parent (gp_allocator_create_under)  */
	GP_CAP_ARENAS = 1 << 6,     /* several instances may serve one program together  */
	GP_CAP_OFFLINE = 1 << 7,    /* wants gp_env.placement; not part of --alloc=all   */
	GP_CAP_STITCHES = 1 << 8,   /* makes one block of several holes: needs virtual memory */
	/* All memory is the driver's own pool's (info.async): the driver orders its reuse across
	 * streams, and may not tell where it lies (info.async_ranges). */
	GP_CAP_DRIVER_POOL = 1 << 9,
};

#define GP_OPTION_TEXT_MAX 96

enum gp_option_type {
	GP_OPTION_SIZE,     /* uint64_t, bytes: 64K, 2MiB, 1048576 */
	GP_OPTION_COUNT,    /* uint64_t                            */
	GP_OPTION_BOOL,     /* bool: true|false, yes|no, 1|0       */
	GP_OPTION_CHOICE,   /* unsigned: index into choices        */
	GP_OPTION_FRACTION, /* double, 0 .. 1                      */
	GP_OPTION_TEXT,     /* char[GP_OPTION_TEXT_MAX], which init makes sense of; a comma only
			     * inside [brackets] */
};

/* One setting of an allocator. The core writes the default, then what the user gave, into the
 * zeroed state before init, which may refuse a combination with -EINVAL and gp_allocator_why. */
struct gp_option {
	const char *name, *help;
	enum gp_option_type type;
	size_t offset;              /* of the value in the allocator's state      */
	const char *default_text;   /* parsed like the user's text                */
	uint64_t min, max;          /* SIZE and COUNT, inclusive                  */
	const char *const *choices; /* CHOICE: NULL-terminated                    */
	bool pow2;                  /* SIZE and COUNT: only powers of two (or 0 where min is 0) */
};

typedef int gp_walk_fn(void *arg, struct gp_range range, bool live);

struct gp_allocator_ops {
	const char *name;                /* [a-z][a-z0-9_]*                       */
	const char *summary;             /* one line for --list                   */
	unsigned caps;                   /* enum gp_cap                           */
	size_t state_size;               /* the core gives this much zeroed state */
	const struct gp_option *options; /* ends with .name == NULL; NULL: none */

	/* Required. */

	/* Options are set, a->dev and a->env are valid. < 0 or GP_NOMEM: nothing to undo. */
	int (*init)(struct gp_allocator *a);
	/* Gives everything back to the device, blocks still live included. */
	void (*fini)(struct gp_allocator *a);
	/* 0, an outcome of enum gp_outcome, or -errno. *out is written only on 0. */
	int (*alloc)(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out);
	/* addr is what alloc gave. -EINVAL: not the start of a block of this allocator's;
	 * -EALREADY: such a block, but it is free (double free). State unchanged unless 0. */
	int (*free)(struct gp_allocator *a, uint64_t addr);
	/* O(1). */
	void (*usage)(const struct gp_allocator *a, struct gp_usage *out);

	/* Optional: NULL means ... */

	/* ... no self-audit. Audits every invariant; 0, or -EILSEQ with a line on `why`. */
	int (*check)(const struct gp_allocator *a, FILE *why);
	/* ... nothing is ever cached. Gives back memory that no live block needs while more than
	 * `keep` bytes are reserved; adds what it gave to *released. */
	int (*trim)(struct gp_allocator *a, uint64_t keep, uint64_t *released);
	/* ... no heap map. Every block and hole of what is reserved, by range in address order of
	 * each; a block made of several pieces of memory is shown as those, where each was mapped
	 * first. Stops when fn returns non-zero and returns that. */
	int (*walk)(const struct gp_allocator *a, gp_walk_fn *fn, void *arg);
	/* ... there are no deferred frees, and the caller frees the block once its last use is over.
	 * defer: the program has freed the block, but other streams still use it; until that is over
	 * it stays granted. Ends are expected in the order of the calls; deferring a block again
	 * moves it to the end. complete: its use is over, and now it is free. An allocator that is
	 * out of memory may wait for the device, which ends all uses: it completes what is pending
	 * itself and tells a->completed, once for each; completing a ticket after that is fine and
	 * does nothing. -EINVAL, -EALREADY as for free. Both hooks or none (gp_can_defer). */
	int (*defer)(struct gp_allocator *a, uint64_t addr, uint32_t ticket);
	int (*complete)(struct gp_allocator *a, uint64_t addr, uint32_t ticket);
};

/* Where each request of a whole program is to be put, relative to one base that is aligned to a page
 * of the device. */
struct gp_placement {
	const uint64_t *offsets; /* [n], in the order of the requests               */
	const uint64_t *sizes;   /* [n], rounded up to GP_ALIGN                     */
	uint32_t n;
	uint64_t height; /* bytes: the highest end                                  */
};

#define GP_ARENAS_MAX 64 /* more threads than that share arenas */

/* What is known about the job beforehand. Zero means not known. */
struct gp_env {
	unsigned threads;      /* threads that will call; 0 and 1 are the same    */
	unsigned arenas;       /* instances that they are spread over; 0: one each */
	unsigned share;        /* this instance is one of so many: of what it preallocates it
				* takes that part; 0 and 1: all */
	const bool *sparing;   /* NULL, or: while true, what is held must do: out of memory
				* instead of growing, and nothing goes back to the device for that */
	unsigned streams;      /* streams that requests name                      */
	uint64_t typical_size; /* 90 % of the requests are at most this large     */
	uint64_t typical_live; /* most of those alive at one moment               */
	/* Which event of the trace made the n-th request (from 1); false: not known. NULL: never. */
	bool (*event_of)(const void *arg, uint64_t request, size_t *event);
	const void *event_arg;
	const struct gp_placement *placement; /* outlives the allocator; NULL: none */
};

struct gp_allocator {
	const struct gp_allocator_ops *ops;
	struct gp_device *dev;
	struct gp_env env;
	struct gp_allocator *inner; /* decorator: what it wraps (owned); tier: the one above it */
	/* Told when the allocator completes a deferred free by itself, just before it uses that
	 * memory; set by whoever calls gp_defer, or NULL. Calls nothing back. */
	void (*completed)(void *arg, uint64_t addr, uint32_t ticket);
	void *completed_arg;
	struct gp_allocator *twin; /* below `threads`: the next of its instances (owned) */
	bool sparing;              /* the same: what env.sparing points to              */
	bool fills;                /* decorator: see gp_fills */
	char why[240];             /* the last refusal or fault, for people */
	_Alignas(16) unsigned char state[];
};

/* For allocators with GP_CAP_ARENAS: must what is held do? Asked before growing. */
static inline bool gp_is_sparing(const struct gp_allocator *a)
{
	return a->env.sparing && *a->env.sparing;
}

/* The allocator's state; the type is the caller's to know. */
static inline void *gp_state(const struct gp_allocator *a)
{
	return (void *)(uintptr_t)a->state;
}

/* Creates an allocator from "NAME[:key=value,...]". Result: 0; -EINVAL with one line in `why`
 * (unknown name or option, with the nearest known one; value out of range); GP_NOMEM when a
 * preallocation does not fit; -errno. env may be NULL. The device must outlive the allocator. */
int gp_allocator_create(const char *spec, struct gp_device *dev, const struct gp_env *env,
			struct gp_allocator **out, char *why, size_t why_size);
/* The same below a parent that memory comes from instead of the device (a tier of `hybrid`);
 * the parent must outlive it.
 * Only for those with GP_CAP_TIER. */
int gp_allocator_create_under(const char *spec, struct gp_allocator *parent,
			      struct gp_allocator **out, char *why, size_t why_size);
/* Wraps `inner` in a decorator, which owns it from then on, also when this fails. */
int gp_allocator_wrap(const char *spec, struct gp_allocator *inner, struct gp_allocator **out,
		      char *why, size_t why_size);
/* NULL is fine. Returns NULL. */
struct gp_allocator *gp_allocator_destroy(struct gp_allocator *a);

/* The registry: what allocators/meson.build lists, in that order. */
size_t gp_allocator_count(void);
const struct gp_allocator_ops *gp_allocator_at(size_t i);
const struct gp_allocator_ops *gp_allocator_find(const char *name);
/* The one that a spec names: "buddy:min_block=512". */
const struct gp_allocator_ops *gp_allocator_named_by(const char *spec);
/* The known allocator nearest to a misspelt name; NULL when none is near. */
const char *gp_allocator_nearest(const char *name);
/* The same among any words, of which the last is NULL. */
const char *gp_nearest_word(const char *word, const char *const *words);
/* Parses a size as the command line writes it: 4096, 64K, 64KiB, 2M, 1.5GiB. false: not one. */
bool gp_parse_size(const char *text, uint64_t *out);
/* Writes the reason why init refuses into a->why; returns err. */
int gp_allocator_why(struct gp_allocator *a, int err, const char *fmt, ...) GP_PRINTF(3, 4);
/* "out of memory", "refused", ... for outcomes; strerror for -errno. */
const char *gp_result_text(int r);

/* The hot path. Zero bytes succeed with address 0, and freeing address 0 does nothing, as
 * cudaMalloc and cudaFree do. */
static inline int gp_alloc(struct gp_allocator *a, const struct gp_request *req,
			   struct gp_block *out)
{
	if (GP_UNLIKELY(req->size - 1 >= GP_SIZE_MAX)) {
		if (req->size)
			return GP_NOMEM;
		*out = (struct gp_block){ 0, 0 };
		return 0;
	}
	return a->ops->alloc(a, req, out);
}

static inline int gp_free(struct gp_allocator *a, uint64_t addr)
{
	return GP_LIKELY(addr) ? a->ops->free(a, addr) : 0;
}

static inline void gp_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	a->ops->usage(a, out);
}

/* Does something around this allocator fill the blocks, and compare them when they are freed? Then
 * the caller must not write into them. */
bool gp_fills(const struct gp_allocator *a);
/* Does this allocator, with all that is wrapped around it, keep deferred frees? */
bool gp_can_defer(const struct gp_allocator *a);
/* Only where it does. */
static inline int gp_defer(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	return addr ? a->ops->defer(a, addr, ticket) : 0;
}

static inline int gp_complete(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	return addr ? a->ops->complete(a, addr, ticket) : 0;
}

int gp_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released);
int gp_check(const struct gp_allocator *a, FILE *why);
/* -ENOTSUP where the allocator has no walk. */
int gp_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg);

#endif
