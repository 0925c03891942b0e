/* SPDX-License-Identifier: Apache-2.0
 *
 * deflate_none: a build without zlib, where no gzip stream ever comes to exist.
 */
#include <errno.h>

#include "deflate.h"

int gen_deflate_create(struct gen_deflate **out)
{
	*out = NULL;
	return -ENOTSUP;
}

void gen_deflate_feed(struct gen_deflate *d, const void *text, size_t size, bool last,
		      gen_put_fn *put, void *arg)
{
	(void)d;
	(void)text;
	(void)size;
	(void)last;
	(void)put;
	(void)arg;
}

struct gen_deflate *gen_deflate_destroy(struct gen_deflate *d)
{
	return d;
}
