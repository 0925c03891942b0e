/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate_steps: the loops that call the driver.
 *
 * Variants     .first   the first call of a size in this process
 *              .held    many live at once: allocations up to half of the memory or a thousand, then
 *                       their frees, after a rest
 *              .again   the same at once after that: of memory that was just given back
 *              .pair    allocation and free in turn (virtual memory: no variant)
 *              .cold    stream-ordered pool that keeps nothing, .warm that keeps all, among other
 *                       blocks that come and go
 *              .span    one call over several mappings; its size is theirs together
 *              .busy    behind 20 ms of queued work
 *              .rested  each call after 20 ms in which nothing was asked of the card
 * Invariants   what a step took it has given back when it returns, also when it ends early
 * Results      of single calls: GP_NOMEM and -ENOTSUP end the loop they are in; the step is then
 *              complete. Any other fault ends the calibration.
 */
#include <errno.h>

#include "calibrate.h"

#define HELD_MAX    1000u          /* live blocks: as many as large programs have */
#define CROWD       512u           /* live blocks beside the one that is timed    */
#define CROWD_BYTES (128 * GP_MIB) /* no more in all than that */
#define REST_NS     UINT64_C(20000000)
#define CLEAR_NS    UINT64_C(6000000) /* of 1 GiB, with some room */
#define PAGE_BYTES  (2 * GP_MIB)

/* Is a call's result one that only ends the loop? */
static int only_ends(int r)
{
	return r > 0 || r == -ENOTSUP ? 0 : r;
}

static unsigned repeats(const struct cal *c, unsigned n)
{
	return c->quick ? (n + 4) / 5 : n;
}

/* Less for sizes whose calls take milliseconds. */
static unsigned repeats_of(const struct cal *c, uint64_t size)
{
	return repeats(c, size < GP_GIB ? 400 : 60);
}

/* -- cudaMalloc and cudaFree ------------------------------------------------------------------ */

/* One allocation and its free. */
static int malloc_free(struct cal *c, uint64_t size, const char *variant)
{
	struct gp_probe p = { .kind = GP_PROBE_MALLOC, .size = size };
	int r = cal_probe(c, &p, variant, size);

	if (r)
		return r;
	p.kind = GP_PROBE_FREE;
	return cal_probe(c, &p, variant, size);
}

int cal_first(struct cal *c, uint64_t size)
{
	c->dirty += size;
	return only_ends(malloc_free(c, size, "first"));
}

int cal_pair(struct cal *c, uint64_t size)
{
	int r = 0;

	for (unsigned i = 0, n = repeats_of(c, size); i < n && !r && cal_goes_on(c); i++)
		r = malloc_free(c, size, "pair");
	return only_ends(r);
}

static unsigned held_count(const struct cal *c, uint64_t size)
{
	uint64_t fit = c->budget / size;

	return (unsigned)gp_min_u64(repeats(c, HELD_MAX), fit ? fit : 1);
}

static int held_round(struct cal *c, uint64_t size, unsigned count, const char *variant)
{
	uint64_t addrs[HELD_MAX];
	unsigned n = 0;
	int r = 0, freed = 0;

	while (n < count && !r) {
		struct gp_probe p = { .kind = GP_PROBE_MALLOC, .size = size };

		r = cal_probe(c, &p, variant, size);
		if (!r)
			addrs[n++] = p.addr;
	}
	for (unsigned i = 0; i < n && !freed; i++) {
		struct gp_probe p = { .kind = GP_PROBE_FREE, .addr = addrs[i] };

		freed = cal_probe(c, &p, variant, size);
	}
	return freed ? freed : only_ends(r);
}

/* Memory that was given back is cleared before others get it, and what asks for some meanwhile
 * waits: 16 GiB took an H200 70 ms. */
static void settle(struct cal *c)
{
	cal_rest(c, gp_min_u64(5 * REST_NS + c->dirty / GP_GIB * CLEAR_NS, 900000000));
	c->dirty = 0;
}

/* Rounds until there is something to take percentiles of. */
static int rounds(struct cal *c, uint64_t size,
		  int (*round)(struct cal *c, uint64_t size, unsigned count, const char *variant))
{
	unsigned count = held_count(c, size), n = (repeats(c, 40) + count - 1) / count;
	int r = 0;

	for (unsigned i = 0; i < n && !r && (!i || cal_goes_on(c)); i++) {
		settle(c);
		r = round(c, size, count, "held");
		if (!r)
			r = round(c, size, count, "again");
		c->dirty += count * size;
	}
	return r;
}

int cal_held(struct cal *c, uint64_t size)
{
	return rounds(c, size, held_round);
}

/* -- virtual memory --------------------------------------------------------------------------- */

/* Memory for a range, mapped into it: create, map, and access to it. On failure nothing is left. */
static int vmm_fill(struct cal *c, uint64_t addr, uint64_t size, const char *variant,
		    uint64_t *handle)
{
	struct gp_probe p = { .kind = GP_PROBE_CREATE, .size = size, .addr = addr };
	int r = cal_probe(c, &p, variant, size);

	if (r)
		return r;
	*handle = p.handle;
	p.addr = addr;
	p.kind = GP_PROBE_MAP;
	r = cal_probe(c, &p, variant, size);
	if (r)
		goto destroy;
	p.kind = GP_PROBE_SET_ACCESS;
	r = cal_probe(c, &p, variant, size);
	if (!r)
		return 0;
	p.kind = GP_PROBE_UNMAP;
	(void)cal_probe_untimed(c, &p);
destroy:
	p.kind = GP_PROBE_DESTROY;
	(void)cal_probe_untimed(c, &p);
	return r;
}

static int vmm_drain(struct cal *c, uint64_t addr, uint64_t size, const char *variant,
		     uint64_t handle)
{
	struct gp_probe p = { .kind = GP_PROBE_UNMAP, .addr = addr, .size = size };
	int r = cal_probe(c, &p, variant, size);

	if (r)
		return r;
	p.kind = GP_PROBE_DESTROY;
	p.handle = handle;
	return cal_probe(c, &p, variant, size);
}

/* The whole life of a mapped range. */
static int vmm_once(struct cal *c, uint64_t size, const char *variant)
{
	struct gp_probe va = { .kind = GP_PROBE_VA_RESERVE, .size = size };
	uint64_t handle = 0;
	int r = cal_probe(c, &va, variant, size), ended;

	if (r)
		return r;
	r = vmm_fill(c, va.addr, size, variant, &handle);
	if (!r)
		r = vmm_drain(c, va.addr, size, variant, handle);
	va.kind = GP_PROBE_VA_RELEASE;
	ended = cal_probe(c, &va, variant, size);
	return r ? r : ended;
}

int cal_vmm(struct cal *c, uint64_t size)
{
	unsigned n = repeats(c, size < GP_GIB ? 200 : 40);
	int r = 0;

	for (unsigned i = 0; i < n && !r && cal_goes_on(c); i++)
		r = vmm_once(c, size, NULL);
	return only_ends(r);
}

/* One address range that is filled and drained piece by piece, as a pool that grows does it. */
static int vmm_round(struct cal *c, uint64_t size, unsigned count, const char *variant)
{
	struct gp_probe va = { .kind = GP_PROBE_VA_RESERVE, .size = count * size };
	uint64_t handles[HELD_MAX];
	unsigned n = 0;
	int r = cal_probe_untimed(c, &va), ended = 0;

	if (r)
		return only_ends(r);
	for (; n < count && !r; n += !r)
		r = vmm_fill(c, va.addr + n * size, size, variant, &handles[n]);
	for (unsigned i = 0; i < n && !ended; i++)
		ended = vmm_drain(c, va.addr + i * size, size, variant, handles[i]);
	if (ended)
		return ended;
	va.kind = GP_PROBE_VA_RELEASE;
	ended = cal_probe_untimed(c, &va);
	return ended ? ended : only_ends(r);
}

int cal_vmm_held(struct cal *c, uint64_t size)
{
	return rounds(c, size, vmm_round);
}

/* Access to n mapped pages in one call, and the end of n mappings in one call. */
static int span_once(struct cal *c, uint64_t addr, uint64_t size)
{
	struct gp_probe p = { .size = PAGE_BYTES };
	uint64_t handles[256];
	unsigned n = 0, count = (unsigned)(size / PAGE_BYTES);
	int r = 0, ended = 0;

	for (; n < count && !r; n += !r) {
		p.kind = GP_PROBE_CREATE;
		r = cal_probe_untimed(c, &p);
		if (r)
			break;
		handles[n] = p.handle;
		p.kind = GP_PROBE_MAP;
		p.addr = addr + n * PAGE_BYTES;
		r = cal_probe_untimed(c, &p);
		if (r) {
			p.kind = GP_PROBE_DESTROY;
			(void)cal_probe_untimed(c, &p);
		}
	}
	p.addr = addr;
	p.size = n * PAGE_BYTES;
	p.kind = GP_PROBE_SET_ACCESS;
	if (!r)
		r = cal_probe(c, &p, "span", size);
	p.kind = GP_PROBE_UNMAP;
	if (n)
		ended = r ? cal_probe_untimed(c, &p) : cal_probe(c, &p, "span", size);
	for (unsigned i = 0; i < n && !ended; i++) {
		struct gp_probe d = { .kind = GP_PROBE_DESTROY,
				      .size = PAGE_BYTES,
				      .handle = handles[i] };

		ended = cal_probe_untimed(c, &d);
	}
	return r ? r : ended;
}

int cal_span(struct cal *c, uint64_t size)
{
	struct gp_probe va = { .kind = GP_PROBE_VA_RESERVE, .size = size };
	int r = cal_probe_untimed(c, &va), ended;

	if (r)
		return only_ends(r);
	for (unsigned i = 0, n = repeats(c, 20); i < n && !r && cal_goes_on(c); i++)
		r = span_once(c, va.addr, size);
	va.kind = GP_PROBE_VA_RELEASE;
	ended = cal_probe_untimed(c, &va);
	return r ? only_ends(r) : only_ends(ended);
}

/* -- stream-ordered pools --------------------------------------------------------------------- */

static int pool_once(struct cal *c, uint64_t size, bool keep, const char *variant)
{
	struct gp_probe p = { .kind = GP_PROBE_ASYNC_ALLOC, .size = size, .keep = keep };
	int r = cal_probe(c, &p, variant, size);

	if (r)
		return r;
	p.kind = GP_PROBE_ASYNC_FREE;
	r = cal_probe(c, &p, variant, size);
	p.kind = GP_PROBE_SYNC;
	return r ? r : cal_probe(c, &p, variant, size);
}

int cal_pool_cold(struct cal *c, uint64_t size)
{
	int r = 0;

	for (unsigned i = 0, n = repeats_of(c, size); i < n && !r && cal_goes_on(c); i++)
		r = pool_once(c, size, false, "cold");
	return only_ends(r);
}

/* Empties the pool that keeps all. */
static int pool_trim(struct cal *c, uint64_t size, bool timed)
{
	struct gp_probe sync = { .kind = GP_PROBE_SYNC };
	struct gp_probe trim = { .kind = GP_PROBE_TRIM, .keep = true };
	int r = cal_probe_untimed(c, &sync);

	if (!r)
		r = timed ? cal_probe(c, &trim, NULL, size) : cal_probe_untimed(c, &trim);
	return only_ends(r);
}

/* Others in the pool while a size is timed: as many as a training program has, of mixed sizes. */
struct crowd {
	uint64_t addrs[CROWD]; /* 0: none */
};

static uint64_t crowd_size(unsigned i)
{
	return UINT64_C(512) << i % 12; /* to 1 MiB */
}

static int crowd_enter(struct cal *c, struct crowd *crowd, unsigned i, uint64_t size)
{
	struct gp_probe p = { .kind = GP_PROBE_ASYNC_ALLOC, .size = size, .keep = true };
	int r = cal_probe_untimed(c, &p);

	crowd->addrs[i] = r ? 0 : p.addr;
	return r;
}

static int crowd_leave(struct cal *c, struct crowd *crowd, unsigned i)
{
	struct gp_probe p = { .kind = GP_PROBE_ASYNC_FREE, .addr = crowd->addrs[i], .keep = true };

	crowd->addrs[i] = 0;
	return p.addr ? cal_probe_untimed(c, &p) : 0;
}

/* One goes and one of another size comes, so that the driver's books are not left as the last timed
 * call had them. */
static int crowd_move(struct cal *c, struct crowd *crowd, unsigned round)
{
	unsigned i = round * 7 % CROWD; /* 7 and CROWD have no common divisor: all in turn */
	int r = crowd_leave(c, crowd, i);

	return r ? r : crowd_enter(c, crowd, i, crowd_size(i + round));
}

static int pool_crowded(struct cal *c, struct crowd *crowd, uint64_t size)
{
	struct gp_probe p = { .kind = GP_PROBE_ASYNC_ALLOC, .size = size, .keep = true };
	int r = 0;

	for (unsigned i = 0; i < CROWD && !r; i++)
		r = crowd_enter(c, crowd, i, crowd_size(i));
	/* The pool asks the device once, for this size and what others may take of its place. */
	p.size += CROWD_BYTES;
	if (!r)
		r = cal_probe_untimed(c, &p);
	p.kind = GP_PROBE_ASYNC_FREE;
	if (!r)
		r = cal_probe_untimed(c, &p);
	for (unsigned i = 0, n = repeats_of(c, size); i < n && !r && cal_goes_on(c); i++) {
		r = crowd_move(c, crowd, i);
		if (!r)
			r = pool_once(c, size, true, "warm");
	}
	return r;
}

int cal_pool_warm(struct cal *c, uint64_t size)
{
	struct crowd crowd = { { 0 } };
	int r = only_ends(pool_crowded(c, &crowd, size));

	for (unsigned i = 0; i < CROWD; i++) {
		int left = only_ends(crowd_leave(c, &crowd, i));

		r = r ? r : left;
	}
	return r ? r : pool_trim(c, size, true);
}

/* -- work and streams ------------------------------------------------------------------------- */

int cal_memset(struct cal *c, uint64_t size)
{
	struct gp_probe p = { .kind = GP_PROBE_MALLOC, .size = size };
	int r = cal_probe_untimed(c, &p), ended;

	if (r)
		return only_ends(r);
	p.kind = GP_PROBE_MEMSET;
	for (unsigned i = 0, n = repeats(c, 100); i < n && !r && cal_goes_on(c); i++)
		r = cal_probe(c, &p, NULL, size);
	p.kind = GP_PROBE_FREE;
	ended = cal_probe_untimed(c, &p);
	return r ? only_ends(r) : ended;
}

static int streams_once(struct cal *c)
{
	static const enum gp_probe_kind kinds[] = { GP_PROBE_RECORD, GP_PROBE_WAIT, GP_PROBE_LAUNCH,
						    GP_PROBE_STREAM, GP_PROBE_STREAM_END };
	struct gp_probe p = { .size = 1 };
	int r = 0;

	for (size_t i = 0; i < GP_ARRAY_LEN(kinds) && !r; i++) {
		p.kind = kinds[i];
		r = cal_probe(c, &p, NULL, 1);
	}
	return r;
}

int cal_streams(struct cal *c, uint64_t size)
{
	struct gp_probe sync = { .kind = GP_PROBE_SYNC };
	int r = 0;

	(void)size;
	for (unsigned i = 0, n = repeats(c, 400); i < n && !r && cal_goes_on(c); i++) {
		r = only_ends(streams_once(c));
		if (!r)
			r = cal_probe_untimed(c, &sync); /* queues stay short */
	}
	return only_ends(r);
}

/* -- behind queued work, and after a rest ----------------------------------------------------- */

/* Everything that does not wait for the queue by itself; cudaFree last, which does. */
static int busy_once(struct cal *c, uint64_t size)
{
	struct gp_probe block = { .kind = GP_PROBE_MALLOC, .size = size };
	struct gp_probe pool = { .kind = GP_PROBE_ASYNC_ALLOC, .size = size, .keep = true };
	int r = gp_device_busy(c->dev, 0, CAL_BUSY_NS);

	if (!r)
		r = cal_probe(c, &block, "busy", size);
	if (r)
		return r;
	r = vmm_once(c, size, "busy");
	if (!only_ends(r))
		r = cal_probe(c, &pool, "busy", size);
	pool.kind = GP_PROBE_ASYNC_FREE;
	if (!r)
		r = cal_probe(c, &pool, "busy", size);
	block.kind = GP_PROBE_FREE;
	return only_ends(r) ? r : cal_probe(c, &block, "busy", size);
}

int cal_busy(struct cal *c, uint64_t size)
{
	struct gp_probe sync = { .kind = GP_PROBE_SYNC };
	int r = cal_probe_untimed(c, &sync);

	for (unsigned i = 0, n = repeats(c, 15); i < n && !r && cal_goes_on(c); i++) {
		r = busy_once(c, size);
		if (!r)
			r = cal_probe_untimed(c, &sync);
	}
	r = only_ends(r);
	return r ? r : pool_trim(c, size, false);
}

int cal_rested(struct cal *c, uint64_t size)
{
	int r = 0;

	c->rest_ns = REST_NS;
	for (unsigned i = 0, n = repeats(c, 20); i < n && !r && cal_goes_on(c); i++) {
		r = malloc_free(c, size, "rested");
		if (!r && c->dev->info.vmm)
			r = vmm_once(c, size, "rested");
	}
	c->rest_ns = 0;
	return only_ends(r);
}
