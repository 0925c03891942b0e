/* SPDX-License-Identifier: Apache-2.0
 *
 * cli: the command line of every program, its messages and its value parsers.
 *
 * Shape       a program is a table of long options; each option's parser writes into the program's
 *             own context. --help and --version are added to every table.
 * Invariants  1. a refused command line costs exactly one line on standard error, which names the
 *             option, the value and what was expected.
 *             2. nothing a user or a file wrote reaches the terminal as a control character.
 * Not done    short options; abbreviated long options (a later option would change their meaning)
 * Threads     main thread only
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/allocator.h"
#include "cli.h"

#define WORD_MAX 63u

static const char *program_name = "gpupool";
static bool quiet;

void cli_set_quiet(bool on)
{
	quiet = on;
}

bool cli_is_quiet(void)
{
	return quiet;
}

/* ---- messages ---- */

static void message(const char *fmt, va_list args)
{
	char line[1024];

	vsnprintf(line, sizeof(line), fmt, args);
	for (char *p = line; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
	cli_progress_clear();
	/* What was printed so far comes first where both streams end in one file. */
	fflush(stdout);
	fprintf(stderr, "%s: %s\n", program_name, line);
}

void cli_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	message(fmt, args);
	va_end(args);
}

void cli_note(const char *fmt, ...)
{
	va_list args;

	if (quiet)
		return;
	va_start(args, fmt);
	message(fmt, args);
	va_end(args);
}

bool cli_flush_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	cli_error("standard output: %s", errno ? strerror(errno) : "write error");
	return false;
}

/* ---- the nearest word ---- */

unsigned cli_distance(const char *a, const char *b)
{
	/* Rows of the table of Levenshtein (1966) with Damerau's swap: two back, last, this. */
	unsigned rows[3][WORD_MAX + 1];
	size_t la = strlen(a), lb = strlen(b);

	la = la > WORD_MAX ? WORD_MAX : la;
	lb = lb > WORD_MAX ? WORD_MAX : lb;
	for (size_t j = 0; j <= lb; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);

			best = last[j] + 1 < best ? last[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			row[j] = best;
		}
	}
	return rows[la % 3][lb];
}

bool cli_is_near(unsigned distance, size_t length)
{
	return distance <= (length + 2) / 3;
}

/* ---- values ---- */

static const char *show(const char *value)
{
	return value ? value : "";
}

/* What stands between an option's name and its value: nothing where the name ends inside the value,
 * as in "work=busy:". */
static const char *joint(const char *name)
{
	size_t n = strlen(name);

	return n && isalnum((unsigned char)name[n - 1]) ? "=" : "";
}

bool cli_size(const char *name, const char *value, uint64_t min, uint64_t max, uint64_t *out)
{
	char lo[32], hi[32];
	uint64_t n;

	if (!value || !gp_parse_size(value, &n)) {
		cli_error("--%s%s%s: expected a size, such as 65536, 64K, 2MiB or 1.5GiB", name,
			  joint(name), show(value));
		return false;
	}
	if (n < min || n > max) {
		cli_error("--%s%s%s: expected a size from %s to %s", name, joint(name), value,
			  cli_bytes(lo, min), cli_bytes(hi, max));
		return false;
	}
	*out = n;
	return true;
}

bool cli_count(const char *name, const char *value, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long n = 0;
	char *end = NULL;

	errno = 0;
	/* strtoull takes "-1" and " 1"; a count is digits only. */
	if (value && isdigit((unsigned char)value[0]))
		n = strtoull(value, &end, 10);
	if (!end || *end || errno || n < min || n > max) {
		cli_error("--%s%s%s: expected a whole number from %llu to %llu", name, joint(name),
			  show(value), (unsigned long long)min, (unsigned long long)max);
		return false;
	}
	*out = n;
	return true;
}

bool cli_real(const char *name, const char *value, double min, double max, double *out)
{
	char *end = NULL;
	double x = NAN;

	if (value && (isdigit((unsigned char)value[0]) || value[0] == '.' || value[0] == '-'))
		x = strtod(value, &end);
	/* Written so that NaN is refused too. */
	if (!end || end == value || *end || !(x >= min && x <= max)) {
		cli_error("--%s%s%s: expected a number from %g to %g", name, joint(name),
			  show(value), min, max);
		return false;
	}
	*out = x;
	return true;
}

/* "a, b or c" */
static void list_choices(char *buf, size_t size, const char *const *choices)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; choices[i] && used < size; i++) {
		const char *before = i == 0 ? "" : choices[i + 1] ? ", " : " or ";
		int n = snprintf(buf + used, size - used, "%s%s", before, choices[i]);

		used += n > 0 ? (size_t)n : 0;
	}
}

bool cli_choice(const char *name, const char *value, const char *const *choices, unsigned *out)
{
	char list[256];

	for (unsigned i = 0; value && choices[i]; i++) {
		if (strcmp(value, choices[i]) == 0) {
			*out = i;
			return true;
		}
	}
	list_choices(list, sizeof(list), choices);
	cli_error("--%s=%s: expected %s", name, show(value), list);
	return false;
}

/* ---- the option table ---- */

static bool is_optional(const struct cli_option *o)
{
	return o->arg && o->arg[0] == '[';
}

/* "  --capacity=SIZE", "  --json[=FILE]" */
static int option_text(char *buf, size_t size, const struct cli_option *o)
{
	if (!o->arg)
		return snprintf(buf, size, "  --%s", o->name);
	if (is_optional(o))
		return snprintf(buf, size, "  --%s[=%s", o->name, o->arg + 1);
	return snprintf(buf, size, "  --%s=%s", o->name, o->arg);
}

static const struct cli_option standard_options[] = {
	{ "help", NULL, "this text", NULL },
	{ "version", NULL, "version and licence", NULL },
	{ NULL, NULL, NULL, NULL },
};

static int widest(const struct cli_option *o, int width)
{
	char text[128];

	for (; o->name; o++) {
		int n = option_text(text, sizeof(text), o);

		width = n > width ? n : width;
	}
	return width;
}

static void print_options(const struct cli_option *o, int width)
{
	char text[128];

	for (; o->name; o++) {
		option_text(text, sizeof(text), o);
		printf("%-*s  %s\n", width, text, o->help);
	}
}

static int print_help(const struct cli_program *p)
{
	int width = widest(standard_options, widest(p->options, 0));

	printf("Usage: %s %s\n%s\n\n", p->name, p->synopsis, p->about);
	print_options(p->options, width);
	print_options(standard_options, width);
	if (p->examples)
		printf("\nExamples:\n%s", p->examples);
	return cli_flush_output() ? CLI_OK : CLI_USAGE;
}

static int print_version(const struct cli_program *p)
{
	printf("%s (gpupool) %s\nLicence: Apache-2.0\n", p->name, GP_VERSION);
	return cli_flush_output() ? CLI_OK : CLI_USAGE;
}

static const struct cli_option *find_option(const struct cli_option *o, const char *name,
					    size_t length)
{
	for (; o->name; o++)
		if (strlen(o->name) == length && memcmp(o->name, name, length) == 0)
			return o;
	return NULL;
}

static void nearest_option(const struct cli_option *o, const char *word, const char **best,
			   unsigned *distance)
{
	for (; o->name; o++) {
		unsigned d = cli_distance(word, o->name);

		if (d < *distance) {
			*distance = d;
			*best = o->name;
		}
	}
}

static int unknown_option(const struct cli_program *p, const char *name, size_t length)
{
	char word[WORD_MAX + 1];
	const char *best = NULL;
	unsigned distance = WORD_MAX;

	snprintf(word, sizeof(word), "%.*s", (int)(length > WORD_MAX ? WORD_MAX : length), name);
	nearest_option(p->options, word, &best, &distance);
	nearest_option(standard_options, word, &best, &distance);
	if (best && cli_is_near(distance, length))
		cli_error("--%s: unknown option; did you mean --%s?", word, best);
	else
		cli_error("--%s: unknown option; --help lists them", word);
	return CLI_USAGE;
}

/* Handles argv[*index], an option, and the value that may follow it. */
static int parse_option(const struct cli_program *p, void *ctx, int argc, char **argv, int *index)
{
	const char *name = argv[*index] + 2;
	const char *equals = strchr(name, '=');
	size_t length = equals ? (size_t)(equals - name) : strlen(name);
	const char *value = equals ? equals + 1 : NULL;
	const struct cli_option *o = find_option(p->options, name, length);
	bool standard = !o;

	if (standard)
		o = find_option(standard_options, name, length);
	if (!o)
		return unknown_option(p, name, length);
	if (!o->arg && value) {
		cli_error("--%s=%s: this option takes no value", o->name, value);
		return CLI_USAGE;
	}
	if (standard)
		return o == standard_options ? print_help(p) : print_version(p);
	if (o->arg && !is_optional(o) && !value) {
		if (*index + 1 >= argc) {
			cli_error("--%s: expected a value: --%s=%s", o->name, o->name, o->arg);
			return CLI_USAGE;
		}
		value = argv[++*index];
	}
	return o->parse(ctx, o->name, value) ? -1 : CLI_USAGE;
}

int cli_parse(const struct cli_program *program, void *ctx, int argc, char **argv, int *n_operands)
{
	bool options_end = false;
	int n = 0;

	program_name = program->name;
	/* A file that may not grow is then an error like a full disk, and cleaned up after. */
	signal(SIGXFSZ, SIG_IGN);
	for (int i = 1; i < argc; i++) {
		char *arg = argv[i];
		int r = -1;

		/* "-" alone is standard input. */
		if (options_end || arg[0] != '-' || !arg[1]) {
			argv[n++] = arg;
		} else if (arg[1] != '-') {
			cli_error("%s: unknown option; options are long ones, --help lists them",
				  arg);
			r = CLI_USAGE;
		} else if (!arg[2]) {
			options_end = true;
		} else {
			r = parse_option(program, ctx, argc, argv, &i);
		}
		if (r >= 0)
			return r;
	}
	*n_operands = n;
	return -1;
}
