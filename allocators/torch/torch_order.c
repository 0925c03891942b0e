/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_order: see torch_order.h. Trees are cut and joined from the top down, so that no block
 * needs a link to its parent.
 */
#include "torch_order.h"

#define LG_BINS 5 /* in each doubling */

/* Larger sizes never have a smaller bin. */
static unsigned order_bin(uint32_t units)
{
	unsigned lg;

	if (units < 1u << LG_BINS)
		return units;
	lg = gp_floor_log2(units);
	return ((lg - LG_BINS + 1) << LG_BINS) + (units >> (lg - LG_BINS)) - (1u << LG_BINS);
}

/* The next bin from `bin` on that holds something; TORCH_ORDER_BINS: none. */
static unsigned order_full(const struct torch_order *s, unsigned bin)
{
	unsigned w = bin / 64;
	uint64_t word, words;

	if (bin >= TORCH_ORDER_BINS)
		return TORCH_ORDER_BINS;
	word = s->full[w] & (UINT64_MAX << bin % 64);
	if (!word) {
		words = s->any & ~((UINT64_C(2) << w) - 1);
		if (!words)
			return TORCH_ORDER_BINS;
		w = gp_lowest_bit(words);
		word = s->full[w];
	}
	return w * 64 + gp_lowest_bit(word);
}

/* The last bin before `bin` that holds something; TORCH_ORDER_BINS: none. */
static unsigned order_full_before(const struct torch_order *s, unsigned bin)
{
	unsigned w = bin / 64;
	uint64_t word = s->full[w] & ((UINT64_C(1) << bin % 64) - 1), words;

	if (!word) {
		words = s->any & ((UINT64_C(1) << w) - 1);
		if (!words)
			return TORCH_ORDER_BINS;
		w = gp_floor_log2(words);
		word = s->full[w];
	}
	return w * 64 + gp_floor_log2(word);
}

static bool order_is_below(const struct torch_block *block, uint32_t units, uint64_t addr)
{
	return block->units < units || (block->units == units && block->addr < addr);
}

/* Numbers are dealt out in turn: the hash makes them look drawn at random. A bijection. */
static uint32_t order_rank(uint32_t n)
{
	n *= UINT32_C(0x9e3779b1);
	return n ^ n >> 15;
}

void torch_order_insert(struct torch_order *s, struct torch_block *blocks, uint32_t n)
{
	uint32_t units = blocks[n].units, rank = order_rank(n), at;
	uint64_t addr = blocks[n].addr;
	unsigned bin = order_bin(units);
	uint32_t *link = &s->root[bin], *left = &blocks[n].left, *right = &blocks[n].right;

	while (*link && order_rank(*link) > rank)
		link = order_is_below(&blocks[*link], units, addr) ? &blocks[*link].right
								   : &blocks[*link].left;
	at = *link;
	*link = n;
	while (at) {
		if (order_is_below(&blocks[at], units, addr)) {
			*left = at;
			left = &blocks[at].right;
			at = *left;
		} else {
			*right = at;
			right = &blocks[at].left;
			at = *right;
		}
	}
	*left = *right = TORCH_NIL;
	s->full[bin / 64] |= UINT64_C(1) << bin % 64;
	s->any |= UINT64_C(1) << bin / 64;
}

void torch_order_remove(struct torch_order *s, struct torch_block *blocks, uint32_t n)
{
	uint32_t units = blocks[n].units, left = blocks[n].left, right = blocks[n].right;
	uint64_t addr = blocks[n].addr;
	unsigned bin = order_bin(units);
	uint32_t *link = &s->root[bin];

	while (*link != n)
		link = order_is_below(&blocks[*link], units, addr) ? &blocks[*link].right
								   : &blocks[*link].left;
	while (left && right) {
		if (order_rank(left) > order_rank(right)) {
			*link = left;
			link = &blocks[left].right;
			left = *link;
		} else {
			*link = right;
			link = &blocks[right].left;
			right = *link;
		}
	}
	*link = left ? left : right;
	if (s->root[bin])
		return;
	s->full[bin / 64] &= ~(UINT64_C(1) << bin % 64);
	if (!s->full[bin / 64])
		s->any &= ~(UINT64_C(1) << bin / 64);
}

uint32_t torch_order_lower(const struct torch_order *s, const struct torch_block *blocks,
			   uint32_t units, uint64_t addr)
{
	unsigned bin = order_bin(units);
	uint32_t best = TORCH_NIL, at = s->root[bin];

	while (at) {
		if (order_is_below(&blocks[at], units, addr)) {
			at = blocks[at].right;
		} else {
			best = at;
			at = blocks[at].left;
		}
	}
	if (best)
		return best;
	bin = order_full(s, bin + 1);
	at = bin < TORCH_ORDER_BINS ? s->root[bin] : TORCH_NIL;
	for (; at; at = blocks[at].left)
		best = at;
	return best;
}

uint32_t torch_order_below(const struct torch_order *s, const struct torch_block *blocks,
			   uint32_t units, uint64_t addr)
{
	unsigned bin = order_bin(units);
	uint32_t best = TORCH_NIL, at = s->root[bin];

	while (at) {
		if (order_is_below(&blocks[at], units, addr)) {
			best = at;
			at = blocks[at].right;
		} else {
			at = blocks[at].left;
		}
	}
	if (best)
		return best;
	bin = order_full_before(s, bin);
	at = bin < TORCH_ORDER_BINS ? s->root[bin] : TORCH_NIL;
	for (; at; at = blocks[at].right)
		best = at;
	return best;
}

bool torch_order_holds(const struct torch_order *s, const struct torch_block *blocks, uint32_t n)
{
	return torch_order_lower(s, blocks, blocks[n].units, blocks[n].addr) == n;
}
