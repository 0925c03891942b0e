/* SPDX-License-Identifier: Apache-2.0
 *
 * draw: the pictures of one result folder.
 *
 *   DIR/LABEL.curve.tsv, .hgrm --> plot/FIGURE.gp, run by gnuplot --> OUT/FIGURE.png, .svg
 *
 * Shape        The scripts do the drawing and can be run by hand; this file finds out which
 *              allocators have anything to draw, and puts a picture in its place only when it is
 *              whole.
 * Threads      main thread only
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocators/base.h"
#include "child.h"
#include "draw.h"
#include "tools/cli.h"

#ifndef GP_PLOT_DIR
#define GP_PLOT_DIR "/usr/local/share/gpupool/plot"
#endif

const char *const plot_figures[PLOT_FIGURES] = { "memory", "fragmentation", "latency", "compare",
						 "mirror", "stall",         "scaling" };
const char *const plot_formats[PLOT_FORMATS] = { "png", "svg" };

/* Endings of the files that a figure draws; none: the summary alone. */
static const char *const plot_needs[PLOT_FIGURES][2] = {
	{ PLOT_CURVE, NULL }, { PLOT_CURVE, NULL }, { PLOT_ALLOC, PLOT_FREE },
	{ NULL, NULL },       { NULL, NULL },       { NULL, NULL },
};

/* ---- where the scripts are ---- */

static bool has_scripts(const char *dir)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof(path), "%s/style.gp", dir) < sizeof(path) &&
	       access(path, R_OK) == 0;
}

/* Beside the program in a build folder; PREFIX/share/gpupool/plot from PREFIX/bin/gpupool-plot:
 * right wherever either was moved. */
static bool scripts_by_program(char *buf, size_t size)
{
	static const char *const places[] = { "plot", "../share/gpupool/plot" };
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
	for (size_t i = 0; i < GP_ARRAY_LEN(places); i++)
		if ((size_t)snprintf(buf, size, "%s/%s", exe, places[i]) < size && has_scripts(buf))
			return true;
	return false;
}

bool plot_find_scripts(struct plot_settings *s)
{
	const char *env = getenv("GPUPOOL_PLOT_DIR");

	if (env && *env) {
		if ((size_t)snprintf(s->scripts, sizeof(s->scripts), "%s", env) <
			    sizeof(s->scripts) &&
		    has_scripts(env))
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

/* Data lines of what the figure draws of this allocator; -errno: a file is missing. */
static int figure_lines(const struct plot_settings *s, unsigned figure, const char *label)
{
	int lines = 0;

	if (figure == PLOT_SCALING)
		return s->summary.scaling;
	if (!plot_needs[figure][0])
		return 1;
	/* A trace may free nothing; but every file must be there. */
	for (size_t i = 0; i < 2 && plot_needs[figure][i]; i++) {
		int r = plot_data_lines(s->dir, label, plot_needs[figure][i]);

		if (r < 0)
			return r;
		lines += r;
	}
	return lines;
}

/* The labels that have something to draw, with blanks around them; one blank: none has. */
static void figure_labels(const struct plot_settings *s, unsigned figure, char *buf)
{
	size_t n_drawn = 0;

	strcpy(buf, " ");
	for (size_t i = 0; i < s->summary.n_labels; i++) {
		const char *label = s->summary.labels[i];
		int lines = figure_lines(s, figure, label);

		if (lines < 0)
			cli_note("%s: no %s to read (%s); left out", label, plot_figures[figure],
				 strerror(-lines));
		if (lines > 0) {
			strcat(buf, label);
			strcat(buf, " ");
			n_drawn++;
		}
	}
	if (n_drawn == 0)
		cli_note("%s: nothing to draw; the picture says so", plot_figures[figure]);
	else if (n_drawn < s->summary.n_labels)
		cli_note("%s: %zu of %zu allocators; the others have nothing to draw",
			 plot_figures[figure], n_drawn, s->summary.n_labels);
}

/* Is there anything that the figure could be of? */
static bool figure_exists(const struct plot_settings *s, unsigned figure)
{
	const char *missing = NULL;

	/* Where runs differ in their threads, that is what the folder is for. */
	if (s->figures == PLOT_ALL_FIGURES && (figure == PLOT_SCALING) != s->summary.scaling)
		return false;
	if (figure == PLOT_STALL && !s->summary.worked)
		missing = "no work was queued (gpupool-replay --work)";
	if (figure == PLOT_MIRROR && !s->summary.mirrored)
		missing = "no mirror.tsv in this folder";
	if (missing && s->figures != PLOT_ALL_FIGURES)
		cli_note("%s: %s; left out", plot_figures[figure], missing);
	return !missing;
}

/* gnuplot draws into a folder of its own beside the target; what is whole is moved out. */
static int draw_picture(const struct plot_settings *s, unsigned figure, const char *format,
			const char *labels)
{
	char temp_dir[PATH_MAX], temp[PATH_MAX], target[PATH_MAX], script[PATH_MAX];
	const char *argv[] = { s->gnuplot, "-d", "-c", script, s->dir, temp, labels, NULL };
	struct stat st;
	int r;

	if (snprintf(temp_dir, sizeof(temp_dir), "%s/.gpupool-plot-XXXXXX", s->out) >=
		    PATH_MAX - 32 ||
	    snprintf(script, sizeof(script), "%s/%s.gp", s->scripts, plot_figures[figure]) >=
		    PATH_MAX) {
		cli_error("%s: %s", s->out, strerror(ENAMETOOLONG));
		return CLI_USAGE;
	}
	if (!mkdtemp(temp_dir)) {
		cli_error("%s: cannot write here: %s", s->out_shown, strerror(errno));
		return CLI_USAGE;
	}
	snprintf(temp, sizeof(temp), "%.*s/%s.%s", PATH_MAX - 32, temp_dir, plot_figures[figure],
		 format);
	snprintf(target, sizeof(target), "%.*s/%s.%s", PATH_MAX - 32, s->out, plot_figures[figure],
		 format);
	r = plot_run_child(argv);
	if (r == 0 && (stat(temp, &st) != 0 || st.st_size == 0)) {
		cli_error("%s: gnuplot drew nothing", target);
		r = CLI_FAILED;
	} else if (r == 0 && rename(temp, target) != 0) {
		cli_error("%s: %s", target, strerror(errno));
		r = CLI_USAGE;
	} else if (r == 0) {
		printf("%s/%s.%s\n", s->out_shown, plot_figures[figure], format);
	}
	unlink(temp);
	rmdir(temp_dir);
	return r;
}

int plot_draw(const struct plot_settings *s)
{
	const volatile sig_atomic_t *interrupted = cli_interrupted();
	char *labels = malloc(s->summary.n_labels * (PLOT_LABEL_MAX + 1) + 2);
	int r = 0;

	if (!labels) {
		cli_error("%s", strerror(ENOMEM));
		return CLI_USAGE;
	}
	for (unsigned i = 0; i < PLOT_FIGURES && !r; i++) {
		if (!(s->figures & 1u << i) || !figure_exists(s, i))
			continue;
		figure_labels(s, i, labels);
		for (unsigned k = 0; k < PLOT_FORMATS && !r; k++) {
			if (s->formats & 1u << k)
				r = draw_picture(s, i, plot_formats[k], labels);
			if (*interrupted)
				r = CLI_INTERRUPTED;
		}
	}
	free(labels);
	return r;
}
