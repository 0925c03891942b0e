/* SPDX-License-Identifier: Apache-2.0
 *
 * range_set: see the header for what it offers.
 *
 * Shape        directory  lowest[]   | 0x1000 | 0x9000 | 0xf400 | ...
 *                         largest[]  |    512 |     0? |   4096 | ...   0: look again when asked
 *              leaf       up to 128 entries {addr, size, tag}, sorted, without gaps
 * Invariants   1. every leaf has an entry; lowest[i] is the address of its first one
 *              2. entries do not overlap, within a leaf and across leaves
 *              3. largest[i] and top are 0 or exact
 *              4. leaves have at least 32 entries, but the last one and a sole one
 * Cost         search is two branch-free binary searches; a change moves on average half a leaf
 *              (1.5 KiB) and looks at no other leaf, unless one fills up or empties
 * Growth       a full leaf splits in halves; appending behind the last one starts a new leaf, so
 *              that ascending insertion fills leaves wholly. A leaf below a quarter joins its
 *              neighbour, or shares with it where the two would be too full together.
 * Not done     a search tree by size: what takes the best fit keeps its own index.
 */
#include "range_set.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAF_MAX    128
#define LEAF_MIN    (LEAF_MAX / 4)
#define LEAF_JOINED (LEAF_MAX * 3 / 4) /* join up to here: leaves room before the next split */

struct gp_range_leaf {
	unsigned n;
	struct gp_range_entry e[LEAF_MAX];
};

/* Where an entry is, or would go: before e[i] of the leaf. */
struct range_pos {
	size_t leaf;
	unsigned i;
};

void gp_range_set_init(struct gp_range_set *s)
{
	memset(s, 0, sizeof(*s));
}

void gp_range_set_fini(struct gp_range_set *s)
{
	for (size_t i = 0; i < s->n_leaves; i++)
		free(s->leaves[i]);
	free(s->leaves);
	free(s->lowest);
	free(s->largest);
	gp_range_set_init(s);
}

/* Number of entries of the leaf with .addr <= addr. */
static inline unsigned leaf_upper(const struct gp_range_leaf *leaf, uint64_t addr)
{
	const struct gp_range_entry *base = leaf->e;
	unsigned n = leaf->n;

	while (n > 1) {
		unsigned half = n / 2;

		base = base[half].addr <= addr ? base + half : base;
		n -= half;
	}
	return (unsigned)(base - leaf->e) + (n && base->addr <= addr);
}

/* The position behind the last entry with .addr <= addr. In an empty set: {0, 0}. */
static inline struct range_pos range_upper(const struct gp_range_set *s, uint64_t addr)
{
	const uint64_t *base = s->lowest;
	size_t n = s->n_leaves;
	size_t leaf;

	if (GP_UNLIKELY(!n))
		return (struct range_pos){ 0, 0 };
	while (n > 1) {
		size_t half = n / 2;

		base = base[half] <= addr ? base + half : base;
		n -= half;
	}
	leaf = (size_t)(base - s->lowest);
	return (struct range_pos){ leaf, leaf_upper(s->leaves[leaf], addr) };
}

/* The entry just before a position, which is in the same leaf by how positions are found. */
static inline struct gp_range_entry *range_before(const struct gp_range_set *s, struct range_pos p)
{
	return p.i ? &s->leaves[p.leaf]->e[p.i - 1] : NULL;
}

/* The entry just behind a position, perhaps the first of the next leaf; *at is where it is. */
static inline struct gp_range_entry *range_behind(const struct gp_range_set *s, struct range_pos p,
						  struct range_pos *at)
{
	if (GP_UNLIKELY(p.leaf >= s->n_leaves))
		return NULL;
	if (p.i == s->leaves[p.leaf]->n) {
		if (p.leaf + 1 == s->n_leaves)
			return NULL;
		p = (struct range_pos){ p.leaf + 1, 0 };
	}
	*at = p;
	return &s->leaves[p.leaf]->e[p.i];
}

static inline void range_note_size(struct gp_range_set *s, size_t leaf, uint64_t size)
{
	if (s->largest[leaf] && size > s->largest[leaf])
		s->largest[leaf] = size;
	if (s->top && size > s->top)
		s->top = size;
}

static inline void range_forget_size(struct gp_range_set *s, size_t leaf, uint64_t size)
{
	if (size == s->largest[leaf])
		s->largest[leaf] = 0;
	if (size == s->top)
		s->top = 0;
}

static int dir_reserve(struct gp_range_set *s)
{
	size_t cap = s->cap_leaves ? 2 * s->cap_leaves : 8;
	struct gp_range_leaf **leaves;
	uint64_t *words;

	if (s->n_leaves < s->cap_leaves)
		return 0;
	/* An array that has grown while another could not is merely larger than cap_leaves. */
	leaves = realloc(s->leaves, cap * sizeof(struct gp_range_leaf *));
	if (!leaves)
		return -ENOMEM;
	s->leaves = leaves;
	words = realloc(s->lowest, cap * sizeof(*words));
	if (!words)
		return -ENOMEM;
	s->lowest = words;
	words = realloc(s->largest, cap * sizeof(*words));
	if (!words)
		return -ENOMEM;
	s->largest = words;
	s->cap_leaves = cap;
	return 0;
}

/* A new leaf with no entry yet at place i of the directory; the caller fills it. */
static int dir_insert(struct gp_range_set *s, size_t i)
{
	size_t behind = s->n_leaves - i;
	struct gp_range_leaf *leaf;

	if (dir_reserve(s))
		return -ENOMEM;
	leaf = malloc(sizeof(*leaf));
	if (!leaf)
		return -ENOMEM;
	leaf->n = 0;
	memmove(&s->leaves[i + 1], &s->leaves[i], behind * sizeof(struct gp_range_leaf *));
	memmove(&s->lowest[i + 1], &s->lowest[i], behind * sizeof(s->lowest[0]));
	memmove(&s->largest[i + 1], &s->largest[i], behind * sizeof(s->largest[0]));
	s->leaves[i] = leaf;
	s->lowest[i] = 0;
	s->largest[i] = 0;
	s->n_leaves++;
	return 0;
}

static void dir_remove(struct gp_range_set *s, size_t i)
{
	size_t behind = s->n_leaves - i - 1;

	free(s->leaves[i]);
	memmove(&s->leaves[i], &s->leaves[i + 1], behind * sizeof(struct gp_range_leaf *));
	memmove(&s->lowest[i], &s->lowest[i + 1], behind * sizeof(s->lowest[0]));
	memmove(&s->largest[i], &s->largest[i + 1], behind * sizeof(s->largest[0]));
	s->n_leaves--;
}

/* Moves entries between leaf i and leaf i + 1 until the left one has n_left. */
static void leaf_share(struct gp_range_set *s, size_t i, unsigned n_left)
{
	struct gp_range_leaf *l = s->leaves[i], *r = s->leaves[i + 1];
	unsigned k;

	if (l->n > n_left) {
		k = l->n - n_left;
		memmove(&r->e[k], &r->e[0], r->n * sizeof(r->e[0]));
		memcpy(&r->e[0], &l->e[n_left], k * sizeof(r->e[0]));
		r->n += k;
	} else {
		k = n_left - l->n;
		memcpy(&l->e[l->n], &r->e[0], k * sizeof(l->e[0]));
		memmove(&r->e[0], &r->e[k], (r->n - k) * sizeof(r->e[0]));
		r->n -= k;
	}
	l->n = n_left;
	s->lowest[i] = l->e[0].addr;
	if (r->n)
		s->lowest[i + 1] = r->e[0].addr;
	s->largest[i] = 0;
	s->largest[i + 1] = 0;
}

/* Makes sure that the leaf at *p takes one more entry. May move *p to another leaf. */
static int range_make_room(struct gp_range_set *s, struct range_pos *p)
{
	unsigned half = LEAF_MAX / 2;

	if (GP_UNLIKELY(!s->n_leaves))
		return dir_insert(s, 0);
	if (GP_LIKELY(s->leaves[p->leaf]->n < LEAF_MAX))
		return 0;
	if (dir_insert(s, p->leaf + 1))
		return -ENOMEM;
	if (p->leaf + 2 == s->n_leaves && p->i == LEAF_MAX) {
		*p = (struct range_pos){ p->leaf + 1, 0 };
		return 0;
	}
	leaf_share(s, p->leaf, half);
	if (p->i > half)
		*p = (struct range_pos){ p->leaf + 1, p->i - half };
	return 0;
}

/* Puts e where there is room for it. */
static void range_put(struct gp_range_set *s, struct range_pos p, struct gp_range_entry e)
{
	struct gp_range_leaf *leaf = s->leaves[p.leaf];
	bool sole = leaf->n == 0;

	memmove(&leaf->e[p.i + 1], &leaf->e[p.i], (leaf->n - p.i) * sizeof(e));
	leaf->e[p.i] = e;
	leaf->n++;
	if (!p.i)
		s->lowest[p.leaf] = e.addr;
	if (sole)
		s->largest[p.leaf] = e.size;
	range_note_size(s, p.leaf, e.size);
	s->n++;
	s->bytes += e.size;
}

/* A leaf has become small: joins it to a neighbour, or shares with one. */
static GP_NOINLINE void leaf_refill(struct gp_range_set *s, size_t i)
{
	unsigned both;

	if (!s->leaves[i]->n) {
		dir_remove(s, i);
		return;
	}
	if (s->n_leaves == 1)
		return;
	if (i + 1 == s->n_leaves)
		i--;
	both = s->leaves[i]->n + s->leaves[i + 1]->n;
	if (both > LEAF_JOINED) {
		leaf_share(s, i, both / 2);
	} else {
		leaf_share(s, i, both);
		dir_remove(s, i + 1);
	}
}

static void range_take(struct gp_range_set *s, struct range_pos p)
{
	struct gp_range_leaf *leaf = s->leaves[p.leaf];

	s->n--;
	s->bytes -= leaf->e[p.i].size;
	range_forget_size(s, p.leaf, leaf->e[p.i].size);
	leaf->n--;
	memmove(&leaf->e[p.i], &leaf->e[p.i + 1], (leaf->n - p.i) * sizeof(leaf->e[0]));
	if (!p.i && leaf->n)
		s->lowest[p.leaf] = leaf->e[0].addr;
	if (GP_UNLIKELY(leaf->n < LEAF_MIN))
		leaf_refill(s, p.leaf);
}

/* Gives the entry at p another extent, between the same neighbours. */
static void range_change(struct gp_range_set *s, struct range_pos p, struct gp_range_entry with)
{
	struct gp_range_entry *e = &s->leaves[p.leaf]->e[p.i];

	s->bytes += with.size - e->size;
	if (with.size < e->size)
		range_forget_size(s, p.leaf, e->size);
	*e = with;
	if (!p.i)
		s->lowest[p.leaf] = with.addr;
	range_note_size(s, p.leaf, with.size);
}

static inline bool range_wraps(uint64_t addr, uint64_t size)
{
	return addr + size < addr;
}

/* 0 when [addr, addr+size) is a range and free; *p is where it goes. */
static inline int range_place(const struct gp_range_set *s, uint64_t addr, uint64_t size,
			      struct range_pos *p)
{
	const struct gp_range_entry *l, *r;
	struct range_pos at;

	if (GP_UNLIKELY(!size || range_wraps(addr, size)))
		return -EINVAL;
	*p = range_upper(s, addr);
	l = range_before(s, *p);
	if (l && l->addr + l->size > addr)
		return -EEXIST;
	r = range_behind(s, *p, &at);
	return r && r->addr < addr + size ? -EEXIST : 0;
}

int gp_range_set_insert(struct gp_range_set *s, uint64_t addr, uint64_t size, uint64_t tag)
{
	struct range_pos p;
	int r = range_place(s, addr, size, &p);

	if (!r)
		r = range_make_room(s, &p);
	if (!r)
		range_put(s, p, (struct gp_range_entry){ addr, size, tag });
	return r;
}

/* Where the entry that starts at addr is. */
static inline bool range_find(const struct gp_range_set *s, uint64_t addr, struct range_pos *p)
{
	const struct gp_range_entry *e;

	*p = range_upper(s, addr);
	e = range_before(s, *p);
	if (!e || e->addr != addr)
		return false;
	p->i--;
	return true;
}

int gp_range_set_remove(struct gp_range_set *s, uint64_t addr, struct gp_range_entry *out)
{
	struct range_pos p;

	if (!range_find(s, addr, &p))
		return -ENOENT;
	if (out)
		*out = s->leaves[p.leaf]->e[p.i];
	range_take(s, p);
	return 0;
}

int gp_range_set_replace(struct gp_range_set *s, uint64_t addr, struct gp_range_entry with)
{
	struct range_pos p, at;
	const struct gp_range_entry *prev, *next;

	if (!range_find(s, addr, &p))
		return -ENOENT;
	assert(with.size && !range_wraps(with.addr, with.size));
	prev = p.i      ? &s->leaves[p.leaf]->e[p.i - 1]
	       : p.leaf ? &s->leaves[p.leaf - 1]->e[s->leaves[p.leaf - 1]->n - 1]
			: NULL;
	next = range_behind(s, (struct range_pos){ p.leaf, p.i + 1 }, &at);
	assert(!prev || prev->addr + prev->size <= with.addr);
	assert(!next || with.addr + with.size <= next->addr);
	(void)prev;
	(void)next;
	range_change(s, p, with);
	return 0;
}

const struct gp_range_entry *gp_range_set_at(const struct gp_range_set *s, uint64_t addr)
{
	const struct gp_range_entry *e = gp_range_set_floor(s, addr);

	return e && e->addr == addr ? e : NULL;
}

const struct gp_range_entry *gp_range_set_containing(const struct gp_range_set *s, uint64_t addr)
{
	const struct gp_range_entry *e = gp_range_set_floor(s, addr);

	return e && addr - e->addr < e->size ? e : NULL;
}

const struct gp_range_entry *gp_range_set_floor(const struct gp_range_set *s, uint64_t addr)
{
	return range_before(s, range_upper(s, addr));
}

const struct gp_range_entry *gp_range_set_ceiling(const struct gp_range_set *s, uint64_t addr)
{
	struct range_pos p = range_upper(s, addr), at;
	const struct gp_range_entry *e = range_before(s, p);

	return e && e->addr == addr ? e : range_behind(s, p, &at);
}

/* Largest range of a leaf, looked for again when it is not known. */
static inline uint64_t leaf_largest(struct gp_range_set *s, size_t i)
{
	const struct gp_range_leaf *leaf = s->leaves[i];
	uint64_t max = s->largest[i];

	if (GP_LIKELY(max))
		return max;
	for (unsigned k = 0; k < leaf->n; k++)
		max = gp_max_u64(max, leaf->e[k].size);
	s->largest[i] = max;
	return max;
}

uint64_t gp_range_set_largest(struct gp_range_set *s)
{
	uint64_t max = s->top;

	if (max)
		return max;
	for (size_t i = 0; i < s->n_leaves; i++)
		max = gp_max_u64(max, leaf_largest(s, i));
	s->top = max;
	return max;
}

/* The aligned start inside e, if size bytes fit behind it. */
static inline bool entry_fits(const struct gp_range_entry *e, uint64_t size, uint64_t align,
			      uint64_t *addr)
{
	uint64_t skip = (0 - e->addr) & (align - 1);

	if (e->size < size || e->size - size < skip)
		return false;
	*addr = e->addr + skip;
	return true;
}

bool gp_range_set_first_fit(struct gp_range_set *s, uint64_t size, uint64_t align, uint64_t *addr)
{
	for (size_t i = 0; i < s->n_leaves; i++) {
		const struct gp_range_leaf *leaf = s->leaves[i];

		if (leaf_largest(s, i) < size)
			continue;
		for (unsigned k = 0; k < leaf->n; k++) {
			if (entry_fits(&leaf->e[k], size, align, addr))
				return true;
		}
	}
	return false;
}

int gp_range_set_carve(struct gp_range_set *s, uint64_t addr, uint64_t size)
{
	struct range_pos p = range_upper(s, addr);
	const struct gp_range_entry *found = range_before(s, p);
	struct gp_range_entry e;
	uint64_t before, after;

	if (!found || !size || addr - found->addr >= found->size ||
	    size > found->size - (addr - found->addr))
		return -ENOENT;
	e = *found;
	before = addr - e.addr;
	after = e.size - before - size;
	if (before && after) {
		if (range_make_room(s, &p))
			return -ENOMEM;
		range_put(s, p, (struct gp_range_entry){ addr + size, after, e.tag });
		p = range_upper(s, addr);
	}
	p.i--;
	if (before)
		range_change(s, p, (struct gp_range_entry){ e.addr, before, e.tag });
	else if (after)
		range_change(s, p, (struct gp_range_entry){ addr + size, after, e.tag });
	else
		range_take(s, p);
	return 0;
}

int gp_range_set_insert_merge(struct gp_range_set *s, uint64_t addr, uint64_t size, uint64_t tag)
{
	struct range_pos p, at = { 0, 0 };
	struct gp_range_entry *l, *r, joined;
	int err = range_place(s, addr, size, &p);

	if (err)
		return err;
	l = range_before(s, p);
	r = range_behind(s, p, &at);
	if (l && (l->tag != tag || l->addr + l->size != addr))
		l = NULL;
	if (r && (r->tag != tag || r->addr != addr + size))
		r = NULL;
	if (!l && !r) {
		err = range_make_room(s, &p);
		if (!err)
			range_put(s, p, (struct gp_range_entry){ addr, size, tag });
		return err;
	}
	joined.addr = l ? l->addr : addr;
	joined.size = size + (l ? l->size : 0) + (r ? r->size : 0);
	joined.tag = tag;
	if (!l) {
		range_change(s, at, joined);
		return 0;
	}
	if (r) {
		/* The leaves may have moved with it: look again. */
		range_take(s, at);
		p = range_upper(s, addr);
	}
	p.i--;
	range_change(s, p, joined);
	return 0;
}

int gp_range_set_each(const struct gp_range_set *s,
		      int (*fn)(void *arg, const struct gp_range_entry *e), void *arg)
{
	for (size_t i = 0; i < s->n_leaves; i++) {
		const struct gp_range_leaf *leaf = s->leaves[i];

		for (unsigned k = 0; k < leaf->n; k++) {
			int r = fn(arg, &leaf->e[k]);

			if (r)
				return r;
		}
	}
	return 0;
}
