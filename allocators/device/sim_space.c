/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_space: see the header for the rule and where it comes from.
 *
 * Invariants   1. holes do not touch one another: they join when given back
 *              2. a hole is in the bin of its size, bins are ordered by the hole's clock
 *              3. no hole is below the frontier
 * Not done     what the driver does with a unit that is wholly free again (it may unmap its page
 *              tables and take it top-down anew): the recordings do not tell
 */
#include "sim_space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES (2 * GP_MIB)
#define UNIT_BYTES (32 * GP_MIB)
/* A GPU's ranges lie in the process's mmap area, below the top of the 47-bit user space. */
#define SPACE_TOP    UINT64_C(0x7fff00000000)
#define SPACE_BOTTOM UINT64_C(0x100000000000)
#define SPACE_END    UINT64_C(0x800000000000)

struct gp_sim_hole {
	struct gp_sim_hole *prev, *next;
	uint64_t addr, size;
	uint64_t clock; /* when it last changed */
};

void gp_sim_space_init(struct gp_sim_space *sp)
{
	memset(sp, 0, sizeof(*sp));
	gp_range_set_init(&sp->holes);
	sp->frontier = SPACE_TOP;
}

static void space_forget(struct gp_sim_space *sp)
{
	free(sp->places);
	sp->places = NULL;
	sp->n_places = 0;
}

void gp_sim_space_fini(struct gp_sim_space *sp)
{
	space_forget(sp);
	for (unsigned b = 0; b < GP_SIM_SPACE_BINS; b++) {
		struct gp_sim_hole *next;

		for (struct gp_sim_hole *h = sp->bins[b]; h; h = next) {
			next = h->next;
			free(h);
		}
	}
	gp_range_set_fini(&sp->holes);
}

/* ---- places ---- */

static int place_by_addr(const void *a, const void *b)
{
	const struct gp_sim_place *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static int place_by_size(const void *a, const void *b)
{
	const struct gp_sim_place *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* By address: whole pages of a GPU's address space, without overlaps. */
static bool places_are_true(const struct gp_sim_place *p, size_t n)
{
	uint64_t end = SPACE_BOTTOM;

	for (size_t i = 0; i < n; i++) {
		if (!p[i].size || p[i].addr % PAGE_BYTES || p[i].size % PAGE_BYTES)
			return false;
		if (p[i].addr < end || p[i].addr >= SPACE_END || p[i].size > SPACE_END - p[i].addr)
			return false;
		end = p[i].addr + p[i].size;
	}
	return true;
}

int gp_sim_space_places(struct gp_sim_space *sp, const struct gp_range *places, size_t n)
{
	struct gp_sim_place *p;

	if (!n || n > UINT32_MAX)
		return 0;
	p = calloc(n, sizeof(*p));
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		p[i] = (struct gp_sim_place){ places[i].addr, places[i].size, (uint32_t)i };
	qsort(p, n, sizeof(*p), place_by_addr);
	if (!places_are_true(p, n)) {
		free(p);
		return 0;
	}
	sp->frontier = gp_align_down(gp_min_u64(p[0].addr, SPACE_TOP), UNIT_BYTES);
	qsort(p, n, sizeof(*p), place_by_size);
	/* From now on the first of each size counts how many of it are used. */
	for (size_t i = 0; i < n; i++)
		p[i].order = 0;
	sp->places = p;
	sp->n_places = (uint32_t)n;
	return 0;
}

/* The next place for that size; 0: there is none. */
static uint64_t places_take(struct gp_sim_space *sp, uint64_t size)
{
	uint32_t lo = 0, hi = sp->n_places, n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (sp->places[mid].size < size)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == sp->n_places || sp->places[lo].size != size)
		return 0;
	n = sp->places[lo].order;
	if (n >= sp->n_places - lo || sp->places[lo + n].size != size)
		return 0;
	sp->places[lo].order++;
	return sp->places[lo + n].addr;
}

/* ---- holes ---- */

static unsigned space_bin(uint64_t size)
{
	uint64_t pages = size / PAGE_BYTES;
	unsigned lg;

	if (pages < 32)
		return (unsigned)pages;
	lg = gp_floor_log2(pages);
	return 32 + 8 * (lg - 5) + (unsigned)(pages >> (lg - 3) & 7);
}

static void hole_unlink(struct gp_sim_space *sp, struct gp_sim_hole *h)
{
	unsigned b = space_bin(h->size);

	if (h->next)
		h->next->prev = h->prev;
	if (h->prev)
		h->prev->next = h->next;
	else
		sp->bins[b] = h->next;
	if (!sp->bins[b])
		sp->occupied[b / 64] &= ~(UINT64_C(1) << b % 64);
}

static void hole_link(struct gp_sim_space *sp, struct gp_sim_hole *h)
{
	unsigned b = space_bin(h->size);

	h->clock = ++sp->clock;
	h->prev = NULL;
	h->next = sp->bins[b];
	if (h->next)
		h->next->prev = h;
	sp->bins[b] = h;
	sp->occupied[b / 64] |= UINT64_C(1) << b % 64;
}

static struct gp_sim_hole *hole_of(const struct gp_range_entry *e)
{
	return e ? (struct gp_sim_hole *)(uintptr_t)e->tag : NULL;
}

/* The hole takes another extent, in place. */
static void hole_resize(struct gp_sim_space *sp, struct gp_sim_hole *h, uint64_t addr,
			uint64_t size)
{
	struct gp_range_entry e = { addr, size, (uintptr_t)h };

	hole_unlink(sp, h);
	gp_range_set_replace(&sp->holes, h->addr, e);
	h->addr = addr;
	h->size = size;
	hole_link(sp, h);
}

static void hole_drop(struct gp_sim_space *sp, struct gp_sim_hole *h)
{
	hole_unlink(sp, h);
	gp_range_set_remove(&sp->holes, h->addr, NULL);
	free(h);
}

static int hole_add(struct gp_sim_space *sp, uint64_t addr, uint64_t size)
{
	struct gp_sim_hole *h = malloc(sizeof(*h));

	if (!h || gp_range_set_insert(&sp->holes, addr, size, (uintptr_t)h)) {
		free(h);
		return -ENOMEM;
	}
	h->addr = addr;
	h->size = size;
	hole_link(sp, h);
	return 0;
}

static void space_add_hole(struct gp_sim_space *sp, uint64_t addr, uint64_t size)
{
	struct gp_sim_hole *l = hole_of(gp_range_set_floor(&sp->holes, addr));
	struct gp_sim_hole *r = hole_of(gp_range_set_at(&sp->holes, addr + size));

	if (l && l->addr + l->size != addr)
		l = NULL;
	if (l) {
		addr = l->addr;
		size += l->size;
	}
	if (r) {
		size += r->size;
		if (l)
			hole_drop(sp, r);
	}
	if (l || r)
		hole_resize(sp, l ? l : r, addr, size);
	else
		(void)hole_add(sp, addr, size);
}

void gp_sim_space_give(struct gp_sim_space *sp, uint64_t addr, uint64_t size)
{
	/* From here on the program is not the one whose places these are. */
	space_forget(sp);
	space_add_hole(sp, addr, size);
}

/* The most recently changed hole of at least `size` bytes. */
static struct gp_sim_hole *space_find(const struct gp_sim_space *sp, uint64_t size)
{
	unsigned b = space_bin(size);
	struct gp_sim_hole *best = sp->bins[b];
	uint64_t word;

	while (best && best->size < size)
		best = best->next;
	if (++b == GP_SIM_SPACE_BINS)
		return best;
	word = sp->occupied[b / 64] & ~UINT64_C(0) << b % 64;
	for (unsigned w = b / 64;;) {
		for (; word; word &= word - 1) {
			struct gp_sim_hole *h = sp->bins[64 * w + gp_lowest_bit(word)];

			if (!best || h->clock > best->clock)
				best = h;
		}
		if (++w == GP_ARRAY_LEN(sp->occupied))
			return best;
		word = sp->occupied[w];
	}
}

int gp_sim_space_take(struct gp_sim_space *sp, uint64_t size, uint64_t *addr)
{
	struct gp_sim_hole *h;
	uint64_t units;

	if (size > SPACE_TOP - SPACE_BOTTOM)
		return GP_NOMEM;
	*addr = places_take(sp, size);
	if (*addr)
		return 0;
	h = space_find(sp, size);
	if (h) {
		*addr = h->addr;
		if (h->size == size)
			hole_drop(sp, h);
		else
			hole_resize(sp, h, h->addr + size, h->size - size);
		return 0;
	}
	units = gp_align_up(size, UNIT_BYTES);
	if (units > sp->frontier - SPACE_BOTTOM)
		return GP_NOMEM;
	sp->frontier -= units;
	*addr = sp->frontier;
	if (units > size)
		space_add_hole(sp, sp->frontier + size, units - size);
	return 0;
}
