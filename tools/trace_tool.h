/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_tool: what the commands of gpupool-trace share: their entries, and how a trace is written.
 */
#ifndef GP_TRACE_TOOL_H
#define GP_TRACE_TOOL_H

#include "read_options.h"
#include "replay/writers/writer.h"

/* Each takes what follows its name on the command line and returns the exit code. */
int trace_info_main(int argc, char **argv);
int trace_lint_main(int argc, char **argv);
int trace_convert_main(int argc, char **argv);
int trace_slice_main(int argc, char **argv);
int trace_merge_main(int argc, char **argv);

/* The context of a command that writes a trace begins with this. */
struct trace_tool {
	struct read_options read; /* the first: READ_OPTIONS */
	const char *output;       /* NULL, "-": standard output */
	const char *to;           /* name of the writer; NULL: by the ending of the output */
	bool gzip;
};

bool trace_tool_parse(void *ctx, const char *name, const char *value);

/* clang-format off */
#define WRITE_OPTIONS                                                                              \
	{ "output", "FILE", "write there (standard output)", trace_tool_parse },                   \
	{ "to", "FORMAT", "json, jsonl, binary, rmm_csv, minimalloc_csv",                          \
	  trace_tool_parse },                                                                      \
	{ "gzip", NULL, "compress, also where FILE does not end in .gz", trace_tool_parse },       \
	{ "quiet", NULL, "no progress bar and no notes", trace_tool_parse }
/* clang-format on */

/* Finds the writer: -1, or the exit code after cli_error. To be called before anything is read. */
int trace_tool_writer(const struct trace_tool *o, const struct gp_writer **out);
/* Writes and says on standard error what was left out. CLI_OK, or the exit code. */
int trace_tool_save(const struct trace_tool *o, const struct gp_writer *w,
		    const struct gp_trace *t);
/* Takes the only operand, or the second as the output: -1 or the exit code. */
int trace_tool_operands(struct trace_tool *o, char **operands, int n);

#endif
