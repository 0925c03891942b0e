/* SPDX-License-Identifier: Apache-2.0
 *
 * id_map: see id_map.h.
 */
#include "id_map.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ID_MAP_LG_MIN 6u

void gp_id_map_init(struct gp_id_map *m)
{
	memset(m, 0, sizeof(*m));
}

void gp_id_map_fini(struct gp_id_map *m)
{
	free(m->keys);
	free(m->values);
	memset(m, 0, sizeof(*m));
}

/* The finaliser of splitmix64: every bit of the key reaches every bit of the slot number. */
static size_t id_map_hash(const struct gp_id_map *m, uint64_t key)
{
	key += m->seed;
	key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	key = (key ^ (key >> 27)) * UINT64_C(0x94d049bb133111eb);
	key ^= key >> 31;
	return (size_t)(key >> (64 - m->lg_slots));
}

/* The slot that holds the key, or the empty one where it belongs. */
static size_t id_map_slot(const struct gp_id_map *m, uint64_t key)
{
	size_t mask = ((size_t)1 << m->lg_slots) - 1;
	size_t i = id_map_hash(m, key);

	while (m->values[i] != GP_ID_MAP_NONE && m->keys[i] != key)
		i = (i + 1) & mask;
	return i;
}

uint32_t gp_id_map_find(const struct gp_id_map *m, uint64_t key)
{
	return m->n ? m->values[id_map_slot(m, key)] : GP_ID_MAP_NONE;
}

static int id_map_grow(struct gp_id_map *m)
{
	struct gp_id_map next = { .lg_slots = m->keys ? m->lg_slots + 1 : ID_MAP_LG_MIN,
				  .n = m->n };
	size_t n_slots = (size_t)1 << next.lg_slots;

	next.keys = malloc(n_slots * sizeof(*next.keys));
	next.values = malloc(n_slots * sizeof(*next.values));
	if (!next.keys || !next.values) {
		free(next.keys);
		free(next.values);
		return -ENOMEM;
	}
	next.seed = (uint64_t)(uintptr_t)m * UINT64_C(0x9e3779b97f4a7c15);
	memset(next.values, 0xff, n_slots * sizeof(*next.values)); /* GP_ID_MAP_NONE everywhere */
	for (size_t i = 0; m->keys && i < (size_t)1 << m->lg_slots; i++) {
		if (m->values[i] != GP_ID_MAP_NONE) {
			size_t to = id_map_slot(&next, m->keys[i]);

			next.keys[to] = m->keys[i];
			next.values[to] = m->values[i];
		}
	}
	free(m->keys);
	free(m->values);
	*m = next;
	return 0;
}

int gp_id_map_put(struct gp_id_map *m, uint64_t key, uint32_t value)
{
	size_t i;

	assert(value != GP_ID_MAP_NONE);
	if (!m->keys || m->n >= ((size_t)3 << m->lg_slots) / 4) {
		int r = id_map_grow(m);

		if (r)
			return r;
	}
	i = id_map_slot(m, key);
	if (m->values[i] == GP_ID_MAP_NONE) {
		m->keys[i] = key;
		m->n++;
	}
	m->values[i] = value;
	return 0;
}
