/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_convert: gpupool-trace convert.
 */
#include "trace_tool.h"

static const struct cli_option options[] = {
	WRITE_OPTIONS,
	READ_OPTIONS,
	{ NULL, NULL, NULL, NULL },
};

static const struct cli_program program = {
	.name = "gpupool-trace convert",
	.synopsis = "[OPTION]... FILE [OUTPUT]",
	.about = "Writes a recording of any format that gpupool reads in one of those it writes.\n"
		 "OUTPUT is there whole or not at all.",
	.options = options,
	.examples = "  gpupool-trace convert snapshot.pickle trace.jsonl.gz\n"
		    "  gpupool-trace convert trace.jsonl.gz trace.gpt      mapped, not parsed\n"
		    "  gpupool-trace convert --to=rmm_csv trace.json > log.csv\n"
		    "  gpupool-trace convert trace.json plan.minimalloc.csv\n",
};

int trace_convert_main(int argc, char **argv)
{
	struct trace_tool o = { 0 };
	const struct gp_writer *writer = NULL;
	struct gp_trace *t = NULL;
	int n = 0, r = cli_parse(&program, &o, argc, argv, &n);

	if (r < 0)
		r = trace_tool_operands(&o, argv, n);
	if (r < 0)
		r = trace_tool_writer(&o, &writer);
	if (r < 0)
		r = read_options_load(&o.read, argv[0], &t);
	if (r < 0)
		r = trace_tool_save(&o, writer, t);
	gp_trace_destroy(t);
	return r;
}
