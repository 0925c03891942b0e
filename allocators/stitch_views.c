/* SPDX-License-Identifier: Apache-2.0
 *
 * stitch_views: blocks made of several holes: the handles that have them are mapped once more, side
 * by side.
 *
 *      home    | h1 ........|h2      | h3 ......#####|##h4##| h5     |
 *                  `--free--'--free--'   used        used   '--free--'
 *      view                     | h1 ........| h5     | h2     |
 *                                   [------- block ----------]    h2's last bytes stay free at home
 *
 * Shape       A block begins in the free end of a handle, goes on through free ones and ends in the
 *             free start of another (stitch_plan.c): none is mapped in part, but blocks share them.
 *             At home the pieces of a block are tiles in state PART, chained by link.next; freed, they are
 *             free there as if they had been blocks of their own.
 *             A view stays mapped when its block is freed, and serves again where enough of its
 *             handles in a row are free.
 * Invariants  1. the parts of a view are handles at home, and their sizes add up to its own
 *             2. tiles in state PART are those of the views' blocks; of one block, in their order,
 *                they adjoin in its view                             -> stitch_check_views()
 * Cost        a mapping, 22 us, a handle of a new view; linear in the pieces of a block else
 * Memory      48 bytes a view, 16 a part
 * Aliases     A handle is used through several addresses: by different blocks never the same bytes at
 *             a time, and one after the other only on one stream or behind an event, as CUDA asks
 */
#include "stitch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Addresses for the views, as many as for home. A program of 64 threads has as many allocators, and
 * 2^47 bytes of addresses for all of them. */
#define VIEWS_PER_CARD 2

int stitch_views_init(struct stitch *s, struct gp_device *dev)
{
	uint64_t size = (uint64_t)VIEWS_PER_CARD << gp_ceil_log2(dev->info.total_bytes);
	int r = gp_device_va_reserve(dev, size, &s->va.addr);

	if (r)
		return r;
	s->va.size = size;
	gp_range_set_init(&s->va_holes);
	gp_range_set_init(&s->views_at);
	return gp_range_set_insert(&s->va_holes, s->va.addr, size, 0);
}

/* ---- views ---- */

/* Finds addresses for a view; when there are none, or enough views, half of those without a block go
 * first. */
static int view_room(struct stitch *s, uint64_t size, uint64_t *addr)
{
	bool room = gp_range_set_first_fit(&s->va_holes, size, s->fit.pool.page, addr);
	int r;

	if (room && s->views_at.n < s->max_views)
		return 0;
	r = gp_device_sync(s->fit.pool.a->dev);
	if (!r)
		r = stitch_drop_views(s, (uint32_t)(s->views_at.n / 2));
	if (r)
		return r;
	return gp_range_set_first_fit(&s->va_holes, size, s->fit.pool.page, addr) ? 0 : GP_NOMEM;
}

/* The number of an unused record. */
static int view_record(struct stitch *s, uint32_t *out)
{
	uint32_t cap = s->cap_views ? 2 * s->cap_views : 16;
	struct stitch_view *grown;

	for (*out = 0; *out < s->n_views; ++*out)
		if (!s->views[*out].n_parts)
			return 0;
	if (s->n_views == s->cap_views) {
		grown = realloc(s->views, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->views = grown;
		s->cap_views = cap;
	}
	s->views[s->n_views++] = (struct stitch_view){ 0 };
	return 0;
}

/* Maps the chosen handles side by side from addr on. */
static int map_chosen(struct stitch *s, struct stitch_view *v)
{
	struct gp_device *dev = s->fit.pool.a->dev;
	uint64_t at = 0;
	int r = 0;

	for (uint32_t i = 0; i < v->n_parts && !r; i++) {
		const struct gp_range_entry *home =
			gp_range_set_at(&s->fit.pool.ranges, v->parts[i].addr);

		r = gp_device_map(dev, v->at.addr + at, home->size, home->tag);
		if (!r)
			at += home->size;
	}
	if (r && at)
		gp_device_unmap(dev, v->at.addr, at);
	return r;
}

static void forget_view(struct stitch *s, struct stitch_view *v)
{
	gp_range_set_insert_merge(&s->va_holes, v->at.addr, v->at.size, 0);
	free(v->parts);
	*v = (struct stitch_view){ 0 };
}

/* The chosen handles, in a list of the view's own. */
static int list_parts(const struct stitch *s, struct stitch_view *v)
{
	v->n_parts = (uint32_t)s->n_chosen;
	v->parts = calloc(v->n_parts, sizeof(*v->parts));
	if (!v->parts)
		return -ENOMEM;
	for (uint32_t i = 0; i < v->n_parts; i++) {
		v->parts[i] = s->chosen[i].handle;
		v->at.size += v->parts[i].size;
	}
	return 0;
}

/* A view of the chosen handles. Nobody has used its addresses, so nobody need wait. */
static int make_view(struct stitch *s, struct stitch_view **out)
{
	struct stitch_view v = { 0 };
	uint32_t number;
	int r = list_parts(s, &v);

	if (!r)
		r = view_room(s, v.at.size, &v.at.addr);
	if (!r)
		r = view_record(s, &number);
	if (!r)
		r = gp_range_set_carve(&s->va_holes, v.at.addr, v.at.size);
	if (r) {
		free(v.parts);
		return r;
	}
	r = gp_range_set_insert(&s->views_at, v.at.addr, v.at.size, number);
	if (!r)
		r = map_chosen(s, &v);
	if (r) {
		gp_range_set_remove(&s->views_at, v.at.addr, NULL);
		forget_view(s, &v);
		return r;
	}
	s->views[number] = v;
	*out = &s->views[number];
	return 0;
}

/* ---- blocks ---- */

/* The tile in whose hole a chosen piece is: others of the same hole may have been taken before. */
static uint32_t tile_of(const struct stitch *s, const struct stitch_piece *p)
{
	const struct gp_tile *tiles = s->fit.t.tiles;
	uint32_t n = p->tile;

	while (p->free.addr - gp_hole_addr(&tiles[n]) >= gp_hole_bytes(&tiles[n]))
		n = tiles[n].next;
	return n;
}

/* Takes a chosen piece out of its hole. Room for one is there. */
static uint32_t carve(struct stitch *s, const struct stitch_piece *p, uint32_t stream)
{
	uint32_t n = tile_of(s, p);
	uint64_t before = p->free.addr - gp_hole_addr(&s->fit.t.tiles[n]);

	return gp_fit_cut(&s->fit, n, (uint32_t)(before >> GP_TILE_LG_UNIT),
			  (uint32_t)(p->free.size >> GP_TILE_LG_UNIT), stream, GP_TILE_PART);
}

/* Waits for whoever may still use the chosen pieces. */
static int wait_for_chosen(struct stitch *s, uint32_t stream)
{
	int r = 0;

	for (size_t i = 0; i < s->n_chosen && !r; i++)
		r = gp_fit_wait(&s->fit, s->chosen[i].tile, stream);
	return r;
}

/* The chosen pieces become the view's block. */
static void give_view(struct stitch *s, struct stitch_view *v, uint32_t stream,
		      struct gp_block *out)
{
	const struct stitch_piece *first = &s->chosen[0];
	uint32_t *link = &v->tiles;
	uint64_t at = 0;

	for (uint32_t i = 0; v->parts[i].addr != first->handle.addr; i++)
		at += v->parts[i].size;
	v->block = v->at.addr + at + (first->free.addr - first->handle.addr);
	v->used = ++s->clock;
	*out = (struct gp_block){ v->block, 0 };
	for (size_t i = 0; i < s->n_chosen; i++) {
		*link = carve(s, &s->chosen[i], stream);
		out->granted += gp_tile_bytes(&s->fit.t.tiles[*link]);
		link = &s->fit.t.tiles[*link].chain;
	}
	*link = GP_TILE_NIL;
	s->fit.live++;
	s->fit.granted_units += out->granted >> GP_TILE_LG_UNIT;
}

int stitch_together(struct stitch *s, uint32_t units, uint32_t stream, uint64_t align,
		    struct gp_block *out)
{
	uint64_t size = (uint64_t)units << GP_TILE_LG_UNIT;
	struct stitch_view *v;
	int r;

	/* The parts of a view begin on a page. */
	if (align > s->fit.pool.page)
		return GP_NOMEM;
	r = stitch_choose(s, size, align, &v);
	if (!r && !v)
		r = make_view(s, &v);
	if (!r)
		r = wait_for_chosen(s, stream);
	if (!r)
		r = gp_tiling_room(&s->fit.t, (uint32_t)s->n_chosen);
	if (!r)
		give_view(s, v, stream, out);
	return r;
}

int stitch_free_view(struct stitch *s, uint64_t addr)
{
	const struct gp_range_entry *e = gp_range_set_containing(&s->views_at, addr);
	const struct gp_tile *tiles = s->fit.t.tiles;
	struct stitch_view *v;
	int r = 0;

	if (!e)
		return -EINVAL;
	v = &s->views[e->tag];
	if (!v->tiles || v->block != addr)
		return v->tiles ? -EINVAL : -EALREADY;
	while (v->tiles) {
		uint32_t n = v->tiles;
		int r2;

		v->tiles = tiles[n].chain;
		s->fit.granted_units -= tiles[n].units;
		r2 = gp_fit_release(&s->fit, n, tiles[n].stream);
		r = r ? r : r2;
	}
	s->fit.live--;
	return r;
}

/* ---- giving back ---- */

int stitch_drop_views(struct stitch *s, uint32_t keep)
{
	struct gp_device *dev = s->fit.pool.a->dev;
	int r = 0;

	while (s->views_at.n > keep) {
		struct stitch_view *oldest = NULL;
		int r2;

		for (uint32_t i = 0; i < s->n_views; i++) {
			struct stitch_view *v = &s->views[i];

			if (v->n_parts && !v->tiles && (!oldest || v->used < oldest->used))
				oldest = v;
		}
		if (!oldest)
			break;
		r2 = gp_device_unmap(dev, oldest->at.addr, oldest->at.size);
		r = r ? r : r2;
		gp_range_set_remove(&s->views_at, oldest->at.addr, NULL);
		forget_view(s, oldest);
	}
	return r;
}

static uint64_t block_end(const struct stitch *s, const struct stitch_view *v)
{
	uint64_t end = v->block;

	for (uint32_t n = v->tiles; n; n = s->fit.t.tiles[n].chain)
		end += gp_tile_bytes(&s->fit.t.tiles[n]);
	return end;
}

/* Unmaps what a view maps before and behind its block, which may be smaller than the one that the
 * view was made for. */
static int shrink_view(struct stitch *s, struct stitch_view *v)
{
	uint64_t from = v->at.addr, end = v->at.addr + v->at.size, to = end;
	uint32_t first = 0, n = v->n_parts;
	int r = 0, r2 = 0;

	while (from + v->parts[first].size <= v->block)
		from += v->parts[first++].size;
	while (to - v->parts[n - 1].size >= block_end(s, v))
		to -= v->parts[--n].size;
	if (first)
		r = gp_device_unmap(s->fit.pool.a->dev, v->at.addr, from - v->at.addr);
	if (first && gp_range_set_insert_merge(&s->va_holes, v->at.addr, from - v->at.addr, 0))
		r = -ENOMEM; /* the addresses are lost */
	if (to < end)
		r2 = gp_device_unmap(s->fit.pool.a->dev, to, end - to);
	if (to < end && gp_range_set_insert_merge(&s->va_holes, to, end - to, 0))
		r2 = -ENOMEM;
	gp_range_set_replace(&s->views_at, v->at.addr,
			     (struct gp_range_entry){ from, to - from, (uint64_t)(v - s->views) });
	memmove(v->parts, v->parts + first, (n - first) * sizeof(*v->parts));
	v->n_parts = n - first;
	v->at = (struct gp_range){ from, to - from };
	return r ? r : r2;
}

int stitch_shed(struct stitch *s)
{
	int r = stitch_drop_views(s, 0);

	for (uint32_t i = 0; i < s->n_views; i++) {
		struct stitch_view *v = &s->views[i];
		int r2 = v->tiles ? shrink_view(s, v) : 0;

		r = r ? r : r2;
	}
	return r;
}

/* The device is idle, and blocks still live go with it. */
void stitch_views_fini(struct stitch *s, struct gp_device *dev)
{
	for (uint32_t i = 0; i < s->n_views; i++)
		s->views[i].tiles = GP_TILE_NIL;
	stitch_drop_views(s, 0);
	if (s->va.size)
		gp_device_va_release(dev, s->va.addr, s->va.size);
	gp_range_set_fini(&s->va_holes);
	gp_range_set_fini(&s->views_at);
	free(s->views);
	free(s->pieces);
	free(s->chosen);
}

/* ---- the audit ---- */

static int view_complain(const struct stitch_view *v, const char *what, FILE *why)
{
	fprintf(why, "stitch: the view %#" PRIx64 " of %" PRIu64 " bytes %s\n", v->at.addr,
		v->at.size, what);
	return -EILSEQ;
}

/* Where in the view its memory at home address addr is; UINT64_MAX: nowhere. */
static uint64_t view_place(const struct stitch_view *v, uint64_t addr)
{
	uint64_t at = v->at.addr;

	for (uint32_t i = 0; i < v->n_parts; at += v->parts[i++].size)
		if (addr - v->parts[i].addr < v->parts[i].size)
			return at + (addr - v->parts[i].addr);
	return UINT64_MAX;
}

static int check_block(const struct stitch *s, const struct stitch_view *v, uint64_t *units,
		       FILE *why)
{
	uint64_t at = v->block;

	for (uint32_t n = v->tiles; n; n = s->fit.t.tiles[n].chain) {
		const struct gp_tile *t = &s->fit.t.tiles[n];

		if (t->state != GP_TILE_PART)
			return view_complain(v, "has a piece that is no part of a block", why);
		if (view_place(v, gp_tile_addr(t)) != at)
			return view_complain(v, "has a block of pieces that do not adjoin", why);
		at += gp_tile_bytes(t);
		*units += t->units;
	}
	return at > v->at.addr + v->at.size ? view_complain(v, "is smaller than its block", why)
					    : 0;
}

int stitch_check_views(const struct stitch *s, uint64_t *units, FILE *why)
{
	uint64_t n_views = 0;
	int r = 0;

	for (uint32_t i = 0; i < s->n_views && !r; i++) {
		const struct stitch_view *v = &s->views[i];
		uint64_t size = 0;

		for (uint32_t k = 0; k < v->n_parts; k++) {
			const struct gp_range_entry *e =
				gp_range_set_at(&s->fit.pool.ranges, v->parts[k].addr);

			if (!e || e->size != v->parts[k].size)
				return view_complain(v, "maps what is not held", why);
			size += e->size;
		}
		if (size != v->at.size)
			return view_complain(v, "is not the sum of its parts", why);
		n_views += v->n_parts != 0;
		r = check_block(s, v, units, why);
	}
	if (!r && n_views != s->views_at.n) {
		fprintf(why, "stitch: %" PRIu64 " views, %zu addresses of views\n", n_views,
			s->views_at.n);
		r = -EILSEQ;
	}
	return r;
}
