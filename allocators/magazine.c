/* SPDX-License-Identifier: Apache-2.0
 *
 * magazine: see magazine.h.
 */
#include "magazine.h"

#include <stdlib.h>
#include <string.h>

struct gp_thread_cache *gp_thread_cache_create(unsigned n_classes)
{
	struct gp_thread_cache *c = aligned_alloc(GP_CACHE_LINE, sizeof(*c));

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	atomic_flag_clear(&c->lock);
	c->n_classes = n_classes;
	return c;
}

struct gp_thread_cache *gp_thread_cache_destroy(struct gp_thread_cache *c)
{
	if (!c)
		return NULL;
	for (uint32_t s = 0; s < c->n_streams; s++)
		free(c->magazines[s]);
	free(c->magazines);
	free(c);
	return NULL;
}

struct gp_magazine *gp_thread_cache_make(struct gp_thread_cache *c, uint32_t stream, unsigned class)
{
	if (stream >= c->n_streams) {
		uint32_t n = stream + 1;
		struct gp_magazine **grown = realloc(c->magazines, n * sizeof(*grown));

		if (!grown)
			return NULL;
		memset(grown + c->n_streams, 0, (n - c->n_streams) * sizeof(*grown));
		c->magazines = grown;
		c->n_streams = n;
	}
	if (!c->magazines[stream])
		c->magazines[stream] = calloc(c->n_classes, sizeof(struct gp_magazine));
	return c->magazines[stream] ? &c->magazines[stream][class] : NULL;
}

struct gp_block_entry *gp_thread_cache_cut(struct gp_thread_cache *c, struct gp_magazine *m,
					   uint32_t keep, struct gp_block_entry *list)
{
	struct gp_block_entry **link = &m->head, *cut, *last = NULL;
	uint64_t bytes = 0;

	if (m->n <= keep)
		return list;
	for (uint32_t i = 0; i < keep; i++)
		link = &(*link)->next;
	cut = *link;
	*link = NULL;
	for (struct gp_block_entry *e = cut; e; e = e->next) {
		bytes += e->granted;
		last = e;
	}
	last->next = list;
	gp_thread_cache_count(c, -bytes, -(uint64_t)(m->n - keep));
	m->n = keep;
	return cut;
}

struct gp_block_entry *gp_thread_cache_cut_all(struct gp_thread_cache *c,
					       struct gp_block_entry *list)
{
	for (uint32_t s = 0; s < c->n_streams; s++)
		for (unsigned k = 0; c->magazines[s] && k < c->n_classes; k++)
			list = gp_thread_cache_cut(c, &c->magazines[s][k], 0, list);
	return list;
}

static bool magazine_audit(const struct gp_magazine *m, const struct gp_block_table *table,
			   uint32_t stream, unsigned class, uint64_t *bytes)
{
	uint32_t n = 0;

	for (struct gp_block_entry *e = m->head; e; e = e->next, n++) {
		if (n == m->n || gp_block_state(e) != GP_BLOCK_CACHED || e->stream != stream ||
		    e->class != class || gp_block_table_find(table, gp_block_addr(e)) != e)
			return false;
		*bytes += e->granted;
	}
	return n == m->n;
}

bool gp_thread_cache_audit(struct gp_thread_cache *c, const struct gp_block_table *table)
{
	uint64_t bytes = 0, blocks = 0;

	for (uint32_t s = 0; s < c->n_streams; s++)
		for (unsigned k = 0; c->magazines[s] && k < c->n_classes; k++) {
			if (!magazine_audit(&c->magazines[s][k], table, s, k, &bytes))
				return false;
			blocks += c->magazines[s][k].n;
		}
	return bytes == c->bytes && blocks == c->blocks;
}
