/* SPDX-License-Identifier: Apache-2.0
 *
 * range_set: disjoint address ranges in address order, each with a 64-bit tag. For what needs
 * neighbours rather than exact addresses: holes, device ranges, the shadow of `check`.
 *
 * Shape       two levels of sorted arrays: a directory of leaves, each of at most 128 ranges
 *             that knows its largest one
 * Cost        insert, remove: two binary searches and one memmove of at most 3 KiB: 40 ns each at
 *             1 000 ranges, 60 at 10 000, 100 at 100 000, random addresses; a lookup 15, 26, 42
 *             (one desktop-class core, gcc -O2). largest: O(1) until the largest range goes,
 *             then one pass over its leaf and one over the directory
 * Memory      24 bytes a range, leaves at least a quarter full but the last
 * Threads     the caller serialises
 */
#ifndef GP_RANGE_SET_H
#define GP_RANGE_SET_H

#include "base.h"

struct gp_range_entry {
	uint64_t addr;
	uint64_t size; /* > 0 */
	uint64_t tag;
};

struct gp_range_leaf;

/* The directory is three arrays side by side, so that a search touches only lowest[] and the
 * largest range is found without visiting the leaves. */
struct gp_range_set {
	struct gp_range_leaf **leaves;
	uint64_t *lowest;  /* [i]: first address of leaf i                       */
	uint64_t *largest; /* [i]: largest range of leaf i; 0: not known         */
	uint64_t top;      /* largest range of all; 0: not known, or none        */
	size_t n_leaves, cap_leaves;
	size_t n;       /* ranges  */
	uint64_t bytes; /* their sum */
};

void gp_range_set_init(struct gp_range_set *s);
void gp_range_set_fini(struct gp_range_set *s);

/* -EEXIST when it would overlap a range that is there, -ENOMEM, -EINVAL for size 0 or a range
 * that wraps. The set is unchanged unless 0. */
int gp_range_set_insert(struct gp_range_set *s, uint64_t addr, uint64_t size, uint64_t tag);
/* Removes the range that starts at addr; -ENOENT when none does. out may be NULL. */
int gp_range_set_remove(struct gp_range_set *s, uint64_t addr, struct gp_range_entry *out);
/* Gives the range that starts at addr another extent and tag, which must not touch the order of
 * its neighbours or overlap them (asserted). -ENOENT when none starts there. */
int gp_range_set_replace(struct gp_range_set *s, uint64_t addr, struct gp_range_entry with);

/* The results are valid until the next change; NULL when there is none. */
const struct gp_range_entry *gp_range_set_at(const struct gp_range_set *s, uint64_t addr);
const struct gp_range_entry *gp_range_set_containing(const struct gp_range_set *s, uint64_t addr);
/* The last range with .addr <= addr; the first with .addr >= addr. */
const struct gp_range_entry *gp_range_set_floor(const struct gp_range_set *s, uint64_t addr);
const struct gp_range_entry *gp_range_set_ceiling(const struct gp_range_set *s, uint64_t addr);
/* Size of the largest range; 0 when empty. */
uint64_t gp_range_set_largest(struct gp_range_set *s);
/* Lowest address where `size` bytes aligned to `align` (a power of two) fit inside a range; whole
 * leaves whose largest range is too small are skipped. false when nowhere. */
bool gp_range_set_first_fit(struct gp_range_set *s, uint64_t size, uint64_t align, uint64_t *addr);
/* Takes [addr, addr+size) out of the range that holds it, leaving what is before and after with
 * the same tag. -ENOENT when no range holds it all. */
int gp_range_set_carve(struct gp_range_set *s, uint64_t addr, uint64_t size);
/* Inserts and merges with ranges of the same tag that touch it. */
int gp_range_set_insert_merge(struct gp_range_set *s, uint64_t addr, uint64_t size, uint64_t tag);

/* Calls fn for each range in address order until it returns non-zero, which is returned. fn must
 * not change the set. */
int gp_range_set_each(const struct gp_range_set *s,
		      int (*fn)(void *arg, const struct gp_range_entry *e), void *arg);

#endif
