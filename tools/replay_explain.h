/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_explain: --explain of gpupool-replay, for people.
 */
#ifndef GP_REPLAY_EXPLAIN_H
#define GP_REPLAY_EXPLAIN_H

#include <stdio.h>

#include "replay/report.h"

/* A paragraph for each run of which a request failed; nothing where none did. */
void replay_explain_print(FILE *out, const struct gp_report *report, bool colour);

#endif
