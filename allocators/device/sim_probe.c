/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_probe: single calls, as the simulated device charges them; see device_probe.h. What
 * gpupool-calibrate measures here is the profile that the device was made from, which is how the
 * program is tested where there is no GPU.
 */
#include "device_sim.h"

#include <errno.h>

#include "device_probe.h"

/* What one call of device.h does in two: charged alone. */
static int probe_charge(struct gp_sim *sim, enum gp_cost cost, uint64_t size)
{
	if (!sim->profile->curves[cost].n)
		return -ENOTSUP;
	gp_sim_charge(sim, cost, size);
	return 0;
}

/* A pool that keeps what it has, or nothing. The device ends them when it is closed. */
static int probe_async(struct gp_sim *sim, struct gp_probe *p)
{
	const struct gp_async_config cfg = { .threshold = p->keep ? UINT64_MAX : 0 };
	struct gp_async **pool = &sim->probe_pools[p->keep];
	struct gp_device *dev = &sim->base;
	int r;

	if (!dev->info.async)
		return -ENOTSUP;
	r = *pool ? 0 : dev->ops->async_open(dev, &cfg, pool);
	if (r)
		return r;
	if (p->kind == GP_PROBE_ASYNC_ALLOC)
		return dev->ops->async_alloc(dev, *pool, p->size, 0, &p->addr);
	if (p->kind == GP_PROBE_ASYNC_FREE)
		return dev->ops->async_free(dev, *pool, p->addr, 0);
	return dev->ops->async_trim(dev, *pool, 0);
}

static int probe_memset(struct gp_sim *sim, struct gp_probe *p)
{
	const enum gp_cost work = GP_COST_TOUCH_WORK;

	if (!sim->profile->curves[work].n)
		return -ENOTSUP;
	p->device_ns = gp_profile_nth_ns(
		sim->profile, work, p->size,
		atomic_fetch_add_explicit(&sim->n_charged[work], 1, memory_order_relaxed));
	return probe_charge(sim, GP_COST_TOUCH, p->size);
}

int gp_sim_probe(struct gp_device *dev, struct gp_probe *p)
{
	struct gp_sim *sim = gp_sim_of(dev);

	if (p->kind >= GP_PROBE_VA_RESERVE && p->kind <= GP_PROBE_UNMAP && !dev->info.vmm)
		return -ENOTSUP;
	switch (p->kind) {
	case GP_PROBE_MALLOC:
		return dev->ops->reserve(dev, p->size, &p->addr);
	case GP_PROBE_FREE:
		return dev->ops->release(dev, p->addr);
	case GP_PROBE_ASYNC_ALLOC:
	case GP_PROBE_ASYNC_FREE:
	case GP_PROBE_TRIM:
		return probe_async(sim, p);
	case GP_PROBE_SYNC:
		return dev->ops->sync(dev);
	case GP_PROBE_VA_RESERVE:
		return dev->ops->va_reserve(dev, p->size, &p->addr);
	case GP_PROBE_VA_RELEASE:
		return dev->ops->va_release(dev, p->addr, p->size);
	case GP_PROBE_CREATE:
		return dev->ops->create(dev, p->size, &p->handle);
	case GP_PROBE_DESTROY:
		return dev->ops->destroy(dev, p->handle, p->size);
	case GP_PROBE_MAP:
		return probe_charge(sim, GP_COST_MAP, p->size);
	case GP_PROBE_SET_ACCESS:
		return probe_charge(sim, GP_COST_SET_ACCESS, p->size);
	case GP_PROBE_UNMAP:
		return probe_charge(sim, GP_COST_UNMAP, p->size);
	case GP_PROBE_RECORD:
		return probe_charge(sim, GP_COST_EVENT_RECORD, 1);
	case GP_PROBE_WAIT:
		return probe_charge(sim, GP_COST_EVENT_WAIT, 1);
	case GP_PROBE_MEMSET:
		return probe_memset(sim, p);
	case GP_PROBE_LAUNCH:
		return probe_charge(sim, GP_COST_LAUNCH, 1);
	default: /* streams cost nothing there */
		return -ENOTSUP;
	}
}
