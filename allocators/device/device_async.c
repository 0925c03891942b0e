/* SPDX-License-Identifier: Apache-2.0
 *
 * device_async: the calls for pools of stream-ordered allocations, counted and timed as device.c does
 * with the others.
 */
#include "device_call.h"

int gp_device_async_open(struct gp_device *dev, const struct gp_async_config *cfg,
			 struct gp_async **out)
{
	uint64_t t0;
	int r;

	if (!dev->info.async)
		return gp_device_lacks(dev, GP_CALL_ASYNC_ALLOC);
	t0 = gp_ticks();
	r = dev->ops->async_open(dev, cfg, out);
	COUNT(dev->host_ticks, gp_ticks() - t0);
	return r ? gp_device_failed(dev, r) : 0;
}

void gp_device_async_close(struct gp_device *dev, struct gp_async *pool)
{
	uint64_t t0 = gp_ticks();

	dev->ops->async_close(dev, pool);
	COUNT(dev->host_ticks, gp_ticks() - t0);
}

int gp_device_async_alloc(struct gp_device *dev, struct gp_async *pool, uint64_t size,
			  uint32_t stream, uint64_t *addr)
{
	uint64_t t0;
	int r;

	if (!size)
		return gp_device_zero(dev, GP_CALL_ASYNC_ALLOC);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_ASYNC_ALLOC);
	return gp_device_done(dev, GP_CALL_ASYNC_ALLOC, t0,
			      r ? r : dev->ops->async_alloc(dev, pool, size, stream, addr));
}

int gp_device_async_free(struct gp_device *dev, struct gp_async *pool, uint64_t addr,
			 uint32_t stream)
{
	uint64_t t0 = gp_ticks();
	int r = dev->ops->async_free(dev, pool, addr, stream);

	return gp_device_done(dev, GP_CALL_ASYNC_FREE, t0,
			      gp_device_answer(dev, GP_CALL_ASYNC_FREE, r));
}

int gp_device_async_retire(struct gp_device *dev, struct gp_async *pool, uint64_t addr,
			   uint32_t stream, uint64_t *number)
{
	uint64_t t0 = gp_ticks();
	int r = dev->ops->async_retire(dev, pool, addr, stream, number);

	return gp_device_done(dev, GP_CALL_ASYNC_FREE, t0,
			      gp_device_answer(dev, GP_CALL_ASYNC_FREE, r));
}

void gp_device_async_settle(struct gp_device *dev, struct gp_async *pool, uint64_t number)
{
	uint64_t t0 = gp_ticks();

	dev->ops->async_settle(dev, pool, number);
	COUNT(dev->host_ticks, gp_ticks() - t0);
}

int gp_device_async_trim(struct gp_device *dev, struct gp_async *pool, uint64_t keep)
{
	uint64_t t0 = gp_ticks();
	int r = dev->ops->async_trim(dev, pool, keep);

	return gp_device_done(dev, GP_CALL_ASYNC_TRIM, t0,
			      gp_device_answer(dev, GP_CALL_ASYNC_TRIM, r));
}

int gp_device_async_counts(struct gp_device *dev, struct gp_async *pool,
			   struct gp_async_counts *out)
{
	int r = dev->ops->async_counts(dev, pool, out);

	return r ? gp_device_failed(dev, r) : 0;
}

uint64_t gp_device_reserved(struct gp_device *dev)
{
	uint64_t bytes = READ(dev->reserved_bytes);

	return dev->ops->async_reserved ? bytes + dev->ops->async_reserved(dev) : bytes;
}
