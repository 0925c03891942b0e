/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the command line of gpupool-gen.
 */
#ifndef GEN_OPTIONS_H
#define GEN_OPTIONS_H

#include "gen.h"
#include "writer.h"

struct gen_settings {
	struct gen gen;
	const char *name;   /* of the trace */
	const char *output; /* NULL: standard output */
	enum gen_format format;
	bool gzip;
};

/* Returns -1 to go on with *out filled in, otherwise the exit code. The text of *out points into
 * argv. */
int gen_options_parse(int argc, char **argv, struct gen_settings *out);

#endif
