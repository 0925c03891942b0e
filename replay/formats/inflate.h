/* SPDX-License-Identifier: Apache-2.0
 *
 * inflate: gzip decompression as a stream. inflate_zlib.c does it with zlib; inflate_none.c stands
 * in where zlib is missing and says so.
 */
#ifndef GP_INFLATE_H
#define GP_INFLATE_H

#include "allocators/base.h"

struct gp_inflate;

/* A gzip file may hold several members one after the other; this one ended. */
#define GP_INFLATE_MEMBER_END 1

/* 0, -ENOMEM, or -ENOTSUP: built without zlib. */
int gp_inflate_create(struct gp_inflate **out);
/* NULL is fine. Returns NULL. */
struct gp_inflate *gp_inflate_destroy(struct gp_inflate *z);
/* Takes from src and fills dst as far as either goes and sets both counts to what was used. 0,
 * GP_INFLATE_MEMBER_END (the next call begins the next member), -EINVAL: damaged data, -ENOMEM. */
int gp_inflate_run(struct gp_inflate *z, const unsigned char *src, size_t *n_src,
		   unsigned char *dst, size_t *n_dst);

#endif
