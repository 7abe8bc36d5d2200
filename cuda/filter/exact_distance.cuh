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
#include <type_traits>

#include "engine/engine.h"
#include "rows/row_table.h"

namespace fasted
{

/* Number of pairs whose distances a warp computes concurrently. */
constexpr int kPairBatch = 4;

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

/* Calls visit with a metric as a constant (an std::integral_constant), and returns its result. */
template <class Visit>
auto
for_metric(FastedMetric metric, const Visit &visit)
{
	switch (metric)
	{
		case FASTED_METRIC_COSINE:
			return visit(std::integral_constant<FastedMetric, FASTED_METRIC_COSINE>());
		case FASTED_METRIC_INNER_PRODUCT:
			return visit(std::integral_constant<FastedMetric, FASTED_METRIC_INNER_PRODUCT>());
		case FASTED_METRIC_HAMMING:
			return visit(std::integral_constant<FastedMetric, FASTED_METRIC_HAMMING>());
		case FASTED_METRIC_JACCARD:
			return visit(std::integral_constant<FastedMetric, FASTED_METRIC_JACCARD>());
		case FASTED_METRIC_L2:
			break;
	}
	return visit(std::integral_constant<FastedMetric, FASTED_METRIC_L2>());
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

/*
 * Sums of squared differences, or x.y, of kPairBatch pairs of this warp from `first` on, one
 * dimension per lane.  Number is the type of the staged rows: float or double.
 */
template <FastedMetric kMetric, class Number>
__device__ __forceinline__ double
sums_by_warp(const RowTable &a, const RowTable &b, uint2 mine, uint32_t first)
{
	const Number *x[kPairBatch];
	const Number *y[kPairBatch];
	double		sums[kPairBatch];

#pragma unroll
	for (int i = 0; i < kPairBatch; i++)
	{
		x[i] = a.staged<Number>(__shfl_sync(0xffffffff, mine.x, first + i));
		y[i] = b.staged<Number>(__shfl_sync(0xffffffff, mine.y, first + i));
		sums[i] = 0;
	}
#pragma unroll 4
	for (uint32_t k = threadIdx.x % 32; k < a.dimensions; k += 32)
	{
#pragma unroll
		for (int i = 0; i < kPairBatch; i++)
			sums[i] = exact_add<kMetric>(sums[i], x[i][k], y[i][k]);
	}
	return exact_fold<kPairBatch>(sums);
}

/*
 * The same for rows of floats aligned to 16 bytes: eight lanes per pair, four dimensions per
 * lane, and kAhead outstanding loads of each row.  The number of bytes in flight limits the
 * throughput of the recheck.
 */
template <FastedMetric kMetric>
__device__ __forceinline__ double
sums_by_eights(const RowTable &a, const RowTable &b, uint2 mine, uint32_t first)
{
	constexpr int kAhead = 4;
	uint32_t	pair = first + threadIdx.x % 32 / 8;
	uint32_t	begin = threadIdx.x % 8 * 4;
	const float *x = a.staged(__shfl_sync(0xffffffff, mine.x, pair));
	const float *y = b.staged(__shfl_sync(0xffffffff, mine.y, pair));
	ExactSums<kMetric> sums;

	for (uint32_t k = begin; k < a.dimensions; k += 32 * kAhead)
	{
		float4		xs[kAhead];
		float4		ys[kAhead];

		/* dimensions beyond the last are zero and add nothing */
#pragma unroll
		for (int i = 0; i < kAhead; i++)
		{
			bool		there = k + i * 32 < a.dimensions;

			xs[i] = there ? *(const float4 *) &x[k + i * 32] : make_float4(0, 0, 0, 0);
			ys[i] = there ? *(const float4 *) &y[k + i * 32] : make_float4(0, 0, 0, 0);
		}
#pragma unroll
		for (int i = 0; i < kAhead; i++)
			sums.add(xs[i], ys[i]);
	}
	return sums.fold();
}

/*
 * The number of bits in which the rows of a pair differ: eight lanes per pair, one Word
 * per lane.
 */
template <class Word>
__device__ __forceinline__ uint32_t
words_by_eights(const uint64_t *row_x, const uint64_t *row_y, uint32_t words)
{
	constexpr int kAhead = 4;
	const Word *x = (const Word *) row_x;
	const Word *y = (const Word *) row_y;
	uint32_t	differ = 0;

	for (uint32_t w = threadIdx.x % 8; w < words; w += 8 * kAhead)
	{
#pragma unroll
		for (int i = 0; i < kAhead; i++)
			differ += w + i * 8 < words ? bits_that_differ(x[w + i * 8], y[w + i * 8]) : 0;
	}
	return differ;
}

/* The same, in FP64 and for all eight lanes.  Two words are read at once if rows are aligned. */
__device__ __forceinline__ double
bits_by_eights(const RowTable &a, const RowTable &b, uint2 mine, uint32_t first)
{
	uint32_t	pair = first + threadIdx.x % 32 / 8;
	uint32_t	words = a.dimensions;
	const uint64_t *x = a.staged<uint64_t>(__shfl_sync(0xffffffff, mine.x, pair));
	const uint64_t *y = b.staged<uint64_t>(__shfl_sync(0xffffffff, mine.y, pair));
	uint32_t	differ = words % 2 == 0 ? words_by_eights<ulonglong2>(x, y, words / 2)
		: words_by_eights<uint64_t>(x, y, words);

	for (int o = 4; o > 0; o /= 2)
		differ += __shfl_xor_sync(0xffffffff, differ, o);
	return differ;
}

/* How a warp adds up the dimensions of pairs. */
enum class Summation
{
	kByWarp,
	kByEights,
	kDoubles,
	kBits
};

/*
 * The sum from which exact_distance computes the distance of this lane's pair.  The warp
 * processes its pairs kPairBatch at a time, so that the loads of several pairs are outstanding
 * together.
 */
template <FastedMetric kMetric, Summation kSummation>
__device__ __forceinline__ double
sum_of_pair(const RowTable &a, const RowTable &b, uint2 mine, uint32_t pairs)
{
	uint32_t	lane = threadIdx.x % 32;
	double		result = 0;

	for (uint32_t first = 0; first < pairs; first += kPairBatch)
	{
		double		sum = kSummation == Summation::kBits ? bits_by_eights(a, b, mine, first)
			: kSummation == Summation::kDoubles ? sums_by_warp<kMetric, double>(a, b, mine, first)
			: kSummation == Summation::kByEights ? sums_by_eights<kMetric>(a, b, mine, first)
			: sums_by_warp<kMetric, float>(a, b, mine, first);

		sum = __shfl_sync(0xffffffff, sum, lane % kPairBatch * (32 / kPairBatch));
		if (lane / kPairBatch == first / kPairBatch)
			result = sum;
	}
	return result;
}

/* Calls visit with the metric and the summation of rows as constants, and returns its result. */
template <class Visit>
auto
for_summation(const RowTable &rows, const Visit &visit)
{
	return for_metric(rows.metric, [&](auto metric)
	{
		if constexpr (is_of_bits(metric))
			return visit(metric, std::integral_constant<Summation, Summation::kBits>());
		else if (rows.doubles)
			return visit(metric, std::integral_constant<Summation, Summation::kDoubles>());
		else if (rows.dimensions % 4 == 0)
			return visit(metric, std::integral_constant<Summation, Summation::kByEights>());
		else
			return visit(metric, std::integral_constant<Summation, Summation::kByWarp>());
	});
}

}								/* namespace fasted */

#endif							/* FASTED_CUDA_EXACT_DISTANCE_CUH */
