/* SPDX-License-Identifier: Apache-2.0
 *
 * test_wraps: the decorators. `check` is put on an allocator that breaks the contract in one way
 * after another; `fault` on one that counts; `threads` is driven by real threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- check: over a liar ---- */

/* Ops that stand in front of a sound allocator's and break one promise. The allocator is made by
 * the registry; only its vtable is exchanged, and put back before it is destroyed. */
enum lie {
	LIE_NONE,
	LIE_UNALIGNED,
	LIE_SHORT,
	LIE_OVERLAP,
	LIE_ZERO,
	LIE_BLOCK_WITH_REFUSAL,
	LIE_UNKNOWN_OUTCOME,
	LIE_TAKES_FOREIGN,
	LIE_TAKES_TWICE,
	LIE_REFUSES_OWN,
	LIE_MISCOUNTS,
	LIE_FAULT,
	LIE_TRIM,
};

static enum lie lie;
static const struct gp_allocator_ops *honest;
static struct gp_block last;

static int liar_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct gp_block old = last;
	int r;

	if (lie == LIE_FAULT)
		return gp_allocator_why(a, -EIO, "the liar's own words");
	if (lie == LIE_UNKNOWN_OUTCOME)
		return 42;
	r = honest->alloc(a, req, out);
	if (r)
		return r;
	last = *out;
	switch (lie) {
	case LIE_UNALIGNED:
		out->addr += 128;
		break;
	case LIE_SHORT:
		out->granted = req->size - 1;
		break;
	case LIE_OVERLAP:
		*out = (struct gp_block){ old.addr + 256, old.granted };
		break;
	case LIE_ZERO:
		out->addr = 0;
		break;
	case LIE_BLOCK_WITH_REFUSAL:
		return GP_NOMEM;
	default:
		break;
	}
	return 0;
}

static int liar_free(struct gp_allocator *a, uint64_t addr)
{
	int r = lie == LIE_REFUSES_OWN ? -EINVAL : honest->free(a, addr);

	if ((r == -EINVAL && lie == LIE_TAKES_FOREIGN) ||
	    (r == -EALREADY && lie == LIE_TAKES_TWICE))
		return 0;
	return r;
}

static void liar_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	honest->usage(a, out);
	out->live_blocks += lie == LIE_MISCOUNTS;
}

static int liar_trim(struct gp_allocator *a, uint64_t keep, uint64_t *released)
{
	int r = honest->trim ? honest->trim(a, keep, released) : 0;

	*released += lie == LIE_TRIM;
	return r;
}

static struct gp_allocator_ops liar;

static void liar_open(struct pool *p, const char *wrap)
{
	const char *const wraps[] = { wrap, NULL };

	lie = LIE_NONE;
	pool_open(p, "segregated", wraps, TEST_CAPACITY, 1);
	honest = p->a->inner->ops;
	liar = *honest;
	liar.alloc = liar_alloc;
	liar.free = liar_free;
	liar.usage = liar_usage;
	liar.trim = liar_trim;
	p->a->inner->ops = &liar;
}

static void liar_close(struct pool *p)
{
	lie = LIE_NONE;
	p->a->inner->ops = honest;
	pool_close(p);
}

/* The call went wrong in these words, and gp_check says so from then on. */
static void caught(struct pool *p, int r, const char *say)
{
	char text[300] = "";
	FILE *why = fmemopen(text, sizeof(text), "w");
	int again = gp_check(p->a, why);

	fclose(why);
	if (r != -EILSEQ || !strstr(p->a->why, say) || again != -EILSEQ || !strstr(text, say))
		fail_msg("%d: \"%s\", later %d: \"%s\"; expected \"%s\"", r, p->a->why, again, text,
			 say);
}

static int ask(struct pool *p, uint64_t size, struct gp_block *out)
{
	struct gp_request req = { .size = size };

	return gp_alloc(p->a, &req, out);
}

static void check_catches_bad_blocks(void **state)
{
	static const struct {
		enum lie lie;
		const char *say;
	} cases[] = {
		{ LIE_UNALIGNED, "no multiple of 256" },
		{ LIE_SHORT, "granted 4999 bytes for 5000" },
		{ LIE_OVERLAP, "over the live block" },
		{ LIE_ZERO, "gave address 0" },
		{ LIE_BLOCK_WITH_REFUSAL, "though it refused" },
		{ LIE_UNKNOWN_OUTCOME, "42 is no outcome" },
		{ LIE_MISCOUNTS, "counts 3 live blocks, 2 are" },
	};
	struct gp_block block = { 1, 1 };
	struct pool p;

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		liar_open(&p, "check");
		assert_int_equal(ask(&p, 5000, &block), 0);
		block = (struct gp_block){ 1, 1 };
		lie = cases[i].lie;
		caught(&p, ask(&p, 5000, &block), cases[i].say);
		assert_true(block.addr == 1 && block.granted == 1);
		liar_close(&p);
	}
}

static void check_catches_bad_frees(void **state)
{
	struct gp_block a, b;
	struct pool p;

	(void)state;
	liar_open(&p, "check");
	assert_int_equal(ask(&p, 5000, &a), 0);
	lie = LIE_TAKES_FOREIGN;
	caught(&p, gp_free(p.a, a.addr + 256), "accepted the free");
	liar_close(&p);

	liar_open(&p, "check");
	assert_int_equal(ask(&p, 5000, &a), 0);
	assert_int_equal(ask(&p, 5000, &b), 0);
	assert_int_equal(gp_free(p.a, a.addr), 0);
	lie = LIE_TAKES_TWICE;
	caught(&p, gp_free(p.a, a.addr), "accepted the free");
	liar_close(&p);

	liar_open(&p, "check");
	assert_int_equal(ask(&p, 5000, &a), 0);
	lie = LIE_REFUSES_OWN;
	caught(&p, gp_free(p.a, a.addr), "refused to free its block");
	liar_close(&p);

	liar_open(&p, "check");
	assert_int_equal(ask(&p, 5000, &a), 0);
	lie = LIE_TRIM;
	caught(&p, gp_trim(p.a, 0, NULL), "trim says");
	liar_close(&p);
}

/* The caller's mistakes and the allocator's faults are no violations, and are passed on. */
static void check_passes_on_what_is_no_violation(void **state)
{
	struct gp_block block;
	struct pool p;

	(void)state;
	liar_open(&p, "check");
	assert_int_equal(ask(&p, 5000, &block), 0);
	assert_int_equal(gp_free(p.a, 4096), -EINVAL);
	assert_int_equal(gp_free(p.a, block.addr), 0);
	assert_int_equal(gp_free(p.a, block.addr), -EALREADY);
	lie = LIE_FAULT;
	assert_int_equal(ask(&p, 5000, &block), -EIO);
	assert_string_equal(p.a->why, "the liar's own words");
	lie = LIE_NONE;
	assert_int_equal(gp_check(p.a, stderr), 0);
	liar_close(&p);
}

/* What `fn` writes to standard error. */
static void stderr_of(void (*fn)(void *), void *arg, char *text, size_t size)
{
	FILE *file = tmpfile();
	int saved = dup(2);
	size_t n;

	assert_true(file && saved >= 0);
	fflush(stderr);
	assert_true(dup2(fileno(file), 2) >= 0);
	fn(arg);
	fflush(stderr);
	dup2(saved, 2);
	close(saved);
	rewind(file);
	n = fread(text, 1, size - 1, file);
	text[n] = '\0';
	fclose(file);
}

static void close_pool(void *pool)
{
	pool_close(pool);
}

static void check_tells_of_leaks_when_asked(void **state)
{
	static const char *const quiet[] = { "check", NULL };
	static const char *const loud[] = { "check:leaks=yes", NULL };
	char text[300];
	uint64_t addr;
	struct pool p;

	(void)state;
	pool_open(&p, "segregated", quiet, TEST_CAPACITY, 1);
	assert_int_equal(pool_alloc(&p, 5000, 0, 0, &addr), 0);
	stderr_of(close_pool, &p, text, sizeof(text));
	assert_string_equal(text, "");
	pool_open(&p, "segregated", loud, TEST_CAPACITY, 1);
	assert_int_equal(pool_alloc(&p, 5000, 0, 0, &addr), 0);
	stderr_of(close_pool, &p, text, sizeof(text));
	assert_non_null(strstr(text, "1 blocks of"));
	assert_non_null(strstr(text, "of request 1\n"));
}

/* ---- fault ---- */

static void fault_refuses_the_requests_it_is_told_to(void **state)
{
	static const struct {
		const char *wrap;
		int want[8];
	} cases[] = {
		{ "fault", { 0 } },
		{ "fault:nth=3", { 0, 0, GP_NOMEM } },
		{ "fault:every=2", { 0, GP_NOMEM, 0, GP_NOMEM, 0, GP_NOMEM, 0, GP_NOMEM } },
		{ "fault:nth=1,result=refused", { GP_REFUSED } },
		{ "fault:nth=2,every=4,result=held", { 0, GP_HELD, 0, GP_HELD, 0, 0, 0, GP_HELD } },
		{ "fault:nth=8,result=error", { 0, 0, 0, 0, 0, 0, 0, -EIO } },
	};
	struct pool p;

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		const char *const wraps[] = { cases[i].wrap, "check", NULL };
		struct gp_block blocks[8];
		size_t n = 0;

		pool_open(&p, "segregated", wraps, TEST_CAPACITY, 1);
		for (size_t k = 0; k < 8; k++) {
			int r = ask(&p, 5000, &blocks[n]);

			assert_int_equal(r, cases[i].want[k]);
			n += r == 0;
			if (r < 0)
				assert_non_null(strstr(p.a->why, "was to fail"));
		}
		assert_int_equal(pool_usage(&p).live_blocks, n);
		while (n)
			assert_int_equal(gp_free(p.a, blocks[--n].addr), 0);
		assert_int_equal(gp_check(p.a, stderr), 0);
		pool_close(&p);
	}
}

/* ---- threads ---- */

static void threads_reuses_on_the_same_stream_only(void **state)
{
	uint64_t first, second, third;
	struct pool p;

	(void)state;
	pool_open(&p, "buddy", NULL, TEST_CAPACITY, 2);
	assert_int_equal(pool_alloc(&p, 5000, 0, 1, &first), 0);
	pool_free(&p, first);
	assert_int_equal(pool_alloc(&p, 5000, 0, 2, &second), 0);
	assert_true(second != first);
	assert_int_equal(pool_alloc(&p, 5100, 0, 1, &third), 0);
	assert_true(third == first);
	assert_int_equal(p.spy.waits, 0);
	pool_audit(&p);
	pool_close(&p);
}

static void threads_refuses_bad_frees(void **state)
{
	uint64_t cached, large;
	struct pool p;

	(void)state;
	pool_open(&p, "segregated", NULL, TEST_CAPACITY, 2);
	assert_int_equal(pool_alloc(&p, 5000, 0, 0, &cached), 0);
	assert_int_equal(pool_alloc(&p, 5 * GP_MIB, 0, 0, &large), 0);
	pool_refuses_free(&p, cached + 256, -EINVAL);
	pool_refuses_free(&p, cached + 1, -EINVAL);
	pool_refuses_free(&p, large + GP_MIB, -EINVAL);
	pool_free(&p, cached);
	pool_refuses_free(&p, cached, -EALREADY);
	pool_free(&p, large);
	pool_refuses_free(&p, large, 0);
	assert_int_equal(gp_trim(p.a, 0, NULL), 0);
	pool_refuses_free(&p, cached, 0);
	pool_close(&p);
}

/* What the arena of a thread that does nothing more holds is had back when memory runs out. */
static void *hoard(void *arg)
{
	struct pool *p = arg;
	uint64_t addr[200];

	for (size_t i = 0; i < 200; i++) {
		struct gp_request req = { .size = 100 * GP_KIB, .thread = 1 };
		struct gp_block block;

		if (gp_alloc(p->a, &req, &block))
			return NULL;
		addr[i] = block.addr;
	}
	for (size_t i = 0; i < 200; i++)
		if (gp_free(p->a, addr[i]))
			return NULL;
	return p;
}

static void threads_takes_back_before_out_of_memory(void **state)
{
	uint64_t addr, before;
	pthread_t thread;
	struct pool p;
	void *ok;

	(void)state;
	pool_open(&p, "segregated:grow=chunk", NULL, 24 * GP_MIB, 2);
	assert_int_equal(pthread_create(&thread, NULL, hoard, &p), 0);
	pthread_join(thread, &ok);
	assert_ptr_equal(ok, &p);
	before = pool_usage(&p).reserved_bytes;
	assert_true(before > 16 * GP_MIB);
	assert_int_equal(pool_alloc(&p, 20 * GP_MIB, 0, 0, &addr), 0);
	pool_audit(&p);
	pool_close(&p);
}

static uint64_t alloc_on(struct pool *p, unsigned thread, uint32_t stream, uint64_t size)
{
	struct gp_request req = { .size = size, .thread = (uint16_t)thread, .stream = stream };
	struct gp_block block;

	assert_int_equal(gp_alloc(p->a, &req, &block), 0);
	return block.addr;
}

static uint64_t alloc_as(struct pool *p, unsigned thread, uint64_t size)
{
	return alloc_on(p, thread, 0, size);
}

/* The address of a block says whose it is, whoever frees it. */
static void threads_keeps_arenas_apart(void **state)
{
	uint64_t page, zero, one, two;
	struct pool p;

	(void)state;
	pool_open(&p, "segregated", NULL, TEST_CAPACITY, 2);
	page = p.dev->info.page_bytes;
	zero = alloc_as(&p, 0, 5000);
	one = alloc_as(&p, 1, 5000);
	two = alloc_as(&p, 2, 5000); /* modulo 2 */
	assert_true(zero / page != one / page);
	assert_int_equal(zero / page, two / page);
	assert_int_equal(gp_free(p.a, zero), 0);
	assert_int_equal(gp_free(p.a, one), 0);
	assert_true(alloc_as(&p, 1, 5000) == one);
	assert_true(alloc_as(&p, 0, 5000) == zero);
	assert_int_equal(pool_usage(&p).live_blocks, 3);
	assert_int_equal(gp_free(p.a, zero), 0);
	assert_int_equal(gp_free(p.a, one), 0);
	assert_int_equal(gp_free(p.a, two), 0);
	assert_int_equal(gp_free(p.a, two), -EALREADY);
	pool_close(&p);
}

/* Large blocks fill the holes that threads on the same stream left; others grow, and so do those on
 * another stream. */
static void threads_fill_holes_of_the_same_stream(void **state)
{
	static const char *const specs[] = { "segregated", "buddy", "slab", "hybrid",
					     "hybrid:large=buddy" };

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(specs); i++) {
		uint64_t hole, reserved;
		struct pool p;

		pool_open(&p, specs[i], NULL, TEST_CAPACITY, 3);
		alloc_on(&p, 1, 5, 256);
		hole = alloc_on(&p, 0, 5, 8 * GP_MIB);
		assert_int_equal(gp_free(p.a, hole), 0);
		reserved = pool_usage(&p).reserved_bytes;
		assert_true(alloc_on(&p, 1, 5, 8 * GP_MIB) == hole);
		assert_int_equal(pool_usage(&p).reserved_bytes, reserved);
		assert_int_equal(gp_free(p.a, hole), 0);
		assert_true(alloc_on(&p, 2, 6, 8 * GP_MIB) != hole);
		assert_int_equal(pool_usage(&p).event_waits, 0);
		pool_close(&p);
	}
}

/* Small blocks of the device's own lie in pages that arenas share. */
static void threads_finds_blocks_in_shared_pages(void **state)
{
	uint64_t addr[4];
	struct pool p;

	(void)state;
	pool_open(&p, "fixed:block=256,count=4,when_empty=device", NULL, TEST_CAPACITY, 4);
	for (unsigned i = 0; i < 4; i++)
		addr[i] = alloc_as(&p, i, 1000);
	assert_int_equal(addr[0] / p.dev->info.page_bytes, addr[3] / p.dev->info.page_bytes);
	for (unsigned i = 4; i-- > 0;)
		assert_int_equal(gp_free(p.a, addr[i]), 0);
	assert_int_equal(gp_free(p.a, addr[0]), -EINVAL);
	assert_int_equal(pool_usage(&p).live_blocks, 0);
	pool_close(&p);
}

/* What is preallocated is so much for all arenas, not for each. */
static void threads_shares_what_is_preallocated(void **state)
{
	static const char *const specs[] = { "fixed:block=1M,count=64",
					     "segregated:grow=prealloc,initial=64M" };

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(specs); i++) {
		struct pool p;

		pool_open(&p, specs[i], NULL, TEST_CAPACITY, 4);
		assert_int_equal(pool_usage(&p).reserved_bytes, 64 * GP_MIB);
		pool_close(&p);
	}
}

/* One arena is full, another is not. */
static void threads_asks_other_arenas(void **state)
{
	uint64_t addr[8];
	struct pool p;

	(void)state;
	pool_open(&p, "segregated:grow=prealloc,initial=16M", NULL, TEST_CAPACITY, 2);
	for (unsigned i = 0; i < 8; i++)
		addr[i] = alloc_as(&p, 0, 2 * GP_MIB);
	assert_int_equal(pool_usage(&p).reserved_bytes, 16 * GP_MIB);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(gp_free(p.a, addr[i]), 0);
	pool_close(&p);
}

static void threads_survives_a_failing_inner(void **state)
{
	static const char *const wraps[] = { "fault:every=3", "check", "threads", "check", NULL };
	uint64_t addr, seed = 2;
	unsigned refused = 0;
	struct pool p;

	(void)state;
	pool_open(&p, "segregated", wraps, TEST_CAPACITY, 1);
	for (unsigned i = 0; i < 3000; i++) {
		if (p.live.n && test_below(&seed, 100) < 48)
			pool_free(&p, p.live.at[test_below(&seed, p.live.n)].addr);
		else
			refused += pool_alloc(&p, test_log_uniform(&seed, 1, 2 * GP_MIB), 0,
					      (uint32_t)test_below(&seed, 3), &addr) != 0;
	}
	assert_true(refused > 0);
	pool_audit(&p);
	pool_free_all(&p);
	pool_audit(&p);
	pool_close(&p);
}

/* Blocks travel: what one thread allocated another frees. More threads than env.threads. */
#define TRAVELLERS 6
#define SLOTS      512

struct travel {
	struct gp_allocator *a;
	_Atomic uint64_t *slots; /* 0, or a block that anybody may free */
	unsigned index;
	int fault;
};

static void *travel(void *arg)
{
	struct travel *t = arg;
	uint64_t seed = t->index + 1;

	for (unsigned i = 0; i < 4000 && !t->fault; i++) {
		struct gp_request req = { .size = test_log_uniform(&seed, 1, 32 * GP_KIB),
					  .stream = (uint32_t)test_below(&seed, 2),
					  .thread = (uint16_t)t->index };
		struct gp_block block = { 0, 0 };
		uint64_t old;

		if (test_below(&seed, 3))
			t->fault = gp_alloc(t->a, &req, &block);
		if (t->fault)
			break;
		old = atomic_exchange(&t->slots[test_below(&seed, SLOTS)], block.addr);
		t->fault = gp_free(t->a, old);
	}
	return NULL;
}

static void threads_lets_blocks_travel(void **state)
{
	static const char *const wraps[] = { "check", NULL };
	static _Atomic uint64_t slots[SLOTS];
	struct travel travellers[TRAVELLERS];
	pthread_t threads[TRAVELLERS];
	struct pool p;

	(void)state;
	/* Instances come and go under threads that stay: the main thread is one of them. */
	for (unsigned round = 0; round < 3; round++) {
		pool_open(&p, "buddy", wraps, TEST_CAPACITY, 3);
		for (unsigned i = 0; i < TRAVELLERS; i++) {
			travellers[i] = (struct travel){ .a = p.a, .slots = slots, .index = i };
			assert_int_equal(pthread_create(&threads[i], NULL, travel, &travellers[i]),
					 0);
		}
		for (unsigned i = 0; i < TRAVELLERS; i++)
			pthread_join(threads[i], NULL);
		for (unsigned i = 0; i < TRAVELLERS; i++)
			if (travellers[i].fault)
				fail_msg("thread %u: %d: %s", i, travellers[i].fault, p.a->why);
		for (unsigned i = 0; i < SLOTS; i++)
			assert_int_equal(gp_free(p.a, atomic_exchange(&slots[i], 0)), 0);
		pool_audit(&p);
		assert_int_equal(gp_trim(p.a, 0, NULL), 0);
		assert_int_equal(pool_usage(&p).reserved_bytes, 0);
		pool_close(&p);
	}
}

/* Of many threads that free the same block at once, one succeeds. */
struct race {
	struct gp_allocator *a;
	uint64_t addr[256];
	_Atomic unsigned freed, refused, wrong;
};

static void *race(void *arg)
{
	struct race *r = arg;

	for (size_t i = 0; i < GP_ARRAY_LEN(r->addr); i++)
		switch (gp_free(r->a, r->addr[i])) {
		case 0:
			r->freed++;
			break;
		case -EALREADY:
		case -EINVAL:
			r->refused++;
			break;
		default:
			r->wrong++;
		}
	return NULL;
}

static void threads_frees_once(void **state)
{
	static struct race r;
	pthread_t threads[4];
	struct pool p;

	(void)state;
	for (unsigned round = 0; round < 10; round++) {
		pool_open(&p, "segregated", NULL, TEST_CAPACITY, 4);
		memset(&r, 0, sizeof(r));
		r.a = p.a;
		for (size_t i = 0; i < GP_ARRAY_LEN(r.addr); i++) {
			struct gp_block block;

			assert_int_equal(ask(&p, 1 + 300 * i, &block), 0);
			r.addr[i] = block.addr;
		}
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, race, &r), 0);
		for (unsigned i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(r.freed, GP_ARRAY_LEN(r.addr));
		assert_int_equal(r.refused, 3 * GP_ARRAY_LEN(r.addr));
		assert_int_equal(r.wrong, 0);
		pool_audit(&p);
		pool_close(&p);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_catches_bad_blocks),
		cmocka_unit_test(check_catches_bad_frees),
		cmocka_unit_test(check_passes_on_what_is_no_violation),
		cmocka_unit_test(check_tells_of_leaks_when_asked),
		cmocka_unit_test(fault_refuses_the_requests_it_is_told_to),
		cmocka_unit_test(threads_reuses_on_the_same_stream_only),
		cmocka_unit_test(threads_refuses_bad_frees),
		cmocka_unit_test(threads_takes_back_before_out_of_memory),
		cmocka_unit_test(threads_keeps_arenas_apart),
		cmocka_unit_test(threads_fill_holes_of_the_same_stream),
		cmocka_unit_test(threads_finds_blocks_in_shared_pages),
		cmocka_unit_test(threads_shares_what_is_preallocated),
		cmocka_unit_test(threads_asks_other_arenas),
		cmocka_unit_test(threads_survives_a_failing_inner),
		cmocka_unit_test(threads_lets_blocks_travel),
		cmocka_unit_test(threads_frees_once),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
