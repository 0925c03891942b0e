/* SPDX-License-Identifier: Apache-2.0
 *
 * test_torch: the model of PyTorch's caching allocator, against values worked out by hand from its
 * rules: sizes, the steps of a request that finds nothing, deferred frees, pools, settings and the
 * environment variable's text. Against real recordings: test_torch_recordings.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "allocators/torch/torch.h"
#include "allocators/torch/torch_conf.h"
#include "replay/engine.h"
#include "trace_of.h"

#define MIB       GP_MIB
#define CAPACITY  (1024 * GP_MIB)
#define ENDED_MAX 8

struct torch_pool {
	struct gp_device *dev;
	struct gp_allocator *a;
	uint32_t ended[ENDED_MAX]; /* tickets that a flush completed */
	size_t n_ended;
};

static void on_completed(void *arg, uint64_t addr, uint32_t ticket)
{
	struct torch_pool *p = arg;

	assert_true(addr && p->n_ended < ENDED_MAX);
	p->ended[p->n_ended++] = ticket;
}

static void open_pool(struct torch_pool *p, const char *spec)
{
	struct gp_device_config cfg = { .capacity = CAPACITY };
	char why[256] = "";

	*p = (struct torch_pool){ 0 };
	assert_int_equal(gp_device_open_sim(&cfg, &p->dev, why, sizeof(why)), 0);
	if (gp_allocator_create(spec, p->dev, NULL, &p->a, why, sizeof(why)) ||
	    gp_allocator_wrap("fault", p->a, &p->a, why, sizeof(why)) ||
	    gp_allocator_wrap("check", p->a, &p->a, why, sizeof(why)))
		fail_msg("%s: %s", spec, why);
	p->a->completed = on_completed;
	p->a->completed_arg = p;
}

static void audit(const struct torch_pool *p)
{
	assert_int_equal(gp_check(p->a, stderr), 0);
}

static void close_pool(struct torch_pool *p)
{
	audit(p);
	gp_allocator_destroy(p->a);
	gp_device_close(p->dev);
}

static int request(struct torch_pool *p, struct gp_request req, uint64_t *addr)
{
	struct gp_block block = { 0, 0 };
	int r = gp_alloc(p->a, &req, &block);

	audit(p);
	*addr = block.addr;
	return r;
}

static uint64_t must(struct torch_pool *p, uint64_t size)
{
	uint64_t addr;

	assert_int_equal(request(p, (struct gp_request){ .size = size }, &addr), 0);
	return addr;
}

static void give(struct torch_pool *p, uint64_t addr)
{
	assert_int_equal(gp_free(p->a, addr), 0);
	audit(p);
}

static uint64_t reserved(const struct torch_pool *p)
{
	struct gp_usage u;

	gp_usage(p->a, &u);
	return u.reserved_bytes;
}

static struct gp_torch_stats stats(const struct torch_pool *p)
{
	struct gp_torch_stats s;

	assert_true(gp_torch_stats(p->a, &s));
	return s;
}

/* ---- sizes ---- */

struct size_case {
	const char *spec;
	uint64_t size, rounded, segment;
};

static void sizes_are_rounded(void **state)
{
	static const struct size_case cases[] = {
		{ "torch", 1, 512, 2 * MIB },
		{ "torch", 512, 512, 2 * MIB },
		{ "torch", 513, 1024, 2 * MIB },
		{ "torch", MIB, MIB, 2 * MIB },
		{ "torch", MIB + 1, 1049088, 20 * MIB },
		{ "torch", 10485248, 10485248, 20 * MIB },
		{ "torch", 10 * MIB, 10 * MIB, 10 * MIB },
		{ "torch", 10 * MIB + 1, 10 * MIB + 512, 12 * MIB },
		{ "torch:large_segment_size_mb=32", MIB + 1, 1049088, 32 * MIB },
		/* The divisions count from 512 * divisions on: 1200 bytes stay as they are. */
		{ "torch:roundup_power2_divisions=4", 1200, 1536, 2 * MIB },
		{ "torch:roundup_power2_divisions=4", 2048, 2048, 2 * MIB },
		{ "torch:roundup_power2_divisions=4", 2049, 2560, 2 * MIB },
		{ "torch:roundup_power2_divisions=4", 3000, 3072, 2 * MIB },
		{ "torch:roundup_power2_divisions=4", 4096, 4096, 2 * MIB },
		{ "torch:roundup_power2_divisions=8", 1100 * 1024, 1152 * 1024, 20 * MIB },
		{ "torch:roundup_power2_divisions=1", 2049, 2560, 2 * MIB },
		/* Below its first key a list has that key's value, between keys none. */
		{ "torch:roundup_power2_divisions=[256:1,512:2,>:4]", 300 * MIB + 1,
		  300 * MIB + 512, 302 * MIB },
		{ "torch:roundup_power2_divisions=[256:1,512:2,>:4]", 513 * MIB, 768 * MIB,
		  768 * MIB },
		{ "torch:roundup_power2_divisions=[256:1,512:2,>:4]", 1025 * MIB, 1280 * MIB,
		  1280 * MIB },
		{ "torch:roundup_power2_divisions=[64:4,256:2]", 5 * MIB + 1, 6 * MIB, 20 * MIB },
		{ "torch:roundup_power2_divisions=[64:4,256:2]", 129 * MIB + 1, 129 * MIB + 512,
		  130 * MIB },
		{ "torch:roundup_power2_divisions=[64:4,256:2]", 257 * MIB, 384 * MIB, 384 * MIB },
		{ "torch:roundup_power2_divisions=[64:4,>:2]", 65 * MIB, 80 * MIB, 80 * MIB },
		/* Up to 2.8, > began at the last key itself. */
		{ "torch:roundup_power2_divisions=[64:4,>:2],torch_version=2.8", 65 * MIB, 96 * MIB,
		  96 * MIB },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		const struct size_case *c = &cases[i];
		uint64_t rounded, segment;
		struct torch_pool p;

		open_pool(&p, c->spec);
		assert_true(gp_torch_sizes(p.a, c->size, &rounded, &segment));
		if (rounded != c->rounded || segment != c->segment)
			fail_msg("%s: %llu bytes: %llu in a segment of %llu", c->spec,
				 (unsigned long long)c->size, (unsigned long long)rounded,
				 (unsigned long long)segment);
		close_pool(&p);
	}
}

static void segments_are_of_their_size(void **state)
{
	struct torch_pool p;

	(void)state;
	open_pool(&p, "torch");
	must(&p, MIB + 1);
	assert_int_equal(reserved(&p), 20 * MIB);
	must(&p, 10 * MIB); /* cut from the 19 MiB that are left */
	assert_int_equal(reserved(&p), 20 * MIB);
	must(&p, 10 * MIB);
	assert_int_equal(reserved(&p), 30 * MIB);
	must(&p, 10 * MIB + 1);
	assert_int_equal(reserved(&p), 42 * MIB);
	must(&p, 1);
	assert_int_equal(reserved(&p), 44 * MIB);
	assert_int_equal(stats(&p).num_device_alloc, 4);
	close_pool(&p);
}

/* The rest of a large block is cut off when it is more than 1 MiB, of a small one always. */
static void rests_are_cut_off(void **state)
{
	struct torch_pool p;
	uint64_t a, b;

	(void)state;
	open_pool(&p, "torch");
	a = must(&p, 12 * MIB);
	give(&p, a);
	assert_int_equal(must(&p, 11 * MIB), a); /* exactly 1 MiB over: kept whole */
	b = must(&p, 12 * MIB);
	assert_int_equal(reserved(&p), 24 * MIB);
	give(&p, b);
	assert_int_equal(must(&p, 11 * MIB - 512), b);
	give(&p, a);
	a = must(&p, 512);
	assert_int_equal(must(&p, 512), a + 512);
	close_pool(&p);
}

static void equal_blocks_go_by_address(void **state)
{
	uint64_t at[8], low = UINT64_MAX;
	struct torch_pool p;

	(void)state;
	open_pool(&p, "torch");
	for (unsigned i = 0; i < 8; i++)
		at[i] = must(&p, 12 * MIB);
	for (unsigned i = 0; i < 8; i += 2) {
		give(&p, at[(i + 4) % 8]);
		low = gp_min_u64(low, at[i]);
	}
	assert_int_equal(must(&p, 12 * MIB), low);
	close_pool(&p);
}

/* ---- expandable segments ---- */

struct expandable_case {
	const char *spec;
	unsigned n;
	uint64_t size;
	unsigned then_n;
	uint64_t then_size, reserved;
};

/* Pages are of 20 MiB: 128 MiB take seven. */
static void expandable_segments_take_other_sizes(void **state)
{
	static const struct expandable_case cases[] = {
		{ "torch", 8, 16 * MIB, 4, 32 * MIB, 256 * MIB },
		{ "torch:expandable_segments=true", 8, 16 * MIB, 4, 32 * MIB, 140 * MIB },
		{ "torch", 4, 32 * MIB, 8, 16 * MIB, 128 * MIB },
		{ "torch:expandable_segments=true", 4, 32 * MIB, 8, 16 * MIB, 140 * MIB },
		{ "torch:expandable_segments=true,large_segment_size_mb=16", 8, 16 * MIB, 4,
		  32 * MIB, 128 * MIB },
		{ "torch:expandable_segments=true,large_segment_size_mb=16", 4, 32 * MIB, 8,
		  16 * MIB, 128 * MIB },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		const struct expandable_case *c = &cases[i];
		struct torch_pool p;
		uint64_t at[8];

		open_pool(&p, c->spec);
		for (unsigned k = 0; k < c->n; k++)
			at[k] = must(&p, c->size);
		for (unsigned k = 0; k < c->n; k++)
			give(&p, at[k]);
		for (unsigned k = 0; k < c->then_n; k++)
			must(&p, c->then_size);
		assert_int_equal(reserved(&p), c->reserved);
		close_pool(&p);
	}
}

/* A flush unmaps the whole pages inside free blocks; what is left of those stays mapped. */
static void flush_unmaps_whole_pages(void **state)
{
	struct torch_pool p;
	uint64_t a, b, c, released = 0;

	(void)state;
	open_pool(&p, "torch:expandable_segments=true");
	a = must(&p, 30 * MIB); /* maps 40 */
	b = must(&p, 30 * MIB); /* 10 are there; 20 more */
	c = must(&p, 30 * MIB); /* none; 40 more */
	assert_int_equal(reserved(&p), 100 * MIB);
	assert_int_equal(stats(&p).num_device_alloc, 3);
	assert_true(b == a + 30 * MIB && c == a + 60 * MIB);
	give(&p, b);
	assert_int_equal(gp_trim(p.a, 0, &released), 0);
	/* Of 30..60 the page 40..60; of 90..100 none. */
	assert_int_equal(released, 20 * MIB);
	assert_int_equal(stats(&p).num_device_free, 1);
	/* The 10 MiB that stayed mapped and the hole behind them are the first run that fits. */
	assert_int_equal(must(&p, 30 * MIB), b);
	assert_int_equal(reserved(&p), 100 * MIB);
	give(&p, a);
	give(&p, b);
	give(&p, c);
	assert_int_equal(gp_trim(p.a, 0, NULL), 0);
	assert_int_equal(reserved(&p), 0);
	close_pool(&p);
}

/* ---- giving back ---- */

/* Ages 4, 3 and 2: those that are at least the mean go, in one pass. */
static void collection_takes_the_old(void **state)
{
	static const uint64_t sizes[] = { 12 * MIB, 14 * MIB, 16 * MIB };
	struct torch_pool p;

	(void)state;
	open_pool(&p, "torch:limit=100MiB,garbage_collection_threshold=0.5");
	for (unsigned i = 0; i < 3; i++)
		give(&p, must(&p, sizes[i]));
	must(&p, 20 * MIB); /* 42 MiB are below the trigger of 50 */
	assert_int_equal(reserved(&p), 62 * MIB);
	assert_int_equal(stats(&p).num_gc, 0);
	must(&p, 30 * MIB);
	assert_int_equal(reserved(&p), (16 + 20 + 30) * MIB);
	assert_int_equal(stats(&p).num_gc, 1);
	assert_int_equal(stats(&p).num_device_free, 2);
	assert_int_equal(stats(&p).num_alloc_retries, 0);
	close_pool(&p);
	/* Without a limit it is not armed. */
	open_pool(&p, "torch:garbage_collection_threshold=0.5");
	for (unsigned i = 0; i < 3; i++)
		give(&p, must(&p, sizes[i]));
	must(&p, 900 * MIB);
	assert_int_equal(stats(&p).num_gc, 0);
	close_pool(&p);
}

static void oversize_blocks_make_room(void **state)
{
	struct torch_pool p;
	uint64_t a, b;

	(void)state;
	open_pool(&p, "torch:limit=100MiB,max_split_size_mb=20");
	a = must(&p, 30 * MIB);
	b = must(&p, 32 * MIB);
	give(&p, a);
	give(&p, b);
	must(&p, 60 * MIB); /* 32 and 30 go, which is enough */
	assert_int_equal(reserved(&p), 60 * MIB);
	assert_int_equal(stats(&p).num_alloc_retries, 0);
	close_pool(&p);

	open_pool(&p, "torch:limit=100MiB,max_split_size_mb=20");
	a = must(&p, 30 * MIB);
	b = must(&p, 32 * MIB);
	give(&p, a);
	give(&p, b);
	must(&p, 70 * MIB); /* both go and are too little; the flush lets it through */
	assert_int_equal(stats(&p).num_alloc_retries, 1);
	close_pool(&p);

	open_pool(&p, "torch:limit=85MiB,max_split_size_mb=20");
	give(&p, must(&p, 60 * MIB));
	must(&p, 31 * MIB); /* 60 is too large by 20 and more; it goes alone */
	assert_int_equal(reserved(&p), 32 * MIB);
	assert_int_equal(stats(&p).num_alloc_retries, 0);
	close_pool(&p);
}

/* Requests below max_split_size do not touch larger blocks, and larger ones are never cut. */
static void oversize_blocks_stay_whole(void **state)
{
	struct torch_pool p;
	uint64_t a;

	(void)state;
	open_pool(&p, "torch:max_split_size_mb=40");
	a = must(&p, 50 * MIB);
	give(&p, a);
	must(&p, 12 * MIB);
	assert_int_equal(reserved(&p), 62 * MIB);
	assert_int_equal(must(&p, 42 * MIB), a);
	assert_int_equal(reserved(&p), 62 * MIB);
	close_pool(&p);
}

static void other_streams_hold_memory(void **state)
{
	struct torch_pool p;
	uint64_t a, b;

	(void)state;
	open_pool(&p, "torch:limit=20MiB");
	a = must(&p, 4 * MIB);
	assert_int_equal(request(&p, (struct gp_request){ .size = 4 * MIB, .stream = 1 }, &b),
			 GP_HELD);
	assert_int_equal(stats(&p).num_ooms, 1);
	must(&p, 16 * MIB);
	assert_int_equal(request(&p, (struct gp_request){ .size = 4 * MIB, .stream = 1 }, &b),
			 GP_NOMEM);
	give(&p, a);
	assert_int_equal(request(&p, (struct gp_request){ .size = 512, .stream = 1 }, &b),
			 GP_NOMEM);
	close_pool(&p);
}

/* A request that no card has memory for goes through the same steps. */
static void hopeless_requests_flush_too(void **state)
{
	struct torch_pool p;
	uint64_t addr;

	(void)state;
	for (uint64_t size = 2 * CAPACITY; size <= GP_SIZE_MAX; size *= 16) {
		open_pool(&p, "torch");
		give(&p, must(&p, 20 * MIB));
		assert_int_equal(request(&p, (struct gp_request){ .size = size }, &addr), GP_NOMEM);
		assert_int_equal(reserved(&p), 0);
		assert_true(stats(&p).num_ooms == 1 && stats(&p).num_alloc_retries == 1);
		close_pool(&p);
	}
}

/* ---- deferred frees ---- */

static void deferred_blocks_stay_until_complete(void **state)
{
	struct torch_pool p;
	uint64_t a, b;

	(void)state;
	open_pool(&p, "torch");
	assert_true(gp_can_defer(p.a));
	a = must(&p, 4 * MIB);
	b = must(&p, 4 * MIB);
	assert_int_equal(gp_defer(p.a, a, 1), 0);
	assert_int_equal(gp_free(p.a, a), -EALREADY);
	give(&p, b);
	assert_int_equal(stats(&p).pending_bytes, 4 * MIB);
	assert_true(must(&p, 4 * MIB) == b);
	assert_int_equal(gp_complete(p.a, a, 2), 0); /* another ticket: not this block's */
	assert_int_equal(stats(&p).pending_blocks, 1);
	assert_int_equal(gp_complete(p.a, a, 1), 0);
	assert_int_equal(stats(&p).pending_blocks, 0);
	assert_true(must(&p, 4 * MIB) == a);
	assert_int_equal(gp_complete(p.a, a, 1), 0); /* long over: the new block stays */
	give(&p, a);
	assert_int_equal(gp_defer(p.a, a, 1), -EALREADY);
	assert_int_equal(gp_defer(p.a, 12345, 1), -EINVAL);
	assert_int_equal(p.n_ended, 0);
	close_pool(&p);
}

static void flush_completes_in_order(void **state)
{
	struct torch_pool p;
	uint64_t at[3];

	(void)state;
	open_pool(&p, "torch:limit=60MiB");
	for (uint32_t i = 0; i < 3; i++)
		at[i] = must(&p, 20 * MIB);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(gp_defer(p.a, at[i], 10 + i), 0);
	assert_int_equal(gp_defer(p.a, at[0], 20), 0); /* again: to the end */
	must(&p, 50 * MIB);
	assert_int_equal(p.n_ended, 3);
	assert_true(p.ended[0] == 11 && p.ended[1] == 12 && p.ended[2] == 20);
	assert_int_equal(reserved(&p), 50 * MIB);
	assert_int_equal(stats(&p).num_sync_all_streams, 1);
	assert_int_equal(stats(&p).num_alloc_retries, 1);
	assert_int_equal(gp_complete(p.a, at[1], 11), 0);
	close_pool(&p);
}

/* After the flush PyTorch asks the driver again, but does not look at what the flush freed. */
static void lookup_after_flush_is_a_quirk(void **state)
{
	static const char *const specs[] = { "torch:limit=20MiB",
					     "torch:limit=20MiB,lookup_after_flush=true" };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct torch_pool p;
		uint64_t a, again;

		open_pool(&p, specs[i]);
		a = must(&p, 8 * MIB);
		must(&p, 8 * MIB);
		assert_int_equal(gp_defer(p.a, a, 1), 0);
		assert_int_equal(request(&p, (struct gp_request){ .size = 8 * MIB }, &again),
				 i ? 0 : GP_NOMEM);
		if (i)
			assert_int_equal(again, a);
		else
			assert_int_equal(must(&p, 8 * MIB), a); /* the same again: it is there */
		close_pool(&p);
	}
}

static void threads_do_not_defer(void **state)
{
	struct gp_env env = { .threads = 2 };
	struct gp_allocator *a;
	struct torch_pool p;
	char why[200];

	(void)state;
	open_pool(&p, "torch");
	assert_int_equal(gp_allocator_create("torch", p.dev, &env, &a, why, sizeof(why)), 0);
	assert_false(gp_can_defer(a));
	gp_allocator_destroy(a);
	assert_int_equal(gp_allocator_create("raw", p.dev, NULL, &a, why, sizeof(why)), 0);
	assert_false(gp_can_defer(a));
	assert_false(gp_torch_stats(a, &(struct gp_torch_stats){ 0 }));
	gp_allocator_destroy(a);
	close_pool(&p);
}

/* The engine's passes: block 1 is freed while another stream uses it, the flush of block 3 ends
 * that early, and its recorded end comes when its address has long been block 3's. */
static void replay_follows_deferred_frees(void **state)
{
	static const char *const wraps[] = { "check", "fault" };
	struct gp_trace *t = TRACE_OF(
		ALLOC(.id = 1, .size = 20 * MIB), ALLOC(.id = 2, .size = 512), FREE(.id = 1),
		ALLOC(.id = 3, .size = 20 * MIB), RECLAIM(.id = 1), FREE(.id = 3),
		ALLOC(.id = 4, .size = 16 * MIB), FREE(.id = 4), SYNC(), RECLAIM(.id = 4),
		FREE(.id = 2), ALLOC(.id = 5, .size = 512), FREE(.id = 5));
	struct gp_engine_config cfg = { .device = "sim",
					.device_config.capacity = 64 * MIB,
					.passes = GP_PASS_ALL,
					.repeat = 2,
					.wraps = wraps };
	struct gp_run *run = NULL;
	char why[200] = "";

	(void)state;
	for (cfg.n_wraps = 0; cfg.n_wraps <= 2; cfg.n_wraps++) {
		struct gp_run *r = NULL;

		if (gp_engine_run(t, "torch:limit=22MiB", &cfg, &r, why, sizeof(why)))
			fail_msg("%s", why);
		assert_string_equal(r->why, "");
		assert_int_equal(r->status, GP_STATUS_OK);
		assert_int_equal(r->failures.count, 0);
		assert_int_equal(r->memory.peak_reserved, 22 * MIB);
		assert_int_equal(r->driver.syncs, 2); /* the flush, and the recorded one */
		gp_run_destroy(r);
	}
	/* On threads a deferred block is freed at its reclaim, and block 3 has no room. */
	cfg.threads = 2;
	cfg.n_wraps = 0;
	assert_int_equal(gp_engine_run(t, "torch:limit=22MiB", &cfg, &run, why, sizeof(why)), 0);
	assert_string_equal(run->why, "");
	assert_int_equal(run->failures.count, 1);
	gp_run_destroy(run);
	gp_trace_destroy(t);
}

/* ---- private pools ---- */

static void pools_are_apart(void **state)
{
	struct torch_pool p;
	uint64_t graph, addr;

	(void)state;
	open_pool(&p, "torch");
	assert_int_equal(request(&p, (struct gp_request){ .size = 12 * MIB, .pool = 1 }, &graph),
			 0);
	give(&p, graph);
	assert_true(must(&p, 12 * MIB) != graph);
	assert_int_equal(gp_trim(p.a, 0, NULL), 0);
	assert_int_equal(reserved(&p), 24 * MIB); /* the pool's stays while it is used */
	assert_int_equal(request(&p, (struct gp_request){ .size = 12 * MIB, .pool = 1 }, &addr), 0);
	assert_int_equal(addr, graph);
	give(&p, graph);
	assert_true(gp_torch_release_pool(p.a, 1));
	assert_int_equal(gp_trim(p.a, 0, NULL), 0);
	assert_int_equal(reserved(&p), 12 * MIB);
	close_pool(&p);
}

/* ---- settings ---- */

static void bad_settings_are_refused(void **state)
{
	static const char *const cases[][2] = {
		{ "torch:max_split_size_mb=19", "too small, must be >= 20" },
		{ "torch:max_split_size_mb=24,large_segment_size_mb=32", "must be >= 32" },
		{ "torch:max_non_split_rounding_mb=19", "expected 20" },
		{ "torch:large_segment_size_mb=10", "expected 11" },
		{ "torch:garbage_collection_threshold=1", "below 1" },
		{ "torch:garbage_collection_threshold=1.5", "from 0 to 1" },
		{ "torch:roundup_power2_divisions=3", "power of 2" },
		{ "torch:roundup_power2_divisions=[3:4]", "intervals have to be power of 2" },
		{ "torch:roundup_power2_divisions=[4:3]", "power of 2 or 0" },
		{ "torch:roundup_power2_divisions=[4:2", "expected , or ]" },
		{ "torch:roundup_power2_divisions=[4:2]]", "nothing after" },
		{ "torch:roundup_power2_divisions=[4]", "pairs" },
		{ "torch:roundup_power2_divisions=[4:2,]", "expected , or ]" },
		{ "torch:limit=1GiB,per_process_memory_fraction=0.5", "expected one of them" },
		{ "torch:torch_version=1.13", "such as 2.11" },
		{ "torch:torch_version=2.x", "such as 2.11" },
		{ "torch:torch_version=2.0,expandable_segments=true", "since PyTorch 2.1" },
		{ "torch:torch_version=2.5,max_non_split_rounding_mb=30", "since PyTorch 2.6" },
		{ "torch:torch_version=2.10,large_segment_size_mb=30", "since PyTorch 2.11" },
		{ "torch:max_split_size=64", "max_split_size_mb" },
	};
	struct gp_device_config cfg = { .capacity = CAPACITY };
	struct gp_device *dev;
	char why[256];

	(void)state;
	assert_int_equal(gp_device_open_sim(&cfg, &dev, why, sizeof(why)), 0);
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		struct gp_allocator *a = NULL;

		why[0] = '\0';
		if (gp_allocator_create(cases[i][0], dev, NULL, &a, why, sizeof(why)) != -EINVAL ||
		    !strstr(why, cases[i][1]))
			fail_msg("%s: \"%s\"", cases[i][0], why);
	}
	gp_device_close(dev);
}

static void fraction_is_a_limit(void **state)
{
	struct torch_pool p;
	uint64_t addr;

	(void)state;
	open_pool(&p, "torch:per_process_memory_fraction=0.5");
	must(&p, 512 * MIB);
	assert_true(request(&p, (struct gp_request){ .size = 512 }, &addr) > 0);
	close_pool(&p);
	open_pool(&p, "torch:per_process_memory_fraction=0");
	assert_true(request(&p, (struct gp_request){ .size = 512 }, &addr) > 0);
	close_pool(&p);
}

static void alignment_is_512(void **state)
{
	struct torch_pool p;
	uint64_t addr;

	(void)state;
	open_pool(&p, "torch");
	assert_int_equal(request(&p, (struct gp_request){ .size = 1, .lg_align = 9 }, &addr), 0);
	assert_int_equal(request(&p, (struct gp_request){ .size = 1, .lg_align = 10 }, &addr),
			 GP_REFUSED);
	close_pool(&p);
}

/* ---- the environment variable ---- */

struct conf_case {
	const char *base, *conf, *expect; /* the spec, or what a refusal says */
};

static void conf_becomes_a_spec(void **state)
{
	static const struct conf_case cases[] = {
		{ NULL, "", "torch" },
		{ NULL, "expandable_segments:True", "torch:expandable_segments=true" },
		{ NULL, " max_split_size_mb : 128 , expandable_segments:False",
		  "torch:max_split_size_mb=128,expandable_segments=false" },
		{ "torch:limit=8GiB", "garbage_collection_threshold:0.8",
		  "torch:limit=8GiB,garbage_collection_threshold=0.8" },
		{ NULL, "roundup_power2_divisions:[256:1,512:2,>:4],max_split_size_mb:64",
		  "torch:roundup_power2_divisions=[256:1,512:2,>:4],max_split_size_mb=64" },
		{ NULL, "roundup_power2_divisions:8", "torch:roundup_power2_divisions=8" },
		{ NULL, "per_process_memory_fraction:0.5,large_segment_size_mb:64",
		  "torch:per_process_memory_fraction=0.5,large_segment_size_mb=64" },
		{ NULL,
		  "backend:native,pinned_use_cuda_host_register:True,"
		  "pinned_num_register_threads:8,max_split_size_mb:64",
		  "torch:max_split_size_mb=64" },
		{ NULL, "max_split_size_mb:64,", "torch:max_split_size_mb=64" },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		struct gp_torch_conf out;
		int r = gp_torch_conf_parse(cases[i].base, cases[i].conf, &out);
		struct torch_pool p;

		if (r || strcmp(out.spec, cases[i].expect))
			fail_msg("%s: %s%s", cases[i].conf, out.spec, out.why);
		open_pool(&p, out.spec);
		close_pool(&p);
	}
}

static void bad_conf_is_refused(void **state)
{
	static const struct conf_case cases[] = {
		{ NULL, "max_split_sise_mb:64",
		  "Unrecognized CachingAllocator option: "
		  "max_split_sise_mb, did you mean max_split_size_mb?" },
		{ NULL, "foo:1", "Unrecognized CachingAllocator option: foo" },
		{ NULL, "max_split_size_mb", "expected : after" },
		{ NULL, "max_split_size_mb:", "Error, expecting max_split_size_mb value" },
		{ NULL, "max_split_size_mb:0", "too small, must be >= 20" },
		{ NULL, "max_split_size_mb:19", "too small, must be >= 20" },
		{ NULL, "max_split_size_mb:64MB", "expected a whole number" },
		{ NULL, "max_split_size_mb:-1", "expected a whole number" },
		{ NULL, "max_split_size_mb:[64]", "no list" },
		{ NULL, "max_non_split_rounding_mb:10", "too small, must be >= 20" },
		{ NULL, "large_segment_size_mb:10", "too small, must be >= 11" },
		{ NULL, "expandable_segments:true",
		  "Expected a single True/False argument for "
		  "expandable_segments" },
		{ NULL, "expandable_segments:1", "True/False" },
		{ NULL, "garbage_collection_threshold:0", "set it in (0.0, 1.0)" },
		{ NULL, "garbage_collection_threshold:1.0", "set it in (0.0, 1.0)" },
		{ NULL, "garbage_collection_threshold:80", "set it in (0.0, 1.0)" },
		{ NULL, "garbage_collection_threshold:nan", "set it in (0.0, 1.0)" },
		{ NULL, "per_process_memory_fraction:1.1", "set it in [0.0, 1.0]" },
		{ NULL, "roundup_power2_divisions:0", "power of 2" },
		{ NULL, "roundup_power2_divisions:6", "power of 2" },
		{ NULL, "roundup_power2_divisions:[256:3]", "power of 2 or 0" },
		{ NULL, "roundup_power2_divisions:[255:4]", "intervals have to be power of 2" },
		{ NULL, "roundup_power2_divisions:[256:4", "expected , or ]" },
		{ NULL, "backend:cudaMallocAsync", "not modelled" },
		{ NULL, "backend:mine", "Unknown allocator backend" },
		{ NULL, ",max_split_size_mb:64", "Unrecognized CachingAllocator option" },
		{ NULL, "expandable_segments=True", "Unrecognized CachingAllocator option" },
	};

	(void)state;
	for (size_t i = 0; i < GP_ARRAY_LEN(cases); i++) {
		struct gp_torch_conf out;

		if (gp_torch_conf_parse(cases[i].base, cases[i].conf, &out) != -EINVAL ||
		    !strstr(out.why, cases[i].expect))
			fail_msg("%s: %s \"%s\"", cases[i].conf, out.spec, out.why);
	}
}

static void idle_settings_are_noted(void **state)
{
	struct gp_torch_conf out;
	char text[600];

	(void)state;
	assert_int_equal(gp_torch_conf_parse(NULL, "pinned_num_register_threads:4", &out), 0);
	assert_non_null(strstr(out.notes, "pinned_num_register_threads"));
	assert_int_equal(gp_torch_conf_parse(NULL, "garbage_collection_threshold:0.5", &out), 0);
	assert_non_null(strstr(out.notes, "without a memory limit"));
	assert_int_equal(
		gp_torch_conf_parse("torch:limit=1GiB", "garbage_collection_threshold:0.5", &out),
		0);
	assert_string_equal(out.notes, "");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(gp_torch_conf_parse(NULL, text, &out), -EINVAL);
	assert_int_equal(gp_torch_conf_parse(text, "", &out), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_rounded),
		cmocka_unit_test(segments_are_of_their_size),
		cmocka_unit_test(rests_are_cut_off),
		cmocka_unit_test(equal_blocks_go_by_address),
		cmocka_unit_test(expandable_segments_take_other_sizes),
		cmocka_unit_test(flush_unmaps_whole_pages),
		cmocka_unit_test(collection_takes_the_old),
		cmocka_unit_test(oversize_blocks_make_room),
		cmocka_unit_test(oversize_blocks_stay_whole),
		cmocka_unit_test(other_streams_hold_memory),
		cmocka_unit_test(hopeless_requests_flush_too),
		cmocka_unit_test(deferred_blocks_stay_until_complete),
		cmocka_unit_test(flush_completes_in_order),
		cmocka_unit_test(lookup_after_flush_is_a_quirk),
		cmocka_unit_test(threads_do_not_defer),
		cmocka_unit_test(replay_follows_deferred_frees),
		cmocka_unit_test(pools_are_apart),
		cmocka_unit_test(bad_settings_are_refused),
		cmocka_unit_test(fraction_is_a_limit),
		cmocka_unit_test(alignment_is_512),
		cmocka_unit_test(conf_becomes_a_spec),
		cmocka_unit_test(bad_conf_is_refused),
		cmocka_unit_test(idle_settings_are_noted),
	};

	return cmocka_run_group_tests_name("torch", tests, NULL, NULL);
}
