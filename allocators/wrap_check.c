/* SPDX-License-Identifier: Apache-2.0
 *
 * check: holds the allocator below it to the contract of allocator.h, call by call. Decorator.
 *
 * Shape        a shadow: the set of live blocks as the caller knows them, tagged with the number
 *              of their request
 * Checks       alloc   address not 0, aligned as asked, at least as large as asked, apart from
 *                      every live block; no block along with a refusal; a known outcome
 *              free    accepted exactly when the address is a live block's; the same for defer,
 *                      after which the block stays live until its use is over
 *              trim    no live block touched; what it says it gave back left `reserved`
 *              usage   live blocks and granted bytes are the shadow's; no more than is reserved
 *              check   all of that, no hole over a live block, and the allocator's own audit
 *              fini    everything goes back to the device; with leaks=true also by the caller
 *              fill=true writes every block and looks at a sample of it before it is freed: two
 *              addresses that are the same memory
 * Result       a violation is -EILSEQ with the words in why; gp_check repeats the first one ever
 *              after. What the caller does wrong is not a violation: the allocator's refusal is
 *              passed on.
 * Cost         two searches in the shadow and two calls of usage for each call
 * Threads      as many as what it wraps: over an allocator for one thread a lock is held across
 *              the call; over a concurrent one the calls run free, only the shadow has the lock,
 *              and usage is compared by gp_check alone, which wants no call under way
 */
#include "allocator.h"
#include "range_set.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>

#define SAMPLE 64 /* bytes read at each place that fill looks at */

struct check {
	/* Options. */
	bool fill;
	bool leaks;

	bool serial;          /* the inner allocator is for one thread */
	struct gp_usage base; /* when the shadow began */
	pthread_mutex_t lock;
	struct gp_range_set shadow;  /* tag: number of the request */
	struct gp_range_set pending; /* deferred frees among them; tag: ticket */
	uint64_t requests;
	char first[160]; /* violation */
};

static int check_violation(struct gp_allocator *a, const char *fmt, ...) GP_PRINTF(2, 3);

static int check_violation(struct gp_allocator *a, const char *fmt, ...)
{
	struct check *c = gp_state(a);
	char text[120];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	gp_allocator_why(a, -EILSEQ, "%s: %s", a->inner->ops->name, text);
	if (!c->first[0])
		snprintf(c->first, sizeof(c->first), "%s", a->why);
	return -EILSEQ;
}

/* Passes the inner allocator's words on with its fault. */
static int check_fault(struct gp_allocator *a, int r)
{
	return a->inner->why[0] ? gp_allocator_why(a, r, "%s", a->inner->why) : r;
}

/* ---- what is checked ---- */

static int check_usage(struct gp_allocator *a)
{
	struct check *c = gp_state(a);
	uint64_t blocks = c->base.live_blocks + c->shadow.n;
	uint64_t bytes = c->base.granted_bytes + c->shadow.bytes;
	struct gp_usage u;

	gp_usage(a->inner, &u);
	if (u.live_blocks != blocks)
		return check_violation(a, "counts %" PRIu64 " live blocks, %" PRIu64 " are",
				       u.live_blocks, blocks);
	if (u.granted_bytes != bytes)
		return check_violation(a, "counts %" PRIu64 " bytes granted, %" PRIu64 " are",
				       u.granted_bytes, bytes);
	if (u.reserved_bytes < bytes)
		return check_violation(a, "granted %" PRIu64 " bytes of %" PRIu64 " reserved",
				       bytes, u.reserved_bytes);
	return 0;
}

static int check_block(struct gp_allocator *a, const struct gp_request *req,
		       const struct gp_block *block)
{
	uint64_t align = gp_max_u64(GP_ALIGN, UINT64_C(1) << req->lg_align);

	if (!block->addr)
		return check_violation(a, "gave address 0 for %" PRIu64 " bytes", req->size);
	if (block->addr & (align - 1))
		return check_violation(a, "gave 0x%" PRIx64 ", no multiple of %" PRIu64,
				       block->addr, align);
	if (block->granted < req->size)
		return check_violation(a, "granted %" PRIu64 " bytes for %" PRIu64, block->granted,
				       req->size);
	if (block->granted > UINT64_MAX - block->addr)
		return check_violation(a, "gave a block that wraps at 0x%" PRIx64, block->addr);
	return 0;
}

/* Enters a new block in the shadow. */
static int check_enter(struct gp_allocator *a, const struct gp_block *block)
{
	struct check *c = gp_state(a);
	const struct gp_range_entry *other;
	int r = gp_range_set_insert(&c->shadow, block->addr, block->granted, ++c->requests);

	if (r != -EEXIST)
		return r;
	other = gp_range_set_floor(&c->shadow, block->addr + block->granted - 1);
	return check_violation(a,
			       "gave 0x%" PRIx64 " of %" PRIu64
			       " bytes over the live block 0x%" PRIx64 " of request %" PRIu64,
			       block->addr, block->granted, other->addr, other->tag);
}

/* ---- fill: one byte value per request ---- */

static uint8_t check_pattern(uint64_t request)
{
	return (uint8_t)((request * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* Reads a sample at every page of the block and at its end. */
static int check_sample(struct gp_allocator *a, const struct gp_range_entry *e)
{
	uint64_t step = a->dev->info.page_bytes ? a->dev->info.page_bytes : e->size;
	uint8_t want = check_pattern(e->tag), got[SAMPLE];
	uint64_t last = e->size - gp_min_u64(e->size, SAMPLE);

	for (uint64_t at = 0;; at = gp_min_u64(at + step, last)) {
		size_t n = (size_t)gp_min_u64(SAMPLE, e->size - at);
		int r = gp_device_read(a->dev, e->addr + at, got, n);

		if (r)
			return r;
		for (size_t i = 0; i < n; i++)
			if (got[i] != want)
				return check_violation(a,
						       "0x%" PRIx64 " + %" PRIu64
						       " was written through another address",
						       e->addr, at + i);
		if (at >= last)
			return 0;
	}
}

/* ---- hooks ---- */

/* Over an allocator for one thread the lock spans the call, else only the shadow's use. */
static void check_begin(struct check *c)
{
	if (c->serial)
		pthread_mutex_lock(&c->lock);
}

static void check_returned(struct check *c)
{
	if (!c->serial)
		pthread_mutex_lock(&c->lock);
}

static int check_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	static const struct gp_block untouched = { UINT64_MAX, UINT64_MAX };
	struct gp_block block = untouched;
	struct check *c = gp_state(a);
	int r;

	check_begin(c);
	r = a->inner->ops->alloc(a->inner, req, &block);
	check_returned(c);
	if (r < 0)
		r = check_fault(a, r);
	else if (r > GP_HELD)
		r = check_violation(a, "%d is no outcome of alloc", r);
	else if (r && (block.addr != untouched.addr || block.granted != untouched.granted))
		r = check_violation(a, "wrote a block though it refused the request");
	else if (!r)
		r = check_block(a, req, &block);
	if (!r && block.addr != untouched.addr)
		r = check_enter(a, &block);
	if (!r && c->fill)
		r = gp_device_memset(a->dev, block.addr, check_pattern(c->requests), block.granted);
	if (r >= 0 && c->serial) {
		int s = check_usage(a);

		r = s ? s : r;
	}
	if (!r)
		*out = block;
	pthread_mutex_unlock(&c->lock);
	return r;
}

/* Judges the answer to a free; `known`: the address was a live block's, which e is. */
static int check_freed(struct gp_allocator *a, uint64_t addr, int r, bool known,
		       const struct gp_range_entry *e)
{
	struct check *c = gp_state(a);

	if (known && r) {
		gp_range_set_insert(&c->shadow, e->addr, e->size, e->tag);
		if (r == -EINVAL || r == -EALREADY || r > 0)
			return check_violation(a, "refused to free its block 0x%" PRIx64 " (%d)",
					       addr, r);
		return check_fault(a, r);
	}
	if (!known && r >= 0)
		return check_violation(a, "accepted the free of 0x%" PRIx64 ", no live block",
				       addr);
	return r;
}

static int check_free(struct gp_allocator *a, uint64_t addr)
{
	struct check *c = gp_state(a);
	struct gp_range_entry e = { 0 };
	bool known;
	int r, s = 0;

	pthread_mutex_lock(&c->lock);
	known = !gp_range_set_at(&c->pending, addr) && !gp_range_set_remove(&c->shadow, addr, &e);
	if (known && c->fill)
		s = check_sample(a, &e);
	if (!c->serial)
		pthread_mutex_unlock(&c->lock);
	r = a->inner->ops->free(a->inner, addr);
	check_returned(c);
	r = check_freed(a, addr, r, known, &e);
	if (!r)
		r = s;
	if (c->serial && r != -EILSEQ) {
		s = check_usage(a);
		r = s ? s : r;
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

/* ---- deferred frees: only where the inner allocator is for one thread ---- */

/* The inner allocator, in a call of which the lock is held, ended the use of a block. */
static void check_completed(void *arg, uint64_t addr, uint32_t ticket)
{
	struct gp_allocator *a = arg;
	struct check *c = gp_state(a);
	const struct gp_range_entry *e = gp_range_set_at(&c->pending, addr);

	if (!e || e->tag != ticket) {
		check_violation(a, "ended the use of 0x%" PRIx64 ", which is not pending", addr);
		return;
	}
	gp_range_set_remove(&c->pending, addr, NULL);
	gp_range_set_remove(&c->shadow, addr, NULL);
	if (a->completed)
		a->completed(a->completed_arg, addr, ticket);
}

/* Enters a deferred free that the inner allocator took. */
static int check_enter_pending(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	struct check *c = gp_state(a);
	const struct gp_range_entry *e = gp_range_set_at(&c->shadow, addr);

	if (!e)
		return check_violation(a, "deferred the free of 0x%" PRIx64 ", no live block",
				       addr);
	gp_range_set_remove(&c->pending, addr, NULL);
	return gp_range_set_insert(&c->pending, addr, e->size, ticket);
}

static int check_defer(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	struct check *c = gp_state(a);
	int r, s;

	pthread_mutex_lock(&c->lock);
	r = a->inner->ops->defer(a->inner, addr, ticket);
	if (!r)
		r = check_enter_pending(a, addr, ticket);
	else if (gp_range_set_at(&c->shadow, addr) && r != -ENOMEM)
		r = check_violation(a, "refused to defer the free of 0x%" PRIx64 " (%d)", addr, r);
	s = check_usage(a);
	pthread_mutex_unlock(&c->lock);
	return s ? s : r;
}

/* What is not pending under this ticket has been completed by the inner allocator. */
static int check_complete(struct gp_allocator *a, uint64_t addr, uint32_t ticket)
{
	struct check *c = gp_state(a);
	const struct gp_range_entry *e;
	struct gp_range_entry block;
	int r, s = 0;

	pthread_mutex_lock(&c->lock);
	e = gp_range_set_at(&c->pending, addr);
	if (e && e->tag == ticket) {
		gp_range_set_remove(&c->pending, addr, NULL);
		gp_range_set_remove(&c->shadow, addr, &block);
		if (c->fill)
			s = check_sample(a, &block);
	}
	r = a->inner->ops->complete(a->inner, addr, ticket);
	if (r && r != -EILSEQ)
		r = check_fault(a, r);
	if (!r)
		r = s;
	s = check_usage(a);
	pthread_mutex_unlock(&c->lock);
	return s ? s : r;
}

static void check_usage_hook(const struct gp_allocator *a, struct gp_usage *out)
{
	struct check *c = gp_state(a);

	check_begin(c);
	gp_usage(a->inner, out);
	if (c->serial)
		pthread_mutex_unlock(&c->lock);
}

static int check_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct check *c = gp_state(a);
	struct gp_usage before, after;
	uint64_t given = 0;
	int r;

	check_begin(c);
	gp_usage(a->inner, &before);
	r = gp_trim(a->inner, keep, &given);
	gp_usage(a->inner, &after);
	check_returned(c);
	*released += given;
	if (r < 0)
		r = check_fault(a, r);
	else if (c->serial && before.reserved_bytes - after.reserved_bytes != given)
		r = check_violation(a,
				    "trim says %" PRIu64 " bytes, reserved fell from %" PRIu64
				    " to %" PRIu64,
				    given, before.reserved_bytes, after.reserved_bytes);
	else if (c->serial)
		r = check_usage(a);
	pthread_mutex_unlock(&c->lock);
	return r;
}

struct check_walk {
	struct check *c;
	struct gp_range_entry hit; /* size > 0: a live block under a hole */
};

static int check_walk_range(void *arg, struct gp_range range, bool live)
{
	struct check_walk *w = arg;
	const struct gp_range_entry *e;

	if (live || !range.size)
		return 0;
	e = gp_range_set_floor(&w->c->shadow, range.addr + range.size - 1);
	if (!e || e->addr + e->size <= range.addr)
		return 0;
	w->hit = *e;
	return 1;
}

static int check_check(const struct gp_allocator *a, FILE *why)
{
	/* The words of a violation are the instance's to keep, whoever finds it. */
	struct gp_allocator *self = (struct gp_allocator *)(uintptr_t)a;
	struct check *c = gp_state(a);
	struct check_walk w = { c, { 0 } };
	int r;

	pthread_mutex_lock(&c->lock);
	r = gp_check(a->inner, why);
	if (!r && !c->first[0])
		r = check_usage(self);
	if (!r && gp_walk(a->inner, check_walk_range, &w) == 1)
		r = check_violation(self, "shows a hole over the live block 0x%" PRIx64,
				    w.hit.addr);
	if (c->first[0]) {
		fprintf(why, "check: %s\n", c->first);
		r = -EILSEQ;
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

static int check_walk(const struct gp_allocator *a, gp_walk_fn *fn, void *arg)
{
	struct check *c = gp_state(a);
	int r;

	check_begin(c);
	r = gp_walk(a->inner, fn, arg);
	if (c->serial)
		pthread_mutex_unlock(&c->lock);
	return r;
}

static int check_init(struct gp_allocator *a)
{
	struct check *c = gp_state(a);

	c->serial = !(a->inner->ops->caps & GP_CAP_CONCURRENT);
	gp_usage(a->inner, &c->base);
	gp_range_set_init(&c->shadow);
	gp_range_set_init(&c->pending);
	a->inner->completed = check_completed;
	a->inner->completed_arg = a;
	pthread_mutex_init(&c->lock, NULL);
	return 0;
}

/* Nobody is left to take a result: a leak is told on standard error. */
static void check_fini(struct gp_allocator *a)
{
	const char *name = a->inner->ops->name;
	struct check *c = gp_state(a);
	struct gp_device_stats before, after;
	struct gp_usage u;
	bool whole;

	gp_usage(a->inner, &u);
	gp_device_stats(a->dev, &before);
	a->inner = gp_allocator_destroy(a->inner);
	gp_device_stats(a->dev, &after);
	whole = !gp_device_broken(a->dev); /* what a broken one keeps is nobody's leak */
	if (whole && after.reserved_bytes + u.reserved_bytes > before.reserved_bytes)
		fprintf(stderr, "check: %s kept %" PRIu64 " bytes of the device at its end\n", name,
			after.reserved_bytes + u.reserved_bytes - before.reserved_bytes);
	if (whole && c->leaks && c->shadow.n)
		fprintf(stderr,
			"check: %zu blocks of %" PRIu64 " bytes were never freed, first 0x%" PRIx64
			" of request %" PRIu64 "\n",
			c->shadow.n, c->shadow.bytes, gp_range_set_ceiling(&c->shadow, 0)->addr,
			gp_range_set_ceiling(&c->shadow, 0)->tag);
	gp_range_set_fini(&c->shadow);
	gp_range_set_fini(&c->pending);
	pthread_mutex_destroy(&c->lock);
}

static const struct gp_option check_options[] = {
	{ .name = "fill",
	  .help = "write every block and look at it again before it is freed",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct check, fill),
	  .default_text = "false" },
	{ .name = "leaks",
	  .help = "at the end, tell of blocks that were never freed",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct check, leaks),
	  .default_text = "false" },
	{ 0 },
};

const struct gp_allocator_ops gp_check_ops = {
	.name = "check",
	.summary = "checks every answer of the allocator below against a shadow of its blocks",
	.caps = GP_CAP_DECORATOR | GP_CAP_CONCURRENT,
	.state_size = sizeof(struct check),
	.options = check_options,
	.init = check_init,
	.fini = check_fini,
	.alloc = check_alloc,
	.free = check_free,
	.usage = check_usage_hook,
	.check = check_check,
	.trim = check_trim,
	.walk = check_walk,
	.defer = check_defer,
	.complete = check_complete,
};
