/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_gaps: see sim_gaps.h. Trees are cut and joined from the top down, so that no gap needs a link
 * to its parent. Only a gap without neighbours needs memory.
 *
 * Invariants   1. a gap is in the tree and in `where`, or in neither
 *              2. two gaps of one set never touch
 */
#include "sim_gaps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void gp_sim_gap_store_fini(struct gp_sim_gap_store *st)
{
	free(st->at);
	*st = (struct gp_sim_gap_store){ 0 };
}

void gp_sim_gaps_init(struct gp_sim_gaps *g)
{
	gp_range_set_init(&g->where);
	g->root = GP_SIM_GAP_NIL;
}

void gp_sim_gaps_fini(struct gp_sim_gaps *g)
{
	gp_range_set_fini(&g->where);
	g->root = GP_SIM_GAP_NIL;
}

/* ---- numbers ---- */

/* GP_SIM_GAP_NIL: host memory is exhausted. */
static uint32_t store_number(struct gp_sim_gap_store *st)
{
	uint32_t n = st->unused, cap = st->cap ? 2 * st->cap : 64;
	struct gp_sim_gap *grown;

	if (n) {
		st->unused = st->at[n].left;
		return n;
	}
	if (st->n + 1 >= st->cap) {
		grown = realloc(st->at, cap * sizeof(*grown));
		if (!grown)
			return GP_SIM_GAP_NIL;
		st->at = grown;
		st->cap = cap;
	}
	return ++st->n;
}

static void store_drop(struct gp_sim_gap_store *st, uint32_t n)
{
	st->at[n].left = st->unused;
	st->unused = n;
}

/* ---- the tree ---- */

static bool gap_is_below(const struct gp_sim_gap *gap, uint64_t size, uint64_t age)
{
	return gap->size < size || (gap->size == size && gap->age < age);
}

/* Numbers are dealt out in turn: the hash makes them look drawn at random. A bijection. */
static uint32_t gap_rank(uint32_t n)
{
	n *= UINT32_C(0x9e3779b1);
	return n ^ n >> 15;
}

static void tree_insert(struct gp_sim_gap_store *st, struct gp_sim_gaps *g, uint32_t n)
{
	struct gp_sim_gap *at = st->at;
	uint64_t size = at[n].size, age = ++st->age;
	uint32_t *link = &g->root, *left = &at[n].left, *right = &at[n].right, rest;

	at[n].age = age;
	while (*link && gap_rank(*link) > gap_rank(n))
		link = gap_is_below(&at[*link], size, age) ? &at[*link].right : &at[*link].left;
	rest = *link;
	*link = n;
	while (rest) {
		if (gap_is_below(&at[rest], size, age)) {
			*left = rest;
			left = &at[rest].right;
			rest = *left;
		} else {
			*right = rest;
			right = &at[rest].left;
			rest = *right;
		}
	}
	*left = *right = GP_SIM_GAP_NIL;
}

static void tree_remove(struct gp_sim_gap_store *st, struct gp_sim_gaps *g, uint32_t n)
{
	struct gp_sim_gap *at = st->at;
	uint32_t *link = &g->root, left = at[n].left, right = at[n].right;

	while (*link != n)
		link = gap_is_below(&at[*link], at[n].size, at[n].age) ? &at[*link].right
								       : &at[*link].left;
	while (left && right) {
		if (gap_rank(left) > gap_rank(right)) {
			*link = left;
			link = &at[left].right;
			left = *link;
		} else {
			*link = right;
			link = &at[right].left;
			right = *link;
		}
	}
	*link = left ? left : right;
}

/* The first that is not below. */
static uint32_t tree_lower(const struct gp_sim_gap_store *st, const struct gp_sim_gaps *g,
			   uint64_t size, uint64_t age)
{
	uint32_t best = GP_SIM_GAP_NIL, n = g->root;

	while (n) {
		if (gap_is_below(&st->at[n], size, age)) {
			n = st->at[n].right;
		} else {
			best = n;
			n = st->at[n].left;
		}
	}
	return best;
}

/* ---- gaps ---- */

/* The gap n, which is in no tree, gets another extent. */
static void gap_resize(struct gp_sim_gap_store *st, struct gp_sim_gaps *g, uint32_t n,
		       uint64_t addr, uint64_t size)
{
	struct gp_range_entry e = { addr, size, n };

	gp_range_set_replace(&g->where, st->at[n].addr, e);
	st->at[n].addr = addr;
	st->at[n].size = size;
	tree_insert(st, g, n);
}

static int gap_new(struct gp_sim_gap_store *st, struct gp_sim_gaps *g, uint64_t addr, uint64_t size,
		   uint64_t freed)
{
	uint32_t n = store_number(st);
	int r;

	if (!n)
		return -ENOMEM;
	r = gp_range_set_insert(&g->where, addr, size, n);
	if (r) {
		store_drop(st, n);
		return r;
	}
	st->at[n] = (struct gp_sim_gap){ .addr = addr, .size = size, .freed = freed };
	tree_insert(st, g, n);
	return 0;
}

static void gap_gone(struct gp_sim_gap_store *st, struct gp_sim_gaps *g, uint32_t n)
{
	gp_range_set_remove(&g->where, st->at[n].addr, NULL);
	store_drop(st, n);
}

uint32_t gp_sim_gaps_before(const struct gp_sim_gaps *g, uint64_t addr)
{
	const struct gp_range_entry *e = gp_range_set_floor(&g->where, addr);

	return e && e->addr + e->size == addr ? (uint32_t)e->tag : GP_SIM_GAP_NIL;
}

int gp_sim_gaps_put(struct gp_sim_gap_store *st, struct gp_sim_gaps *g, uint64_t addr,
		    uint64_t size, uint64_t freed)
{
	const struct gp_range_entry *behind = gp_range_set_at(&g->where, addr + size);
	uint32_t left = gp_sim_gaps_before(g, addr);
	uint32_t right = behind ? (uint32_t)behind->tag : GP_SIM_GAP_NIL, n = left ? left : right;

	if (!n)
		return gap_new(st, g, addr, size, freed);
	if (left) {
		addr = st->at[left].addr;
		size += st->at[left].size;
		freed = gp_max_u64(freed, st->at[left].freed);
		tree_remove(st, g, left);
	}
	if (right) {
		size += st->at[right].size;
		freed = gp_max_u64(freed, st->at[right].freed);
		tree_remove(st, g, right);
	}
	if (left && right)
		gap_gone(st, g, right);
	st->at[n].freed = freed;
	gap_resize(st, g, n, addr, size);
	return 0;
}

void gp_sim_gaps_cut(struct gp_sim_gap_store *st, struct gp_sim_gaps *g, uint32_t n, uint64_t size)
{
	const struct gp_sim_gap *gap = &st->at[n];

	tree_remove(st, g, n);
	if (gap->size == size)
		gap_gone(st, g, n);
	else
		gap_resize(st, g, n, gap->addr + size, gap->size - size);
}

uint32_t gp_sim_gaps_best(const struct gp_sim_gap_store *st, const struct gp_sim_gaps *g,
			  uint64_t size, uint64_t freed_until)
{
	uint32_t n = tree_lower(st, g, size, 0);

	while (n && st->at[n].freed > freed_until)
		n = tree_lower(st, g, st->at[n].size, st->at[n].age + 1);
	return n;
}

int gp_sim_gaps_move(struct gp_sim_gap_store *st, struct gp_sim_gaps *from, struct gp_sim_gaps *to)
{
	const struct gp_range_entry *e;
	int r = 0;

	while (!r && (e = gp_range_set_ceiling(&from->where, 0))) {
		uint32_t n = (uint32_t)e->tag;

		r = gp_sim_gaps_put(st, to, e->addr, e->size, st->at[n].freed);
		if (!r)
			gp_sim_gaps_cut(st, from, n, st->at[n].size);
	}
	return r;
}
