/* SPDX-License-Identifier: Apache-2.0
 *
 * device_contents: the calls that look at contents, write them, or keep the device at work, counted
 * and timed as device.c does with the others.
 */
#include "device_call.h"

#include <errno.h>

int gp_device_memset(struct gp_device *dev, uint64_t addr, uint8_t value, uint64_t size)
{
	uint64_t t0;
	int r;

	if (!size)
		return gp_device_zero(dev, GP_CALL_MEMSET);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_MEMSET);
	return gp_device_done(dev, GP_CALL_MEMSET, t0,
			      r ? r : dev->ops->memset(dev, addr, value, size));
}

int gp_device_read(struct gp_device *dev, uint64_t addr, void *host, size_t size)
{
	uint64_t t0;
	int r;

	if (!size)
		return gp_device_zero(dev, GP_CALL_READ);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_READ);
	return gp_device_done(dev, GP_CALL_READ, t0, r ? r : dev->ops->read(dev, addr, host, size));
}

/* Contents are written and compared by words, which lie where their multiples of 8 are. */
static int device_unworded(struct gp_device *dev, enum gp_call call, uint64_t addr, uint64_t size)
{
	if (!size)
		return gp_device_zero(dev, call);
	return addr & 7 ? gp_device_refuse(dev, -EINVAL, call, "the address is no multiple of 8")
			: 0;
}

int gp_device_fill(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
		   uint32_t stream)
{
	int r = device_unworded(dev, GP_CALL_FILL, addr, size);
	uint64_t t0;

	if (r)
		return r;
	if (!dev->ops->fill)
		return gp_device_lacks(dev, GP_CALL_FILL);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_FILL);
	return gp_device_done(dev, GP_CALL_FILL, t0,
			      r ? r : dev->ops->fill(dev, addr, size, word, stream));
}

int gp_device_verify_begin(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
			   uint32_t stream, uint32_t *ticket)
{
	int r = device_unworded(dev, GP_CALL_VERIFY, addr, size);
	uint64_t t0;

	if (r)
		return r;
	if (!dev->ops->verify_begin)
		return gp_device_lacks(dev, GP_CALL_VERIFY);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_VERIFY);
	return gp_device_done(dev, GP_CALL_VERIFY, t0,
			      r ? r
				: dev->ops->verify_begin(dev, addr, size, word, stream, ticket));
}

int gp_device_verify_end(struct gp_device *dev, uint32_t ticket, bool wait, uint64_t *bad_offset,
			 uint64_t *found)
{
	uint64_t t0 = gp_ticks(), ticks;
	int r = gp_device_curse(dev, gp_call_name(GP_CALL_VERIFY), READ(dev->n_calls));

	if (!r)
		r = dev->ops->verify_end(dev, ticket, wait, bad_offset, found);
	ticks = gp_ticks() - t0;
	COUNT(dev->host_ticks, ticks);
	COUNT(dev->call_ticks[GP_CALL_VERIFY], ticks);
	return r < 0 ? gp_device_failed(dev, r) : r;
}

int gp_device_verify(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
		     uint32_t stream, uint64_t *bad_offset, uint64_t *found)
{
	uint32_t ticket;
	int r = gp_device_verify_begin(dev, addr, size, word, stream, &ticket);

	return r ? r : gp_device_verify_end(dev, ticket, true, bad_offset, found);
}

int gp_device_busy(struct gp_device *dev, uint32_t stream, uint64_t ns)
{
	uint64_t t0;
	int r;

	if (!dev->ops->busy)
		return gp_device_lacks(dev, GP_CALL_BUSY);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_BUSY);
	return gp_device_done(dev, GP_CALL_BUSY, t0, r ? r : dev->ops->busy(dev, stream, ns));
}

int gp_device_touch(struct gp_device *dev, uint64_t addr, uint64_t size, uint32_t stream)
{
	uint64_t t0;
	int r;

	if (!dev->ops->touch)
		return gp_device_lacks(dev, GP_CALL_TOUCH);
	if (!size)
		return gp_device_zero(dev, GP_CALL_TOUCH);
	t0 = gp_ticks();
	r = gp_device_enter(dev, GP_CALL_TOUCH);
	return gp_device_done(dev, GP_CALL_TOUCH, t0,
			      r ? r : dev->ops->touch(dev, addr, size, stream));
}
