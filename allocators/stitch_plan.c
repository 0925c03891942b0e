/* SPDX-License-Identifier: Apache-2.0
 *
 * stitch_plan: which holes a block is made of.
 *
 * Shape       pieces: of each free tile, what it has of each handle, if that is the handle's start, its
 *             end or all of it. What lies in the middle of a handle is of no use here.
 *             A block takes first the largest free end, then free handles, the largest first, then
 *             the smallest free start that has the rest, or the smallest handle.
 * Cost        linear in the holes of 256 KiB and more and in the handles of cached views, and a sort
 *             of the pieces: some microseconds
 */
#include "stitch.h"

#include <errno.h>
#include <stdlib.h>

/* Smaller pieces at either end of a block are not worth looking for. */
#define PIECE_MIN (256 * GP_KIB)

/* ---- what is free ---- */

static int by_address(const void *a, const void *b)
{
	const struct stitch_piece *x = a, *y = b;

	return (x->free.addr > y->free.addr) - (x->free.addr < y->free.addr);
}

static int grow_pieces(struct stitch_piece **at, size_t *cap, size_t n)
{
	size_t more = *cap ? 2 * *cap : 64;
	struct stitch_piece *grown;

	if (n < *cap)
		return 0;
	grown = realloc(*at, more * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	*at = grown;
	*cap = more;
	return 0;
}

static bool is_whole(const struct stitch_piece *p)
{
	return p->free.size == p->handle.size;
}

static bool is_start(const struct stitch_piece *p)
{
	return p->free.addr == p->handle.addr;
}

static bool is_end(const struct stitch_piece *p)
{
	return p->free.addr + p->free.size == p->handle.addr + p->handle.size;
}

/* The pieces of one hole, at most three kinds: an end, whole handles, a start. */
static int collect_tile(struct stitch *s, uint32_t n)
{
	const struct gp_tile *t = &s->fit.t.tiles[n];
	uint64_t addr = gp_hole_addr(t), end = addr + gp_hole_bytes(t);
	const struct gp_range_entry *e = gp_range_set_containing(&s->fit.pool.ranges, addr);

	while (e && e->addr < end) {
		struct stitch_piece p = { .handle = { e->addr, e->size }, .tile = n };
		uint64_t to = gp_min_u64(end, e->addr + e->size);
		int r = grow_pieces(&s->pieces, &s->cap_pieces, s->n_pieces);

		if (r)
			return r;
		p.free = (struct gp_range){ addr, to - addr };
		if (p.free.size >= PIECE_MIN && (is_start(&p) || is_end(&p)))
			s->pieces[s->n_pieces++] = p;
		addr = to;
		e = gp_range_set_at(&s->fit.pool.ranges, addr);
	}
	return 0;
}

static int collect(struct stitch *s)
{
	const struct gp_size_bins *bins = &s->fit.bins;
	uint32_t c = gp_size_bins_class(PIECE_MIN >> GP_TILE_LG_UNIT);
	uint32_t n;
	int r = 0;

	s->n_pieces = 0;
	for (; !r && (n = gp_size_bins_from(bins, GP_FIT_MAIN, &s->fit.t, &c)); c++)
		for (; n && !r; n = gp_size_bins_next(&s->fit.t, n))
			r = collect_tile(s, n);
	if (!r && s->n_pieces)
		qsort(s->pieces, s->n_pieces, sizeof(*s->pieces), by_address);
	return r;
}

/* ---- a view that is there ---- */

/* The first of the pieces that lie in the handle at addr; NULL: none. */
static const struct stitch_piece *pieces_of(const struct stitch *s, uint64_t addr)
{
	size_t lo = 0, hi = s->n_pieces;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->pieces[mid].free.addr < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->n_pieces && s->pieces[lo].handle.addr == addr ? &s->pieces[lo] : NULL;
}

static int choose(struct stitch *s, const struct stitch_piece *p, uint64_t *left)
{
	int r = grow_pieces(&s->chosen, &s->cap_chosen, s->n_chosen);

	if (r)
		return r;
	s->chosen[s->n_chosen] = *p;
	s->chosen[s->n_chosen++].free.size = gp_min_u64(p->free.size, *left);
	*left -= gp_min_u64(p->free.size, *left);
	return 0;
}

/* Goes on with a piece of the view's next handle, which starts at offset `at` of the view: joined to
 * what is chosen where the handle's start is free, else a new beginning. */
static int view_next(struct stitch *s, const struct stitch_view *v, const struct stitch_piece *p,
		     uint64_t at, uint64_t size, uint64_t align, uint64_t *left)
{
	uint64_t addr = v->at.addr + at + (p->free.addr - p->handle.addr);

	if (!is_start(p)) {
		s->n_chosen = 0;
		*left = size;
	}
	return !s->n_chosen && (addr & (align - 1)) ? 0 : choose(s, p, left);
}

/* Chooses adjoining free handles of the view for `size` bytes. 0, or GP_NOMEM: there are none. */
static int view_fits(struct stitch *s, const struct stitch_view *v, uint64_t size, uint64_t align)
{
	uint64_t at = 0, left = size;
	int r = 0;

	s->n_chosen = 0;
	for (uint32_t i = 0; i < v->n_parts && left && !r; at += v->parts[i++].size) {
		const struct stitch_piece *p = pieces_of(s, v->parts[i].addr);
		const struct stitch_piece *end = s->pieces + s->n_pieces;
		bool through = false;

		for (; !r && left && p && p < end && p->handle.addr == v->parts[i].addr; p++) {
			r = view_next(s, v, p, at, size, align, &left);
			through = is_end(p);
		}
		if (left && !through) {
			s->n_chosen = 0;
			left = size;
		}
	}
	return r ? r : left ? GP_NOMEM : 0;
}

/* The smallest view without a block that serves; its pieces are chosen. */
static int find_view(struct stitch *s, uint64_t size, uint64_t align, struct stitch_view **out)
{
	struct stitch_view *best = NULL;

	for (uint32_t i = 0; i < s->n_views; i++) {
		struct stitch_view *v = &s->views[i];
		int r;

		if (v->tiles || v->at.size < size || (best && v->at.size >= best->at.size))
			continue;
		r = view_fits(s, v, size, align);
		if (r < 0)
			return r;
		if (!r)
			best = v;
	}
	*out = best;
	return best ? view_fits(s, best, size, align) : GP_NOMEM;
}

/* ---- a new view ---- */

/* Whole handles first, the largest before the others; then by address. */
static int by_size(const void *a, const void *b)
{
	const struct stitch_piece *x = a, *y = b;

	if (is_whole(x) != is_whole(y))
		return is_whole(x) ? -1 : 1;
	if (x->free.size != y->free.size)
		return x->free.size > y->free.size ? -1 : 1;
	return by_address(a, b);
}

/* The largest free end of a handle that is not all there is to `left`: where the block begins. */
static const struct stitch_piece *best_end(const struct stitch *s, uint64_t left, uint64_t align)
{
	for (size_t i = 0; i < s->n_pieces; i++) {
		const struct stitch_piece *p = &s->pieces[i];

		if (!is_whole(p) && is_end(p) && p->free.size < left &&
		    !((p->free.addr - p->handle.addr) & (align - 1)))
			return p;
	}
	return NULL;
}

/* The smallest free start that has all that is left, of a handle that is not the block's first, too:
 * a view has a handle once. */
static const struct stitch_piece *best_start(const struct stitch *s, uint64_t left)
{
	for (size_t i = s->n_pieces; i--;) {
		const struct stitch_piece *p = &s->pieces[i];

		if (is_whole(p))
			return NULL;
		if (is_start(p) && p->free.size >= left &&
		    (!s->n_chosen || p->handle.addr != s->chosen[0].handle.addr))
			return p;
	}
	return NULL;
}

/* Chooses from what is free for `size` bytes. *missing: what that is short of. */
static int plan(struct stitch *s, uint64_t size, uint64_t align, uint64_t *missing)
{
	const struct stitch_piece *p, *above = NULL;
	uint64_t left = size;
	size_t i = 0;
	int r = 0;

	s->n_chosen = 0;
	if (s->n_pieces)
		qsort(s->pieces, s->n_pieces, sizeof(*s->pieces), by_size);
	p = best_end(s, left, align);
	if (p)
		r = choose(s, p, &left);
	while (!r && left) {
		p = best_start(s, left);
		for (; !p && i < s->n_pieces && is_whole(&s->pieces[i]); i++) {
			if (s->pieces[i].free.size <= left)
				p = &s->pieces[i];
			else
				above = &s->pieces[i];
		}
		if (!p)
			p = above;
		if (!p)
			break;
		r = choose(s, p, &left);
	}
	*missing = left;
	return r;
}

/* Chooses pieces for the block, and gets what memory is missing to it. */
static int plan_with_growth(struct stitch *s, uint64_t size, uint64_t align)
{
	uint64_t missing;
	uint32_t unused;
	int r = plan(s, size, align, &missing);

	if (r || !missing)
		return r;
	r = stitch_add(s, 0, gp_align_up(missing, s->fit.pool.page), &unused);
	if (!r)
		r = collect(s);
	if (!r)
		r = plan(s, size, align, &missing);
	return r ? r : missing ? GP_NOMEM : 0;
}

int stitch_choose(struct stitch *s, uint64_t size, uint64_t align, struct stitch_view **view)
{
	int r = collect(s);

	*view = NULL;
	if (!r)
		r = find_view(s, size, align, view);
	return r > 0 ? plan_with_growth(s, size, align) : r;
}
