/* SPDX-License-Identifier: Apache-2.0
 *
 * recorded_device: see recorded_device.h.
 *
 * Cost         each event is looked at once for reservations, and once for each address range
 * Threads      the caller serialises
 */
#include "recorded_device.h"

#include <errno.h>
#include <stdlib.h>

#define RECORDED_PAGE    (2 * GP_MIB)
#define RECORDED_MADE_UP (UINT64_C(1) << 46)

struct gp_recorded_device {
	struct gp_device base;
	const struct gp_trace *trace;
	size_t now;
	size_t next_alloc; /* first segment_alloc not handed out yet */
	uint64_t made_up;
	struct gp_range *ranges;
	size_t n_ranges;
};

static struct gp_recorded_device *recorded_of(struct gp_device *dev)
{
	return (struct gp_recorded_device *)(void *)dev;
}

static uint64_t recorded_invent(struct gp_recorded_device *d, uint64_t size)
{
	uint64_t addr = d->made_up;

	d->made_up += gp_align_up(size, RECORDED_PAGE);
	return addr;
}

static int recorded_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	struct gp_recorded_device *d = recorded_of(dev);
	const struct gp_trace *t = d->trace;

	for (; d->next_alloc < d->now; d->next_alloc++) {
		const struct gp_event *e = &t->events[d->next_alloc];

		if (e->op != GP_OP_SEGMENT_ALLOC)
			continue;
		if (e->size != size || !t->addrs || !t->addrs[d->next_alloc])
			break;
		*addr = t->addrs[d->next_alloc++];
		return 0;
	}
	*addr = recorded_invent(d, size);
	return 0;
}

static bool recorded_in_range(const struct gp_recorded_device *d, uint64_t addr)
{
	for (size_t i = 0; i < d->n_ranges; i++)
		if (addr - d->ranges[i].addr < d->ranges[i].size)
			return true;
	return false;
}

static int recorded_va_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	struct gp_recorded_device *d = recorded_of(dev);
	struct gp_range *ranges = realloc(d->ranges, (d->n_ranges + 1) * sizeof(*ranges));

	if (!ranges)
		return -ENOMEM;
	d->ranges = ranges;
	*addr = 0;
	for (size_t i = 0; i < d->now && !*addr && d->trace->addrs; i++)
		if (d->trace->events[i].op == GP_OP_SEGMENT_MAP &&
		    !recorded_in_range(d, d->trace->addrs[i]))
			*addr = d->trace->addrs[i];
	if (!*addr)
		*addr = recorded_invent(d, size);
	ranges[d->n_ranges++] = (struct gp_range){ *addr, size };
	return 0;
}

static int recorded_release(struct gp_device *dev, uint64_t addr)
{
	(void)dev, (void)addr;
	return 0;
}

static int recorded_range(struct gp_device *dev, uint64_t addr, uint64_t size)
{
	(void)dev, (void)addr, (void)size;
	return 0;
}

static int recorded_create(struct gp_device *dev, uint64_t size, uint64_t *handle)
{
	(void)dev, (void)size;
	*handle = 1;
	return 0;
}

static int recorded_map(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t handle)
{
	(void)dev, (void)addr, (void)size, (void)handle;
	return 0;
}

static int recorded_stream_wait(struct gp_device *dev, uint32_t from, uint32_t to)
{
	(void)dev, (void)from, (void)to;
	return 0;
}

static int recorded_sync(struct gp_device *dev)
{
	(void)dev;
	return 0;
}

static int recorded_mem_info(struct gp_device *dev, uint64_t *free_bytes, uint64_t *total_bytes)
{
	*free_bytes = *total_bytes = dev->info.total_bytes;
	return 0;
}

static int recorded_memset(struct gp_device *dev, uint64_t addr, uint8_t value, uint64_t size)
{
	(void)dev, (void)addr, (void)value, (void)size;
	return -ENOTSUP;
}

static int recorded_read(struct gp_device *dev, uint64_t addr, void *host, size_t size)
{
	(void)dev, (void)addr, (void)host, (void)size;
	return -ENOTSUP;
}

static void recorded_close(struct gp_device *dev)
{
	free(recorded_of(dev)->ranges);
	free(dev);
}

static const struct gp_device_ops recorded_ops = {
	.name = "recorded",
	.close = recorded_close,
	.reserve = recorded_reserve,
	.release = recorded_release,
	.stream_wait = recorded_stream_wait,
	.sync = recorded_sync,
	.mem_info = recorded_mem_info,
	.memset = recorded_memset,
	.read = recorded_read,
	.va_reserve = recorded_va_reserve,
	.va_release = recorded_range,
	.create = recorded_create,
	.destroy = recorded_range,
	.map = recorded_map,
	.unmap = recorded_range,
};

struct gp_device *gp_recorded_device_open(const struct gp_trace *trace, uint64_t total_bytes)
{
	struct gp_recorded_device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	gp_device_init(&d->base, &recorded_ops);
	d->trace = trace;
	d->made_up = RECORDED_MADE_UP;
	d->base.info.total_bytes = total_bytes;
	d->base.info.page_bytes = RECORDED_PAGE;
	d->base.info.vmm = true;
	d->base.info.simulated = true;
	snprintf(d->base.info.name, sizeof(d->base.info.name), "recorded addresses");
	return &d->base;
}

void gp_recorded_device_now(struct gp_device *dev, size_t event)
{
	recorded_of(dev)->now = event;
}
