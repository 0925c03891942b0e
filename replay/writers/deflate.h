/* SPDX-License-Identifier: Apache-2.0
 *
 * deflate: gzip on the way out. deflate_zlib.c, or deflate_none.c in a build without zlib.
 */
#ifndef GP_DEFLATE_H
#define GP_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>

struct gp_deflate;

/* Takes the packed bytes. */
typedef void gp_deflate_put(void *arg, const void *data, size_t size);

/* 0, -ENOTSUP (no zlib), -ENOMEM. */
int gp_deflate_create(struct gp_deflate **out);
/* Packs all of `text` and hands on what has become ready; everything when `last`. */
void gp_deflate_feed(struct gp_deflate *d, const void *text, size_t size, bool last,
		     gp_deflate_put *put, void *arg);
/* NULL is fine. Returns NULL. */
struct gp_deflate *gp_deflate_destroy(struct gp_deflate *d);

#endif
