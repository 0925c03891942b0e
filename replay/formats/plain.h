/* SPDX-License-Identifier: Apache-2.0
 *
 * plain: one value of plain data, as pickle and JSON both know it, in 24 bytes.
 *
 * Containers are never held. Whoever reads a file reduces a dict or a list, as soon as its contents
 * are known, to a tag (what it turned out to be) and a number (where it was put):
 *
 *   {"action": "alloc", "addr": 4096, ...}  -> DICT, tag "event", number 17
 *   [{...}, {...}, {...}]                   -> LIST, tag "event", number 15, n 3
 */
#ifndef GP_PLAIN_H
#define GP_PLAIN_H

#include <stdint.h>

enum gp_plain_kind {
	GP_PLAIN_NONE,
	GP_PLAIN_BOOL,
	GP_PLAIN_UNSIGNED, /* `number`                                          */
	GP_PLAIN_NEGATIVE, /* `number`: two's complement                        */
	GP_PLAIN_HUGE,     /* a whole number outside of -2^63 ... 2^64 - 1      */
	GP_PLAIN_FLOAT,
	GP_PLAIN_WORD,   /* a string that the reader knows: `number` says which */
	GP_PLAIN_TEXT,   /* a string that the reader keeps: `number` says where */
	GP_PLAIN_STRING, /* any other string                                  */
	GP_PLAIN_LIST,   /* or tuple: tag, number, n                          */
	GP_PLAIN_DICT,   /* tag, number                                       */
	GP_PLAIN_SHARED, /* a container that was met before                   */
	GP_PLAIN_OTHER,  /* bytes, sets                                       */
	GP_PLAIN_N
};

struct gp_plain {
	uint8_t kind;  /* enum gp_plain_kind */
	uint8_t tag;   /* 0: nothing special */
	uint32_t memo; /* pickle.c: 1 + the place in its memo; 0: none */
	uint64_t number;
	uint64_t n;
};

#endif
