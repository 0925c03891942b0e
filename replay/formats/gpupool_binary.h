/* SPDX-License-Identifier: Apache-2.0
 *
 * gpupool_binary: the layout of a trace that is mapped, not parsed (traces/FORMAT.md, "Binary").
 *
 *   header | events, 32 bytes each | addrs | streams | threads | pools | texts | tail
 *
 * All numbers are in the byte order of the machine that wrote them, which `endian` tells. Each part
 * of numbers begins at a multiple of 8, the events at a multiple of 64 (a cache line).
 */
#ifndef GP_GPUPOOL_BINARY_H
#define GP_GPUPOOL_BINARY_H

#include <stdint.h>

/* As PNG's signature does, it shows at once what a transfer in text mode or seven bits does. */
#define GP_BINARY_MAGIC   "\x89GPT\r\n\x1a\n"
#define GP_BINARY_END     "GPT-end\n"
#define GP_BINARY_MARK    8u /* bytes of either */
#define GP_BINARY_ENDIAN  UINT32_C(0x01020304)
#define GP_BINARY_VERSION 1u

struct gp_binary_header {
	char magic[GP_BINARY_MARK];
	uint32_t endian;
	uint32_t version;
	uint32_t header_bytes; /* sizeof(struct gp_binary_header) */
	uint32_t event_bytes;  /* sizeof(struct gp_event)         */
	uint64_t file_bytes;   /* with the tail                   */
	uint64_t n_events;
	uint64_t device_bytes;
	uint32_t n_streams, n_threads, n_marks, n_notes;
	uint64_t events_at, addrs_at, streams_at, threads_at; /* addrs_at 0: none recorded */
	/* name, source, device name, marks, notes, in this order, each with its final NUL */
	uint64_t texts_at, texts_bytes;
	uint64_t pools_at; /* 0: none told apart */
	uint64_t checksum; /* of all before it: FNV-1a, 64 bits */
};

_Static_assert(sizeof(struct gp_binary_header) == 128, "no padding, two cache lines");

struct gp_binary_tail {
	uint64_t n_events;
	char magic[GP_BINARY_MARK];
};

/* FNV-1a (Fowler, Noll, Vo), as published. */
static inline uint64_t gp_binary_checksum(const struct gp_binary_header *h)
{
	const unsigned char *p = (const unsigned char *)h;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (unsigned i = 0; i < sizeof(*h) - sizeof(h->checksum); i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
	return hash;
}

#endif
