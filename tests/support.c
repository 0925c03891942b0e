/* SPDX-License-Identifier: Apache-2.0
 *
 * support: see support.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

uint64_t test_random(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t test_below(uint64_t *seed, uint64_t n)
{
	return test_random(seed) % n;
}

uint64_t test_log_uniform(uint64_t *seed, uint64_t lo, uint64_t hi)
{
	unsigned a = gp_floor_log2(lo), b = gp_floor_log2(hi);
	uint64_t base = UINT64_C(1) << (a + test_below(seed, b - a + 1));
	uint64_t v = base + test_below(seed, base);

	return v < lo ? lo : gp_min_u64(v, hi);
}

/* ---- intervals ---- */

void test_intervals_fini(struct test_intervals *s)
{
	free(s->at);
	*s = (struct test_intervals){ 0 };
}

size_t test_intervals_from(const struct test_intervals *s, uint64_t addr)
{
	size_t lo = 0, hi = s->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->at[mid].addr + s->at[mid].size > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

struct test_interval *test_intervals_overlap(const struct test_intervals *s, uint64_t addr,
					     uint64_t size)
{
	size_t i = test_intervals_from(s, addr);

	return i < s->n && s->at[i].addr < addr + size ? &s->at[i] : NULL;
}

static void intervals_insert(struct test_intervals *s, size_t i, struct test_interval v)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->at = realloc(s->at, s->cap * sizeof(*s->at));
		assert_non_null(s->at);
	}
	memmove(s->at + i + 1, s->at + i, (s->n - i) * sizeof(*s->at));
	s->at[i] = v;
	s->n++;
}

static void intervals_delete(struct test_intervals *s, size_t i)
{
	memmove(s->at + i, s->at + i + 1, (s->n - i - 1) * sizeof(*s->at));
	s->n--;
}

bool test_intervals_add(struct test_intervals *s, uint64_t addr, uint64_t size, uint64_t tag)
{
	if (test_intervals_overlap(s, addr, size))
		return false;
	intervals_insert(s, test_intervals_from(s, addr),
			 (struct test_interval){ addr, size, tag });
	return true;
}

bool test_intervals_remove(struct test_intervals *s, uint64_t addr)
{
	size_t i = test_intervals_from(s, addr);

	if (i == s->n || s->at[i].addr != addr)
		return false;
	intervals_delete(s, i);
	return true;
}

void test_intervals_cut(struct test_intervals *s, uint64_t addr, uint64_t size)
{
	uint64_t end = addr + size;
	size_t i = test_intervals_from(s, addr);

	while (i < s->n && s->at[i].addr < end) {
		struct test_interval old = s->at[i];
		uint64_t old_end = old.addr + old.size;

		intervals_delete(s, i);
		if (old.addr < addr)
			intervals_insert(
				s, i++,
				(struct test_interval){ old.addr, addr - old.addr, old.tag });
		if (old_end > end)
			intervals_insert(s, i++,
					 (struct test_interval){ end, old_end - end, old.tag });
	}
}

void test_intervals_join(struct test_intervals *s, uint64_t addr, uint64_t size, uint64_t tag)
{
	size_t i;

	assert_true(test_intervals_add(s, addr, size, tag));
	i = test_intervals_from(s, addr);
	if (i + 1 < s->n && s->at[i + 1].tag == tag && s->at[i + 1].addr == addr + size) {
		s->at[i].size += s->at[i + 1].size;
		intervals_delete(s, i + 1);
	}
	if (i && s->at[i - 1].tag == tag && s->at[i - 1].addr + s->at[i - 1].size == addr) {
		s->at[i - 1].size += s->at[i].size;
		intervals_delete(s, i);
	}
}

bool test_intervals_cover(const struct test_intervals *s, uint64_t addr, uint64_t size)
{
	size_t i = test_intervals_from(s, addr);

	return i < s->n && s->at[i].addr <= addr && s->at[i].addr + s->at[i].size >= addr + size;
}

uint64_t test_intervals_bytes(const struct test_intervals *s)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < s->n; i++)
		bytes += s->at[i].size;
	return bytes;
}

/* ---- the spy ---- */

static struct spy *spy_of_device;
static struct gp_device_ops spy_ops;

static int spy_fails(enum spy_hook hook)
{
	struct spy *spy = spy_of_device;

	if (atomic_fetch_add(&spy->n_calls[hook], 1) + 1 != spy->fail_nth[hook])
		return 0;
	return gp_device_fault(spy->dev, -EIO, "the test made this call fail");
}

static int spy_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	struct spy *spy = spy_of_device;
	int r = spy_fails(SPY_RESERVE);

	if (!r)
		r = spy->real->reserve(dev, size, addr);
	if (r)
		return r;
	/* Small reservations share pages: the page may have been held all along. */
	pthread_mutex_lock(&spy->lock);
	test_intervals_cut(&spy->freed, *addr, size);
	pthread_mutex_unlock(&spy->lock);
	return 0;
}

static int spy_create(struct gp_device *dev, uint64_t size, uint64_t *handle)
{
	int r = spy_fails(SPY_CREATE);

	return r ? r : spy_of_device->real->create(dev, size, handle);
}

static int spy_async_alloc(struct gp_device *dev, struct gp_async *pool, uint64_t size,
			   uint32_t stream, uint64_t *addr)
{
	int r = spy_fails(SPY_ASYNC_ALLOC);

	return r ? r : spy_of_device->real->async_alloc(dev, pool, size, stream, addr);
}

static int spy_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle)
{
	int r = spy_fails(SPY_MAP);

	return r ? r : spy_of_device->real->map(dev, addr, size, handle);
}

static int spy_va_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	int r = spy_fails(SPY_VA_RESERVE);

	return r ? r : spy_of_device->real->va_reserve(dev, size, addr);
}

/* What `from` itself waited for earlier is done before its event, too. */
static int spy_stream_wait(struct gp_device *dev, uint32_t from, uint32_t to)
{
	struct spy *spy = spy_of_device;
	int r = spy_fails(SPY_WAIT);

	if (!r)
		r = spy->real->stream_wait(dev, from, to);
	if (r || from >= SPY_STREAMS || to >= SPY_STREAMS)
		return r;
	pthread_mutex_lock(&spy->lock);
	spy->waits++;
	spy->seen[to][from] = spy->now;
	for (unsigned s = 0; s < SPY_STREAMS; s++)
		spy->seen[to][s] = gp_max_u64(spy->seen[to][s], spy->seen[from][s]);
	pthread_mutex_unlock(&spy->lock);
	return 0;
}

static int spy_sync(struct gp_device *dev)
{
	struct spy *spy = spy_of_device;

	pthread_mutex_lock(&spy->lock);
	test_intervals_fini(&spy->freed);
	pthread_mutex_unlock(&spy->lock);
	return spy->real->sync(dev);
}

/* Memory that leaves the device is waited for by the driver, or must have been by the caller
 * (gp_pool_put): what comes back at its address is fresh. */
static void spy_observe(void *arg, bool added, struct gp_range range, bool joins, uint64_t same)
{
	struct spy *spy = arg;

	pthread_mutex_lock(&spy->lock);
	if (added && same)
		assert_true(test_intervals_add(&spy->same, range.addr, range.size, same));
	else if (same)
		assert_true(test_intervals_remove(&spy->same, range.addr));
	else if (added && joins)
		test_intervals_join(&spy->held, range.addr, range.size, 1);
	else if (added)
		assert_true(test_intervals_add(&spy->held, range.addr, range.size, 0));
	else
		test_intervals_cut(&spy->held, range.addr, range.size);
	if (!added && !same)
		test_intervals_cut(&spy->freed, range.addr, range.size);
	pthread_mutex_unlock(&spy->lock);
}

void spy_attach(struct spy *spy, struct gp_device *dev)
{
	*spy = (struct spy){ .dev = dev, .real = dev->ops };
	pthread_mutex_init(&spy->lock, NULL);
	spy_of_device = spy;
	spy_ops = *dev->ops;
	spy_ops.reserve = spy_reserve;
	spy_ops.async_alloc = spy_async_alloc;
	spy_ops.create = spy_create;
	spy_ops.map = spy_map;
	spy_ops.va_reserve = spy_va_reserve;
	spy_ops.stream_wait = spy_stream_wait;
	spy_ops.sync = spy_sync;
	dev->ops = &spy_ops;
	gp_device_observe(dev, spy_observe, spy);
}

void spy_detach(struct spy *spy)
{
	gp_device_observe(spy->dev, NULL, NULL);
	spy->dev->ops = spy->real;
	spy_of_device = NULL;
	test_intervals_fini(&spy->held);
	test_intervals_fini(&spy->same);
	test_intervals_fini(&spy->used);
	test_intervals_fini(&spy->freed);
	pthread_mutex_destroy(&spy->lock);
}

void spy_free_begins(struct spy *spy)
{
	spy->now++;
}

uint64_t spy_place(const struct spy *spy, uint64_t addr, uint64_t *left)
{
	const struct test_interval *v = test_intervals_overlap(&spy->same, addr, 1);

	if (!v)
		return addr;
	*left = gp_min_u64(*left, v->addr + v->size - addr);
	return v->tag + (addr - v->addr);
}

static void spy_piece_freed(struct spy *spy, uint64_t addr, uint64_t size, uint32_t stream)
{
	test_intervals_cut(&spy->used, addr, size);
	/* The block, or a part of it, may have left the device in its free. */
	for (size_t i = test_intervals_from(&spy->held, addr); i < spy->held.n; i++) {
		uint64_t lo = gp_max_u64(addr, spy->held.at[i].addr);
		uint64_t hi = gp_min_u64(addr + size, spy->held.at[i].addr + spy->held.at[i].size);

		if (lo >= hi)
			break;
		assert_true(test_intervals_add(&spy->freed, lo, hi - lo, spy->now << 8 | stream));
	}
}

void spy_block_freed(struct spy *spy, uint64_t addr, uint64_t size, uint32_t stream)
{
	assert_true(stream < SPY_STREAMS && spy->now < UINT64_C(1) << 56);
	for (uint64_t end = addr + size, left; addr < end; addr += left) {
		uint64_t place;

		left = end - addr;
		place = spy_place(spy, addr, &left);
		spy_piece_freed(spy, place, left, stream);
	}
}

static const char *spy_piece_given(struct spy *spy, uint64_t addr, uint64_t size, uint32_t stream)
{
	static char text[160];
	const struct test_interval *v;
	const char *wrong = NULL;

	if (!test_intervals_cover(&spy->held, addr, size))
		return "not inside one piece of device memory";
	if (!test_intervals_add(&spy->used, addr, size, 0))
		return "the memory of a live block";
	for (size_t i = test_intervals_from(&spy->freed, addr); i < spy->freed.n; i++) {
		v = &spy->freed.at[i];
		if (v->addr >= addr + size)
			break;
		if (spy->driver_orders || (v->tag & 0xff) == stream ||
		    spy->seen[stream][v->tag & 0xff] >= v->tag >> 8)
			continue;
		snprintf(text, sizeof(text),
			 "0x%" PRIx64 " + %" PRIu64 " was freed on stream %u at moment %" PRIu64
			 " of %" PRIu64 ", which stream %u waited for until %" PRIu64,
			 v->addr, v->size, (unsigned)(v->tag & 0xff), v->tag >> 8, spy->now, stream,
			 spy->seen[stream][v->tag & 0xff]);
		wrong = text;
	}
	test_intervals_cut(&spy->freed, addr, size);
	return wrong;
}

const char *spy_block_given(struct spy *spy, uint64_t addr, uint64_t size, uint32_t stream)
{
	const char *wrong = NULL;

	spy->now++;
	for (uint64_t end = addr + size, left; addr < end && !wrong; addr += left) {
		uint64_t place;

		left = end - addr;
		place = spy_place(spy, addr, &left);
		wrong = spy_piece_given(spy, place, left, stream);
	}
	return wrong;
}

/* ---- pools ---- */

size_t test_specs(const char *spec, char specs[TEST_SPECS][TEST_SPEC_SIZE])
{
	static const char *const grow[TEST_SPECS] = { "vmm", "chunk", "prealloc" };
	const struct gp_allocator_ops *ops;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(spec, ":"), spec);
	ops = gp_allocator_find(name);
	if (!ops || !(ops->caps & GP_CAP_GROWS) || strstr(spec, "grow=")) {
		snprintf(specs[0], TEST_SPEC_SIZE, "%s", spec);
		return ops != NULL;
	}
	for (size_t i = 0; i < TEST_SPECS; i++)
		snprintf(specs[i], TEST_SPEC_SIZE, "%s%cgrow=%s", spec,
			 strchr(spec, ':') ? ',' : ':', grow[i]);
	return TEST_SPECS;
}

const struct gp_env test_env = {
	.streams = 4,
	.typical_size = 64 * GP_KIB,
	.typical_live = 256,
};

static void pool_open_device(struct pool *p, const struct gp_device_config *cfg)
{
	char why[200] = "";

	memset(p, 0, sizeof(*p));
	if (gp_device_open_sim(cfg, &p->dev, why, sizeof(why)))
		fail_msg("no simulated device: %s", why);
	spy_attach(&p->spy, p->dev);
}

static void pool_close_device(struct pool *p)
{
	struct gp_device_stats stats;

	gp_device_stats(p->dev, &stats);
	assert_int_equal(stats.reserved_bytes, 0);
	assert_int_equal(p->spy.held.n, 0);
	spy_detach(&p->spy);
	test_intervals_fini(&p->live);
	gp_device_close(p->dev);
}

void pool_open(struct pool *p, const char *spec, const char *const *wraps, uint64_t capacity,
	       unsigned threads)
{
	const struct gp_device_config cfg = { .capacity = capacity };
	struct gp_env env = test_env;
	char why[200] = "";
	int r;

	pool_open_device(p, &cfg);
	env.threads = threads;
	r = gp_allocator_create(spec, p->dev, &env, &p->a, why, sizeof(why));
	p->spy.driver_orders = !r && pool_has(p, GP_CAP_DRIVER_POOL);
	for (; !r && wraps && *wraps; wraps++)
		r = gp_allocator_wrap(*wraps, p->a, &p->a, why, sizeof(why));
	if (r)
		fail_msg("%s: %d: %s", spec, r, why);
}

int pool_try_open(struct pool *p, const char *spec, const struct gp_device_config *cfg,
		  enum spy_hook fail_hook, uint64_t fail_nth)
{
	char why[200] = "";
	int r;

	pool_open_device(p, cfg);
	if (fail_hook < SPY_HOOK_N)
		p->spy.fail_nth[fail_hook] = fail_nth;
	r = gp_allocator_create(spec, p->dev, &test_env, &p->a, why, sizeof(why));
	p->spy.driver_orders = !r && pool_has(p, GP_CAP_DRIVER_POOL);
	if (r) {
		assert_true(why[0]);
		pool_close_device(p);
	}
	return r;
}

void pool_close(struct pool *p)
{
	p->a = gp_allocator_destroy(p->a);
	pool_close_device(p);
}

int pool_alloc(struct pool *p, uint64_t size, unsigned lg_align, uint32_t stream, uint64_t *addr)
{
	struct gp_request req = { .size = size, .stream = stream, .lg_align = (uint8_t)lg_align };
	uint64_t align = UINT64_C(1) << (lg_align < 8 ? 8 : lg_align);
	struct gp_block block = { 1, 1 };
	const char *wrong;
	int r = gp_alloc(p->a, &req, &block);

	if (r < 0)
		fail_msg("%" PRIu64 " bytes: %d: %s", size, r, p->a->why);
	if (r) {
		assert_true(r <= GP_HELD);
		assert_true(block.addr == 1 && block.granted == 1);
		return r;
	}
	assert_true(block.addr && block.addr % align == 0);
	assert_true(block.granted >= size);
	if (!test_intervals_add(&p->live, block.addr, block.granted, stream))
		fail_msg("%" PRIu64 " bytes at 0x%" PRIx64 " lie over a live block", size,
			 block.addr);
	wrong = spy_block_given(&p->spy, block.addr, block.granted, stream);
	if (wrong)
		fail_msg("%" PRIu64 " bytes at 0x%" PRIx64 ": %s", size, block.addr, wrong);
	*addr = block.addr;
	return 0;
}

void pool_free(struct pool *p, uint64_t addr)
{
	struct test_interval *v = test_intervals_overlap(&p->live, addr, 1);
	struct test_interval block;
	int r;

	assert_non_null(v);
	block = *v;
	spy_free_begins(&p->spy);
	r = gp_free(p->a, addr);
	if (r)
		fail_msg("free of 0x%" PRIx64 ": %d: %s", addr, r, p->a->why);
	spy_block_freed(&p->spy, block.addr, block.size, (uint32_t)block.tag);
	test_intervals_remove(&p->live, addr);
}

void pool_free_all(struct pool *p)
{
	while (p->live.n)
		pool_free(p, p->live.at[p->live.n / 2].addr);
}

struct gp_usage pool_usage(const struct pool *p)
{
	struct gp_usage u = { 0 };

	gp_usage(p->a, &u);
	return u;
}

void pool_audit(struct pool *p)
{
	struct gp_usage u = pool_usage(p);
	char *text = NULL;
	size_t size = 0;
	FILE *why = open_memstream(&text, &size);
	int r = gp_check(p->a, why);

	fclose(why);
	if (r)
		fail_msg("check: %d: %s", r, text);
	free(text);
	assert_int_equal(u.live_blocks, p->live.n);
	assert_int_equal(u.granted_bytes, test_intervals_bytes(&p->live));
	assert_true(u.reserved_bytes >= u.granted_bytes);
	assert_int_equal(u.event_waits, p->spy.waits);
}

void pool_refuses_free(struct pool *p, uint64_t addr, int want)
{
	struct gp_usage before = pool_usage(p), after;
	int r = gp_free(p->a, addr);

	if (want ? r != want : r != -EINVAL && r != -EALREADY)
		fail_msg("free of 0x%" PRIx64 ": %d, expected %d", addr, r, want);
	after = pool_usage(p);
	assert_memory_equal(&before, &after, sizeof(before));
	pool_audit(p);
}

const struct gp_allocator *pool_bare(const struct pool *p)
{
	const struct gp_allocator *a = p->a;

	while (a->ops->caps & GP_CAP_DECORATOR)
		a = a->inner;
	return a;
}

bool pool_has(const struct pool *p, enum gp_cap cap)
{
	return pool_bare(p)->ops->caps & cap;
}

bool test_spec_is_default(const char *spec)
{
	const char *options = strchr(spec, ':');

	return !options || (!strncmp(options, ":grow=", 6) && !strchr(options, ','));
}
