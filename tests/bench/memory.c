/* SPDX-License-Identifier: Apache-2.0
 *
 * memory: host memory of an allocator, in a process of its own: what malloc's account says of the
 * heap, and the touched pages of all larger tables, which malloc and lazy.h map. The device
 * below is bare, so that no memory of a device is among it.
 */
#include "bench.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEAP_MOST (128 * 1024) /* larger tables are mapped, and count by the page */

/* ---- a device that is hardly there ---- */

struct bare {
	struct gp_device base;
	uint64_t next; /* address never given */
};

#define BARE_PAGE (2 * GP_MIB)

static int bare_take(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	struct bare *b = (struct bare *)(void *)dev;

	*addr = b->next;
	b->next += gp_align_up(size, BARE_PAGE);
	return 0;
}

static int bare_give(struct gp_device *dev, uint64_t addr)
{
	(void)dev;
	(void)addr;
	return 0;
}

static int bare_give_range(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	(void)size;
	return bare_give(dev, addr);
}

static int bare_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle)
{
	(void)handle;
	return bare_give_range(dev, addr, size);
}

static int bare_wait(struct gp_device *dev, uint32_t from, uint32_t to)
{
	(void)dev;
	(void)from;
	(void)to;
	return 0;
}

static int bare_sync(struct gp_device *dev)
{
	(void)dev;
	return 0;
}

static int bare_info(struct gp_device *dev, uint64_t *free_bytes, uint64_t *total_bytes)
{
	*free_bytes = *total_bytes = dev->info.total_bytes;
	return 0;
}

static void bare_close(struct gp_device *dev)
{
	free(dev);
}

static const struct gp_device_ops bare_ops = {
	.name = "bare",
	.close = bare_close,
	.reserve = bare_take,
	.release = bare_give,
	.stream_wait = bare_wait,
	.sync = bare_sync,
	.mem_info = bare_info,
	.va_reserve = bare_take,
	.va_release = bare_give_range,
	.create = bare_take,
	.destroy = bare_give_range,
	.map = bare_map,
	.unmap = bare_give_range,
};

void bench_bare_device(struct gp_device **out)
{
	struct bare *b = bench_memory(calloc(1, sizeof(*b)));

	gp_device_init(&b->base, &bare_ops);
	b->base.info.total_bytes = 4096 * GP_GIB;
	b->base.info.page_bytes = BARE_PAGE;
	b->base.info.vmm = true;
	b->next = BARE_PAGE;
	*out = &b->base;
}

/* ---- what the process holds ---- */

/* Does this line of smaps begin a mapping, and if so, one that malloc's account does not cover? */
static bool smaps_begins(const char *line, bool *counts)
{
	unsigned long from, to;

	if (sscanf(line, "%lx-%lx ", &from, &to) != 2)
		return false;
	*counts = !strstr(line, "[heap]") && !strstr(line, "[stack]");
	return true;
}

/* Touched pages outside the heap; NAN: the system does not say. */
static double touched_bytes(void)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	double sum = f ? 0 : NAN;
	bool counts = false;
	unsigned long kib;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (!smaps_begins(line, &counts) && counts &&
		    sscanf(line, "Anonymous: %lu kB", &kib) == 1)
			sum += (double)kib * 1024;
	if (f)
		fclose(f);
	return sum;
}

static double heap_bytes(void)
{
#ifdef BENCH_HAS_MALLINFO2
	return (double)mallinfo2().uordblks;
#else
	return NAN;
#endif
}

/* ---- the figure ---- */

/* What the allocator's blocks at the moment of most make the process hold more. */
static double child_bytes(struct bench_job *job, const char *spec)
{
	double before;
	struct bench_subject s;

#ifdef BENCH_HAS_MALLINFO2
	mallopt(M_MMAP_THRESHOLD, HEAP_MOST);
#endif
	memset(job->addrs, 0, job->program.n_ids * sizeof(*job->addrs));
	touched_bytes(); /* buffers of its own */
	before = heap_bytes() + touched_bytes();
	bench_subject_open(&s, job, spec, true);
	before += sizeof(struct bare);
	bench_must(&s, bench_loop(s.a, job->program.ops, job->most_live_at + 1, job->addrs));
	return heap_bytes() + touched_bytes() - before;
}

double bench_metadata(struct bench_job *job, const char *spec)
{
	double bytes = NAN;
	int ends[2], status;
	pid_t child;

	if (pipe(ends))
		return NAN;
	fflush(NULL);
	child = fork();
	if (!child) {
		bytes = child_bytes(job, spec);
		_exit(write(ends[1], &bytes, sizeof(bytes)) != sizeof(bytes));
	}
	close(ends[1]);
	if (child < 0 || read(ends[0], &bytes, sizeof(bytes)) != sizeof(bytes))
		bytes = NAN;
	close(ends[0]);
	if (child > 0)
		waitpid(child, &status, 0);
	return bytes / (double)job->most_live;
}
