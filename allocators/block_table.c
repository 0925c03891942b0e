/* SPDX-License-Identifier: Apache-2.0
 *
 * block_table: see block_table.h. Removing shifts later entries of the same run up into the gap
 * instead of leaving a tombstone, so a table that sees endless churn stays as it is; a search that
 * meets the shift half done misses at worst.
 */
#include "block_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MIN_LG     10
#define ENTRIES_PER_SLAB 256

struct gp_block_slab {
	struct gp_block_slab *next;
	struct gp_block_entry entries[ENTRIES_PER_SLAB];
};

static struct gp_block_slots *slots_create(unsigned lg, struct gp_block_slots *outgrown)
{
	struct gp_block_slots *s = calloc(1, sizeof(*s) + (sizeof(s->slot[0]) << lg));

	if (s) {
		s->lg = lg;
		s->outgrown = outgrown;
	}
	return s;
}

static void slots_put(struct gp_block_slots *s, uint64_t addr, struct gp_block_entry *e)
{
	size_t mask = ((size_t)1 << s->lg) - 1, i = gp_block_table_hash(s, addr);

	while (atomic_load_explicit(&s->slot[i].addr, memory_order_relaxed))
		i = (i + 1) & mask;
	atomic_store_explicit(&s->slot[i].entry, e, memory_order_release);
	atomic_store_explicit(&s->slot[i].addr, addr, memory_order_release);
}

int gp_block_table_init(struct gp_block_table *t)
{
	struct gp_block_slots *s = slots_create(TABLE_MIN_LG, NULL);

	memset(t, 0, sizeof(*t));
	atomic_init(&t->slots, s);
	return s ? 0 : -ENOMEM;
}

void gp_block_table_fini(struct gp_block_table *t)
{
	struct gp_block_slots *s = atomic_load(&t->slots);

	while (s) {
		struct gp_block_slots *outgrown = s->outgrown;

		free(s);
		s = outgrown;
	}
	while (t->slabs) {
		struct gp_block_slab *slab = t->slabs;

		t->slabs = slab->next;
		free(slab);
	}
}

/* Makes room for one more. A search for a block of the searcher's own finds it in the outgrown
 * table or in the new one, whichever it sees. */
static bool table_reserve(struct gp_block_table *t)
{
	struct gp_block_slots *old = atomic_load(&t->slots), *s;
	size_t n = (size_t)1 << old->lg;

	if (t->n + 1 <= n / 2)
		return true;
	s = slots_create(old->lg + 1, old);
	if (!s)
		return false;
	for (size_t i = 0; i < n; i++)
		if (old->slot[i].addr)
			slots_put(s, old->slot[i].addr, old->slot[i].entry);
	atomic_store_explicit(&t->slots, s, memory_order_release);
	return true;
}

static struct gp_block_entry *table_unused(struct gp_block_table *t)
{
	struct gp_block_slab *slab;

	if (t->unused)
		return t->unused;
	slab = aligned_alloc(GP_CACHE_LINE, sizeof(*slab));
	if (!slab)
		return NULL;
	memset(slab, 0, sizeof(*slab));
	slab->next = t->slabs;
	t->slabs = slab;
	for (size_t i = ENTRIES_PER_SLAB; i-- > 0;) {
		slab->entries[i].next = t->unused;
		t->unused = &slab->entries[i];
	}
	return t->unused;
}

struct gp_block_entry *gp_block_table_enter(struct gp_block_table *t, uint64_t addr,
					    uint64_t granted)
{
	struct gp_block_entry *e;

	if (!addr || addr & GP_BLOCK_STATE_MASK || !table_reserve(t))
		return NULL;
	e = table_unused(t);
	if (!e)
		return NULL;
	t->unused = e->next;
	e->granted = granted;
	e->next = NULL;
	atomic_store_explicit(&e->word, addr | GP_BLOCK_CACHED, memory_order_release);
	slots_put(atomic_load_explicit(&t->slots, memory_order_relaxed), addr, e);
	t->n++;
	return e;
}

void gp_block_table_remove(struct gp_block_table *t, struct gp_block_entry *e)
{
	struct gp_block_slots *s = atomic_load_explicit(&t->slots, memory_order_relaxed);
	size_t mask = ((size_t)1 << s->lg) - 1;
	size_t gap = gp_block_table_hash(s, gp_block_addr(e));

	while (s->slot[gap].entry != e)
		gap = (gap + 1) & mask;
	for (size_t i = (gap + 1) & mask;; i = (i + 1) & mask) {
		uint64_t moved = s->slot[i].addr;

		if (!moved)
			break;
		/* One whose search starts behind the gap must stay. */
		if (((i - gp_block_table_hash(s, moved)) & mask) < ((i - gap) & mask))
			continue;
		atomic_store_explicit(&s->slot[gap].entry, s->slot[i].entry, memory_order_release);
		atomic_store_explicit(&s->slot[gap].addr, moved, memory_order_release);
		gap = i;
	}
	atomic_store_explicit(&s->slot[gap].addr, 0, memory_order_release);
	atomic_store_explicit(&s->slot[gap].entry, NULL, memory_order_release);
	t->n--;
	atomic_store_explicit(&e->word, GP_BLOCK_UNUSED, memory_order_release);
	e->next = t->unused;
	t->unused = e;
}
