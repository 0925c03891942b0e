/* SPDX-License-Identifier: Apache-2.0
 *
 * test_torch_recordings [SPEC TRACE [POOLS]]: the model of PyTorch's allocator against recordings
 * of the real one. An oracle stands for the device: it gives each new segment the recorded address,
 * so that every difference is the model's. Compared: the address of every allocation, and all that
 * the recording says of the driver (segments taken, given back, mapped, unmapped; out of memory),
 * in order. Without arguments: the recordings of the project. POOLS tells private pools apart: lines
 * "ADDRESS BYTES NUMBER" of the segments that belong to one at the end; a segment that is given
 * back before is taken for one of the default pool.
 *
 * What a recording does not say is worked out:
 *   which ends of deferred frees an allocation saw and which a flush inside it brought about: those
 *   from the first one on that would have made the flush needless
 *   calls of empty_cache: memory given back though nothing was short
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/torch/torch.h"
#include "replay/trace.h"

#define FRESH     (UINT64_C(1) << 46) /* addresses that no recording has */
#define POOLS_MAX 1024

struct happening {
	uint8_t op; /* enum gp_op */
	uint32_t stream;
	uint64_t addr, size;
};

struct happenings {
	struct happening *at;
	size_t n, cap;
};

struct oracle {
	struct gp_device dev;
	const struct gp_trace *trace;
	size_t event; /* the first of those that belong to the call under way */
	uint64_t fresh;
};

struct verifier {
	struct oracle oracle;
	const struct gp_trace *trace;
	struct gp_allocator *a;
	bool short_of_memory; /* a limit is set: giving back needs no empty_cache */
	uint32_t *stream;     /* [dense]: its rank by the handle, which is PyTorch's order */
	uint64_t *addr;       /* [id]: as the model has it; 0: not live */
	size_t pending;
	struct happenings model, recorded;
	size_t compared, matched, first; /* allocations; first event that differs */
};

static struct {
	uint64_t addr, size;
	unsigned pool;
	size_t since; /* event that took the segment; before, its addresses were another's */
} pools[POOLS_MAX];
static size_t n_pools;

/* ---- the device ---- */

/* The next event of this kind that belongs to the call under way. */
static size_t oracle_next(const struct oracle *o, enum gp_op op)
{
	for (size_t i = o->event; i < o->trace->n_events; i++) {
		if (o->trace->events[i].op == op)
			return i;
		if (o->trace->events[i].op < GP_OP_SEGMENT_ALLOC && i > o->event)
			break;
	}
	return SIZE_MAX;
}

static uint64_t oracle_fresh(struct oracle *o, uint64_t size)
{
	o->fresh += gp_align_up(size, GP_GIB);
	return FRESH + o->fresh;
}

static int oracle_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	struct oracle *o = (struct oracle *)dev;
	size_t i = oracle_next(o, GP_OP_SEGMENT_ALLOC);

	*addr = i != SIZE_MAX ? o->trace->addrs[i] : oracle_fresh(o, size);
	return 0;
}

/* The first pages of a range are mapped in the same call. */
static int oracle_va_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	struct oracle *o = (struct oracle *)dev;
	size_t i = oracle_next(o, GP_OP_SEGMENT_MAP);

	*addr = i != SIZE_MAX ? o->trace->addrs[i] : oracle_fresh(o, size);
	return 0;
}

static int oracle_release(struct gp_device *dev, uint64_t addr)
{
	(void)dev, (void)addr;
	return 0;
}

static int oracle_create(struct gp_device *dev, uint64_t size, uint64_t *handle)
{
	(void)dev, (void)size;
	*handle = 0;
	return 0;
}

static int oracle_pages(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	(void)dev, (void)addr, (void)size;
	return 0;
}

static int oracle_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle)
{
	(void)handle;
	return oracle_pages(dev, addr, size);
}

static int oracle_sync(struct gp_device *dev)
{
	(void)dev;
	return 0;
}

static const struct gp_device_ops oracle_ops = {
	.name = "oracle",
	.reserve = oracle_reserve,
	.release = oracle_release,
	.va_reserve = oracle_va_reserve,
	.va_release = oracle_pages,
	.create = oracle_create,
	.destroy = oracle_pages,
	.map = oracle_map,
	.unmap = oracle_pages,
	.sync = oracle_sync,
};

/* ---- what happened ---- */

static void happen(struct happenings *h, struct happening what)
{
	if (h->n == h->cap) {
		h->cap = h->cap ? 2 * h->cap : 256;
		h->at = realloc(h->at, h->cap * sizeof(*h->at));
		assert_non_null(h->at);
	}
	h->at[h->n++] = what;
}

static void on_torch(void *arg, enum gp_torch_event what, struct gp_range range, uint32_t stream)
{
	static const uint8_t ops[] = { GP_OP_SEGMENT_ALLOC, GP_OP_SEGMENT_FREE, GP_OP_SEGMENT_MAP,
				       GP_OP_SEGMENT_UNMAP, GP_OP_OOM };
	struct verifier *v = arg;

	happen(&v->model, (struct happening){ ops[what], stream, range.addr, range.size });
}

static void on_completed(void *arg, uint64_t addr, uint32_t ticket)
{
	struct verifier *v = arg;

	assert_int_equal(v->addr[ticket], addr);
	v->addr[ticket] = 0;
	v->pending--;
}

/* ---- replay ---- */

static bool is_driver(const struct gp_trace *t, size_t i)
{
	return i < t->n_events && t->events[i].op >= GP_OP_SEGMENT_ALLOC;
}

/* The allocation that the driver's events from i on belong to; SIZE_MAX: to none. */
static size_t request_after(const struct verifier *v, size_t i)
{
	while (is_driver(v->trace, i) && v->trace->events[i].op != GP_OP_OOM)
		i++;
	if (i == v->trace->n_events)
		return SIZE_MAX;
	return v->trace->events[i].op == GP_OP_ALLOC || v->trace->events[i].op == GP_OP_OOM
		       ? i
		       : SIZE_MAX;
}

static void find_pool_segments(const struct gp_trace *t)
{
	for (size_t p = 0; p < n_pools; p++)
		for (size_t i = 0; i < t->n_events; i++)
			if (t->events[i].op == GP_OP_SEGMENT_ALLOC && t->addrs[i] == pools[p].addr)
				pools[p].since = i;
}

static uint8_t pool_of(const struct gp_trace *t, size_t i)
{
	for (size_t p = 0; p < n_pools; p++)
		if (t->addrs[i] - pools[p].addr < pools[p].size && i > pools[p].since)
			return (uint8_t)pools[p].pool;
	return 0;
}

static void replay_alloc(struct verifier *v, size_t i)
{
	const struct gp_event *e = &v->trace->events[i];
	bool oom = e->op == GP_OP_OOM;
	struct gp_request req = { .size = e->size,
				  .stream = v->stream[e->stream],
				  .pool = oom ? 0 : pool_of(v->trace, i) };
	struct gp_block block = { 0, 0 };
	int r = gp_alloc(v->a, &req, &block);

	assert_true(r >= 0);
	if (oom)
		return;
	v->addr[e->id] = block.addr;
	v->compared++;
	v->matched += block.addr == v->trace->addrs[i];
	if (block.addr != v->trace->addrs[i] && v->first > i)
		v->first = i;
}

static void replay_reclaim(struct verifier *v, const struct gp_event *e)
{
	if (!v->addr[e->id])
		return;
	assert_int_equal(gp_complete(v->a, v->addr[e->id], e->id), 0);
	v->addr[e->id] = 0;
	v->pending--;
}

/* Would the block that this end of a deferred free makes serve the request? */
static bool would_serve(const struct verifier *v, const struct gp_event *end, size_t request)
{
	const struct gp_event *e = &v->trace->events[request];
	uint64_t need, segment, have, other;

	if (end->stream != e->stream || !v->addr[end->id] ||
	    !gp_torch_sizes(v->a, e->size, &need, &segment) ||
	    !gp_torch_sizes(v->a, end->size, &have, &other))
		return false;
	return (need <= GP_MIB) == (have <= GP_MIB) &&
	       gp_torch_freed_size(v->a, v->addr[end->id]) >= need;
}

/* Ends of deferred frees from event i on, in a row; returns the event behind them. */
static size_t replay_reclaims(struct verifier *v, size_t i)
{
	size_t end = i, request;
	bool flush;

	while (end < v->trace->n_events && v->trace->events[end].op == GP_OP_RECLAIM)
		end++;
	request = is_driver(v->trace, end) ? request_after(v, end) : SIZE_MAX;
	/* A flush leaves nothing pending. */
	flush = end - i == v->pending && is_driver(v->trace, end);
	for (; i < end; i++) {
		if (flush && (request == SIZE_MAX || would_serve(v, &v->trace->events[i], request)))
			break;
		replay_reclaim(v, &v->trace->events[i]);
	}
	/* The flush ends the others itself, in this order. */
	for (; i < end; i++)
		assert_int_equal(
			gp_defer(v->a, v->addr[v->trace->events[i].id], v->trace->events[i].id), 0);
	return end;
}

/* Was memory given back at event i by a call of empty_cache? */
static bool was_trim(const struct verifier *v, size_t i)
{
	uint8_t op = v->trace->events[i].op;
	struct gp_usage u;
	uint64_t rounded, segment;
	size_t request = request_after(v, i);

	if (op != GP_OP_SEGMENT_FREE && op != GP_OP_SEGMENT_UNMAP)
		return false;
	if (request == SIZE_MAX)
		return true;
	gp_usage(v->a, &u);
	return !v->short_of_memory &&
	       gp_torch_sizes(v->a, v->trace->events[request].size, &rounded, &segment) &&
	       u.reserved_bytes + segment <= v->trace->device_bytes;
}

/* The driver's events from i on, and the call that they are part of; returns the event behind. */
static size_t replay_driver(struct verifier *v, size_t i)
{
	size_t request, end = i;

	v->oracle.event = i;
	if (was_trim(v, i)) {
		assert_int_equal(gp_trim(v->a, 0, NULL), 0);
		while (v->trace->events[end].op == GP_OP_SEGMENT_FREE ||
		       v->trace->events[end].op == GP_OP_SEGMENT_UNMAP)
			end++;
	} else {
		request = request_after(v, i);
		end = request == SIZE_MAX ? i + 1 : request + 1;
		if (request != SIZE_MAX)
			replay_alloc(v, request);
	}
	for (; i < end; i++) {
		const struct gp_event *e = &v->trace->events[i];

		if (is_driver(v->trace, i))
			happen(&v->recorded,
			       (struct happening){ e->op, v->stream[e->stream],
						   e->op == GP_OP_OOM ? 0 : v->trace->addrs[i],
						   e->size });
	}
	return end;
}

static void replay_free(struct verifier *v, const struct gp_event *e)
{
	if (!v->addr[e->id])
		return;
	if (gp_event_flags(e) & GP_EVENT_DEFERRED) {
		assert_int_equal(gp_defer(v->a, v->addr[e->id], e->id), 0);
		v->pending++;
		return;
	}
	assert_int_equal(gp_free(v->a, v->addr[e->id]), 0);
	v->addr[e->id] = 0;
}

static void replay(struct verifier *v)
{
	for (size_t i = 0; i < v->trace->n_events;) {
		const struct gp_event *e = &v->trace->events[i];

		v->oracle.event = i;
		if (e->op == GP_OP_RECLAIM) {
			i = replay_reclaims(v, i);
		} else if (is_driver(v->trace, i)) {
			i = replay_driver(v, i);
		} else {
			if (e->op == GP_OP_ALLOC && e->size)
				replay_alloc(v, i);
			else if (e->op == GP_OP_FREE && e->size)
				replay_free(v, e);
			i++;
		}
	}
}

/* ---- the comparison ---- */

static void rank_streams(struct verifier *v)
{
	const uint64_t *handles = v->trace->stream_handles;

	v->stream = calloc(v->trace->n_streams + 1, sizeof(*v->stream));
	assert_non_null(v->stream);
	for (uint32_t i = 0; i < v->trace->n_streams; i++)
		for (uint32_t j = 0; j < v->trace->n_streams; j++)
			v->stream[i] += handles[j] < handles[i];
}

static size_t same_happenings(const struct verifier *v)
{
	size_t i = 0;

	while (i < v->model.n && i < v->recorded.n &&
	       !memcmp(&v->model.at[i].addr, &v->recorded.at[i].addr, 2 * sizeof(uint64_t)) &&
	       v->model.at[i].op == v->recorded.at[i].op &&
	       v->model.at[i].stream == v->recorded.at[i].stream)
		i++;
	return i;
}

static void show(const struct verifier *v, const char *spec, const char *path)
{
	size_t same = same_happenings(v);
	struct gp_torch_stats s = { 0 };

	print_message("# %s %s: %zu of %zu addresses, %zu of %zu driver events (model: %zu)\n",
		      path, spec, v->matched, v->compared, same, v->recorded.n, v->model.n);
	gp_torch_stats(v->a, &s);
	print_message("# num_alloc_retries %" PRIu64 " num_ooms %" PRIu64
		      " num_device_alloc %" PRIu64 " num_device_free %" PRIu64
		      " num_sync_all_streams %" PRIu64 "\n",
		      s.num_alloc_retries, s.num_ooms, s.num_device_alloc, s.num_device_free,
		      s.num_sync_all_streams);
	if (v->matched < v->compared)
		print_message("# first other address: event %zu\n", v->first);
	for (size_t i = same; i < same + 3; i++) {
		if (i < v->recorded.n)
			print_message("# %zu recorded: %s %#" PRIx64 " %" PRIu64 " stream %u\n", i,
				      gp_op_name((enum gp_op)v->recorded.at[i].op),
				      v->recorded.at[i].addr, v->recorded.at[i].size,
				      v->recorded.at[i].stream);
		if (i < v->model.n)
			print_message("# %zu model:    %s %#" PRIx64 " %" PRIu64 " stream %u\n", i,
				      gp_op_name((enum gp_op)v->model.at[i].op),
				      v->model.at[i].addr, v->model.at[i].size,
				      v->model.at[i].stream);
	}
}

/* false: something differs. */
static bool verify(const char *spec, const char *path)
{
	struct verifier v = { .first = SIZE_MAX };
	char why[256] = "";
	struct gp_trace *trace;
	bool same;

	if (gp_trace_load(path, NULL, &trace, why, sizeof(why)))
		fail_msg("%s", why);
	assert_true(trace->addrs && trace->n_allocs);
	v.trace = v.oracle.trace = trace;
	v.short_of_memory = strstr(spec, "limit=");
	v.addr = calloc(trace->n_ids, sizeof(*v.addr));
	assert_non_null(v.addr);
	rank_streams(&v);
	find_pool_segments(trace);
	gp_device_init(&v.oracle.dev, &oracle_ops);
	v.oracle.dev.info.total_bytes = trace->device_bytes;
	v.oracle.dev.info.page_bytes = 2 * GP_MIB;
	v.oracle.dev.info.vmm = true;
	if (gp_allocator_create(spec, &v.oracle.dev, NULL, &v.a, why, sizeof(why)))
		fail_msg("%s", why);
	v.a->completed = on_completed;
	v.a->completed_arg = &v;
	assert_true(gp_can_defer(v.a) && gp_torch_observe(v.a, on_torch, &v));
	replay(&v);
	assert_int_equal(gp_check(v.a, stderr), 0);
	show(&v, spec, path);
	same = v.matched == v.compared && v.model.n == v.recorded.n &&
	       same_happenings(&v) == v.model.n;
	gp_torch_observe(v.a, NULL, NULL);
	gp_allocator_destroy(v.a);
	gp_trace_destroy(trace);
	free(v.stream);
	free(v.addr);
	free(v.model.at);
	free(v.recorded.at);
	return same;
}

static void recording_is_reproduced(void **state)
{
	const char *dir = getenv("GPUPOOL_TRACE_DIR");
	char path[512];

	if (!dir)
		fail_msg("GPUPOOL_TRACE_DIR is not set");
	snprintf(path, sizeof(path), "%s/%s.jsonl.gz", dir, (const char *)*state);
	assert_true(verify("torch", path));
}

/* ---- the program ---- */

static bool read_pools(const char *path)
{
	FILE *f = fopen(path, "r");

	if (!f)
		return false;
	while (n_pools < POOLS_MAX && fscanf(f, "%" SCNu64 " %" SCNu64 " %u", &pools[n_pools].addr,
					     &pools[n_pools].size, &pools[n_pools].pool) == 3)
		n_pools++;
	fclose(f);
	return true;
}

static const char *given_spec, *given_path;

static void given_recording_is_reproduced(void **state)
{
	(void)state;
	assert_true(verify(given_spec, given_path));
}

#define RECORDING(name) cmocka_unit_test_prestate(recording_is_reproduced, (void *)(uintptr_t)name)

int main(int argc, char **argv)
{
	const struct CMUnitTest given[] = { cmocka_unit_test(given_recording_is_reproduced) };
	const struct CMUnitTest committed[] = {
		RECORDING("llm_train"), RECORDING("llm_serve"),    RECORDING("vision_train"),
		RECORDING("diffusion"), RECORDING("multi_stream"),
	};

	if (argc < 3)
		return cmocka_run_group_tests_name("torch_recordings", committed, NULL, NULL);
	given_spec = argv[1];
	given_path = argv[2];
	if (argc > 3 && !read_pools(argv[3]))
		return 2;
	return cmocka_run_group_tests_name("torch_recordings", given, NULL, NULL);
}
