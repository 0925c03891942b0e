/* SPDX-License-Identifier: Apache-2.0
 *
 * writer: what turns a trace in memory into a file of one format.
 *
 * To add one: writers/NAME.c that exports `const struct gp_writer gp_NAME_writer`, and 'NAME' in
 * the list writer_names of replay/meson.build.
 */
#ifndef GP_WRITER_H
#define GP_WRITER_H

#include "output.h"
#include "replay/trace.h"

/* What a format may be able to say beside the operations. */
enum gp_writer_keep {
	GP_KEEP_HEADER = 1, /* name, source, device, notes, that blocks were assumed */
	GP_KEEP_TIME = 2,   /* to the nanosecond                                     */
	GP_KEEP_STREAM = 4,
	GP_KEEP_THREAD = 8,
	GP_KEEP_ALIGN = 16,
	GP_KEEP_ADDR = 32,
	GP_KEEP_POOL = 64,
	GP_KEEP_ALL = 127,
};

#define GP_OPS_ALL ((1u << GP_OP_N) - 1)

struct gp_writer {
	const char *name;    /* [a-z0-9_]+; that of its reader */
	const char *summary; /* one line for people */
	const char *ending;  /* of file names, without .gz: ".jsonl" */
	unsigned ops;        /* bit per enum gp_op: the operations that it can say */
	unsigned keeps;      /* enum gp_writer_keep */
	/* 0 or -errno; faults of the output itself stay in out->error. */
	int (*write)(const struct gp_trace *t, struct gp_output *out);
};

/* NULL behind the last one. */
const struct gp_writer *gp_writer_at(size_t i);
/* By its name, with or without "gpupool_"; NULL: none. */
const struct gp_writer *gp_writer_find(const char *name);
/* By the ending of a file's name (without .gz); NULL: none. */
const struct gp_writer *gp_writer_for_path(const char *path);

/* What of this trace the format leaves out, as "12 mark, 3 sync, alignment"; "" when nothing. */
const char *gp_writer_losses(const struct gp_writer *w, const struct gp_trace *t, char *text,
			     size_t size);

/* Writes a file whole or not at all. NULL and "-": standard output. 0, or -errno with one line in
 * `why`. interrupted: see struct gp_output; may be NULL. */
int gp_writer_save(const struct gp_writer *w, const struct gp_trace *t, const char *path, bool gzip,
		   const volatile sig_atomic_t *interrupted, char *why, size_t why_size);

#endif
