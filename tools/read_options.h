/* SPDX-License-Identifier: Apache-2.0
 *
 * read_options: how to read a trace, in every program that reads one: the same options, the same
 * progress bar, the same words about what was skipped or assumed.
 */
#ifndef GP_READ_OPTIONS_H
#define GP_READ_OPTIONS_H

#include "cli.h"
#include "replay/trace.h"
#include "replay/trace_sizes.h"

struct read_options {
	struct gp_trace_options load;
	struct gp_trace_sizes sizes;
	bool own_words; /* the program itself tells what was skipped and noted */
};

/* For READ_OPTIONS: ctx must begin with a struct read_options. */
bool read_options_parse(void *ctx, const char *name, const char *value);

/* Rows of a program's table. */
/* clang-format off */
#define READ_OPTIONS                                                                               \
	{ "gpu", "N", "which GPU of several recorded (the busiest)", read_options_parse },         \
	{ "memory", "device|host|any", "which kind of several recorded (device)",                  \
	  read_options_parse },                                                                    \
	{ "ends", "exclusive|inclusive", "lifetimes in CSV: up to, or with the end",               \
	  read_options_parse },                                                                    \
	{ "scale-sizes", "N/M", "each size times N/M: --scale-sizes=1/16", read_options_parse },   \
	{ "cap-sizes", "SIZE", "larger sizes become SIZE", read_options_parse },                   \
	{ "lenient", NULL, "skip and count what is wrong in a trace", read_options_parse }
/* clang-format on */

/* Loads a trace: -1, or the exit code after cli_error. What was skipped and what the trace has to
 * say about itself goes to standard error, a line each. */
int read_options_load(const struct read_options *o, const char *path, struct gp_trace **out);

#endif
