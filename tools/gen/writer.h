/* SPDX-License-Identifier: Apache-2.0
 *
 * writer: a trace as text on its way to a file or to standard output (traces/FORMAT.md).
 */
#ifndef GEN_WRITER_H
#define GEN_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gen_writer;

enum gen_format {
	GEN_JSONL, /* the header object on the first line, then one event per line */
	GEN_JSON,  /* one document */
};

struct gen_event {
	uint64_t id, size, stream, thread, t_ns;
};

/* What the file name asks for: ".json" or anything else, with ".gz" after it or not. NULL and "-"
 * are standard output. */
enum gen_format gen_format_of(const char *path);
bool gen_gzip_of(const char *path);

/* 0, or -errno with one line in `why`; -ENOTSUP: gzip in a build without zlib. */
int gen_writer_create(const char *path, enum gen_format format, bool gzip, struct gen_writer **out,
		      char *why, size_t why_size);
/* To be called once, before any event. */
void gen_writer_header(struct gen_writer *w, const char *name, const char *source,
		       uint64_t n_events);
void gen_writer_alloc(struct gen_writer *w, const struct gen_event *e);
void gen_writer_free(struct gen_writer *w, const struct gen_event *e);
/* 0, or the -errno of the first write that failed; the calls above then do nothing more. */
int gen_writer_error(const struct gen_writer *w);
/* Ends the text and gives the file its name. 0 or -errno with one line in `why`. */
int gen_writer_commit(struct gen_writer *w, char *why, size_t why_size);
/* Without a commit before, nothing of the file remains. NULL is fine. Returns NULL. */
struct gen_writer *gen_writer_destroy(struct gen_writer *w);

#endif
