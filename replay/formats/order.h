/* SPDX-License-Identifier: Apache-2.0
 *
 * order: the order of recorded events by time, where a file does not keep it.
 *
 * Cost        O(n) per 16 bits in which the keys differ (radix sort); nothing but one look at each
 *             when they are in order already. 16 bytes a key while it runs.
 * Threads     caller serialises.
 */
#ifndef GP_ORDER_H
#define GP_ORDER_H

#include "allocators/base.h"

/* order[k] becomes the place of the k-th smallest key; equal keys keep their order. 0 or -ENOMEM.
 */
int gp_order_by(const uint64_t *keys, uint32_t n, uint32_t *order);

#endif
