/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_contents: what is written where in the memory of the simulated device, without its bytes.
 *
 * Shape        fills: ranges of memory, each of one word of 8 bytes again and again. Mapped memory
 *              goes by its own address (gp_sim_physical), so that it is the same through each of
 *              its mappings. The byte at address x is that of its word at x % 8, so that a range
 *              may be cut anywhere. What is in none of them reads as 0xAA.
 * Order        everything is done at the call: no stream is behind another, and a wait that an
 *              allocator forgot does no harm here as it does on a GPU
 * Cost         that of the range set, some 100 ns a call and as much for each range of other
 *              contents that is met. Nothing is charged to the simulated time for fill, verify,
 *              memset and read, which are there for verification. touch is work (sim_queue.h).
 */
#include "device_sim.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define BYTES     UINT64_C(0x0101010101010101) /* times a byte: the word of it */
#define UNWRITTEN (0xAA * BYTES)

static uint8_t word_byte(uint64_t word, uint64_t addr)
{
	return (uint8_t)(word >> 8 * (addr & 7));
}

/* The first part of [addr, end) that was written, or false. */
static bool fill_next(const struct gp_sim *sim, uint64_t addr, uint64_t end,
		      struct gp_range_entry *out)
{
	const struct gp_range_entry *e = gp_range_set_containing(&sim->fills, addr);

	if (!e)
		e = gp_range_set_ceiling(&sim->fills, addr);
	if (!e || e->addr >= end || addr == end)
		return false;
	out->addr = gp_max_u64(e->addr, addr);
	out->size = gp_min_u64(e->addr + e->size, end) - out->addr;
	out->tag = e->tag;
	return true;
}

/* The next piece of [addr, end) that is of one word, written or not. addr < end. */
static struct gp_range_entry piece_at(const struct gp_sim *sim, uint64_t addr, uint64_t end)
{
	uint64_t left = end - addr, at = gp_sim_physical(sim, addr, &left);
	struct gp_range_entry e;

	if (!fill_next(sim, at, at + left, &e))
		return (struct gp_range_entry){ addr, left, UNWRITTEN };
	if (e.addr > at)
		return (struct gp_range_entry){ addr, e.addr - at, UNWRITTEN };
	return (struct gp_range_entry){ addr, e.size, e.tag };
}

int gp_sim_fill_clear(struct gp_sim *sim, uint64_t addr, uint64_t size)
{
	struct gp_range_entry e;
	int r = 0;

	if (!sim->fills.n)
		return 0;
	while (!r && fill_next(sim, addr, addr + size, &e))
		r = gp_range_set_carve(&sim->fills, e.addr, e.size);
	return r;
}

/* Is every byte of the range memory of this device? */
static bool sim_covers(const struct gp_sim *sim, uint64_t addr, uint64_t size)
{
	uint64_t end = addr + size;

	if (end < addr)
		return false;
	while (addr < end) {
		const struct gp_range_entry *e = gp_range_set_containing(&sim->blocks, addr);

		if (!e)
			e = gp_range_set_containing(&sim->maps, addr);
		if (!e)
			e = gp_sim_async_chunk(sim, addr);
		if (!e)
			return false;
		addr = e->addr + e->size;
	}
	return true;
}

static int sim_no_memory_at(struct gp_sim *sim, const char *call, uint64_t addr, uint64_t size)
{
	return gp_device_fault(&sim->base, -EINVAL,
			       "%s: 0x%" PRIx64 " + %" PRIu64 " is not all device memory", call,
			       addr, size);
}

/* The lock is held and the range is covered. */
static int contents_set(struct gp_sim *sim, uint64_t addr, uint64_t size, uint64_t word)
{
	int r = 0;

	for (uint64_t end = addr + size, left; addr < end && !r; addr += left) {
		uint64_t at;

		left = end - addr;
		at = gp_sim_physical(sim, addr, &left);
		r = gp_sim_fill_clear(sim, at, left);
		if (!r)
			r = gp_range_set_insert_merge(&sim->fills, at, left, word);
	}
	return r;
}

static int contents_write(struct gp_device *dev, const char *call, uint64_t addr, uint64_t size,
			  uint64_t word)
{
	struct gp_sim *sim = gp_sim_of(dev);
	int r;

	pthread_mutex_lock(&sim->lock);
	r = sim_covers(sim, addr, size) ? contents_set(sim, addr, size, word)
					: sim_no_memory_at(sim, call, addr, size);
	pthread_mutex_unlock(&sim->lock);
	return r;
}

int gp_sim_memset(struct gp_device *dev, uint64_t addr, uint8_t value, uint64_t size)
{
	return contents_write(dev, "memset", addr, size, value * BYTES);
}

int gp_sim_fill(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word, uint32_t stream)
{
	(void)stream;
	return contents_write(dev, "fill", addr, size, word);
}

/* How long the device is at it. Measured is the time between two events; what they show around the
 * smallest memset is their own, and the gap that a lone command leaves: queued ones leave none. */
static uint64_t touch_ns(struct gp_sim *sim, uint64_t size)
{
	uint64_t ns = gp_sim_price(sim, GP_COST_TOUCH_WORK, size);
	uint64_t none = gp_profile_mean_ns(sim->profile, GP_COST_TOUCH_WORK, 1);

	return ns > none ? ns - none : 0;
}

int gp_sim_touch(struct gp_device *dev, uint64_t addr, uint64_t size, uint32_t stream)
{
	struct gp_sim *sim = gp_sim_of(dev);
	int r;

	if (!sim->profile->curves[GP_COST_TOUCH_WORK].n)
		return gp_device_fault(dev, -ENOTSUP,
				       "touch: the profile does not say how long a memset takes: "
				       "no memset.device");
	r = contents_write(dev, "touch", addr, size, 0);
	if (r)
		return r;
	pthread_mutex_lock(&sim->lock);
	gp_sim_charge(sim, GP_COST_TOUCH, size);
	r = gp_sim_queue_push(sim, stream, touch_ns(sim, size));
	pthread_mutex_unlock(&sim->lock);
	return r;
}

/* The lock is held and the range is covered. */
static void contents_read(const struct gp_sim *sim, uint64_t addr, unsigned char *to, uint64_t size)
{
	uint64_t end = addr + size;

	while (addr < end) {
		struct gp_range_entry e = piece_at(sim, addr, end);

		if (e.tag == word_byte(e.tag, 0) * BYTES) {
			memset(to, word_byte(e.tag, 0), (size_t)e.size);
			to += e.size;
		} else {
			for (uint64_t at = addr; at < addr + e.size; at++)
				*to++ = word_byte(e.tag, at);
		}
		addr += e.size;
	}
}

int gp_sim_read(struct gp_device *dev, uint64_t addr, void *host, size_t size)
{
	struct gp_sim *sim = gp_sim_of(dev);
	int r = 0;

	pthread_mutex_lock(&sim->lock);
	if (sim_covers(sim, addr, size))
		contents_read(sim, addr, host, size);
	else
		r = sim_no_memory_at(sim, "read", addr, size);
	pthread_mutex_unlock(&sim->lock);
	return r;
}

/* The first byte of [addr, end) that is not the word's; end when there is none. */
static uint64_t contents_differ(const struct gp_sim *sim, uint64_t addr, uint64_t end,
				uint64_t word)
{
	while (addr < end) {
		struct gp_range_entry e = piece_at(sim, addr, end);
		uint64_t turn = addr + gp_min_u64(e.size, 8);

		for (uint64_t at = addr; e.tag != word && at < turn; at++)
			if (word_byte(e.tag, at) != word_byte(word, at))
				return at;
		addr += e.size;
	}
	return end;
}

/* The eight bytes at a multiple of 8, of which those from `end` on are the word's. */
static uint64_t contents_word(const struct gp_sim *sim, uint64_t addr, uint64_t end, uint64_t word)
{
	unsigned char bytes[8];
	uint64_t found = 0;

	for (unsigned i = 0; i < 8; i++)
		bytes[i] = word_byte(word, i);
	contents_read(sim, addr, bytes, gp_min_u64(8, end - addr));
	for (unsigned i = 0; i < 8; i++)
		found |= (uint64_t)bytes[i] << 8 * i;
	return found;
}

/* Ticket 0: all was equal. Ticket n: what is in slot n - 1. */
int gp_sim_verify_begin(struct gp_device *dev, uint64_t addr, uint64_t size, uint64_t word,
			uint32_t stream, uint32_t *ticket)
{
	struct gp_sim *sim = gp_sim_of(dev);
	uint64_t end = addr + size, bad;
	unsigned slot;
	int r = 0;

	(void)stream;
	pthread_mutex_lock(&sim->lock);
	if (!sim_covers(sim, addr, size)) {
		r = sim_no_memory_at(sim, "verify", addr, size);
		goto out;
	}
	*ticket = 0;
	bad = contents_differ(sim, addr, end, word);
	if (bad == end)
		goto out;
	if (sim->found_used == UINT64_MAX) {
		r = GP_REFUSED;
		goto out;
	}
	slot = gp_lowest_bit(~sim->found_used);
	sim->found_used |= UINT64_C(1) << slot;
	sim->found[slot].offset = bad - addr;
	sim->found[slot].word = contents_word(sim, gp_align_down(bad, 8), end, word);
	*ticket = slot + 1;
out:
	pthread_mutex_unlock(&sim->lock);
	return r;
}

int gp_sim_verify_end(struct gp_device *dev, uint32_t ticket, bool wait, uint64_t *bad_offset,
		      uint64_t *found)
{
	struct gp_sim *sim = gp_sim_of(dev);

	(void)wait;
	if (!ticket)
		return 0;
	pthread_mutex_lock(&sim->lock);
	*bad_offset = sim->found[ticket - 1].offset;
	*found = sim->found[ticket - 1].word;
	sim->found_used &= ~(UINT64_C(1) << (ticket - 1));
	pthread_mutex_unlock(&sim->lock);
	return GP_DIFFERS;
}
