/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_columns: what the table of gpupool-replay says of each run, apart from how it is laid out
 * (replay_table.c).
 */
#ifndef GP_REPLAY_COLUMNS_H
#define GP_REPLAY_COLUMNS_H

#include "replay/engine.h"

#define COLUMN_TEXT 40u

#define N_COLUMNS     17
#define COLUMN_STATUS (N_COLUMNS - 1)
#define COLUMN_FAILED (N_COLUMNS - 2)
#define COLUMN_WORK   "stalled" /* a group: of runs with --work */

struct column {
	const char *group; /* the same word in neighbours joins them; NULL: none from here on */
	const char *title;
	/* Writes the text (COLUMN_TEXT bytes) and returns the figure to compare; NAN: none. */
	double (*cell)(const struct gp_run *run, char *text);
	bool ranked;  /* the lowest is the best */
	bool clocked; /* a time of one call: no finer than the clock's steps */
};

extern const struct column columns[N_COLUMNS];

#endif
