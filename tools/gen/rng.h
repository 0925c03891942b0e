/* SPDX-License-Identifier: Apache-2.0
 *
 * rng: xoshiro256** 1.0, seeded through splitmix64 (both by D. Blackman and S. Vigna, 2018,
 * prng.di.unimi.it, placed in the public domain). Only integer operations and IEEE doubles with
 * one rounding each are used, so that a seed gives the same trace on every machine; the C
 * library's rand() promises nothing of the kind.
 *
 * Period      2^256 - 1
 * Not done    jumps: a trace is written by one thread from one stream of numbers
 */
#ifndef GEN_RNG_H
#define GEN_RNG_H

#include <stdint.h>

struct gen_rng {
	uint64_t s[4];
};

static inline uint64_t gen_rng_splitmix(uint64_t *x)
{
	uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Any seed will do, 0 included: splitmix64 never gives four zeros in a row. */
static inline void gen_rng_seed(struct gen_rng *rng, uint64_t seed)
{
	for (unsigned i = 0; i < 4; i++)
		rng->s[i] = gen_rng_splitmix(&seed);
}

static inline uint64_t gen_rng_rotl(uint64_t x, unsigned k)
{
	return (x << k) | (x >> (64 - k));
}

static inline uint64_t gen_rng_next(struct gen_rng *rng)
{
	uint64_t *s = rng->s;
	uint64_t result = gen_rng_rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = gen_rng_rotl(s[3], 45);
	return result;
}

/* Uniform in 0 .. n - 1, n > 0. The first 2^64 mod n values are thrown away: without that, small
 * results would come up more often. */
static inline uint64_t gen_rng_below(struct gen_rng *rng, uint64_t n)
{
	uint64_t first_fair = (0 - n) % n;
	uint64_t x;

	do
		x = gen_rng_next(rng);
	while (x < first_fair);
	return x % n;
}

/* Uniform in [0, 1): 53 random bits, as many as a double holds. */
static inline double gen_rng_unit(struct gen_rng *rng)
{
	return (double)(gen_rng_next(rng) >> 11) * 0x1.0p-53;
}

#endif
