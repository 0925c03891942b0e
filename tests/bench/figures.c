/* SPDX-License-Identifier: Apache-2.0
 *
 * figures: what was measured. A table has groups, a group rows and columns, a cell a value of each
 * whole run. A few thousand cells at most, found by walking through them: not in any timed part.
 */
#include "bench.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "replay/environment.h"

#define RUNS_MAX   32
#define CELL_WIDTH 13

struct figure {
	char *table, *group, *row, *column;
	double values[RUNS_MAX]; /* sorted when printed */
	size_t n;
};

struct remark {
	char *table, *text;
};

static struct figure *figures;
static struct remark *remarks;
static size_t n_figures, n_remarks;

static char *text_copy(const char *text)
{
	return bench_memory(strdup(text));
}

static bool is_of(const struct figure *f, const char *table, const char *group)
{
	return !strcmp(f->table, table) && (!group || !strcmp(f->group, group));
}

static struct figure *figure_find(const char *table, const char *group, const char *row,
				  const char *column)
{
	for (size_t i = 0; i < n_figures; i++)
		if (is_of(&figures[i], table, group) && !strcmp(figures[i].row, row) &&
		    !strcmp(figures[i].column, column))
			return &figures[i];
	return NULL;
}

void bench_figure(const char *table, const char *group, const char *row, const char *column,
		  double value)
{
	struct figure *f = figure_find(table, group, row, column);

	if (isnan(value))
		return;
	if (!f) {
		figures = bench_memory(realloc(figures, (n_figures + 1) * sizeof(*figures)));
		f = &figures[n_figures++];
		*f = (struct figure){ text_copy(table),
				      text_copy(group),
				      text_copy(row),
				      text_copy(column),
				      { 0 },
				      0 };
	}
	if (f->n < RUNS_MAX)
		f->values[f->n++] = value;
}

void bench_remark(const char *table, const char *fmt, ...)
{
	char text[320];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < n_remarks; i++)
		if (!strcmp(remarks[i].table, table) && !strcmp(remarks[i].text, text))
			return;
	remarks = bench_memory(realloc(remarks, (n_remarks + 1) * sizeof(*remarks)));
	remarks[n_remarks++] = (struct remark){ text_copy(table), text_copy(text) };
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* ---- for people ---- */

/* Three at least, but for what comes in whole numbers. */
static int digits(double v)
{
	return v == floor(v) || v >= 100 ? 0 : v < 10 ? 3 : 1;
}

static void print_cell(FILE *out, struct figure *f)
{
	char text[64] = "";
	int n = 0;

	if (f) {
		double v = bench_median(f->values, f->n);
		double spread = v > 0 ? (f->values[f->n - 1] - f->values[0]) / 2 / v : 0;

		n = snprintf(text, sizeof(text), "%.*f", digits(v), v);
		if (spread > 0)
			snprintf(text + n, sizeof(text) - (size_t)n, " ±%.0f%%", 100 * spread);
	}
	/* The sign takes two bytes and one column. */
	fprintf(out, "%*s", strstr(text, "±") ? CELL_WIDTH + 1 : CELL_WIDTH, text);
}

/* Is figure i the first of its group that has this row (or column)? */
static bool is_first(size_t i, bool of_rows)
{
	const struct figure *f = &figures[i];

	for (size_t k = 0; k < i; k++) {
		const struct figure *g = &figures[k];

		if (is_of(g, f->table, f->group) &&
		    !strcmp(of_rows ? g->row : g->column, of_rows ? f->row : f->column))
			return false;
	}
	return true;
}

static void print_row(FILE *out, const struct figure *of)
{
	fprintf(out, "  %-28s", of->row);
	for (size_t i = 0; i < n_figures; i++)
		if (is_of(&figures[i], of->table, of->group) && is_first(i, false))
			print_cell(out,
				   figure_find(of->table, of->group, of->row, figures[i].column));
	fputc('\n', out);
}

static void print_group(FILE *out, const char *table, const char *group)
{
	fprintf(out, "  %-28s", group);
	for (size_t i = 0; i < n_figures; i++)
		if (is_of(&figures[i], table, group) && is_first(i, false))
			fprintf(out, "%*s", CELL_WIDTH, figures[i].column);
	fputc('\n', out);
	for (size_t i = 0; i < n_figures; i++)
		if (is_of(&figures[i], table, group) && is_first(i, true))
			print_row(out, &figures[i]);
	fputc('\n', out);
}

static bool is_new(size_t i, bool table_only)
{
	for (size_t k = 0; k < i; k++)
		if (is_of(&figures[k], figures[i].table, table_only ? NULL : figures[i].group))
			return false;
	return true;
}

void bench_print(FILE *out)
{
	for (size_t t = 0; t < n_figures; t++) {
		const char *table = figures[t].table;

		if (!is_new(t, true))
			continue;
		fprintf(out, "%s\n\n", table);
		for (size_t i = t; i < n_figures; i++)
			if (is_of(&figures[i], table, NULL) && is_new(i, false))
				print_group(out, table, figures[i].group);
		for (size_t i = 0; i < n_remarks; i++)
			if (!strcmp(remarks[i].table, table))
				fprintf(out, "  %s\n\n", remarks[i].text);
	}
}

/* ---- for programs ---- */

static json_t *json_environment(void)
{
	struct gp_device_info none = { 0 };
	struct gp_environment env;

	gp_environment_gather(&env, &none);
	return json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:f, s:f}", "date", env.date, "cpu",
			 env.cpu, "cores", (int)env.cores, "kernel", env.kernel, "compiler",
			 env.compiler, "build", env.build, "timer_overhead_ns",
			 env.timer_overhead_ns, "timer_step_ns", env.timer_step_ns);
}

static json_t *json_figure(struct figure *f)
{
	double median = bench_median(f->values, f->n);

	return json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:i}", "table", f->table, "group",
			 f->group, "row", f->row, "column", f->column, "median", median, "least",
			 f->values[0], "most", f->values[f->n - 1], "runs", (int)f->n);
}

static json_t *json_document(unsigned runs, double seconds)
{
	json_t *all = json_array(), *words = json_array();

	for (size_t i = 0; i < n_figures; i++)
		json_array_append_new(all, json_figure(&figures[i]));
	for (size_t i = 0; i < n_remarks; i++)
		json_array_append_new(words, json_pack("{s:s, s:s}", "table", remarks[i].table,
						       "text", remarks[i].text));
	return json_pack("{s:s, s:i, s:o, s:i, s:f, s:o, s:o}", "gpupool_bench", GP_VERSION,
			 "schema", 1, "environment", json_environment(), "runs", (int)runs,
			 "seconds", seconds, "figures", all, "remarks", words);
}

int bench_write_json(const char *path, unsigned runs, double seconds)
{
	json_t *doc = json_document(runs, seconds);
	int r = -ENOMEM;

	if (doc) {
		errno = EIO;
		r = json_dump_file(doc, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) ? -errno : 0;
	}
	json_decref(doc);
	return r;
}

void bench_figures_free(void)
{
	for (size_t i = 0; i < n_figures; i++) {
		free(figures[i].table);
		free(figures[i].group);
		free(figures[i].row);
		free(figures[i].column);
	}
	for (size_t i = 0; i < n_remarks; i++) {
		free(remarks[i].table);
		free(remarks[i].text);
	}
	free(figures);
	free(remarks);
}
