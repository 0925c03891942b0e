/* SPDX-License-Identifier: Apache-2.0
 *
 * deflate_zlib: gzip by zlib. The header carries no time and no name: the same trace gives the same
 * file.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#include "deflate.h"

#define PACKED_BYTES (1u << 16)
#define WINDOW_GZIP  (15 + 16) /* the largest window; + 16 is zlib's way to ask for gzip */
#define MEMORY_LEVEL 8         /* zlib's default */

struct gp_deflate {
	z_stream z;
	unsigned char packed[PACKED_BYTES];
};

int gp_deflate_create(struct gp_deflate **out)
{
	struct gp_deflate *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	if (deflateInit2(&d->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		free(d);
		return -ENOMEM;
	}
	*out = d;
	return 0;
}

void gp_deflate_feed(struct gp_deflate *d, const void *text, size_t size, bool last,
		     gp_deflate_put *put, void *arg)
{
	/* zlib reads through this pointer only; the member is not const for old callers' sake. */
	d->z.next_in = (Bytef *)(uintptr_t)text;
	d->z.avail_in = (uInt)size;
	do {
		d->z.next_out = d->packed;
		d->z.avail_out = PACKED_BYTES;
		deflate(&d->z, last ? Z_FINISH : Z_NO_FLUSH);
		put(arg, d->packed, PACKED_BYTES - d->z.avail_out);
	} while (d->z.avail_out == 0);
}

struct gp_deflate *gp_deflate_destroy(struct gp_deflate *d)
{
	if (d)
		deflateEnd(&d->z);
	free(d);
	return NULL;
}
