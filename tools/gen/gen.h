/* SPDX-License-Identifier: Apache-2.0
 *
 * gen: what a pattern is, and what it may call.
 *
 *   pattern_NAME.c --gen_alloc, gen_free--> gen.c (ids, counts, jitter) --> writer.c (text, file)
 *
 * Adding a pattern = one file, pattern_NAME.c, that exports `gen_NAME_pattern`, and one line in
 * gen_pattern_names of tools/meson.build. Its options, --help and --list follow by themselves.
 *
 * Ids         1, 2, 3, ... in the order of allocation; stream and thread of a block follow from
 *             its id (round robin), so that nothing has to be remembered
 * Errors      sticky, as in stdio: after the first, gen_alloc and gen_free do nothing. A pattern
 *             asks gen_ok in its loops so as to stop early, and needs no other check.
 * Threads     caller serialises
 */
#ifndef GEN_GEN_H
#define GEN_GEN_H

#include <signal.h>

#include "allocators/base.h"
#include "rng.h"

struct gen_writer;

enum gen_kind {
	GEN_FLAG, /* takes no value */
	GEN_COUNT,
	GEN_SIZE, /* bytes, with units on the command line */
	GEN_REAL,
};

/* One option of a pattern. The numbers are doubles because they are all small or powers of two. */
struct gen_option {
	const char *name, *arg, *help;
	enum gen_kind kind;
	double initial, min, max;
};

/* A trace holds at most 2^32 events (event.h): an allocation and its free for each of these. */
#define GEN_COUNT_MAX   2147483647.0
#define GEN_BYTES_MAX   0x1.0p60 /* GP_SIZE_MAX */
#define GEN_OPTIONS_MAX 8

/* Options whose meaning is the same in every pattern that takes them. */
#define GEN_OPTION_JITTER                                                                          \
	{                                                                                          \
		"jitter", "F", "vary each size by up to +-F of itself, F in 0 .. 1", GEN_REAL, 0,  \
			0, 1                                                                       \
	}
#define GEN_OPTION_KEEP                                                                            \
	{                                                                                          \
		"keep", NULL, "leave the blocks that are live at the end live", GEN_FLAG, 0, 0, 1  \
	}

struct gen_value {
	uint64_t n; /* FLAG, COUNT, SIZE */
	double x;   /* REAL */
};

struct gen_block {
	uint64_t id, size;
};

/* What can be said before the first event. */
struct gen_plan {
	bool has_load;       /* is there a closed form for these options? */
	uint64_t load_bytes; /* then: most bytes live at once */
};

struct gen {
	const struct gen_pattern *pattern;
	struct gen_value values[GEN_OPTIONS_MAX]; /* in the order of pattern->options */
	uint64_t seed, n_streams, n_threads;
	uint64_t interval_ns; /* between two events; 0: the trace carries no times */
	double jitter;
	bool keep;
	struct gen_plan plan;
	struct gen_rng rng;
	struct gen_writer *writer; /* NULL: count only */
	uint64_t n_expected;       /* events, for the progress; 0: not known */
	/* Both may be NULL; called and looked at every 65 536 events. */
	void (*progress)(uint64_t done, uint64_t total);
	const volatile sig_atomic_t *interrupted;

	uint64_t n_events, n_allocs;
	uint64_t live_blocks, most_blocks;
	uint64_t live_bytes, load_bytes;
	int error; /* sticky, -errno; -EINTR: interrupted */
	char why[160];
};

struct gen_pattern {
	const char *name;                 /* [a-z0-9_]+ */
	const char *summary;              /* one line for --list */
	const struct gen_option *options; /* ends with .name == NULL; at most GEN_OPTIONS_MAX */
	/* Are these options possible together, and what do they lead to? Returns gen_refuse(...)
	 * when they are not. *out is zeroed before. */
	int (*plan)(struct gen *g, struct gen_plan *out);
	void (*run)(struct gen *g);
};

/* Patterns in the order of tools/meson.build; at() gives NULL past the end. */
const struct gen_pattern *gen_pattern_at(unsigned i);
const struct gen_pattern *gen_pattern_find(const char *name);
/* Index in p->options, or -1. */
int gen_pattern_option(const struct gen_pattern *p, const char *name);

/* Initial values of every option; seed 1, one stream, one thread. */
void gen_init(struct gen *g, const struct gen_pattern *p);
/* Seeds, plans and writes every event; counts anew each time. 0 or -errno, then g->why holds one
 * line. A counted load that differs from the planned one is -EILSEQ: our own bug, never a trace to
 * publish. */
int gen_run(struct gen *g);
/* The command that makes this very trace again: every option that has a say in it, in bytes and
 * plain numbers. */
void gen_command(const struct gen *g, char *buf, size_t size);

/* ---- for patterns ---- */

bool gen_ok(const struct gen *g);
/* -EINVAL, with the reason in g->why; also for use while running. */
int gen_refuse(struct gen *g, const char *fmt, ...) GP_PRINTF(2, 3);
/* `size` moved by the jitter asked for; at least 1. Draws no number when there is none. */
uint64_t gen_jitter(struct gen *g, uint64_t size);
struct gen_block gen_alloc(struct gen *g, uint64_t size);
void gen_free(struct gen *g, struct gen_block block);
/* Frees all n in order, unless they are to be kept. */
void gen_finish(struct gen *g, const struct gen_block *blocks, uint64_t n);
/* Room for n blocks, which the caller frees; NULL after setting the error. */
struct gen_block *gen_blocks(struct gen *g, uint64_t n);

#endif
