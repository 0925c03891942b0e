/* SPDX-License-Identifier: Apache-2.0
 *
 * base: result codes and the integer arithmetic that every file needs. Includes no other header
 * of gpupool.
 *
 * Results     0 done; < 0 is -errno, a fault, forwarded unchanged; > 0 is a documented outcome of
 *             that function (enum gp_outcome for allocation), handled by the direct caller.
 * Addresses   uint64_t. A device address is never dereferenced on the host.
 */
#ifndef GP_BASE_H
#define GP_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_VERSION "0.1.0"

#define GP_KIB (UINT64_C(1) << 10)
#define GP_MIB (UINT64_C(1) << 20)
#define GP_GIB (UINT64_C(1) << 30)

/* Every address that a pool hands out is a multiple of this: cudaMalloc's own guarantee (CUDA C
 * Programming Guide, "Device Memory Accesses"). */
#define GP_ALIGN UINT64_C(256)

/* A larger request is refused before any allocator sees it: no device has this much memory, and
 * below it no rounding in this code can overflow. */
#define GP_SIZE_MAX (UINT64_C(1) << 60)

/* Why an allocation did not happen, though nothing is broken. */
enum gp_outcome {
	GP_OK = 0,
	GP_NOMEM = 1,   /* no hole is large enough and the device gives no more          */
	GP_REFUSED = 2, /* this allocator does not serve such a request, by its own rule */
	GP_HELD = 3,    /* memory is free, but only on a stream it cannot be taken from  */
};

#if defined(__GNUC__)
#define GP_LIKELY(x)         __builtin_expect(!!(x), 1)
#define GP_UNLIKELY(x)       __builtin_expect(!!(x), 0)
#define GP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define GP_NOINLINE          __attribute__((noinline, cold))
#define GP_INLINE            inline __attribute__((always_inline))
#else
#define GP_LIKELY(x)   (x)
#define GP_UNLIKELY(x) (x)
#define GP_PRINTF(fmt, args)
#define GP_NOINLINE
#define GP_INLINE inline
#endif

#define GP_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline bool gp_is_pow2(uint64_t x)
{
	return x && !(x & (x - 1));
}

/* Floor of log2; x must not be 0. */
static inline unsigned gp_floor_log2(uint64_t x)
{
#if defined(__GNUC__)
	return 63u ^ (unsigned)__builtin_clzll(x); /* not "-": so it is one instruction on x86-64 */
#else
	unsigned n = 0;

	while (x >>= 1)
		n++;
	return n;
#endif
}

/* Ceiling of log2; x must not be 0. */
static inline unsigned gp_ceil_log2(uint64_t x)
{
	return x > 1 ? gp_floor_log2(x - 1) + 1 : 0;
}

/* Index of the lowest bit set; x must not be 0. */
static inline unsigned gp_lowest_bit(uint64_t x)
{
#if defined(__GNUC__)
	return (unsigned)__builtin_ctzll(x);
#else
	return gp_floor_log2(x & (~x + 1));
#endif
}

/* x rounded up to a multiple of align, a power of two. The caller keeps x <= GP_SIZE_MAX. */
static inline uint64_t gp_align_up(uint64_t x, uint64_t align)
{
	return (x + align - 1) & ~(align - 1);
}

static inline uint64_t gp_align_down(uint64_t x, uint64_t align)
{
	return x & ~(align - 1);
}

static inline uint64_t gp_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t gp_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* a * b into *out; false and *out untouched when it does not fit. */
static inline bool gp_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
	if (b && a > UINT64_MAX / b)
		return false;
	*out = a * b;
	return true;
}

/* Division by a number known at run time, without a divide (which takes 10 to 40 cycles), of
 * numbers that should be multiples of it: exact for multiples below 2^32, and whoever asks checks
 * that quotient * divisor is what he had (after T. Granlund, P. Montgomery: "Division by invariant
 * integers using multiplication", PLDI 1994). */
static inline uint64_t gp_divide_magic(uint64_t divisor)
{
	return ((UINT64_C(1) << 32) + divisor - 1) / divisor;
}

static inline uint64_t gp_divide(uint64_t n, uint64_t magic)
{
	return n * magic >> 32;
}

/* A half-open range of device addresses. */
struct gp_range {
	uint64_t addr;
	uint64_t size; /* bytes */
};

#endif
