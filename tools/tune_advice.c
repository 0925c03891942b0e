/* SPDX-License-Identifier: Apache-2.0
 *
 * tune_advice: which setting to take, and what to expect of it.
 *
 * Order     settings under which the program survives on the card asked for come first, the best in
 *           the goal at the top; then those that would survive on the smallest card,
 *           and those that get furthest.
 * Choice    a setting must be 1 % better than the defaults to be worth a word: less is within what
 *           another run of the same program would differ by. Among those within 1 % of the best,
 *           the one with the fewest keys.
 * Threads   main thread only
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tune.h"

/* ---- figures ---- */

/* What the goal is about; UINT64_MAX: it has no such figure. */
static uint64_t figure(enum tune_goal goal, const struct tune_row *row)
{
	if (goal == TUNE_FIT)
		return row->smallest ? row->smallest : UINT64_MAX;
	if (!row->at.survived)
		return UINT64_MAX;
	return goal == TUNE_SPEED ? row->at.device_ns : row->at.peak_reserved;
}

/* < 0: a before b. */
static int compare(enum tune_goal goal, const struct tune_row *a, const struct tune_row *b)
{
	uint64_t fa = figure(goal, a), fb = figure(goal, b);

	if (a->at.survived != b->at.survived)
		return a->at.survived ? -1 : 1;
	if (fa != fb)
		return fa < fb ? -1 : 1;
	fa = figure(TUNE_FIT, a);
	fb = figure(TUNE_FIT, b);
	if (fa != fb)
		return fa < fb ? -1 : 1;
	if (!a->at.survived && a->at.failed_event != b->at.failed_event)
		return a->at.failed_event > b->at.failed_event ? -1 : 1;
	if (a->at.peak_reserved != b->at.peak_reserved)
		return a->at.peak_reserved < b->at.peak_reserved ? -1 : 1;
	return a < b ? -1 : a > b;
}

/* Insertion: some 60 rows, and qsort has no place for the goal. */
static void sort_rows(struct tune_result *r)
{
	for (size_t i = 1; i < r->n_rows; i++) {
		const struct tune_row *row = r->rows[i];
		size_t j = i;

		for (; j && compare(r->goal, row, r->rows[j - 1]) < 0; j--)
			r->rows[j] = r->rows[j - 1];
		r->rows[j] = row;
	}
}

/* ---- the choice ---- */

static bool is_candidate(const struct tune_result *r, const struct tune_row *row)
{
	return row->s->conf && !row->at.fault && figure(r->goal, row) != UINT64_MAX;
}

static const struct tune_row *choose(const struct tune_result *r)
{
	uint64_t least = UINT64_MAX, usual = figure(r->goal, r->defaults);
	const struct tune_row *best = NULL;

	for (size_t i = 0; i < r->n_rows; i++)
		if (is_candidate(r, r->rows[i]))
			least = gp_min_u64(least, figure(r->goal, r->rows[i]));
	if (least == UINT64_MAX || (usual != UINT64_MAX && least > usual - usual / 100))
		return NULL;
	for (size_t i = 0; i < r->n_rows; i++) {
		const struct tune_row *row = r->rows[i];

		if (!is_candidate(r, row) || figure(r->goal, row) > least + least / 100)
			continue;
		if (!best || row->s->n_keys < best->s->n_keys)
			best = row;
	}
	return best != r->defaults ? best : NULL;
}

/* ---- the words ---- */

struct words {
	char *text;
	size_t size, used;
};

static void say(struct words *w, const char *fmt, ...) GP_PRINTF(2, 3);

static void say(struct words *w, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (w->used >= w->size)
		return;
	va_start(ap, fmt);
	n = vsnprintf(w->text + w->used, w->size - w->used, fmt, ap);
	va_end(ap);
	w->used += n > 0 ? (size_t)n : 0;
}

static int change(uint64_t from, uint64_t to)
{
	return from ? (int)(((double)to / (double)from - 1) * 100 + (to < from ? -.5 : .5)) : 0;
}

static void say_instead(struct words *w, const char *what, uint64_t to, uint64_t from)
{
	char a[32], b[32];

	say(w, "%s%s %s instead of %s (%+d %%)", w->used ? ", " : "", what, cli_bytes(a, to),
	    cli_bytes(b, from), change(from, to));
}

static void say_savings(struct words *w, const struct tune_result *r)
{
	const struct tune_row *b = r->best, *d = r->defaults;
	char x[32], y[32];

	if (b->at.survived && d->at.survived) {
		say_instead(w, "reserves", b->at.peak_reserved, d->at.peak_reserved);
		say(w, ", %s in the driver instead of %s", cli_time(x, (double)b->at.device_ns),
		    cli_time(y, (double)d->at.device_ns));
	} else if (b->at.survived) {
		say(w, "survives %s %s, where the defaults fail at event %zu",
		    r->limit ? "within" : "on",
		    cli_bytes(x, r->limit ? r->limit : r->job->device.capacity),
		    d->at.failed_event + 1);
		say(w, "; reserves %s", cli_bytes(x, b->at.peak_reserved));
	}
	if (b->smallest && d->smallest && change(d->smallest, b->smallest))
		say_instead(w, "needs a card of", b->smallest, d->smallest);
	else if (b->smallest && !d->smallest)
		say(w, "%sneeds a card of %s", w->used ? ", " : "", cli_bytes(x, b->smallest));
	if (strstr(b->s->conf, "large_segment_size_mb"))
		say(w, " (a setting since PyTorch 2.11)");
}

static const struct tune_row *smallest_card(const struct tune_result *r)
{
	const struct tune_row *best = NULL;

	for (size_t i = 0; i < r->n_rows; i++)
		if (r->rows[i]->s->conf && r->rows[i]->smallest &&
		    (!best || r->rows[i]->smallest < best->smallest))
			best = r->rows[i];
	return best;
}

/* Nothing is better than the defaults, or everything fails. */
static void say_nothing_helps(struct words *w, const struct tune_result *r)
{
	const struct tune_job *job = r->job;
	const struct tune_row *least = smallest_card(r);
	char x[32], y[32];

	say(w, "no setting helps: the job needs %s live at event %zu",
	    cli_bytes(x, job->need_bytes), job->need_event + 1);
	if (job->need_bytes > job->device.capacity) {
		say(w, ", the card has %s", cli_bytes(x, job->device.capacity));
	} else if (r->defaults->at.survived) {
		say(w, ", and the defaults reserve %s",
		    cli_bytes(x, r->defaults->at.peak_reserved));
		if (r->goal == TUNE_SPEED)
			say(w, " with %s in the driver",
			    cli_time(x, (double)r->defaults->at.device_ns));
	} else {
		say(w, ", and each of the %zu tried fails on %s%s", r->n_rows,
		    cli_bytes(x, r->limit ? gp_min_u64(r->limit, job->device.capacity)
					  : job->device.capacity),
		    r->limit ? ", the limit" : "");
	}
	if (!r->defaults->at.survived && least)
		say(w, "; the smallest card that is enough has %s, with %s",
		    cli_bytes(y, least->smallest), tune_label(least->s));
}

bool tune_result_make(const struct tune_job *job, const struct tune_options *o,
		      const struct tune_row *rows, size_t n_rows, struct tune_result *out)
{
	struct words w = { out->advice, sizeof(out->advice), 0 };

	*out = (struct tune_result){
		.job = job,
		.rows = calloc(n_rows ? n_rows : 1, sizeof(*out->rows)),
		.goal = (enum tune_goal)o->goal,
		.limit = o->limit,
	};
	if (!out->rows)
		return false;
	for (size_t i = 0; i < n_rows; i++) {
		if (rows[i].done)
			out->rows[out->n_rows++] = &rows[i];
		else
			out->partial = true;
	}
	out->defaults = n_rows && rows[0].done ? &rows[0] : NULL;
	if (out->goal == TUNE_AUTO)
		out->goal = out->defaults && !out->defaults->at.survived && job->search
				    ? TUNE_FIT
				    : TUNE_MEMORY;
	sort_rows(out);
	if (!out->defaults)
		return true;
	out->best = choose(out);
	/* A card that is enough under another setting is not the one that was asked about. */
	if (out->best && !out->best->at.survived && !out->defaults->at.survived)
		out->best = NULL;
	if (out->best)
		say_savings(&w, out);
	else
		say_nothing_helps(&w, out);
	return true;
}

void tune_result_fini(struct tune_result *r)
{
	free(r->rows);
	r->rows = NULL;
}
