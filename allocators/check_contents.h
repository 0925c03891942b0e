/* SPDX-License-Identifier: Apache-2.0
 *
 * check_contents: who owns which block, what is written into it, and whose pattern it is that a
 * comparison finds. The part of the `check` decorator that looks at the memory itself.
 *
 * Shape      the words of block n are the pattern of n, those behind what was asked for (where the
 *            allocator grants more) the guard of n:
 *
 *                addr             addr + size, rounded up to 8    addr + granted
 *                 | n n n n n n n n n n n | g g g g g g g g g g g g |
 *
 *            Both are one word each, which can be turned back into n, so that any eight bytes in
 *            place tell whose they are.
 * Owners     numbered by slot. A freed owner's slot is used again as late as possible, after
 *            at least 1 024 others, so that what is found of it can still be named.
 * Order      filling and comparing are queued on the block's own stream, and nothing is waited for
 *            until 1 024 comparisons are under way: the program's streams run as they would
 *            without the check. So a block that is handed to another stream before its last use is
 *            over, for want of an event wait, is found overwritten by that stream's pattern, if
 *            the streams are as far apart at that moment as the mistake allows.
 * Not seen   a wait that is missing where the streams happen to be in step; what writes the very
 *            word that is there; uses after the free. On the simulated device everything is done
 *            at the call, so no missing wait is ever seen there.
 * Threads    the caller serialises
 */
#ifndef GP_CHECK_CONTENTS_H
#define GP_CHECK_CONTENTS_H

#include "allocator.h"

#define GP_CONTENTS_UNDER_WAY 1024

struct gp_owner {
	uint64_t request; /* number of the call that made it, from 1 */
	uint64_t addr, size, granted;
	uint32_t stream;
	bool live;
	uint32_t next; /* of a free slot: the one that becomes free after it */
};

/* A comparison under way, with a copy of whose it is: the owner may be gone when it ends. */
struct gp_comparison {
	struct gp_owner owner;
	uint64_t from; /* offset of what is compared */
	uint32_t ticket;
};

struct gp_contents {
	const struct gp_allocator *a; /* the decorator */
	bool on;                      /* else the owners are all there is */
	uint64_t requests;
	struct gp_owner *owners;
	uint32_t n_owners, cap_owners;
	uint32_t first_free, last_free, n_free;
	struct gp_comparison *under_way; /* a ring, oldest first; NULL: never needed */
	unsigned first, n_under_way;
};

void gp_contents_init(struct gp_contents *c, const struct gp_allocator *a, bool on);
void gp_contents_fini(struct gp_contents *c);
/* A new owner, of the request with the number c->requests; -ENOMEM. */
int gp_contents_enter(struct gp_contents *c, const struct gp_request *req,
		      const struct gp_block *block, uint32_t *slot);
void gp_contents_leave(struct gp_contents *c, uint32_t slot);
/* Queues the writing, or the comparison, of a block and what is behind it. 0 or a fault of the
 * device's; -EINVAL: that is not all device memory. Nothing where contents are not on. */
int gp_contents_fill(struct gp_contents *c, uint32_t slot);
int gp_contents_compare(struct gp_contents *c, uint32_t slot);
/* Judges the comparisons that have ended, or with `wait` all of them, up to the first difference:
 * -EILSEQ with both owners in `text`. Else 0 or a fault of the device's. */
int gp_contents_judge(struct gp_contents *c, bool wait, char *text, size_t size);
/* The words for an owner. */
#define GP_OWNER_TEXT 128
const char *gp_owner_text(const struct gp_contents *c, const struct gp_owner *o, char *text);

#endif
