/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_mirror: what --mirror of gpupool-replay prints: is the simulation true?
 */
#ifndef GP_REPLAY_MIRROR_H
#define GP_REPLAY_MIRROR_H

#include <stdio.h>

#include "replay/report.h"

/* One row for each of report->mirrors, then where memory differs, and what the columns mean. */
void replay_mirror_print(FILE *out, const struct gp_report *report, bool colour);
/* "requested bytes part in events 120 to 140: 9.60 GiB on the GPU, 9.61 GiB simulated"; in text
 * of the size. For pairs whose memory differs. */
void replay_mirror_parting(const struct gp_mirror *m, char *text, size_t size);

#endif
