/*-------------------------------------------------------------------------
 *
 * exact_distance.cuh
 *	  The canonical FP64 distances of engine/exact_distance.h, computed by a warp.
 *
 * Lane l accumulates partial sum l.  Every operation is one correctly rounded IEEE operation in
 * the order of the definition, so the result is bit-identical to that of the CPU. Intrinsics
 * prevent the compiler from fusing other operations.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_EXACT_DISTANCE_CUH
#define FASTED_CUDA_EXACT_DISTANCE_CUH

#include <cstdint>

#include "engine/engine.h"
#include "rows/row_table.h"

namespace fasted
{

/* Adds one dimension to a partial sum: a squared difference, or a product. */
template <FastedMetric kMetric>
__device__ __forceinline__ double
exact_add(double sum, double x, double y)
{
	double		diff;

	if constexpr (kMetric == FASTED_METRIC_COSINE || kMetric == FASTED_METRIC_INNER_PRODUCT)
		return __fma_rn(x, y, sum);
	diff = __dsub_rn(x, y);
	return __fma_rn(diff, diff, sum);
}

/* The cosine distance, from x.y, x.x and y.y. */
__device__ __forceinline__ double
exact_cosine(double xy, double xx, double yy)
{
	double		similarity = __ddiv_rn(xy, __dsqrt_rn(__dmul_rn(xx, yy)));

	/* not fmin and fmax, which would drop a NaN */
	similarity = similarity > 1.0 ? 1.0 : similarity < -1.0 ? -1.0 : similarity;
	return __dsub_rn(1.0, similarity);
}

/* The Jaccard distance, from the numbers of bits of both rows and of bits in which they differ. */
__device__ __forceinline__ double
exact_jaccard(double ones_x, double ones_y, double differ)
{
	/* integers, which FP64 represents exactly */
	double		common = 0.5 * (ones_x + ones_y - differ);

	return common == 0.0 ? 1.0 : __ddiv_rn(differ, common + differ);
}

/* Returns the number of bits in which two words differ. */
__device__ __forceinline__ uint32_t
bits_that_differ(uint64_t x, uint64_t y)
{
	return __popcll(x ^ y);
}

__device__ __forceinline__ uint32_t
bits_that_differ(const ulonglong2 &x, const ulonglong2 &y)
{
	return __popcll(x.x ^ y.x) + __popcll(x.y ^ y.y);
}

/* The distance of two rows with these numbers, from the sum over their dimensions. */
template <FastedMetric kMetric>
__device__ __forceinline__ double
exact_distance(const RowTable &a, uint32_t row_a, const RowTable &b, uint32_t row_b, double sum)
{
	if constexpr (kMetric == FASTED_METRIC_COSINE)
		return exact_cosine(sum, a.squares[row_a], b.squares[row_b]);
	else if constexpr (kMetric == FASTED_METRIC_INNER_PRODUCT)
		return __dsub_rn(0.0, sum);
	else if constexpr (kMetric == FASTED_METRIC_HAMMING)
		return sum;
	else if constexpr (kMetric == FASTED_METRIC_JACCARD)
		return exact_jaccard(a.squares[row_a], b.squares[row_b], sum);
	else
		return __dsqrt_rn(sum);
}

/*
 * Reduces the partial sums of kPairs pairs (a power of two, at most 32) over a warp.  Addition
 * commutes, so both lanes of a step would compute the same bits.  In each of the first steps, a
 * lane therefore passes half of its pairs to the other lane and reduces the other half, until one
 * pair remains.  Lane l returns the sum (a squared distance or x.y) of pair l / (32 / kPairs).
 */
template <int kPairs, int kOffset = 16>
__device__ __forceinline__ double
exact_fold(double (&sums)[kPairs])
{
	if constexpr (kOffset == 0)
		return sums[0];
	else if constexpr (kPairs == 1)
	{
		double		next[1] = {
			__dadd_rn(sums[0], __shfl_xor_sync(0xffffffff, sums[0], kOffset))};

		return exact_fold<1, kOffset / 2>(next);
	}
	else
	{
		bool		high = threadIdx.x & kOffset;
		double		next[kPairs / 2];

#pragma unroll
		for (int i = 0; i < kPairs / 2; i++)
		{
			double		mine = high ? sums[i + kPairs / 2] : sums[i];
			double		other = high ? sums[i] : sums[i + kPairs / 2];

			next[i] = __dadd_rn(mine, __shfl_xor_sync(0xffffffff, other, kOffset));
		}
		return exact_fold<kPairs / 2, kOffset / 2>(next);
	}
}

/*
 * The same with eight lanes per pair, for rows aligned to 16 bytes.  Lane l of the eight
 * accumulates partial sums 4 l to 4 l + 3 and reads four dimensions at a time.
 */
template <FastedMetric kMetric>
struct ExactSums
{
	double		sums[4] = {0, 0, 0, 0};

	__device__ __forceinline__ void
	add(const float4 &x, const float4 &y)
	{
		sums[0] = exact_add<kMetric>(sums[0], x.x, y.x);
		sums[1] = exact_add<kMetric>(sums[1], x.y, y.y);
		sums[2] = exact_add<kMetric>(sums[2], x.z, y.z);
		sums[3] = exact_add<kMetric>(sums[3], x.w, y.w);
	}

	/* Returns the sum in all eight lanes. */
	__device__ __forceinline__ double
	fold()
	{
		for (int lanes = 4; lanes >= 1; lanes /= 2)
		{
#pragma unroll
			for (int i = 0; i < 4; i++)
				sums[i] = __dadd_rn(sums[i], __shfl_xor_sync(0xffffffff, sums[i], lanes));
		}
		return __dadd_rn(__dadd_rn(sums[0], sums[2]), __dadd_rn(sums[1], sums[3]));
	}
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_EXACT_DISTANCE_CUH */
