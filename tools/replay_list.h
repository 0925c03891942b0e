/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_list: what --list prints.
 */
#ifndef GP_REPLAY_LIST_H
#define GP_REPLAY_LIST_H

#include <stdio.h>

/* Allocators and then decorators, each with its options, their defaults and meanings. */
void replay_list_print(FILE *out);

#endif
