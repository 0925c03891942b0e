/* SPDX-License-Identifier: Apache-2.0
 *
 * device_cuda_vmm: virtual memory on a GPU. The runtime has no such calls, so the driver's are
 * looked up through it: the program needs no libcuda to start.
 *
 * A thread needs a context for them, which it has from its first runtime call on.
 */
#include "device_cuda.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int gp_cuda_drv_result(struct gp_cuda *cu, CUresult e, const char *call)
{
	const char *name = NULL;

	if (GP_LIKELY(e == CUDA_SUCCESS))
		return 0;
	if (e == CUDA_ERROR_OUT_OF_MEMORY)
		return GP_NOMEM;
	if (!cu->drv.error_name || cu->drv.error_name(e, &name) != CUDA_SUCCESS || !name)
		name = "unknown error";
	return gp_device_fault(&cu->base, e == CUDA_ERROR_INVALID_VALUE ? -EINVAL : -EIO,
			       "%s: %s (%d)", call, name, (int)e);
}

int gp_cuda_bind_thread(struct gp_device *dev)
{
	static _Thread_local bool bound;
	int r = bound ? 0 : gp_cuda_result(dev, cudaSetDevice(0), "cudaSetDevice");

	bound = !r;
	return r;
}

int gp_cuda_va_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	CUdeviceptr at = 0;
	int r = gp_cuda_bind_thread(dev);

	if (!r)
		r = gp_cuda_drv_result(cu, cu->drv.address_reserve(&at, (size_t)size, 0, 0, 0),
				       "cuMemAddressReserve");
	if (!r)
		*addr = at;
	return r;
}

int gp_cuda_va_release(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	int r = gp_cuda_bind_thread(dev);

	return r ? r
		 : gp_cuda_drv_result(cu, cu->drv.address_free(addr, (size_t)size),
				      "cuMemAddressFree");
}

int gp_cuda_create(struct gp_device *dev, uint64_t size, uint64_t *handle)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	CUmemGenericAllocationHandle h = 0;
	int r = gp_cuda_bind_thread(dev);

	if (!r)
		r = gp_cuda_claim(cu, size);
	if (r)
		return r;
	r = gp_cuda_drv_result(cu, cu->drv.create(&h, (size_t)size, &cu->prop, 0), "cuMemCreate");
	if (r)
		gp_cuda_unclaim(cu, size);
	else
		*handle = h;
	return r;
}

int gp_cuda_destroy(struct gp_device *dev, uint64_t handle, uint64_t size)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	int r = gp_cuda_bind_thread(dev);

	if (!r)
		r = gp_cuda_drv_result(cu, cu->drv.release(handle), "cuMemRelease");
	if (!r)
		gp_cuda_return(cu, size);
	return r;
}

int gp_cuda_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	CUmemAccessDesc access = { cu->prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	int r = gp_cuda_bind_thread(dev);

	if (!r)
		r = gp_cuda_drv_result(cu, cu->drv.map(addr, (size_t)size, 0, handle, 0),
				       "cuMemMap");
	if (r)
		return r;
	r = gp_cuda_drv_result(cu, cu->drv.set_access(addr, (size_t)size, &access, 1),
			       "cuMemSetAccess");
	if (!r)
		r = gp_cuda_book(cu, &cu->maps, (struct gp_range){ addr, size }, size);
	if (r) {
		(void)cu->drv.unmap(addr, (size_t)size);
		return r;
	}
	gp_device_range_added(dev, (struct gp_range){ addr, size }, true);
	return 0;
}

int gp_cuda_unmap(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	const struct gp_range_entry *e;
	bool exact;
	int r = gp_cuda_bind_thread(dev);

	if (r)
		return r;
	pthread_mutex_lock(&cu->books);
	e = gp_range_set_at(&cu->maps, addr);
	exact = e && e->size == size;
	if (exact)
		gp_range_set_remove(&cu->maps, addr, NULL);
	pthread_mutex_unlock(&cu->books);
	if (!exact)
		return gp_device_fault(dev, -EINVAL,
				       "cuMemUnmap: 0x%" PRIx64 " + %" PRIu64
				       " is not what one map made",
				       addr, size);
	gp_device_range_gone(dev, (struct gp_range){ addr, size }, true);
	return gp_cuda_drv_result(cu, cu->drv.unmap(addr, (size_t)size), "cuMemUnmap");
}

bool gp_cuda_drv_find(const char *name, unsigned version, void *fn)
{
	enum cudaDriverEntryPointQueryResult found;
	void *p = NULL;
	cudaError_t e;

#if CUDART_VERSION >= 12050
	e = cudaGetDriverEntryPointByVersion(name, &p, version, cudaEnableDefault, &found);
#else
	(void)version;
	e = cudaGetDriverEntryPoint(name, &p, cudaEnableDefault, &found);
#endif
	if (e != cudaSuccess || found != cudaDriverEntryPointSuccess || !p) {
		(void)cudaGetLastError();
		return false;
	}
	memcpy(fn, &p, sizeof(p)); /* C has no cast from an object pointer to a function's */
	return true;
}

static bool drv_load(struct gp_cuda_driver *drv)
{
	return gp_cuda_drv_find("cuMemAddressReserve", 10020, &drv->address_reserve) &&
	       gp_cuda_drv_find("cuMemAddressFree", 10020, &drv->address_free) &&
	       gp_cuda_drv_find("cuMemCreate", 10020, &drv->create) &&
	       gp_cuda_drv_find("cuMemRelease", 10020, &drv->release) &&
	       gp_cuda_drv_find("cuMemMap", 10020, &drv->map) &&
	       gp_cuda_drv_find("cuMemSetAccess", 10020, &drv->set_access) &&
	       gp_cuda_drv_find("cuMemUnmap", 10020, &drv->unmap) &&
	       gp_cuda_drv_find("cuMemGetAllocationGranularity", 10020, &drv->granularity) &&
	       gp_cuda_drv_find("cuGetErrorName", 6000, &drv->error_name);
}

/* Virtual memory is there when the driver has all its calls and accepts this device. */
void gp_cuda_setup_vmm(struct gp_cuda *cu)
{
	size_t granularity = 0;

	cu->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	cu->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	cu->prop.location.id = 0;
	cu->base.info.page_bytes = 2 * GP_MIB; /* of every card so far; where it cannot be asked */
	if (!drv_load(&cu->drv) ||
	    cu->drv.granularity(&granularity, &cu->prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
		    CUDA_SUCCESS ||
	    !gp_is_pow2(granularity))
		return;
	cu->base.info.page_bytes = granularity;
	cu->base.info.vmm = true;
}
