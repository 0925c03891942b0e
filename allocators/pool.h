/* SPDX-License-Identifier: Apache-2.0
 *
 * pool: how a pool gets memory and gives it back. One growth policy that every pool embeds:
 *
 *   grow=vmm       one reserved address range as large as the card, mapped on demand: what is
 *                  mapped side by side is one piece, so a pool never fragments between chunks
 *   grow=chunk     separate reservations of at least `chunk` bytes
 *   grow=prealloc  one reservation of `initial` bytes at the start, never more
 *
 * A tier inside another allocator has `a->inner`: then chunks are blocks of that allocator and
 * `grow` does not matter. Growth rounds up (to `chunk`, to a page); where that does not fit, the
 * exact size is tried.
 *
 * A pool asks for a range, cuts it up, and may put whole ranges back when they are free.
 */
#ifndef GP_POOL_H
#define GP_POOL_H

#include "allocator.h"
#include "range_set.h"

enum gp_grow {
	GP_GROW_VMM,
	GP_GROW_CHUNK,
	GP_GROW_PREALLOC,
};

/* What a pool knows of streams. IGNORE puts all memory on one timeline: no memory is held back, so
 * it shows about what the rule costs (not a strict bound: other choices of holes may turn out better
 * or worse), and it is wrong for a program with several streams. */
enum gp_stream_rule {
	GP_STREAMS_RULE,
	GP_STREAMS_IGNORE,
};

/* What the user sets. */
struct gp_pool_options {
	unsigned grow;    /* enum gp_grow; vmm becomes chunk on a device without it */
	unsigned streams; /* enum gp_stream_rule                                    */
	uint64_t chunk;   /* bytes: least growth; 0: grows by a share               */
	uint64_t initial; /* bytes: prealloc's size, of all arenas together; 0: half of the
			   * free memory */
};

struct gp_pool {
	struct gp_pool_options opt;
	struct gp_allocator *a;
	struct gp_range_set ranges; /* what is held; tag: the mapping's handle (vmm), or the
				     * stream it was asked for on (tier)             */
	struct gp_range_set holes;  /* vmm: what is not mapped, as offsets in `va`   */
	struct gp_range va;         /* vmm: the address range                        */
	struct gp_range unused;     /* prealloc: not handed to the allocator yet     */
	uint64_t page;              /* granularity of growth; a power of two         */
	uint64_t reserved_bytes;
};

extern const char *const gp_grow_choices[], *const gp_stream_rule_choices[];

/* clang-format off: a list with its commas, not a statement */

/* The options above, for an allocator's table: `owner` is its state, `member` its
 * struct gp_pool_options. */
#define GP_POOL_OPTIONS(owner, member)                                                             \
	{ .name = "grow",                                                                          \
	  .help = "where memory comes from",                                                       \
	  .type = GP_OPTION_CHOICE,                                                                \
	  .offset = offsetof(owner, member.grow),                                                  \
	  .default_text = "vmm",                                                                   \
	  .choices = gp_grow_choices },                                                            \
		{ .name = "initial",                                                               \
		  .help = "size of grow=prealloc (0: half of the free memory)",                    \
		  .type = GP_OPTION_SIZE,                                                          \
		  .offset = offsetof(owner, member.initial),                                       \
		  .default_text = "0",                                                             \
		  .max = GP_SIZE_MAX },                                                            \
	{                                                                                          \
		.name = "streams",                                                                 \
		.help = "ignore: reuse across streams at once (shows what the rule costs)",        \
		.type = GP_OPTION_CHOICE, .offset = offsetof(owner, member.streams),               \
		.default_text = "rule", .choices = gp_stream_rule_choices                          \
	}

/* Least growth; apart, because an allocator may know it by another name (buddy: arena). */
#define GP_POOL_CHUNK_OPTION(owner, member, option_name)                                           \
	{                                                                                          \
		.name = option_name,                                                               \
		.help = "least growth (0: a 128th of what is held, to 64 MiB)",                    \
		.type = GP_OPTION_SIZE, .offset = offsetof(owner, member), .default_text = "0",    \
		.max = GP_SIZE_MAX                                                                 \
	}

/* clang-format on */

/* The text that gives another allocator these options: "NAME:grow=...", ready for more pairs after
 * a comma. What `chunk` is called there is chunk_name. */
void gp_pool_spec(const struct gp_pool_options *opt, const char *name, const char *chunk_name,
		  char *out, size_t out_size);
/* GP_NOMEM when the preallocation does not fit. */
int gp_pool_init(struct gp_pool *p, struct gp_allocator *a);
/* Gives back everything that is held. */
void gp_pool_fini(struct gp_pool *p);
/* How much to grow by for a request that needs `size`: `chunk` if that is larger, a multiple of
 * the page. The caller may round further up, and passes the result to get. */
uint64_t gp_pool_growth(const struct gp_pool *p, uint64_t size);
/* A new range of `want` bytes, or where that does not fit of at least `need` (both multiples of
 * the page; a tier gives what its parent grants). align: a power of two; under vmm the range's
 * offset in `va` is a multiple of it, elsewhere align above the page is not kept. stream: the
 * one that will use it. GP_NOMEM, or -errno. */
int gp_pool_get(struct gp_pool *p, uint64_t want, uint64_t need, uint64_t align, uint32_t stream,
		struct gp_range *out);
/* vmm only: the same at exactly `addr`, the end of what is mapped before it. */
int gp_pool_get_at(struct gp_pool *p, uint64_t addr, uint64_t size, struct gp_range *out);
/* Returns a range that get gave. Under vmm the device must have been synchronised since its last
 * use (cudaFree does that itself; cuMemUnmap does not). A driver's fault is returned; the range is
 * gone all the same. */
int gp_pool_put(struct gp_pool *p, uint64_t addr);
/* The first range held that starts at or after `from` and ends at or before `end`, of those that
 * may be put; false: none. */
bool gp_pool_range_within(const struct gp_pool *p, uint64_t from, uint64_t end,
			  struct gp_range *out);
/* Do ranges at adjoining addresses form one piece? */
static inline bool gp_pool_joins(const struct gp_pool *p)
{
	return p->opt.grow == GP_GROW_VMM;
}

/* The stream that the pool goes by. */
static inline uint32_t gp_pool_stream(const struct gp_pool *p, uint32_t stream)
{
	return p->opt.streams == GP_STREAMS_IGNORE ? 0 : stream;
}

#endif
