/* SPDX-License-Identifier: Apache-2.0
 *
 * device_cuda_probe: single calls of the driver, timed; see device_probe.h.
 *
 * Shape       what a call needs (pools, streams, events, the kernel) is made by the first probe, so
 *             that between the two readings of the clock there is the call and a jump to it
 * Threads     one at a time
 */
#include "device_cuda.h"

#include <errno.h>
#include <string.h>

#include "device_probe.h"
#include "../ticks.h"

static int probe_pool(struct gp_cuda *cu, bool keep)
{
	struct cudaMemPoolProps props;
	cuuint64_t threshold = keep ? UINT64_MAX : 0;
	int r;

	memset(&props, 0, sizeof(props));
	props.allocType = cudaMemAllocationTypePinned;
	props.location.type = cudaMemLocationTypeDevice;
	r = gp_cuda_result(&cu->base, cudaMemPoolCreate(&cu->probe.pools[keep], &props),
			   "cudaMemPoolCreate");
	if (!r)
		r = gp_cuda_result(&cu->base,
				   cudaMemPoolSetAttribute(cu->probe.pools[keep],
							   cudaMemPoolAttrReleaseThreshold,
							   &threshold),
				   "cudaMemPoolSetAttribute");
	return r;
}

static int probe_setup(struct gp_cuda *cu)
{
	struct gp_cuda_probe *probe = &cu->probe;
	struct gp_device *dev = &cu->base;
	int r = gp_cuda_bind_thread(dev);

	if (!r)
		r = gp_cuda_result(dev,
				   cudaStreamCreateWithFlags(&probe->stream, cudaStreamNonBlocking),
				   "cudaStreamCreateWithFlags");
	for (unsigned i = 0; i < 2 && !r; i++)
		r = gp_cuda_result(dev, cudaEventCreate(&probe->events[i]), "cudaEventCreate");
	for (unsigned i = 0; i < 2 && !r && dev->info.async; i++)
		r = probe_pool(cu, i);
	if (!r)
		r = gp_cuda_busy(dev, 0, 0); /* loads the kernel */
	probe->ready = !r;
	return r;
}

void gp_cuda_probe_fini(struct gp_cuda *cu)
{
	struct gp_cuda_probe *probe = &cu->probe;

	for (unsigned i = 0; i < 2; i++) {
		if (probe->pools[i])
			(void)cudaMemPoolDestroy(probe->pools[i]);
		if (probe->events[i])
			(void)cudaEventDestroy(probe->events[i]);
	}
	if (probe->stream)
		(void)cudaStreamDestroy(probe->stream);
}

/* Waits for the memset between the two events and asks how long it took. */
static cudaError_t probe_device_time(struct gp_cuda *cu, struct gp_probe *p)
{
	struct gp_cuda_probe *probe = &cu->probe;
	float ms = 0;
	cudaError_t e = cudaEventRecord(probe->events[1], NULL);

	if (e == cudaSuccess)
		e = cudaEventSynchronize(probe->events[1]);
	if (e == cudaSuccess)
		e = cudaEventElapsedTime(&ms, probe->events[0], probe->events[1]);
	p->device_ns = (uint64_t)(ms * 1e6F + 0.5F);
	return e;
}

/* The calls of the runtime. */
static int probe_runtime(struct gp_cuda *cu, struct gp_probe *p)
{
	struct gp_cuda_probe *probe = &cu->probe;
	void *at = (void *)(uintptr_t)p->addr;
	cudaStream_t stream = (cudaStream_t)(uintptr_t)p->handle;
	cudaError_t e = cudaSuccess;
	uint64_t t0;

	if (p->kind == GP_PROBE_MEMSET)
		e = cudaEventRecord(probe->events[0], NULL);
	if (e != cudaSuccess)
		return gp_cuda_result(&cu->base, e, "cudaEventRecord");
	t0 = gp_ticks();
	switch (p->kind) {
	case GP_PROBE_MALLOC:
		e = cudaMalloc(&at, (size_t)p->size);
		break;
	case GP_PROBE_FREE:
		e = cudaFree(at);
		break;
	case GP_PROBE_ASYNC_ALLOC:
		e = cudaMallocFromPoolAsync(&at, (size_t)p->size, probe->pools[p->keep], NULL);
		break;
	case GP_PROBE_ASYNC_FREE:
		e = cudaFreeAsync(at, NULL);
		break;
	case GP_PROBE_SYNC:
		e = cudaDeviceSynchronize();
		break;
	case GP_PROBE_RECORD:
		e = cudaEventRecord(probe->events[0], NULL);
		break;
	case GP_PROBE_WAIT:
		e = cudaStreamWaitEvent(probe->stream, probe->events[0], 0);
		break;
	case GP_PROBE_STREAM:
		e = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
		break;
	case GP_PROBE_STREAM_END:
		e = cudaStreamDestroy(stream);
		break;
	case GP_PROBE_TRIM:
		e = cudaMemPoolTrimTo(probe->pools[p->keep], 0);
		break;
	default: /* GP_PROBE_MEMSET */
		e = cudaMemsetAsync(at, 0, (size_t)p->size, NULL);
		break;
	}
	p->ticks = gp_ticks() - t0;
	if (p->kind == GP_PROBE_MEMSET && e == cudaSuccess)
		e = probe_device_time(cu, p);
	p->addr = (uintptr_t)at;
	p->handle = (uintptr_t)stream;
	return gp_cuda_result(&cu->base, e, gp_probe_name(p->kind));
}

/* Those of the driver. */
static int probe_driver(struct gp_cuda *cu, struct gp_probe *p)
{
	CUmemAccessDesc access = { cu->prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle = p->handle;
	CUdeviceptr at = p->addr;
	size_t size = (size_t)p->size;
	CUresult e;
	uint64_t t0 = gp_ticks();

	switch (p->kind) {
	case GP_PROBE_VA_RESERVE:
		e = cu->drv.address_reserve(&at, size, 0, 0, 0);
		break;
	case GP_PROBE_VA_RELEASE:
		e = cu->drv.address_free(at, size);
		break;
	case GP_PROBE_CREATE:
		e = cu->drv.create(&handle, size, &cu->prop, 0);
		break;
	case GP_PROBE_DESTROY:
		e = cu->drv.release(handle);
		break;
	case GP_PROBE_MAP:
		e = cu->drv.map(at, size, 0, handle, 0);
		break;
	case GP_PROBE_SET_ACCESS:
		e = cu->drv.set_access(at, size, &access, 1);
		break;
	default: /* GP_PROBE_UNMAP */
		e = cu->drv.unmap(at, size);
		break;
	}
	p->ticks = gp_ticks() - t0;
	p->addr = at;
	p->handle = handle;
	return gp_cuda_drv_result(cu, e, gp_probe_name(p->kind));
}

static int probe_launch(struct gp_cuda *cu, struct gp_probe *p)
{
	uint64_t t0 = gp_ticks();
	int r = gp_cuda_busy(&cu->base, 0, 0);

	p->ticks = gp_ticks() - t0;
	return r;
}

int gp_cuda_probe(struct gp_device *dev, struct gp_probe *p)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	int r = cu->probe.ready ? 0 : probe_setup(cu);

	if (r)
		return r;
	switch (p->kind) {
	case GP_PROBE_VA_RESERVE:
	case GP_PROBE_VA_RELEASE:
	case GP_PROBE_CREATE:
	case GP_PROBE_DESTROY:
	case GP_PROBE_MAP:
	case GP_PROBE_SET_ACCESS:
	case GP_PROBE_UNMAP:
		return dev->info.vmm ? probe_driver(cu, p) : -ENOTSUP;
	case GP_PROBE_ASYNC_ALLOC:
	case GP_PROBE_ASYNC_FREE:
	case GP_PROBE_TRIM:
		return dev->info.async ? probe_runtime(cu, p) : -ENOTSUP;
	case GP_PROBE_LAUNCH:
		return probe_launch(cu, p);
	default:
		return probe_runtime(cu, p);
	}
}
