/* SPDX-License-Identifier: Apache-2.0
 *
 * deflate_none: a build without zlib, where no gzip stream ever comes to exist.
 */
#include <errno.h>

#include "deflate.h"

int gp_deflate_create(struct gp_deflate **out)
{
	*out = NULL;
	return -ENOTSUP;
}

void gp_deflate_feed(struct gp_deflate *d, const void *text, size_t size, bool last,
		     gp_deflate_put *put, void *arg)
{
	(void)d;
	(void)text;
	(void)size;
	(void)last;
	(void)put;
	(void)arg;
}

struct gp_deflate *gp_deflate_destroy(struct gp_deflate *d)
{
	return d;
}
