/* SPDX-License-Identifier: Apache-2.0
 *
 * magazine: one thread's cache of free blocks: LIFO lists by stream and size class. Made for
 * wrap_threads.c, after J. Bonwick and J. Adams, "Magazines and Vmem", USENIX 2001, section 3.
 *
 * Threads   a cache has a lock that is uncontended but when another thread takes the blocks back;
 *           every function but create and destroy is called with it held
 * Cost      lock and unlock: one exchange; push, pop: the block's entry and the magazine
 */
#ifndef GP_MAGAZINE_H
#define GP_MAGAZINE_H

#include <sched.h>

#include "block_table.h"

/* Size classes: 256 bytes, then four per doubling. */
#define GP_MAGAZINE_CLASSES_MAX 256 /* more than GP_SIZE_MAX needs */

struct gp_magazine {
	struct gp_block_entry *head;
	uint32_t n;
	uint32_t batch; /* blocks to fetch on the next miss */
};

struct gp_thread_cache {
	_Alignas(GP_CACHE_LINE) atomic_flag lock;
	unsigned n_classes;
	uint32_t n_streams;
	struct gp_magazine **magazines; /* [stream][class]; NULL until the stream is used */
	/* Read without the lock for totals. */
	_Atomic uint64_t bytes;
	_Atomic uint64_t blocks;
};

struct gp_thread_cache *gp_thread_cache_create(unsigned n_classes);
/* Forgets the blocks. NULL is fine. Returns NULL. */
struct gp_thread_cache *gp_thread_cache_destroy(struct gp_thread_cache *c);

/* NULL: no host memory. Made when not there. */
struct gp_magazine *gp_thread_cache_make(struct gp_thread_cache *c, uint32_t stream,
					 unsigned class);
/* Takes all but the `keep` latest blocks out and puts them in front of `list`, linked by .next. */
struct gp_block_entry *gp_thread_cache_cut(struct gp_thread_cache *c, struct gp_magazine *m,
					   uint32_t keep, struct gp_block_entry *list);
struct gp_block_entry *gp_thread_cache_cut_all(struct gp_thread_cache *c,
					       struct gp_block_entry *list);
/* Every block cached, of its magazine's stream and class and in the table; totals right. */
bool gp_thread_cache_audit(struct gp_thread_cache *c, const struct gp_block_table *table);

static inline unsigned gp_magazine_class(uint64_t size)
{
	uint64_t x = size - 1;
	unsigned lg;

	if (size <= GP_ALIGN)
		return 0;
	lg = gp_floor_log2(x);
	return (lg - 8) * 4 + (unsigned)((x >> (lg - 2)) & 3) + 1;
}

/* The largest size in the class. */
static inline uint64_t gp_magazine_class_size(unsigned class)
{
	return class ? (uint64_t)(5 + (class - 1) % 4) << (6 + (class - 1) / 4) : GP_ALIGN;
}

/* The largest class all of whose requests a block of this size can serve; 0 when none is. */
static inline unsigned gp_magazine_class_below(uint64_t granted)
{
	unsigned class = gp_magazine_class(granted);

	return class && gp_magazine_class_size(class) > granted ? class - 1 : class;
}

static inline void gp_thread_cache_lock(struct gp_thread_cache *c)
{
	unsigned spins = 0;

	while (GP_UNLIKELY(atomic_flag_test_and_set_explicit(&c->lock, memory_order_acquire))) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
		/* The holder may have lost its processor: let it run. */
		if (++spins % 64 == 0)
			sched_yield();
	}
}

static inline void gp_thread_cache_unlock(struct gp_thread_cache *c)
{
	atomic_flag_clear_explicit(&c->lock, memory_order_release);
}

/* Unsigned arithmetic wraps: negative differences are passed negated. */
static inline void gp_thread_cache_count(struct gp_thread_cache *c, uint64_t bytes, uint64_t blocks)
{
	uint64_t b = atomic_load_explicit(&c->bytes, memory_order_relaxed);
	uint64_t n = atomic_load_explicit(&c->blocks, memory_order_relaxed);

	atomic_store_explicit(&c->bytes, b + bytes, memory_order_relaxed);
	atomic_store_explicit(&c->blocks, n + blocks, memory_order_relaxed);
}

static inline bool gp_thread_cache_knows(const struct gp_thread_cache *c, uint32_t stream)
{
	return stream < c->n_streams && c->magazines[stream];
}

static inline struct gp_magazine *gp_thread_cache_at(struct gp_thread_cache *c, uint32_t stream,
						     unsigned class)
{
	return GP_LIKELY(gp_thread_cache_knows(c, stream)) ? &c->magazines[stream][class]
							   : gp_thread_cache_make(c, stream, class);
}

static inline void gp_thread_cache_push(struct gp_thread_cache *c, struct gp_magazine *m,
					struct gp_block_entry *e)
{
	e->next = m->head;
	m->head = e;
	m->n++;
	gp_thread_cache_count(c, e->granted, 1);
}

/* NULL when the latest block is none or smaller than `size`. */
static inline struct gp_block_entry *gp_thread_cache_pop(struct gp_thread_cache *c,
							 struct gp_magazine *m, uint64_t size)
{
	struct gp_block_entry *e = m->head;

	if (!e || e->granted < size)
		return NULL;
	m->head = e->next;
	m->n--;
	gp_thread_cache_count(c, -e->granted, -UINT64_C(1));
	return e;
}

#endif
