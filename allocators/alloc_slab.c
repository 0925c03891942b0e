/* SPDX-License-Identifier: Apache-2.0
 *
 * slab: one cache for each object size, cut from slabs of the parent (J. Bonwick, "The slab
 * allocator: an object-caching kernel memory allocator", USENIX Summer 1994).
 *
 * Shape        cache (object size) x stream:   partial -> slab -> slab
 *                                              full    -> slab
 *                                              empty   -> slab        at most keep_empty
 *
 *              slab   |colour|obj|obj|obj|obj| slack |    free: bitmap, lowest address first
 *
 *              A slab is slab_size bytes, aligned to slab_size, so an address finds its slab by
 *              its upper bits. A slab belongs to the stream it was made for. Requests above
 *              max_object go to the parent: an allocator of its own here, the tier above in
 *              `hybrid`.
 * Invariants   1. a slab is in the list that its number of free objects says   2. bitmap and count
 *              agree   3. the totals are the sums             -> slab_check() tests each
 * Cost         alloc, free: O(1): two find-first-set, one hash lookup on free; 48 bytes and one bit
 *              an object for each slab
 * Waste        internal < 1/classes; external: each cache keeps what is free in its own slabs, and
 *              one survivor keeps a slab
 * Not done     taking single objects over from another stream's slab: an empty slab goes through
 *              the parent, which knows how
 * Threads      one at a time
 */
#include "addr_index.h"
#include "fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLAB_NIL         0  /* record 0 is never used */
#define SLAB_LG_OBJECTS  12 /* objects in a slab: 64 words of 64 bits, of which a word tells */
#define SLAB_MAX_CLASSES 128

enum slab_list {
	SLAB_PARTIAL,
	SLAB_FULL,
	SLAB_EMPTY,
	SLAB_LISTS,
};

static const char *const slab_parent_choices[] = { "segregated", "buddy", NULL };

struct slab_record {
	uint64_t addr;   /* 0: record not in use */
	uint64_t words;  /* which words of `free` are not 0 */
	uint32_t colour; /* bytes before the first object */
	uint32_t prev, next;
	uint16_t n_free;
	uint16_t stream;
	uint8_t cache;
	uint8_t list; /* enum slab_list */
};

/* Lists of one cache on one stream. */
struct slab_lists {
	uint32_t head[SLAB_LISTS];
	uint32_t n_empty;
};

struct slab_cache {
	uint64_t object;          /* bytes */
	uint64_t magic;           /* divides by it, in units of GP_ALIGN */
	uint32_t n;               /* objects in a slab */
	uint32_t colour;          /* of the next slab */
	struct slab_lists *lists; /* [stream] */
};

struct slab {
	uint64_t max_object, classes, slab_size, keep_empty;
	bool colour;
	unsigned parent_choice;
	struct gp_pool_options opt;

	struct gp_allocator *parent, *own_parent;
	struct gp_fit *fit; /* the parent's, for what goes straight there; NULL: it has none */
	struct slab_cache caches[SLAB_MAX_CLASSES];
	unsigned n_caches;
	uint8_t *cache_of;          /* [units of GP_ALIGN, rounded up] */
	uint32_t n_streams;         /* that every cache has lists for */
	struct gp_addr_index index; /* addr / slab_size -> record */
	struct slab_record *slabs;
	uint64_t *free; /* [record * n_words] 1: free */
	unsigned n_words, lg_slab;
	uint32_t n, cap, unused;
	uint64_t n_slabs, live, granted_bytes;
};

/* ---- lists ---- */

static struct slab_lists *slab_lists_of(struct slab *s, const struct slab_record *r)
{
	return &s->caches[r->cache].lists[r->stream];
}

static void slab_push(struct slab *s, uint32_t i, enum slab_list list)
{
	struct slab_record *r = &s->slabs[i];
	struct slab_lists *lists = slab_lists_of(s, r);

	r->list = (uint8_t)list;
	r->prev = SLAB_NIL;
	r->next = lists->head[list];
	s->slabs[r->next].prev = i;
	lists->head[list] = i;
	lists->n_empty += list == SLAB_EMPTY;
}

static void slab_unlink(struct slab *s, uint32_t i)
{
	struct slab_record *r = &s->slabs[i];
	struct slab_lists *lists = slab_lists_of(s, r);

	s->slabs[r->next].prev = r->prev;
	if (r->prev)
		s->slabs[r->prev].next = r->next;
	else
		lists->head[r->list] = r->next;
	lists->n_empty -= r->list == SLAB_EMPTY;
}

static void slab_move(struct slab *s, uint32_t i, enum slab_list list)
{
	slab_unlink(s, i);
	slab_push(s, i, list);
}

/* ---- slabs ---- */

static int slab_room(struct slab *s)
{
	uint32_t cap = s->cap ? 2 * s->cap : 64;
	struct slab_record *slabs;
	uint64_t *bits;

	if (s->unused || s->n < s->cap)
		return gp_addr_index_reserve(&s->index, 1);
	slabs = realloc(s->slabs, cap * sizeof(*slabs));
	if (!slabs)
		return -ENOMEM;
	s->slabs = slabs;
	bits = realloc(s->free, (size_t)cap * s->n_words * sizeof(*bits));
	if (!bits)
		return -ENOMEM;
	s->free = bits;
	s->cap = cap;
	return gp_addr_index_reserve(&s->index, 1);
}

/* All objects free. */
static void slab_fill(struct slab *s, uint32_t i)
{
	const struct slab_cache *c = &s->caches[s->slabs[i].cache];
	uint64_t *bits = &s->free[(size_t)i * s->n_words];

	s->slabs[i].words = 0;
	s->slabs[i].n_free = (uint16_t)c->n;
	for (uint32_t w = 0; w * 64 < c->n; w++) {
		uint32_t left = c->n - w * 64;

		bits[w] = left >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1;
		s->slabs[i].words |= UINT64_C(1) << w;
	}
}

/* Successive slabs start their objects at different offsets, as far as the slack goes, so that
 * equal objects of different slabs don't all fall on the same memory channels. */
static uint32_t slab_next_colour(struct slab *s, struct slab_cache *c)
{
	uint32_t colour = c->colour;

	if (!s->colour)
		return 0;
	c->colour += (uint32_t)GP_ALIGN;
	if (c->colour + c->n * c->object > s->slab_size)
		c->colour = 0;
	return colour;
}

static int slab_new(struct slab *s, unsigned cache, uint16_t stream, uint32_t *out)
{
	struct gp_request req = { .size = s->slab_size,
				  .stream = stream,
				  .lg_align = (uint8_t)s->lg_slab };
	struct gp_block block;
	int r = slab_room(s);
	uint32_t i;

	if (r)
		return r;
	r = gp_alloc(s->parent, &req, &block);
	if (r)
		return r;
	i = s->unused;
	if (i)
		s->unused = s->slabs[i].next;
	else
		i = s->n++;
	s->slabs[i] = (struct slab_record){ .addr = block.addr,
					    .stream = stream,
					    .cache = (uint8_t)cache,
					    .colour = slab_next_colour(s, &s->caches[cache]) };
	slab_fill(s, i);
	gp_addr_index_add(&s->index, block.addr >> s->lg_slab, i);
	s->n_slabs++;
	slab_push(s, i, SLAB_PARTIAL);
	*out = i;
	return 0;
}

/* Gives an empty slab, in no list, to the parent. */
static int slab_return(struct slab *s, uint32_t i)
{
	uint64_t addr = s->slabs[i].addr;

	gp_addr_index_remove(&s->index, addr >> s->lg_slab);
	s->slabs[i].addr = 0;
	s->slabs[i].next = s->unused;
	s->unused = i;
	s->n_slabs--;
	return gp_free(s->parent, addr);
}

static int slab_return_empty(struct slab *s)
{
	int r = 0;

	for (unsigned c = 0; c < s->n_caches; c++)
		for (uint32_t stream = 0; stream < s->n_streams && !r; stream++) {
			uint32_t *head = &s->caches[c].lists[stream].head[SLAB_EMPTY];

			while (*head && !r) {
				uint32_t i = *head;

				slab_unlink(s, i);
				r = slab_return(s, i);
			}
		}
	return r;
}

/* ---- alloc and free ---- */

/* No partial slab on this stream: an empty one, a new one, or a new one after every empty one went
 * back to the parent. */
static GP_NOINLINE int slab_obtain(struct slab *s, unsigned cache, uint16_t stream, uint32_t *out)
{
	const struct slab_cache *c = &s->caches[cache];
	int r;

	*out = c->lists[stream].head[SLAB_EMPTY];
	if (*out) {
		slab_move(s, *out, SLAB_PARTIAL);
		return 0;
	}
	r = slab_new(s, cache, stream, out);
	if (r > 0) {
		r = slab_return_empty(s);
		if (!r)
			r = slab_new(s, cache, stream, out);
	}
	for (uint32_t other = 0; r == GP_NOMEM && other < s->n_streams; other++)
		if (c->lists[other].head[SLAB_PARTIAL])
			return GP_HELD;
	return r;
}

static GP_NOINLINE int slab_new_stream(struct slab *s, uint32_t stream)
{
	if (stream >= UINT16_MAX)
		return -E2BIG;
	for (unsigned c = 0; c < s->n_caches; c++) {
		struct slab_lists *lists =
			realloc(s->caches[c].lists, (stream + 1) * sizeof(*lists));

		if (!lists)
			return -ENOMEM;
		memset(lists + s->n_streams, 0, (stream + 1 - s->n_streams) * sizeof(*lists));
		s->caches[c].lists = lists;
	}
	s->n_streams = stream + 1;
	return 0;
}

static int slab_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct slab *s = gp_state(a);
	uint32_t stream = s->opt.streams == GP_STREAMS_IGNORE ? 0 : req->stream, i;
	unsigned cache, w, bit;
	struct slab_record *r;
	uint64_t *word;
	int err;

	if (req->size > s->max_object || GP_UNLIKELY(req->lg_align > gp_floor_log2(GP_ALIGN)))
		return s->fit ? gp_fit_alloc(s->fit, req, out) : gp_alloc(s->parent, req, out);
	err = GP_LIKELY(stream < s->n_streams) ? 0 : slab_new_stream(s, stream);
	if (GP_UNLIKELY(err))
		return err;
	cache = s->cache_of[(req->size + GP_ALIGN - 1) / GP_ALIGN];
	i = s->caches[cache].lists[stream].head[SLAB_PARTIAL];
	if (GP_UNLIKELY(!i)) {
		err = slab_obtain(s, cache, (uint16_t)stream, &i);
		if (err)
			return err;
	}
	r = &s->slabs[i];
	w = gp_lowest_bit(r->words);
	word = &s->free[(size_t)i * s->n_words + w];
	bit = gp_lowest_bit(*word);
	*word &= *word - 1;
	if (!*word)
		r->words &= r->words - 1;
	if (!--r->n_free)
		slab_move(s, i, SLAB_FULL);
	s->live++;
	s->granted_bytes += s->caches[cache].object;
	*out = (struct gp_block){ r->addr + r->colour + (w * 64 + bit) * s->caches[cache].object,
				  s->caches[cache].object };
	return 0;
}

/* A slab got its last object back. */
static int slab_emptied(struct slab *s, uint32_t i)
{
	slab_unlink(s, i);
	if (slab_lists_of(s, &s->slabs[i])->n_empty >= s->keep_empty)
		return slab_return(s, i);
	slab_push(s, i, SLAB_EMPTY);
	return 0;
}

static int slab_free(struct gp_allocator *a, uint64_t addr)
{
	struct slab *s = gp_state(a);
	uint32_t i = gp_addr_index_find(&s->index, addr >> s->lg_slab);
	const struct slab_cache *c;
	uint64_t offset, n, *word;
	struct slab_record *r;

	if (i == GP_INDEX_NONE)
		return s->fit ? gp_fit_free_at(s->fit, addr) : gp_free(s->parent, addr);
	r = &s->slabs[i];
	c = &s->caches[r->cache];
	offset = addr - r->addr - r->colour;
	n = gp_divide(offset / GP_ALIGN, c->magic);
	if (GP_UNLIKELY(addr - r->addr < r->colour || n * c->object != offset || n >= c->n))
		return -EINVAL;
	word = &s->free[(size_t)i * s->n_words + n / 64];
	if (GP_UNLIKELY(*word >> (n % 64) & 1))
		return -EALREADY;
	*word |= UINT64_C(1) << (n % 64);
	r->words |= UINT64_C(1) << (n / 64);
	s->live--;
	s->granted_bytes -= c->object;
	if (++r->n_free == c->n)
		return slab_emptied(s, i);
	if (r->n_free == 1)
		slab_move(s, i, SLAB_PARTIAL);
	return 0;
}

/* ---- the other hooks ---- */

static int slab_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	struct slab *s = gp_state(a);
	uint64_t before = s->n_slabs;
	int r = slab_return_empty(s);

	if (s->own_parent)
		return r ? r : gp_trim(s->own_parent, keep, released);
	*released += (before - s->n_slabs) * s->slab_size;
	return r;
}

static void slab_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	const struct slab *s = gp_state(a);
	uint64_t slabs = s->n_slabs * s->slab_size;

	*out = (struct gp_usage){ s->live, s->granted_bytes, slabs, 0 };
	if (s->own_parent) {
		struct gp_usage p;

		gp_usage(s->own_parent, &p);
		out->live_blocks += p.live_blocks - s->n_slabs;
		out->granted_bytes += p.granted_bytes - slabs;
		out->reserved_bytes = p.reserved_bytes;
		out->event_waits = p.event_waits;
	}
}

static enum slab_list slab_list_for(const struct slab_cache *c, const struct slab_record *r)
{
	return r->n_free == c->n ? SLAB_EMPTY : r->n_free ? SLAB_PARTIAL : SLAB_FULL;
}

static int slab_check_one(const struct slab *s, uint32_t i, FILE *why)
{
	const struct slab_record *r = &s->slabs[i];
	const struct slab_cache *c = &s->caches[r->cache];
	uint64_t n_free = 0, words = 0;
	const char *what = NULL;

	for (unsigned w = 0; w * 64 < c->n; w++) {
		uint64_t bits = s->free[(size_t)i * s->n_words + w];

		words |= (uint64_t)(bits != 0) << w;
		for (; bits; bits &= bits - 1)
			n_free++;
	}
	if (n_free != r->n_free || words != r->words)
		what = "miscounts its free objects";
	else if (r->list != slab_list_for(c, r) && !(r->list == SLAB_PARTIAL && r->n_free))
		what = "is in the wrong list";
	else if (gp_addr_index_find(&s->index, r->addr >> s->lg_slab) != i)
		what = "is not in the index";
	if (!what)
		return 0;
	fprintf(why, "slab: slab %#llx of %llu-byte objects %s\n", (unsigned long long)r->addr,
		(unsigned long long)c->object, what);
	return -EILSEQ;
}

static int slab_check(const struct gp_allocator *a, FILE *why)
{
	const struct slab *s = gp_state(a);
	uint64_t live = 0, granted = 0, slabs = 0;
	int r = 0;

	for (uint32_t i = 1; i < s->n && !r; i++) {
		const struct slab_record *rec = &s->slabs[i];
		uint64_t used;

		if (!rec->addr)
			continue;
		used = s->caches[rec->cache].n - rec->n_free;
		live += used;
		granted += used * s->caches[rec->cache].object;
		slabs++;
		r = slab_check_one(s, i, why);
	}
	if (!r && (live != s->live || granted != s->granted_bytes || slabs != s->n_slabs)) {
		fprintf(why, "slab: %llu objects in %llu slabs, totals say %llu in %llu\n",
			(unsigned long long)live, (unsigned long long)slabs,
			(unsigned long long)s->live, (unsigned long long)s->n_slabs);
		r = -EILSEQ;
	}
	return r || !s->own_parent ? r : gp_check(s->own_parent, why);
}

static void slab_fini(struct gp_allocator *a)
{
	struct slab *s = gp_state(a);

	for (uint32_t i = 1; !s->own_parent && i < s->n; i++)
		if (s->slabs[i].addr)
			gp_free(s->parent, s->slabs[i].addr);
	gp_allocator_destroy(s->own_parent);
	for (unsigned c = 0; c < s->n_caches; c++)
		free(s->caches[c].lists);
	gp_addr_index_fini(&s->index);
	free(s->cache_of);
	free(s->slabs);
	free(s->free);
}

/* Object sizes: multiples of GP_ALIGN, `classes` in each doubling where that is coarser. */
static int slab_make_caches(struct slab *s)
{
	uint64_t object = GP_ALIGN, units = s->max_object / GP_ALIGN, next = 1;

	s->cache_of = malloc(units + 1);
	if (!s->cache_of)
		return -ENOMEM;
	s->cache_of[0] = 0;
	while (next <= units) {
		struct slab_cache *c = &s->caches[s->n_caches];
		uint64_t step = (UINT64_C(1) << gp_floor_log2(object)) / s->classes;

		c->object = object;
		c->magic = gp_divide_magic(object / GP_ALIGN);
		c->n = (uint32_t)(s->slab_size / object);
		while (next <= object / GP_ALIGN)
			s->cache_of[next++] = (uint8_t)s->n_caches;
		s->n_caches++;
		object = gp_min_u64(object + gp_max_u64(step, GP_ALIGN), s->max_object);
	}
	return 0;
}

static int slab_make_parent(struct gp_allocator *a)
{
	struct slab *s = gp_state(a);
	const char *name = slab_parent_choices[s->parent_choice];
	struct gp_env env = a->env;
	char spec[256];

	s->parent = a->inner;
	if (s->parent)
		return 0;
	env.threads = 1; /* only called from here */
	gp_pool_spec(&s->opt, name, s->parent_choice ? "arena" : "chunk", spec, sizeof(spec));
	int r = gp_allocator_create(spec, a->dev, &env, &s->own_parent, a->why, sizeof(a->why));

	s->parent = s->own_parent;
	return r;
}

static int slab_init(struct gp_allocator *a)
{
	struct slab *s = gp_state(a);
	int r;

	s->lg_slab = gp_floor_log2(s->slab_size);
	s->max_object = gp_align_up(s->max_object, GP_ALIGN);
	s->n_words = (unsigned)gp_max_u64(1, s->slab_size / GP_ALIGN / 64);
	s->n = 1;
	if (s->max_object > s->slab_size / 2)
		return gp_allocator_why(
			a, -EINVAL, "max_object=%llu: expected at most half of slab=%llu",
			(unsigned long long)s->max_object, (unsigned long long)s->slab_size);
	r = slab_make_parent(a);
	if (r)
		return r;
	s->fit = gp_fit_in(s->parent);
	r = gp_addr_index_init(&s->index);
	if (!r)
		r = slab_make_caches(s);
	if (!r)
		r = slab_new_stream(s, 0);
	if (!r)
		r = slab_room(s);
	if (r)
		slab_fini(a);
	return r;
}

static const struct gp_option slab_options[] = {
	{ .name = "max_object",
	  .help = "largest object; above it requests go to the parent",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct slab, max_object),
	  .default_text = "32K",
	  .min = GP_ALIGN,
	  .max = 512 * GP_KIB },
	{ .name = "classes",
	  .help = "object sizes in each doubling",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct slab, classes),
	  .default_text = "4",
	  .min = 1,
	  .max = 8,
	  .pow2 = true },
	{ .name = "slab",
	  .help = "bytes of a slab",
	  .type = GP_OPTION_SIZE,
	  .offset = offsetof(struct slab, slab_size),
	  .default_text = "256K",
	  .min = 4 * GP_KIB,
	  .max = GP_ALIGN << SLAB_LG_OBJECTS,
	  .pow2 = true },
	{ .name = "keep_empty",
	  .help = "empty slabs each cache keeps on each stream",
	  .type = GP_OPTION_COUNT,
	  .offset = offsetof(struct slab, keep_empty),
	  .default_text = "1",
	  .max = 1024 },
	{ .name = "colour",
	  .help = "start objects at another offset in each slab",
	  .type = GP_OPTION_BOOL,
	  .offset = offsetof(struct slab, colour),
	  .default_text = "false" },
	{ .name = "parent",
	  .help = "where slabs and large requests come from",
	  .type = GP_OPTION_CHOICE,
	  .offset = offsetof(struct slab, parent_choice),
	  .default_text = "segregated",
	  .choices = slab_parent_choices },
	GP_POOL_CHUNK_OPTION(struct slab, opt.chunk, "chunk"),
	GP_POOL_OPTIONS(struct slab, opt),
	{ .name = NULL },
};

const struct gp_allocator_ops gp_slab_ops = {
	.name = "slab",
	.summary = "one cache for each object size, over a parent for slabs and large blocks",
	.caps = GP_CAP_ANY_SIZE | GP_CAP_COALESCES | GP_CAP_GROWS | GP_CAP_TIER | GP_CAP_ARENAS,
	.state_size = sizeof(struct slab),
	.options = slab_options,
	.init = slab_init,
	.fini = slab_fini,
	.alloc = slab_alloc,
	.free = slab_free,
	.usage = slab_usage,
	.check = slab_check,
	.trim = slab_trim,
};
