/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool-trace: looks at recordings, checks, converts, cuts and joins them. Each command is a
 * program of its own, in trace_COMMAND.c.
 */
#include "trace_tool.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "info", trace_info_main },       { "lint", trace_lint_main },
	{ "convert", trace_convert_main }, { "slice", trace_slice_main },
	{ "merge", trace_merge_main },
};

static const struct cli_option no_options[] = { { NULL, NULL, NULL, NULL } };

static const struct cli_program program = {
	.name = "gpupool-trace",
	.synopsis = "COMMAND [OPTION]... FILE...",
	.about = "Looks at recordings of GPU memory requests: checks, converts, cuts, joins "
		 "them.\n\n"
		 "  info      what is in a recording\n"
		 "  lint      every irregularity in it\n"
		 "  convert   write it in another format\n"
		 "  slice     cut a part out\n"
		 "  merge     join recordings of several ranks or processes\n\n"
		 "gpupool-trace COMMAND --help shows the options of each.",
	.options = no_options,
	.examples = "  gpupool-trace info snapshot.pickle.gz\n"
		    "  gpupool-trace lint rmm_log.csv\n"
		    "  gpupool-trace convert snapshot.pickle trace.jsonl.gz\n"
		    "  gpupool-trace slice --mark='step 6' long.gpt one_step.json\n"
		    "  gpupool-trace merge --output=both.gpt rank0.json rank1.json\n",
};

static int unknown_command(const char *word)
{
	const char *best = NULL;
	unsigned least = UINT32_MAX;

	for (size_t i = 0; i < GP_ARRAY_LEN(commands); i++) {
		unsigned distance = cli_distance(word, commands[i].name);

		if (distance < least) {
			least = distance;
			best = commands[i].name;
		}
	}
	if (cli_is_near(least, strlen(word)))
		cli_error("%s: unknown command; did you mean %s?", word, best);
	else
		cli_error("%s: unknown command, expected info, lint, convert, slice or merge",
			  word);
	return CLI_USAGE;
}

int main(int argc, char **argv)
{
	int n = 0, r;

	for (size_t i = 0; argc > 1 && i < GP_ARRAY_LEN(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	r = cli_parse(&program, NULL, argc, argv, &n);
	if (r >= 0)
		return r;
	if (n)
		return unknown_command(argv[0]);
	cli_error("expected a command: info, lint, convert, slice or merge; --help shows examples");
	return CLI_USAGE;
}
