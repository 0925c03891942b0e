/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_colour_cuda: what a GPU makes of two rules of the textbooks (rules.c has the host's side).
 *
 *   colouring   objects that begin at the same offset of slabs of a power of two, against objects
 *               that begin at 16 or 64 offsets in turn, 256 bytes apart, as `slab:colour=true` has
 *               them. Only the first eight bytes of each are looked at: the worst case, if there
 *               is one. By one thread that follows pointers (latency; L1 and L2), and by all
 *               (throughput; L2). An object takes a line of 128 bytes, so a few thousand of them
 *               fit any cache, unless they fight for the same sets of it.
 *   reuse       a block that is written and read again and again, as a pool hands it out that takes
 *               what was freed last, against blocks in turn (freed first)
 *
 * Median of TIMES, by the GPU's own clock. Takes up to 17 GiB and a few seconds. Exit code 77 where
 * there is no GPU.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/device/device_cuda.h"

#define TIMES         5
#define ROOM          (16 * GP_GIB + GP_MIB)
#define COLOUR_STEP   GP_ALIGN
#define HOP           40503 /* odd, so that all objects of a power of two are met; no stride of its own */
#define CHASE_STEPS   8192
#define SWEEP_ROUNDS  64
#define BLOCK_THREADS 256
#define REUSE_POOL    (2 * GP_GIB)
#define REUSE_TURNS   256 /* at 1 MiB, five times what an H200's L2 cache holds */
#define REUSE_WORD    UINT64_C(0x5555555555555555)

enum kernel { LINK, CHASE_L1, CHASE_L2, SWEEP_READ, SWEEP_WRITE, KERNELS };

static const char *const kernel_names[KERNELS] = { "link", "chase_l1", "chase_l2", "sweep_read",
						   "sweep_write" };
static const char *const kernel_lines[] = {
#include "colour.inc"
};

struct layout {
	uint64_t base, stride;
	uint32_t n, colours;
};

static struct {
	struct gp_device *dev;
	cudaEvent_t start, end;
	PFN_cuLaunchKernel_v4000 launch;
	CUfunction kernels[KERNELS];
	uint64_t out;    /* eight bytes nobody reads */
	unsigned blocks; /* that fill the GPU */
} gpu;

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_colour_cuda: %s: %s\n", what, why);
	exit(1);
}

static void cuda(cudaError_t e, const char *call)
{
	if (e != cudaSuccess)
		die(call, cudaGetErrorString(e));
}

static void driver(CUresult e, const char *call)
{
	if (e != CUDA_SUCCESS)
		die(call, "the driver refuses");
}

static void good(int r)
{
	if (r)
		die("device", gp_device_error(gpu.dev));
}

/* ---- kernels ---- */

static void kernels_load(void)
{
	PFN_cuModuleLoadData_v2000 load;
	PFN_cuModuleGetFunction_v2000 get;
	size_t size = 1;
	CUmodule module;
	char *text;

	for (size_t i = 0; i < GP_ARRAY_LEN(kernel_lines); i++)
		size += strlen(kernel_lines[i]) + 1;
	text = calloc(size, 1);
	if (!text || !gp_cuda_drv_find("cuModuleLoadData", 2000, &load) ||
	    !gp_cuda_drv_find("cuModuleGetFunction", 2000, &get) ||
	    !gp_cuda_drv_find("cuLaunchKernel", 4000, &gpu.launch))
		die("kernels", "cannot be loaded");
	for (size_t i = 0, at = 0; i < GP_ARRAY_LEN(kernel_lines); i++)
		at += (size_t)snprintf(text + at, size - at, "%s\n", kernel_lines[i]);
	driver(load(&module, text), "cuModuleLoadData");
	free(text);
	for (unsigned k = 0; k < KERNELS; k++)
		driver(get(&gpu.kernels[k], module, kernel_names[k]), kernel_names[k]);
}

static void kernel_run(enum kernel k, unsigned blocks, unsigned threads, void **args)
{
	driver(gpu.launch(gpu.kernels[k], blocks, 1, 1, threads, 1, 1, 0, NULL, args, NULL),
	       kernel_names[k]);
}

static void gpu_open(void)
{
	struct gp_device_config cfg = { 0 };
	int processors = 0;
	char why[256];

	if (gp_device_open_cuda(&cfg, &gpu.dev, why, sizeof(why))) {
		printf("skipped: %s\n", why);
		exit(77);
	}
	good(gp_device_reserve(gpu.dev, GP_ALIGN, &gpu.out));
	kernels_load();
	cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "attribute");
	gpu.blocks = (unsigned)processors * 8;
	cuda(cudaEventCreate(&gpu.start), "cudaEventCreate");
	cuda(cudaEventCreate(&gpu.end), "cudaEventCreate");
}

/* ---- timing ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* ns of work(arg) on the GPU: the median, after one that warms up. */
static double time_ns(void (*work)(const void *arg), const void *arg)
{
	double ns[TIMES];

	work(arg);
	for (size_t i = 0; i < TIMES; i++) {
		float ms = 0;

		cuda(cudaEventRecord(gpu.start, NULL), "cudaEventRecord");
		work(arg);
		cuda(cudaEventRecord(gpu.end, NULL), "cudaEventRecord");
		cuda(cudaEventSynchronize(gpu.end), "cudaEventSynchronize");
		cuda(cudaEventElapsedTime(&ms, gpu.start, gpu.end), "cudaEventElapsedTime");
		ns[i] = (double)ms * 1e6;
	}
	qsort(ns, TIMES, sizeof(*ns), compare);
	return ns[TIMES / 2];
}

/* ---- colouring ---- */

struct work {
	struct layout at;
	enum kernel kernel;
};

static uint32_t chase_steps(const struct layout *at)
{
	return (uint32_t)gp_max_u64(at->n, CHASE_STEPS);
}

static void link_objects(const struct layout *at)
{
	struct layout a = *at;
	uint64_t step = COLOUR_STEP;
	uint32_t hop = HOP;
	void *args[] = { &a.base, &a.stride, &a.n, &a.colours, &step, &hop };

	kernel_run(LINK, (a.n + BLOCK_THREADS - 1) / BLOCK_THREADS, BLOCK_THREADS, args);
}

static void chase(const void *arg)
{
	struct work w = *(const struct work *)arg;
	uint32_t steps = chase_steps(&w.at);
	void *args[] = { &w.at.base, &steps, &gpu.out };

	kernel_run(w.kernel, 1, 1, args);
}

static void sweep(const void *arg)
{
	struct work w = *(const struct work *)arg;
	uint64_t step = COLOUR_STEP;
	uint32_t rounds = SWEEP_ROUNDS;
	void *args[] = {
		&w.at.base, &w.at.stride, &w.at.n, &w.at.colours, &step, &rounds, &gpu.out
	};

	kernel_run(w.kernel, gpu.blocks, BLOCK_THREADS, args);
}

static double colour_figure(const struct layout *at, enum kernel k)
{
	struct work w = { *at, k };

	if (k == CHASE_L1 || k == CHASE_L2) {
		link_objects(at);
		return time_ns(chase, &w) / chase_steps(at);
	}
	/* Accesses for a nanosecond: billions for a second. */
	return (double)at->n * SWEEP_ROUNDS / time_ns(sweep, &w);
}

static void colour_line(uint64_t base, uint64_t stride, uint32_t n, enum kernel k)
{
	static const uint32_t colours[] = { 1, 16, 64 };

	if (stride * n > ROOM - GP_MIB)
		return;
	printf("%-12s %9" PRIu64 " %8" PRIu32, kernel_names[k], stride / GP_KIB, n);
	for (size_t i = 0; i < GP_ARRAY_LEN(colours); i++) {
		struct layout at = { base, stride, n, colours[i] };

		printf("  %10.2f", colour_figure(&at, k));
	}
	printf("\n");
}

static void colouring(void)
{
	static const uint64_t strides[] = { 4 * GP_KIB, 64 * GP_KIB, 256 * GP_KIB, 2 * GP_MIB };
	static const uint32_t chased[] = { 512, 4096, 32768 }, swept[] = { 4096, 65536 };
	uint64_t base;

	good(gp_device_reserve(gpu.dev, ROOM, &base));
	printf("Colouring: first bytes of objects in slabs; chase: ns for an access, sweep: billions "
	       "of accesses for a second\n\n");
	printf("%-12s %9s %8s  %10s  %10s  %10s\n", "", "slab KiB", "objects", "1 colour",
	       "16 colours", "64 colours");
	for (enum kernel k = CHASE_L1; k <= CHASE_L2; k++)
		for (size_t s = 0; s < GP_ARRAY_LEN(strides); s++)
			for (size_t i = 0; i < GP_ARRAY_LEN(chased); i++)
				colour_line(base, strides[s], chased[i], k);
	for (enum kernel k = SWEEP_READ; k <= SWEEP_WRITE; k++)
		for (size_t s = 0; s < GP_ARRAY_LEN(strides); s++)
			for (size_t i = 0; i < GP_ARRAY_LEN(swept); i++)
				colour_line(base, strides[s], swept[i], k);
	good(gp_device_release(gpu.dev, base));
}

/* ---- reuse ---- */

struct reuse {
	uint64_t base, size;
	uint64_t n; /* blocks in turn; 1: the one freed last */
	bool reads;
};

/* Each turn is a program that gets a block, writes it and, with `reads`, reads it. */
static void reuse(const void *arg)
{
	const struct reuse *u = arg;
	uint32_t tickets[REUSE_TURNS];
	uint64_t bad, found;

	for (unsigned i = 0; i < REUSE_TURNS; i++) {
		uint64_t addr = u->base + i % u->n * u->size;

		good(gp_device_fill(gpu.dev, addr, u->size, REUSE_WORD, 0));
		if (u->reads)
			good(gp_device_verify_begin(gpu.dev, addr, u->size, REUSE_WORD, 0,
						    &tickets[i]));
	}
	for (unsigned i = 0; i < REUSE_TURNS && u->reads; i++)
		good(gp_device_verify_end(gpu.dev, tickets[i], true, &bad, &found));
}

static void reuse_line(uint64_t base, uint64_t size, bool reads)
{
	struct reuse last = { base, size, 1, reads };
	struct reuse first = { base, size, REUSE_POOL / size, reads };
	double bytes = (double)size * REUSE_TURNS * (reads ? 2 : 1);

	printf("%-12s %9" PRIu64 "  %16.0f  %16.0f\n", reads ? "write, read" : "write",
	       size / GP_MIB, bytes / time_ns(reuse, &last), bytes / time_ns(reuse, &first));
}

static void reusing(void)
{
	static const uint64_t sizes[] = { GP_MIB, 4 * GP_MIB, 16 * GP_MIB, 32 * GP_MIB };
	uint64_t base;

	good(gp_device_reserve(gpu.dev, REUSE_POOL, &base));
	printf("\nReuse: GB/s of the work on blocks; a small one is launching time above all\n\n");
	printf("%-12s %9s  %16s  %16s\n", "", "block MiB", "freed last", "freed first");
	for (int reads = 0; reads <= 1; reads++)
		for (size_t i = 0; i < GP_ARRAY_LEN(sizes); i++)
			reuse_line(base, sizes[i], reads);
	good(gp_device_release(gpu.dev, base));
}

int main(void)
{
	gpu_open();
	printf("%s, driver %s, median of %d\n\n", gpu.dev->info.name, gpu.dev->info.driver, TIMES);
	colouring();
	reusing();
	good(gp_device_release(gpu.dev, gpu.out));
	gp_device_close(gpu.dev);
	return 0;
}
