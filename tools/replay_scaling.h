/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_scaling: how each allocator goes with the number of threads.
 */
#ifndef GP_REPLAY_SCALING_H
#define GP_REPLAY_SCALING_H

#include <stdio.h>

#include "replay/report.h"

/* Is there anything to show: several thread counts, or threads that replay copies? */
bool replay_scaling_shown(const struct gp_report *report);
/* Operations per second by threads, one row per series; `bold` and `plain` go around headings. */
void replay_scaling_print(FILE *out, const struct gp_report *report, const char *bold,
			  const char *plain);

#endif
