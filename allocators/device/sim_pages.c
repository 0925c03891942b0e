/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_pages: see the header.
 *
 * Invariants   1. bound >= the page's largest free run; exact after a search that failed
 *              2. a page is in the bin of its bound; a page of bound 0 is in none
 */
#include "sim_pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GRANULES GP_SIM_PAGE_GRANULES
#define WORDS    (GRANULES / 64)
/* Pages looked at whose bound is in the request's own bin, before a larger bin is opened. */
#define OWN_BIN_TRIES 4

struct gp_sim_page {
	struct gp_sim_page *prev, *next;
	uint64_t addr;
	unsigned n_used; /* granules */
	unsigned bound;  /* granules */
	uint64_t used[WORDS];
	uint64_t last[WORDS];
};

void gp_sim_pages_init(struct gp_sim_pages *ps)
{
	memset(ps, 0, sizeof(*ps));
}

static bool bit_get(const uint64_t *map, unsigned i)
{
	return map[i / 64] >> i % 64 & 1;
}

/* First bit from i on that is `value`; GRANULES when there is none. */
static unsigned bit_find(const uint64_t *map, unsigned i, bool value)
{
	uint64_t flip = value ? 0 : ~UINT64_C(0);
	unsigned w = i / 64;
	uint64_t word;

	if (i >= GRANULES)
		return GRANULES;
	word = (map[w] ^ flip) & ~UINT64_C(0) << i % 64;
	while (!word) {
		if (++w == WORDS)
			return GRANULES;
		word = map[w] ^ flip;
	}
	return 64 * w + gp_lowest_bit(word);
}

/* One behind the last bit set before i; 0 when there is none. */
static unsigned bit_find_back(const uint64_t *map, unsigned i)
{
	unsigned w = i / 64;
	uint64_t word = i % 64 ? map[w] & ((UINT64_C(1) << i % 64) - 1) : 0;

	while (!word) {
		if (!w)
			return 0;
		word = map[--w];
	}
	return 64 * w + gp_floor_log2(word) + 1;
}

/* Sets or clears bits [i, i + n). */
static void bit_fill(uint64_t *map, unsigned i, unsigned n, bool value)
{
	while (n) {
		unsigned k = 64 - i % 64 < n ? 64 - i % 64 : n;
		uint64_t mask = (k == 64 ? ~UINT64_C(0) : (UINT64_C(1) << k) - 1) << i % 64;

		map[i / 64] = value ? map[i / 64] | mask : map[i / 64] & ~mask;
		i += k;
		n -= k;
	}
}

static void page_unlink(struct gp_sim_pages *ps, struct gp_sim_page *p)
{
	if (!p->bound)
		return;
	if (p->next)
		p->next->prev = p->prev;
	if (p->prev)
		p->prev->next = p->next;
	else
		ps->bins[gp_floor_log2(p->bound)] = p->next;
}

static void page_link(struct gp_sim_pages *ps, struct gp_sim_page *p)
{
	struct gp_sim_page **bin;

	if (!p->bound)
		return;
	bin = &ps->bins[gp_floor_log2(p->bound)];
	p->prev = NULL;
	p->next = *bin;
	if (p->next)
		p->next->prev = p;
	*bin = p;
}

/* To the front of the bin of this bound. */
static void page_set_bound(struct gp_sim_pages *ps, struct gp_sim_page *p, unsigned bound)
{
	page_unlink(ps, p);
	p->bound = bound;
	page_link(ps, p);
}

struct gp_sim_page *gp_sim_page_add(struct gp_sim_pages *ps, uint64_t addr)
{
	struct gp_sim_page *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->addr = addr;
	p->bound = GRANULES;
	page_link(ps, p);
	return p;
}

void gp_sim_page_drop(struct gp_sim_pages *ps, struct gp_sim_page *page)
{
	page_unlink(ps, page);
	free(page);
}

/* Takes n granules at the lowest place; where none fits, the bound becomes exact. */
static bool page_take(struct gp_sim_pages *ps, struct gp_sim_page *p, unsigned n, uint64_t *addr)
{
	unsigned i = bit_find(p->used, 0, false), largest = 0;

	while (i < GRANULES) {
		unsigned end = bit_find(p->used, i, true);

		if (end - i >= n) {
			bit_fill(p->used, i, n, true);
			bit_fill(p->last, i + n - 1, 1, true);
			p->n_used += n;
			if (p->n_used == GRANULES)
				page_set_bound(ps, p, 0);
			*addr = p->addr + i * GP_SIM_GRANULE;
			return true;
		}
		largest = end - i > largest ? end - i : largest;
		i = bit_find(p->used, end, false);
	}
	page_set_bound(ps, p, largest);
	return false;
}

bool gp_sim_pages_take(struct gp_sim_pages *ps, uint64_t size, uint64_t *addr)
{
	unsigned n = (unsigned)(gp_align_up(size, GP_SIM_GRANULE) / GP_SIM_GRANULE);
	unsigned tries = OWN_BIN_TRIES;
	struct gp_sim_page *p, *next;

	for (p = ps->bins[gp_floor_log2(n)]; p && tries; p = next, tries--) {
		next = p->next;
		if (p->bound >= n && page_take(ps, p, n, addr))
			return true;
	}
	for (unsigned b = gp_floor_log2(n) + 1; b < GP_SIM_PAGE_BINS; b++) {
		/* A page that fails moves to a lower bin: this ends. */
		while (ps->bins[b]) {
			if (page_take(ps, ps->bins[b], n, addr))
				return true;
		}
	}
	return false;
}

int gp_sim_page_give(struct gp_sim_pages *ps, struct gp_sim_page *p, uint64_t addr, uint64_t *bytes,
		     bool *empty)
{
	uint64_t offset = addr - p->addr;
	unsigned i = (unsigned)(offset / GP_SIM_GRANULE), n, run;

	if (offset % GP_SIM_GRANULE || offset >= GP_SIM_PAGE_BYTES || !bit_get(p->used, i) ||
	    (i && bit_get(p->used, i - 1) && !bit_get(p->last, i - 1)))
		return -EINVAL;
	n = bit_find(p->last, i, true) + 1 - i;
	bit_fill(p->used, i, n, false);
	bit_fill(p->last, i + n - 1, 1, false);
	p->n_used -= n;
	run = bit_find(p->used, i + n, true) - bit_find_back(p->used, i);
	page_set_bound(ps, p, run > p->bound ? run : p->bound);
	*bytes = n * GP_SIM_GRANULE;
	*empty = !p->n_used;
	return 0;
}
