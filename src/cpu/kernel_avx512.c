/*-------------------------------------------------------------------------
 *
 * kernel_avx512.c
 *	  The CPU kernels for AVX-512: tiles of 8 x 48, in FP32 and INT8.
 *
 * 24 vectors of sums, 3 of b and the broadcasts of a, of 32 registers.  One kernel has both
 * filters, so that the shape of a tile must be the same.
 *
 * VPDPBUSD multiplies bytes without a sign by bytes with one, four to a word, and
 * adds to an INT32 sum.  So the rows of a have 128 added to each byte, and every
 * sum is too large by 128 times the sum of b's bytes, which b's threshold takes
 * away again.  All that is modulo 2^32, and exact in the end.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "row_body.h"

#define WIDTH 16
#define TILE_ROWS 8
#define TILE_SLIVERS 3
#define LANES 16

typedef __mmask16 Hit;

#define HIT_NONE() 0
#define HIT_OR(h, g) _mm512_kor(h, g)
#define HIT_ANY(h) ((h) != 0)
#define HIT_BITS(h) (unsigned) (h)

/* VEC_MULTIPLY_ROW of two instructions.  By hand, as in kernel_avx2.c. */
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
#define Vec __m512
#define VEC_ZERO() _mm512_setzero_ps()
#define VEC_LOAD(p) _mm512_loadu_ps(p)
#define VEC_STORE(p, v) _mm512_storeu_ps(p, v)
#define VEC_SPLAT(p) _mm512_set1_ps(*(p))
#define VEC_MULTIPLY_ROW(c, a, b) \
	MULTIPLY_ROW_AVX512("vbroadcastss", "vfmadd231ps", c, a, b)
#define VEC_REACHES(g, a, b) _mm512_cmp_ps_mask(g, _mm512_add_ps(a, b), _CMP_GE_OQ)

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

const CpuKernel fasted_kernel_avx512 = {
	.name = "avx512",
	.available = available_avx512,
	TILES_OF(avx512),
	ROWS_OF(avx512),
};

#ifdef FASTED_HAVE_AMX

/* --- FP32 beside AMX: tiles of 8 x 32, four to one of AMX; 16 vectors of sums, 2 of b */

#undef TILE_SLIVERS
#define TILE_SLIVERS 2
#define KERNEL(name) name##_amx_fp32
#define Word float
#define Vec __m512
#define VEC_ZERO() _mm512_setzero_ps()
#define VEC_LOAD(p) _mm512_loadu_ps(p)
#define VEC_STORE(p, v) _mm512_storeu_ps(p, v)
#define VEC_SPLAT(p) _mm512_set1_ps(*(p))
/* By hand, as in kernel_avx2.c. */
#define VEC_MULTIPLY_ROW(c, a, b) \
	__asm__ volatile ("vbroadcastss %[x], %%zmm31\n\t" \
					  "vfmadd231ps %[b0], %%zmm31, %[c0]\n\t" \
					  "vfmadd231ps %[b1], %%zmm31, %[c1]" \
					  : [c0] "+v" ((c)[0]), [c1] "+v" ((c)[1]) \
					  : [b0] "v" ((b)[0]), [b1] "v" ((b)[1]), [x] "m" (*(a)) \
					  : "xmm31", "memory")
#define VEC_REACHES(g, a, b) _mm512_cmp_ps_mask(g, _mm512_add_ps(a, b), _CMP_GE_OQ)

#include "tile_kernel.inc.h"

void
fasted_sweep_amx_fp32(const TileSweep *sweep)
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
#define Vec __m512i
#define VEC_ZERO() _mm512_setzero_si512()
#define VEC_LOAD(p) _mm512_loadu_si512(p)
#define VEC_STORE(p, v) _mm512_storeu_si512(p, v)
#define VEC_SPLAT(p) _mm512_set1_epi32(*(p))
#define VEC_MULTIPLY_ROW(c, a, b) \
	MULTIPLY_ROW_AVX512("vpbroadcastd", "vpdpbusd", c, a, b)
/* Not the sum of the thresholds, which may overflow: filter_bound.h. */
#define VEC_REACHES(g, a, b) _mm512_cmpge_epi32_mask(_mm512_sub_epi32(g, b), a)

#include "tile_kernel.inc.h"

/* One level within a vector: lanes of `upper` get other - value, others the sum. */
TARGET static inline __attribute__((always_inline)) __m512
level_avx512(__m512 value, __m512 other, __mmask16 upper)
{
	return _mm512_mask_sub_ps(_mm512_add_ps(value, other), upper, other, value);
}

/*
 * Random signs and a Walsh-Hadamard transform of `length` numbers, a power of two
 * from 32 on, divided by the root of length.
 */
TARGET static void
rotate_avx512(float *values, uint32_t length, uint32_t pass)
{
	__m512		root = _mm512_set1_ps((float) (1.0 / sqrt(length)));

	for (uint32_t k = 0; k < length; k += 16)
	{
		uint64_t	signs = fasted_sign_bits(k / 64, pass) >> k % 64;
		__m512		v = _mm512_mul_ps(_mm512_loadu_ps(values + k), root);

		v = _mm512_mask_sub_ps(v, (__mmask16) signs, _mm512_set1_ps(-0.0f), v);
		v = level_avx512(v, _mm512_permute_ps(v, 0xb1), 0xaaaa);
		v = level_avx512(v, _mm512_permute_ps(v, 0x4e), 0xcccc);
		v = level_avx512(v, _mm512_shuffle_f32x4(v, v, 0xb1), 0xf0f0);
		v = level_avx512(v, _mm512_shuffle_f32x4(v, v, 0x4e), 0xff00);
		_mm512_storeu_ps(values + k, v);
	}
	for (uint32_t half = 16; half < length; half *= 2)
	{
		for (uint32_t k = 0; k < length; k += 16)
		{
			__m512		low = _mm512_loadu_ps(values + k);
			__m512		high;

			if ((k & half) != 0)
				continue;
			high = _mm512_loadu_ps(values + k + half);
			_mm512_storeu_ps(values + k, _mm512_add_ps(low, high));
			_mm512_storeu_ps(values + k + half, _mm512_sub_ps(low, high));
		}
	}
}

TARGET void
fasted_transform_avx512(const Int8Transform *transform, const float *row, float *image)
{
	uint32_t	padded = transform->padded;
	uint32_t	length = fasted_rotation_length(padded);
	__m512		scale = _mm512_set1_ps(transform->scale);

	for (uint32_t k = 0; k < padded; k += 16)
	{
		uint32_t	left = k < transform->dimensions ? transform->dimensions - k : 0;
		__mmask16	mask = left < 16 ? (__mmask16) ((1U << left) - 1) : 0xffff;
		__m512		x = _mm512_maskz_loadu_ps(mask, row + k);
		__m512		c = _mm512_maskz_loadu_ps(mask, transform->centre + k);

		_mm512_storeu_ps(image + k, _mm512_mul_ps(_mm512_sub_ps(x, c), scale));
	}
	if (transform->lossless)
		return;
	rotate_avx512(image, length, 0);
	if (length < padded)
		rotate_avx512(image + (padded - length), length, 1);
}

/* What rounding adds up, in two chains where it is FP32. */
typedef struct RoundingSums16
{
	__m512		errors[2];
	__m512		roundings[2];
	__m512i		norms;
	__m512i		sum;
} RoundingSums16;

/* Sixteen numbers, clamped and rounded.  NaN becomes the bound, here the second operand. */
TARGET static inline __attribute__((always_inline)) __m512i
round_sixteen(const float *image, float factor, float low, float high, RoundingSums16 *sums, int half)
{
	__m512		v = _mm512_mul_ps(_mm512_loadu_ps(image), _mm512_set1_ps(factor));
	__m512		bound = _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(low)),
									  _mm512_set1_ps(high));
	__m512i		q = _mm512_cvtps_epi32(bound);
	__m512		back = _mm512_cvtepi32_ps(q);
	__m512		error = _mm512_sub_ps(v, back);
	__m512		rounding = _mm512_sub_ps(bound, back);

	sums->roundings[half] = _mm512_fmadd_ps(rounding, rounding, sums->roundings[half]);
	sums->errors[half] = _mm512_fmadd_ps(error, error, sums->errors[half]);
	sums->norms = _mm512_add_epi32(sums->norms, _mm512_mullo_epi32(q, q));
	sums->sum = _mm512_add_epi32(sums->sum, q);
	return q;
}

TARGET static inline __attribute__((always_inline)) void
fold_sums16(const RoundingSums16 *from, Int8Sums *sums)
{
	sums->rounding2 = _mm512_reduce_add_ps(_mm512_add_ps(from->roundings[0], from->roundings[1]));
	sums->error2 = _mm512_reduce_add_ps(_mm512_add_ps(from->errors[0], from->errors[1]));
	sums->norm2 = _mm512_reduce_add_epi32(from->norms);
	sums->sum = _mm512_reduce_add_epi32(from->sum);
}

TARGET void
fasted_round_avx512(const float *image, float factor, uint32_t padded, int8_t *values,
					Int8Sums *sums)
{
	RoundingSums16 parts = {0};

	for (uint32_t k = 0; k < padded; k += 32)
	{
		UNROLL for (int half = 0; half < 2; half++)
		{
			__m512i		q = round_sixteen(image + k + 16 * half, factor, -128.0f, 127.0f, &parts,
										  half);

			_mm_storeu_si128((__m128i *) (values + k + 16 * half), _mm512_cvtepi32_epi8(q));
		}
	}
	fold_sums16(&parts, sums);
}

TARGET void
fasted_round_fine_avx512(const float *image, float factor, uint32_t padded, int16_t *values,
						 Int8Sums *sums)
{
	RoundingSums16 parts = {0};
	float		most = fasted_int16_most(FASTED_FINE_NORM2, padded);

	for (uint32_t k = 0; k < padded; k += 32)
	{
		UNROLL for (int half = 0; half < 2; half++)
		{
			__m512i		q = round_sixteen(image + k + 16 * half, factor, -most, most, &parts, half);

			_mm256_storeu_si256((__m256i *) (values + k + 16 * half), _mm512_cvtepi32_epi16(q));
		}
	}
	fold_sums16(&parts, sums);
}

/* VPDPWSSD: pairs of products, modulo 2^32. */
TARGET int32_t
fasted_dot_fine_avx512(const int16_t *x, const int16_t *y, uint32_t padded)
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
	.bytes = 1,
	.word_step = 8,
	.a_words = 1,
	.b_words = 1,
	.a_flip = UINT32_C(0x80808080),
	.sweep = sweep_avx512_int8,
	.transform = fasted_transform_avx512,
	.round = fasted_round_avx512,
	.round_fine = fasted_round_fine_avx512,
	.dot_fine = fasted_dot_fine_avx512,
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
	TILES_OF(avx512),
	ROWS_OF(avx512),
};

#ifdef FASTED_HAVE_AMX
static bool
available_amx(void)
{
	return available_avx512vnni() && fasted_amx_permitted();
}

/* Tiles are those of kernel_amx.c. */
const CpuKernel fasted_kernel_amx = {
	.name = "amx",
	.available = available_amx,
	.int8 = &fasted_int8_amx,
	.tile_rows = AMX_TILE,
	.tile_cols = AMX_TILE,
	.sweep = fasted_sweep_amx_fp32,
	ROWS_OF(avx512),
};
#endif

#endif							/* __x86_64__ */
