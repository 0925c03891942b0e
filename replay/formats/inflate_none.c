/* SPDX-License-Identifier: Apache-2.0
 *
 * inflate_none: what inflate.h offers where there is no zlib. Creating one is refused, so that the
 * other two functions have nothing to do.
 */
#include "inflate.h"

#include <errno.h>

int gp_inflate_create(struct gp_inflate **out)
{
	*out = NULL;
	return -ENOTSUP;
}

struct gp_inflate *gp_inflate_destroy(struct gp_inflate *z)
{
	(void)z;
	return NULL;
}

int gp_inflate_run(struct gp_inflate *z, const unsigned char *src, size_t *n_src,
		   unsigned char *dst, size_t *n_dst)
{
	(void)z;
	(void)src;
	(void)dst;
	*n_src = 0;
	*n_dst = 0;
	return -ENOTSUP;
}
