/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics: a shadow of device memory that knows, after every event, how much is requested, granted
 * and reserved and which holes are left.
 *
 *   device's observer --reserved ranges--> +---------+
 *   results of alloc  --granted blocks---> | metrics | --> Q, G, F, max(f), sum(f^2)
 *   frees             ------------------>  +---------+
 *
 * A hole is a maximal piece of reserved memory that no granted block covers, within one range; it
 * reaches over the edge of a range only between ranges that join (gp_device_observer).
 *
 * Memory that is mapped at several places is one memory: holes and blocks are kept at the place it
 * was mapped at first, and a block at another place is the pieces there that it is made of.
 *
 * An allocator that stitches can put all free pages together, wherever they are; its "page" is what
 * one map made, since none is mapped in part. So where `stitches` is set, what lies in holes as whole
 * pages is one hole, and what is left of each hole on either side of them is one each. The largest
 * hole is that one, or the largest piece of adjoining addresses.
 */
#ifndef GP_METRICS_H
#define GP_METRICS_H

#include "allocators/allocator.h"
#include "allocators/range_set.h"

/* An unsigned number of 128 bits. */
struct gp_wide {
	uint64_t high, low;
};

/* A block in the shadow, by id. */
struct gp_shadow {
	uint64_t addr; /* 0: not live */
	uint64_t granted, requested;
	uint64_t tag; /* of the hole it was cut from */
};

struct gp_metrics {
	struct gp_range_set holes;   /* tag: 0 in ranges that join, else the range's address */
	struct gp_range_entry fresh; /* the hole that came last, not in the set yet; size 0: none */
	struct gp_wide hole_squares; /* less the one of whole_pages */
	bool stitches;               /* to be set before anything is held */
	bool blind; /* to be set likewise: nobody tells where memory lies, so holes are not known */
	struct gp_range_set pages;   /* where stitches: what maps made */
	uint64_t whole_pages;        /* bytes of those that lie in holes, each of them whole */
	struct gp_range_set same;    /* further places of memory; tag: the first one */
	uint64_t requested, granted; /* Q, G: of the blocks that are live */
	uint64_t observed;           /* bytes of the ranges that the device told of */
	int fault;                   /* the first; later changes are not shadowed any more */
	char why[120];               /* says what was wrong */
};

/* Everything measured after one event. */
struct gp_sample {
	uint64_t requested, granted, reserved;
	double internal, external, external_sq; /* fragmentation, 0 .. 1; NaN: not known */
};

void gp_metrics_init(struct gp_metrics *m);
void gp_metrics_fini(struct gp_metrics *m);

/* A gp_device_observer; arg is the gp_metrics. A fault shows in m->fault. */
void gp_metrics_observe(void *arg, bool added, struct gp_range range, bool joins, uint64_t same);
/* A block was handed out. 0, -EILSEQ when it does not lie in free reserved memory, -ENOMEM; m->why
 * says. `block` is filled in unless it fails. */
int gp_metrics_take(struct gp_metrics *m, const struct gp_block *b, uint64_t requested,
		    struct gp_shadow *block);
/* A live block is about to be freed: call it before the allocator, which may give the memory back
 * to the device at once. */
int gp_metrics_give(struct gp_metrics *m, struct gp_shadow *block);
/* Brings every hole into the set, to be looked at. m->fault. */
int gp_metrics_settle(struct gp_metrics *m);
/* Where in the shadow the memory at addr is; *left, bytes from addr on, is cut to what lies there in
 * one piece. */
uint64_t gp_metrics_place(const struct gp_metrics *m, uint64_t addr, uint64_t *left);
/* Bytes of the largest hole. */
uint64_t gp_metrics_largest(struct gp_metrics *m);
/* reserved: as the device counts it. May find a fault, too. */
void gp_metrics_sample(struct gp_metrics *m, uint64_t reserved, struct gp_sample *out);

#endif
