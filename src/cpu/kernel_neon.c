/*-------------------------------------------------------------------------
 *
 * kernel_neon.c
 *	  The CPU kernels for 64-bit ARM: FP32 in tiles of 8 x 8.
 *
 * No speed was measured: the tests run under an emulator.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_kernel.h"

#if defined(__aarch64__)

#include <math.h>
#include <sys/auxv.h>

#include "pack_body.h"
#include "tile_neon.h"

#define KERNEL(name) name##_neon
#define TARGET

typedef float Word;
typedef float32x4_t Vec;

#define VEC_ZERO() vdupq_n_f32(0.0f)
#define VEC_LOAD(p) vld1q_f32(p)
#define VEC_STORE(p, v) vst1q_f32(p, v)
#define VEC_SPLAT(p) vdupq_n_f32(*(p))
#define VEC_MULTIPLY_ROW(c, a, b) \
	do \
	{ \
		FOR_VECS(v) \
			(c)[v] = vfmaq_n_f32((c)[v], (b)[v], *(a)); \
	} while (0)
#define VEC_REACHES(g, a, b) vcgeq_f32(g, vaddq_f32(a, b))

#include "tile_kernel.inc.h"

/* Vectors of two partial sums each. */
#define SUM_VECS 16

static void
pack_neon(PackSliver *job)
{
	pack_sliver(job, WIDTH);
}

static void
widen_neon(const float *row, uint32_t dimensions, double *wide)
{
	widen_row(row, dimensions, wide);
}

/* Adds 32 coordinates: sums[v] holds lanes 2v and 2v + 1. */
static inline __attribute__((always_inline)) void
add_terms(float64x2_t *sums, const float *x, const double *wide, const float *y,
		  const double *doubles, bool product)
{
	UNROLL for (int v = 0; v < SUM_VECS; v++)
	{
		float64x2_t left = wide != NULL ? vld1q_f64(wide + 2 * v) : vcvt_f64_f32(vld1_f32(x + 2 * v));
		float64x2_t right = doubles != NULL ? vld1q_f64(doubles + 2 * v)
			: vcvt_f64_f32(vld1_f32(y + 2 * v));
		float64x2_t diff = vsubq_f64(left, right);

		sums[v] = product ? vfmaq_f64(sums[v], left, right) : vfmaq_f64(sums[v], diff, diff);
	}
}

/*
 * One of x and wide is NULL, and so is one of y and doubles; with doubles, wide has no
 * room beyond its end.  The sum of squared differences, or of products.  All that
 * is known at compile time.
 */
static inline __attribute__((always_inline)) double
sum_body_neon(const float *x, const double *wide, const float *y, const double *doubles,
			  uint32_t dimensions, bool product)
{
	float64x2_t sums[SUM_VECS];
	uint32_t	k = 0;

	UNROLL for (int v = 0; v < SUM_VECS; v++)
		sums[v] = vdupq_n_f64(0.0);
	for (; k + 32 <= dimensions; k += 32)
		add_terms(sums, wide != NULL ? NULL : x + k, wide != NULL ? wide + k : NULL,
				  doubles != NULL ? NULL : y + k, doubles != NULL ? doubles + k : NULL, product);
	if (k < dimensions && doubles != NULL)
	{
		double		last_x[32] = {0};
		double		last_y[32] = {0};

		memcpy(last_x, wide + k, (dimensions - k) * sizeof(double));
		memcpy(last_y, doubles + k, (dimensions - k) * sizeof(double));
		add_terms(sums, NULL, last_x, NULL, last_y, product);
	}
	else if (k < dimensions)
	{
		float		last_x[32] = {0};
		float		last_y[32] = {0};

		if (wide == NULL)
			memcpy(last_x, x + k, (dimensions - k) * sizeof(float));
		memcpy(last_y, y + k, (dimensions - k) * sizeof(float));
		add_terms(sums, wide != NULL ? NULL : last_x, wide != NULL ? wide + k : NULL, last_y, NULL,
				  product);
	}
	UNROLL for (int v = 0; v < 8; v++)
		sums[v] = vaddq_f64(sums[v], sums[v + 8]);
	UNROLL for (int v = 0; v < 4; v++)
		sums[v] = vaddq_f64(sums[v], sums[v + 4]);
	UNROLL for (int v = 0; v < 2; v++)
		sums[v] = vaddq_f64(sums[v], sums[v + 2]);
	sums[0] = vaddq_f64(sums[0], sums[1]);
	return vgetq_lane_f64(sums[0], 0) + vgetq_lane_f64(sums[0], 1);
}

static double
distance_neon(const float *x, const float *y, uint32_t dimensions)
{
	return sqrt(sum_body_neon(x, NULL, y, NULL, dimensions, false));
}

static double
distance_wide_neon(const double *x, const float *y, uint32_t dimensions)
{
	return sqrt(sum_body_neon(NULL, x, y, NULL, dimensions, false));
}

static double
dot_neon(const float *x, const float *y, uint32_t dimensions)
{
	return sum_body_neon(x, NULL, y, NULL, dimensions, true);
}

static double
dot_wide_neon(const double *x, const float *y, uint32_t dimensions)
{
	return sum_body_neon(NULL, x, y, NULL, dimensions, true);
}

static double
distance_double_neon(const double *x, const double *y, uint32_t dimensions)
{
	return sqrt(sum_body_neon(NULL, x, NULL, y, dimensions, false));
}

static double
dot_double_neon(const double *x, const double *y, uint32_t dimensions)
{
	return sum_body_neon(NULL, x, NULL, y, dimensions, true);
}

static bool
available_neon(void)
{
	return true;
}

static bool
available_sdot(void)
{
#ifdef HWCAP_ASIMDDP
	return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
	return false;
#endif
}

#define FP32_NEON \
	.width = WIDTH, \
	.tile_rows = TILE_ROWS, \
	.tile_cols = TILE_COLS, \
	.sweep = sweep_neon, \
	.pack = pack_neon, \
	.distance = distance_neon, \
	.distance_wide = distance_wide_neon, \
	.widen = widen_neon, \
	.dot = dot_neon, \
	.dot_wide = dot_wide_neon, \
	.distance_double = distance_double_neon, \
	.dot_double = dot_double_neon

const CpuKernel fasted_kernel_neon = {
	.name = "neon",
	.available = available_neon,
	FP32_NEON,
};

/* The same, and INT8: kernel_neon_sdot.c. */
const CpuKernel fasted_kernel_sdot = {
	.name = "sdot",
	.available = available_sdot,
	.int8 = &fasted_int8_sdot,
	FP32_NEON,
};

#endif							/* __aarch64__ */
