/* SPDX-License-Identifier: Apache-2.0
 *
 * tune_table: the rows for people, the best first, and the line to paste.
 *
 *   reserved   util.  calls   driver  retries  smallest card   setting
 *   9.99 GiB  92.9 %    128  5.82 ms        0       9.99 GiB   expandable_segments:True
 *
 * Shape     the setting comes last, since its length is anything. The defaults are shown also
 *           where they are far down.
 * Threads   main thread only
 */
#include <string.h>

#include "tune.h"

#define BOLD  "\033[1m"
#define RED   "\033[1;31m"
#define GREEN "\033[1;32m"
#define PLAIN "\033[0m"

static void print_head(FILE *f, const struct tune_result *r)
{
	static const char *const goals[] = {
		[TUNE_AUTO] = "",
		[TUNE_MEMORY] = "least memory reserved first",
		[TUNE_SPEED] = "least time in the driver first",
		[TUNE_FIT] = "smallest card first",
	};
	const struct gp_trace *t = r->job->t;
	char n[32], load[32], card[32], limit[32];

	fprintf(f, "%s: %s events, load %s, on a card with %s", t->name[0] ? t->name : t->path,
		cli_number(n, t->n_events), cli_bytes(load, t->load_bytes),
		cli_bytes(card, r->job->device.capacity));
	if (r->limit)
		fprintf(f, ", limit %s", cli_bytes(limit, r->limit));
	fprintf(f, "; %s\n", goals[r->goal]);
}

static void print_cautions(FILE *f, const struct tune_result *r)
{
	const struct gp_trace *t = r->job->t;
	char bytes[32], n[32];

	if (t->n_assumed)
		fprintf(f,
			"Caution: the recording began late, with %s blocks (%s) live already, which "
			"are taken\nto have been allocated in one go. How they lay is not known: the "
			"figures are rough.\n",
			cli_number(n, t->n_assumed), cli_bytes(bytes, t->assumed_bytes));
	if (r->job->n_trims)
		fprintf(f,
			"Note: the recorded program seems to empty its cache %s times, which is kept; "
			"--ignore-trims\nleaves it out.\n",
			cli_number(n, r->job->n_trims));
}

/* "~": card sizes do not follow one another as they should. */
static void card_text(const struct tune_result *r, const struct tune_row *row, char *text)
{
	if (row->smallest)
		cli_bytes(text, row->smallest);
	else
		snprintf(text, 32, "%s", r->job->search ? "none" : "-");
	if (row->fails_above || row->survives_below)
		strcat(text, " ~");
}

static const char *failure_text(const struct tune_probe *p, char text[128])
{
	char asked[32], held[32];

	snprintf(text, 128, "fails at event %zu: %s more, %s held", p->failed_event + 1,
		 cli_bytes(asked, p->failed_bytes), cli_bytes(held, p->failed_reserved));
	return text;
}

static void print_figures(FILE *f, const struct tune_result *r, const struct tune_row *row)
{
	const struct tune_probe *p = &row->at;
	char reserved[32], calls[32], time[32], card[40], text[128];
	double share =
		p->peak_reserved ? (double)r->job->t->load_bytes / (double)p->peak_reserved : 1;

	card_text(r, row, card);
	if (p->fault)
		fprintf(f, "%-48s%14s   ", p->why, card);
	else if (!p->survived)
		fprintf(f, "%-48s%14s   ", failure_text(p, text), card);
	else
		fprintf(f, "%9s%8.1f %%%9s%11s%9llu%14s   ", cli_bytes(reserved, p->peak_reserved),
			share * 100, cli_number(calls, p->device_allocs + p->device_frees),
			cli_time(time, (double)p->device_ns), (unsigned long long)p->retries, card);
}

static void print_row(FILE *f, const struct tune_result *r, const struct tune_row *row, bool colour)
{
	const char *paint = row == r->best ? GREEN : row->at.survived ? "" : RED;

	fputs(row == r->best ? "* " : "  ", f);
	if (colour)
		fputs(paint, f);
	print_figures(f, r, row);
	fprintf(f, "%s%s\n", tune_label(row->s), colour && paint[0] ? PLAIN : "");
}

static void print_rows(FILE *f, const struct tune_result *r, uint64_t top, bool colour)
{
	uint64_t n = top ? gp_min_u64(top, r->n_rows) : r->n_rows;
	bool usual = false;

	fprintf(f, "%s  %9s%10s%9s%11s%9s%14s   %s%s\n", colour ? BOLD : "", "reserved", "util.",
		"calls", "driver", "retries", "smallest card", "setting", colour ? PLAIN : "");
	for (size_t i = 0; i < r->n_rows; i++) {
		const struct tune_row *row = r->rows[i];

		if (i >= n && row != r->defaults && row != r->best)
			continue;
		print_row(f, r, row, colour);
		usual = usual || row == r->defaults;
	}
	if (n < r->n_rows)
		fprintf(f, "  ... of %zu settings; --top=0 shows all\n", r->n_rows);
}

static void print_bends(FILE *f, const struct tune_result *r)
{
	char at[32], smallest[32];
	unsigned n = 0;

	for (size_t i = 0; i < r->n_rows; i++) {
		const struct tune_row *row = r->rows[i];

		if (!row->fails_above && !row->survives_below)
			continue;
		if (!n++)
			fputs("~ A larger card is not always better here:\n", f);
		if (row->fails_above)
			fprintf(f, "    survives on %s and fails on %s: %s\n",
				cli_bytes(smallest, row->smallest), cli_bytes(at, row->fails_above),
				tune_label(row->s));
		if (row->survives_below)
			fprintf(f, "    survives on %s too, below %s: %s\n",
				cli_bytes(at, row->survives_below),
				cli_bytes(smallest, row->smallest), tune_label(row->s));
	}
}

/* For a shell: a list has characters that are special there. */
static void print_paste(FILE *f, const struct tune_result *r)
{
	const char *quote = strpbrk(r->best->s->conf, "[>") ? "'" : "";

	fprintf(f, "PYTORCH_CUDA_ALLOC_CONF=%s%s%s  # %s\n", quote, r->best->s->conf, quote,
		r->advice);
}

void tune_table_print(FILE *f, const struct tune_result *r, uint64_t top, bool colour)
{
	print_head(f, r);
	print_cautions(f, r);
	fputc('\n', f);
	print_rows(f, r, top, colour);
	print_bends(f, r);
	if (r->partial)
		fputs("Interrupted: only what is shown was tried.\n", f);
	fputc('\n', f);
	if (r->best)
		print_paste(f, r);
	else if (r->defaults)
		fprintf(f, "%s\n", r->advice);
}
