/* SPDX-License-Identifier: Apache-2.0
 *
 * device_cuda_kernels: contents of GPU memory, and work for the GPU: the kernels of
 * cuda_kernels.ptx, which the driver translates when the first one is wanted. So the program needs
 * no compiler of CUDA's, neither to be built nor to run.
 *
 * Ranges       of fill and verify are looked up in the books first: a kernel that leaves the
 *              device's memory destroys the context, and with it the run that should have reported
 *              the broken allocator
 * verify       two launches: gp_verify, which as a rule finds nothing, and gp_close, which fetches
 *              what is at the first difference and says that it is done. They write to host memory,
 *              so that a look at the result is no call, and waits for nothing.
 * Cost         16 bytes a thread and turn, enough threads to fill the GPU: the speed of its memory.
 *              Loading takes some milliseconds and a page of the GPU's memory, which is in none of
 *              the books; so does not opening the device.
 * Threads      any number; a comparison has a slot of its own
 */
#include "device_cuda.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_THREADS 256 /* more than the bytes of both edges, 8 + 15: see cuda_kernels.ptx */

static const char *const kernel_lines[] = {
#include "cuda_kernels.inc"
};

/* The lines as one text, which the caller frees; NULL: host memory is exhausted. One string of the
 * compiler's would be longer than C17 promises. */
static char *kernels_text(void)
{
	size_t size = 1;
	char *text, *to;

	for (size_t i = 0; i < GP_ARRAY_LEN(kernel_lines); i++)
		size += strlen(kernel_lines[i]) + 1;
	text = malloc(size);
	if (!text)
		return NULL;
	to = text;
	for (size_t i = 0; i < GP_ARRAY_LEN(kernel_lines); i++)
		to += sprintf(to, "%s\n", kernel_lines[i]);
	return text;
}

void gp_cuda_kernels_init(struct gp_cuda *cu)
{
	pthread_mutex_init(&cu->kernels.lock, NULL);
}

void gp_cuda_kernels_fini(struct gp_cuda *cu)
{
	struct gp_cuda_kernels *k = &cu->kernels;

	if (k->module) {
		(void)k->unload(k->module);
		(void)cudaFreeHost(k->found);
	}
	pthread_mutex_destroy(&k->lock);
}

static int kernels_find(struct gp_cuda *cu, CUmodule module)
{
	struct gp_cuda_kernels *k = &cu->kernels;
	const struct {
		const char *name;
		CUfunction *fn;
	} wanted[] = { { "gp_fill", &k->fill },
		       { "gp_verify", &k->verify },
		       { "gp_close", &k->close },
		       { "gp_busy", &k->busy } };
	PFN_cuModuleGetFunction_v2000 get;
	int r = 0;

	if (!gp_cuda_drv_find("cuModuleGetFunction", 2000, &get))
		return gp_device_fault(&cu->base, -ENOTSUP,
				       "the driver has no cuModuleGetFunction");
	for (size_t i = 0; !r && i < GP_ARRAY_LEN(wanted); i++)
		r = gp_cuda_drv_result(cu, get(wanted[i].fn, module, wanted[i].name),
				       "cuModuleGetFunction");
	return r;
}

/* Memory of the host for what comparisons find, and how many blocks fill the GPU. */
static int kernels_slots(struct gp_cuda *cu)
{
	struct gp_cuda_kernels *k = &cu->kernels;
	int processors = 0, threads = 0, r;
	void *host = NULL, *gpu = NULL;

	r = gp_cuda_result(&cu->base,
			   cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0),
			   "cudaDeviceGetAttribute");
	if (!r)
		r = gp_cuda_result(
			&cu->base,
			cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0),
			"cudaDeviceGetAttribute");
	if (!r)
		r = gp_cuda_result(&cu->base,
				   cudaHostAlloc(&host, GP_CUDA_SLOTS * sizeof(*k->found),
						 cudaHostAllocMapped | cudaHostAllocPortable),
				   "cudaHostAlloc");
	if (r)
		return r;
	r = gp_cuda_result(&cu->base, cudaHostGetDevicePointer(&gpu, host, 0),
			   "cudaHostGetDevicePointer");
	if (r) {
		(void)cudaFreeHost(host);
		return r;
	}
	k->blocks_max = (unsigned)processors * ((unsigned)threads / BLOCK_THREADS);
	k->found = host;
	k->found_on_gpu = (uintptr_t)gpu;
	k->n_free_slots = GP_CUDA_SLOTS;
	for (unsigned i = 0; i < GP_CUDA_SLOTS; i++)
		k->free_slots[i] = (uint16_t)(GP_CUDA_SLOTS - 1 - i);
	return 0;
}

/* The caller holds the lock. */
static int kernels_load(struct gp_cuda *cu)
{
	struct gp_cuda_kernels *k = &cu->kernels;
	PFN_cuModuleLoadData_v2000 load;
	CUmodule module = NULL;
	char *text;
	int r;

	if (!gp_cuda_drv_find("cuModuleLoadData", 2000, &load) ||
	    !gp_cuda_drv_find("cuModuleUnload", 2000, &k->unload) ||
	    !gp_cuda_drv_find("cuLaunchKernel", 4000, &k->launch))
		return gp_device_fault(&cu->base, -ENOTSUP, "the driver loads no kernels");
	text = kernels_text();
	if (!text)
		return -ENOMEM;
	r = gp_cuda_drv_result(cu, load(&module, text), "cuModuleLoadData");
	free(text);
	if (r)
		return r;
	r = kernels_find(cu, module);
	if (!r)
		r = kernels_slots(cu);
	if (r)
		(void)k->unload(module);
	else
		k->module = module;
	return r;
}

/* What every launch needs: a context for this thread, the kernels, the stream. */
static int kernels_begin(struct gp_cuda *cu, uint32_t stream, cudaStream_t *out)
{
	int r = gp_cuda_bind_thread(&cu->base);

	if (r)
		return r;
	pthread_mutex_lock(&cu->kernels.lock);
	if (!cu->kernels.module)
		r = kernels_load(cu);
	pthread_mutex_unlock(&cu->kernels.lock);
	return r ? r : gp_cuda_stream_handle(cu, stream, out);
}

static const struct gp_range_entry *cuda_holder(const struct gp_cuda *cu, uint64_t addr)
{
	const struct gp_range_entry *e = gp_range_set_containing(&cu->blocks, addr);

	if (!e)
		e = gp_range_set_containing(&cu->maps, addr);
	return e ? e : gp_range_set_containing(&cu->async, addr);
}

/* Is every byte of the range memory that the device has given? */
static bool cuda_covers(struct gp_cuda *cu, uint64_t addr, uint64_t size)
{
	uint64_t end = addr + size;
	bool all = end >= addr;

	pthread_mutex_lock(&cu->books);
	while (all && addr < end) {
		const struct gp_range_entry *e = cuda_holder(cu, addr);

		all = e != NULL;
		if (e)
			addr = e->addr + e->size;
	}
	pthread_mutex_unlock(&cu->books);
	return all;
}

/* A range as the kernels take it. */
struct extent {
	uint64_t addr, word, vec, tail_at;
	uint32_t head, n_edge;
};

static int extent_of(struct gp_cuda *cu, const char *call, uint64_t addr, uint64_t size,
		     uint64_t word, struct extent *out)
{
	if (!cuda_covers(cu, addr, size))
		return gp_device_fault(&cu->base, -EINVAL,
				       "%s: 0x%" PRIx64 " + %" PRIu64 " is not all device memory",
				       call, addr, size);
	out->addr = addr;
	out->word = word;
	out->head = size >= 8 ? (uint32_t)(addr & 8) : 0;
	out->vec = (size - out->head) / 16;
	out->tail_at = out->head + 16 * out->vec;
	out->n_edge = out->head + (uint32_t)(size - out->tail_at);
	return 0;
}

static unsigned extent_blocks(const struct gp_cuda *cu, const struct extent *e)
{
	uint64_t blocks = (e->vec + BLOCK_THREADS - 1) / BLOCK_THREADS;

	return (unsigned)gp_max_u64(gp_min_u64(blocks, cu->kernels.blocks_max), 1);
}

int gp_cuda_fill(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
		 uint32_t stream)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	struct extent e;
	void *args[] = { &e.addr, &e.word, &e.vec, &e.head, &e.tail_at, &e.n_edge };
	cudaStream_t s;
	int r = kernels_begin(cu, stream, &s);

	if (!r)
		r = extent_of(cu, "fill", addr, size, word, &e);
	if (r)
		return r;
	return gp_cuda_drv_result(cu,
				  cu->kernels.launch(cu->kernels.fill, extent_blocks(cu, &e), 1, 1,
						     BLOCK_THREADS, 1, 1, 0, s, args, NULL),
				  "cuLaunchKernel");
}

/* A slot of one's own, which holds that nothing was found; false: all are in use. */
static bool slot_take(struct gp_cuda_kernels *k, uint32_t *slot)
{
	bool any;

	pthread_mutex_lock(&k->lock);
	any = k->n_free_slots > 0;
	if (any)
		*slot = k->free_slots[--k->n_free_slots];
	pthread_mutex_unlock(&k->lock);
	if (!any)
		return false;
	k->found[*slot].first = UINT64_MAX;
	atomic_store_explicit(&k->found[*slot].done, 0, memory_order_relaxed);
	return true;
}

static void slot_give(struct gp_cuda_kernels *k, uint32_t slot)
{
	pthread_mutex_lock(&k->lock);
	k->free_slots[k->n_free_slots++] = (uint16_t)slot;
	pthread_mutex_unlock(&k->lock);
}

static int verify_launch(struct gp_cuda *cu, struct extent *e, uint64_t size, cudaStream_t s,
			 uint32_t slot)
{
	struct gp_cuda_kernels *k = &cu->kernels;
	uint64_t found = k->found_on_gpu + slot * sizeof(*k->found);
	void *verify[] = { &e->addr, &e->word, &e->vec, &e->head, &e->tail_at, &e->n_edge, &found };
	void *close[] = { &e->addr, &e->word, &size, &found };
	CUresult r = k->launch(k->verify, extent_blocks(cu, e), 1, 1, BLOCK_THREADS, 1, 1, 0, s,
			       verify, NULL);

	if (r == CUDA_SUCCESS)
		r = k->launch(k->close, 1, 1, 1, 1, 1, 1, 0, s, close, NULL);
	return gp_cuda_drv_result(cu, r, "cuLaunchKernel");
}

int gp_cuda_verify_begin(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
			 uint32_t stream, uint32_t *ticket)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	struct extent e;
	cudaStream_t s;
	uint32_t slot;
	int r = kernels_begin(cu, stream, &s);

	if (!r)
		r = extent_of(cu, "verify", addr, size, word, &e);
	if (r)
		return r;
	if (!slot_take(&cu->kernels, &slot))
		return GP_REFUSED;
	cu->kernels.slots[slot] = (struct gp_cuda_comparison){ s, word };
	r = verify_launch(cu, &e, size, s, slot);
	if (r)
		slot_give(&cu->kernels, slot);
	else
		*ticket = slot;
	return r;
}

int gp_cuda_verify_end(struct gp_device *dev, uint32_t ticket, bool wait, uint64_t *bad_offset,
		       uint64_t *found)
{
	struct gp_cuda_kernels *k = &gp_cuda_of(dev)->kernels;
	struct gp_cuda_found *slot = &k->found[ticket];
	uint64_t at, word, differ;
	int r = 0;

	if (!atomic_load_explicit(&slot->done, memory_order_acquire)) {
		if (!wait)
			return GP_PENDING;
		r = gp_cuda_result(dev, cudaStreamSynchronize(k->slots[ticket].stream),
				   "cudaStreamSynchronize");
	}
	at = slot->first;
	word = slot->word;
	differ = word ^ k->slots[ticket].word;
	slot_give(k, ticket);
	if (r || at == UINT64_MAX)
		return r;
	/* Exact to the byte, unless another stream put it right between the two kernels. */
	*bad_offset = differ ? gp_align_down(at, 8) + gp_lowest_bit(differ) / 8 : at;
	*found = word;
	return GP_DIFFERS;
}

int gp_cuda_busy(struct gp_device *dev, uint32_t stream, uint64_t ns)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	void *args[] = { &ns };
	cudaStream_t s;
	int r = kernels_begin(cu, stream, &s);

	return r ? r
		 : gp_cuda_drv_result(
			   cu,
			   cu->kernels.launch(cu->kernels.busy, 1, 1, 1, 1, 1, 1, 0, s, args, NULL),
			   "cuLaunchKernel");
}

int gp_cuda_touch(struct gp_device *dev, uint64_t addr, uint64_t size, uint32_t stream)
{
	struct gp_cuda *cu = gp_cuda_of(dev);
	cudaStream_t s;
	int r = gp_cuda_stream_handle(cu, stream, &s);

	return r ? r
		 : gp_cuda_result(dev, cudaMemsetAsync((void *)(uintptr_t)addr, 0, (size_t)size, s),
				  "cudaMemsetAsync");
}

int gp_cuda_memset(struct gp_device *dev, uint64_t addr, uint8_t value, uint64_t size)
{
	int r = gp_cuda_result(dev, cudaMemset((void *)(uintptr_t)addr, value, (size_t)size),
			       "cudaMemset");

	/* Other streams do not wait for the default one: make it true for all of them now. */
	return r ? r : gp_cuda_result(dev, cudaStreamSynchronize(NULL), "cudaStreamSynchronize");
}

int gp_cuda_read(struct gp_device *dev, uint64_t addr, void *host, size_t size)
{
	return gp_cuda_result(
		dev, cudaMemcpy(host, (const void *)(uintptr_t)addr, size, cudaMemcpyDeviceToHost),
		"cudaMemcpy");
}
