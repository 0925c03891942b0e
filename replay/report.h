/* SPDX-License-Identifier: Apache-2.0
 *
 * report: the result document (JSON, "schema": 1) and the files beside it.
 *
 *   DIR/result.json              the document
 *   DIR/summary.tsv              one line per run, for plots (see gp_report_write_summary)
 *   DIR/mirror.tsv               where runs were mirrored (see gp_report_write_mirror)
 *   DIR/LABEL.curve.tsv          one line per window (see gp_report_write_curve)
 *   DIR/LABEL.alloc.hgrm         histogram of allocation latency
 *   DIR/LABEL.free.hgrm          histogram of free latency
 *
 * Each file is written under a temporary name in the same folder and renamed when whole; when one
 * cannot be written, none of this run's files is left half done.
 */
#ifndef GP_REPORT_H
#define GP_REPORT_H

#include "engine.h"
#include "environment.h"
#include "mirror.h"

struct gp_report {
	const struct gp_trace *trace;
	const struct gp_environment *environment; /* cpu, gpu, driver, compiler, timer overhead */
	const struct gp_engine_config *config;    /* how it was replayed; NULL: not told */
	struct gp_run **runs;
	size_t n_runs;
	const struct gp_mirror *mirrors; /* of pairs of these runs */
	size_t n_mirrors;
	const char *partial; /* NULL: whole; else what cut it short: "interrupted" */
};

/* What a trace is called: the name it gives itself, else its file's without folder and extension.
 * Never empty; may hold anything a file can hold. */
const char *gp_report_trace_name(const struct gp_trace *trace, char *buf, size_t size);
/* The same, fit to be a file's name: letters, digits, '.', '_' and '-', not starting with '.'. */
const char *gp_report_trace_stem(const struct gp_trace *trace, char *buf, size_t size);
/* Makes labels unique among the runs: "buddy", "buddy-2", "buddy-3"; among runs on a GPU, one on the
 * simulated device is "buddy-sim"; each with "-t16" where runs differ in their number of threads. 0
 * or -ENOMEM. */
int gp_report_label(struct gp_run **runs, size_t n_runs);

/* Operations per second over those of the same allocator on one thread; NaN: there is no such run.
 * Labels must have been made. */
double gp_report_speedup(const struct gp_report *report, const struct gp_run *run);

/* The document as text that the caller frees; NULL: out of memory. One line: for streams of
 * several documents (JSON Lines); otherwise indented. Ends in a line break. */
char *gp_report_json(const struct gp_report *report, bool one_line);
/* The curve as tab-separated values with a header line. 0 or -EIO. */
int gp_report_write_curve(const struct gp_run *run, FILE *out);
/* One line per run with its main figures, and a header line; tab-separated. 0 or -EIO. */
int gp_report_write_summary(const struct gp_report *report, FILE *out);
/* A line for each kind of call of each pair of runs, and one for all of them ("all"); tab-separated,
 * with a header line. 0 or -EIO. */
int gp_report_write_mirror(const struct gp_report *report, FILE *out);
/* Writes the document and the files beside it. Creates DIR where it is missing (and its parents).
 * 0 or -errno with one line in `why`. */
int gp_report_save(const struct gp_report *report, const char *dir, char *why, size_t why_size);

#endif
