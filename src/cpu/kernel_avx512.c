/*-------------------------------------------------------------------------
 *
 * kernel_avx512.c
 *	  The CPU kernel for AVX-512: tiles of 8 x 48.
 *
 * The shape is that of tile_avx512.h.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_kernel.h"

#if defined(__x86_64__)

#include "kernel_amx.h"
#include "pack_body.h"
#include "tile_avx512.h"

#define KERNEL(name) name##_avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx2,fma")))

typedef float Word;
typedef __m512 Vec;

#define VEC_ZERO() _mm512_setzero_ps()
#define VEC_LOAD(p) _mm512_loadu_ps(p)
#define VEC_STORE(p, v) _mm512_storeu_ps(p, v)
#define VEC_SPLAT(p) _mm512_set1_ps(*(p))
#define VEC_MULTIPLY_ROW(c, a, b) \
	MULTIPLY_ROW_AVX512("vbroadcastss", "vfmadd231ps", c, a, b)
#define VEC_REACHES(g, a, b) _mm512_cmp_ps_mask(g, _mm512_add_ps(a, b), _CMP_GE_OQ)

#include "tile_kernel.inc.h"

TARGET static void
pack_avx512(PackSliver *job)
{
	pack_sliver(job, WIDTH);
}

TARGET static void
widen_avx512(const float *row, uint32_t dimensions, double *wide)
{
	widen_row(row, dimensions, wide);
}

/* sum + left * right, or + (left - right)^2. */
TARGET static inline __attribute__((always_inline)) __m512d
add_term_avx512(__m512d left, __m512d right, __m512d sum, bool product)
{
	__m512d		diff;

	if (product)
		return _mm512_fmadd_pd(left, right, sum);
	diff = _mm512_sub_pd(left, right);
	return _mm512_fmadd_pd(diff, diff, sum);
}

/*
 * Eight partial sums to a vector: sums[v] holds lanes 8v to 8v + 7.  One of x
 * and wide is NULL, and so is one of y and doubles; with doubles, wide has no room
 * beyond its end.  Sums of squared differences, or of products.  All that is
 * known at compile time.
 */
TARGET static inline __attribute__((always_inline)) double
sum_body_avx512(const float *x, const double *wide, const float *y, const double *doubles,
				uint32_t dimensions, bool product)
{
	__m512d		sums[4];
	__m256d		half;
	__m128d		low;
	uint32_t	k = 0;

	UNROLL for (int v = 0; v < 4; v++)
		sums[v] = _mm512_setzero_pd();

	for (; k + 32 <= dimensions; k += 32)
	{
		UNROLL for (int v = 0; v < 4; v++)
		{
			__m512d		left = wide != NULL ? _mm512_loadu_pd(wide + k + 8 * v)
				: _mm512_cvtps_pd(_mm256_loadu_ps(x + k + 8 * v));
			__m512d		right = doubles != NULL ? _mm512_loadu_pd(doubles + k + 8 * v)
				: _mm512_cvtps_pd(_mm256_loadu_ps(y + k + 8 * v));

			sums[v] = add_term_avx512(left, right, sums[v], product);
		}
	}
	if (k < dimensions)
	{
		uint32_t	lanes = (UINT32_C(1) << (dimensions - k)) - 1;

		UNROLL for (int v = 0; v < 4; v++)
		{
			__mmask8	mask = (__mmask8) (lanes >> (8 * v));
			__m512d		left = doubles != NULL ? _mm512_maskz_loadu_pd(mask, wide + k + 8 * v)
				: wide != NULL ? _mm512_loadu_pd(wide + k + 8 * v)
				: _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, x + k + 8 * v));
			__m512d		right = doubles != NULL ? _mm512_maskz_loadu_pd(mask, doubles + k + 8 * v)
				: _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, y + k + 8 * v));

			sums[v] = add_term_avx512(left, right, sums[v], product);
		}
	}

	sums[0] = _mm512_add_pd(sums[0], sums[2]);
	sums[1] = _mm512_add_pd(sums[1], sums[3]);
	sums[0] = _mm512_add_pd(sums[0], sums[1]);
	half = _mm256_add_pd(_mm512_castpd512_pd256(sums[0]),
						 _mm512_extractf64x4_pd(sums[0], 1));
	low = _mm_add_pd(_mm256_castpd256_pd128(half),
					 _mm256_extractf128_pd(half, 1));
	low = _mm_add_sd(low, _mm_unpackhi_pd(low, low));
	return _mm_cvtsd_f64(low);
}

/* sqrt may set errno; the instruction does not. */
TARGET static inline __attribute__((always_inline)) double
root_avx512(double square)
{
	__m128d		value = _mm_set_sd(square);

	return _mm_cvtsd_f64(_mm_sqrt_sd(value, value));
}

TARGET static double
distance_avx512(const float *x, const float *y, uint32_t dimensions)
{
	return root_avx512(sum_body_avx512(x, NULL, y, NULL, dimensions, false));
}

TARGET static double
distance_wide_avx512(const double *x, const float *y, uint32_t dimensions)
{
	return root_avx512(sum_body_avx512(NULL, x, y, NULL, dimensions, false));
}

TARGET static double
dot_avx512(const float *x, const float *y, uint32_t dimensions)
{
	return sum_body_avx512(x, NULL, y, NULL, dimensions, true);
}

TARGET static double
dot_wide_avx512(const double *x, const float *y, uint32_t dimensions)
{
	return sum_body_avx512(NULL, x, y, NULL, dimensions, true);
}

TARGET static double
distance_double_avx512(const double *x, const double *y, uint32_t dimensions)
{
	return root_avx512(sum_body_avx512(NULL, x, NULL, y, dimensions, false));
}

TARGET static double
dot_double_avx512(const double *x, const double *y, uint32_t dimensions)
{
	return sum_body_avx512(NULL, x, NULL, y, dimensions, true);
}

static bool
available_avx512(void)
{
	return __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512vl") &&
		__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool
available_avx512vnni(void)
{
	return available_avx512() && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512vnni");
}

#define TILES_AVX512 \
	.tile_rows = TILE_ROWS, \
	.tile_cols = TILE_COLS, \
	.sweep = sweep_avx512

#define FP32_AVX512 \
	.width = WIDTH, \
	.pack = pack_avx512, \
	.distance = distance_avx512, \
	.distance_wide = distance_wide_avx512, \
	.widen = widen_avx512, \
	.dot = dot_avx512, \
	.dot_wide = dot_wide_avx512, \
	.distance_double = distance_double_avx512, \
	.dot_double = dot_double_avx512

const CpuKernel fasted_kernel_avx512 = {
	.name = "avx512",
	.available = available_avx512,
	TILES_AVX512,
	FP32_AVX512,
};

/* The same, and INT8: kernel_avx512_int8.c. */
const CpuKernel fasted_kernel_avx512vnni = {
	.name = "avx512vnni",
	.available = available_avx512vnni,
	.int8 = &fasted_int8_avx512,
	TILES_AVX512,
	FP32_AVX512,
};

#ifdef FASTED_HAVE_AMX
static bool
available_amx(void)
{
	return available_avx512vnni() && fasted_amx_permitted();
}

/* The same, but for the tiles: kernel_amx.c and kernel_amx_fp32.c. */
const CpuKernel fasted_kernel_amx = {
	.name = "amx",
	.available = available_amx,
	.int8 = &fasted_int8_amx,
	.tile_rows = AMX_TILE,
	.tile_cols = AMX_TILE,
	.sweep = fasted_sweep_amx_fp32,
	FP32_AVX512,
};
#endif

#endif							/* __x86_64__ */
