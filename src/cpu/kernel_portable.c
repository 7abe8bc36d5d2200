/*-------------------------------------------------------------------------
 *
 * kernel_portable.c
 *	  The CPU kernel in plain C with GCC's vectors: tiles of 4 x 8.
 *
 * Eight vectors of sums, two of b and one of a: enough for the 16 registers of
 * SSE2, and well within the 32 of ARM.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../engine/exact_distance.h"
#include "cpu_kernel.h"
#include "pack_body.h"

#define KERNEL(name) name##_portable
#define TARGET
#define WIDTH 4
#define TILE_ROWS 4
#define TILE_SLIVERS 2
#define LANES 4

typedef float Word;
typedef Float4 Vec;
typedef int32_t Hit __attribute__((vector_size(16)));

/* A vector that may lie anywhere. */
typedef Float4 LooseVec __attribute__((aligned(4), may_alias));

#define VEC_ZERO() ((Vec) {0})
#define VEC_LOAD(p) (*(const LooseVec *) (p))
#define VEC_STORE(p, v) (*(LooseVec *) (p) = (v))
#define VEC_SPLAT(p) ((Vec) {*(p), *(p), *(p), *(p)})
#define VEC_MULTIPLY_ROW(c, a, b) \
	do \
	{ \
		Vec			splat = VEC_SPLAT(a); \
 \
		FOR_VECS(v) \
			(c)[v] += splat * (b)[v]; \
	} while (0)
#define VEC_REACHES(g, a, b) ((Hit) ((g) >= (a) + (b)))
#define HIT_NONE() ((Hit) {0})
#define HIT_OR(h, g) ((h) | (g))
#define HIT_ANY(h) (((h)[0] | (h)[1] | (h)[2] | (h)[3]) != 0)
#define HIT_BITS(h) hit_bits(h)

static inline __attribute__((always_inline)) uint32_t
hit_bits(Hit h)
{
	return ((uint32_t) h[0] & 1) | ((uint32_t) h[1] & 2) |
		((uint32_t) h[2] & 4) | ((uint32_t) h[3] & 8);
}

#include "tile_kernel.inc.h"

static void
pack_portable(PackSliver *job)
{
	pack_sliver(job, WIDTH);
}

static void
widen_portable(const float *row, uint32_t dimensions, double *wide)
{
	widen_row(row, dimensions, wide);
}

static double
distance_portable(const float *x, const float *y, uint32_t dimensions)
{
	return fasted_exact_distance(x, y, dimensions);
}

static double
distance_wide_portable(const double *x, const float *y, uint32_t dimensions)
{
	double		sums[FASTED_EXACT_LANES] = {0};

	for (uint32_t k = 0; k < dimensions; k += FASTED_EXACT_LANES)
	{
		uint32_t	left = dimensions - k;
		uint32_t	count = left < FASTED_EXACT_LANES ? left : FASTED_EXACT_LANES;

		for (uint32_t l = 0; l < count; l++)
		{
			double		diff = x[k + l] - (double) y[k + l];

			sums[l] = fma(diff, diff, sums[l]);
		}
	}
	return fasted_exact_fold(sums);
}

static double
dot_portable(const float *x, const float *y, uint32_t dimensions)
{
	return fasted_exact_dot(x, y, dimensions);
}

static double
dot_wide_portable(const double *x, const float *y, uint32_t dimensions)
{
	double		sums[FASTED_EXACT_LANES] = {0};

	for (uint32_t k = 0; k < dimensions; k++)
		sums[k % FASTED_EXACT_LANES] = fma(x[k], (double) y[k], sums[k % FASTED_EXACT_LANES]);
	return fasted_exact_sum(sums);
}

static double
distance_double_portable(const double *x, const double *y, uint32_t dimensions)
{
	return fasted_exact_distance_double(x, y, dimensions);
}

static double
dot_double_portable(const double *x, const double *y, uint32_t dimensions)
{
	return fasted_exact_dot_double(x, y, dimensions);
}

static bool
available_portable(void)
{
	return true;
}

const CpuKernel fasted_kernel_portable = {
	.name = "portable",
	.width = WIDTH,
	.tile_rows = TILE_ROWS,
	.tile_cols = TILE_COLS,
	.available = available_portable,
	.sweep = sweep_portable,
	.pack = pack_portable,
	.distance = distance_portable,
	.distance_wide = distance_wide_portable,
	.widen = widen_portable,
	.dot = dot_portable,
	.dot_wide = dot_wide_portable,
	.distance_double = distance_double_portable,
	.dot_double = dot_double_portable,
};
