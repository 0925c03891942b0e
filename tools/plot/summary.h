/* SPDX-License-Identifier: Apache-2.0
 *
 * summary: which allocators a result folder holds, and whether there is anything of them to draw.
 */
#ifndef PLOT_SUMMARY_H
#define PLOT_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>

#define PLOT_CURVE ".curve.tsv"
#define PLOT_ALLOC ".alloc.hgrm"
#define PLOT_FREE  ".free.hgrm"

#define PLOT_LABEL_MAX 63u

struct plot_summary {
	char (*labels)[PLOT_LABEL_MAX + 1];
	size_t n_labels;
	bool worked;   /* a replay with --work */
	bool scaling;  /* runs differ in their number of threads */
	bool mirrored; /* there is a mirror.tsv */
};

/* Reads DIR/summary.tsv, and looks through DIR/mirror.tsv. 0, or -errno with one line in `why`. */
int plot_summary_load(const char *dir, struct plot_summary *out, char *why, size_t why_size);
void plot_summary_free(struct plot_summary *s);

/* Lines of DIR/LABEL SUFFIX that begin with a number: 0 and 1 are all that matters, so that at most
 * 1 is counted. -errno: cannot be read. */
int plot_data_lines(const char *dir, const char *label, const char *suffix);

#endif
