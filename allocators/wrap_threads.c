/* SPDX-License-Identifier: Apache-2.0
 *
 * threads: makes allocators for one thread safe and fast under many. Decorator; the core puts it
 * on top by itself when env.threads > 1.
 *
 * Shape        One arena for each thread: an instance of the inner allocator of its own, with a
 *              lock of its own that nobody else wants. A table says for each page of the address
 *              space whose blocks it holds.
 *
 *                alloc   in what the arena of req->thread holds; else, a large one, in what
 *                        another arena holds that has served the same stream; else the own one
 *                        grows. Out of memory: any arena; then all give back what they can, and
 *                        again
 *                free    look up the page, free in that arena, whichever thread calls
 *
 *              Allocators that are not made for it (GP_CAP_ARENAS: `raw`, whose lock is the
 *              driver's, and `torch`, whose one lock is what it models) and those that come with
 *              decorators on get one arena: a lock around them.
 * Invariants   1. one arena's lock is held at a time; below `pressing`. An inner allocator is
 *                 sparing but while its lock is held and it is to grow
 *              2. a live block's page says its arena, or PAGE_SHARED. Pages are shared where the
 *                 device cuts small reservations from one page, or gives a page that one arena
 *                 released to another; then the arenas are asked in turn, and those that do not
 *                 know the address refuse it
 *              3. out of memory is reported only after every arena was asked, had given back to
 *                 the device all that it could, and was asked again
 * Cost         one exchange, one byte of the table, and what the inner allocator costs alone; the
 *              lines touched are the thread's own. A block that another thread frees moves the
 *              lines of its arena's lock and lists to that thread and back.
 * Waste        threads on the same streams fill each other's holes before an arena grows: five
 *              recordings with their blocks dealt to 16 threads held 1.04 to 1.21 x load (hybrid,
 *              one arena: 1.01 to 1.08; without asking others: 1.5 to 2.5). Threads with streams
 *              of their own do not (each use of another's hole would make the GPU's streams wait
 *              for one another): they need what as many programs of one thread do, until the
 *              device is full. env.arenas bounds the number; 1 is the tightest and slowest.
 * Not done     moving a block from one arena to another; a list of remote frees, which would
 *              report a bad free too late
 * Threads      any number; those whose numbers are the same modulo the arenas share one
 */
#include "allocator.h"
#include "lazy.h"
#include "spin_lock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LINE         64 /* bytes of a cache line; the processor fetches them in pairs         */
#define LG_ADDRESSES 48 /* the table covers so many; blocks beyond are looked for in turn       */
/* For smaller requests an arena grows before others are asked: they are many, what it takes for them
 * is little, and measured on five recordings dealt to 16 threads it made no difference in memory. */
#define STEAL_ABOVE GP_MIB
#define PAGE_NONE   0
#define PAGE_SHARED 255

_Static_assert(GP_ARENAS_MAX < PAGE_SHARED, "an arena and two more values in a byte");

struct arena {
	_Alignas(2 * LINE) struct gp_spin_lock lock;
	struct gp_allocator *a;
	_Atomic uint64_t streams; /* bit: a stream, modulo 64, that it has served */
};

struct threads {
	unsigned n;
	unsigned lg_page;
	struct arena *arenas;
	_Atomic uint8_t *pages;   /* [address >> lg_page]: arena + 1; NULL with one arena */
	pthread_mutex_t pressing; /* one thread at a time takes from the others */
	pthread_mutex_t telling;  /* serialises a->why */
};

/* Passes the inner allocator's words on with its fault. */
static GP_NOINLINE int threads_fault(struct gp_allocator *a, struct arena *from, int r)
{
	struct threads *t = gp_state(a);
	char why[sizeof(a->why)];

	if (r >= 0)
		return r;
	gp_spin_lock(&from->lock);
	memcpy(why, from->a->why, sizeof(why));
	gp_spin_unlock(&from->lock);
	if (!why[0])
		return r;
	pthread_mutex_lock(&t->telling);
	memcpy(a->why, why, sizeof(why));
	pthread_mutex_unlock(&t->telling);
	return r;
}

/* ---- whose a block is ---- */

static GP_NOINLINE void threads_claim(_Atomic uint8_t *page, uint8_t own)
{
	uint8_t seen = atomic_load_explicit(page, memory_order_relaxed);

	while (seen != own && seen != PAGE_SHARED)
		if (atomic_compare_exchange_weak_explicit(
			    page, &seen, seen == PAGE_NONE ? own : (uint8_t)PAGE_SHARED,
			    memory_order_relaxed, memory_order_relaxed))
			return;
}

/* Before the block is the caller's: who frees it has got it from him, so no order is needed. */
static inline void threads_note(struct threads *t, const struct arena *owner, uint64_t addr)
{
	uint8_t own = (uint8_t)(owner - t->arenas + 1);
	_Atomic uint8_t *page;

	if (!t->pages || GP_UNLIKELY(addr >> LG_ADDRESSES))
		return;
	page = &t->pages[addr >> t->lg_page];
	if (GP_UNLIKELY(atomic_load_explicit(page, memory_order_relaxed) != own))
		threads_claim(page, own);
}

/* NULL: any may own it, or none. */
static inline struct arena *threads_owner(struct threads *t, uint64_t addr)
{
	uint8_t page;

	if (!t->pages)
		return t->arenas;
	if (GP_UNLIKELY(addr >> LG_ADDRESSES))
		return NULL;
	page = atomic_load_explicit(&t->pages[addr >> t->lg_page], memory_order_relaxed);
	return GP_LIKELY((uint8_t)(page - 1) < t->n) ? &t->arenas[page - 1] : NULL;
}

/* ---- one arena, under its lock ---- */

/* From what the arena holds, where there are several. */
static inline int threads_alloc_in(struct threads *t, struct arena *from,
				   const struct gp_request *req, struct gp_block *out)
{
	int r;

	gp_spin_lock(&from->lock);
	r = from->a->ops->alloc(from->a, req, out);
	gp_spin_unlock(&from->lock);
	if (GP_LIKELY(!r))
		threads_note(t, from, out->addr);
	return r;
}

/* The arena may grow. */
static int threads_grow_in(struct threads *t, struct arena *from, const struct gp_request *req,
			   struct gp_block *out)
{
	int r;

	gp_spin_lock(&from->lock);
	from->a->sparing = false;
	r = from->a->ops->alloc(from->a, req, out);
	from->a->sparing = t->n > 1;
	gp_spin_unlock(&from->lock);
	if (!r)
		threads_note(t, from, out->addr);
	return r;
}

static uint64_t threads_stream_bit(const struct gp_request *req)
{
	return UINT64_C(1) << (req->stream & 63);
}

static inline void threads_serve(struct arena *home, const struct gp_request *req)
{
	uint64_t bit = threads_stream_bit(req);

	if (GP_UNLIKELY(!(atomic_load_explicit(&home->streams, memory_order_relaxed) & bit)))
		atomic_fetch_or_explicit(&home->streams, bit, memory_order_relaxed);
}

static inline int threads_free_in(struct arena *owner, uint64_t addr)
{
	int r;

	gp_spin_lock(&owner->lock);
	r = owner->a->ops->free(owner->a, addr);
	gp_spin_unlock(&owner->lock);
	return r;
}

static uint64_t threads_reserved_in(struct arena *of)
{
	struct gp_usage usage;

	gp_spin_lock(&of->lock);
	gp_usage(of->a, &usage);
	gp_spin_unlock(&of->lock);
	return usage.reserved_bytes;
}

static int threads_trim_in(struct arena *of, uint64_t keep, uint64_t *released)
{
	int r;

	gp_spin_lock(&of->lock);
	r = gp_trim(of->a, keep, released);
	gp_spin_unlock(&of->lock);
	return r;
}

/* ---- when the own arena has nothing that fits ---- */

static struct arena *threads_after(struct threads *t, const struct arena *home, unsigned i)
{
	return &t->arenas[((unsigned)(home - t->arenas) + i) % t->n];
}

/* What another arena holds, of those that have served the stream. GP_NOMEM: none has it. */
static int threads_ask_others(struct gp_allocator *a, struct arena *home,
			      const struct gp_request *req, struct gp_block *out)
{
	struct threads *t = gp_state(a);

	for (unsigned i = 1; i < t->n; i++) {
		struct arena *from = threads_after(t, home, i);
		int r;

		if (!(atomic_load_explicit(&from->streams, memory_order_relaxed) &
		      threads_stream_bit(req)))
			continue;
		r = threads_alloc_in(t, from, req, out);
		if (r <= 0)
			return threads_fault(a, from, r);
	}
	return GP_NOMEM;
}

/* Asks every arena, which may grow; `home` first, whose answer it is when all say no. */
static int threads_grow_any(struct gp_allocator *a, struct arena *home,
			    const struct gp_request *req, struct gp_block *out)
{
	struct threads *t = gp_state(a);
	int first = 0;

	for (unsigned i = 0; i < t->n; i++) {
		struct arena *from = threads_after(t, home, i);
		int r = threads_grow_in(t, from, req, out);

		if (r <= 0)
			return threads_fault(a, from, r);
		if (!i)
			first = r;
	}
	return first;
}

static int threads_give_all_back(struct gp_allocator *a, uint64_t *released)
{
	struct threads *t = gp_state(a);
	int first = 0;

	for (unsigned i = 0; i < t->n; i++) {
		int r = threads_fault(a, &t->arenas[i],
				      threads_trim_in(&t->arenas[i], 0, released));

		if (r && !first)
			first = r;
	}
	return first;
}

/* The device has no more. One thread at a time, so that what one has had given back is not what
 * another waits for. */
static int threads_press(struct gp_allocator *a, struct arena *home, const struct gp_request *req,
			 struct gp_block *out)
{
	struct threads *t = gp_state(a);
	uint64_t released = 0;
	int r;

	pthread_mutex_lock(&t->pressing);
	r = threads_grow_any(a, home, req, out);
	if (r == GP_NOMEM || r == GP_HELD) {
		int fault = threads_give_all_back(a, &released);

		r = fault ? fault : threads_grow_any(a, home, req, out);
	}
	pthread_mutex_unlock(&t->pressing);
	return r;
}

/* The own arena has said no: r. */
static GP_NOINLINE int threads_miss(struct gp_allocator *a, struct arena *home,
				    const struct gp_request *req, struct gp_block *out, int r)
{
	struct threads *t = gp_state(a);

	if (r < 0 || t->n == 1)
		return threads_fault(a, home, r);
	r = req->size > STEAL_ABOVE ? threads_ask_others(a, home, req, out) : GP_NOMEM;
	if (r > 0)
		r = threads_fault(a, home, threads_grow_in(t, home, req, out));
	return r > 0 ? threads_press(a, home, req, out) : r;
}

/* ---- hooks ---- */

static int threads_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct threads *t = gp_state(a);
	unsigned i = req->thread;
	struct arena *home = &t->arenas[GP_LIKELY(i < t->n) ? i : i % t->n];
	int r;

	threads_serve(home, req);
	r = threads_alloc_in(t, home, req, out);
	return GP_LIKELY(!r) ? 0 : threads_miss(a, home, req, out, r);
}

/* Somebody's or nobody's. */
static GP_NOINLINE int threads_free_shared(struct gp_allocator *a, uint64_t addr)
{
	struct threads *t = gp_state(a);
	int r = -EINVAL;

	for (unsigned i = 0; i < t->n && r == -EINVAL; i++)
		r = threads_fault(a, &t->arenas[i], threads_free_in(&t->arenas[i], addr));
	return r;
}

static int threads_free(struct gp_allocator *a, uint64_t addr)
{
	struct arena *owner = threads_owner(gp_state(a), addr);
	int r;

	if (GP_UNLIKELY(!owner))
		return threads_free_shared(a, addr);
	r = threads_free_in(owner, addr);
	return GP_LIKELY(!r) ? 0 : threads_fault(a, owner, r);
}

/* Exact when no other call is under way. */
static void threads_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	struct threads *t = gp_state(a);

	*out = (struct gp_usage){ 0 };
	for (unsigned i = 0; i < t->n; i++) {
		struct gp_usage usage;

		gp_spin_lock(&t->arenas[i].lock);
		gp_usage(t->arenas[i].a, &usage);
		gp_spin_unlock(&t->arenas[i].lock);
		out->live_blocks += usage.live_blocks;
		out->granted_bytes += usage.granted_bytes;
		out->reserved_bytes += usage.reserved_bytes;
		out->event_waits += usage.event_waits;
	}
}

/* Each arena may keep what `keep` leaves over after all others. */
static int threads_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct threads *t = gp_state(a);
	uint64_t all = 0;
	int first = 0;

	for (unsigned i = 0; i < t->n; i++)
		all += threads_reserved_in(&t->arenas[i]);
	for (unsigned i = 0; i < t->n; i++) {
		struct arena *of = &t->arenas[i];
		uint64_t own = threads_reserved_in(of), others = all - gp_min_u64(all, own);
		int r = threads_fault(
			a, of, threads_trim_in(of, keep > others ? keep - others : 0, released));

		all = others + threads_reserved_in(of);
		if (r && !first)
			first = r;
	}
	return first;
}

static int threads_check(const struct gp_allocator *a, FILE *why)
{
	struct threads *t = gp_state(a);
	int r = 0;

	for (unsigned i = 0; i < t->n && !r; i++) {
		gp_spin_lock(&t->arenas[i].lock);
		r = gp_check(t->arenas[i].a, why);
		gp_spin_unlock(&t->arenas[i].lock);
	}
	return r;
}

static int threads_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	struct threads *t = gp_state(a);
	int r = 0;

	for (unsigned i = 0; i < t->n && !r; i++) {
		gp_spin_lock(&t->arenas[i].lock);
		r = gp_walk(t->arenas[i].a, fn, arg);
		gp_spin_unlock(&t->arenas[i].lock);
	}
	return r;
}

static size_t threads_n_pages(const struct threads *t)
{
	return (size_t)1 << (LG_ADDRESSES - t->lg_page);
}

/* The inner allocators, a->inner the first, come linked by .twin; the core owns them. */
static int threads_init(struct gp_allocator *a)
{
	struct threads *t = gp_state(a);
	unsigned n = 0;

	for (const struct gp_allocator *i = a->inner; i; i = i->twin)
		t->n++;
	t->lg_page = gp_floor_log2(a->dev->info.page_bytes);
	t->arenas = aligned_alloc(_Alignof(struct arena), t->n * sizeof(*t->arenas));
	if (t->arenas && t->n > 1)
		t->pages = gp_lazy_alloc(threads_n_pages(t));
	if (!t->arenas || (t->n > 1 && !t->pages)) {
		free(t->arenas);
		return -ENOMEM;
	}
	for (struct gp_allocator *i = a->inner; i; i = i->twin) {
		t->arenas[n++] = (struct arena){ .a = i };
		i->sparing = t->n > 1;
	}
	pthread_mutex_init(&t->pressing, NULL);
	pthread_mutex_init(&t->telling, NULL);
	return 0;
}

static void threads_fini(struct gp_allocator *a)
{
	struct threads *t = gp_state(a);

	if (t->pages)
		gp_lazy_free((void *)t->pages, threads_n_pages(t));
	free(t->arenas);
	pthread_mutex_destroy(&t->pressing);
	pthread_mutex_destroy(&t->telling);
}

const struct gp_allocator_ops gp_threads_ops = {
	.name = "threads",
	.summary = "an arena for each thread, each with its lock, over an allocator for one thread",
	.caps = GP_CAP_DECORATOR | GP_CAP_CONCURRENT,
	.state_size = sizeof(struct threads),
	.init = threads_init,
	.fini = threads_fini,
	.alloc = threads_alloc,
	.free = threads_free,
	.usage = threads_usage,
	.check = threads_check,
	.trim = threads_trim,
	.walk = threads_walk,
};
