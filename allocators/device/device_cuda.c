/* SPDX-License-Identifier: Apache-2.0
 *
 * device_cuda: the first GPU of the machine, through the CUDA runtime. The program links to
 * cudart only, statically, and starts on machines without a driver.
 *
 * Books        what is reserved and mapped, with its size: cudaFree does not say how much it freed.
 *              Memory is held by the page: a page counts from the first reservation that touches it
 *              to the last, because the driver puts small reservations into what larger ones leave
 *              of their last page. Pools of cudaMallocAsync are asked what they hold
 *              (device_cuda_async.c).
 * Capacity     what would exceed cfg.capacity is refused before the driver is asked. Memory that
 *              the stream-ordered pool merely keeps does not count.
 * Errors       out of memory is GP_NOMEM. Everything else is a negative errno, with CUDA's own name
 *              in gp_device_error(). The runtime's last error is cleared each time; errors that
 *              destroy the context (an illegal address in a kernel) come back at every call, also
 *              at those of the driver that would not notice, and are reported each time.
 * Observer     hears of reservations and mappings, not of the pool, whose ranges nobody knows
 * Threads      one lock for the books and one for streams and events; none is held over a call that
 *              reserves or maps. What goes is reported before the driver can hand it out again.
 */
#include "device_cuda.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_GRANULE UINT64_C(512)
#define STREAMS_MAX   65536 /* indices are dense: a larger one is a mistake */

static int cuda_errno(cudaError_t e)
{
	switch (e) {
	case cudaErrorInvalidValue:
	case cudaErrorInvalidDevicePointer:
	case cudaErrorInvalidResourceHandle:
		return -EINVAL;
	case cudaErrorNotSupported:
		return -ENOTSUP;
	case cudaErrorNoDevice:
	case cudaErrorDevicesUnavailable:
	case cudaErrorInsufficientDriver:
		return -ENODEV;
	default:
		return -EIO;
	}
}

/* After these, says the runtime's documentation, "any further CUDA work will return the same error". */
static bool cuda_is_final(cudaError_t e)
{
	return e == cudaErrorIllegalAddress || e == cudaErrorLaunchTimeout ||
	       e == cudaErrorAssert || e == cudaErrorHardwareStackError ||
	       e == cudaErrorIllegalInstruction || e == cudaErrorMisalignedAddress ||
	       e == cudaErrorInvalidAddressSpace || e == cudaErrorInvalidPc ||
	       e == cudaErrorLaunchFailure;
}

void gp_cuda_note(struct gp_cuda *cu, cudaError_t e)
{
	if (cuda_is_final(e))
		atomic_store(&cu->ended_by, (int)e);
}

int gp_cuda_alive(struct gp_cuda *cu)
{
	cudaError_t e = (cudaError_t)atomic_load_explicit(&cu->ended_by, memory_order_relaxed);

	if (GP_LIKELY(e == cudaSuccess))
		return 0;
	return gp_device_fault(&cu->base, -EIO, "the context was destroyed before: %s (%s)",
			       cudaGetErrorName(e), cudaGetErrorString(e));
}

int gp_cuda_result(struct gp_device *dev, cudaError_t e, const char *call)
{
	if (GP_LIKELY(e == cudaSuccess))
		return 0;
	(void)cudaGetLastError(); /* else the next call of anybody would report it again */
	if (e == cudaErrorMemoryAllocation)
		return GP_NOMEM;
	gp_cuda_note(gp_cuda_of(dev), e);
	return gp_device_fault(dev, cuda_errno(e), "%s: %s (%s)", call, cudaGetErrorName(e),
			       cudaGetErrorString(e));
}

int gp_cuda_claim(struct gp_cuda *cu, uint64_t bytes)
{
	int r = 0;

	if (!cu->capacity)
		return 0;
	pthread_mutex_lock(&cu->books);
	if (cu->held > cu->capacity || bytes > cu->capacity - cu->held)
		r = GP_NOMEM;
	else
		cu->held += bytes;
	pthread_mutex_unlock(&cu->books);
	return r;
}

void gp_cuda_unclaim(struct gp_cuda *cu, uint64_t bytes)
{
	if (!cu->capacity)
		return;
	pthread_mutex_lock(&cu->books);
	cu->held -= bytes;
	pthread_mutex_unlock(&cu->books);
}

void gp_cuda_return(struct gp_cuda *cu, uint64_t bytes)
{
	if (!cu->capacity)
		return;
	pthread_mutex_lock(&cu->books);
	cu->held -= bytes;
	if (cu->base.inject.lose_bytes)
		cu->held += gp_min_u64(cu->base.inject.lose_bytes,
				       cu->capacity - gp_min_u64(cu->held, cu->capacity));
	pthread_mutex_unlock(&cu->books);
}

int gp_cuda_book(struct gp_cuda *cu, struct gp_range_set *set, struct gp_range range,
		 uint64_t counted)
{
	int r;

	pthread_mutex_lock(&cu->books);
	r = gp_range_set_insert(set, range.addr, range.size, counted);
	pthread_mutex_unlock(&cu->books);
	return r;
}

int gp_cuda_unbook(struct gp_cuda *cu, struct gp_range_set *set, uint64_t addr, const char *call,
		   struct gp_range_entry *out)
{
	int r;

	pthread_mutex_lock(&cu->books);
	r = gp_range_set_remove(set, addr, out);
	pthread_mutex_unlock(&cu->books);
	if (!r)
		return 0;
	return gp_device_fault(&cu->base, -EINVAL,
			       "%s: 0x%" PRIx64 " is not held, or was given "
			       "back before",
			       call, addr);
}

/* -- reservations ----------------------------------------------------------------------------- */

/* One user of a page more; was it the first? On -ENOMEM it is not counted. */
static int cuda_page_enter(struct gp_cuda *cu, uint64_t page, bool *first)
{
	const struct gp_range_entry *e = gp_range_set_at(&cu->pages, page);
	struct gp_range_entry more;

	*first = !e;
	if (!e)
		return gp_range_set_insert(&cu->pages, page, cu->base.info.page_bytes, 1);
	more = *e;
	more.tag++;
	return gp_range_set_replace(&cu->pages, page, more);
}

/* One user of a page less; was it the last? */
static bool cuda_page_leave(struct gp_cuda *cu, uint64_t page)
{
	struct gp_range_entry e = *gp_range_set_at(&cu->pages, page);

	if (--e.tag) {
		gp_range_set_replace(&cu->pages, page, e);
		return false;
	}
	gp_range_set_remove(&cu->pages, page, NULL);
	return true;
}

/* A reservation of whole pages shares none of them. */
static bool cuda_whole_pages(const struct gp_cuda *cu, struct gp_range range)
{
	return !((range.addr | range.size) & (cu->base.info.page_bytes - 1));
}

/* Counts the pages of a reservation: *held is what nobody held before. Only its first and its last
 * page can be anybody else's too. */
static int cuda_pages_enter(struct gp_cuda *cu, struct gp_range range, struct gp_range *held)
{
	uint64_t page = cu->base.info.page_bytes, lo = gp_align_down(range.addr, page);
	uint64_t hi = gp_align_up(range.addr + range.size, page), last = hi - page;
	bool first_new = true, last_new = true;
	int r;

	*held = range;
	if (cuda_whole_pages(cu, range))
		return 0;
	r = cuda_page_enter(cu, lo, &first_new);
	if (!r && last != lo) {
		r = cuda_page_enter(cu, last, &last_new);
		if (r)
			cuda_page_leave(cu, lo);
	}
	held->addr = first_new ? lo : lo + page;
	held->size = (last == lo || last_new ? hi : last) - held->addr;
	return r;
}

/* The reverse: *gone is what nobody holds any more. */
static void cuda_pages_leave(struct gp_cuda *cu, struct gp_range range, struct gp_range *gone)
{
	uint64_t page = cu->base.info.page_bytes, lo = gp_align_down(range.addr, page);
	uint64_t hi = gp_align_up(range.addr + range.size, page), last = hi - page;

	*gone = range;
	if (cuda_whole_pages(cu, range))
		return;
	gone->addr = cuda_page_leave(cu, lo) ? lo : lo + page;
	gone->size = (last == lo || cuda_page_leave(cu, last) ? hi : last) - gone->addr;
}

static int cuda_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	uint64_t bytes = gp_align_up(gp_min_u64(size, GP_SIZE_MAX), SMALL_GRANULE);
	struct gp_range range, held;
	void *p = NULL;
	int r = gp_cuda_claim(cu, bytes);

	if (r)
		return r;
	r = gp_cuda_result(dev, cudaMalloc(&p, (size_t)size), "cudaMalloc");
	if (r)
		goto unclaim;
	range = (struct gp_range){ (uintptr_t)p, size };
	pthread_mutex_lock(&cu->books);
	r = gp_range_set_insert(&cu->blocks, range.addr, size, bytes);
	if (!r) {
		r = cuda_pages_enter(cu, range, &held);
		if (r)
			gp_range_set_remove(&cu->blocks, range.addr, NULL);
	}
	pthread_mutex_unlock(&cu->books);
	if (r)
		goto release;
	*addr = range.addr;
	if (held.size)
		gp_device_range_added(dev, held, !cuda_whole_pages(cu, range));
	return 0;
release:
	(void)cudaFree(p);
unclaim:
	gp_cuda_unclaim(cu, bytes);
	return r;
}

static int cuda_release(struct gp_device *dev, uint64_t addr)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	struct gp_range range, gone;
	struct gp_range_entry e;
	int r = gp_cuda_unbook(cu, &cu->blocks, addr, "cudaFree", &e);

	if (r)
		return r;
	range = (struct gp_range){ e.addr, e.size };
	pthread_mutex_lock(&cu->books);
	cuda_pages_leave(cu, range, &gone);
	pthread_mutex_unlock(&cu->books);
	if (gone.size)
		gp_device_range_gone(dev, gone, !cuda_whole_pages(cu, range));
	gp_cuda_return(cu, e.tag);
	gp_cuda_async_open_gates(cu);
	/* Fails only where the context is lost, and the memory with it. */
	return gp_cuda_result(dev, cudaFree((void *)(uintptr_t)addr), "cudaFree");
}

static int cuda_mem_info(struct gp_device *dev, uint64_t *free_bytes, uint64_t *total_bytes)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	size_t free_now, total;
	int r = gp_cuda_result(dev, cudaMemGetInfo(&free_now, &total), "cudaMemGetInfo");

	if (r)
		return r;
	*free_bytes = free_now;
	*total_bytes = total;
	if (!cu->capacity)
		return 0;
	pthread_mutex_lock(&cu->books);
	*free_bytes = gp_min_u64(free_now, cu->capacity - gp_min_u64(cu->held, cu->capacity));
	pthread_mutex_unlock(&cu->books);
	*total_bytes = gp_min_u64(total, cu->capacity);
	return 0;
}

/* -- streams ---------------------------------------------------------------------------------- */

static int streams_grow(struct gp_cuda *cu, uint32_t index)
{
	size_t n = (size_t)index + 1;
	struct gp_cuda_stream *grown;

	if (index >= STREAMS_MAX)
		return gp_device_fault(&cu->base, -EINVAL, "stream %" PRIu32 ": at most %d", index,
				       STREAMS_MAX);
	grown = realloc(cu->streams, n * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(&grown[cu->n_streams], 0, (n - cu->n_streams) * sizeof(*grown));
	cu->streams = grown;
	cu->n_streams = index + 1;
	return 0;
}

/* The stream of an index, made at its first use. The caller holds streams_lock. */
static int cuda_stream_at(struct gp_cuda *cu, uint32_t index, struct gp_cuda_stream **out)
{
	struct gp_cuda_stream *s;
	int r = index < cu->n_streams ? 0 : streams_grow(cu, index);

	if (r)
		return r;
	s = &cu->streams[index];
	/* Non-blocking: work on it does not wait for the default stream's, as the side streams
	 * of training programs are made. */
	if (index && !s->made)
		r = gp_cuda_result(&cu->base,
				   cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking),
				   "cudaStreamCreateWithFlags");
	if (r)
		return r;
	s->made = true;
	*out = s;
	return 0;
}

static int cuda_use_stream(struct gp_device *dev, uint32_t index, void *handle)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	int r;

	pthread_mutex_lock(&cu->streams_lock);
	r = index < cu->n_streams ? 0 : streams_grow(cu, index);
	if (!r && cu->streams[index].made)
		r = gp_device_fault(dev, -EBUSY, "stream %" PRIu32 ": in use already", index);
	if (!r) {
		cu->streams[index].stream = handle;
		cu->streams[index].made = true;
		cu->streams[index].borrowed = true;
	}
	pthread_mutex_unlock(&cu->streams_lock);
	return r;
}

/* The default stream needs no look into the table, unless the program has its own for it. */
int gp_cuda_stream_handle(struct gp_cuda *cu, uint32_t index, cudaStream_t *out)
{
	struct gp_cuda_stream *s;
	int r;

	*out = NULL;
	if (!index && !cu->n_streams)
		return 0;
	pthread_mutex_lock(&cu->streams_lock);
	r = cuda_stream_at(cu, index, &s);
	if (!r)
		*out = s->stream;
	pthread_mutex_unlock(&cu->streams_lock);
	return r;
}

/* Record and wait under the lock: a wait counts for the last record of its event before it. */
static int streams_wait_locked(struct gp_cuda *cu, uint32_t from, uint32_t to)
{
	struct gp_device *dev = &cu->base;
	struct gp_cuda_stream *f, *t;
	cudaStream_t waiting;
	int r = cuda_stream_at(cu, to, &t);

	if (r)
		return r;
	waiting = t->stream; /* t may move when the table grows */
	r = cuda_stream_at(cu, from, &f);
	if (!r && !f->event)
		r = gp_cuda_result(dev, cudaEventCreateWithFlags(&f->event, cudaEventDisableTiming),
				   "cudaEventCreateWithFlags");
	if (!r)
		r = gp_cuda_result(dev, cudaEventRecord(f->event, f->stream), "cudaEventRecord");
	if (!r)
		r = gp_cuda_result(dev, cudaStreamWaitEvent(waiting, f->event, 0),
				   "cudaStreamWaitEvent");
	return r;
}

static int cuda_stream_wait(struct gp_device *dev, uint32_t from, uint32_t to)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	int r;

	pthread_mutex_lock(&cu->streams_lock);
	r = streams_wait_locked(cu, from, to);
	pthread_mutex_unlock(&cu->streams_lock);
	return r;
}

static int cuda_sync(struct gp_device *dev)
{
	gp_cuda_async_open_gates(gp_cuda_of(dev));
	return gp_cuda_result(dev, cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

/* -- opening and closing ---------------------------------------------------------------------- */

static void cuda_free(struct gp_cuda *cu)
{
	gp_cuda_lulls_fini(cu);
	gp_cuda_probe_fini(cu);
	gp_cuda_kernels_fini(cu);
	for (uint32_t i = 0; i < cu->n_streams; i++) {
		if (cu->streams[i].event)
			(void)cudaEventDestroy(cu->streams[i].event);
		if (cu->streams[i].stream && !cu->streams[i].borrowed)
			(void)cudaStreamDestroy(cu->streams[i].stream);
	}
	free(cu->streams);
	gp_range_set_fini(&cu->blocks);
	gp_range_set_fini(&cu->async);
	gp_cuda_fini_vmm(cu);
	gp_range_set_fini(&cu->pages);
	pthread_mutex_destroy(&cu->books);
	pthread_mutex_destroy(&cu->streams_lock);
	free(cu);
}

static void cuda_close(struct gp_device *dev)
{
	struct gp_cuda *cu = gp_cuda_of(dev);

	(void)cudaGetLastError();
	cuda_free(cu);
}

static const struct gp_device_ops cuda_ops = {
	.name = "cuda",
	.close = cuda_close,
	.reserve = cuda_reserve,
	.release = cuda_release,
	.stream_wait = cuda_stream_wait,
	.use_stream = cuda_use_stream,
	.probe = gp_cuda_probe,
	.sync = cuda_sync,
	.mem_info = cuda_mem_info,
	.memset = gp_cuda_memset,
	.read = gp_cuda_read,
	.fill = gp_cuda_fill,
	.verify_begin = gp_cuda_verify_begin,
	.verify_end = gp_cuda_verify_end,
	.busy = gp_cuda_busy,
	.touch = gp_cuda_touch,
	.mark = gp_cuda_mark,
	.lull = gp_cuda_lull,
	.lull_ns = gp_cuda_lull_ns,
	.async_open = gp_cuda_async_open,
	.async_close = gp_cuda_async_close,
	.async_alloc = gp_cuda_async_alloc,
	.async_free = gp_cuda_async_free,
	.async_retire = gp_cuda_async_retire,
	.async_settle = gp_cuda_async_settle,
	.async_trim = gp_cuda_async_trim,
	.async_counts = gp_cuda_async_counts,
	.async_reserved = gp_cuda_async_reserved,
	.va_reserve = gp_cuda_va_reserve,
	.va_release = gp_cuda_va_release,
	.create = gp_cuda_create,
	.destroy = gp_cuda_destroy,
	.map = gp_cuda_map,
	.unmap = gp_cuda_unmap,
};

static int cuda_describe(struct gp_cuda *cu, int driver)
{
	struct gp_device_info *info = &cu->base.info;
	struct cudaDeviceProp prop;
	int r = gp_cuda_result(&cu->base, cudaSetDevice(0), "cudaSetDevice");

	if (!r)
		r = gp_cuda_result(&cu->base, cudaGetDeviceProperties(&prop, 0),
				   "cudaGetDeviceProperties");
	if (r)
		return r;
	snprintf(info->name, sizeof(info->name), "%.*s", (int)sizeof(info->name) - 1, prop.name);
	snprintf(info->driver, sizeof(info->driver), "%d.%d", driver / 1000, driver % 1000 / 10);
	info->total_bytes = prop.totalGlobalMem;
	gp_cuda_setup_vmm(cu);
	gp_cuda_async_setup(cu);
	return 0;
}

/* The first calls create the context and fill the driver's caches, some 100 ms that no allocator
 * causes; here they are nobody's measurement. A card that is full is a result of the runs. */
static int cuda_warm_up(struct gp_cuda *cu)
{
	struct gp_device *dev = &cu->base;
	uint64_t addr;
	int r = gp_cuda_result(dev, cudaFree(NULL), "cudaFree");

	if (r)
		return r;
	r = cuda_reserve(dev, dev->info.page_bytes, &addr);
	if (!r)
		r = cuda_release(dev, addr);
	return r < 0 ? r : cuda_sync(dev);
}

/* Faults on purpose, from here on. A leak needs a limit that it can reach. */
static int cuda_inject(struct gp_cuda *cu, const struct gp_injection *inject)
{
	uint64_t total;
	int r = 0;

	if (inject->lose_bytes && !cu->capacity)
		r = cuda_mem_info(&cu->base, &cu->capacity, &total);
	gp_device_inject(&cu->base, inject);
	return r;
}

/* Is there a GPU that this program can use? Asks without creating a context. */
static int cuda_probe(int *driver, char *why, size_t why_size)
{
	cudaError_t e;
	int n = 0;

	*driver = 0;
	(void)cudaDriverGetVersion(driver);
	if (!*driver) {
		snprintf(why, why_size, "no NVIDIA driver found on this machine");
		return -ENODEV;
	}
	e = cudaGetDeviceCount(&n);
	(void)cudaGetLastError();
	if (e == cudaErrorInsufficientDriver) {
		snprintf(why, why_size,
			 "the NVIDIA driver is for CUDA %d.%d, this program needs "
			 "one for CUDA %d",
			 *driver / 1000, *driver % 1000 / 10, CUDART_VERSION / 1000);
		return -ENODEV;
	}
	if (e == cudaErrorNoDevice || (e == cudaSuccess && !n)) {
		snprintf(why, why_size, "no NVIDIA GPU found, though a driver is installed");
		return -ENODEV;
	}
	if (e != cudaSuccess) {
		snprintf(why, why_size, "cudaGetDeviceCount: %s (%s)", cudaGetErrorName(e),
			 cudaGetErrorString(e));
		return cuda_errno(e);
	}
	return 0;
}

int gp_device_open_cuda(const struct gp_device_config *cfg, struct gp_device **out, char *why,
			size_t why_size)
{
	struct gp_cuda *cu;
	int driver, r = cuda_probe(&driver, why, why_size);

	if (r)
		return r;
	cu = calloc(1, sizeof(*cu));
	if (!cu) {
		snprintf(why, why_size, "out of host memory");
		return -ENOMEM;
	}
	gp_device_init(&cu->base, &cuda_ops);
	cu->capacity = cfg->capacity;
	pthread_mutex_init(&cu->books, NULL);
	pthread_mutex_init(&cu->streams_lock, NULL);
	gp_cuda_kernels_init(cu);
	gp_cuda_lulls_init(cu);
	gp_range_set_init(&cu->blocks);
	gp_range_set_init(&cu->async);
	gp_range_set_init(&cu->maps);
	gp_range_set_init(&cu->memories);
	gp_range_set_init(&cu->pages);
	r = cuda_describe(cu, driver);
	if (!r)
		r = cuda_warm_up(cu);
	if (!r)
		r = cuda_inject(cu, &cfg->inject);
	if (r) {
		snprintf(why, why_size, "%s",
			 r == GP_NOMEM ? "the GPU has no memory left for a "
					 "context"
				       : cu->base.error);
		cuda_free(cu);
		return r == GP_NOMEM ? -ENODEV : r;
	}
	*out = &cu->base;
	return 0;
}
