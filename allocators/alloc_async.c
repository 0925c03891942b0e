/* SPDX-License-Identifier: Apache-2.0
 *
 * async: the driver's own pool, cudaMallocAsync and cudaFreeAsync, behind the interface.
 *
 * Shape        one pool of the device (gp_device_async_*); the index only remembers streams and
 *              sizes, so that a free needs no more than the address, usage adds up and a foreign
 *              address is refused here, not by the driver
 *              retired  blocks left to the pool's helper stream, a ring in the order of their
 *                       numbers:   | over | in use | over | in use |
 *                                         ^ the pool is told of no more than this
 * Deferred     deferred=helper does what PyTorch's backend does with a block that several streams
 *              used: it is freed at once, on a stream that waits for all of them and on which nobody
 *              allocates. The driver gives such memory to other streams only once the helper is done
 *              with everything, so that a program of several streams can grow without end: 4.4 times
 *              its load in BASELINES. deferred=stream frees it on its own stream, when its last use
 *              is over. A synchronisation, which ends all uses, could with a threshold below max
 *              give memory back of which the program has not yet heard: deferred is `stream` then.
 * Invariants   index, sizes and totals agree; the pool counts what is live and not retired
 * Cost         0.3 to 0.6 us a call from a warm pool on an H200, 30 to 50 us for each 32 MiB that
 *              the pool grows by; here a hash of the address and a lock
 * Waste        internal: up to 511 bytes (the driver's granule); chunks of 32 MiB. Holes are joined
 *              but not stitched, and memory freed on a stream is that stream's for longer than one
 *              would like (sim_async.h)
 * Not known    on cuda, where the pool's memory lies: external fragmentation cannot be told
 * Threads      any number at once: the driver has its own lock, which is what is measured
 */
#include "addr_index.h"
#include "allocator.h"
#include "range_set.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What the driver's blocks are multiples of, and aligned to (sim_async.h). */
#define ASYNC_GRANULE UINT64_C(512)

enum async_deferred { ASYNC_HELPER, ASYNC_STREAM };

struct async_block {
	uint64_t addr; /* what the driver gave; the caller's is behind it where alignment asks so */
	uint64_t granted; /* of a place that is free: the next one + 1 */
	uint64_t asked;   /* of the driver */
	uint64_t retired; /* its number; 0: live */
	uint32_t stream;
};

struct async_retired {
	uint64_t addr; /* the caller's */
	uint32_t ticket;
	bool over;
};

struct async {
	char threshold[GP_OPTION_TEXT_MAX];
	bool follow_events, opportunistic, internal;
	unsigned deferred;

	struct gp_async *pool;
	pthread_mutex_t lock;
	struct gp_addr_index index; /* caller's address -> position in blocks */
	struct async_block *blocks;
	uint32_t n, cap, unused; /* positions used so far, allocated, first free + 1 */
	uint64_t live, granted_bytes, asked_bytes;

	struct async_retired *retired; /* [number & (cap - 1)] */
	uint64_t cap_retired;
	uint64_t first, last;       /* numbers in the ring: first <= number <= last */
	struct gp_range_set in_use; /* retired and not over, by the driver's address; tag: number */
};

/* ---- books ---- */

static int async_room(struct async *s)
{
	uint32_t cap = s->cap ? 2 * s->cap : 256;
	struct async_block *grown;
	int r = gp_addr_index_reserve(&s->index, 1);

	if (r || s->unused || s->n < s->cap)
		return r;
	grown = realloc(s->blocks, cap * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	s->blocks = grown;
	s->cap = cap;
	return 0;
}

static int async_remember(struct async *s, uint64_t addr, const struct async_block *b)
{
	uint32_t i = s->unused;
	int r = async_room(s);

	if (r)
		return r;
	if (i)
		s->unused = (uint32_t)s->blocks[--i].granted;
	else
		i = s->n++;
	s->blocks[i] = *b;
	gp_addr_index_add(&s->index, addr / GP_ALIGN, i);
	s->live++;
	s->granted_bytes += b->granted;
	s->asked_bytes += b->asked;
	return 0;
}

/* The block that starts there; NULL: none. */
static struct async_block *async_find(const struct async *s, uint64_t addr)
{
	uint32_t i =
		addr % GP_ALIGN ? GP_INDEX_NONE : gp_addr_index_find(&s->index, addr / GP_ALIGN);

	return i == GP_INDEX_NONE ? NULL : &s->blocks[i];
}

static void async_forget(struct async *s, uint64_t addr, struct async_block *b)
{
	gp_addr_index_remove(&s->index, addr / GP_ALIGN);
	s->live--;
	s->granted_bytes -= b->granted;
	if (!b->retired)
		s->asked_bytes -= b->asked;
	b->granted = s->unused;
	s->unused = (uint32_t)(b - s->blocks) + 1;
}

/* ---- blocks left to the helper ---- */

static struct async_retired *async_retired_at(const struct async *s, uint64_t number)
{
	return &s->retired[number & (s->cap_retired - 1)];
}

static int async_retired_room(struct async *s)
{
	uint64_t cap = s->cap_retired ? 2 * s->cap_retired : 64;
	struct async_retired *grown;

	if (s->last + 1 - s->first < s->cap_retired)
		return 0;
	grown = calloc(cap, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	for (uint64_t i = s->first; i <= s->last; i++)
		grown[i & (cap - 1)] = *async_retired_at(s, i);
	free(s->retired);
	s->retired = grown;
	s->cap_retired = cap;
	return 0;
}

/* The use of a retired block is over: it is nobody's from now on. */
static void async_end(struct gp_allocator *a, struct async *s, uint64_t number)
{
	struct async_retired *r = async_retired_at(s, number);
	struct async_block *b = async_find(s, r->addr);

	gp_range_set_remove(&s->in_use, b->addr, NULL);
	async_forget(s, r->addr, b);
	r->over = true;
	if (number != s->first)
		return;
	while (s->first <= s->last && async_retired_at(s, s->first)->over)
		s->first++;
	gp_device_async_settle(a->dev, s->pool, s->first - 1);
}

static void async_end_early(struct gp_allocator *a, struct async *s, uint64_t number)
{
	const struct async_retired *r = async_retired_at(s, number);

	if (a->completed)
		a->completed(a->completed_arg, r->addr, r->ticket);
	async_end(a, s, number);
}

/* The driver hands out what it knows to be over, or makes the taker wait for. */
static void async_end_what_is_taken(struct gp_allocator *a, struct async *s, uint64_t addr,
				    uint64_t size)
{
	const struct gp_range_entry *e;

	while (s->in_use.n) {
		e = gp_range_set_floor(&s->in_use, addr + size - 1);
		if (!e || e->addr + e->size <= addr)
			return;
		async_end_early(a, s, e->tag);
	}
}

static int async_retire(struct gp_allocator *a, struct async *s, uint64_t addr,
			struct async_block *b, uint32_t ticket)
{
	uint64_t number = s->last + 1;
	int r = async_retired_room(s);

	if (!r)
		r = gp_range_set_insert(&s->in_use, b->addr, b->asked, number);
	if (r)
		return r;
	r = gp_device_async_retire(a->dev, s->pool, b->addr, b->stream, &number);
	if (r) {
		gp_range_set_remove(&s->in_use, b->addr, NULL);
		return r;
	}
	s->last = number;
	*async_retired_at(s, number) = (struct async_retired){ addr, ticket, false };
	b->retired = number;
	s->asked_bytes -= b->asked;
	return 0;
}

static int async_defer(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	struct async *s = gp_state(a);
	struct async_block *b;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	b = async_find(s, addr);
	if (!b)
		r = -EINVAL;
	else if (b->retired)
		async_retired_at(s, b->retired)->ticket = ticket;
	else if (s->deferred == ASYNC_HELPER)
		r = async_retire(a, s, addr, b, ticket);
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int async_free(struct gp_allocator *a, uint64_t addr);

static int async_complete(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	struct async *s = gp_state(a);
	struct async_block *b;

	if (s->deferred == ASYNC_STREAM)
		return async_free(a, addr);
	pthread_mutex_lock(&s->lock);
	b = async_find(s, addr);
	if (b && b->retired && async_retired_at(s, b->retired)->ticket == ticket)
		async_end(a, s, b->retired);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

/* ---- the hooks ---- */

static int async_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct async *s = gp_state(a);
	uint64_t align = UINT64_C(1) << (req->lg_align & 63);
	uint64_t more = align > ASYNC_GRANULE ? align - ASYNC_GRANULE : 0, addr;
	struct async_block b = { .granted = gp_align_up(req->size, ASYNC_GRANULE),
				 .stream = req->stream };
	int r;

	if (more > GP_SIZE_MAX - b.granted)
		return GP_NOMEM;
	b.asked = b.granted + more;
	r = gp_device_async_alloc(a->dev, s->pool, b.asked, b.stream, &b.addr);
	if (r)
		return r;
	addr = more ? gp_align_up(b.addr, align) : b.addr;
	pthread_mutex_lock(&s->lock);
	async_end_what_is_taken(a, s, b.addr, b.asked);
	r = async_remember(s, addr, &b);
	pthread_mutex_unlock(&s->lock);
	if (r) {
		gp_device_async_free(a->dev, s->pool, b.addr, b.stream);
		return r;
	}
	*out = (struct gp_block){ addr, b.granted };
	return 0;
}

static int async_free(struct gp_allocator *a, uint64_t addr)
{
	struct async *s = gp_state(a);
	struct async_block *found, b;

	pthread_mutex_lock(&s->lock);
	found = async_find(s, addr);
	if (found && !found->retired) {
		b = *found;
		async_forget(s, addr, found);
		pthread_mutex_unlock(&s->lock);
		return gp_device_async_free(a->dev, s->pool, b.addr, b.stream);
	}
	pthread_mutex_unlock(&s->lock);
	return found ? -EALREADY : -EINVAL;
}

static uint64_t async_reserved(const struct gp_allocator *a)
{
	const struct async *s = gp_state(a);
	struct gp_async_counts c;

	return gp_device_async_counts(a->dev, s->pool, &c) ? 0 : c.reserved;
}

/* A synchronisation may have let go of what is granted for its last use only: so `max`. */
static void async_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	struct async *s = gp_state(a);

	pthread_mutex_lock(&s->lock);
	*out = (struct gp_usage){ .live_blocks = s->live, .granted_bytes = s->granted_bytes };
	pthread_mutex_unlock(&s->lock);
	out->reserved_bytes = gp_max_u64(async_reserved(a), out->granted_bytes);
}

/* The driver gives back only what the host knows to be free. */
static int async_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct async *s = gp_state(a);
	uint64_t before = async_reserved(a), after;
	int r;

	if (before <= keep)
		return 0;
	pthread_mutex_lock(&s->lock);
	for (uint64_t i = s->first; i <= s->last; i++)
		if (!async_retired_at(s, i)->over)
			async_end_early(a, s, i);
	pthread_mutex_unlock(&s->lock);
	r = gp_device_sync(a->dev);
	if (!r)
		r = gp_device_async_trim(a->dev, s->pool, keep);
	after = async_reserved(a);
	*released += before - gp_min_u64(before, after);
	return r;
}

static int async_check(const struct gp_allocator *a, FILE *why)
{
	const struct async *s = gp_state(a);
	uint64_t live = 0, granted = 0, asked = 0, pending = 0;
	struct gp_async_counts c;

	for (uint32_t i = 0; i <= s->index.mask; i++) {
		const struct async_block *b;

		if (!s->index.table[i])
			continue;
		b = &s->blocks[gp_addr_index_value(&s->index, i)];
		live++;
		granted += b->granted;
		asked += b->retired ? 0 : b->asked;
		pending += b->retired != 0;
	}
	if (live != s->live || granted != s->granted_bytes || asked != s->asked_bytes ||
	    pending != s->in_use.n) {
		fprintf(why,
			"async: index holds %llu blocks of %llu bytes, %llu of them retired; totals "
			"say %llu of %llu, %llu\n",
			(unsigned long long)live, (unsigned long long)granted,
			(unsigned long long)pending, (unsigned long long)s->live,
			(unsigned long long)s->granted_bytes, (unsigned long long)s->in_use.n);
		return -EILSEQ;
	}
	if (gp_device_async_counts(a->dev, s->pool, &c) ||
	    (c.used == asked && c.reserved >= c.used))
		return 0; /* a device that is lost counts nothing */
	fprintf(why, "async: blocks of %llu bytes are live, the pool says %llu of %llu reserved\n",
		(unsigned long long)asked, (unsigned long long)c.used,
		(unsigned long long)c.reserved);
	return -EILSEQ;
}

/* ---- beginning and end ---- */

static int async_threshold(struct gp_allocator *a, uint64_t *out)
{
	const struct async *s = gp_state(a);

	*out = UINT64_MAX;
	if (!strcmp(s->threshold, "max") || gp_parse_size(s->threshold, out))
		return 0;
	return gp_allocator_why(a, -EINVAL, "threshold=%s: expected a size, or max", s->threshold);
}

static int async_init(struct gp_allocator *a)
{
	struct async *s = gp_state(a);
	struct gp_async_config cfg = { .follow_events = s->follow_events,
				       .opportunistic = s->opportunistic,
				       .internal = s->internal };
	int r = async_threshold(a, &cfg.threshold);

	if (r)
		return r;
	if (!a->dev->info.async)
		return gp_allocator_why(a, -ENOTSUP,
					"this device has no stream-ordered allocations");
	if (cfg.threshold != UINT64_MAX)
		s->deferred = ASYNC_STREAM;
	r = gp_addr_index_init(&s->index);
	if (r)
		return r;
	r = gp_device_async_open(a->dev, &cfg, &s->pool);
	if (r) {
		gp_addr_index_fini(&s->index);
		return gp_allocator_why(a, r, "%s", gp_device_error(a->dev));
	}
	gp_range_set_init(&s->in_use);
	s->first = 1;
	pthread_mutex_init(&s->lock, NULL);
	return 0;
}

static void async_fini(struct gp_allocator *a)
{
	struct async *s = gp_state(a);

	for (uint32_t i = 0; s->live && i <= s->index.mask; i++) {
		const struct async_block *b;

		if (!s->index.table[i])
			continue;
		b = &s->blocks[gp_addr_index_value(&s->index, i)];
		if (!b->retired)
			gp_device_async_free(a->dev, s->pool, b->addr, b->stream);
	}
	gp_device_async_close(a->dev, s->pool);
	gp_addr_index_fini(&s->index);
	gp_range_set_fini(&s->in_use);
	free(s->retired);
	free(s->blocks);
	pthread_mutex_destroy(&s->lock);
}

static const char *const async_deferred_names[] = { "helper", "stream", NULL };

static const struct gp_option async_options[] = {
	{ .name = "threshold",
	  .help = "bytes that a synchronisation leaves in the pool; max: all",
	  .type = GP_OPTION_TEXT,
	  .offset = offsetof(struct async, threshold),
	  .default_text = "max" },
	{ .name = "follow_events",
	  .help = "reuse across streams once an event behind the free was waited for",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct async, follow_events),
	  .default_text = "true" },
	{ .name = "opportunistic",
	  .help = "reuse across streams once the other stream is seen to be done",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct async, opportunistic),
	  .default_text = "true" },
	{ .name = "internal",
	  .help = "before memory runs out, wait for another stream's",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct async, internal),
	  .default_text = "true" },
	{ .name = "deferred",
	  .help = "blocks used on several streams: freed at once on a helper, or after that use",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct async, deferred),
	  .default_text = "helper",
	  .choices = async_deferred_names },
	{ .name = NULL },
};

const struct gp_allocator_ops gp_async_ops = {
	.name = "async",
	.summary = "the driver's own pool: cudaMallocAsync and cudaFreeAsync",
	.caps = GP_CAP_CONCURRENT | GP_CAP_ANY_SIZE | GP_CAP_COALESCES | GP_CAP_DRIVER_POOL,
	.state_size = sizeof(struct async),
	.options = async_options,
	.init = async_init,
	.fini = async_fini,
	.alloc = async_alloc,
	.free = async_free,
	.usage = async_usage,
	.check = async_check,
	.trim = async_trim,
	.defer = async_defer,
	.complete = async_complete,
};
