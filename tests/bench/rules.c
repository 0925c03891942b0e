/* SPDX-License-Identifier: Apache-2.0
 *
 * rules: claims of the textbooks, and what is true of them here.
 *
 *   LIFO, FIFO     what was freed last is in the processor's caches, says everybody
 *   fit            best fit leaves the smallest rest; first fit keeps the end of memory whole
 *                  (D. E. Knuth: "The Art of Computer Programming", vol. 1, 2.5; P. R. Wilson et
 *                  al.: "Dynamic storage allocation", IWMM 1995)
 *   joining        put off, blocks serve the next request of their size uncut
 *   colouring      objects at different offsets in their slabs do not fight for lines of a cache
 *                  (J. Bonwick: "The slab allocator", USENIX Summer 1994). Here: what it costs;
 *                  what a GPU makes of it is bench_colour_cuda.
 *   caches         of each thread its own (Bonwick, J. Adams: "Magazines and Vmem", USENIX 2001)
 */
#include "bench.h"

void bench_rules(const struct bench_plan *plan)
{
	static const char *const order[] = { "lists:order=lifo", "lists:order=fifo" };
	static const char *const fit[] = { "arena:fit=first",     "arena:fit=best",
					   "arena:fit=worst",     "segregated:fit=good",
					   "segregated:fit=best", "segregated:fit=class" };
	static const char *const joining[] = { "segregated", "segregated:quick=0",
					       "segregated:coalesce=false", "buddy",
					       "buddy:quick=0" };
	static const char *const colour[] = { "slab:colour=false", "slab:colour=true" };

	bench_by_spare("Rule: last or first freed is taken, of so many free blocks", order,
		       GP_ARRAY_LEN(order));
	bench_compare(plan, "Rule: last or first freed is taken", order, GP_ARRAY_LEN(order));
	bench_compare(plan, "Rule: first, best and worst fit", fit, GP_ARRAY_LEN(fit));
	bench_compare(plan, "Rule: joining at once, late, never", joining, GP_ARRAY_LEN(joining));
	bench_compare(plan, "Rule: slab colouring, host side", colour, GP_ARRAY_LEN(colour));
	bench_caches(plan, "Rule: caches of a thread's own, million calls per second", "hybrid");
	bench_caches(plan, "Rule: caches of a thread's own, million calls per second", "slab");
}
