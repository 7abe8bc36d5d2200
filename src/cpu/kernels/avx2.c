/*-------------------------------------------------------------------------
 *
 * avx2.c
 *	  The CPU kernels for AVX2 and FMA: tiles of 4 x 24, in FP32, INT16 and INT8; 4 x 16 for bits.
 *
 * 12 vectors of sums, 3 of b and 1 of a fill the 16 registers.  Each coordinate takes 12 fused
 * multiply-adds and 7 loads.
 *
 * INT16: VPMADDWD multiplies two pairs of 16-bit numbers and adds the products.  That is twice the
 * products of an FMA, but takes a separate addition.  Sums are modulo 2^32, and exact at the end
 * because the rows' norms are limited (doc/internals/bound-int8.md, section 8).
 *
 * INT8 needs AVX-VNNI, which CPUs without AVX-512 have; avx512.c describes VPDPBUSD.  On
 * CPUs that have AVX-512 instead, tests and benchmarks define FASTED_AVXVNNI_EVEX.  They then use
 * the same 256-bit instructions in the EVEX encoding.
 *
 *-------------------------------------------------------------------------
 */
#include "../../engine/exact_distance.h"
#include "kernel.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include "row_body.h"

#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 8
#define TILE_ROWS 4
#define TILE_SLIVERS 3
#define LANES 8

typedef int32_t Hit __attribute__((vector_size(32)));

#define HIT_ANY(h) (HIT_BITS(h) != 0)
#define HIT_BITS(h) (unsigned) _mm256_movemask_ps((__m256) (h))

/*
 * Multiplies one row of a tile, in assembly.  Otherwise compilers choose forms of the instruction
 * that overwrite a factor, or load ahead, and then spill sums in the inner loop: with GCC 14 that
 * halved the speed.  The memory clobber keeps the loads of the next coordinate behind this one.
 */
#define MULTIPLY_ROW_AVX2(broadcast, multiply, c, a, b) \
	__asm__ volatile (broadcast " %[x], %%ymm15\n\t" \
					  multiply " %[b0], %%ymm15, %[c0]\n\t" \
					  multiply " %[b1], %%ymm15, %[c1]\n\t" \
					  multiply " %[b2], %%ymm15, %[c2]" \
					  : [c0] "+x" ((c)[0]), [c1] "+x" ((c)[1]), [c2] "+x" ((c)[2]) \
					  : [b0] "x" ((b)[0]), [b1] "x" ((b)[1]), [b2] "x" ((b)[2]), [x] "m" (*(a)) \
					  : "xmm15", "memory")

/* --- FP32 */

#define KERNEL(name) name##_avx2
#define Word float
#define VEC_MULTIPLY_ROW(c, a, b) \
	MULTIPLY_ROW_AVX2("vbroadcastss", "vfmadd231ps", c, a, b)

#define FP32_ROWS
#define DOUBLES 4
#define DoubleVec __m256d
#define DOUBLE_LOAD(p) _mm256_loadu_pd(p)
#define DOUBLE_WIDEN(p) _mm256_cvtps_pd(_mm_loadu_ps(p))
#define DOUBLE_LOAD_REST(p, n, v) load_rest_double_avx2(p, (int) (n) - 4 * (v))
#define DOUBLE_WIDEN_REST(p, n, v) load_rest_avx2(p, (int) (n) - 4 * (v))
#define DOUBLE_FMA(x, y, z) _mm256_fmadd_pd(x, y, z)
#define DOUBLE_FOLD(v) fold_avx2(v)

/* Loads the first `left` of four floats as FP64; the others are zero. */
TARGET static inline __attribute__((always_inline)) __m256d
load_rest_avx2(const float *p, int left)
{
	__m128i		lane = _mm_setr_epi32(0, 1, 2, 3);

	return _mm256_cvtps_pd(_mm_maskload_ps(p, _mm_cmpgt_epi32(_mm_set1_epi32(left),
															  lane)));
}

/* Loads the first `left` of four doubles; the others are zero. */
TARGET static inline __attribute__((always_inline)) __m256d
load_rest_double_avx2(const double *p, int left)
{
	__m256i		lane = _mm256_setr_epi64x(0, 1, 2, 3);

	return _mm256_maskload_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(left), lane));
}

TARGET static inline __attribute__((always_inline)) double
fold_avx2(__m256d sum)
{
	__m128d		low = _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1));

	return _mm_cvtsd_f64(_mm_add_sd(low, _mm_unpackhi_pd(low, low)));
}

#include "tile_kernel.inc.h"

static bool
available_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const CpuKernel fasted_kernel_avx2 = {
	.name = "avx2",
	.available = available_avx2,
	.bits = &fasted_kernel_avx2_bits,
	TILES_OF(avx2),
	ROWS_OF(avx2),
};

/* --- INT16 */

#define KERNEL(name) name##_avx2_int16
#define Word int32_t
/*
 * Multiplies one row of a tile, in assembly as for FP32.  Products need a register of their own,
 * so one vector of b stays in memory.
 */
#define MULTIPLY_ROW(c, a, b0, b1, b2) \
	__asm__ volatile ("vpbroadcastd %[x], %%ymm15\n\t" \
					  "vpmaddwd %[y0], %%ymm15, %%ymm14\n\t" \
					  "vpaddd %%ymm14, %[c0], %[c0]\n\t" \
					  "vpmaddwd %[y1], %%ymm15, %%ymm14\n\t" \
					  "vpaddd %%ymm14, %[c1], %[c1]\n\t" \
					  "vpmaddwd %[y2], %%ymm15, %%ymm14\n\t" \
					  "vpaddd %%ymm14, %[c2], %[c2]" \
					  : [c0] "+x" ((c)[0]), [c1] "+x" ((c)[1]), [c2] "+x" ((c)[2]) \
					  : [y0] "x" (b0), [y1] "x" (b1), [y2] "m" (b2), [x] "m" (*(a)) \
					  : "xmm14", "xmm15", "memory")
#define MULTIPLY_WORD(sums, a, b, sliver) \
	do \
	{ \
		Vec			b0 = VEC_LOAD(b); \
		Vec			b1 = VEC_LOAD((b) + (sliver)); \
		const Vec  *b2 = (const Vec *) ((b) + 2 * (sliver)); \
 \
		FOR_ROWS(i) \
			MULTIPLY_ROW((sums)[i], (a) + i, b0, b1, *b2); \
	} while (0)
#define INT16_ROWS

#include "tile_kernel.inc.h"

static const Int8Kernel int16_avx2 = {
	.name = "int16",
	.bytes = 2,
	.speed = 1,
	.product = PRODUCT_OF(sweep_avx2_int16, 0),
	INTEGERS_OF(avx2_int16),
};

const CpuKernel fasted_kernel_avx2int16 = {
	.name = "avx2int16",
	.available = available_avx2,
	.int8 = &int16_avx2,
	.bits = &fasted_kernel_avx2_bits,
	TILES_OF(avx2),
	ROWS_OF(avx2),
};

/* --- INT8 */

#ifdef FASTED_HAVE_AVXVNNI

#ifdef FASTED_AVXVNNI_EVEX
#define ENCODING "%{evex%} "
#else
#define ENCODING "%{vex%} "
#endif

#define KERNEL(name) name##_avxvnni
#define Word int32_t
#define VEC_MULTIPLY_ROW(c, a, b) \
	MULTIPLY_ROW_AVX2("vpbroadcastd", ENCODING "vpdpbusd", c, a, b)
#define INT8_ROWS
#define INT16_RECHECK

#include "tile_kernel.inc.h"

/* Returns the inner product of two INT16 rows, modulo 2^32. */
TARGET static int32_t
dot_int16_avxvnni(const int16_t *x, const int16_t *y, uint32_t padded)
{
	__m256i		sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
	__m128i		low;

	for (uint32_t k = 0; k < padded; k += 32)
	{
		UNROLL for (int half = 0; half < 2; half++)
			sums[half] = _mm256_add_epi32(sums[half],
										  _mm256_madd_epi16(_mm256_loadu_si256((const __m256i *) (x + k) + half),
															_mm256_loadu_si256((const __m256i *) (y + k) + half)));
	}
	sums[0] = _mm256_add_epi32(sums[0], sums[1]);
	low = _mm_add_epi32(_mm256_castsi256_si128(sums[0]), _mm256_extracti128_si256(sums[0], 1));
	low = _mm_add_epi32(low, _mm_shuffle_epi32(low, 0x4e));
	low = _mm_add_epi32(low, _mm_shuffle_epi32(low, 0xb1));
	return _mm_cvtsi128_si32(low);
}

static bool
available_avxvnni(void)
{
#ifdef FASTED_AVXVNNI_EVEX
	return available_avx2() && __builtin_cpu_supports("avx512vl") &&
		__builtin_cpu_supports("avx512vnni");
#else
	const unsigned avx_vnni = 1U << 4;
	unsigned	registers[4];

	return available_avx2() &&
		__get_cpuid_count(7, 1, &registers[0], &registers[1], &registers[2], &registers[3]) &&
		(registers[0] & avx_vnni) != 0;
#endif
}

static const Int8Kernel int8_avxvnni = {
	.name = "int8",
	.bytes = 1,
	.speed = 1,
	.product = PRODUCT_OF(sweep_avxvnni, UINT32_C(0x80808080)),
	INTEGERS_OF(avxvnni),
	INT16_RECHECK_OF(avxvnni),
};

const CpuKernel fasted_kernel_avxvnni = {
	.name = "avxvnni",
	.available = available_avxvnni,
	.int8 = &int8_avxvnni,
	.bits = &fasted_kernel_avx2_bits,
	TILES_OF(avx2),
	ROWS_OF(avx2),
};

#endif							/* FASTED_HAVE_AVXVNNI */

/* --- bits: 8 vectors of counts, 1 of b, 2 constants */

#undef TARGET
#define TARGET __attribute__((target("avx2,popcnt")))
#undef TILE_SLIVERS
#define TILE_SLIVERS 2
#define KERNEL(name) name##_avx2_bits
#define Word int32_t
#define BYTE_COUNTS(x) byte_counts_avx2((__m256i) (x))
/* Adds up pairs of bytes, then pairs of 16-bit numbers. */
#define SUM_BYTES(x) \
	_mm256_madd_epi16(_mm256_maddubs_epi16((__m256i) (x), _mm256_set1_epi8(1)), \
					  _mm256_set1_epi16(1))
#define BITS_ROWS

/* Looks up the numbers of bits in the low and in the high half of each byte. */
TARGET static inline __attribute__((always_inline)) __m256i
byte_counts_avx2(__m256i x)
{
	__m256i		low = _mm256_set1_epi8(0x0f);
	__m256i		counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
										  0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);

	return _mm256_add_epi8(_mm256_shuffle_epi8(counts, _mm256_and_si256(x, low)),
						   _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16(x, 4), low)));
}

#include "tile_kernel.inc.h"

static bool
available_avx2_bits(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
}

const CpuKernel fasted_kernel_avx2_bits = {
	.name = "avx2",
	.available = available_avx2_bits,
	.bits = &fasted_kernel_portable_bits,
	.recheck_words = 400,
	BITS_OF(avx2_bits),
};
#endif							/* __x86_64__ */
