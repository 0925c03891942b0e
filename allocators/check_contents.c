/* SPDX-License-Identifier: Apache-2.0 */
#include "check_contents.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_FREED GP_CONTENTS_UNDER_WAY
/* An odd number whose multiples are spread over all bits (2^64 over the golden ratio), and its
 * inverse modulo 2^64. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)
#define GATHER UINT64_C(0xf1de83e19937733d)

/* ---- words ---- */

/* A word for each number and back: `x ^ x >> 32` undoes itself. */
static uint64_t word_of(uint64_t request, bool guard)
{
	uint64_t w = (2 * request + guard) * SPREAD;

	return w ^ w >> 32;
}

static uint64_t word_request(uint64_t word, bool *guard)
{
	uint64_t n = (word ^ word >> 32) * GATHER;

	*guard = n & 1;
	return n / 2;
}

/* Where the guard begins. */
static uint64_t owner_body(const struct gp_owner *o)
{
	return gp_min_u64(gp_align_up(o->size, 8), o->granted);
}

/* ---- owners ---- */

void gp_contents_init(struct gp_contents *c, const struct gp_allocator *a, bool on)
{
	memset(c, 0, sizeof(*c));
	c->a = a;
	c->on = on && a->dev->ops->fill;
}

void gp_contents_fini(struct gp_contents *c)
{
	free(c->owners);
	free(c->under_way);
}

static int owners_grow(struct gp_contents *c)
{
	uint32_t cap = c->cap_owners ? 2 * c->cap_owners : 2 * KEEP_FREED;
	struct gp_owner *grown =
		cap > c->cap_owners ? realloc(c->owners, cap * sizeof(*grown)) : NULL;

	if (!grown)
		return -ENOMEM;
	c->owners = grown;
	c->cap_owners = cap;
	return 0;
}

int gp_contents_enter(struct gp_contents *c, const struct gp_request *req,
		      const struct gp_block *block, uint32_t *slot)
{
	if (c->n_free > KEEP_FREED) {
		*slot = c->first_free;
		c->first_free = c->owners[*slot].next;
		c->n_free--;
	} else {
		if (c->n_owners == c->cap_owners && owners_grow(c))
			return -ENOMEM;
		*slot = c->n_owners++;
	}
	c->owners[*slot] = (struct gp_owner){ .request = c->requests,
					      .addr = block->addr,
					      .size = req->size,
					      .granted = block->granted,
					      .stream = req->stream,
					      .live = true };
	return 0;
}

void gp_contents_leave(struct gp_contents *c, uint32_t slot)
{
	c->owners[slot].live = false;
	if (c->n_free++)
		c->owners[c->last_free].next = slot;
	else
		c->first_free = slot;
	c->last_free = slot;
}

const char *gp_owner_text(const struct gp_contents *c, const struct gp_owner *o, char *text)
{
	const struct gp_env *env = &c->a->env;
	char event[32] = "";
	size_t n;

	if (env->event_of && env->event_of(env->event_arg, o->request, &n))
		snprintf(event, sizeof(event), "event %zu, ", n);
	snprintf(text, GP_OWNER_TEXT,
		 "request %" PRIu64 " (%s0x%" PRIx64 ", %" PRIu64 " bytes, stream %" PRIu32 "%s)",
		 o->request, event, o->addr, o->size, o->stream, o->live ? "" : ", freed");
	return text;
}

/* ---- writing and comparing ---- */

int gp_contents_fill(struct gp_contents *c, uint32_t slot)
{
	const struct gp_owner *o = &c->owners[slot];
	uint64_t body = owner_body(o);
	int r;

	if (!c->on)
		return 0;
	r = gp_device_fill(c->a->dev, o->addr, body, word_of(o->request, false), o->stream);
	if (!r && body < o->granted)
		r = gp_device_fill(c->a->dev, o->addr + body, o->granted - body,
				   word_of(o->request, true), o->stream);
	return r > 0 ? -ENOMEM : r;
}

/* One comparison more; the ring has room. */
static int compare_part(struct gp_contents *c, uint32_t slot, uint64_t from, uint64_t to)
{
	const struct gp_owner *o = &c->owners[slot];
	unsigned at = (c->first + c->n_under_way) % GP_CONTENTS_UNDER_WAY;
	uint32_t ticket;
	int r = gp_device_verify_begin(c->a->dev, o->addr + from, to - from,
				       word_of(o->request, from > 0), o->stream, &ticket);

	if (r)
		return r > 0 ? -EBUSY : r;
	c->under_way[at] = (struct gp_comparison){ *o, from, ticket };
	c->n_under_way++;
	return 0;
}

int gp_contents_compare(struct gp_contents *c, uint32_t slot)
{
	const struct gp_owner *o = &c->owners[slot];
	uint64_t body = owner_body(o);
	int r;

	if (!c->on)
		return 0;
	if (!c->under_way)
		c->under_way = malloc(GP_CONTENTS_UNDER_WAY * sizeof(*c->under_way));
	if (!c->under_way)
		return -ENOMEM;
	/* Only after a difference or a fault that nobody has minded. */
	if (c->n_under_way > GP_CONTENTS_UNDER_WAY - 2)
		return -EBUSY;
	r = compare_part(c, slot, 0, body);
	return r || body == o->granted ? r : compare_part(c, slot, body, o->granted);
}

/* ---- judging ---- */

static const struct gp_owner *owner_find(const struct gp_contents *c, uint64_t request)
{
	for (uint32_t i = 0; i < c->n_owners; i++)
		if (c->owners[i].request == request)
			return &c->owners[i];
	return NULL;
}

/* The words for what was found. */
static void found_text(const struct gp_contents *c, uint64_t word, char *text, size_t size)
{
	bool guard;
	uint64_t request = word_request(word, &guard);
	const struct gp_owner *o = owner_find(c, request);
	char who[GP_OWNER_TEXT];

	if (!request || request > c->requests)
		snprintf(text, size, "is 0x%016" PRIx64 ", no block's pattern", word);
	else if (!o)
		snprintf(text, size, "is the %s of request %" PRIu64 ", freed long ago",
			 guard ? "guard" : "pattern", request);
	else
		snprintf(text, size, "is the %s of %s", guard ? "guard" : "pattern",
			 gp_owner_text(c, o, who));
}

static int contents_differ(const struct gp_contents *c, const struct gp_comparison *q,
			   uint64_t offset, uint64_t word, char *text, size_t size)
{
	char who[GP_OWNER_TEXT], what[GP_OWNER_TEXT + 32];

	found_text(c, word, what, sizeof(what));
	snprintf(text, size, "%s: byte %" PRIu64 "%s %s", gp_owner_text(c, &q->owner, who),
		 q->from + offset, q->from ? ", in the guard," : "", what);
	return -EILSEQ;
}

int gp_contents_judge(struct gp_contents *c, bool wait, char *text, size_t size)
{
	while (c->n_under_way) {
		const struct gp_comparison *q = &c->under_way[c->first];
		/* The next block needs room for two. */
		bool full = c->n_under_way > GP_CONTENTS_UNDER_WAY - 2;
		uint64_t offset, word;
		int r = gp_device_verify_end(c->a->dev, q->ticket, wait || full, &offset, &word);

		if (r == GP_PENDING)
			return 0;
		c->first = (c->first + 1) % GP_CONTENTS_UNDER_WAY;
		c->n_under_way--;
		if (r)
			return r < 0 ? r : contents_differ(c, q, offset, word, text, size);
	}
	return 0;
}
