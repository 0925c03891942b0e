/* SPDX-License-Identifier: Apache-2.0
 *
 * draw: the pictures of one result folder.
 */
#ifndef PLOT_DRAW_H
#define PLOT_DRAW_H

#include <limits.h>
#include <stdbool.h>

#include "summary.h"

#define PLOT_FIGURES 7
/* Places in the list. */
#define PLOT_MIRROR  4
#define PLOT_STALL   5
#define PLOT_SCALING 6
#define PLOT_FORMATS 2

#define PLOT_ALL_FIGURES (~0u)

extern const char *const plot_figures[PLOT_FIGURES]; /* "memory", ... */
extern const char *const plot_formats[PLOT_FORMATS]; /* "png", "svg" */

struct plot_settings {
	unsigned figures, formats; /* bit sets of positions in the lists above */
	/* Start with '/' or "./": gnuplot would run what starts with '|' or '<' as a command. */
	const char *dir, *out;
	const char *out_shown; /* out as the user gave it */
	const char *gnuplot;
	char scripts[PATH_MAX];
	struct plot_summary summary;
};

/* Fills in s->scripts; false after cli_error. */
bool plot_find_scripts(struct plot_settings *s);
/* Draws, and prints the names of the pictures. 0 or an exit code (cli.h), after cli_error. */
int plot_draw(const struct plot_settings *s);

#endif
