/* SPDX-License-Identifier: Apache-2.0
 *
 * check: holds the allocator below it to the contract of allocator.h, call by call. Decorator.
 *
 * Shape        a shadow: the set of live blocks as the caller knows them, tagged with the slot of
 *              their owner. Requests are numbered from 1, refused ones included.
 * Checks       alloc   address not 0, aligned as asked, at least as large as asked, apart from
 *                      every live block; no block along with a refusal; a known outcome
 *              free    accepted exactly when the address is a live block's; the same for defer,
 *                      after which the block stays live until its use is over
 *              trim    no live block touched; what it says it gave back left `reserved`
 *              usage   live blocks and granted bytes are the shadow's; no more than is reserved
 *              check   all of that, no hole over a live block, and the allocator's own audit
 *              fini    everything goes back to the device; with leaks=true also by the caller
 *              contents=true (unless it is switched off): each block is filled with a pattern of
 *              its own, what is granted beyond its size with a guard; when it is freed, and for
 *              live blocks by `check`, a comparison on the device finds what else was written
 *              there, and by whom: an overlap that the shadow cannot see, as of two addresses that
 *              are the same memory, or a write past a block's end. check_contents.h says how, and
 *              what this can see of missing waits between streams. The caller must not write into
 *              its blocks then (gp_fills).
 * Result       a violation is -EILSEQ with the words in why; gp_check repeats the first one ever
 *              after. What the caller does wrong is not a violation: the allocator's refusal is
 *              passed on.
 * Cost         two searches in the shadow and two calls of usage for each call. Contents: on a GPU
 *              the time to write and to read each block once, and some launches; on the simulated
 *              device about a microsecond for each block
 * Threads      as many as what it wraps: over an allocator for one thread a lock is held across
 *              the call; over a concurrent one the calls run free, only the shadow has the lock,
 *              and usage is compared by gp_check alone, which wants no call under way
 */
#include "allocator.h"
#include "check_contents.h"
#include "range_set.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>

#define CHECK_TEXT sizeof(((struct gp_allocator *)0)->why)

struct check {
	/* Options. */
	bool contents;
	bool leaks;

	bool serial;          /* the inner allocator is for one thread */
	bool leaves_early;    /* deferred blocks are the driver's from then on: compared then */
	struct gp_usage base; /* when the shadow began */
	pthread_mutex_t lock;
	struct gp_contents owners;
	struct gp_range_set shadow;  /* tag: slot of the owner */
	struct gp_range_set pending; /* deferred frees among them; tag: ticket */
	char first[CHECK_TEXT];      /* violation */
};

static int check_violation(struct gp_allocator *a, const char *fmt, ...) GP_PRINTF(2, 3);

static int check_violation(struct gp_allocator *a, const char *fmt, ...)
{
	struct check *c = gp_state(a);
	char text[CHECK_TEXT];
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
static int check_enter(struct gp_allocator *a, const struct gp_request *req,
		       const struct gp_block *block, uint32_t *slot)
{
	struct check *c = gp_state(a);
	const struct gp_range_entry *other;
	char who[GP_OWNER_TEXT];
	int r = gp_contents_enter(&c->owners, req, block, slot);

	if (r)
		return r;
	r = gp_range_set_insert(&c->shadow, block->addr, block->granted, *slot);
	if (r)
		gp_contents_leave(&c->owners, *slot);
	if (r != -EEXIST)
		return r;
	other = gp_range_set_floor(&c->shadow, block->addr + block->granted - 1);
	return check_violation(
		a, "gave 0x%" PRIx64 " of %" PRIu64 " bytes over the live block of %s", block->addr,
		block->granted, gp_owner_text(&c->owners, &c->owners.owners[other->tag], who));
}

/* ---- contents ---- */

static int check_fill(struct gp_allocator *a, uint32_t slot)
{
	struct check *c = gp_state(a);
	int r = gp_contents_fill(&c->owners, slot);
	char who[GP_OWNER_TEXT];

	if (r == -EINVAL)
		return check_violation(a, "the block of %s is not all device memory",
				       gp_owner_text(&c->owners, &c->owners.owners[slot], who));
	if (r == -ENOMEM)
		return gp_allocator_why(a, r, "no memory is left for the kernels that fill blocks");
	return r ? gp_allocator_why(a, r, "%s", gp_device_error(a->dev)) : 0;
}

/* What the comparisons have found by now; `wait`: all of them. */
static int check_judge(struct gp_allocator *a, bool wait)
{
	struct check *c = gp_state(a);
	char text[CHECK_TEXT];
	int r = gp_contents_judge(&c->owners, wait, text, sizeof(text));

	if (r == -EILSEQ)
		return check_violation(a, "%s", text);
	return r ? gp_allocator_why(a, r, "%s", gp_device_error(a->dev)) : 0;
}

/* Compares a block whose use ends. */
static int check_compare(struct gp_allocator *a, uint64_t slot)
{
	struct check *c = gp_state(a);
	int r = gp_contents_compare(&c->owners, (uint32_t)slot);

	if (r)
		return gp_allocator_why(a, r, "%s", gp_device_error(a->dev));
	return check_judge(a, false);
}

/* Compares the blocks that are live. */
static int check_compare_live(struct gp_allocator *a)
{
	struct check *c = gp_state(a);
	const struct gp_range_entry *e = gp_range_set_ceiling(&c->shadow, 0);
	int r = 0;

	for (; e && !r; e = gp_range_set_ceiling(&c->shadow, e->addr + 1))
		if (!c->leaves_early || !gp_range_set_at(&c->pending, e->addr))
			r = check_compare(a, e->tag);
	return r ? r : check_judge(a, true);
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
	uint32_t slot;
	int r;

	check_begin(c);
	r = a->inner->ops->alloc(a->inner, req, &block);
	check_returned(c);
	c->owners.requests++;
	if (r < 0)
		r = check_fault(a, r);
	else if (r > GP_HELD)
		r = check_violation(a, "%d is no outcome of alloc", r);
	else if (r && (block.addr != untouched.addr || block.granted != untouched.granted))
		r = check_violation(a, "wrote a block though it refused the request");
	else if (!r)
		r = check_block(a, req, &block);
	if (!r)
		r = check_enter(a, req, &block, &slot);
	if (!r)
		r = check_fill(a, slot);
	if (r >= 0) {
		int s = check_judge(a, false);

		r = s ? s : r;
	}
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
	if (known)
		gp_contents_leave(&c->owners, (uint32_t)e->tag);
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
	if (known)
		s = check_compare(a, e.tag);
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
	struct gp_range_entry block;

	if (!e || e->tag != ticket) {
		check_violation(a, "ended the use of 0x%" PRIx64 ", which is not pending", addr);
		return;
	}
	gp_range_set_remove(&c->pending, addr, NULL);
	gp_range_set_remove(&c->shadow, addr, &block);
	/* It uses that memory next, on whatever stream, since it has waited for the device: so must
	 * the comparison. A difference is kept for gp_check to tell. */
	if (!c->leaves_early && !check_compare(a, block.tag))
		(void)check_judge(a, true);
	gp_contents_leave(&c->owners, (uint32_t)block.tag);
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
	const struct gp_range_entry *e;
	int r, s, compared = 0;

	pthread_mutex_lock(&c->lock);
	e = gp_range_set_at(&c->shadow, addr);
	if (c->leaves_early && e && !gp_range_set_at(&c->pending, addr))
		compared = check_compare(a, e->tag);
	r = a->inner->ops->defer(a->inner, addr, ticket);
	if (!r)
		r = check_enter_pending(a, addr, ticket);
	else if (gp_range_set_at(&c->shadow, addr) && r != -ENOMEM)
		r = check_violation(a, "refused to defer the free of 0x%" PRIx64 " (%d)", addr, r);
	if (!r)
		r = compared;
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
		s = c->leaves_early ? 0 : check_compare(a, block.tag);
		gp_contents_leave(&c->owners, (uint32_t)block.tag);
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
	if (!r && !c->first[0])
		r = check_compare_live(self);
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

/* The driver's pool takes a deferred block at once, for its helper stream to free. */
static bool check_leaves_early(const struct gp_allocator *a)
{
	while (a->ops->caps & GP_CAP_DECORATOR)
		a = a->inner;
	return a->ops->caps & GP_CAP_DRIVER_POOL;
}

static int check_init(struct gp_allocator *a)
{
	struct check *c = gp_state(a);

	c->serial = !(a->inner->ops->caps & GP_CAP_CONCURRENT);
	c->leaves_early = check_leaves_early(a);
	gp_usage(a->inner, &c->base);
	gp_contents_init(&c->owners, a, c->contents);
	a->fills = c->owners.on;
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

	if (!c->first[0] && check_judge(a, true) == -EILSEQ)
		fprintf(stderr, "check: %s\n", c->first);
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
			c->owners.owners[gp_range_set_ceiling(&c->shadow, 0)->tag].request);
	gp_contents_fini(&c->owners);
	gp_range_set_fini(&c->shadow);
	gp_range_set_fini(&c->pending);
	pthread_mutex_destroy(&c->lock);
}

static const struct gp_option check_options[] = {
	{ .name = "contents",
	  .help = "fill every block, and compare it when it is freed",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct check, contents),
	  .default_text = "true" },
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
