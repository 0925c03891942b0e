/* SPDX-License-Identifier: Apache-2.0
 *
 * option_value: what a user wrote for an option of an allocator, turned into its value and checked
 * against the option's type and bounds.
 *
 * Threads     any
 */
#ifndef GP_OPTION_VALUE_H
#define GP_OPTION_VALUE_H

#include "allocator.h"

/* Puts one line into `why`, if there is room for one. Returns -EINVAL. */
int gp_option_refuse(char *why, size_t why_size, const char *fmt, ...) GP_PRINTF(3, 4);
/* *value is of the option's type. 0, or -EINVAL with a line in `why` that begins with the owner's
 * name. */
int gp_option_set(const struct gp_option *o, const char *text, void *value, const char *owner,
		  char *why, size_t why_size);

#endif
