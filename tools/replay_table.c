/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_table: one row per allocator, aligned, in units for people, the best of each column
 * marked.
 *
 * Shape       columns (replay_columns.h) tell what to write; widths come from the contents, so that
 *             the table is as narrow as it can be.
 * Best        the lowest figure of a column, among the runs that served every request: holding
 *             little by refusing much is no merit. Runs whose texts read the same share the mark;
 *             where all do, nothing is marked.
 * Threads     main thread only
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "replay/plan.h"
#include "replay_columns.h"
#include "replay_scaling.h"
#include "replay_table.h"

#define BOLD_GREEN "\033[1;32m"
#define BOLD_RED   "\033[1;31m"
#define DIM        "\033[2m"
#define BOLD       "\033[1m"
#define PLAIN      "\033[0m"

/* ---- layout ---- */

struct cell {
	char text[COLUMN_TEXT];
	double figure;
	bool best;
};

struct table {
	FILE *out;
	const struct gp_report *report;
	struct cell (*rows)[N_COLUMNS]; /* [n_runs] */
	size_t widths[N_COLUMNS];
	bool hidden[N_COLUMNS]; /* the status if all are ok; what a narrow terminal has no room for
				 */
	bool colour;
};

static const char *paint(const struct table *t, const char *escape)
{
	return t->colour ? escape : "";
}

/* Has it figures that mean something? */
static bool is_measured(const struct gp_run *run)
{
	return run->status != GP_STATUS_ERROR;
}

static bool is_rated(const struct gp_run *run)
{
	return run->status == GP_STATUS_OK && !run->failures.count;
}

static void rate_column(struct table *t, size_t c)
{
	const struct cell *best = NULL;
	size_t n_rated = 0, n_best = 0;

	for (size_t i = 0; i < t->report->n_runs; i++) {
		const struct cell *cell = &t->rows[i][c];

		if (!is_rated(t->report->runs[i]) || isnan(cell->figure))
			continue;
		n_rated++;
		if (!best || cell->figure < best->figure)
			best = cell;
	}
	for (size_t pass = 0; pass < 2 && best; pass++) {
		for (size_t i = 0; i < t->report->n_runs; i++) {
			struct cell *cell = &t->rows[i][c];

			if (!is_rated(t->report->runs[i]) || strcmp(cell->text, best->text) != 0)
				continue;
			n_best += pass == 0;
			cell->best = pass == 1 && n_best < n_rated;
		}
	}
}

/* What a call took of less than a step of the clock, nobody knows. */
static void blur(struct cell *cell, double step_ns)
{
	if (!(cell->figure < step_ns))
		return;
	cell->figure = step_ns;
	snprintf(cell->text, sizeof(cell->text), "<%.0f ns", ceil(step_ns));
}

static void hide_group(struct table *t, const char *group)
{
	for (size_t c = 0; columns[c].group; c++)
		t->hidden[c] |= strcmp(columns[c].group, group) == 0;
}

static bool any_work(const struct table *t)
{
	return t->report->config && t->report->config->work.kind;
}

static void fill(struct table *t)
{
	t->hidden[COLUMN_STATUS] = true;
	if (!any_work(t))
		hide_group(t, COLUMN_WORK);
	for (size_t i = 0; i < t->report->n_runs; i++) {
		if (t->report->runs[i]->status != GP_STATUS_OK)
			t->hidden[COLUMN_STATUS] = false;
		for (size_t c = 0; c < N_COLUMNS; c++) {
			struct cell *cell = &t->rows[i][c];

			cell->figure = columns[c].cell(t->report->runs[i], cell->text);
			if (columns[c].clocked)
				blur(cell, t->report->environment->timer_step_ns);
			if (c && c < COLUMN_STATUS && !is_measured(t->report->runs[i]))
				snprintf(cell->text, sizeof(cell->text), "-");
		}
	}
	for (size_t c = 0; c < N_COLUMNS; c++) {
		t->widths[c] = strlen(columns[c].title);
		for (size_t i = 0; i < t->report->n_runs; i++)
			t->widths[c] = gp_max_u64(t->widths[c], strlen(t->rows[i][c].text));
		if (columns[c].ranked)
			rate_column(t, c);
	}
}

static size_t table_width(const struct table *t)
{
	size_t width = 0;

	for (size_t c = 0; c < N_COLUMNS; c++)
		width += t->hidden[c] ? 0 : t->widths[c] + 2;
	return width - 2;
}

/* Hides what one can do without for as long as a line does not fit; 0 columns: any line does. */
static void narrow(struct table *t, unsigned n_columns)
{
	static const char *const dispensable[] = { "device", "own", "lost" };
	const char *before = "Too narrow for: ";

	for (size_t i = 0; i < GP_ARRAY_LEN(dispensable); i++) {
		if (!n_columns || table_width(t) <= n_columns)
			break;
		hide_group(t, dispensable[i]);
		fprintf(t->out, "%s%s", before, dispensable[i]);
		before = ", ";
	}
	if (before[0] == ',')
		fputs(" (all is in result.json)\n\n", t->out);
}

/* Names to the left, figures to the right. A mark takes the first place of the gap; behind the
 * last cell of a line there is nothing. */
static void print_cell(const struct table *t, size_t c, const char *text, const char *escape,
		       bool mark, bool last)
{
	int pad = (int)(t->widths[c] - strlen(text));
	bool left = c == 0 || c == COLUMN_STATUS;

	fprintf(t->out, "%*s%s%s%s", left ? 0 : pad, "", paint(t, escape), text,
		escape[0] ? paint(t, PLAIN) : "");
	if (!last)
		fprintf(t->out, "%*s%s", left ? pad : 0, "", mark ? "* " : "  ");
}

/* Columns of the group that begins at c. */
static size_t group_size(size_t c)
{
	size_t n = 1;

	while (columns[c + n].group && strcmp(columns[c + n].group, columns[c].group) == 0)
		n++;
	return n;
}

/* "---- memory ----" over the columns of each group. */
static void print_groups(const struct table *t)
{
	static const char dashes[] = "----------------------------------------";
	size_t n;

	for (size_t c = 0; columns[c].group; c += n) {
		int length = (int)strlen(columns[c].group);
		int width = (int)t->widths[c], left, right;

		n = group_size(c);
		for (size_t i = 1; i < n; i++)
			width += 2 + (int)t->widths[c + i];
		if (t->hidden[c])
			continue;
		/* A space on either side of the word: titles are long enough for that. */
		left = (width - length - 2) / 2;
		right = width - length - 2 - left;
		if (columns[c].group[0])
			fprintf(t->out, "  %.*s %s %.*s", left, dashes, columns[c].group, right,
				dashes);
		else
			fprintf(t->out, "%*s", width, "");
	}
	fputc('\n', t->out);
}

static bool last_shown(const struct table *t, size_t c)
{
	return c == COLUMN_STATUS || (c == COLUMN_FAILED && t->hidden[COLUMN_STATUS]);
}

static void print_head(const struct table *t)
{
	fputs(paint(t, DIM), t->out);
	print_groups(t);
	fputs(paint(t, PLAIN), t->out);
	for (size_t c = 0; c < N_COLUMNS; c++)
		if (!t->hidden[c])
			print_cell(t, c, columns[c].title, BOLD, false, last_shown(t, c));
	fputc('\n', t->out);
}

static void print_row(const struct table *t, size_t row)
{
	const struct gp_run *run = t->report->runs[row];
	size_t n = run->status == GP_STATUS_OK ? COLUMN_STATUS : N_COLUMNS;

	for (size_t c = 0; c < n; c++) {
		const struct cell *cell = &t->rows[row][c];
		bool bad = (c == COLUMN_FAILED && run->failures.count) || c == COLUMN_STATUS;

		if (t->hidden[c])
			continue;
		print_cell(t, c, cell->text,
			   cell->best ? BOLD_GREEN
			   : bad      ? BOLD_RED
				      : "",
			   cell->best, c + 1 == n);
	}
	fputc('\n', t->out);
}

/* ---- around the table ---- */

const char *replay_table_why(const struct gp_run *run)
{
	size_t n = strlen(run->allocator);

	return strncmp(run->why, run->allocator, n) == 0 && strncmp(run->why + n, ": ", 2) == 0
		       ? run->why + n + 2
		       : run->why;
}

static void print_injection(const struct table *t, const struct gp_injection *inject)
{
	char n[32];

	if (inject->lost_call)
		fprintf(t->out, ", lost at call %s", cli_number(n, inject->lost_call));
	if (inject->sticky_call)
		fprintf(t->out, ", broken at call %s", cli_number(n, inject->sticky_call));
	if (inject->fail_call)
		fprintf(t->out, ", out of memory at call %s", cli_number(n, inject->fail_call));
	if (inject->slow_call)
		fprintf(t->out, ", slow at call %s", cli_number(n, inject->slow_call));
	if (inject->lose_bytes)
		fprintf(t->out, ", leaking %s at each release", cli_bytes(n, inject->lose_bytes));
}

/* What makes these figures others than those of a plain replay. */
static void print_settings(const struct table *t)
{
	const struct gp_engine_config *config = t->report->config;
	char work[64];

	if (!config)
		return;
	print_injection(t, &config->device_config.inject);
	/* Of several numbers of threads, the table below tells. */
	if (config->threads && !replay_scaling_shown(t->report))
		fprintf(t->out, ", %u thread%s", config->threads, config->threads > 1 ? "s" : "");
	if (config->pace > 0)
		fprintf(t->out, ", paced at %g times recorded speed", config->pace);
	if (config->work.kind)
		fprintf(t->out, ", with work: %s", gp_work_text(&config->work, work, sizeof(work)));
	for (size_t i = 0; i < config->n_wraps; i++)
		fprintf(t->out, "%s%s", i ? ", " : "; times include: ", config->wraps[i]);
}

static void print_title(const struct table *t)
{
	const struct gp_trace *trace = t->report->trace;
	const struct gp_device_info *device = &t->report->environment->device;
	char stem[128], events[32], load[32], total[32];

	/* The stem, not the name: a trace may be called anything, escape sequences included. */
	fprintf(t->out, "%s%s%s: %s events, load %s, on %s with %s", paint(t, BOLD),
		gp_report_trace_stem(trace, stem, sizeof(stem)), paint(t, PLAIN),
		cli_number(events, trace->n_events), cli_bytes(load, trace->load_bytes),
		device->name, cli_bytes(total, device->total_bytes));
	print_settings(t);
	if (t->report->partial)
		fprintf(t->out, "%s -- partial: %s%s", paint(t, BOLD_RED), t->report->partial,
			paint(t, PLAIN));
	fputs("\n\n", t->out);
}

static void print_reasons(const struct table *t, const struct gp_run *run)
{
	static const char *const words[GP_REASON_N] = {
		[GP_REASON_OVER_CAPACITY] = "over capacity",
		[GP_REASON_FRAGMENTED] = "fragmented",
		[GP_REASON_STREAM_HELD] = "held by another stream",
		[GP_REASON_REFUSED] = "refused",
	};
	const char *before = ": ";
	char n[32];

	for (size_t i = 0; i < GP_REASON_N; i++) {
		if (!run->failures.reasons[i])
			continue;
		fprintf(t->out, "%s%s %s", before, cli_number(n, run->failures.reasons[i]),
			words[i]);
		before = ", ";
	}
}

/* Who failed, how and why, and who did not. */
static void print_failures(const struct table *t)
{
	int width = (int)t->widths[0];
	char count[32], bytes[32], event[32];
	bool any = false, none_kept = true;

	for (size_t i = 0; i < t->report->n_runs; i++) {
		const struct gp_run *run = t->report->runs[i];

		none_kept = none_kept && !is_rated(run);
		if (!run->failures.count)
			continue;
		fprintf(t->out, "%s  %-*s  %s (%s), first at event %s",
			any ? "" : "\nRequests that failed\n", width, run->label,
			cli_number(count, run->failures.count),
			cli_bytes(bytes, run->failures.bytes),
			cli_number(event, run->failures.first_event));
		print_reasons(t, run);
		fputc('\n', t->out);
		any = true;
	}
	if (!any)
		return;
	fputs("Would have kept the job alive:", t->out);
	for (size_t i = 0; i < t->report->n_runs; i++)
		if (is_rated(t->report->runs[i]))
			fprintf(t->out, " %s", t->report->runs[i]->label);
	fputs(none_kept ? " none of these\n" : "\n", t->out);
	if (t->report->config && !t->report->config->explain)
		fputs("Why, and which settings would help: --explain\n", t->out);
}

static void print_errors(const struct table *t)
{
	const char *head = "\nRuns without a result\n";

	for (size_t i = 0; i < t->report->n_runs; i++) {
		const struct gp_run *run = t->report->runs[i];

		if (is_measured(run))
			continue;
		fprintf(t->out, "%s  %-*s  %s\n", head, (int)t->widths[0], run->label,
			replay_table_why(run));
		head = "";
	}
}

static void print_quantiles(FILE *out, const char *what, const struct gp_hist *h)
{
	char p50[32], p99[32], max[32];

	fprintf(out, "%s %s / %s / %s", what, cli_time(p50, (double)gp_hist_percentile(h, 50)),
		cli_time(p99, (double)gp_hist_percentile(h, 99)),
		cli_time(max, h->count ? (double)h->max : 0));
}

/* --pace: what a caller that comes at its appointed time sees. */
static void print_paced(const struct table *t)
{
	const char *head =
		"\nPaced, p50 / p99 / max: lateness of calls, and time from due to done\n";

	for (size_t i = 0; i < t->report->n_runs; i++) {
		const struct gp_run *run = t->report->runs[i];

		if (!run->paced || !is_measured(run))
			continue;
		fprintf(t->out, "%s  %-*s", head, (int)t->widths[0], run->label);
		print_quantiles(t->out, "  late", &run->lateness_ns);
		print_quantiles(t->out, "   alloc", &run->response_alloc_ns);
		print_quantiles(t->out, "   free", &run->response_free_ns);
		fputc('\n', t->out);
		head = "";
	}
}

/* --plan: how far above the best that is known each stays. */
static void print_plan(const struct table *t)
{
	const struct gp_plan *plan = t->report->config ? t->report->config->plan : NULL;
	char height[32], bound[32], seconds[32];

	if (!plan)
		return;
	fprintf(t->out,
		"\nBest plan of the whole trace: %s, %.2f %% above the bound of %s (%s, %s)\n",
		cli_bytes(height, plan->placement.height),
		100 * ((double)plan->placement.height / (double)gp_max_u64(plan->bound, 1) - 1),
		cli_bytes(bound, plan->bound), plan->how, cli_time(seconds, plan->seconds * 1e9));
	for (size_t i = 0; i < t->report->n_runs; i++) {
		const struct gp_run *run = t->report->runs[i];

		if (is_measured(run) && run->threads_mode == GP_THREADS_SHARE)
			fprintf(t->out, "  %-*s  reserves %.1f %% more\n", (int)t->widths[0],
				run->label, 100 * gp_plan_above(plan, run->memory.peak_reserved));
	}
}

/* Two runs of one allocator differ by what was asked for, which a label does not say. */
static void print_specs(const struct table *t)
{
	const char *head = "\nAs asked for\n";

	for (size_t i = 0; i < t->report->n_runs; i++) {
		const struct gp_run *run = t->report->runs[i];

		/* Of runs that differ in their threads, one line. */
		if (strcmp(run->spec, run->series) == 0 ||
		    (i && strcmp(run->series, t->report->runs[i - 1]->series) == 0))
			continue;
		fprintf(t->out, "%s  %-*s  %s\n", head, (int)t->widths[0], run->series, run->spec);
		head = "";
	}
}

/* Which times are the clock's and which the model's. */
static const char *times_text(const struct table *t)
{
	if (!t->report->environment->device.simulated)
		return "All times are measured on the device.\n";
	if (t->report->config && t->report->config->threads)
		return t->report->config->threads_mode != GP_THREADS_SHARE
			       ? "Measured by the wall clock. The driver is simulated: its calls cost"
				 " what the simulator takes, which\nsays nothing about an allocator"
				 " that calls it often (raw, async).\n"
			       : "The times of calls are measured and have no driver's in them (simulated"
				 " device); waiting for\nother threads counts, also in own per op. Device"
				 " time is modelled.\n";
	return "Driver calls are modelled (simulated device); the allocators' own time is"
	       " measured.\n";
}

static const char work_legend[] =
	"stalled: time that calls waited for queued work of the device; GPU idle: that it had none"
	" left during calls.\nAll of that is from the latency pass; device time and calls are not.\n";

static void print_legend(const struct table *t)
{
	fprintf(t->out,
		"\n%s* best of those that served every request. reserved: peak held from the device;"
		" overhead: that over the load;\n"
		"internal: rounding inside blocks, external: free memory not in one piece, both at the"
		" peak. alloc, free: latency\n"
		"of a call with the driver calls it makes; own per op: the allocator's code alone;"
		" device: all driver calls.\n%s%s%s",
		paint(t, DIM), any_work(t) ? work_legend : "", times_text(t), paint(t, PLAIN));
}

/* Threads that replay copies: only what is said of those. */
static void print_copies(const struct table *t)
{
	replay_scaling_print(t->out, t->report, paint(t, BOLD), paint(t, PLAIN));
	print_specs(t);
	print_errors(t);
	print_failures(t);
	fprintf(t->out, "%s%s%s", paint(t, DIM), times_text(t), paint(t, PLAIN));
}

void replay_table_print(FILE *out, const struct gp_report *report, bool colour, unsigned n_columns)
{
	struct table t = { .out = out, .report = report, .colour = colour };

	print_title(&t);
	if (report->n_runs && report->runs[0]->threads_mode != GP_THREADS_SHARE) {
		t.widths[0] = 12;
		print_copies(&t);
		return;
	}
	t.rows = calloc(report->n_runs ? report->n_runs : 1, sizeof(*t.rows));
	if (!t.rows) {
		cli_error("out of memory for the table");
		return;
	}
	fill(&t);
	narrow(&t, n_columns);
	print_head(&t);
	for (size_t i = 0; i < report->n_runs; i++)
		print_row(&t, i);
	print_specs(&t);
	print_plan(&t);
	print_errors(&t);
	print_paced(&t);
	print_failures(&t);
	print_legend(&t);
	if (report->n_runs && replay_scaling_shown(report)) {
		fputc('\n', out);
		replay_scaling_print(out, report, paint(&t, BOLD), paint(&t, PLAIN));
	}
	free(t.rows);
}

void replay_table_hint(FILE *out, const char *dir)
{
	/* In quotes where a shell would take the name apart. */
	bool plain = strspn(dir, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "/._-+,") == strlen(dir);
	const char *quote = plain ? "" : "'";

	fprintf(out, "Results: %s%s%s   Pictures: gpupool-plot %s%s%s\n", quote, dir, quote, quote,
		dir, quote);
}
