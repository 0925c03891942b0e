/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_mirror: one row per allocator: memory, device calls and device time, on the GPU and
 * simulated, and the kind of call that is furthest off.
 *
 * Shape       cells are made first, so that the table is as narrow as it can be
 * Threads     main thread only
 */
#include "replay_mirror.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "replay_table.h"

#define BOLD  "\033[1m"
#define RED   "\033[1;31m"
#define DIM   "\033[2m"
#define PLAIN "\033[0m"

#define CELL 48u

enum {
	COLUMN_NAME,
	COLUMN_MEMORY,
	COLUMN_MEMORY_SIM,
	COLUMN_CALLS,
	COLUMN_CALLS_SIM,
	COLUMN_TIME,
	COLUMN_TIME_SIM,
	COLUMN_RATIO,
	COLUMN_WORST,
	COLUMN_WORST_TIME,
	COLUMN_WORST_SIM,
	COLUMN_WORST_RATIO,
	N_COLUMNS
};

static const char *const titles[N_COLUMNS] = {
	"allocator", "GPU",   "simulated", "GPU",  "simulated", "GPU",
	"simulated", "ratio", "call",      "time", "simulated", "ratio",
};

/* Over which columns each word stands. */
static const struct group {
	const char *word;
	unsigned first, last;
} groups[] = {
	{ "memory", COLUMN_MEMORY, COLUMN_MEMORY_SIM },
	{ "device calls", COLUMN_CALLS, COLUMN_CALLS_SIM },
	{ "device time", COLUMN_TIME, COLUMN_RATIO },
	{ "furthest off", COLUMN_WORST, COLUMN_WORST_RATIO },
};

struct mirror_table {
	FILE *out;
	const struct gp_report *report;
	char (*cells)[N_COLUMNS][CELL]; /* [n_mirrors] */
	size_t widths[N_COLUMNS];
	bool colour;
};

static const char *paint(const struct mirror_table *t, const char *escape)
{
	return t->colour ? escape : "";
}

/* ---- cells ---- */

static uint64_t count_calls(const struct gp_run *run)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < GP_CALL_N; i++)
		n += run->calls[i].count;
	return n;
}

static bool same_calls(const struct gp_mirror *m)
{
	for (unsigned i = 0; i < GP_CALL_N; i++)
		if (m->cuda->calls[i].count != m->sim->calls[i].count)
			return false;
	return true;
}

static void ratio_text(char *cell, double cuda_ns, double sim_ns)
{
	double ratio = gp_mirror_ratio(cuda_ns, sim_ns);

	snprintf(cell, CELL, isnan(ratio) ? "-" : ratio < 99.5 ? "%.2f" : "%.0f", ratio);
}

static void fill_worst(const struct gp_mirror *m, char (*row)[CELL])
{
	double cuda, sim;

	if (m->worst == GP_CALL_N)
		return;
	cuda = m->cuda->calls[m->worst].time_ns;
	sim = m->sim->calls[m->worst].time_ns;
	snprintf(row[COLUMN_WORST], CELL, "%s", gp_call_name(m->worst));
	cli_time(row[COLUMN_WORST_TIME], cuda);
	cli_time(row[COLUMN_WORST_SIM], sim);
	ratio_text(row[COLUMN_WORST_RATIO], cuda, sim);
}

static void fill_row(const struct gp_mirror *m, char (*row)[CELL])
{
	for (unsigned c = 1; c < N_COLUMNS; c++)
		snprintf(row[c], CELL, "-");
	snprintf(row[COLUMN_NAME], CELL, "%.40s", m->cuda->label);
	if (!m->whole)
		return;
	cli_bytes(row[COLUMN_MEMORY], m->cuda->memory.peak_reserved);
	cli_bytes(row[COLUMN_MEMORY_SIM], m->sim->memory.peak_reserved);
	if (m->memory_equal)
		snprintf(row[COLUMN_MEMORY_SIM], CELL, "same");
	cli_number(row[COLUMN_CALLS], count_calls(m->cuda));
	cli_number(row[COLUMN_CALLS_SIM], count_calls(m->sim));
	if (same_calls(m))
		snprintf(row[COLUMN_CALLS_SIM], CELL, "same");
	cli_time(row[COLUMN_TIME], m->cuda_ns);
	cli_time(row[COLUMN_TIME_SIM], m->sim_ns);
	ratio_text(row[COLUMN_RATIO], m->cuda_ns, m->sim_ns);
	fill_worst(m, row);
}

static void fill(struct mirror_table *t)
{
	for (size_t i = 0; i < t->report->n_mirrors; i++)
		fill_row(&t->report->mirrors[i], t->cells[i]);
	for (unsigned c = 0; c < N_COLUMNS; c++) {
		t->widths[c] = strlen(titles[c]);
		for (size_t i = 0; i < t->report->n_mirrors; i++)
			t->widths[c] = gp_max_u64(t->widths[c], strlen(t->cells[i][c]));
	}
}

/* ---- lines ---- */

/* Words to the left, figures to the right. */
static void print_cell(const struct mirror_table *t, unsigned c, const char *text, bool bad)
{
	int pad = (int)(t->widths[c] - strlen(text));
	bool left = c == COLUMN_NAME || c == COLUMN_WORST;

	fprintf(t->out, "%s%*s%s%s%s", c ? "  " : "", left ? 0 : pad, "", bad ? paint(t, RED) : "",
		text, bad ? paint(t, PLAIN) : "");
	if (left)
		fprintf(t->out, "%*s", pad, "");
}

static void print_groups(const struct mirror_table *t)
{
	static const char dashes[] = "----------------------------------------";

	fprintf(t->out, "%*s", (int)t->widths[COLUMN_NAME], "");
	for (size_t g = 0; g < GP_ARRAY_LEN(groups); g++) {
		int length = (int)strlen(groups[g].word), width = -2, left;

		for (unsigned c = groups[g].first; c <= groups[g].last; c++)
			width += (int)t->widths[c] + 2;
		left = (width - length - 2) / 2;
		fprintf(t->out, "  %.*s %s %.*s", left, dashes, groups[g].word,
			width - length - 2 - left, dashes);
	}
	fputc('\n', t->out);
}

static void print_table(const struct mirror_table *t)
{
	print_groups(t);
	for (unsigned c = 0; c < N_COLUMNS; c++)
		print_cell(t, c, titles[c], false);
	fputc('\n', t->out);
	for (size_t i = 0; i < t->report->n_mirrors; i++) {
		bool wrong = gp_mirror_is_wrong(&t->report->mirrors[i]);

		for (unsigned c = 0; c < N_COLUMNS; c++)
			print_cell(t, c, t->cells[i][c], wrong && c == COLUMN_MEMORY_SIM);
		fputc('\n', t->out);
	}
}

static void print_title(const struct mirror_table *t)
{
	const struct gp_trace *trace = t->report->trace;
	char stem[128], events[32], load[32];

	fprintf(t->out, "%s%s%s: %s events, load %s, on %s and simulated", paint(t, BOLD),
		gp_report_trace_stem(trace, stem, sizeof(stem)), paint(t, PLAIN),
		cli_number(events, trace->n_events), cli_bytes(load, trace->load_bytes),
		t->report->environment->device.name);
	if (t->report->partial)
		fprintf(t->out, "%s -- partial: %s%s", paint(t, RED), t->report->partial,
			paint(t, PLAIN));
	fputs("\n\n", t->out);
}

/* ---- below the table ---- */

void replay_mirror_parting(const struct gp_mirror *m, char *text, size_t size)
{
	char cuda[32], sim[32], first[32], last[32];

	if (m->parting.what)
		snprintf(text, size,
			 "%s bytes part in events %s to %s: %s on the GPU, %s simulated",
			 m->parting.what, cli_number(first, m->parting.first_event),
			 cli_number(last, m->parting.last_event), cli_bytes(cuda, m->parting.cuda),
			 cli_bytes(sim, m->parting.sim));
	else
		snprintf(text, size, "%s requests failed on the GPU, %s simulated",
			 cli_number(cuda, m->cuda->failures.count),
			 cli_number(sim, m->sim->failures.count));
}

static void print_partings(const struct mirror_table *t)
{
	const char *head = "\nMemory that differs\n";
	char text[200];

	for (size_t i = 0; i < t->report->n_mirrors; i++) {
		const struct gp_mirror *m = &t->report->mirrors[i];

		if (!m->whole || m->memory_equal)
			continue;
		replay_mirror_parting(m, text, sizeof(text));
		fprintf(t->out, "%s  %-*s  %s; %s%s%s\n", head, (int)t->widths[COLUMN_NAME],
			m->cuda->label, text, m->must_match ? paint(t, RED) : "",
			m->must_match ? "must be the same" : "may: the driver decides there",
			m->must_match ? paint(t, PLAIN) : "");
		head = "";
	}
}

static void print_broken(const struct mirror_table *t)
{
	const char *head = "\nRuns without a result\n";

	for (size_t i = 0; i < t->report->n_runs; i++) {
		const struct gp_run *run = t->report->runs[i];

		if (run->status != GP_STATUS_ERROR)
			continue;
		fprintf(t->out, "%s  %-*s  %s\n", head, (int)t->widths[COLUMN_NAME], run->label,
			replay_table_why(run));
		head = "";
	}
}

static void print_legend(const struct mirror_table *t)
{
	fprintf(t->out,
		"\n%smemory: peak held; same: after every event. device calls, device time: of one run"
		" through the trace,\nmeasured on the GPU, modelled in the simulation. ratio: simulated"
		" over measured. furthest off: the kind of\ncall whose times differ most.%s\n",
		paint(t, DIM), paint(t, PLAIN));
}

void replay_mirror_print(FILE *out, const struct gp_report *report, bool colour)
{
	struct mirror_table t = { .out = out, .report = report, .colour = colour };

	print_title(&t);
	t.cells = calloc(report->n_mirrors ? report->n_mirrors : 1, sizeof(*t.cells));
	if (!t.cells) {
		cli_error("out of memory for the table");
		return;
	}
	fill(&t);
	print_table(&t);
	print_partings(&t);
	print_broken(&t);
	print_legend(&t);
	free(t.cells);
}
