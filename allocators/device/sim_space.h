/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_space: where the simulated driver puts address ranges, after what real recordings show.
 *
 *   a new range   top-down in units of 32 MiB, from the start of its units; what is left of the
 *                 last unit stays behind as a hole:
 *
 *                      ... | 20 MiB |  tail  | 148 MiB (five units) | tail |  <- earlier ranges
 *                          ^ frontier, moves down
 *
 *   holes first   a range that fits into a hole (a tail, or a range given back; neighbours join)
 *                 takes the lowest part of the hole that changed most recently
 *   as recorded   optionally, until the first range is given back: a range gets the next of the
 *                 places where a real driver put ranges of that size. Programs hold and give back
 *                 memory of their libraries, too, of which no recording tells but by the holes that
 *                 the driver then fills; the next run of the program has the same. Other ranges go
 *                 below all of these.
 *
 * How true  seen against 28 recordings on one H200, one step at a time: the hole it names is the
 *           driver's in 35 % of 2 496 cases, more than any of 15 other rules tried (lowest hole:
 *           28 %, best fit: 23 %, oldest: 6 %). Programs that seldom give ranges back fit far
 *           better (gpt_train: 116 of 140 placements) than those that keep doing so. From the
 *           places of its first run, what 32 runs of four programs reserved came out exact in 31
 *           cases (without: 30), and their device calls too in 30 (27); results/whatif/README.md.
 * Cost      O(log n) for the neighbours; the most recent hole that fits by size classes: exact up
 *           to 62 MiB, above it within the request's own class (an eighth of a doubling) by walk
 * Threads   the caller serialises
 */
#ifndef GP_SIM_SPACE_H
#define GP_SIM_SPACE_H

#include "../range_set.h"

/* Pages of each count up to 31, then eighths of doublings up to 2^47 bytes. */
#define GP_SIM_SPACE_BINS (32 + 8 * 22)

struct gp_sim_hole;

/* Where a range was put, and which range of the same size comes next. */
struct gp_sim_place {
	uint64_t addr, size;
	uint32_t
		order; /* in which they were put there; of those of a size, first: how many are used */
};

struct gp_sim_space {
	struct gp_range_set holes;                        /* tag: the struct gp_sim_hole */
	struct gp_sim_hole *bins[GP_SIM_SPACE_BINS];      /* most recent first */
	uint64_t occupied[(GP_SIM_SPACE_BINS + 63) / 64]; /* bit b: bins[b] is not empty */
	uint64_t frontier;
	uint64_t clock;              /* changes of holes so far */
	struct gp_sim_place *places; /* by size, then in order; NULL: none, or no longer */
	uint32_t n_places;
};

void gp_sim_space_init(struct gp_sim_space *sp);
void gp_sim_space_fini(struct gp_sim_space *sp);
/* Before anything is taken: where ranges were put, in this order. Places that cannot all be true
 * (they overlap, are no whole pages or no addresses of a GPU's) are passed over, all of them. 0 or
 * -ENOMEM. */
int gp_sim_space_places(struct gp_sim_space *sp, const struct gp_range *places, size_t n);
/* size: whole pages of 2 MiB. GP_NOMEM: no address space left; -ENOMEM. */
int gp_sim_space_take(struct gp_sim_space *sp, uint64_t size, uint64_t *addr);
/* Where the host has no memory to remember the hole, the addresses are lost; nothing else is. */
void gp_sim_space_give(struct gp_sim_space *sp, uint64_t addr, uint64_t size);

#endif
