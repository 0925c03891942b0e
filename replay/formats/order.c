/* SPDX-License-Identifier: Apache-2.0
 *
 * order: see order.h.
 *
 * Shape       least significant digit first; each pass is stable, and so is the whole. Digits that
 *             all keys share (the high ones of times of day) take no pass.
 */
#include "order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ORDER_BITS   16u
#define ORDER_DIGITS (1u << ORDER_BITS)

static uint32_t order_digit(uint64_t key, unsigned shift)
{
	return (uint32_t)(key >> shift) & (ORDER_DIGITS - 1);
}

/* from -> to, by one digit. `at` has a place per digit. */
static void order_pass(const uint64_t *keys, uint32_t n, unsigned shift, const uint32_t *from,
		       uint32_t *to, uint32_t *at)
{
	uint32_t sum = 0;

	memset(at, 0, ORDER_DIGITS * sizeof(*at));
	for (uint32_t i = 0; i < n; i++)
		at[order_digit(keys[i], shift)]++;
	for (uint32_t d = 0; d < ORDER_DIGITS; d++) {
		uint32_t count = at[d];

		at[d] = sum;
		sum += count;
	}
	for (uint32_t i = 0; i < n; i++)
		to[at[order_digit(keys[from[i]], shift)]++] = from[i];
}

int gp_order_by(const uint64_t *keys, uint32_t n, uint32_t *order)
{
	uint32_t *other, *at;
	uint64_t differ = 0;
	bool sorted = true;

	for (uint32_t i = 0; i < n; i++) {
		order[i] = i;
		differ |= keys[i] ^ keys[0];
		sorted = sorted && (!i || keys[i - 1] <= keys[i]);
	}
	if (sorted)
		return 0;
	other = malloc(n * sizeof(*other));
	at = malloc(ORDER_DIGITS * sizeof(*at));
	if (!other || !at) {
		free(other);
		free(at);
		return -ENOMEM;
	}
	for (unsigned shift = 0; shift < 64; shift += ORDER_BITS) {
		if (!order_digit(differ, shift))
			continue;
		order_pass(keys, n, shift, order, other, at);
		memcpy(order, other, n * sizeof(*order));
	}
	free(other);
	free(at);
	return 0;
}
