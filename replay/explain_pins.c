/* SPDX-License-Identifier: Apache-2.0
 *
 * explain_pins: which few blocks keep memory from being one piece.
 *
 * Shape       pieces that touch and have the same tag make a range. Looked at are the whole of a
 *             reservation, which the device would get back, and of a range that is too small for
 *             the request; and two kinds of stretches of a larger one:
 *
 *               | block |  hole  |block|     hole      | block |
 *                       [------- needed -------]            that serve the request: each that
 *                                                           starts with a piece (sliding one down
 *                                                           to there never adds a block)
 *                       [----------------------]            two neighbouring holes
 *
 * Order       by free bytes, weighted with the share of them: neither a small range that is all
 *             but empty nor a large one that is all but full tells much.
 * Cost         one pass over the pieces for each one found
 * Not done     alignment: buddy's blocks cannot start everywhere
 */
#include "explain.h"

/* Pieces [first, end), of which those in [from, to) are taken. */
struct pins_range {
	const struct gp_piece *pieces;
	size_t first, end;
};

struct pins_found {
	struct gp_oom_pin pin;
	size_t from, to;
};

static uint64_t pins_end(const struct gp_piece *p)
{
	return p->addr + p->size;
}

static bool pins_same_range(const struct gp_piece *a, const struct gp_piece *b)
{
	return pins_end(a) == b->addr && a->tag == b->tag;
}

/* Free bytes of a stretch: blocks may reach over its edge. */
static uint64_t pins_free(const struct gp_oom_pin *p)
{
	return p->range.size - gp_min_u64(p->range.size, p->live_bytes);
}

static double pins_score(const struct gp_oom_pin *p)
{
	double free_bytes = (double)pins_free(p);

	return p->range.size ? free_bytes * free_bytes / (double)p->range.size : 0;
}

static bool pins_better(const struct pins_found *a, const struct pins_found *b)
{
	double x = pins_score(&a->pin), y = pins_score(&b->pin);

	return x > y || (x == y && a->pin.live_blocks < b->pin.live_blocks);
}

static bool pins_is_taken(const struct gp_oom *oom, struct gp_range r)
{
	for (size_t i = 0; i < oom->n_pins; i++) {
		const struct gp_range *taken = &oom->pins[i].range;

		if (r.addr < taken->addr + taken->size && taken->addr < r.addr + r.size)
			return true;
	}
	return false;
}

static void pins_consider(const struct gp_oom *oom, const struct pins_found *f,
			  struct pins_found *best)
{
	/* With nothing in the way something else keeps it from use. */
	if (f->pin.live_blocks && pins_free(&f->pin) && !pins_is_taken(oom, f->pin.range) &&
	    pins_better(f, best))
		*best = *f;
}

static void pins_count(struct pins_found *f, const struct gp_piece *p, int sign)
{
	if (p->id == GP_PIECE_HOLE)
		return;
	f->pin.live_bytes += (uint64_t)sign * p->size;
	f->pin.live_blocks += (uint64_t)sign;
}

/* Every stretch of the needed length. */
static void pins_slide(const struct gp_oom *oom, const struct pins_range *r, uint64_t need,
		       struct pins_found *best)
{
	uint64_t last = pins_end(&r->pieces[r->end - 1]) - need;
	struct pins_found f = { .to = r->first };

	for (f.from = r->first; f.from < r->end && r->pieces[f.from].addr <= last; f.from++) {
		f.pin.range = (struct gp_range){ r->pieces[f.from].addr, need };
		while (f.to < r->end && r->pieces[f.to].addr < f.pin.range.addr + need)
			pins_count(&f, &r->pieces[f.to++], 1);
		pins_consider(oom, &f, best);
		pins_count(&f, &r->pieces[f.from], -1);
	}
}

/* Two holes, and what lies between them. */
static void pins_join(const struct gp_oom *oom, const struct pins_range *r, struct pins_found *best)
{
	struct pins_found f = { .from = r->end };

	for (size_t i = r->first; i < r->end; i++) {
		const struct gp_piece *p = &r->pieces[i];

		pins_count(&f, p, 1);
		if (p->id != GP_PIECE_HOLE)
			continue;
		if (f.from < i) {
			f.to = i + 1;
			f.pin.range.size = pins_end(p) - f.pin.range.addr;
			pins_consider(oom, &f, best);
		}
		f = (struct pins_found){ .from = i, .pin.range.addr = p->addr };
	}
}

static void pins_whole(const struct gp_oom *oom, const struct pins_range *r,
		       struct pins_found *best)
{
	const struct gp_piece *first = &r->pieces[r->first];
	struct pins_found f = { .from = r->first, .to = r->end };

	f.pin.range =
		(struct gp_range){ first->addr, pins_end(&r->pieces[r->end - 1]) - first->addr };
	f.pin.whole = first->tag != 0;
	for (size_t i = r->first; i < r->end; i++)
		pins_count(&f, &r->pieces[i], 1);
	pins_consider(oom, &f, best);
}

static struct pins_found pins_best(const struct gp_oom *oom, const struct gp_piece *pieces,
				   size_t n, uint64_t need)
{
	struct pins_found best = { 0 };
	struct pins_range r = { .pieces = pieces };
	bool small;

	for (; r.first < n; r.first = r.end) {
		r.end = r.first + 1;
		while (r.end < n && pins_same_range(&pieces[r.end - 1], &pieces[r.end]))
			r.end++;
		small = pins_end(&pieces[r.end - 1]) - pieces[r.first].addr < need;
		if (small || pieces[r.first].tag)
			pins_whole(oom, &r, &best);
		if (small)
			continue;
		pins_slide(oom, &r, need, &best);
		pins_join(oom, &r, &best);
	}
	return best;
}

/* A block among the largest seen so far, in that order. */
static void pins_rank(const struct gp_piece *p, uint64_t sizes[GP_OOM_PIN_BLOCKS],
		      uint32_t ids[GP_OOM_PIN_BLOCKS], size_t *n)
{
	size_t k = *n;

	while (k && sizes[k - 1] < p->size)
		k--;
	if (k == GP_OOM_PIN_BLOCKS)
		return;
	*n = gp_min_u64(*n + 1, GP_OOM_PIN_BLOCKS);
	for (size_t i = *n - 1; i > k; i--) {
		sizes[i] = sizes[i - 1];
		ids[i] = ids[i - 1];
	}
	sizes[k] = p->size;
	ids[k] = p->id;
}

void gp_explain_pins(struct gp_oom *oom, const struct gp_piece *pieces, size_t n, uint64_t need,
		     uint32_t ids[GP_OOM_PINS][GP_OOM_PIN_BLOCKS])
{
	for (oom->n_pins = 0; oom->n_pins < GP_OOM_PINS; oom->n_pins++) {
		struct pins_found best = pins_best(oom, pieces, n, need);
		struct gp_oom_pin *pin = &oom->pins[oom->n_pins];
		uint64_t sizes[GP_OOM_PIN_BLOCKS];

		if (!best.pin.range.size)
			return;
		*pin = best.pin;
		for (size_t i = best.from; i < best.to; i++)
			if (pieces[i].id != GP_PIECE_HOLE)
				pins_rank(&pieces[i], sizes, ids[oom->n_pins], &pin->n_blocks);
	}
}
