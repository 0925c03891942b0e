/* SPDX-License-Identifier: Apache-2.0
 *
 * packing_search: is there a placement of a given height? A depth-first search over canonical
 * placements, by the algorithm of M. D. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
 * Hardware-Accelerated Machine Learning" (ASPLOS 2023); the code is our own.
 *
 * Canonical    every placement can be pushed down until each block lies on another or at 0, and then
 *              be built from bottom to top: blocks in order of their offsets, each at its floor (the
 *              highest top of the placed blocks that it lives with). Only those are looked at.
 * Pruning      gap         a block whose floor is at or above the top that another one could have
 *                          at its own floor would leave a gap for that other one
 *              room        at each time, what is still to come lies above the lowest floor of it;
 *                          when both together exceed the height, the branch is dead
 *              no roof     when nothing is left above a block, its other places are no better
 *              parts       blocks that share no time with the rest are a problem of their own
 * Order        by floor, then by rank: three rankings take turns, each with twice as many steps as
 *              in the round before
 * Cost         a step is the sum over the blocks left of how many live with them
 * Memory       n^2 / 2 of 12 bytes at the worst, for the steps that are to be undone
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "packing.h"

#define POLL_STEPS 256 /* between two looks at the clock */

struct floor_change {
	uint64_t floor; /* before */
	uint32_t block;
};

struct search {
	struct gp_packing *p;
	uint64_t height;
	uint64_t *floors;   /* [n] */
	uint64_t *offsets;  /* [n] of what is placed */
	uint64_t *crowd;    /* [n] the most bytes that live at one time of its life */
	uint32_t *ranks;    /* [n] place in the ranking at hand */
	uint32_t *scratch;  /* blocks left and candidates of all levels */
	uint32_t *live;     /* [n] for search_has_room */
	uint64_t n_scratch; /* in use */
	struct floor_change *changes;
	uint64_t n_changes;
	uint64_t steps, steps_max;
	bool gave_up;
};

/* Where a level of the search begins: what was placed last. */
struct search_from {
	uint64_t offset;
	uint32_t rank;
};

/* Blocks in order of allocation. */
struct search_set {
	const uint32_t *blocks;
	uint32_t n;
};

static bool search_solve(struct search *s, struct search_set set, struct search_from from);

static const struct gp_pack_block *search_block(const struct search *s, uint32_t i)
{
	return &s->p->blocks[i];
}

static bool search_lives_with(const struct search *s, uint32_t a, uint32_t b)
{
	return a < search_block(s, b)->end && b < search_block(s, a)->end;
}

static uint64_t search_top(const struct search *s, uint32_t i)
{
	return s->floors[i] + search_block(s, i)->size;
}

/* ---- pruning ---- */

/* At every time, can what is left still go below the height? */
static bool search_has_room(struct search *s, struct search_set set, struct search_from from)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < set.n; i++) {
		uint32_t now = set.blocks[i], kept = 0;
		uint64_t lowest = s->height, sum = 0;

		s->live[n++] = now;
		for (uint32_t k = 0; k < n; k++) {
			uint32_t b = s->live[k];

			if (search_block(s, b)->end <= now)
				continue;
			s->live[kept++] = b;
			sum += search_block(s, b)->size;
			lowest = gp_min_u64(lowest, gp_max_u64(s->floors[b], from.offset));
		}
		n = kept;
		if (lowest + sum > s->height)
			return false;
	}
	return true;
}

static bool search_before(const struct search *s, uint32_t a, uint32_t b)
{
	if (s->floors[a] != s->floors[b])
		return s->floors[a] < s->floors[b];
	return s->ranks[a] < s->ranks[b];
}

/* Blocks that may be placed next, best first, into out; how many. */
static uint32_t search_candidates(const struct search *s, struct search_set set,
				  struct search_from from, uint32_t *out)
{
	uint64_t lowest_top = UINT64_MAX;
	uint32_t n = 0;

	for (uint32_t i = 0; i < set.n; i++)
		lowest_top = gp_min_u64(lowest_top, search_top(s, set.blocks[i]));
	for (uint32_t i = 0; i < set.n; i++) {
		uint32_t b = set.blocks[i], k = n;

		if (s->floors[b] < from.offset || s->floors[b] >= lowest_top ||
		    (s->floors[b] == from.offset && s->ranks[b] < from.rank))
			continue;
		for (; k && search_before(s, b, out[k - 1]); k--)
			out[k] = out[k - 1];
		out[k] = b;
		n++;
	}
	return n;
}

/* ---- one step ---- */

/* Raises the floors of what lives with a block, of those that are left. *roof: there is such a one.
 * false: one of them no longer fits. */
static bool search_raise(struct search *s, uint32_t block, struct search_set left, bool *roof)
{
	uint64_t top = s->offsets[block] + search_block(s, block)->size;
	bool fits = true;

	*roof = false;
	for (uint32_t i = 0; i < left.n; i++) {
		uint32_t b = left.blocks[i];

		if (!search_lives_with(s, block, b))
			continue;
		*roof = true;
		if (s->floors[b] >= top)
			continue;
		s->changes[s->n_changes++] = (struct floor_change){ s->floors[b], b };
		s->floors[b] = gp_pack_align(search_block(s, b), top);
		fits = fits && search_top(s, b) <= s->height;
	}
	return fits;
}

static void search_undo(struct search *s, uint64_t n_changes)
{
	while (s->n_changes > n_changes) {
		struct floor_change c = s->changes[--s->n_changes];

		s->floors[c.block] = c.floor;
	}
}

/* How many of the first blocks of a set belong together. */
static uint32_t search_part(const struct search *s, struct search_set set)
{
	uint32_t end = search_block(s, set.blocks[0])->end, n = 1;

	for (; n < set.n && set.blocks[n] < end; n++) {
		uint32_t other = search_block(s, set.blocks[n])->end;

		end = other > end ? other : end;
	}
	return n;
}

/* Solves the parts of a set. One that came apart begins anew: its blocks may lie lower. */
static bool search_parts(struct search *s, struct search_set set, struct search_from from)
{
	while (set.n) {
		struct search_set part = { set.blocks, search_part(s, set) };

		if (part.n < set.n)
			from = (struct search_from){ 0, 0 };
		if (!search_solve(s, part, from))
			return false;
		set.blocks += part.n;
		set.n -= part.n;
	}
	return true;
}

/* Places one block and solves the rest. *roof as above. */
static bool search_try(struct search *s, struct search_set set, uint32_t block, uint32_t *rest,
		       bool *roof)
{
	uint64_t n_changes = s->n_changes;
	struct search_set left = { rest, 0 };

	for (uint32_t i = 0; i < set.n; i++)
		if (set.blocks[i] != block)
			rest[left.n++] = set.blocks[i];
	s->offsets[block] = s->floors[block];
	if (search_raise(s, block, left, roof) &&
	    search_parts(s, left, (struct search_from){ s->offsets[block], s->ranks[block] }))
		return true;
	search_undo(s, n_changes);
	return false;
}

static bool search_out_of_steps(struct search *s)
{
	const struct gp_packing *p = s->p;

	if (++s->steps > s->steps_max ||
	    (s->steps % POLL_STEPS == 0 && p->expired && p->expired(p->expired_arg)))
		s->gave_up = true;
	return s->gave_up;
}

/* Places a set that belongs together. false: it does not fit, or the search gave up. */
static bool search_solve(struct search *s, struct search_set set, struct search_from from)
{
	uint32_t *rest = s->scratch + s->n_scratch, *candidates = rest + set.n, n;
	bool solved = false, roof = true;

	if (search_out_of_steps(s) || !search_has_room(s, set, from))
		return false;
	s->n_scratch += 2 * (uint64_t)set.n;
	n = search_candidates(s, set, from, candidates);
	for (uint32_t i = 0; i < n && roof && !solved && !s->gave_up; i++)
		if (search_top(s, candidates[i]) <= s->height)
			solved = search_try(s, set, candidates[i], rest, &roof);
	s->n_scratch -= 2 * (uint64_t)set.n;
	return solved;
}

/* ---- rankings ---- */

struct rank_key {
	double keys[3];
	uint32_t block;
};

static int search_by_key(const void *a, const void *b)
{
	const struct rank_key *x = a, *y = b;

	for (unsigned i = 0; i < GP_ARRAY_LEN(x->keys); i++)
		if (x->keys[i] != y->keys[i])
			return x->keys[i] > y->keys[i] ? -1 : 1;
	return x->block < y->block ? -1 : 1;
}

/* The three rankings of the paper: by life, area and crowd in different orders. */
static int search_rank(struct search *s, unsigned ranking)
{
	struct rank_key *keys = calloc(s->p->n, sizeof(*keys));

	if (!keys)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->p->n; i++) {
		const struct gp_pack_block *b = search_block(s, i);
		double life = (double)b->time, area = life * (double)b->size;
		double crowd = (double)s->crowd[i];
		const double of[][3] = {
			{ life, area, crowd },
			{ crowd, area, life },
			{ crowd, life, area },
		};

		memcpy(keys[i].keys, of[ranking], sizeof(keys[i].keys));
		keys[i].block = i;
	}
	qsort(keys, s->p->n, sizeof(*keys), search_by_key);
	for (uint32_t i = 0; i < s->p->n; i++)
		s->ranks[keys[i].block] = i;
	free(keys);
	return 0;
}

static void search_crowds(struct search *s)
{
	for (uint32_t now = 0; now < s->p->n; now++) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i <= now; i++)
			sum += search_block(s, i)->end > now ? search_block(s, i)->size : 0;
		for (uint32_t i = 0; i <= now; i++)
			if (search_block(s, i)->end > now)
				s->crowd[i] = gp_max_u64(s->crowd[i], sum);
	}
}

/* One ranking with so many steps: 0, GP_REFUSED, GP_NOMEM (more steps could help) or -ENOMEM. */
static int search_once(struct search *s, unsigned ranking, uint64_t steps_max,
		       struct search_set all)
{
	int r = search_rank(s, ranking);

	if (r)
		return r;
	s->n_changes = s->n_scratch = s->steps = 0;
	s->steps_max = steps_max;
	s->gave_up = false;
	memset(s->floors, 0, s->p->n * sizeof(*s->floors));
	if (search_parts(s, all, (struct search_from){ 0, 0 }))
		return 0;
	return s->gave_up ? GP_NOMEM : GP_REFUSED;
}

static int search_rounds(struct search *s, struct search_set all)
{
	const struct gp_packing *p = s->p;
	int r = GP_NOMEM;

	for (uint64_t steps = 2 * (uint64_t)p->n; r == GP_NOMEM; steps *= 2) {
		for (unsigned ranking = 0; ranking < 3 && r == GP_NOMEM; ranking++)
			r = search_once(s, ranking, steps, all);
		if (p->expired && p->expired(p->expired_arg))
			break;
	}
	return r;
}

static int search_alloc(struct search *s)
{
	size_t n = s->p->n;

	s->floors = calloc(n, sizeof(*s->floors));
	s->offsets = calloc(n, sizeof(*s->offsets));
	s->crowd = calloc(n, sizeof(*s->crowd));
	s->ranks = calloc(n, sizeof(*s->ranks));
	s->live = calloc(n, sizeof(*s->live));
	/* Level k has n - k blocks left. */
	s->scratch = calloc(n * (n + 1) + 1, sizeof(*s->scratch));
	s->changes = calloc(n * (n + 1) / 2, sizeof(*s->changes));
	return s->floors && s->offsets && s->crowd && s->ranks && s->live && s->scratch &&
			       s->changes
		       ? 0
		       : -ENOMEM;
}

static void search_free(struct search *s)
{
	free(s->floors);
	free(s->offsets);
	free(s->crowd);
	free(s->ranks);
	free(s->live);
	free(s->scratch);
	free(s->changes);
}

int gp_packing_search(struct gp_packing *p, uint64_t height)
{
	struct search s = { .p = p, .height = height };
	uint32_t *all;
	int r;

	if (height < p->bound)
		return GP_REFUSED;
	if (!p->n || p->n > GP_PACK_SEARCH_MAX)
		return p->n ? GP_NOMEM : 0;
	all = calloc(p->n, sizeof(*all));
	r = search_alloc(&s);
	if (all && !r) {
		for (uint32_t i = 0; i < p->n; i++)
			all[i] = i;
		search_crowds(&s);
		r = search_rounds(&s, (struct search_set){ all, p->n });
	}
	for (uint32_t i = 0; !r && i < p->n; i++)
		p->blocks[i].offset = s.offsets[i];
	search_free(&s);
	free(all);
	return all ? r : -ENOMEM;
}
