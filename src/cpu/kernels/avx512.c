/*-------------------------------------------------------------------------
 *
 * avx512.c
 *	  The CPU kernels for AVX-512: tiles of 8 x 48, in FP32, INT8 and bits.
 *
 * 24 vectors of sums, 3 of b and the broadcasts of a fit into the 32 registers.  A kernel has both
 * filters, so both use the same tile shape.
 *
 * VPDPBUSD multiplies unsigned bytes by signed bytes, four per word, and adds to an INT32 sum.  So
 * the rows of a have 128 added to each byte.  Every sum is then too large by 128 times the sum of
 * b's bytes, which the threshold of b accounts for.  All sums are modulo 2^32, and exact at the
 * end.
 *
 *-------------------------------------------------------------------------
 */
#include "../../engine/exact_distance.h"
#include "kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ROW_LANES 16
#include "row_body.h"

#define WIDTH 16
#define TILE_ROWS 8
#define TILE_SLIVERS 3
#define LANES 16

typedef __mmask16 Hit;

#define HIT_ANY(h) ((h) != 0)
#define HIT_BITS(h) (unsigned) (h)

/* VEC_MULTIPLY_ROW with two kinds of instructions, in assembly as in avx2.c. */
#define MULTIPLY_ROW_AVX512(broadcast, multiply, c, a, b) \
	__asm__ volatile (broadcast " %[x], %%zmm31\n\t" \
					  multiply " %[b0], %%zmm31, %[c0]\n\t" \
					  multiply " %[b1], %%zmm31, %[c1]\n\t" \
					  multiply " %[b2], %%zmm31, %[c2]" \
					  : [c0] "+v" ((c)[0]), [c1] "+v" ((c)[1]), [c2] "+v" ((c)[2]) \
					  : [b0] "v" ((b)[0]), [b1] "v" ((b)[1]), [b2] "v" ((b)[2]), [x] "m" (*(a)) \
					  : "xmm31", "memory")

/* --- FP32 */

#define TARGET __attribute__((target("avx512f,avx512vl,avx2,fma")))
#define KERNEL(name) name##_avx512
#define Word float
#define VEC_MULTIPLY_ROW(c, a, b) \
	MULTIPLY_ROW_AVX512("vbroadcastss", "vfmadd231ps", c, a, b)
#define VEC_REACHES(g, a, b) _mm512_cmp_ps_mask(g, (a) + (b), _CMP_GE_OQ)

#define FP32_ROWS
#define DOUBLES 8
#define DoubleVec __m512d
#define REST_MASK(n, v) ((__mmask8) (((UINT32_C(1) << (n)) - 1) >> 8 * (v)))
#define DOUBLE_LOAD(p) _mm512_loadu_pd(p)
#define DOUBLE_WIDEN(p) _mm512_cvtps_pd(_mm256_loadu_ps(p))
#define DOUBLE_LOAD_REST(p, n, v) _mm512_maskz_loadu_pd(REST_MASK(n, v), p)
#define DOUBLE_WIDEN_REST(p, n, v) _mm512_cvtps_pd(_mm256_maskz_loadu_ps(REST_MASK(n, v), p))
#define DOUBLE_FMA(x, y, z) _mm512_fmadd_pd(x, y, z)
#define DOUBLE_FOLD(v) fold_avx512(v)

TARGET static inline __attribute__((always_inline)) double
fold_avx512(__m512d sum)
{
	__m256d		half = _mm256_add_pd(_mm512_castpd512_pd256(sum), _mm512_extractf64x4_pd(sum, 1));
	__m128d		low = _mm_add_pd(_mm256_castpd256_pd128(half), _mm256_extractf128_pd(half, 1));

	return _mm_cvtsd_f64(_mm_add_sd(low, _mm_unpackhi_pd(low, low)));
}

#include "tile_kernel.inc.h"

static bool
available_avx512(void)
{
	return __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512vl") &&
		__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* --- bits */

#undef TARGET
#define TARGET __attribute__((target("avx512f,avx512vl,avx512vpopcntdq,avx2,popcnt")))
#define KERNEL(name) name##_avx512_bits
#define Word int32_t
/* Subtracts the Hamming distances of one word, in assembly as in avx2.c. */
#define VEC_MULTIPLY_ROW(c, a, b) \
	__asm__ volatile ("vpbroadcastd %[x], %%zmm31\n\t" \
					  "vpxord %[b0], %%zmm31, %%zmm28\n\t" \
					  "vpxord %[b1], %%zmm31, %%zmm29\n\t" \
					  "vpxord %[b2], %%zmm31, %%zmm30\n\t" \
					  "vpopcntd %%zmm28, %%zmm28\n\t" \
					  "vpopcntd %%zmm29, %%zmm29\n\t" \
					  "vpopcntd %%zmm30, %%zmm30\n\t" \
					  "vpsubd %%zmm28, %[c0], %[c0]\n\t" \
					  "vpsubd %%zmm29, %[c1], %[c1]\n\t" \
					  "vpsubd %%zmm30, %[c2], %[c2]" \
					  : [c0] "+v" ((c)[0]), [c1] "+v" ((c)[1]), [c2] "+v" ((c)[2]) \
					  : [b0] "v" ((b)[0]), [b1] "v" ((b)[1]), [b2] "v" ((b)[2]), [x] "m" (*(a)) \
					  : "xmm28", "xmm29", "xmm30", "xmm31", "memory")
#define VEC_REACHES(g, a, b) _mm512_cmpge_epi32_mask((__m512i) ((g) - (b)), (__m512i) (a))
#define BITS_ROWS

#include "tile_kernel.inc.h"

static bool
available_avx512_bits(void)
{
	return available_avx512() && __builtin_cpu_supports("avx512vpopcntdq") &&
		__builtin_cpu_supports("popcnt");
}

static const CpuKernel bits_avx512 = {
	.name = "avx512vpopcntdq",
	.available = available_avx512_bits,
	.bits = &fasted_kernel_avx2_bits,
	.recheck_words = 1600,
	BITS_OF(avx512_bits),
};

#undef TARGET
#define TARGET __attribute__((target("avx512f,avx512vl,avx2,fma")))

const CpuKernel fasted_kernel_avx512 = {
	.name = "avx512",
	.available = available_avx512,
	.bits = &bits_avx512,
	TILES_OF(avx512),
	ROWS_OF(avx512),
};

#ifdef FASTED_HAVE_AMX

/* --- FP32 for the AMX kernel: tiles of 8 x 32, four per AMX tile; 16 vectors of sums, 2 of b */

#undef TILE_SLIVERS
#define TILE_SLIVERS 2
#define KERNEL(name) name##_amx_fp32
#define Word float
/* In assembly, as in avx2.c. */
#define VEC_MULTIPLY_ROW(c, a, b) \
	__asm__ volatile ("vbroadcastss %[x], %%zmm31\n\t" \
					  "vfmadd231ps %[b0], %%zmm31, %[c0]\n\t" \
					  "vfmadd231ps %[b1], %%zmm31, %[c1]" \
					  : [c0] "+v" ((c)[0]), [c1] "+v" ((c)[1]) \
					  : [b0] "v" ((b)[0]), [b1] "v" ((b)[1]), [x] "m" (*(a)) \
					  : "xmm31", "memory")
#define VEC_REACHES(g, a, b) _mm512_cmp_ps_mask(g, (a) + (b), _CMP_GE_OQ)

#include "tile_kernel.inc.h"

static void
sweep_amx_tiles_fp32(const TileSweep *sweep)
{
	TileSweep	parts = *sweep;

	parts.tiles *= AMX_TILE / TILE_ROWS;
	sweep_amx_fp32(&parts);
}

#undef TILE_SLIVERS
#define TILE_SLIVERS 3
#endif							/* FASTED_HAVE_AMX */

/* --- INT8 */

#undef TARGET
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512vnni,avx2,fma")))
#define KERNEL(name) name##_avx512_int8
#define Word int32_t
#define VEC_MULTIPLY_ROW(c, a, b) \
	MULTIPLY_ROW_AVX512("vpbroadcastd", "vpdpbusd", c, a, b)
/* The sum of the thresholds could overflow: see filter_bound.h. */
#define VEC_REACHES(g, a, b) _mm512_cmpge_epi32_mask((__m512i) ((g) - (b)), (__m512i) (a))
#define INT8_ROWS
#define INT16_RECHECK

#include "tile_kernel.inc.h"

/* Returns the inner product of two INT16 rows, modulo 2^32, using VPDPWSSD. */
TARGET static int32_t
dot_int16_avx512_int8(const int16_t *x, const int16_t *y, uint32_t padded)
{
	__m512i		sums[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
	uint32_t	k = 0;

	for (; k + 64 <= padded; k += 64)
	{
		UNROLL for (int half = 0; half < 2; half++)
			sums[half] = _mm512_dpwssd_epi32(sums[half], _mm512_loadu_si512(x + k + 32 * half),
											 _mm512_loadu_si512(y + k + 32 * half));
	}
	if (k < padded)
		sums[0] = _mm512_dpwssd_epi32(sums[0], _mm512_loadu_si512(x + k), _mm512_loadu_si512(y + k));
	return _mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1]));
}

static const Int8Kernel int8_avx512 = {
	.name = "int8",
	.bytes = 1,
	.speed = 1,
	.product = PRODUCT_OF(sweep_avx512_int8, UINT32_C(0x80808080)),
	INTEGERS_OF(avx512_int8),
	INT16_RECHECK_OF(avx512_int8),
};

static bool
available_avx512vnni(void)
{
	return available_avx512() && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512vnni");
}

const CpuKernel fasted_kernel_avx512vnni = {
	.name = "avx512vnni",
	.available = available_avx512vnni,
	.int8 = &int8_avx512,
	.bits = &bits_avx512,
	TILES_OF(avx512),
	ROWS_OF(avx512),
};

#ifdef FASTED_HAVE_AMX
static bool
available_amx(void)
{
	return available_avx512vnni() && fasted_amx_permitted();
}

static const Int8Kernel int8_amx = {
	.name = "int8",
	.bytes = 1,
	.speed = 4,
	.product = {
		.word_step = AMX_SIDE,.a_words = AMX_SIDE,.b_words = 1,.part = AMX_SIDE,.sweep = fasted_sweep_amx
	},
	.begin = fasted_begin_amx,
	.end = fasted_end_amx,
	INTEGERS_OF(avx512_int8),
	INT16_RECHECK_OF(avx512_int8),
};

/* The tiles have the shape of amx.c. */
const CpuKernel fasted_kernel_amx = {
	.name = "amx",
	.available = available_amx,
	.int8 = &int8_amx,
	.bits = &bits_avx512,
	.tile_rows = AMX_TILE,
	.tile_cols = AMX_TILE,
	.product = PRODUCT_OF(sweep_amx_tiles_fp32, 0),
	ROWS_OF(avx512),
};
#endif

#endif							/* __x86_64__ */
