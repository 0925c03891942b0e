/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate_notes: what is unusual in a profile.
 *
 *   queue     calls that wait for queued work
 *   cold      the first call of a size against later ones; a rest; memory just given back
 *   steps     times that grow much faster than sizes
 *   tails     p99 far above p50
 *   usual     whole calls that differ from another profile (the shipped one)
 *
 * A factor below is what a person would call much; none is a property of a card. Of each kind the
 * most striking case is told, not every one.
 */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "calibrate.h"

#define COLD_FACTOR  3.0
#define STEP_FACTOR  4.0 /* over what the size grew by */
#define TAIL_FACTOR  5.0
#define USUAL_FACTOR 1.5
#define SLOW_NS      1000u /* below a microsecond nothing is called slow */

void cal_note(struct cal_notes *notes, const char *fmt, ...)
{
	va_list ap;

	if (notes->n == CAL_NOTES)
		return;
	va_start(ap, fmt);
	vsnprintf(notes->text[notes->n++], sizeof(notes->text[0]), fmt, ap);
	va_end(ap);
}

/* The row of a call at a size; NULL: none. */
static const struct gp_profile_row *row_at(const struct gp_profile *p, const char *call,
					   uint64_t size)
{
	size_t n;
	const struct gp_profile_row *row = gp_profile_rows(p, call, &n);

	for (; n; row++, n--) {
		if (row->size == size)
			return row;
	}
	return NULL;
}

static bool ends_with(const char *call, const char *variant)
{
	size_t n = strlen(call), m = strlen(variant);

	return n > m && !strcmp(call + n - m, variant);
}

/* The same call, another variant. */
static const struct gp_profile_row *other_row(const struct gp_profile *p,
					      const struct gp_profile_row *row, const char *variant)
{
	char call[sizeof(row->call) + 16];

	snprintf(call, sizeof(call), "%.*s%s", (int)strcspn(row->call, "."), row->call, variant);
	return row_at(p, call, row->size);
}

static double ratio(uint64_t a, uint64_t b)
{
	return (double)a / (double)(b ? b : 1);
}

static void note_busy(struct cal_notes *notes, const struct gp_profile *p)
{
	char t[32], work[32];
	bool any = false;

	for (size_t i = 0; i < p->n_rows; i++) {
		const struct gp_profile_row *row = &p->rows[i];

		if (!ends_with(row->call, ".busy") || row->p50 < CAL_BUSY_NS / 2)
			continue;
		cal_note(notes, "%.*s behind %s of queued work took %s: it waits for the device",
			 (int)strcspn(row->call, "."), row->call, cli_time(work, CAL_BUSY_NS),
			 cli_time(t, (double)row->p50));
		any = true;
		while (i + 1 < p->n_rows && !strcmp(p->rows[i + 1].call, row->call))
			i++;
	}
	if (!any && row_at(p, "cudaFree.busy", 2 * GP_MIB))
		cal_note(notes, "cudaFree did not wait for queued work");
}

/* The largest ratio between two variants of the same call and size. */
static void note_variant(struct cal_notes *notes, const struct gp_profile *p, const char *variant,
			 const char *other, double factor, const char *words)
{
	const struct gp_profile_row *worst = NULL, *beside = NULL;
	char size[32], a[32], b[32];
	double most = factor;

	for (size_t i = 0; i < p->n_rows; i++) {
		const struct gp_profile_row *row = &p->rows[i], *with;

		if (!ends_with(row->call, variant) || row->p50 < SLOW_NS)
			continue;
		with = other_row(p, row, other);
		if (!with || ratio(row->mean, with->mean) <= most)
			continue;
		most = ratio(row->mean, with->mean);
		worst = row;
		beside = with;
	}
	if (worst)
		cal_note(notes, "%.*s of %s %s %s in the mean, else %s (%.3g times)",
			 (int)strcspn(worst->call, "."), worst->call, cli_bytes(size, worst->size),
			 words, cli_time(a, (double)worst->mean), cli_time(b, (double)beside->mean),
			 most);
}

static bool is_plain(const struct gp_profile_row *row)
{
	return ends_with(row->call, ".held") || ends_with(row->call, ".warm") ||
	       !strchr(row->call, '.');
}

/* The steepest step between neighbouring sizes of a call. */
static void note_steps(struct cal_notes *notes, const struct gp_profile *p)
{
	char from[32], to[32], a[32], b[32];

	for (size_t i = 0; i < p->n_rows;) {
		const struct gp_profile_row *row = &p->rows[i], *worst = NULL;
		double most = STEP_FACTOR;

		for (i++; i < p->n_rows && !strcmp(p->rows[i].call, row->call); i++) {
			const struct gp_profile_row *r = &p->rows[i];
			double grew = ratio(r->size, r[-1].size);
			double step = ratio(r->p50, r[-1].p50) / (r->size > 2 * GP_MIB ? grew : 1);

			if (step > most && r->p50 >= SLOW_NS) {
				most = step;
				worst = r;
			}
		}
		if (worst && is_plain(row))
			cal_note(notes, "%s steps from %s at %s to %s at %s", row->call,
				 cli_time(a, (double)worst[-1].p50),
				 cli_bytes(from, worst[-1].size), cli_time(b, (double)worst->p50),
				 cli_bytes(to, worst->size));
	}
}

/* The longest tail of each call. */
static void note_tails(struct cal_notes *notes, const struct gp_profile *p)
{
	char size[32], a[32], b[32];

	for (size_t i = 0; i < p->n_rows;) {
		const struct gp_profile_row *row = &p->rows[i], *worst = NULL;
		double most = TAIL_FACTOR;

		for (; i < p->n_rows && !strcmp(p->rows[i].call, row->call); i++) {
			const struct gp_profile_row *r = &p->rows[i];

			/* Small blocks open pages, which is no tail. */
			if (r->n < 50 || r->p99 < SLOW_NS || r->size < 2 * GP_MIB ||
			    ratio(r->p99, r->p50) <= most)
				continue;
			most = ratio(r->p99, r->p50);
			worst = r;
		}
		if (worst && is_plain(row))
			cal_note(notes, "%s of %s has a tail: p50 %s, p99 %s", row->call,
				 cli_bytes(size, worst->size), cli_time(a, (double)worst->p50),
				 cli_time(b, (double)worst->p99));
	}
}

/* Whole calls against another profile: the geometric mean over the sizes that both have. */
static void note_usual(struct cal_notes *notes, const struct gp_profile *p,
		       const struct gp_profile *usual)
{
	for (size_t i = 0; i < p->n_rows;) {
		const struct gp_profile_row *row = &p->rows[i];
		double sum = 0, times;
		unsigned n = 0;

		for (; i < p->n_rows && !strcmp(p->rows[i].call, row->call); i++) {
			const struct gp_profile_row *u = row_at(usual, row->call, p->rows[i].size);

			if (!u || !u->p50 || !p->rows[i].p50 || p->rows[i].n < 10)
				continue;
			sum += log(ratio(p->rows[i].p50, u->p50));
			n++;
		}
		times = n ? exp(sum / n) : 1;
		if (times > USUAL_FACTOR || times < 1 / USUAL_FACTOR)
			cal_note(notes,
				 "%s takes %.2g times what it does in the profile %s "
				 "(medians of %u sizes)",
				 row->call, times, usual->name, n);
	}
}

void cal_notes_find(struct cal_notes *notes, const struct gp_profile *p,
		    const struct gp_profile *usual)
{
	note_busy(notes, p);
	note_variant(notes, p, ".first", ".held", COLD_FACTOR, "the first time took");
	note_variant(notes, p, ".again", ".held", USUAL_FACTOR,
		     "on memory that was just given back took");
	note_variant(notes, p, ".rested", ".pair", USUAL_FACTOR, "after a rest of 20 ms took");
	note_variant(notes, p, ".rested", "", USUAL_FACTOR, "after a rest of 20 ms took");
	note_steps(notes, p);
	note_tails(notes, p);
	note_usual(notes, p, usual);
}
