/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_index: from an address to its tile (tiling.h): the only thing a free knows is the address.
 *
 * Shape       open addressing with linear probing, a power of two of 4-byte entries:
 *
 *               | 8 bits of the key's hash | tile number, 24 bits |     0: empty
 *
 *             The key is the tile's own: an entry whose 8 bits agree is right but for one stranger
 *             in 256, and the tile has to be read anyway. Home is the top bits of
 *             key * 2^64/phi (Knuth, TAOCP vol. 3, 6.4). Removal shifts later entries back (Knuth
 *             6.4, algorithm R), so there are no tombstones and a lookup never slows down with age.
 * Cost        up to 2 000 keys 1.03 probes and 64 to 128 bytes a key; to 16 000 1.1, and 16 to 128; above
 *             about 1.5, and 8 to 16; from 500 000 on 2, and 5 to 11
 * Limits      2^24 - 1 tiles
 * Threads     the caller serialises
 */
#ifndef GP_TILE_INDEX_H
#define GP_TILE_INDEX_H

#include "streams.h"

#define GP_TILE_NIL         0
#define GP_TILE_NUMBER_BITS 24
#define GP_TILE_NUMBER_MAX  ((UINT32_C(1) << GP_TILE_NUMBER_BITS) - 1)

/* Each field is read and written alone, in its own width: a read that spans what several recent writes
 * left has to wait until they have reached the cache, 15 cycles and more, and blocks are often freed
 * and taken within a few. So no copies of whole tiles where it matters. */
struct gp_tile {
	uint32_t unit_low;            /* of address / GP_ALIGN */
	uint16_t stream;              /* the owner's: of what is in use */
	uint8_t unit_high;            /* bits 32 to 39 */
	uint8_t state;                /* enum gp_tile_state */
	uint32_t units;               /* size / GP_ALIGN */
	uint32_t hole;                /* units free after it */
	uint32_t prev, next;          /* by address */
	uint32_t chain;               /* the owner's */
	struct gp_stream_users users; /* of the hole */
};

_Static_assert(sizeof(struct gp_tile) == 32, "two tiles a cache line");

static inline uint64_t gp_tile_unit(const struct gp_tile *tile)
{
	return (uint64_t)tile->unit_high << 32 | tile->unit_low;
}

static inline void gp_tile_set_unit(struct gp_tile *tile, uint64_t unit)
{
	tile->unit_low = (uint32_t)unit;
	tile->unit_high = (uint8_t)(unit >> 32);
}

struct gp_tile_index {
	uint32_t *table;
	uint32_t mask;  /* entries - 1 */
	uint32_t shift; /* 64 - log2 entries */
	uint32_t room;  /* most keys; the caller counts them */
};

int gp_tile_index_init(struct gp_tile_index *ix);
void gp_tile_index_fini(struct gp_tile_index *ix);
/* Room for so many keys. -ENOMEM, or -ENOSPC beyond 2^24 tiles. */
int gp_tile_index_grow(struct gp_tile_index *ix, const struct gp_tile *tiles, uint32_t keys);

static inline uint64_t gp_tile_index_hash(uint64_t unit)
{
	return unit * UINT64_C(0x9e3779b97f4a7c15);
}

/* What an entry has beside the number: bits that no home uses. */
static inline uint32_t gp_tile_index_tag(uint64_t hash)
{
	return (uint32_t)hash & ~GP_TILE_NUMBER_MAX;
}

static inline uint32_t gp_tile_index_number(uint32_t entry)
{
	return entry & GP_TILE_NUMBER_MAX;
}

/* The tile that starts at `unit`, and where it is in the table until the next change; GP_TILE_NIL:
 * none. The NIL tile itself is never found, as no entry has its number. */
static inline uint32_t gp_tile_index_probe(const struct gp_tile_index *ix,
					   const struct gp_tile *tiles, uint64_t unit,
					   uint32_t *slot)
{
	uint64_t hash = gp_tile_index_hash(unit);
	uint32_t tag = gp_tile_index_tag(hash), i = (uint32_t)(hash >> ix->shift), e;

	for (;; i = (i + 1) & ix->mask) {
		e = ix->table[i] ^ tag;
		*slot = i;
		if (GP_LIKELY(e <= GP_TILE_NUMBER_MAX && gp_tile_unit(&tiles[e]) == unit))
			return e;
		if (e == tag)
			return GP_TILE_NIL;
	}
}

static inline uint32_t gp_tile_index_find(const struct gp_tile_index *ix,
					  const struct gp_tile *tiles, uint64_t unit)
{
	uint32_t slot;

	return gp_tile_index_probe(ix, tiles, unit, &slot);
}

/* Tile n starts at `unit`. It must not be there; there must be room. */
static inline void gp_tile_index_add(struct gp_tile_index *ix, uint64_t unit, uint32_t n)
{
	uint64_t hash = gp_tile_index_hash(unit);
	uint32_t i = (uint32_t)(hash >> ix->shift);

	while (ix->table[i])
		i = (i + 1) & ix->mask;
	ix->table[i] = gp_tile_index_tag(hash) | n;
}

/* Removes what probe found. */
static inline void gp_tile_index_remove(struct gp_tile_index *ix, const struct gp_tile *tiles,
					uint32_t hole)
{
	uint32_t i, e;

	for (i = (hole + 1) & ix->mask; (e = ix->table[i]); i = (i + 1) & ix->mask) {
		uint64_t unit = gp_tile_unit(&tiles[gp_tile_index_number(e)]);
		uint32_t home = (uint32_t)(gp_tile_index_hash(unit) >> ix->shift);

		/* An entry may move back to the hole unless its home lies after it. */
		if (((i - home) & ix->mask) >= ((i - hole) & ix->mask)) {
			ix->table[hole] = e;
			hole = i;
		}
	}
	ix->table[hole] = 0;
}

#endif
