/* SPDX-License-Identifier: Apache-2.0
 *
 * lazy: anonymous pages without a claim on swap: a calloc as large may be refused outright where
 * the kernel counts what could be touched.
 */
#include "lazy.h"

#include <sys/mman.h>

void *gp_lazy_alloc(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void gp_lazy_free(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}
