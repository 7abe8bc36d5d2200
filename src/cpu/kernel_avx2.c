/*-------------------------------------------------------------------------
 *
 * kernel_avx2.c
 *	  The CPU kernel for AVX2 and FMA: tiles of 4 x 24.
 *
 * 12 vectors of sums, 3 of b and 1 of a fill the 16 registers; each coordinate
 * takes 12 fused multiply-adds and 7 loads.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernel_avxvnni.h"
#include "pack_body.h"
#include "tile_avx2.h"

#define KERNEL(name) name##_avx2
#define TARGET __attribute__((target("avx2,fma")))
typedef float Word;
typedef __m256 Vec;

#define VEC_ZERO() _mm256_setzero_ps()
#define VEC_LOAD(p) _mm256_loadu_ps(p)
#define VEC_STORE(p, v) _mm256_storeu_ps(p, v)
#define VEC_SPLAT(p) _mm256_broadcast_ss(p)
/*
 * A row of a tile by hand.  Left the choice, compilers take forms of the
 * instruction that overwrite a factor, or load ahead, and then spill sums in
 * the inner loop: GCC 14 halved the speed.  The clobber of memory keeps the
 * loads of the next coordinate behind this one.
 */
#define VEC_MULTIPLY_ROW(c, a, b) \
	__asm__ volatile ("vbroadcastss %[x], %%ymm15\n\t" \
					  "vfmadd231ps %[b0], %%ymm15, %[c0]\n\t" \
					  "vfmadd231ps %[b1], %%ymm15, %[c1]\n\t" \
					  "vfmadd231ps %[b2], %%ymm15, %[c2]" \
					  : [c0] "+x" ((c)[0]), [c1] "+x" ((c)[1]), [c2] "+x" ((c)[2]) \
					  : [b0] "x" ((b)[0]), [b1] "x" ((b)[1]), [b2] "x" ((b)[2]), [x] "m" (*(a)) \
					  : "xmm15", "memory")
#define VEC_REACHES(g, a, b) _mm256_cmp_ps(g, _mm256_add_ps(a, b), _CMP_GE_OQ)

#include "tile_kernel.inc.h"

TARGET static void
pack_avx2(PackSliver *job)
{
	pack_sliver(job, WIDTH);
}

TARGET static void
widen_avx2(const float *row, uint32_t dimensions, double *wide)
{
	widen_row(row, dimensions, wide);
}

/* The first `left` of four floats, in FP64; zeros after them. */
TARGET static inline __attribute__((always_inline)) __m256d
load_rest_avx2(const float *p, int left)
{
	__m128i		lane = _mm_setr_epi32(0, 1, 2, 3);

	return _mm256_cvtps_pd(_mm_maskload_ps(p, _mm_cmpgt_epi32(_mm_set1_epi32(left),
															  lane)));
}

/* The first `left` of four doubles; zeros after them. */
TARGET static inline __attribute__((always_inline)) __m256d
load_rest_double_avx2(const double *p, int left)
{
	__m256i		lane = _mm256_setr_epi64x(0, 1, 2, 3);

	return _mm256_maskload_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(left), lane));
}

/* sum + left * right, or + (left - right)^2. */
TARGET static inline __attribute__((always_inline)) __m256d
add_term_avx2(__m256d left, __m256d right, __m256d sum, bool product)
{
	__m256d		diff;

	if (product)
		return _mm256_fmadd_pd(left, right, sum);
	diff = _mm256_sub_pd(left, right);
	return _mm256_fmadd_pd(diff, diff, sum);
}

/*
 * Four partial sums to a vector: sums[v] holds lanes 4v to 4v + 3.  One of x
 * and wide is NULL, and so is one of y and doubles; with doubles, wide has no room
 * beyond its end.  Sums of squared differences, or of products.  All that is
 * known at compile time.
 */
TARGET static inline __attribute__((always_inline)) double
sum_body_avx2(const float *x, const double *wide, const float *y, const double *doubles,
			  uint32_t dimensions, bool product)
{
	__m256d		sums[8];
	__m128d		low;
	uint32_t	k = 0;

	UNROLL for (int v = 0; v < 8; v++)
		sums[v] = _mm256_setzero_pd();

	for (; k + 32 <= dimensions; k += 32)
	{
		UNROLL for (int v = 0; v < 8; v++)
		{
			__m256d		left = wide != NULL ? _mm256_loadu_pd(wide + k + 4 * v)
				: _mm256_cvtps_pd(_mm_loadu_ps(x + k + 4 * v));
			__m256d		right = doubles != NULL ? _mm256_loadu_pd(doubles + k + 4 * v)
				: _mm256_cvtps_pd(_mm_loadu_ps(y + k + 4 * v));

			sums[v] = add_term_avx2(left, right, sums[v], product);
		}
	}
	if (k < dimensions)
	{
		UNROLL for (int v = 0; v < 8; v++)
		{
			int			rest = (int) (dimensions - k) - 4 * v;
			__m256d		left = doubles != NULL ? load_rest_double_avx2(wide + k + 4 * v, rest)
				: wide != NULL ? _mm256_loadu_pd(wide + k + 4 * v)
				: load_rest_avx2(x + k + 4 * v, rest);
			__m256d		right = doubles != NULL ? load_rest_double_avx2(doubles + k + 4 * v, rest)
				: load_rest_avx2(y + k + 4 * v, rest);

			sums[v] = add_term_avx2(left, right, sums[v], product);
		}
	}

	UNROLL for (int v = 0; v < 4; v++)
		sums[v] = _mm256_add_pd(sums[v], sums[v + 4]);
	UNROLL for (int v = 0; v < 2; v++)
		sums[v] = _mm256_add_pd(sums[v], sums[v + 2]);
	sums[0] = _mm256_add_pd(sums[0], sums[1]);
	low = _mm_add_pd(_mm256_castpd256_pd128(sums[0]),
					 _mm256_extractf128_pd(sums[0], 1));
	low = _mm_add_sd(low, _mm_unpackhi_pd(low, low));
	return _mm_cvtsd_f64(low);
}

/* sqrt may set errno; the instruction does not. */
TARGET static inline __attribute__((always_inline)) double
root_avx2(double square)
{
	__m128d		value = _mm_set_sd(square);

	return _mm_cvtsd_f64(_mm_sqrt_sd(value, value));
}

TARGET static double
distance_avx2(const float *x, const float *y, uint32_t dimensions)
{
	return root_avx2(sum_body_avx2(x, NULL, y, NULL, dimensions, false));
}

TARGET static double
distance_wide_avx2(const double *x, const float *y, uint32_t dimensions)
{
	return root_avx2(sum_body_avx2(NULL, x, y, NULL, dimensions, false));
}

TARGET static double
dot_avx2(const float *x, const float *y, uint32_t dimensions)
{
	return sum_body_avx2(x, NULL, y, NULL, dimensions, true);
}

TARGET static double
dot_wide_avx2(const double *x, const float *y, uint32_t dimensions)
{
	return sum_body_avx2(NULL, x, y, NULL, dimensions, true);
}

TARGET static double
distance_double_avx2(const double *x, const double *y, uint32_t dimensions)
{
	return root_avx2(sum_body_avx2(NULL, x, NULL, y, dimensions, false));
}

TARGET static double
dot_double_avx2(const double *x, const double *y, uint32_t dimensions)
{
	return sum_body_avx2(NULL, x, NULL, y, dimensions, true);
}

static bool
available_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#define FP32_AVX2 \
	.width = WIDTH, \
	.tile_rows = TILE_ROWS, \
	.tile_cols = TILE_COLS, \
	.sweep = sweep_avx2, \
	.pack = pack_avx2, \
	.distance = distance_avx2, \
	.distance_wide = distance_wide_avx2, \
	.widen = widen_avx2, \
	.dot = dot_avx2, \
	.dot_wide = dot_wide_avx2, \
	.distance_double = distance_double_avx2, \
	.dot_double = dot_double_avx2

const CpuKernel fasted_kernel_avx2 = {
	.name = "avx2",
	.available = available_avx2,
	FP32_AVX2,
};

/* The same, and INT16: kernel_avx2_int16.c. */
const CpuKernel fasted_kernel_avx2int16 = {
	.name = "avx2int16",
	.available = available_avx2,
	.int8 = &fasted_int16_avx2,
	FP32_AVX2,
};

#ifdef FASTED_HAVE_AVXVNNI
static bool
available_avxvnni(void)
{
	return available_avx2() && fasted_avxvnni_present();
}

/* The same, and INT8: kernel_avxvnni.c. */
const CpuKernel fasted_kernel_avxvnni = {
	.name = "avxvnni",
	.available = available_avxvnni,
	.int8 = &fasted_int8_avxvnni,
	FP32_AVX2,
};
#endif

#endif							/* __x86_64__ */
