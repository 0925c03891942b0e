/* SPDX-License-Identifier: Apache-2.0
 *
 * device_cuda_vmm: virtual memory on a GPU. The runtime has no such calls, so the driver's are
 * looked up through it: the program needs no libcuda to start.
 *
 * Shape        the books know which memory is mapped where, so that a mistake is named here and the
 *              observer hears which mappings are one more way to the same memory
 *                  memories   handle    -> its memory, until it is released
 *                  maps       addresses -> their memory, which lasts until both have let it go
 * Not done     access to many mappings in one call, and unmapping several in one: on an H200 both
 *              take as long as one call each (21 and 14 us a mapping), and a handle cannot be mapped
 *              in part (CUDA_ERROR_NOT_SUPPORTED)
 * Threads      a thread needs a context for these calls, which it has from its first runtime call on
 */
#include "device_cuda.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int gp_cuda_drv_result(struct gp_cuda *cu, CUresult e, const char *call)
{
	const char *name = NULL;

	if (GP_LIKELY(e == CUDA_SUCCESS))
		return 0;
	if (e == CUDA_ERROR_OUT_OF_MEMORY)
		return GP_NOMEM;
	gp_cuda_note(cu, (cudaError_t)e); /* the same numbers */
	if (!cu->drv.error_name || cu->drv.error_name(e, &name) != CUDA_SUCCESS || !name)
		name = "unknown error";
	return gp_device_fault(&cu->base, e == CUDA_ERROR_INVALID_VALUE ? -EINVAL : -EIO,
			       "%s: %s (%d)", call, name, (int)e);
}

int gp_cuda_bind_thread(struct gp_device *dev)
{
	static _Thread_local bool bound;
	int r = gp_cuda_alive(gp_cuda_of(dev));

	if (r || bound)
		return r;
	r = gp_cuda_result(dev, cudaSetDevice(0), "cudaSetDevice");
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

/* ---- the books; their lock is held ---- */

static struct gp_cuda_memory *books_memory(const struct gp_range_entry *e)
{
	return e ? (struct gp_cuda_memory *)(uintptr_t)e->tag : NULL;
}

/* The memory is needed by one fewer. Returns the bytes that went with it. */
static uint64_t books_let_go(struct gp_cuda_memory *m)
{
	uint64_t size = m->size;

	if (m->n_maps || !m->dead)
		return 0;
	free(m);
	return size;
}

/* Why these addresses cannot be unmapped; NULL when they can. */
static const char *books_refusal(const struct gp_cuda *cu, uint64_t addr, uint64_t size)
{
	const struct gp_range_entry *e;

	for (uint64_t at = addr; at != addr + size; at += e->size) {
		e = gp_range_set_at(&cu->maps, at);
		if (!e || e->size > addr + size - at)
			return "is not what one or more maps made";
		if (books_memory(e)->n_maps > 1 && books_memory(e)->first == at)
			return "is where memory was mapped first that is still mapped elsewhere";
	}
	return NULL;
}

/* ---- memory ---- */

static int cuda_remember(struct gp_cuda *cu, uint64_t handle, uint64_t size)
{
	struct gp_cuda_memory *m = calloc(1, sizeof(*m));
	int r = m ? gp_cuda_book(cu, &cu->memories, (struct gp_range){ handle, 1 }, (uintptr_t)m)
		  : -ENOMEM;

	if (r)
		free(m);
	else
		m->size = size;
	return r;
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
		goto unclaim;
	r = cuda_remember(cu, h, size);
	if (r)
		goto release;
	gp_device_hold(dev, size);
	*handle = h;
	return 0;
release:
	(void)cu->drv.release(h);
unclaim:
	gp_cuda_unclaim(cu, size);
	return r;
}

/* Memory that neither a handle nor a mapping holds any more. */
static void cuda_gone(struct gp_cuda *cu, uint64_t size)
{
	if (!size)
		return;
	gp_cuda_return(cu, size);
	gp_device_unhold(&cu->base, size);
}

int gp_cuda_destroy(struct gp_device *dev, uint64_t handle, uint64_t size)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	struct gp_cuda_memory *m;
	uint64_t gone = 0;
	int r = gp_cuda_bind_thread(dev);

	if (r)
		return r;
	pthread_mutex_lock(&cu->books);
	m = books_memory(gp_range_set_at(&cu->memories, handle));
	if (m && m->size != size)
		m = NULL;
	if (m) {
		gp_range_set_remove(&cu->memories, handle, NULL);
		m->dead = true;
		gone = books_let_go(m);
	}
	pthread_mutex_unlock(&cu->books);
	if (!m)
		return gp_device_fault(dev, -EINVAL,
				       "cuMemRelease: 0x%" PRIx64 " is no memory of %" PRIu64
				       " bytes, or was released before",
				       handle, size);
	r = gp_cuda_drv_result(cu, cu->drv.release(handle), "cuMemRelease");
	cuda_gone(cu, gone);
	return r;
}

/* ---- mappings ---- */

/* Enters the mapping; *same: as for the observer. */
static int cuda_enter(struct gp_cuda *cu, uint64_t addr, uint64_t size, uint64_t handle,
		      uint64_t *same)
{
	struct gp_cuda_memory *m;
	int r = -EINVAL;

	pthread_mutex_lock(&cu->books);
	m = books_memory(gp_range_set_at(&cu->memories, handle));
	if (m)
		r = gp_range_set_insert(&cu->maps, addr, size, (uintptr_t)m);
	if (!r) {
		*same = m->n_maps ? m->first : 0;
		m->first = m->n_maps++ ? m->first : addr;
	}
	pthread_mutex_unlock(&cu->books);
	return r;
}

int gp_cuda_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	CUmemAccessDesc access = { cu->prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	uint64_t same = 0;
	int r = gp_cuda_bind_thread(dev);

	if (!r)
		r = gp_cuda_drv_result(cu, cu->drv.map(addr, (size_t)size, 0, handle, 0),
				       "cuMemMap");
	if (r)
		return r;
	r = gp_cuda_drv_result(cu, cu->drv.set_access(addr, (size_t)size, &access, 1),
			       "cuMemSetAccess");
	if (!r)
		r = cuda_enter(cu, addr, size, handle, &same);
	if (r) {
		(void)cu->drv.unmap(addr, (size_t)size);
		return r;
	}
	gp_device_mapped(dev, true, (struct gp_range){ addr, size }, same);
	return 0;
}

/* Undoes the mapping at addr; what is reported gone is not handed out again before that. */
static int cuda_unmap_one(struct gp_cuda *cu, uint64_t addr, uint64_t *next)
{
	struct gp_range_entry e;
	struct gp_cuda_memory *m;
	uint64_t first, gone;
	int r;

	pthread_mutex_lock(&cu->books);
	gp_range_set_remove(&cu->maps, addr, &e);
	m = books_memory(&e);
	first = m->first;
	pthread_mutex_unlock(&cu->books);
	*next = addr + e.size;
	gp_device_mapped(&cu->base, false, (struct gp_range){ addr, e.size },
			 first == addr ? 0 : first);
	r = gp_cuda_drv_result(cu, cu->drv.unmap(addr, (size_t)e.size), "cuMemUnmap");
	pthread_mutex_lock(&cu->books);
	m->n_maps--;
	gone = books_let_go(m);
	pthread_mutex_unlock(&cu->books);
	cuda_gone(cu, gone);
	return r;
}

int gp_cuda_unmap(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	const char *why;
	int r = gp_cuda_bind_thread(dev);

	if (r)
		return r;
	pthread_mutex_lock(&cu->books);
	why = books_refusal(cu, addr, size);
	pthread_mutex_unlock(&cu->books);
	if (why)
		return gp_device_fault(dev, -EINVAL, "cuMemUnmap: 0x%" PRIx64 " + %" PRIu64 " %s",
				       addr, size, why);
	for (uint64_t at = addr; at != addr + size;) {
		int r2 = cuda_unmap_one(cu, at, &at);

		r = r ? r : r2;
	}
	return r;
}

static int cuda_forget_map(void *arg, const struct gp_range_entry *e)
{
	struct gp_cuda_memory *m = books_memory(e);

	(void)arg;
	m->n_maps--;
	(void)books_let_go(m);
	return 0;
}

static int cuda_forget_memory(void *arg, const struct gp_range_entry *e)
{
	(void)arg;
	free(books_memory(e));
	return 0;
}

void gp_cuda_fini_vmm(struct gp_cuda *cu)
{
	gp_range_set_each(&cu->maps, cuda_forget_map, NULL);
	gp_range_set_each(&cu->memories, cuda_forget_memory, NULL);
	gp_range_set_fini(&cu->maps);
	gp_range_set_fini(&cu->memories);
}

/* ---- the driver ---- */

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
