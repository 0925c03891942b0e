/* SPDX-License-Identifier: Apache-2.0
 *
 * id_map: 64-bit keys (block ids, addresses, stream handles of a file) to 32-bit values. Used while
 * a trace is read and freed before a clock starts.
 *
 * Shape       open addressing, linear probing, at most 3/4 full; keys and values in two arrays, so
 *             that a slot takes 12 bytes and not 16.
 * Cost        expected O(1); 16 to 32 bytes an entry.
 * Hostile     the hash is seeded with an address of this process, so that a file cannot be made of
 *             colliding ids beforehand.
 * Not done    removal: a reader needs to tell a freed id from one it never saw.
 * Threads     caller serialises.
 */
#ifndef GP_ID_MAP_H
#define GP_ID_MAP_H

#include "allocators/base.h"

#define GP_ID_MAP_NONE UINT32_MAX /* "not there"; no value may be this */

struct gp_id_map {
	uint64_t *keys;
	uint32_t *values; /* GP_ID_MAP_NONE: the slot is empty */
	unsigned lg_slots;
	uint32_t n; /* entries */
	uint64_t seed;
};

/* Takes no memory yet: a zeroed map is a valid empty one too. */
void gp_id_map_init(struct gp_id_map *m);
void gp_id_map_fini(struct gp_id_map *m);
uint32_t gp_id_map_find(const struct gp_id_map *m, uint64_t key);
/* Adds the key or changes its value. 0 or -ENOMEM. */
int gp_id_map_put(struct gp_id_map *m, uint64_t key, uint32_t value);

#endif
