/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the command line of gpupool-gen.
 *
 * Shape     The option table is put together from the pattern that the command line names, so that
 *           --help shows, and the parser accepts, exactly what this pattern takes. A new pattern
 *           needs no line here.
 * Threads   main thread only
 */
#include <limits.h>
#include <string.h>

#include "options.h"
#include "tools/cli.h"

/* What the parsers fill in; defaults that depend on other options are settled afterwards. */
struct parsing {
	struct gen_settings *out;
	bool has_format, list;
};

static bool set_pattern_option(void *ctx, const char *name, const char *value)
{
	struct gen *g = &((struct parsing *)ctx)->out->gen;
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
	return cli_count(name, value, 0, UINT64_MAX, &((struct parsing *)ctx)->out->gen.seed);
}

static bool set_streams(void *ctx, const char *name, const char *value)
{
	return cli_count(name, value, 1, UINT16_MAX, &((struct parsing *)ctx)->out->gen.n_streams);
}

static bool set_threads(void *ctx, const char *name, const char *value)
{
	return cli_count(name, value, 1, UINT16_MAX, &((struct parsing *)ctx)->out->gen.n_threads);
}

/* A second between two events at most: 2^32 of them stay far below 2^64 ns. */
static bool set_interval(void *ctx, const char *name, const char *value)
{
	return cli_count(name, value, 0, 1000000000,
			 &((struct parsing *)ctx)->out->gen.interval_ns);
}

static bool set_name(void *ctx, const char *name, const char *value)
{
	for (const char *p = value; *p; p++) {
		if (*p < ' ' || *p > '~') {
			cli_error("--%s: expected printable ASCII, such as \"churn 256 B\"", name);
			return false;
		}
	}
	((struct parsing *)ctx)->out->name = value;
	return true;
}

static bool set_output(void *ctx, const char *name, const char *value)
{
	if (!*value) {
		cli_error("--%s=: expected a file name, or - for standard output", name);
		return false;
	}
	((struct parsing *)ctx)->out->output = value;
	return true;
}

static bool set_format(void *ctx, const char *name, const char *value)
{
	static const char *const formats[] = { "jsonl", "json", NULL };
	struct parsing *p = ctx;
	unsigned i;

	if (!cli_choice(name, value, formats, &i))
		return false;
	p->out->format = i ? GEN_JSON : GEN_JSONL;
	p->has_format = true;
	return true;
}

static bool set_flag(void *ctx, const char *name, const char *value)
{
	struct parsing *p = ctx;

	(void)value;
	if (strcmp(name, "gzip") == 0)
		p->out->gzip = true;
	else if (strcmp(name, "list") == 0)
		p->list = true;
	else
		cli_set_quiet(true);
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
	const struct gen_pattern *p = ((struct parsing *)ctx)->out->gen.pattern;

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
		t->options[n] =
			(struct cli_option){ o->name, o->arg, t->help[n], set_pattern_option };
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
			       (int)(16 - strlen(o->name) - (o->arg ? 1 : 0)), o->arg ? o->arg : "",
			       text);
		}
	}
	return cli_flush_output() ? CLI_OK : CLI_USAGE;
}

static const char examples[] =
	"  gpupool-gen churn --output=1m.jsonl     1000 x 1 MiB: what cudaMalloc costs\n"
	"  gpupool-gen churn --count=1000000 --size=256 --output=256.jsonl.gz\n"
	"                                          a million pairs: what a pool costs\n"
	"  gpupool-gen random --count=100000 --max-size=64M | gpupool-replay -\n"
	"  gpupool-gen checkerboard --help         the options of one pattern\n";

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

int gen_options_parse(int argc, char **argv, struct gen_settings *out)
{
	const struct gen_pattern *p = named_pattern(argc, argv);
	struct parsing parsing = { .out = out };
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

	memset(out, 0, sizeof(*out));
	if (p)
		gen_init(&out->gen, p);
	table_build(&table, p, asks_for_help(argc, argv));
	snprintf(synopsis, sizeof(synopsis), "%s [OPTION]...", p ? p->name : "PATTERN");
	snprintf(
		about, sizeof(about), "%s",
		p ? p->summary
		  : "Writes a synthetic trace. --list: the patterns; PATTERN --help: what one takes.");
	r = cli_parse(&program, &parsing, argc, argv, &n_operands);
	if (r >= 0)
		return r;
	if (parsing.list)
		return list_patterns();
	if (!check_operands(n_operands, argv))
		return CLI_USAGE;
	if (!out->name)
		out->name = out->gen.pattern->name;
	if (!parsing.has_format)
		out->format = gen_format_of(out->output);
	out->gzip = out->gzip || gen_gzip_of(out->output);
	return -1;
}
