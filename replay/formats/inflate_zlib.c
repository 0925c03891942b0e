/* SPDX-License-Identifier: Apache-2.0
 *
 * inflate_zlib: see inflate.h.
 */
#include "inflate.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define INFLATE_GZIP_ONLY (16 + MAX_WBITS) /* zlib's way to say "gzip header, largest window" */

struct gp_inflate {
	z_stream z;
};

int gp_inflate_create(struct gp_inflate **out)
{
	struct gp_inflate *z = calloc(1, sizeof(*z));

	if (!z || inflateInit2(&z->z, INFLATE_GZIP_ONLY) != Z_OK) {
		free(z);
		return -ENOMEM;
	}
	*out = z;
	return 0;
}

struct gp_inflate *gp_inflate_destroy(struct gp_inflate *z)
{
	if (z)
		inflateEnd(&z->z);
	free(z);
	return NULL;
}

int gp_inflate_run(struct gp_inflate *z, const unsigned char *src, size_t *n_src,
		   unsigned char *dst, size_t *n_dst)
{
	int r;

	/* Without ZLIB_CONST the member lacks the const that inflate() keeps to all the same. */
	z->z.next_in = (Bytef *)(uintptr_t)src;
	z->z.avail_in = (uInt)*n_src;
	z->z.next_out = dst;
	z->z.avail_out = (uInt)*n_dst;
	r = inflate(&z->z, Z_NO_FLUSH);
	*n_src -= z->z.avail_in;
	*n_dst -= z->z.avail_out;
	if (r == Z_STREAM_END)
		return inflateReset(&z->z) == Z_OK ? GP_INFLATE_MEMBER_END : -EINVAL;
	if (r == Z_OK || r == Z_BUF_ERROR) /* the latter: no progress for want of input */
		return 0;
	return r == Z_MEM_ERROR ? -ENOMEM : -EINVAL;
}
