/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool-plot: pictures of a result folder, drawn by gnuplot.
 *
 *   DIR/summary.tsv + DIR/LABEL.curve.tsv, .hgrm --> plot/FIGURE.gp --> OUT/FIGURE.png, .svg
 *
 * Shape        The scripts do the drawing and can be run by hand; this program finds out which
 *              allocators have anything to draw, runs gnuplot (no shell), and puts a picture in its
 *              place only when it is whole.
 * Invariants   Paths handed to gnuplot start with '/' or "./": it would run what starts with '|' or
 *              '<' as a command. Labels hold nothing but letters, digits and "._+-".
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocators/base.h"
#include "cli.h"
#include "plot/child.h"
#include "plot/summary.h"
#include "replay/atomic_file.h"

#ifndef GP_PLOT_DIR
#define GP_PLOT_DIR "/usr/local/share/gpupool/plot"
#endif

static const struct figure {
	const char *name;
	const char *needs[2]; /* endings of the files that it draws; NULL: the summary alone */
} figures[] = {
	{ "memory", { PLOT_CURVE, NULL } },
	{ "fragmentation", { PLOT_CURVE, NULL } },
	{ "latency", { PLOT_ALLOC, PLOT_FREE } },
	{ "compare", { NULL, NULL } },
};

static const char *const formats[] = { "png", "svg" };

struct settings {
	unsigned figures, formats; /* bit sets */
	const char *dir, *out; /* see the invariants; out_shown: as given */
	const char *out_shown;
	const char *gnuplot;
	char scripts[PATH_MAX];
	struct plot_summary summary;
};

/* ---- options ---- */

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
	return parse_list(name, value, formats, GP_ARRAY_LEN(formats),
			  &((struct settings *)ctx)->formats);
}

static bool set_only(void *ctx, const char *name, const char *value)
{
	const char *names[GP_ARRAY_LEN(figures)];

	for (size_t i = 0; i < GP_ARRAY_LEN(figures); i++)
		names[i] = figures[i].name;
	return parse_list(name, value, names, GP_ARRAY_LEN(figures),
			  &((struct settings *)ctx)->figures);
}

static bool set_text(void *ctx, const char *name, const char *value)
{
	struct settings *s = ctx;

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
	{ "only", "LIST", "of memory, fragmentation, latency, compare (all)", set_only },
	{ "out", "FOLDER", "where the pictures go (DIR)", set_text },
	{ "gnuplot", "PATH", "the gnuplot to run (the one in $PATH)", set_text },
	{ "quiet", NULL, "no remarks on what is left out", set_quiet },
	{ 0 },
};

static const struct cli_program program = {
	.name = "gpupool-plot",
	.synopsis = "[OPTION]... DIR",
	.about = "Draws what gpupool-replay --out=DIR wrote: memory and fragmentation over time, "
		 "latency, and\na comparison. Prints the names of the pictures. Needs gnuplot.",
	.options = options,
	.examples = "  gpupool-replay --alloc=all --out=run traces/llm.json && gpupool-plot run\n"
		    "  gpupool-plot --only=compare --format=svg --out=figures run\n",
};

/* ---- where the scripts are ---- */

static bool has_scripts(const char *dir)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof(path), "%s/style.gp", dir) < sizeof(path) &&
	       access(path, R_OK) == 0;
}

/* PREFIX/share/gpupool/plot, from PREFIX/bin/gpupool-plot: right wherever PREFIX was moved. */
static bool scripts_by_program(char *buf, size_t size)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n <= 0)
		return false;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return (size_t)snprintf(buf, size, "%s/../share/gpupool/plot", exe) < size &&
	       has_scripts(buf);
}

static bool find_scripts(struct settings *s)
{
	const char *env = getenv("GPUPOOL_PLOT_DIR");

	if (env && *env) {
		if ((size_t)snprintf(s->scripts, sizeof(s->scripts), "%s", env) <
		    sizeof(s->scripts) && has_scripts(env))
			return true;
		cli_error("GPUPOOL_PLOT_DIR=%s: no style.gp in there", env);
		return false;
	}
	if (scripts_by_program(s->scripts, sizeof(s->scripts)))
		return true;
	snprintf(s->scripts, sizeof(s->scripts), "%s", GP_PLOT_DIR);
	if (has_scripts(s->scripts))
		return true;
	cli_error("no plot scripts in %s; GPUPOOL_PLOT_DIR says where they are", s->scripts);
	return false;
}

/* ---- drawing ---- */

/* The labels that have something to draw, with blanks around them; one blank: none has. */
static void figure_labels(const struct settings *s, const struct figure *f, char *buf)
{
	strcpy(buf, " ");
	for (size_t i = 0; i < s->summary.n_labels; i++) {
		const char *label = s->summary.labels[i];
		int lines = 1;

		if (f->needs[0])
			lines = plot_data_lines(s->dir, label, f->needs[0]);
		/* A trace may free nothing; but both files must be there. */
		if (f->needs[1] && lines >= 0) {
			int more = plot_data_lines(s->dir, label, f->needs[1]);

			lines = more < 0 ? more : lines + more;
		}
		if (lines < 0)
			cli_note("%s: no %s to read (%s); left out", label, f->name,
				 strerror(-lines));
		if (lines > 0) {
			strcat(buf, label);
			strcat(buf, " ");
		}
	}
}

/* gnuplot draws into a folder of its own beside the target; what is whole is moved out. */
static int draw_picture(const struct settings *s, const struct figure *f, const char *format,
			const char *labels)
{
	char temp_dir[PATH_MAX], temp[PATH_MAX], target[PATH_MAX], script[PATH_MAX];
	const char *argv[] = { s->gnuplot, "-d", "-c", script, s->dir, temp, labels, NULL };
	struct stat st;
	int r;

	if (snprintf(temp_dir, sizeof(temp_dir), "%s/.gpupool-plot-XXXXXX", s->out) >= PATH_MAX - 32 ||
	    snprintf(script, sizeof(script), "%s/%s.gp", s->scripts, f->name) >= PATH_MAX) {
		cli_error("%s: %s", s->out, strerror(ENAMETOOLONG));
		return CLI_USAGE;
	}
	if (!mkdtemp(temp_dir)) {
		cli_error("%s: cannot write here: %s", s->out, strerror(errno));
		return CLI_USAGE;
	}
	snprintf(temp, sizeof(temp), "%.*s/%s.%s", PATH_MAX - 32, temp_dir, f->name, format);
	snprintf(target, sizeof(target), "%.*s/%s.%s", PATH_MAX - 32, s->out, f->name, format);
	r = plot_run_child(argv);
	if (r == 0 && (stat(temp, &st) != 0 || st.st_size == 0)) {
		cli_error("%s: gnuplot drew nothing", target);
		r = CLI_FAILED;
	} else if (r == 0 && rename(temp, target) != 0) {
		cli_error("%s: %s", target, strerror(errno));
		r = CLI_USAGE;
	} else if (r == 0) {
		printf("%s/%s.%s\n", s->out_shown, f->name, format);
	}
	unlink(temp);
	rmdir(temp_dir);
	return r;
}

static int draw_all(const struct settings *s)
{
	const volatile sig_atomic_t *interrupted = cli_interrupted();
	char *labels = malloc(s->summary.n_labels * (PLOT_LABEL_MAX + 1) + 2);
	int r = 0;

	if (!labels) {
		cli_error("%s", strerror(ENOMEM));
		return CLI_USAGE;
	}
	for (size_t i = 0; i < GP_ARRAY_LEN(figures) && !r; i++) {
		if (!(s->figures & 1u << i))
			continue;
		figure_labels(s, &figures[i], labels);
		if (strcmp(labels, " ") == 0)
			cli_note("%s: nothing to draw; the picture says so", figures[i].name);
		for (size_t k = 0; k < GP_ARRAY_LEN(formats) && !r; k++) {
			if (s->formats & 1u << k)
				r = draw_picture(s, &figures[i], formats[k], labels);
			if (*interrupted)
				r = CLI_INTERRUPTED;
		}
	}
	free(labels);
	return r;
}

/* "run" as "./run": see the invariants. */
static const char *safe_path(const char *path, char *buf)
{
	snprintf(buf, PATH_MAX, "%s%s", path[0] == '/' ? "" : "./", path);
	return buf;
}

static int plot(struct settings *s)
{
	char why[PATH_MAX + 256];
	unsigned n_made = 0;
	int r = plot_summary_load(s->dir, &s->summary, why, sizeof(why));

	if (r) {
		cli_error("%s", why);
		return CLI_USAGE;
	}
	if (!find_scripts(s)) {
		r = CLI_FAILED;
	} else if ((r = gp_folder_create(s->out, &n_made)) != 0) {
		cli_error("%s: cannot write here: %s", s->out, strerror(-r));
		r = CLI_USAGE;
	} else {
		r = draw_all(s);
		if (r)
			gp_folder_remove(s->out, n_made);
	}
	plot_summary_free(&s->summary);
	return r ? r : cli_flush_output() ? CLI_OK : CLI_USAGE;
}

int main(int argc, char **argv)
{
	static struct settings s = { .figures = ~0u, .formats = ~0u, .gnuplot = "gnuplot" };
	static char dir[PATH_MAX], out[PATH_MAX];
	int n_operands = 0;
	int r = cli_parse(&program, &s, argc, argv, &n_operands);

	if (r >= 0)
		return r;
	if (n_operands != 1) {
		cli_error(n_operands ? "expected one result folder only" :
				       "expected a result folder: what gpupool-replay --out=DIR wrote");
		return CLI_USAGE;
	}
	if (strlen(argv[0]) > PATH_MAX - 64 || (s.out && strlen(s.out) > PATH_MAX - 64)) {
		cli_error("%s", strerror(ENAMETOOLONG));
		return CLI_USAGE;
	}
	s.dir = safe_path(argv[0], dir);
	s.out_shown = s.out ? s.out : argv[0];
	s.out = safe_path(s.out_shown, out);
	return plot(&s);
}
