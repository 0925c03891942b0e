/* SPDX-License-Identifier: Apache-2.0
 *
 * device_sim: a GPU's memory without the GPU. The simulated driver keeps books as the real one
 * does and adds what each call would have cost to model_ns.
 *
 * Shape        capacity   counted in pages of 2 MiB; what no longer fits is GP_NOMEM
 *              addresses  sim_space.h: top-down in units of 32 MiB, holes first
 *              blocks     reservations; those of at most 1 MiB share pages (sim_pages.h)
 *              vas, maps  virtual memory: sim_vmm.c
 *              async      pools of stream-ordered allocations: sim_async.h
 *              fills      what is written where: sim_contents.c
 *              queue      work that gp_device_touch and gp_device_busy queued (sim_queue.h)
 * Invariants   1. held = pages of blocks + sizes of handles + chunks of pools <= capacity - lost
 *              2. a page that is neither of a block nor of a handle has no fills
 *              3. reserved_bytes is held
 * Cost         of the simulation itself, one desktop-class core: 35 to 70 ns a call for a million
 *              blocks of 256 bytes, 100 to 600 ns for mixed sizes at 50 000 reservations.
 *              device_profile.h says what is charged. A call that fails is charged nothing, since
 *              that was not measured.
 * Not done     cudaFree behind 18.6 ms of work took 22.3 ms on an H200, in another run 18.75: here it
 *              takes what is queued and then its usual time.
 * Threads      one lock. The observer is called outside it, but by the pools: what goes is reported
 *              before anybody else can get it, what comes before its taker has it.
 */
#include "device_sim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES GP_SIM_PAGE_BYTES
#define SHARED_MAX (PAGE_BYTES / 2)

uint64_t gp_sim_price(struct gp_sim *sim, enum gp_cost cost, uint64_t size)
{
	uint64_t n = atomic_fetch_add_explicit(&sim->n_charged[cost], 1, memory_order_relaxed);

	return gp_profile_nth_ns(sim->profile, cost, size, n);
}

void gp_sim_charge(struct gp_sim *sim, enum gp_cost cost, uint64_t size)
{
	gp_device_charge(&sim->base, gp_sim_price(sim, cost, size));
}

uint64_t gp_sim_room(const struct gp_sim *sim)
{
	return sim->capacity - sim->held - sim->lost;
}

void gp_sim_lose(struct gp_sim *sim)
{
	sim->lost += gp_min_u64(sim->cfg.inject.lose_bytes, gp_sim_room(sim));
}

/* Memory and addresses for whole pages. */
static int sim_take_pages(struct gp_sim *sim, uint64_t bytes, uint64_t *addr)
{
	int r = bytes > gp_sim_room(sim) ? GP_NOMEM : gp_sim_space_take(&sim->space, bytes, addr);

	if (!r)
		sim->held += bytes;
	return r;
}

static void sim_give_pages(struct gp_sim *sim, uint64_t addr, uint64_t bytes)
{
	sim->held -= bytes;
	gp_sim_space_give(&sim->space, addr, bytes);
}

/* -- reservations ----------------------------------------------------------------------------- */

static int sim_reserve_pages(struct gp_sim *sim, uint64_t size, struct gp_range *added)
{
	uint64_t bytes = gp_align_up(size, PAGE_BYTES);
	int r = sim_take_pages(sim, bytes, &added->addr);

	if (r)
		return r;
	r = gp_range_set_insert(&sim->blocks, added->addr, bytes, 0);
	if (r) {
		sim_give_pages(sim, added->addr, bytes);
		return r;
	}
	added->size = bytes;
	gp_sim_charge(sim, GP_COST_MALLOC_PAGES, size);
	return 0;
}

/* A page for small reservations; it costs what a reservation of one page costs. */
static int sim_open_page(struct gp_sim *sim, struct gp_range *added)
{
	struct gp_sim_page *page;
	int r = sim_take_pages(sim, PAGE_BYTES, &added->addr);

	if (r)
		return r;
	page = gp_sim_page_add(&sim->pages, added->addr);
	if (!page || gp_range_set_insert(&sim->blocks, added->addr, PAGE_BYTES, (uintptr_t)page)) {
		if (page)
			gp_sim_page_drop(&sim->pages, page);
		sim_give_pages(sim, added->addr, PAGE_BYTES);
		return -ENOMEM;
	}
	added->size = PAGE_BYTES;
	gp_sim_charge(sim, GP_COST_MALLOC_PAGES, PAGE_BYTES);
	return 0;
}

static int sim_reserve_shared(struct gp_sim *sim, uint64_t size, uint64_t *addr,
			      struct gp_range *added)
{
	int r;

	if (gp_sim_pages_take(&sim->pages, size, addr)) {
		gp_sim_charge(sim, GP_COST_MALLOC_SHARED, size);
		return 0;
	}
	r = sim_open_page(sim, added);
	if (!r)
		(void)gp_sim_pages_take(&sim->pages, size, addr);
	return r;
}

static int sim_reserve(struct gp_device *dev, uint64_t size, uint64_t *addr)
{
	struct gp_sim *sim = gp_sim_of(dev);
	struct gp_range added = { 0, 0 };
	int r;

	pthread_mutex_lock(&sim->lock);
	r = size > GP_SIZE_MAX ? GP_NOMEM : 0;
	if (!r && size <= SHARED_MAX) {
		r = sim_reserve_shared(sim, size, addr, &added);
	} else if (!r) {
		r = sim_reserve_pages(sim, size, &added);
		if (!r)
			*addr = added.addr;
	}
	pthread_mutex_unlock(&sim->lock);
	if (added.size)
		gp_device_range_added(dev, added, false);
	return r;
}

/* Waits for queued work, then takes the reservation out of the books; gone.size: pages that nobody
 * uses now. */
static int sim_unbook(struct gp_sim *sim, uint64_t addr, struct gp_range *gone)
{
	const struct gp_range_entry *found = gp_range_set_containing(&sim->blocks, addr);
	struct gp_sim_page *page;
	uint64_t bytes = 0;
	bool empty = true;

	if (!found)
		return -EINVAL;
	page = (struct gp_sim_page *)(uintptr_t)found->tag;
	if (page ? gp_sim_page_give(&sim->pages, page, addr, &bytes, &empty) != 0
		 : found->addr != addr)
		return -EINVAL;
	gp_sim_queue_drain(sim);
	if (!empty) {
		gp_sim_charge(sim, GP_COST_FREE_SHARED, bytes);
		return 0;
	}
	*gone = (struct gp_range){ found->addr, found->size };
	gp_range_set_remove(&sim->blocks, found->addr, NULL);
	if (page)
		gp_sim_page_drop(&sim->pages, page);
	gp_sim_charge(sim, GP_COST_FREE_PAGES, gone->size);
	return 0;
}

static int sim_release(struct gp_device *dev, uint64_t addr)
{
	struct gp_sim *sim = gp_sim_of(dev);
	struct gp_range gone = { 0, 0 };
	int r;

	pthread_mutex_lock(&sim->lock);
	r = sim_unbook(sim, addr, &gone);
	if (!r && !gone.size)
		gp_sim_lose(sim);
	pthread_mutex_unlock(&sim->lock);
	if (r)
		return gp_device_fault(dev, r,
				       "release: 0x%" PRIx64 " is not reserved, or was "
				       "released before",
				       addr);
	if (!gone.size)
		return 0;
	gp_device_range_gone(dev, gone, false);
	pthread_mutex_lock(&sim->lock);
	r = gp_sim_fill_clear(sim, gone.addr, gone.size);
	sim_give_pages(sim, gone.addr, gone.size);
	gp_sim_lose(sim);
	pthread_mutex_unlock(&sim->lock);
	return r;
}

/* -- the rest --------------------------------------------------------------------------------- */

static int sim_stream_wait(struct gp_device *dev, uint32_t from, uint32_t to)
{
	struct gp_sim *sim = gp_sim_of(dev);
	int r;

	pthread_mutex_lock(&sim->lock);
	gp_sim_charge(sim, GP_COST_EVENT_RECORD, 1);
	gp_sim_charge(sim, GP_COST_EVENT_WAIT, 1);
	r = gp_sim_queue_order(sim, from, to);
	if (!r)
		r = gp_sim_async_order(sim, from, to);
	pthread_mutex_unlock(&sim->lock);
	return r;
}

static int sim_sync(struct gp_device *dev)
{
	struct gp_sim *sim = gp_sim_of(dev);
	int r;

	pthread_mutex_lock(&sim->lock);
	gp_sim_queue_drain(sim);
	gp_sim_charge(sim, GP_COST_SYNC, 1);
	r = gp_sim_async_synced(sim);
	pthread_mutex_unlock(&sim->lock);
	return r;
}

static int sim_mem_info(struct gp_device *dev, uint64_t *free_bytes, uint64_t *total_bytes)
{
	struct gp_sim *sim = gp_sim_of(dev);

	pthread_mutex_lock(&sim->lock);
	*free_bytes = gp_sim_room(sim);
	pthread_mutex_unlock(&sim->lock);
	*total_bytes = dev->info.total_bytes;
	return 0;
}

static int sim_drop_page(void *arg, const struct gp_range_entry *e)
{
	if (e->tag)
		gp_sim_page_drop(arg, (struct gp_sim_page *)(uintptr_t)e->tag);
	return 0;
}

static void sim_close(struct gp_device *dev)
{
	struct gp_sim *sim = gp_sim_of(dev);

	gp_range_set_each(&sim->blocks, sim_drop_page, &sim->pages);
	gp_range_set_fini(&sim->blocks);
	gp_sim_async_fini(sim);
	gp_range_set_fini(&sim->vas);
	gp_range_set_fini(&sim->maps);
	gp_range_set_fini(&sim->fills);
	gp_sim_queue_fini(&sim->queue);
	gp_sim_space_fini(&sim->space);
	free(sim->memories);
	pthread_mutex_destroy(&sim->lock);
	free(sim);
}

static const struct gp_device_ops sim_ops = {
	.name = "sim",
	.close = sim_close,
	.reserve = sim_reserve,
	.release = sim_release,
	.stream_wait = sim_stream_wait,
	.probe = gp_sim_probe,
	.sync = sim_sync,
	.mem_info = sim_mem_info,
	.memset = gp_sim_memset,
	.read = gp_sim_read,
	.fill = gp_sim_fill,
	.verify_begin = gp_sim_verify_begin,
	.verify_end = gp_sim_verify_end,
	.busy = gp_sim_busy,
	.touch = gp_sim_touch,
	.mark = gp_sim_mark,
	.lull = gp_sim_lull,
	.lull_ns = gp_sim_lull_ns,
	.elapse = gp_sim_elapse,
	.async_open = gp_sim_async_open,
	.async_close = gp_sim_async_close,
	.async_alloc = gp_sim_async_alloc,
	.async_free = gp_sim_async_free,
	.async_retire = gp_sim_async_retire,
	.async_settle = gp_sim_async_settle,
	.async_trim = gp_sim_async_trim,
	.async_counts = gp_sim_async_counts,
	.va_reserve = gp_sim_va_reserve,
	.va_release = gp_sim_va_release,
	.create = gp_sim_create,
	.destroy = gp_sim_destroy,
	.map = gp_sim_map,
	.unmap = gp_sim_unmap,
};

static bool sim_priced(const struct gp_profile *p, enum gp_cost from, enum gp_cost to)
{
	for (unsigned i = from; i <= to; i++) {
		if (!p->curves[i].n)
			return false;
	}
	return true;
}

static void sim_describe(struct gp_sim *sim)
{
	struct gp_device_info *info = &sim->base.info;
	const struct gp_profile *p = sim->profile;

	snprintf(info->name, sizeof(info->name), "simulated %s", p->card);
	snprintf(info->driver, sizeof(info->driver), "%s", p->name);
	info->total_bytes = sim->cfg.capacity ? sim->cfg.capacity : p->total_bytes;
	info->page_bytes = PAGE_BYTES;
	info->async = sim_priced(p, GP_COST_ASYNC_WARM, GP_COST_ASYNC_FREE);
	info->async_ranges = info->async;
	info->vmm = sim_priced(p, GP_COST_CREATE, GP_COST_DESTROY);
	info->simulated = true;
}

int gp_device_open_sim(const struct gp_device_config *cfg, struct gp_device **out, char *why,
		       size_t why_size)
{
	struct gp_sim *sim = calloc(1, sizeof(*sim));
	int r;

	if (!sim) {
		snprintf(why, why_size, "out of host memory");
		return -ENOMEM;
	}
	gp_device_init(&sim->base, &sim_ops);
	sim->cfg = *cfg;
	sim->profile = cfg->profile ? cfg->profile : gp_profile_builtin();
	if (cfg->capacity > GP_SIZE_MAX) {
		snprintf(why, why_size, "capacity of %" PRIu64 " bytes is more than any device has",
			 cfg->capacity);
		free(sim);
		return -EINVAL;
	}
	gp_sim_space_init(&sim->space);
	r = gp_sim_space_places(&sim->space, cfg->places, cfg->n_places);
	if (r) {
		free(sim);
		return r;
	}
	sim->cfg.places = NULL; /* the caller's, and read */
	sim->capacity = cfg->capacity ? cfg->capacity : sim->profile->free_bytes;
	pthread_mutex_init(&sim->lock, NULL);
	gp_sim_pages_init(&sim->pages);
	sim_describe(sim);
	gp_device_inject(&sim->base, &cfg->inject);
	*out = &sim->base;
	return 0;
}
