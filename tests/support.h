/* SPDX-License-Identifier: Apache-2.0
 *
 * support: what the suites over whole allocators share: a simulated device and an allocator or a
 * failed test, a seeded generator, a plain set of intervals as the reference, and a spy that
 * listens to a device and knows which stream may use which memory.
 *
 * Include after cmocka.h.
 */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <pthread.h>

#include "allocators/allocator.h"

/* ---- pseudo-random numbers (splitmix64): the same on every machine for a seed ---- */

uint64_t test_random(uint64_t *seed);
/* 0 .. n-1 */
uint64_t test_below(uint64_t *seed, uint64_t n);
/* lo .. hi, each doubling as likely as another */
uint64_t test_log_uniform(uint64_t *seed, uint64_t lo, uint64_t hi);

/* ---- intervals: a sorted array, as plain as can be ---- */

struct test_interval {
	uint64_t addr, size, tag;
};

struct test_intervals {
	struct test_interval *at;
	size_t n, cap;
};

void test_intervals_fini(struct test_intervals *s);
/* Index of the first that ends after addr; n when none does. */
size_t test_intervals_from(const struct test_intervals *s, uint64_t addr);
/* The one overlapped by [addr, addr+size), or NULL. */
struct test_interval *test_intervals_overlap(const struct test_intervals *s, uint64_t addr,
					     uint64_t size);
/* false, and nothing changed, when it would overlap. */
bool test_intervals_add(struct test_intervals *s, uint64_t addr, uint64_t size, uint64_t tag);
/* Removes the one that starts at addr; false: none does. */
bool test_intervals_remove(struct test_intervals *s, uint64_t addr);
/* Removes what lies in [addr, addr+size), cutting those that reach beyond. */
void test_intervals_cut(struct test_intervals *s, uint64_t addr, uint64_t size);
/* Adds, and joins with those of the same tag that it touches. */
void test_intervals_join(struct test_intervals *s, uint64_t addr, uint64_t size, uint64_t tag);
bool test_intervals_cover(const struct test_intervals *s, uint64_t addr, uint64_t size);
uint64_t test_intervals_bytes(const struct test_intervals *s);

/* ---- the spy: one device at a time ---- */

#define SPY_STREAMS 8

/* What a hook of the device can be told to do instead of its work. */
enum spy_hook {
	SPY_RESERVE,
	SPY_ASYNC_ALLOC,
	SPY_CREATE,
	SPY_MAP,
	SPY_VA_RESERVE,
	SPY_WAIT,
	SPY_HOOK_N
};

/* Clocks: seen[to][from] is the moment up to which everything that `from` had queued is done
 * before what `to` queues from now on. Memory freed on a stream at a moment may be used on another
 * stream that has seen that moment. */
struct spy {
	struct gp_device *dev;
	const struct gp_device_ops *real;
	struct test_intervals held;  /* what the device has given and not taken back */
	struct test_intervals same;  /* further places of what is mapped; tag: the first one */
	struct test_intervals used;  /* memory in blocks, at its first place */
	struct test_intervals freed; /* held, not live, used before; tag: stream and moment */
	uint64_t now;
	uint64_t seen[SPY_STREAMS][SPY_STREAMS];
	uint64_t waits;
	bool driver_orders;   /* reuse across streams is the driver's affair */
	pthread_mutex_t lock; /* for what the device calls; spy_block_* are for one thread */
	/* The n-th call (from 1) of this hook returns -EIO, once. 0: none. */
	uint64_t fail_nth[SPY_HOOK_N];
	_Atomic uint64_t n_calls[SPY_HOOK_N];
};

void spy_attach(struct spy *spy, struct gp_device *dev);
void spy_detach(struct spy *spy);
/* Before a free: what the allocator makes wait during the call has waited for this block. */
void spy_free_begins(struct spy *spy);
/* After it. */
void spy_block_freed(struct spy *spy, uint64_t addr, uint64_t size, uint32_t stream);
/* Where the memory at addr was mapped first; *left is cut to what lies there in one piece. */
uint64_t spy_place(const struct spy *spy, uint64_t addr, uint64_t *left);
/* NULL, or what is wrong with this block in the hands of this stream (until the next call). */
const char *spy_block_given(struct spy *spy, uint64_t addr, uint64_t size, uint32_t stream);

/* ---- what to test ---- */

#define TEST_SPECS     3
#define TEST_SPEC_SIZE 160

/* "buddy:x=1" becomes "buddy:x=1,grow=vmm" and so on, where the allocator has a choice that the
 * spec leaves open. How many specs there are to test; 0: no such allocator. */
size_t test_specs(const char *spec, char specs[TEST_SPECS][TEST_SPEC_SIZE]);

/* ---- a pool to test ---- */

struct pool {
	struct gp_device *dev;
	struct gp_allocator *a;
	struct spy spy;
	struct test_intervals live; /* tag: stream */
};

#define TEST_CAPACITY (256 * GP_MIB)

/* What the suites' requests are like, for allocators that ask. */
extern const struct gp_env test_env;

/* Opens a device and creates the allocator, wrapped in `wraps` (NULL-terminated; may be NULL),
 * innermost first. Fails the test with the reason when that does not work. */
void pool_open(struct pool *p, const char *spec, const char *const *wraps, uint64_t capacity,
	       unsigned threads);
/* The same, but with the result instead of a failed test; cfg: as for the device; fail_hook: one
 * of the spy's, or SPY_HOOK_N; fail_nth: which call of it. On non-zero all is closed. */
int pool_try_open(struct pool *p, const char *spec, const struct gp_device_config *cfg,
		  enum spy_hook fail_hook, uint64_t fail_nth);
/* Destroys, and asserts that the device holds nothing. */
void pool_close(struct pool *p);

/* One request, judged: outcomes >= 0 only, block aligned, inside device memory, apart from all
 * live ones, fit for the stream; entered in live. *addr is set on 0. */
int pool_alloc(struct pool *p, uint64_t size, unsigned lg_align, uint32_t stream, uint64_t *addr);
/* Frees a live block, which must work. */
void pool_free(struct pool *p, uint64_t addr);
void pool_free_all(struct pool *p);
/* usage agrees with live; the allocator's own audit and the decorators' pass. */
void pool_audit(struct pool *p);
struct gp_usage pool_usage(const struct pool *p);
/* An address that must be refused with `want` (0: any refusal), and change nothing. */
void pool_refuses_free(struct pool *p, uint64_t addr, int want);

/* Of the allocator itself, below the decorators. */
const struct gp_allocator *pool_bare(const struct pool *p);
bool pool_has(const struct pool *p, enum gp_cap cap);
/* Claims are about an allocator as it is by default: does the spec set more than how it grows? */
bool test_spec_is_default(const char *spec);

#endif
