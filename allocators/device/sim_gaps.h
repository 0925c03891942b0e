/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_gaps: free pieces of a simulated pool, found by size and by address.
 *
 * Shape       every gap has a number in one store; gaps lie in sets, each with
 *             where  by address (range_set.h): neighbours in one set are joined
 *             root   a treap by (size, age): a search tree that is a heap by a hash of the number
 *                    (R. Seidel, C. Aragon: "Randomized search trees", 1996)
 * Best fit    the smallest that is large enough; of equal ones that which came, or was last cut,
 *             first
 * Cost        O(log n); a limit on when gaps were freed walks those that are too new
 * Threads     the caller serialises
 */
#ifndef GP_SIM_GAPS_H
#define GP_SIM_GAPS_H

#include "../range_set.h"

#define GP_SIM_GAP_NIL 0u

struct gp_sim_gap {
	uint64_t addr, size;
	uint64_t age;         /* rises: joined or cut, a gap counts as new          */
	uint64_t freed;       /* the caller's number of the latest free that it holds */
	uint32_t left, right; /* of a number that is not in use: left is the next   */
};

struct gp_sim_gap_store {
	struct gp_sim_gap *at; /* [number]; 0 is nobody's */
	uint32_t n, cap, unused;
	uint64_t age;
};

struct gp_sim_gaps {
	struct gp_range_set where; /* tag: the number */
	uint32_t root;
};

void gp_sim_gap_store_fini(struct gp_sim_gap_store *st);
void gp_sim_gaps_init(struct gp_sim_gaps *g);
void gp_sim_gaps_fini(struct gp_sim_gaps *g); /* the store goes with them, or they are empty */

/* Puts a piece in, joined with those that it touches. 0, or -ENOMEM and nothing changed. */
int gp_sim_gaps_put(struct gp_sim_gap_store *st, struct gp_sim_gaps *g, uint64_t addr,
		    uint64_t size, uint64_t freed);
/* Takes `size` bytes off the start of a gap, or all of it. */
void gp_sim_gaps_cut(struct gp_sim_gap_store *st, struct gp_sim_gaps *g, uint32_t n, uint64_t size);
/* The best fit among those freed no later than this; GP_SIM_GAP_NIL: none. */
uint32_t gp_sim_gaps_best(const struct gp_sim_gap_store *st, const struct gp_sim_gaps *g,
			  uint64_t size, uint64_t freed_until);
/* The one that ends at this address; GP_SIM_GAP_NIL: none. */
uint32_t gp_sim_gaps_before(const struct gp_sim_gaps *g, uint64_t addr);
/* Puts all of `from` into `to`. 0, or -ENOMEM with some of them still in `from`. */
int gp_sim_gaps_move(struct gp_sim_gap_store *st, struct gp_sim_gaps *from, struct gp_sim_gaps *to);

#endif
