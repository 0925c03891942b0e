/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool-gen: writes synthetic traces. The patterns, the command line and the writer are in gen/.
 */
#include <errno.h>
#include <inttypes.h>

#include "cli.h"
#include "gen/options.h"

static void show_progress(uint64_t done, uint64_t total)
{
	cli_progress("writing", done, total);
}

static void print_summary(const struct gen *g)
{
	char events[32], allocs[32], most[32], load[32];

	cli_note("%s: %s events, %s allocations, at most %s blocks live", g->pattern->name,
		 cli_number(events, g->n_events), cli_number(allocs, g->n_allocs),
		 cli_number(most, g->most_blocks));
	if (g->plan.has_load)
		cli_note("load counted %" PRIu64 " bytes (%s), by closed form %" PRIu64,
			 g->load_bytes, cli_bytes(load, g->load_bytes), g->plan.load_bytes);
	else
		cli_note("load counted %" PRIu64 " bytes (%s); no closed form", g->load_bytes,
			 cli_bytes(load, g->load_bytes));
}

/* A pattern's own refusal is misuse; a count that contradicts its closed form is a failed check. */
static int run_error(const struct gen *g, int r, const char *output)
{
	if (r == -EINTR) {
		cli_error("interrupted; nothing was kept of %s", output ? output : "the trace");
		return CLI_INTERRUPTED;
	}
	if (r == -EINVAL || r == -EILSEQ || r == -ENOMEM)
		cli_error("%s: %s", g->pattern->name, g->why);
	else
		cli_error("%s: %s", output ? output : "standard output", g->why);
	return r == -EILSEQ ? CLI_FAILED : CLI_USAGE;
}

static int generate(struct gen_settings *s)
{
	struct gen *g = &s->gen;
	char source[512], why[512];
	int r;

	/* Counting takes a few nanoseconds per event, and buys a header that says how many events
	 * follow, and refusals before any file is opened. */
	g->progress = NULL;
	r = gen_run(g);
	if (r < 0)
		return run_error(g, r, s->output);
	g->n_expected = g->n_events;
	g->progress = show_progress;
	gen_command(g, source, sizeof(source));
	r = gen_writer_create(s->output, s->format, s->gzip, &g->writer, why, sizeof(why));
	if (r < 0) {
		cli_error("%s", why);
		return CLI_USAGE;
	}
	gen_writer_header(g->writer, s->name, source, g->n_events);
	r = gen_run(g);
	if (r < 0) {
		r = run_error(g, r, s->output);
	} else if (gen_writer_commit(g->writer, why, sizeof(why)) < 0) {
		cli_error("%s", why);
		r = CLI_USAGE;
	} else {
		print_summary(g);
	}
	g->writer = gen_writer_destroy(g->writer);
	return r;
}

int main(int argc, char **argv)
{
	struct gen_settings s;
	int r = gen_options_parse(argc, argv, &s);

	if (r >= 0)
		return r;
	s.gen.interrupted = cli_interrupted();
	return generate(&s);
}
