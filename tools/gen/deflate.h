/* SPDX-License-Identifier: Apache-2.0
 *
 * deflate: gzip on the way out. deflate_zlib.c, or deflate_none.c in a build without zlib.
 */
#ifndef GEN_DEFLATE_H
#define GEN_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>

struct gen_deflate;

/* Takes the packed bytes. */
typedef void gen_put_fn(void *arg, const void *data, size_t size);

/* 0, -ENOTSUP (no zlib), -ENOMEM. */
int gen_deflate_create(struct gen_deflate **out);
/* Packs all of `text` and hands on what has become ready; everything when `last`. */
void gen_deflate_feed(struct gen_deflate *d, const void *text, size_t size, bool last,
		      gen_put_fn *put, void *arg);
/* NULL is fine. Returns NULL. */
struct gen_deflate *gen_deflate_destroy(struct gen_deflate *d);

#endif
