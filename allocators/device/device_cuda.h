/* SPDX-License-Identifier: Apache-2.0
 *
 * device_cuda: what the files of the CUDA device share. The only header that includes CUDA's, and
 * only they include it.
 *
 *   device_cuda.c          opening, reservations, streams
 *   device_cuda_async.c    pools of stream-ordered allocations
 *   device_cuda_kernels.c  contents, and work for the GPU
 *   device_cuda_lull.c     how long the GPU has been idle
 *   device_cuda_vmm.c      virtual memory, by the driver's calls
 */
#ifndef GP_DEVICE_CUDA_H
#define GP_DEVICE_CUDA_H

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "device.h"
#include "../range_set.h"

/* The driver's calls for virtual memory, all of them since CUDA 10.2. */
struct gp_cuda_driver {
	PFN_cuMemAddressReserve_v10020 address_reserve;
	PFN_cuMemAddressFree_v10020 address_free;
	PFN_cuMemCreate_v10020 create;
	PFN_cuMemRelease_v10020 release;
	PFN_cuMemMap_v10020 map;
	PFN_cuMemSetAccess_v10020 set_access;
	PFN_cuMemUnmap_v10020 unmap;
	PFN_cuMemGetAllocationGranularity_v10020 granularity;
	PFN_cuGetErrorName_v6000 error_name;
};

/* What a comparison leaves, in memory of the host that kernels write to: see cuda_kernels.ptx. */
struct gp_cuda_found {
	uint64_t first; /* wrong offset; UINT64_MAX: none */
	uint64_t word;
	_Atomic uint64_t done;
	uint64_t unused; /* a slot is half a line of the cache */
};

#define GP_CUDA_SLOTS 4096

/* The kernels of cuda_kernels.ptx, loaded when the first of them is wanted. */
struct gp_cuda_kernels {
	pthread_mutex_t lock;
	PFN_cuLaunchKernel_v4000 launch;
	PFN_cuModuleUnload_v2000 unload;
	CUmodule module; /* NULL: not loaded yet */
	CUfunction fill, verify, close, busy;
	unsigned blocks_max;         /* of one launch: the GPU is full */
	struct gp_cuda_found *found; /* [slot] */
	uint64_t found_on_gpu;       /* the same memory, as a kernel has it */
	struct gp_cuda_comparison {
		cudaStream_t stream;
		uint64_t word;
	} slots[GP_CUDA_SLOTS];
	uint16_t free_slots[GP_CUDA_SLOTS];
	unsigned n_free_slots;
};

struct gp_cuda_lull {
	cudaEvent_t stamp;  /* NULL: never used */
	cudaEvent_t *ended; /* [n]: marks, one a stream */
	uint32_t n;         /* 0: closed */
};

struct gp_cuda_lulls {
	pthread_mutex_t lock;
	cudaEvent_t *marks; /* [stream]; NULL: no mark */
	uint32_t n_marks;
	cudaEvent_t *spare;
	uint32_t n_spare, cap_spare;
	struct gp_cuda_lull slots[GP_LULLS];
};

/* What cuMemCreate made. */
struct gp_cuda_memory {
	uint64_t size;
	uint64_t first; /* where it was mapped first */
	uint32_t n_maps;
	bool dead; /* released, but still mapped */
};

/* What device_cuda_probe.c measures with. */
struct gp_cuda_probe {
	cudaMemPool_t pools[2]; /* [keep] */
	cudaStream_t stream;
	cudaEvent_t events[2];
	bool ready;
};

struct gp_cuda_stream {
	cudaStream_t stream; /* NULL is the default stream, index 0 */
	cudaEvent_t event;   /* recorded on this stream when another one waits */
	bool made;
	bool borrowed; /* the program's own: not ours to destroy */
};

struct gp_cuda {
	struct gp_device base;
	struct gp_cuda_driver drv;
	struct gp_cuda_kernels kernels;
	struct gp_cuda_lulls lulls;
	struct gp_cuda_probe probe;
	CUmemAllocationProp prop;
	_Atomic int ended_by; /* cudaError_t that destroyed the context; 0: it is there */
	uint64_t capacity;    /* 0: no limit but the card's */

	pthread_mutex_t books;
	uint64_t held;                     /* counted against capacity, if there is one */
	struct gp_range_set blocks, async; /* as asked for; tag: bytes they count for */
	struct gp_range_set maps;          /* tag: the struct gp_cuda_memory */
	struct gp_range_set memories;      /* the same, at each handle that is one */
	struct gp_range_set pages;         /* that reservations share; tag: how many */
	struct gp_async *pools;

	pthread_mutex_t streams_lock;
	struct gp_cuda_stream *streams;
	uint32_t n_streams;
};

static inline struct gp_cuda *gp_cuda_of(struct gp_device *dev)
{
	return (struct gp_cuda *)(void *)dev;
}

/* The result of a runtime call, as this project's: out of memory is GP_NOMEM, the last error is
 * cleared. */
int gp_cuda_result(struct gp_device *dev, cudaError_t e, const char *call);
/* Remembers an error that destroyed the context, and says so from then on: 0, or a fault. The runtime
 * does that by itself; of the driver, cuMemCreate and cuMemMap go on as if nothing had happened. */
void gp_cuda_note(struct gp_cuda *cu, cudaError_t e);
int gp_cuda_alive(struct gp_cuda *cu);
/* Takes bytes from the capacity, before the driver is asked; GP_NOMEM. And gives them back. */
int gp_cuda_claim(struct gp_cuda *cu, uint64_t bytes);
void gp_cuda_unclaim(struct gp_cuda *cu, uint64_t bytes);
/* The latter for what was in use, less the leak that the config may ask for. */
void gp_cuda_return(struct gp_cuda *cu, uint64_t bytes);
/* Remembers a range in one of the books, and the bytes that it counts for. */
int gp_cuda_book(struct gp_cuda *cu, struct gp_range_set *set, struct gp_range range,
		 uint64_t counted);

/* Takes a range out of the books; -EINVAL with a text where none starts there. */
int gp_cuda_unbook(struct gp_cuda *cu, struct gp_range_set *set, uint64_t addr, const char *call,
		   struct gp_range_entry *out);

/* The stream of an index, made at its first use. */
int gp_cuda_stream_handle(struct gp_cuda *cu, uint32_t index, cudaStream_t *out);

/* device_cuda_async.c: sets info.async. */
void gp_cuda_async_setup(struct gp_cuda *cu);
/* To be called before anything waits for the device. */
void gp_cuda_async_open_gates(struct gp_cuda *cu);
/* The hooks of device.h. */
int gp_cuda_async_open(struct gp_device *dev, const struct gp_async_config *cfg,
		       struct gp_async **out);
void gp_cuda_async_close(struct gp_device *dev, struct gp_async *pool);
int gp_cuda_async_alloc(struct gp_device *dev, struct gp_async *pool, uint64_t size,
			uint32_t stream, uint64_t *addr);
int gp_cuda_async_free(struct gp_device *dev, struct gp_async *pool, uint64_t addr,
		       uint32_t stream);
int gp_cuda_async_retire(struct gp_device *dev, struct gp_async *pool, uint64_t addr,
			 uint32_t stream, uint64_t *number);
void gp_cuda_async_settle(struct gp_device *dev, struct gp_async *pool, uint64_t number);
int gp_cuda_async_trim(struct gp_device *dev, struct gp_async *pool, uint64_t keep);
int gp_cuda_async_counts(struct gp_device *dev, struct gp_async *pool, struct gp_async_counts *out);
uint64_t gp_cuda_async_reserved(struct gp_device *dev);

/* device_cuda_kernels.c. fini: the context may be lost. The others are hooks of device.h. */
void gp_cuda_kernels_init(struct gp_cuda *cu);
void gp_cuda_kernels_fini(struct gp_cuda *cu);
int gp_cuda_memset(struct gp_device *dev, uint64_t addr, uint8_t value, uint64_t size);
int gp_cuda_read(struct gp_device *dev, uint64_t addr, void *host, size_t size);
int gp_cuda_fill(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
		 uint32_t stream);
int gp_cuda_verify_begin(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
			 uint32_t stream, uint32_t *ticket);
int gp_cuda_verify_end(struct gp_device *dev, uint32_t ticket, bool wait, uint64_t *bad_offset,
		       uint64_t *found);
int gp_cuda_busy(struct gp_device *dev, uint32_t stream, uint64_t ns);
int gp_cuda_touch(struct gp_device *dev, uint64_t addr, uint64_t size, uint32_t stream);

/* device_cuda_lull.c. The others are hooks of device.h. */
void gp_cuda_lulls_init(struct gp_cuda *cu);
void gp_cuda_lulls_fini(struct gp_cuda *cu);
int gp_cuda_mark(struct gp_device *dev, uint32_t stream);
int gp_cuda_lull(struct gp_device *dev, unsigned slot);
int gp_cuda_lull_ns(struct gp_device *dev, unsigned slot, uint64_t *ns);

/* device_cuda_probe.c */
int gp_cuda_probe(struct gp_device *dev, struct gp_probe *p);
void gp_cuda_probe_fini(struct gp_cuda *cu);

/* device_cuda_vmm.c, for all that calls the driver. A thread needs a context for it, one that has
 * not been destroyed. */
int gp_cuda_bind_thread(struct gp_device *dev);
/* Forgets all mappings and handles. */
void gp_cuda_fini_vmm(struct gp_cuda *cu);
/* One function of the driver. The version is the one whose prototype cudaTypedefs.h has. */
bool gp_cuda_drv_find(const char *name, unsigned version, void *fn);
/* The result of a driver call, which leaves no last error behind. */
int gp_cuda_drv_result(struct gp_cuda *cu, CUresult e, const char *call);
/* Finds the driver's calls; sets info.vmm and info.page_bytes. */
void gp_cuda_setup_vmm(struct gp_cuda *cu);
/* The hooks of device.h. */
int gp_cuda_va_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr);
int gp_cuda_va_release(struct gp_device *dev, uint64_t addr, uint64_t size);
int gp_cuda_create(struct gp_device *dev, uint64_t size, uint64_t *handle);
int gp_cuda_destroy(struct gp_device *dev, uint64_t handle, uint64_t size);
int gp_cuda_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle);
int gp_cuda_unmap(struct gp_device *dev, uint64_t addr, uint64_t size);

#endif
