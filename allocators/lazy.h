/* SPDX-License-Identifier: Apache-2.0
 *
 * lazy: zeroed host memory that costs nothing until it is touched, for tables as large as a card
 * of which a run uses a few pages.
 */
#ifndef GP_LAZY_H
#define GP_LAZY_H

#include <stddef.h>

/* NULL when there are no addresses left. */
void *gp_lazy_alloc(size_t bytes);
/* The same bytes as at alloc. NULL is fine. */
void gp_lazy_free(void *p, size_t bytes);

#endif
