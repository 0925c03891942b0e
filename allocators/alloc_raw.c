/* SPDX-License-Identifier: Apache-2.0
 *
 * raw: every call goes to the device. The baseline.
 *
 * Shape        none; the index only remembers sizes, so that usage adds up and a foreign address is
 *              refused here, not by the driver
 *              It holds what it handed out; the pages that the driver takes for it are the device's
 *              to count (gp_device_stats)
 * Invariants   index, sizes and totals agree
 * Cost         cudaMalloc: 40 to 50 us for a new 2 MiB page, 1 to 2 us in a page partly used;
 *              cudaFree as much, and it waits for all work queued on the device
 * Waste        internal: up to 511 bytes (the driver's granule); the driver's pages beyond that
 * Threads      any number at once: the driver has its own lock, which is what is measured
 */
#include "addr_index.h"
#include "allocator.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* cudaMalloc gives multiples of this (observed on every card since Volta; documented: 256). */
#define RAW_GRANULE UINT64_C(512)

struct raw {
	pthread_mutex_t lock;
	struct gp_addr_index index; /* address -> position in sizes */
	uint64_t *sizes;            /* granted; a free position holds the next one */
	uint32_t n, cap, unused;    /* positions used so far, allocated, first free + 1 */
	uint64_t live, granted_bytes;
};

static int raw_room(struct raw *w)
{
	uint32_t cap = w->cap ? 2 * w->cap : 256;
	uint64_t *sizes;

	if (w->n < w->cap)
		return gp_addr_index_reserve(&w->index, 1);
	sizes = realloc(w->sizes, cap * sizeof(*sizes));
	if (!sizes)
		return -ENOMEM;
	w->sizes = sizes;
	w->cap = cap;
	return gp_addr_index_reserve(&w->index, 1);
}

static int raw_remember(struct raw *w, uint64_t addr, uint64_t granted)
{
	uint32_t i = w->unused;
	int r = raw_room(w);

	if (r)
		return r;
	if (i)
		w->unused = (uint32_t)w->sizes[--i];
	else
		i = w->n++;
	w->sizes[i] = granted;
	gp_addr_index_add(&w->index, addr / GP_ALIGN, i);
	w->live++;
	w->granted_bytes += granted;
	return 0;
}

static int raw_forget(struct raw *w, uint64_t addr)
{
	uint32_t i = gp_addr_index_find(&w->index, addr / GP_ALIGN);

	if (i == GP_INDEX_NONE || addr % GP_ALIGN)
		return -EINVAL;
	gp_addr_index_remove(&w->index, addr / GP_ALIGN);
	w->live--;
	w->granted_bytes -= w->sizes[i];
	w->sizes[i] = w->unused;
	w->unused = i + 1;
	return 0;
}

static int raw_alloc(struct gp_allocator *a, const struct gp_request *req, struct gp_block *out)
{
	struct raw *w = gp_state(a);
	uint64_t granted = gp_align_up(req->size, RAW_GRANULE), addr;
	int r;

	if (req->lg_align > gp_floor_log2(RAW_GRANULE) &&
	    (UINT64_C(1) << (req->lg_align & 63)) > a->dev->info.page_bytes)
		return GP_REFUSED;
	/* What starts on a page has the alignment of one. */
	if (req->lg_align > gp_floor_log2(RAW_GRANULE))
		granted = gp_align_up(granted, a->dev->info.page_bytes);
	r = gp_device_reserve(a->dev, granted, &addr);
	if (r)
		return r;
	pthread_mutex_lock(&w->lock);
	r = raw_remember(w, addr, granted);
	pthread_mutex_unlock(&w->lock);
	if (r) {
		gp_device_release(a->dev, addr);
		return r;
	}
	*out = (struct gp_block){ addr, granted };
	return 0;
}

static int raw_free(struct gp_allocator *a, uint64_t addr)
{
	struct raw *w = gp_state(a);
	int r;

	pthread_mutex_lock(&w->lock);
	r = raw_forget(w, addr);
	pthread_mutex_unlock(&w->lock);
	return r ? r : gp_device_release(a->dev, addr);
}

static void raw_usage(const struct gp_allocator *a, struct gp_usage *out)
{
	struct raw *w = gp_state(a);

	pthread_mutex_lock(&w->lock);
	*out = (struct gp_usage){ .live_blocks = w->live,
				  .granted_bytes = w->granted_bytes,
				  .reserved_bytes = w->granted_bytes };
	pthread_mutex_unlock(&w->lock);
}

static int raw_init(struct gp_allocator *a)
{
	struct raw *w = gp_state(a);
	int r = gp_addr_index_init(&w->index);

	if (!r)
		pthread_mutex_init(&w->lock, NULL);
	return r;
}

static void raw_fini(struct gp_allocator *a)
{
	struct raw *w = gp_state(a);

	for (uint32_t i = 0; w->live && i <= w->index.mask; i++) {
		uint64_t key = w->index.table[i] >> GP_INDEX_VALUE_BITS;

		if (key)
			gp_device_release(a->dev, key * GP_ALIGN);
	}
	gp_addr_index_fini(&w->index);
	free(w->sizes);
	pthread_mutex_destroy(&w->lock);
}

static int raw_check(const struct gp_allocator *a, FILE *why)
{
	const struct raw *w = gp_state(a);
	uint64_t live = 0, granted = 0;

	for (uint32_t i = 0; i <= w->index.mask; i++) {
		if (!w->index.table[i])
			continue;
		live++;
		granted += w->sizes[w->index.table[i] & GP_INDEX_VALUE_MAX];
	}
	if (live == w->live && granted == w->granted_bytes)
		return 0;
	fprintf(why, "raw: index holds %llu blocks of %llu bytes, totals say %llu of %llu\n",
		(unsigned long long)live, (unsigned long long)granted, (unsigned long long)w->live,
		(unsigned long long)w->granted_bytes);
	return -EILSEQ;
}

const struct gp_allocator_ops gp_raw_ops = {
	.name = "raw",
	.summary = "every call goes to the device: cudaMalloc and cudaFree",
	.caps = GP_CAP_CONCURRENT | GP_CAP_ANY_SIZE | GP_CAP_COALESCES,
	.state_size = sizeof(struct raw),
	.init = raw_init,
	.fini = raw_fini,
	.alloc = raw_alloc,
	.free = raw_free,
	.usage = raw_usage,
	.check = raw_check,
};
