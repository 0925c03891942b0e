/* SPDX-License-Identifier: Apache-2.0
 *
 * device: what every kind of device has in common: the calls are counted and timed here, around
 * the hooks of one implementation.
 *
 * Cost         two readings of the tick counter and three uncontended atomic additions a call, some
 *              tens of nanoseconds, against the microsecond that the fastest driver call takes
 * Threads      counters are atomic and relaxed: each is exact, no two are of one moment. The
 *              observer and its argument change only while nobody calls. The text of a fault is
 *              the last one of any thread.
 */
#include "device.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "device_call.h"
#include "device_probe.h"

/* Serialises the text of faults, of all devices: they are rare and short. */
static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;

/* What the call under way on this thread was charged; 0 between calls. */
static _Thread_local uint64_t call_charge;

static const char *const call_names[GP_CALL_N] = {
	[GP_CALL_RESERVE] = "reserve",
	[GP_CALL_RELEASE] = "release",
	[GP_CALL_ASYNC_ALLOC] = "async_alloc",
	[GP_CALL_ASYNC_FREE] = "async_free",
	[GP_CALL_ASYNC_TRIM] = "async_trim",
	[GP_CALL_VA_RESERVE] = "va_reserve",
	[GP_CALL_VA_RELEASE] = "va_release",
	[GP_CALL_CREATE] = "create",
	[GP_CALL_DESTROY] = "destroy",
	[GP_CALL_MAP] = "map",
	[GP_CALL_UNMAP] = "unmap",
	[GP_CALL_EVENT_WAIT] = "event_wait",
	[GP_CALL_SYNC] = "sync",
	[GP_CALL_MEMSET] = "memset",
	[GP_CALL_READ] = "read",
	[GP_CALL_FILL] = "fill",
	[GP_CALL_VERIFY] = "verify",
	[GP_CALL_BUSY] = "busy",
	[GP_CALL_TOUCH] = "touch",
};

const char *gp_call_name(enum gp_call call)
{
	return (unsigned)call < GP_CALL_N ? call_names[call] : "unknown";
}

void gp_device_init(struct gp_device *dev, const struct gp_device_ops *ops)
{
	memset(dev, 0, sizeof(*dev));
	dev->ops = ops;
}

struct gp_device *gp_device_close(struct gp_device *dev)
{
	if (dev)
		dev->ops->close(dev);
	return NULL;
}

int gp_device_fault(struct gp_device *dev, int err, const char *fmt, ...)
{
	va_list ap;

	pthread_mutex_lock(&error_lock);
	va_start(ap, fmt);
	vsnprintf(dev->error, sizeof(dev->error), fmt, ap);
	va_end(ap);
	pthread_mutex_unlock(&error_lock);
	return err;
}

const char *gp_device_error(const struct gp_device *dev)
{
	return dev->error;
}

bool gp_device_broken(const struct gp_device *dev)
{
	return READ(dev->broken);
}

/* ---- faults on purpose ---- */

void gp_device_inject(struct gp_device *dev, const struct gp_injection *inject)
{
	dev->inject = *inject;
	dev->injects =
		inject->lost_call || inject->sticky_call || inject->fail_call || inject->slow_call;
}

int gp_device_curse(struct gp_device *dev, const char *call, uint64_t n)
{
	const struct gp_injection *inject = &dev->inject;

	if (inject->lost_call && n >= inject->lost_call)
		return gp_device_fault(dev, -ENODEV,
				       "%s: cudaErrorDevicesUnavailable (injected: the device is "
				       "lost since call %" PRIu64 ")",
				       call, inject->lost_call);
	if (inject->sticky_call && n >= inject->sticky_call)
		return gp_device_fault(dev, -EIO,
				       "%s: cudaErrorIllegalAddress (injected: a sticky error "
				       "since call %" PRIu64 ")",
				       call, inject->sticky_call);
	return 0;
}

static void device_dawdle(struct gp_device *dev, uint64_t ns)
{
	const struct timespec ts = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	if (dev->info.simulated)
		gp_device_charge(dev, ns);
	else
		nanosleep(&ts, NULL);
}

static bool device_takes(enum gp_call call)
{
	return call == GP_CALL_RESERVE || call == GP_CALL_ASYNC_ALLOC || call == GP_CALL_CREATE ||
	       call == GP_CALL_MAP;
}

static GP_NOINLINE int device_injected(struct gp_device *dev, enum gp_call call)
{
	int r = gp_device_curse(dev, gp_call_name(call), COUNT(dev->n_calls, 1) + 1);
	uint64_t n;

	if (r || !device_takes(call))
		return r;
	n = COUNT(dev->n_takes, 1) + 1;
	if (n == dev->inject.slow_call)
		device_dawdle(dev, dev->inject.slow_ns);
	return n == dev->inject.fail_call ? GP_NOMEM : 0;
}

int gp_device_enter(struct gp_device *dev, enum gp_call call)
{
	return GP_LIKELY(!dev->injects) ? 0 : device_injected(dev, call);
}

int gp_device_answer(struct gp_device *dev, enum gp_call call, int r)
{
	int instead = gp_device_enter(dev, call);

	return instead ? instead : r;
}

/* ---- counting and timing ---- */

void gp_device_charge(struct gp_device *dev, uint64_t ns)
{
	COUNT(dev->model_ns, ns);
	call_charge += ns;
}

GP_NOINLINE int gp_device_failed(struct gp_device *dev, int r)
{
	COUNT(dev->failures, 1);
	if (r == -EIO || r == -ENODEV)
		atomic_store_explicit(&dev->broken, true, memory_order_relaxed);
	return r;
}

int gp_device_done(struct gp_device *dev, enum gp_call call, uint64_t t0, int r)
{
	uint64_t ticks = gp_ticks() - t0;

	COUNT(dev->host_ticks, ticks);
	COUNT(dev->call_ticks[call], ticks);
	if (call_charge) {
		COUNT(dev->call_model_ns[call], call_charge);
		call_charge = 0;
	}
	if (GP_UNLIKELY(r))
		return gp_device_failed(dev, r);
	COUNT(dev->calls[call], 1);
	return 0;
}

GP_NOINLINE int gp_device_refuse(struct gp_device *dev, int err, enum gp_call call, const char *why)
{
	COUNT(dev->failures, 1);
	return gp_device_fault(dev, err, "%s: %s", gp_call_name(call), why);
}

int gp_device_zero(struct gp_device *dev, enum gp_call call)
{
	return gp_device_refuse(dev, -EINVAL, call, "size is 0");
}

int gp_device_lacks(struct gp_device *dev, enum gp_call call)
{
	return gp_device_refuse(dev, -ENOTSUP, call, "this device does not support it");
}

/* Extents of address ranges and mappings are whole pages. */
static bool device_paged(const struct gp_device *dev, uint64_t addr, uint64_t size)
{
	return size && !((addr | size) & (dev->info.page_bytes - 1));
}

static GP_NOINLINE int device_unpaged(struct gp_device *dev, enum gp_call call, uint64_t addr,
				      uint64_t size)
{
	COUNT(dev->failures, 1);
	return gp_device_fault(dev, -EINVAL,
			       "%s: address 0x%" PRIx64 " and size %" PRIu64
			       " must be multiples of the page, %" PRIu64 " bytes, and not empty",
			       gp_call_name(call), addr, size, dev->info.page_bytes);
}

int gp_device_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	uint64_t t0;
	int r;

	if (GP_UNLIKELY(!size))
		return gp_device_zero(dev, GP_CALL_RESERVE);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_RESERVE);
	return gp_device_done(dev, GP_CALL_RESERVE, t0, r ? r : dev->ops->reserve(dev, size, addr));
}

int gp_device_release(struct gp_device *dev, uint64_t addr)
{
	uint64_t t0 = gp_ticks();

	return gp_device_done(dev, GP_CALL_RELEASE, t0,
			      gp_device_answer(dev, GP_CALL_RELEASE, dev->ops->release(dev, addr)));
}

int gp_device_va_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	uint64_t t0;
	int r;

	if (!dev->info.vmm)
		return gp_device_lacks(dev, GP_CALL_VA_RESERVE);
	if (!device_paged(dev, 0, size))
		return device_unpaged(dev, GP_CALL_VA_RESERVE, 0, size);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_VA_RESERVE);
	return gp_device_done(dev, GP_CALL_VA_RESERVE, t0,
			      r ? r : dev->ops->va_reserve(dev, size, addr));
}

int gp_device_va_release(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	uint64_t t0;

	if (!dev->info.vmm)
		return gp_device_lacks(dev, GP_CALL_VA_RELEASE);
	if (!device_paged(dev, addr, size))
		return device_unpaged(dev, GP_CALL_VA_RELEASE, addr, size);
	t0 = gp_ticks();
	return gp_device_done(
		dev, GP_CALL_VA_RELEASE, t0,
		gp_device_answer(dev, GP_CALL_VA_RELEASE, dev->ops->va_release(dev, addr, size)));
}

int gp_device_create(struct gp_device *dev, uint64_t size, uint64_t *handle)
{
	uint64_t t0;
	int r;

	if (!dev->info.vmm)
		return gp_device_lacks(dev, GP_CALL_CREATE);
	if (!device_paged(dev, 0, size))
		return device_unpaged(dev, GP_CALL_CREATE, 0, size);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_CREATE);
	return gp_device_done(dev, GP_CALL_CREATE, t0, r ? r : dev->ops->create(dev, size, handle));
}

int gp_device_destroy(struct gp_device *dev, uint64_t handle, uint64_t size)
{
	uint64_t t0;

	if (!dev->info.vmm)
		return gp_device_lacks(dev, GP_CALL_DESTROY);
	t0 = gp_ticks();
	return gp_device_done(
		dev, GP_CALL_DESTROY, t0,
		gp_device_answer(dev, GP_CALL_DESTROY, dev->ops->destroy(dev, handle, size)));
}

int gp_device_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle)
{
	uint64_t t0;
	int r;

	if (!dev->info.vmm)
		return gp_device_lacks(dev, GP_CALL_MAP);
	if (!device_paged(dev, addr, size))
		return device_unpaged(dev, GP_CALL_MAP, addr, size);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_MAP);
	return gp_device_done(dev, GP_CALL_MAP, t0, r ? r : dev->ops->map(dev, addr, size, handle));
}

int gp_device_unmap(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	uint64_t t0;

	if (!dev->info.vmm)
		return gp_device_lacks(dev, GP_CALL_UNMAP);
	if (!device_paged(dev, addr, size))
		return device_unpaged(dev, GP_CALL_UNMAP, addr, size);
	t0 = gp_ticks();
	return gp_device_done(
		dev, GP_CALL_UNMAP, t0,
		gp_device_answer(dev, GP_CALL_UNMAP, dev->ops->unmap(dev, addr, size)));
}

int gp_device_use_stream(struct gp_device *dev, uint32_t index, void *handle)
{
	return dev->ops->use_stream ? dev->ops->use_stream(dev, index, handle) : -ENOTSUP;
}

const char *gp_probe_name(enum gp_probe_kind kind)
{
	static const char *const names[GP_PROBE_N] = {
		[GP_PROBE_MALLOC] = "cudaMalloc",
		[GP_PROBE_FREE] = "cudaFree",
		[GP_PROBE_ASYNC_ALLOC] = "cudaMallocAsync",
		[GP_PROBE_ASYNC_FREE] = "cudaFreeAsync",
		[GP_PROBE_SYNC] = "sync",
		[GP_PROBE_VA_RESERVE] = "cuMemAddressReserve",
		[GP_PROBE_VA_RELEASE] = "cuMemAddressFree",
		[GP_PROBE_CREATE] = "cuMemCreate",
		[GP_PROBE_DESTROY] = "cuMemRelease",
		[GP_PROBE_MAP] = "cuMemMap",
		[GP_PROBE_SET_ACCESS] = "cuMemSetAccess",
		[GP_PROBE_UNMAP] = "cuMemUnmap",
		[GP_PROBE_RECORD] = "cudaEventRecord",
		[GP_PROBE_WAIT] = "cudaStreamWaitEvent",
		[GP_PROBE_STREAM] = "cudaStreamCreate",
		[GP_PROBE_STREAM_END] = "cudaStreamDestroy",
		[GP_PROBE_MEMSET] = "cudaMemsetAsync",
		[GP_PROBE_LAUNCH] = "kernel.launch",
		[GP_PROBE_TRIM] = "cudaMemPoolTrimTo",
	};

	return names[kind];
}

int gp_device_probe(struct gp_device *dev, struct gp_probe *p)
{
	static const enum gp_call counts_as[GP_PROBE_N] = {
		[GP_PROBE_MALLOC] = GP_CALL_RESERVE,
		[GP_PROBE_FREE] = GP_CALL_RELEASE,
		[GP_PROBE_ASYNC_ALLOC] = GP_CALL_ASYNC_ALLOC,
		[GP_PROBE_ASYNC_FREE] = GP_CALL_ASYNC_FREE,
		[GP_PROBE_SYNC] = GP_CALL_SYNC,
		[GP_PROBE_VA_RESERVE] = GP_CALL_VA_RESERVE,
		[GP_PROBE_VA_RELEASE] = GP_CALL_VA_RELEASE,
		[GP_PROBE_CREATE] = GP_CALL_CREATE,
		[GP_PROBE_DESTROY] = GP_CALL_DESTROY,
		[GP_PROBE_MAP] = GP_CALL_MAP,
		[GP_PROBE_SET_ACCESS] = GP_CALL_MAP,
		[GP_PROBE_UNMAP] = GP_CALL_UNMAP,
		[GP_PROBE_RECORD] = GP_CALL_EVENT_WAIT,
		[GP_PROBE_WAIT] = GP_CALL_EVENT_WAIT,
		[GP_PROBE_STREAM] = GP_CALL_EVENT_WAIT,
		[GP_PROBE_STREAM_END] = GP_CALL_EVENT_WAIT,
		[GP_PROBE_MEMSET] = GP_CALL_TOUCH,
		[GP_PROBE_LAUNCH] = GP_CALL_BUSY,
		[GP_PROBE_TRIM] = GP_CALL_SYNC,
	};
	enum gp_call call = counts_as[p->kind];
	uint64_t t0 = gp_ticks(), before = READ(dev->model_ns);
	int r;

	if (!dev->ops->probe)
		return gp_device_lacks(dev, call);
	r = gp_device_enter(dev, call);
	r = gp_device_done(dev, call, t0, r ? r : dev->ops->probe(dev, p));
	p->model_ns = READ(dev->model_ns) - before;
	return r;
}

int gp_device_stream_wait(struct gp_device *dev, uint32_t from, uint32_t to)
{
	uint64_t t0 = gp_ticks();
	int r = gp_device_enter(dev, GP_CALL_EVENT_WAIT);

	return gp_device_done(dev, GP_CALL_EVENT_WAIT, t0,
			      r ? r : dev->ops->stream_wait(dev, from, to));
}

int gp_device_sync(struct gp_device *dev)
{
	uint64_t t0 = gp_ticks();
	int r = gp_device_enter(dev, GP_CALL_SYNC);

	return gp_device_done(dev, GP_CALL_SYNC, t0, r ? r : dev->ops->sync(dev));
}

/* Asks, changes nothing: not counted, but its time is the driver's like any other. */
int gp_device_mem_info(struct gp_device *dev, uint64_t *free_bytes, uint64_t *total_bytes)
{
	uint64_t t0 = gp_ticks();
	int r = gp_device_curse(dev, "mem_info", READ(dev->n_calls));

	if (!r)
		r = dev->ops->mem_info(dev, free_bytes, total_bytes);
	COUNT(dev->host_ticks, gp_ticks() - t0);
	return r ? gp_device_failed(dev, r) : 0;
}

int gp_device_mark(struct gp_device *dev, uint32_t stream)
{
	return dev->ops->mark ? dev->ops->mark(dev, stream) : -ENOTSUP;
}

int gp_device_lull(struct gp_device *dev, unsigned slot)
{
	return dev->ops->lull ? dev->ops->lull(dev, slot % GP_LULLS) : -ENOTSUP;
}

int gp_device_lull_ns(struct gp_device *dev, unsigned slot, uint64_t *ns)
{
	return dev->ops->lull_ns ? dev->ops->lull_ns(dev, slot % GP_LULLS, ns) : -ENOTSUP;
}

void gp_device_elapse(struct gp_device *dev, uint64_t ns)
{
	if (dev->ops->elapse)
		dev->ops->elapse(dev, ns);
}

void gp_device_stats(struct gp_device *dev, struct gp_device_stats *out)
{
	for (unsigned i = 0; i < GP_CALL_N; i++) {
		out->calls[i] = READ(dev->calls[i]);
		out->call_ticks[i] = READ(dev->call_ticks[i]);
		out->call_model_ns[i] = READ(dev->call_model_ns[i]);
	}
	out->failures = READ(dev->failures);
	out->reserved_bytes = gp_device_reserved(dev);
	out->host_ticks = READ(dev->host_ticks);
	out->model_ns = READ(dev->model_ns);
	out->stall_ns = READ(dev->stall_ns);
}

void gp_device_observe(struct gp_device *dev, gp_device_observer *fn, void *arg)
{
	dev->observer = fn;
	dev->observer_arg = arg;
}

void gp_device_hold(struct gp_device *dev, uint64_t bytes)
{
	COUNT(dev->reserved_bytes, bytes);
}

void gp_device_unhold(struct gp_device *dev, uint64_t bytes)
{
	uint64_t before =
		atomic_fetch_sub_explicit(&dev->reserved_bytes, bytes, memory_order_relaxed);

	assert(before >= bytes);
	(void)before;
}

void gp_device_range_added(struct gp_device *dev, struct gp_range range, bool joins)
{
	gp_device_hold(dev, range.size);
	if (dev->observer)
		dev->observer(dev->observer_arg, true, range, joins, 0);
}

void gp_device_range_gone(struct gp_device *dev, struct gp_range range, bool joins)
{
	gp_device_unhold(dev, range.size);
	if (dev->observer)
		dev->observer(dev->observer_arg, false, range, joins, 0);
}

void gp_device_mapped(struct gp_device *dev, bool added, struct gp_range range, uint64_t same)
{
	if (dev->observer)
		dev->observer(dev->observer_arg, added, range, true, same);
}
