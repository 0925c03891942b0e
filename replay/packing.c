/* SPDX-License-Identifier: Apache-2.0
 *
 * packing: the greedy placement. Blocks come one after another in a given order, and each goes to
 * the lowest offset at which it overlaps none that lives at the same time and is placed already.
 * Largest first leaves the small ones the gaps; on traces of training and serving one of four orders
 * ends within 0.1 % of the bound (results/README.md).
 *
 * Shape        `latest` is a tree over the blocks in order of allocation; a node holds the latest
 *              end of the placed blocks below it, so that those which live during [from, to) are
 *              found without a look at the others: they begin before `to` and end after `from`.
 * Cost         4 bytes a block for the tree, 16 for the scratch
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "packing.h"

#define POLL_BLOCKS 64 /* placed between two looks at the clock */

const char *gp_pack_order_name(enum gp_pack_order order)
{
	static const char *const names[] = { "by size", "by lifetime", "by span", "by area" };

	return (unsigned)order < GP_PACK_ORDER_N ? names[order] : "unknown";
}

/* How many bytes end at each time, then how many live. */
static int packing_bound(struct gp_packing *p)
{
	uint64_t *ends = calloc(p->n + UINT64_C(1), sizeof(*ends)), live = 0;

	if (!ends)
		return -ENOMEM;
	p->bound = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		live -= ends[i];
		live += p->blocks[i].size;
		ends[p->blocks[i].end] += p->blocks[i].size;
		p->bound = gp_max_u64(p->bound, live);
	}
	free(ends);
	return 0;
}

int gp_packing_init(struct gp_packing *p, struct gp_pack_block *blocks, uint32_t n)
{
	*p = (struct gp_packing){ .blocks = blocks, .n = n, .width = 1 };
	while (p->width < n)
		p->width *= 2;
	p->latest = calloc(2 * (size_t)p->width, sizeof(*p->latest));
	p->taken = calloc(n + UINT64_C(1), sizeof(*p->taken));
	if (p->latest && p->taken && !packing_bound(p))
		return 0;
	gp_packing_fini(p);
	return -ENOMEM;
}

void gp_packing_fini(struct gp_packing *p)
{
	free(p->latest);
	free(p->taken);
	p->latest = NULL;
	p->taken = NULL;
}

/* Collects the placed blocks of a node's [low, low + width) that live during [from, to). */
static void packing_collect(struct gp_packing *p, uint32_t node, uint32_t low, uint32_t width,
			    uint32_t from, uint32_t to)
{
	if (low >= to || p->latest[node] <= from)
		return;
	if (width == 1) {
		p->taken[p->n_taken++] =
			(struct gp_range){ p->blocks[low].offset, p->blocks[low].size };
		return;
	}
	packing_collect(p, 2 * node, low, width / 2, from, to);
	packing_collect(p, 2 * node + 1, low + width / 2, width / 2, from, to);
}

static int packing_by_address(const void *a, const void *b)
{
	const struct gp_range *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* The lowest offset at which a block meets nothing of `taken`, which is in order. */
static uint64_t packing_lowest(const struct gp_packing *p, const struct gp_pack_block *b)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < p->n_taken; i++) {
		const struct gp_range *r = &p->taken[i];

		if (r->addr >= at + b->size)
			break;
		at = gp_max_u64(at, gp_pack_align(b, r->addr + r->size));
	}
	return at;
}

static uint64_t packing_place(struct gp_packing *p, uint32_t i)
{
	struct gp_pack_block *b = &p->blocks[i];

	p->n_taken = 0;
	packing_collect(p, 1, 0, p->width, i, b->end);
	qsort(p->taken, p->n_taken, sizeof(*p->taken), packing_by_address);
	b->offset = packing_lowest(p, b);
	for (uint32_t node = p->width + i; node && p->latest[node] < b->end; node /= 2)
		p->latest[node] = b->end;
	return b->offset + b->size;
}

struct pack_key {
	double weight;
	uint32_t index;
};

static int packing_by_weight(const void *a, const void *b)
{
	const struct pack_key *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

static double packing_weight(const struct gp_packing *p, uint32_t i, enum gp_pack_order order)
{
	const struct gp_pack_block *b = &p->blocks[i];

	switch (order) {
	case GP_PACK_BY_LIFE:
		return (double)b->life;
	case GP_PACK_BY_SPAN:
		return b->end - i;
	case GP_PACK_BY_AREA:
		return (double)b->size * (double)b->life;
	default:
		return (double)b->size;
	}
}

static void packing_weigh(const struct gp_packing *p, enum gp_pack_order order,
			  struct pack_key *keys)
{
	for (uint32_t i = 0; i < p->n; i++)
		keys[i] = (struct pack_key){ packing_weight(p, i, order), i };
	qsort(keys, p->n, sizeof(*keys), packing_by_weight);
}

/* Places the blocks in the order of the keys, until one ends at the limit or above. */
static int packing_run(struct gp_packing *p, const struct pack_key *keys, uint64_t limit,
		       uint64_t *height)
{
	uint64_t top = 0;
	uint32_t i;

	memset(p->latest, 0, 2 * (size_t)p->width * sizeof(*p->latest));
	for (i = 0; i < p->n && top < limit; i++) {
		if (i % POLL_BLOCKS == 0 && p->expired && p->expired(p->expired_arg))
			break;
		top = gp_max_u64(top, packing_place(p, keys[i].index));
	}
	*height = top;
	return i == p->n && top < limit ? 0 : GP_NOMEM;
}

int gp_packing_greedy(struct gp_packing *p, enum gp_pack_order order, uint64_t limit,
		      uint64_t *height)
{
	struct pack_key *keys = calloc(p->n + UINT64_C(1), sizeof(*keys));
	int r;

	if (!keys)
		return -ENOMEM;
	packing_weigh(p, order, keys);
	r = packing_run(p, keys, limit, height);
	free(keys);
	return r;
}

/* ---- improvement ---- */

/* 0 .. 1; xorshift64 (G. Marsaglia, 2003). */
static double packing_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return (double)(*seed >> 11) * 0x1p-53;
}

/* Weights become places in the order, so that a move is by so many places. */
static void packing_rank(const struct gp_packing *p, struct pack_key *keys)
{
	for (uint32_t i = 0; i < p->n; i++)
		keys[i].weight = p->n - i;
}

/* Moves the blocks that reach above `limit` forward, and one in 200 of the others about. */
static void packing_shuffle(const struct gp_packing *p, struct pack_key *keys, uint64_t limit,
			    uint64_t *seed)
{
	for (uint32_t i = 0; i < p->n; i++) {
		const struct gp_pack_block *b = &p->blocks[keys[i].index];

		if (b->offset + b->size >= limit)
			keys[i].weight += p->n * (0.02 + 0.2 * packing_random(seed));
		else if (packing_random(seed) < 0.005)
			keys[i].weight += p->n * (0.2 * packing_random(seed) - 0.1);
	}
	qsort(keys, p->n, sizeof(*keys), packing_by_weight);
}

/* The state of an improvement: the order at hand, the best one, and its placement. */
struct pack_improvement {
	struct pack_key *keys, *best;
	uint64_t *offsets;
	uint64_t seed;
};

static int packing_improve(struct gp_packing *p, struct pack_improvement *m, uint64_t *height)
{
	uint64_t top;
	int r = GP_NOMEM;

	for (unsigned round = 1; *height > p->bound; round++) {
		if (packing_run(p, m->keys, UINT64_MAX, &top))
			break;
		if (top < *height) {
			*height = top;
			r = 0;
			memcpy(m->best, m->keys, p->n * sizeof(*m->best));
			for (uint32_t i = 0; i < p->n; i++)
				m->offsets[i] = p->blocks[i].offset;
		}
		if (round % 64 == 0) {
			memcpy(m->keys, m->best, p->n * sizeof(*m->best));
			packing_rank(p, m->keys);
		}
		packing_shuffle(p, m->keys, *height, &m->seed);
	}
	for (uint32_t i = 0; !r && i < p->n; i++)
		p->blocks[i].offset = m->offsets[i];
	return r;
}

int gp_packing_improve(struct gp_packing *p, enum gp_pack_order order, uint64_t *height)
{
	size_t n = p->n + UINT64_C(1);
	struct pack_improvement m = {
		.keys = calloc(n, sizeof(*m.keys)),
		.best = calloc(n, sizeof(*m.best)),
		.offsets = calloc(n, sizeof(*m.offsets)),
		.seed = 1,
	};
	int r = -ENOMEM;

	if (m.keys && m.best && m.offsets) {
		packing_weigh(p, order, m.keys);
		packing_rank(p, m.keys);
		memcpy(m.best, m.keys, p->n * sizeof(*m.best));
		r = packing_improve(p, &m, height);
	}
	free(m.keys);
	free(m.best);
	free(m.offsets);
	return r;
}
