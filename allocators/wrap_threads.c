/* SPDX-License-Identifier: Apache-2.0
 *
 * threads: makes a single-threaded allocator safe and fast under many threads. Decorator; the core
 * puts it on top by itself when env.threads > 1.
 *
 * Shape        per thread: magazines (magazine.h) of free blocks that the inner allocator still
 *              counts as handed out; for all: one lock over the inner allocator, and a table
 *              (block_table.h) of every block that may be cached. Larger and over-aligned blocks
 *              pass straight through.
 *
 *                alloc   pop from the own magazine       else, under the lock, fetch a batch
 *                free    find the entry, claim it, push  a full magazine gives its colder half
 *                        on the own magazine             back under the lock
 *
 * Invariants   1. the table and the inner allocator change only under the lock
 *              2. a magazine holds blocks of one stream: reuse never crosses streams here
 *              3. locks nest: inner lock > one cache's lock
 *              4. before out-of-memory is reported every cache has been given back, and no block
 *                 is outside both cache and inner allocator but in the hand of a call under way
 * Cost         a hit: one exchange for alloc, two for free, and no line that others write but the
 *              block's own entry. Batches start at one block and double up to BATCH_BYTES, so a
 *              size that is used once is not fetched twice.
 * Waste        requests round up to a class (four per doubling, < 25 %) where the inner allocator
 *              agrees; at most `bytes` cached per thread
 * Not done     giving a cache back when its thread ends: the next thread whose number is the same
 *              modulo env.threads inherits it. The calling thread counts, not req->thread, for a
 *              free does not name one.
 * Threads      any number; more than env.threads share caches
 */
#include "allocator.h"
#include "magazine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CACHES_MAX  1024           /* threads with a cache of their own                */
#define STREAMS_MAX 4096           /* streams with magazines; blocks of others pass by */
#define BATCH_BYTES (256 * GP_KIB) /* at most so much is fetched at once, and ...      */
#define BATCH_MAX   32             /* ... so many blocks                               */

struct threads {
	/* Options. */
	uint64_t max_bytes;  /* cached per thread */
	uint64_t max_blocks; /* in one magazine   */

	struct gp_allocator *inner;
	uint64_t id;         /* of this instance; never used again   */
	uint64_t max_cached; /* bytes: larger blocks are not cached  */
	unsigned n_classes, n_caches;
	/* The class whose magazine holds what the inner allocator gives for this one's requests. */
	_Atomic uint8_t route[GP_MAGAZINE_CLASSES_MAX];
	struct gp_thread_cache *_Atomic *caches;
	struct gp_block_table table;
	pthread_mutex_t lock;
};

/* ---- which cache is mine ---- */

static _Atomic uint64_t threads_instances;
static _Atomic unsigned threads_seen;

/* What the calling thread used last. An instance's id is never used again, so the cache of one
 * that is gone is never mistaken for this one's. */
static _Thread_local struct {
	uint64_t id;
	struct gp_thread_cache *cache;
	unsigned number; /* of this thread, from 1 */
} mine;

static GP_NOINLINE struct gp_thread_cache *threads_bind(struct threads *t)
{
	struct gp_thread_cache *c, *other = NULL;
	unsigned i;

	if (!mine.number)
		mine.number = atomic_fetch_add(&threads_seen, 1) + 1;
	i = mine.number % t->n_caches;
	c = atomic_load(&t->caches[i]);
	if (!c) {
		c = gp_thread_cache_create(t->n_classes);
		if (!c)
			return NULL;
		if (!atomic_compare_exchange_strong(&t->caches[i], &other, c)) {
			gp_thread_cache_destroy(c);
			c = other;
		}
	}
	mine.id = t->id;
	mine.cache = c;
	return c;
}

static inline struct gp_thread_cache *threads_mine(struct threads *t)
{
	return GP_LIKELY(mine.id == t->id) ? mine.cache : threads_bind(t);
}

/* ---- between the caches and the inner allocator; under the lock ---- */

/* Passes the inner allocator's words on with its fault. */
static int threads_result(struct gp_allocator *a, int r)
{
	if (r < 0 && a->inner->why[0])
		memcpy(a->why, a->inner->why, sizeof(a->why));
	return r;
}

/* Frees a list of cached blocks; the first fault counts, the rest is freed all the same. */
static int threads_give_back(struct threads *t, struct gp_block_entry *list)
{
	int first = 0;

	while (list) {
		struct gp_block_entry *e = list;
		uint64_t addr = gp_block_addr(e);
		int r;

		list = e->next;
		gp_block_table_remove(&t->table, e);
		r = t->inner->ops->free(t->inner, addr);
		if (r && !first)
			first = r;
	}
	return first;
}

/* Empties every cache. *blocks: how many were cached. */
static int threads_drain(struct threads *t, uint64_t *blocks)
{
	struct gp_block_entry *list = NULL;

	*blocks = 0;
	for (unsigned i = 0; i < t->n_caches; i++) {
		struct gp_thread_cache *c = atomic_load(&t->caches[i]);

		if (!c)
			continue;
		gp_thread_cache_lock(c);
		*blocks += atomic_load_explicit(&c->blocks, memory_order_relaxed);
		list = gp_thread_cache_cut_all(c, list);
		gp_thread_cache_unlock(c);
	}
	return threads_give_back(t, list);
}

/* A block from the inner allocator; what the caches hold is given back before it says no. */
static int threads_inner_alloc(struct threads *t, const struct gp_request *req,
			       struct gp_block *out)
{
	int r = t->inner->ops->alloc(t->inner, req, out), fault;
	uint64_t blocks;

	if (r != GP_NOMEM && r != GP_HELD)
		return r;
	fault = threads_drain(t, &blocks);
	if (fault)
		return fault;
	return blocks ? t->inner->ops->alloc(t->inner, req, out) : r;
}

static unsigned threads_class_of_block(const struct threads *t, uint64_t granted)
{
	unsigned class = gp_magazine_class_below(granted);

	return class < t->n_classes ? class : t->n_classes - 1;
}

/* The first block of a miss: as large as the class, or, where that does not come, as asked; *ask
 * becomes what was granted. Out of memory for the rounded size alone says nothing about where the
 * next block of the class will be kept. */
static int threads_first(struct threads *t, const struct gp_request *req, struct gp_request *ask,
			 struct gp_block *out)
{
	unsigned class = gp_magazine_class(req->size);
	bool exact_is_rule = false;
	int r;

	*ask = *req;
	ask->size = gp_magazine_class_size(class);
	r = t->inner->ops->alloc(t->inner, ask, out);
	if (r > 0) {
		exact_is_rule = r == GP_REFUSED;
		*ask = *req;
		r = threads_inner_alloc(t, ask, out);
	}
	if (!r && (ask->size != req->size || exact_is_rule))
		atomic_store_explicit(&t->route[class],
				      (uint8_t)threads_class_of_block(t, out->granted),
				      memory_order_relaxed);
	return r;
}

static struct gp_block_entry *threads_enter(struct threads *t, const struct gp_block *block,
					    uint32_t stream)
{
	struct gp_block_entry *e;

	e = gp_block_table_enter(&t->table, block->addr, block->granted);
	if (e) {
		e->stream = stream;
		e->class = threads_class_of_block(t, block->granted);
	}
	return e;
}

/* Up to n more blocks for the cache, while they come. */
static int threads_stock(struct threads *t, struct gp_thread_cache *c, const struct gp_request *ask,
			 uint64_t n)
{
	while (n-- > 0) {
		struct gp_block block;
		struct gp_magazine *m;
		struct gp_block_entry *e;
		int r = t->inner->ops->alloc(t->inner, ask, &block);

		if (r)
			return r < 0 ? r : 0;
		e = threads_enter(t, &block, ask->stream);
		if (!e)
			return t->inner->ops->free(t->inner, block.addr);
		gp_thread_cache_lock(c);
		m = gp_thread_cache_at(c, e->stream, e->class);
		if (m)
			gp_thread_cache_push(c, m, e);
		gp_thread_cache_unlock(c);
		if (!m)
			return threads_give_back(t, e);
	}
	return 0;
}

/* How many blocks of this kind a miss may fetch beyond the one asked for. */
static uint64_t threads_batch(struct threads *t, struct gp_thread_cache *c, uint32_t stream,
			      uint64_t granted)
{
	struct gp_magazine *m;
	uint64_t n = 0, room;

	gp_thread_cache_lock(c);
	m = gp_thread_cache_at(c, stream, threads_class_of_block(t, granted));
	room = t->max_bytes - gp_min_u64(t->max_bytes, c->bytes);
	if (m && m->n < t->max_blocks) {
		n = gp_min_u64(m->batch, t->max_blocks - m->n);
		m->batch = m->batch ? (uint32_t)gp_min_u64(m->batch * 2u, BATCH_MAX) : 1;
	}
	gp_thread_cache_unlock(c);
	return gp_min_u64(n, gp_min_u64(room, BATCH_BYTES) / granted);
}

static GP_NOINLINE int threads_miss(struct gp_allocator *a, struct gp_thread_cache *c,
				    const struct gp_request *req, struct gp_block *out)
{
	struct threads *t = gp_state(a);
	struct gp_block_entry *e;
	struct gp_request ask;
	struct gp_block block;
	int r;

	pthread_mutex_lock(&t->lock);
	r = threads_first(t, req, &ask, &block);
	if (!r) {
		/* A block without an entry is one that is not cached. That a bonus block did not
		 * come is not this request's failure; a fault shows again at the next miss. */
		e = threads_enter(t, &block, req->stream);
		if (e)
			gp_block_hand_out(e);
		threads_stock(t, c, &ask, threads_batch(t, c, req->stream, block.granted));
		*out = block;
	}
	threads_result(a, r);
	pthread_mutex_unlock(&t->lock);
	return r;
}

/* The cache is over its bounds: gives back the colder half of the magazine that grew, and all of
 * it when the cache as a whole is too large. The inner lock comes first, so that a thread which
 * runs out of memory meanwhile still finds the blocks in the cache. */
static GP_NOINLINE int threads_spill(struct gp_allocator *a, struct gp_thread_cache *c,
				     struct gp_magazine *m)
{
	struct threads *t = gp_state(a);
	struct gp_block_entry *list = NULL;
	int r;

	pthread_mutex_lock(&t->lock);
	gp_thread_cache_lock(c);
	if (m->n > t->max_blocks)
		list = gp_thread_cache_cut(c, m, (uint32_t)(t->max_blocks / 2), list);
	if (c->bytes > t->max_bytes)
		list = gp_thread_cache_cut_all(c, list);
	gp_thread_cache_unlock(c);
	r = threads_result(a, threads_give_back(t, list));
	pthread_mutex_unlock(&t->lock);
	return r;
}

/* A claimed block that no cache can take. */
static GP_NOINLINE int threads_pass_on(struct gp_allocator *a, struct gp_block_entry *e)
{
	struct threads *t = gp_state(a);
	int r;

	e->next = NULL;
	pthread_mutex_lock(&t->lock);
	r = threads_result(a, threads_give_back(t, e));
	pthread_mutex_unlock(&t->lock);
	return r;
}

/* A claimed block goes into the cache. Magazines stay where they are once made. */
static inline int threads_keep(struct gp_allocator *a, struct gp_block_entry *e)
{
	struct threads *t = gp_state(a);
	struct gp_thread_cache *c = threads_mine(t);
	struct gp_magazine *m;
	bool full = false;

	if (GP_UNLIKELY(!c))
		return threads_pass_on(a, e);
	gp_thread_cache_lock(c);
	m = gp_thread_cache_at(c, e->stream, e->class);
	if (GP_LIKELY(m)) {
		gp_thread_cache_push(c, m, e);
		full = m->n > t->max_blocks ||
		       atomic_load_explicit(&c->bytes, memory_order_relaxed) > t->max_bytes;
	}
	gp_thread_cache_unlock(c);
	if (GP_UNLIKELY(!m))
		return threads_pass_on(a, e);
	return GP_UNLIKELY(full) ? threads_spill(a, c, m) : 0;
}

/* ---- hooks ---- */

static GP_NOINLINE int threads_direct(struct gp_allocator *a, const struct gp_request *req,
				      struct gp_block *out)
{
	struct threads *t = gp_state(a);
	int r;

	pthread_mutex_lock(&t->lock);
	r = threads_result(a, threads_inner_alloc(t, req, out));
	pthread_mutex_unlock(&t->lock);
	return r;
}

static int threads_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct threads *t = gp_state(a);
	struct gp_block_entry *e = NULL;
	struct gp_thread_cache *c;
	unsigned class;

	if (GP_UNLIKELY(req->size > t->max_cached || req->lg_align > gp_floor_log2(GP_ALIGN) ||
			req->stream >= STREAMS_MAX))
		return threads_direct(a, req, out);
	c = threads_mine(t);
	if (GP_UNLIKELY(!c))
		return -ENOMEM;
	class = atomic_load_explicit(&t->route[gp_magazine_class(req->size)], memory_order_relaxed);
	gp_thread_cache_lock(c);
	if (GP_LIKELY(gp_thread_cache_knows(c, req->stream)))
		e = gp_thread_cache_pop(c, &c->magazines[req->stream][class], req->size);
	gp_thread_cache_unlock(c);
	if (GP_UNLIKELY(!e))
		return threads_miss(a, c, req, out);
	out->granted = e->granted;
	out->addr = gp_block_hand_out(e);
	return 0;
}

/* As far as could be seen without the lock, not a live block of the table's. */
static GP_NOINLINE int threads_free_slow(struct gp_allocator *a, uint64_t addr)
{
	struct threads *t = gp_state(a);
	struct gp_block_entry *e;
	int r;

	pthread_mutex_lock(&t->lock);
	e = gp_block_table_find(&t->table, addr);
	if (!e)
		r = threads_result(a, t->inner->ops->free(t->inner, addr));
	else
		r = gp_block_claim(e, addr) ? 0 : -EALREADY;
	pthread_mutex_unlock(&t->lock);
	return e && !r ? threads_keep(a, e) : r;
}

static int threads_free(struct gp_allocator *a, uint64_t addr)
{
	struct threads *t = gp_state(a);
	struct gp_block_entry *e = gp_block_table_find(&t->table, addr);

	if (GP_LIKELY(e && gp_block_claim(e, addr)))
		return threads_keep(a, e);
	return threads_free_slow(a, addr);
}

static void threads_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	struct threads *t = gp_state(a);
	uint64_t bytes = 0, blocks = 0;

	pthread_mutex_lock(&t->lock);
	gp_usage(t->inner, out);
	for (unsigned i = 0; i < t->n_caches; i++) {
		struct gp_thread_cache *c = atomic_load(&t->caches[i]);

		if (c) {
			bytes += atomic_load_explicit(&c->bytes, memory_order_relaxed);
			blocks += atomic_load_explicit(&c->blocks, memory_order_relaxed);
		}
	}
	pthread_mutex_unlock(&t->lock);
	/* Others move blocks between these readings: exact when no other call is under way. */
	out->granted_bytes -= gp_min_u64(bytes, out->granted_bytes);
	out->live_blocks -= gp_min_u64(blocks, out->live_blocks);
}

static int threads_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct threads *t = gp_state(a);
	uint64_t blocks;
	int drained, r;

	pthread_mutex_lock(&t->lock);
	drained = threads_drain(t, &blocks);
	r = gp_trim(t->inner, keep, released);
	r = threads_result(a, drained ? drained : r);
	pthread_mutex_unlock(&t->lock);
	return r;
}

static int threads_check(const struct gp_allocator *a, FILE *why)
{
	struct threads *t = gp_state(a);
	int r;

	pthread_mutex_lock(&t->lock);
	r = gp_check(t->inner, why);
	for (unsigned i = 0; i < t->n_caches && !r; i++) {
		struct gp_thread_cache *c = atomic_load(&t->caches[i]);

		if (!c)
			continue;
		gp_thread_cache_lock(c);
		if (!gp_thread_cache_audit(c, &t->table)) {
			fprintf(why, "threads: cache %u is damaged\n", i);
			r = -EILSEQ;
		}
		gp_thread_cache_unlock(c);
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

struct threads_walk {
	struct threads *t;
	gp_walk_fn *fn;
	void *arg;
};

/* What the inner allocator calls live may be cached here, which makes it a hole. */
static int threads_walk_range(void *arg, struct gp_range range, bool live)
{
	struct threads_walk *w = arg;
	struct gp_block_entry *e = live ? gp_block_table_find(&w->t->table, range.addr) : NULL;

	return w->fn(w->arg, range, e ? gp_block_state(e) == GP_BLOCK_LIVE : live);
}

static int threads_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	struct threads *t = gp_state(a);
	struct threads_walk w = { t, fn, arg };
	int r;

	pthread_mutex_lock(&t->lock);
	r = gp_walk(t->inner, threads_walk_range, &w);
	pthread_mutex_unlock(&t->lock);
	return r;
}

static int threads_init(struct gp_allocator *a)
{
	struct threads *t = gp_state(a);

	t->inner = a->inner;
	t->id = atomic_fetch_add(&threads_instances, 1) + 1;
	t->max_cached = gp_min_u64(gp_min_u64(a->inner->cache_max, t->max_bytes), GP_SIZE_MAX);
	t->n_classes = t->max_cached ? gp_magazine_class(t->max_cached) + 1 : 1;
	t->n_caches = (unsigned)gp_min_u64(a->env.threads ? a->env.threads : 1, CACHES_MAX);
	for (unsigned i = 0; i < GP_MAGAZINE_CLASSES_MAX; i++)
		atomic_init(&t->route[i], (uint8_t)i);
	t->caches = calloc(t->n_caches, sizeof(*t->caches));
	if (!t->caches)
		return -ENOMEM;
	if (gp_block_table_init(&t->table)) {
		free(t->caches);
		return -ENOMEM;
	}
	pthread_mutex_init(&t->lock, NULL);
	return 0;
}

/* The inner allocator gives back what is cached along with what is live. */
static void threads_fini(struct gp_allocator *a)
{
	struct threads *t = gp_state(a);

	for (unsigned i = 0; i < t->n_caches; i++)
		gp_thread_cache_destroy(atomic_load(&t->caches[i]));
	free(t->caches);
	gp_block_table_fini(&t->table);
	pthread_mutex_destroy(&t->lock);
}

static const struct gp_option threads_options[] = {
	{ .name = "bytes",
	  .help = "most that one thread caches (0: nothing)",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct threads, max_bytes),
	  .default_text = "16M",
	  .max = GP_SIZE_MAX },
	{ .name = "blocks",
	  .help = "most blocks of one size and stream that one thread caches",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct threads, max_blocks),
	  .default_text = "64",
	  .min = 1,
	  .max = 65536 },
	{ 0 },
};

const struct gp_allocator_ops gp_threads_ops = {
	.name = "threads",
	.summary = "per-thread caches before one lock, over an allocator for one thread",
	.caps = GP_CAP_DECORATOR | GP_CAP_CONCURRENT,
	.state_size = sizeof(struct threads),
	.options = threads_options,
	.init = threads_init,
	.fini = threads_fini,
	.alloc = threads_alloc,
	.free = threads_free,
	.usage = threads_usage,
	.check = threads_check,
	.trim = threads_trim,
	.walk = threads_walk,
};
