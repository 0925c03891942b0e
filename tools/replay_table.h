/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_table: the table of gpupool-replay, which a person decides from.
 */
#ifndef GP_REPLAY_TABLE_H
#define GP_REPLAY_TABLE_H

#include <stdio.h>

#include "replay/report.h"

/* One row per run, in the order of the report; then what failed, and what the columns mean.
 * n_columns: what a line of the terminal holds; 0: no matter. */
void replay_table_print(FILE *out, const struct gp_report *report, bool colour, unsigned n_columns);
/* Where the results are and how to draw them. */
void replay_table_hint(FILE *out, const char *dir);
/* run->why without the allocator's name in front, which stands there already. */
const char *replay_table_why(const struct gp_run *run);

#endif
