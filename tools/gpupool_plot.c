/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool-plot: pictures of a result folder, drawn by gnuplot. The work is in plot/.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "allocators/base.h"
#include "cli.h"
#include "plot/draw.h"
#include "replay/atomic_file.h"

static bool refuse_word(const char *option, const char *word, size_t length,
			const char *const *names, size_t n)
{
	char list[128] = "";

	for (size_t i = 0; i < n; i++) {
		size_t used = strlen(list);

		snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", names[i]);
	}
	cli_error("--%s: \"%.*s\", expected one or more of %s with commas between them", option,
		  (int)length, word, list);
	return false;
}

/* "a,b" into a bit set of positions in names[]. */
static bool parse_list(const char *option, const char *value, const char *const *names, size_t n,
		       unsigned *out)
{
	const char *p = value;

	*out = 0;
	do {
		size_t length = strcspn(p, ",");
		size_t i = 0;

		while (i < n && (strlen(names[i]) != length || memcmp(names[i], p, length) != 0))
			i++;
		if (i == n)
			return refuse_word(option, p, length, names, n);
		*out |= 1u << i;
		p += length;
	} while (*p++ == ',');
	return true;
}

static bool set_format(void *ctx, const char *name, const char *value)
{
	return parse_list(name, value, plot_formats, PLOT_FORMATS,
			  &((struct plot_settings *)ctx)->formats);
}

static bool set_only(void *ctx, const char *name, const char *value)
{
	return parse_list(name, value, plot_figures, PLOT_FIGURES,
			  &((struct plot_settings *)ctx)->figures);
}

static bool set_text(void *ctx, const char *name, const char *value)
{
	struct plot_settings *s = ctx;

	if (!*value) {
		cli_error("--%s=: expected a path", name);
		return false;
	}
	if (strcmp(name, "out") == 0)
		s->out = value;
	else
		s->gnuplot = value;
	return true;
}

static bool set_quiet(void *ctx, const char *name, const char *value)
{
	(void)ctx;
	(void)name;
	(void)value;
	cli_set_quiet(true);
	return true;
}

static const struct cli_option options[] = {
	{ "format", "LIST", "png, svg or both (png,svg)", set_format },
	{ "only", "LIST", "of memory, fragmentation, latency, compare, mirror, stall, scaling",
	  set_only },
	{ "out", "FOLDER", "where the pictures go (DIR)", set_text },
	{ "gnuplot", "PATH", "the gnuplot to run (the one in $PATH)", set_text },
	{ "quiet", NULL, "no remarks on what is left out", set_quiet },
	{ 0 },
};

static const struct cli_program program = {
	.name = "gpupool-plot",
	.synopsis = "[OPTION]... DIR",
	.about = "Draws what gpupool-replay --out=DIR wrote: memory and fragmentation over time,\n"
		 "latency, and a comparison. Prints the names of the pictures. Needs gnuplot.",
	.options = options,
	.examples = "  gpupool-replay --alloc=all --out=run traces/llm.json && gpupool-plot run\n"
		    "  gpupool-plot --only=compare --format=svg --out=figures run\n",
};

/* "run" as "./run": see plot/draw.h. */
static const char *safe_path(const char *path, char *buf)
{
	snprintf(buf, PATH_MAX, "%s%s", path[0] == '/' ? "" : "./", path);
	return buf;
}

/* dir: as the user gave it. */
static int plot(struct plot_settings *s, const char *dir)
{
	char why[PATH_MAX + 256];
	unsigned n_made = 0;
	int r = plot_summary_load(dir, &s->summary, why, sizeof(why));

	if (r) {
		cli_error("%s", why);
		return CLI_USAGE;
	}
	if (!plot_find_scripts(s)) {
		r = CLI_FAILED;
	} else if ((r = gp_folder_create(s->out, &n_made)) != 0) {
		cli_error("%s: cannot write here: %s", s->out_shown, strerror(-r));
		r = CLI_USAGE;
	} else {
		r = plot_draw(s);
		if (r)
			gp_folder_remove(s->out, n_made);
	}
	plot_summary_free(&s->summary);
	return r ? r : cli_flush_output() ? CLI_OK : CLI_USAGE;
}

int main(int argc, char **argv)
{
	static struct plot_settings s = { .figures = PLOT_ALL_FIGURES,
					  .formats = ~0u,
					  .gnuplot = "gnuplot" };
	static char dir[PATH_MAX], out[PATH_MAX];
	int n_operands = 0;
	int r = cli_parse(&program, &s, argc, argv, &n_operands);

	if (r >= 0)
		return r;
	if (n_operands != 1) {
		cli_error(
			n_operands
				? "expected one result folder only"
				: "expected a result folder: what gpupool-replay --out=DIR wrote");
		return CLI_USAGE;
	}
	if (strlen(argv[0]) > PATH_MAX - 64 || (s.out && strlen(s.out) > PATH_MAX - 64)) {
		cli_error("%s", strerror(ENAMETOOLONG));
		return CLI_USAGE;
	}
	s.dir = safe_path(argv[0], dir);
	s.out_shown = s.out ? s.out : argv[0];
	s.out = safe_path(s.out_shown, out);
	return plot(&s, argv[0]);
}
