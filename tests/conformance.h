/* SPDX-License-Identifier: Apache-2.0
 *
 * conformance: what the two halves of the conformance suite share. `*state` of each test is the
 * spec of the allocator. Include after cmocka.h.
 */
#ifndef TESTS_CONFORMANCE_H
#define TESTS_CONFORMANCE_H

#include "support.h"

#define N_BLOCKS 300

/* For pool_open: below the `check` decorator. */
extern const char *const conformance_checked[];

/* A heap with holes: n requests of mixed sizes and streams, about every third freed again. */
void conformance_holes(struct pool *p, uint64_t *seed, unsigned n, uint64_t largest);
/* Asks for blocks of one size until there are no more; how many came. */
size_t conformance_fill(struct pool *p, uint64_t size, uint32_t stream);

/* conformance_device.c */
void same_stream_reuses_without_a_wait(void **state);
void another_stream_waits_before_it_takes(void **state);
void one_call_without_memory(void **state);
void one_call_with_a_fault(void **state);
void card_with_next_to_no_memory(void **state);
void walk_tiles_what_is_reserved(void **state);
void threads_at_once(void **state);

#endif
