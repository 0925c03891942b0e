/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool-gen: writes synthetic traces. The patterns are in gen/.
 *
 * The option table is put together from the pattern that the command line names, so that --help
 * shows, and the parser accepts, exactly what this pattern takes.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "gen/gen.h"
#include "gen/writer.h"

struct settings {
	struct gen gen;
	const char *name;   /* of the trace; NULL: the pattern's */
	const char *output; /* NULL: standard output */
	bool has_format;
	enum gen_format format;
	bool gzip, list, quiet;
};

/* ---- options ---- */

static bool set_pattern_option(void *ctx, const char *name, const char *value)
{
	struct gen *g = &((struct settings *)ctx)->gen;
	int i = gen_pattern_option(g->pattern, name);
	const struct gen_option *o = &g->pattern->options[i];
	struct gen_value *v = &g->values[i];

	switch (o->kind) {
	case GEN_COUNT:
		return cli_count(name, value, (uint64_t)o->min, (uint64_t)o->max, &v->n);
	case GEN_SIZE:
		return cli_size(name, value, (uint64_t)o->min, (uint64_t)o->max, &v->n);
	case GEN_REAL:
		return cli_real(name, value, o->min, o->max, &v->x);
	case GEN_FLAG:
		v->n = 1;
		return true;
	}
	return false;
}

static bool set_seed(void *ctx, const char *name, const char *value)
{
	return cli_count(name, value, 0, UINT64_MAX, &((struct settings *)ctx)->gen.seed);
}

static bool set_streams(void *ctx, const char *name, const char *value)
{
	return cli_count(name, value, 1, UINT16_MAX, &((struct settings *)ctx)->gen.n_streams);
}

static bool set_threads(void *ctx, const char *name, const char *value)
{
	return cli_count(name, value, 1, UINT16_MAX, &((struct settings *)ctx)->gen.n_threads);
}

/* A second between two events at most: 2^32 of them stay far below 2^64 ns. */
static bool set_interval(void *ctx, const char *name, const char *value)
{
	return cli_count(name, value, 0, 1000000000, &((struct settings *)ctx)->gen.interval_ns);
}

static bool set_name(void *ctx, const char *name, const char *value)
{
	for (const char *p = value; *p; p++) {
		if (*p < ' ' || *p > '~') {
			cli_error("--%s: expected printable ASCII, such as \"churn 256 B\"", name);
			return false;
		}
	}
	((struct settings *)ctx)->name = value;
	return true;
}

static bool set_output(void *ctx, const char *name, const char *value)
{
	if (!*value) {
		cli_error("--%s=: expected a file name, or - for standard output", name);
		return false;
	}
	((struct settings *)ctx)->output = value;
	return true;
}

static bool set_format(void *ctx, const char *name, const char *value)
{
	static const char *const formats[] = { "jsonl", "json", NULL };
	struct settings *s = ctx;
	unsigned i;

	if (!cli_choice(name, value, formats, &i))
		return false;
	s->format = i ? GEN_JSON : GEN_JSONL;
	s->has_format = true;
	return true;
}

static bool set_flag(void *ctx, const char *name, const char *value)
{
	struct settings *s = ctx;

	(void)value;
	if (strcmp(name, "gzip") == 0)
		s->gzip = true;
	else if (strcmp(name, "list") == 0)
		s->list = true;
	else
		s->quiet = true;
	return true;
}

static const struct cli_option common_options[] = {
	{ "seed", "N", "of the random numbers; same seed, same bytes (1)", set_seed },
	{ "streams", "N", "block i belongs to stream i mod N (1)", set_streams },
	{ "threads", "N", "block i is handled by thread i mod N (1)", set_threads },
	{ "interval", "NS", "nanoseconds between events; 0: no times (0)", set_interval },
	{ "name", "TEXT", "of the trace (the pattern's name)", set_name },
	{ "output", "FILE", "write there, not to standard output", set_output },
	{ "format", "FORMAT", "jsonl or json (by the extension, else jsonl)", set_format },
	{ "gzip", NULL, "compress (default where FILE ends in .gz)", set_flag },
	{ "list", NULL, "the patterns, their options and defaults", set_flag },
	{ "quiet", NULL, "no summary and no progress", set_flag },
	{ 0 },
};

/* "blocks kept live, the oldest freed first (1)" */
static void option_help(char *buf, size_t size, const struct gen_option *o)
{
	char text[32];

	if (o->kind == GEN_FLAG)
		snprintf(buf, size, "%s", o->help);
	else if (o->kind == GEN_SIZE)
		snprintf(buf, size, "%s (%s)", o->help, cli_bytes(text, (uint64_t)o->initial));
	else
		snprintf(buf, size, "%s (%g)", o->help, o->initial);
}

/* An option of another pattern: better said than called unknown. Where no known pattern is named,
 * check_operands has more to say. */
static bool refuse_foreign(void *ctx, const char *name, const char *value)
{
	const struct gen_pattern *p = ((struct settings *)ctx)->gen.pattern;

	(void)value;
	if (!p)
		return true;
	cli_error("--%s: %s does not take it; %s --help shows what it takes", name, p->name,
		  p->name);
	return false;
}

#define TABLE_MAX 64 /* what does not fit is merely called unknown */

struct table {
	struct cli_option options[TABLE_MAX + 1];
	char help[GEN_OPTIONS_MAX][120];
};

static void table_add_foreign(struct table *t, size_t n, const struct gen_pattern *own)
{
	for (unsigned i = 0; gen_pattern_at(i); i++) {
		const struct gen_option *o = gen_pattern_at(i)->options;

		for (; o->name && n < TABLE_MAX; o++)
			if (!own || gen_pattern_option(own, o->name) < 0)
				t->options[n++] = (struct cli_option){ o->name, o->arg, o->help,
								       refuse_foreign };
	}
}

static void table_build(struct table *t, const struct gen_pattern *p, bool for_help)
{
	size_t n = 0;

	memset(t, 0, sizeof(*t));
	for (; p && p->options[n].name; n++) {
		const struct gen_option *o = &p->options[n];

		option_help(t->help[n], sizeof(t->help[n]), o);
		t->options[n] = (struct cli_option){ o->name, o->arg, t->help[n],
						     set_pattern_option };
	}
	for (const struct cli_option *o = common_options; o->name; o++)
		t->options[n++] = *o;
	if (!for_help)
		table_add_foreign(t, n, p);
}

static bool option_takes_next(const char *arg)
{
	if (strncmp(arg, "--", 2) != 0 || strchr(arg, '='))
		return false;
	for (const struct cli_option *o = common_options; o->name; o++)
		if (strcmp(o->name, arg + 2) == 0)
			return o->arg != NULL;
	for (unsigned i = 0; gen_pattern_at(i); i++) {
		int k = gen_pattern_option(gen_pattern_at(i), arg + 2);

		if (k >= 0)
			return gen_pattern_at(i)->options[k].arg != NULL;
	}
	return false;
}

/* The pattern that the command line is about; it may stand behind options. */
static const struct gen_pattern *named_pattern(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (option_takes_next(argv[i]))
			i++;
		else if (gen_pattern_find(argv[i]))
			return gen_pattern_find(argv[i]);
	}
	return NULL;
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0)
			return true;
	return false;
}

static int list_patterns(void)
{
	for (unsigned i = 0; gen_pattern_at(i); i++) {
		const struct gen_pattern *p = gen_pattern_at(i);
		char text[160];

		printf("%s%s\n  %s\n", i ? "\n" : "", p->name, p->summary);
		for (const struct gen_option *o = p->options; o->name; o++) {
			option_help(text, sizeof(text), o);
			printf("    --%s%s%-*s  %s\n", o->name, o->arg ? "=" : "",
			       (int)(16 - strlen(o->name) - (o->arg ? 1 : 0)),
			       o->arg ? o->arg : "", text);
		}
	}
	return cli_flush_output() ? CLI_OK : CLI_USAGE;
}

/* ---- the work ---- */

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

static int generate(struct settings *s)
{
	struct gen *g = &s->gen;
	struct gen_fields fields = { g->n_streams > 1, g->n_threads > 1, g->interval_ns > 0 };
	enum gen_format format = s->has_format ? s->format : gen_format_of(s->output);
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
	r = gen_writer_create(s->output, format, s->gzip || gen_gzip_of(s->output), fields,
			      &g->writer, why, sizeof(why));
	if (r < 0) {
		cli_error("%s", why);
		return CLI_USAGE;
	}
	gen_writer_header(g->writer, s->name ? s->name : g->pattern->name, source, g->n_events);
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

static const char examples[] =
	"  gpupool-gen churn --output=churn_1m.jsonl       1000 x 1 MiB: what cudaMalloc costs\n"
	"  gpupool-gen churn --count=1000000 --size=256 --output=churn_256.jsonl.gz\n"
	"                                                  a million pairs: what a pool costs\n"
	"  gpupool-gen random --count=100000 --max-size=64M | gpupool-replay --alloc=all -\n"
	"  gpupool-gen checkerboard --help                 the options of one pattern\n";

static void refuse_pattern(const char *word)
{
	const char *best = NULL;
	unsigned distance = UINT_MAX;

	for (unsigned i = 0; gen_pattern_at(i); i++) {
		unsigned d = cli_distance(word, gen_pattern_at(i)->name);

		if (d < distance) {
			distance = d;
			best = gen_pattern_at(i)->name;
		}
	}
	if (best && cli_is_near(distance, strlen(word)))
		cli_error("%s: no such pattern; did you mean %s?", word, best);
	else
		cli_error("%s: no such pattern; --list shows them", word);
}

static bool check_operands(int n, char **operands)
{
	if (n == 0)
		cli_error("expected a pattern; --list shows them");
	else if (!gen_pattern_find(operands[0]))
		refuse_pattern(operands[0]);
	else if (n > 1)
		cli_error("%s: expected one pattern only", operands[1]);
	else
		return true;
	return false;
}

int main(int argc, char **argv)
{
	const struct gen_pattern *p = named_pattern(argc, argv);
	struct settings s = { 0 };
	struct table table;
	char synopsis[64], about[160];
	struct cli_program program = {
		.name = "gpupool-gen",
		.synopsis = synopsis,
		.about = about,
		.options = table.options,
		.examples = examples,
	};
	int n_operands = 0;
	int r;

	table_build(&table, p, asks_for_help(argc, argv));
	snprintf(synopsis, sizeof(synopsis), "%s [OPTION]...", p ? p->name : "PATTERN");
	snprintf(about, sizeof(about), "%s", p ? p->summary :
		 "Writes a synthetic trace. --list shows the patterns, PATTERN --help what one takes.");
	if (p)
		gen_init(&s.gen, p);
	r = cli_parse(&program, &s, argc, argv, &n_operands);
	if (r >= 0)
		return r;
	if (s.list)
		return list_patterns();
	if (!check_operands(n_operands, argv))
		return CLI_USAGE;
	cli_set_quiet(s.quiet);
	s.gen.interrupted = cli_interrupted();
	return generate(&s);
}
