/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_pages: reservations of at most half a page share pages of 2 MiB, as cudaMalloc's do.
 *
 * Shape     two bitmaps a page, one bit for each 512 bytes (cudaMalloc's own alignment): in use,
 *           and last of a block. Pages with room hang in bins by their largest free run.
 * Policy    lowest place in the page that had the most recent change, among those that surely
 *           have the room; an empty page goes back at once, as the driver's does
 * Cost      a scan of a 512-byte bitmap, mostly well below 100 ns
 * Threads   the caller serialises
 */
#ifndef GP_SIM_PAGES_H
#define GP_SIM_PAGES_H

#include "../base.h"

#define GP_SIM_PAGE_BYTES    (2 * GP_MIB)
#define GP_SIM_GRANULE       UINT64_C(512)
#define GP_SIM_PAGE_GRANULES 4096
/* Bin b: pages whose largest free run is said to have 2^b .. 2^(b+1)-1 granules. */
#define GP_SIM_PAGE_BINS 13

struct gp_sim_page;

struct gp_sim_pages {
	struct gp_sim_page *bins[GP_SIM_PAGE_BINS];
};

void gp_sim_pages_init(struct gp_sim_pages *ps);
/* A page that starts at addr, all free; NULL: host memory is exhausted. */
struct gp_sim_page *gp_sim_page_add(struct gp_sim_pages *ps, uint64_t addr);
void gp_sim_page_drop(struct gp_sim_pages *ps, struct gp_sim_page *page);
/* size <= GP_SIM_PAGE_BYTES. false: no page has room. */
bool gp_sim_pages_take(struct gp_sim_pages *ps, uint64_t size, uint64_t *addr);
/* -EINVAL: no block starts at addr. *bytes: of the block; *empty: nothing is left in the page. */
int gp_sim_page_give(struct gp_sim_pages *ps, struct gp_sim_page *page, uint64_t addr,
		     uint64_t *bytes, bool *empty);

#endif
