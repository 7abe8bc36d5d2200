/*-------------------------------------------------------------------------
 *
 * portable.c
 *	  The CPU kernel in plain C with GCC's vectors: tiles of 4 x 8.
 *
 * It uses eight vectors of sums, two of b and one of a.  They fit into the 16 registers of SSE2
 * and the 32 of ARM.  Bits are counted by adding adjacent fields of 1, 2 and 4 bits in parallel.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../../engine/exact_distance.h"
#include "kernel.h"
#include "row_body.h"

#define KERNEL(name) name##_portable
#define TARGET
#define WIDTH 4
#define TILE_ROWS 4
#define TILE_SLIVERS 2
#define LANES 4
#define Word float
#define FP32_ROWS

typedef int32_t Hit __attribute__((vector_size(16)));

#define VEC_MULTIPLY_ROW(c, a, b) \
	do \
	{ \
		Vec			splat = VEC_SPLAT(a); \
 \
		FOR_VECS(v) \
			(c)[v] += splat * (b)[v]; \
	} while (0)
#define HIT_ANY(h) (((h)[0] | (h)[1] | (h)[2] | (h)[3]) != 0)
#define HIT_BITS(h) hit_bits(h)

static inline __attribute__((always_inline)) uint32_t
hit_bits(Hit h)
{
	return ((uint32_t) h[0] & 1) | ((uint32_t) h[1] & 2) |
		((uint32_t) h[2] & 4) | ((uint32_t) h[3] & 8);
}

/* The sum of squared differences, or of products; see tile_kernel.inc.h. */
static inline __attribute__((always_inline)) double
sum_portable(const void *x, const void *y, uint32_t dimensions, bool doubles, bool product)
{
	double		sums[FASTED_EXACT_LANES] = {0};

	for (uint32_t k = 0; k < dimensions; k++)
	{
		double		left = doubles ? ((const double *) x)[k] : (double) ((const float *) x)[k];
		double		right = doubles ? ((const double *) y)[k] : (double) ((const float *) y)[k];

		if (!product)
			left = right = left - right;
		sums[k % FASTED_EXACT_LANES] = fma(left, right, sums[k % FASTED_EXACT_LANES]);
	}
	return fasted_exact_sum(sums);
}

#include "tile_kernel.inc.h"

static bool
available_portable(void)
{
	return true;
}

/* --- bits */

#define KERNEL(name) name##_portable_bits
#define Word int32_t
#define BYTE_COUNTS(x) byte_counts((UnsignedVec) (x))
#define SUM_BYTES(x) sum_bytes((UnsignedVec) (x))
#define BITS_ROWS

typedef uint32_t UnsignedVec __attribute__((vector_size(16)));

static inline __attribute__((always_inline)) UnsignedVec
byte_counts(UnsignedVec x)
{
	x -= x >> 1 & 0x55555555;
	x = (x & 0x33333333) + (x >> 2 & 0x33333333);
	return (x + (x >> 4)) & 0x0f0f0f0f;
}

static inline __attribute__((always_inline)) UnsignedVec
sum_bytes(UnsignedVec x)
{
	x = (x & 0x00ff00ff) + (x >> 8 & 0x00ff00ff);
	return (x & 0xffff) + (x >> 16);
}

#include "tile_kernel.inc.h"

const CpuKernel fasted_kernel_portable_bits = {
	.name = "portable",
	.available = available_portable,
	.recheck_words = 100,
	BITS_OF(portable_bits),
};

const CpuKernel fasted_kernel_portable = {
	.name = "portable",
	.available = available_portable,
	.bits = &fasted_kernel_portable_bits,
	TILES_OF(portable),
	ROWS_OF(portable),
};
