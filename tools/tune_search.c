/* SPDX-License-Identifier: Apache-2.0
 *
 * tune_search: the smallest card on which a setting survives.
 *
 * Shape     bisection over pages of 2 MiB between
 *
 *             the need    nothing can do with less than what is live at once
 *             the peak    reserved where there is no lack; enough, as long as no card size
 *                         changes what the setting does: tried where one might
 *
 * Monotone  not a law: with less memory caches are flushed earlier, which may place later blocks
 *           better. So three cards above the answer and one below it are tried, and the row says
 *           which contradicts.
 * Cost      some 16 probes, of which those that fail end early
 */
#include "tune.h"

/* A card beyond every real one, where the one asked for is not enough: for an answer at all. */
#define HUGE_CARD (UINT64_C(4) << 40)

struct search {
	const struct tune_job *job;
	struct tune_row *row;
	uint64_t *addrs;
};

static bool search_survives(struct search *x, uint64_t capacity, struct tune_probe *out)
{
	struct tune_probe probe;

	tune_probe(x->job, x->row->s, capacity, x->addrs, &probe);
	x->row->n_probes++;
	if (out)
		*out = probe;
	return probe.survived;
}

static bool search_stopped(const struct search *x)
{
	return x->job->interrupted && *x->job->interrupted;
}

/* What was held at most is enough of a card, if nothing there depended on the card's size. */
static bool search_is_certain(const struct tune_row *row, const struct tune_probe *p)
{
	return row->s->conf && !row->s->has_fraction && !p->retries && !p->collections;
}

/* A card that is enough, as small as can be told without a search; 0: none is known. */
static uint64_t search_enough(struct search *x)
{
	const struct tune_row *row = x->row;
	struct tune_probe probe = row->at;
	uint64_t card = x->job->device.capacity, peak;

	if (!probe.survived) {
		card = HUGE_CARD;
		if (card <= x->job->device.capacity || !search_survives(x, card, &probe))
			return 0;
	}
	peak = gp_align_up(probe.peak_reserved, TUNE_PAGE);
	if (peak >= card || !peak)
		return card;
	if (search_is_certain(row, &probe) || search_survives(x, peak, NULL))
		return peak;
	peak += gp_align_up(peak / 4, TUNE_PAGE);
	return peak < card && search_survives(x, peak, NULL) ? peak : card;
}

static void search_check(struct search *x, uint64_t fails, uint64_t enough)
{
	struct tune_row *row = x->row;
	uint64_t above = enough - row->smallest, below = row->smallest - fails;

	for (unsigned i = 1; i <= 3 && above > TUNE_PAGE && !search_stopped(x); i++) {
		uint64_t card = row->smallest + gp_align_up(above / 4 * i, TUNE_PAGE);

		if (card < enough && !search_survives(x, card, NULL) && !search_stopped(x))
			row->fails_above = card;
	}
	if (below > 2 * TUNE_PAGE && !search_stopped(x)) {
		uint64_t card = fails + gp_align_up(below / 3 * 2, TUNE_PAGE);

		if (card < row->smallest && search_survives(x, card, NULL))
			row->survives_below = card;
	}
}

static void search_smallest(struct search *x)
{
	uint64_t need = gp_align_up(x->job->need_bytes, TUNE_PAGE);
	/* A program that gets over failed requests needs less. */
	uint64_t fails = need && !x->job->allow_ooms ? need - TUNE_PAGE : 0;
	uint64_t enough = search_enough(x), lo = fails, hi = gp_align_up(enough, TUNE_PAGE);

	if (!enough)
		return;
	while (hi > lo && hi - lo > TUNE_PAGE && !search_stopped(x)) {
		uint64_t mid = lo + gp_align_down((hi - lo) / 2, TUNE_PAGE);

		if (search_survives(x, mid, NULL))
			hi = mid;
		else
			lo = mid;
	}
	if (search_stopped(x))
		return;
	x->row->smallest = hi;
	search_check(x, fails, enough);
}

void tune_row_run(const struct tune_job *job, struct tune_row *row, uint64_t *addrs)
{
	struct search x = { job, row, addrs };

	search_survives(&x, job->device.capacity, &row->at);
	if (job->search && !row->at.fault)
		search_smallest(&x);
	row->done = !search_stopped(&x);
}
