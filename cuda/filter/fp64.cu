/*-------------------------------------------------------------------------
 *
 * fp64.cu
 *	  The filter that computes every distance in canonical FP64.
 *
 * No bound, no quantisation: the ground truth, and what the paper's comparison
 * calls brute force in FP64.  A warp computes 8 x 4 distances side by side;
 * lane l holds partial sum l of each, and one transposing fold ends all 32.
 *
 *-------------------------------------------------------------------------
 */
#include "device/check.h"
#include "filter/exact_distance.cuh"
#include "filter/filter.h"

namespace fasted
{

namespace
{

constexpr int kTile = 128;
constexpr int kWarps = 8;
constexpr int kRows = 8;		/* of a warp's step */
constexpr int kColumns = 4;
constexpr int kWarpRows = kTile / kWarps;
constexpr int kStepsAcross = kTile / kColumns;
constexpr int kStepsInAll = kWarpRows / kRows * kStepsAcross;

/* The squared distance, or x.y, of pair (lane / kColumns, lane % kColumns). */
template <FastedMetric kMetric>
__device__ __forceinline__ double
step_sums(const Fp64Params &p, uint32_t row, uint32_t column)
{
	const float *x[kRows];
	const float *y[kColumns];
	double		sums[kRows * kColumns];

#pragma unroll
	for (int r = 0; r < kRows; r++)
		x[r] = p.a.row(min(row + r, p.a.rows - 1));
#pragma unroll
	for (int c = 0; c < kColumns; c++)
		y[c] = p.b.row(min(column + c, p.b.rows - 1));
#pragma unroll
	for (int i = 0; i < kRows * kColumns; i++)
		sums[i] = 0;

	for (uint32_t k = threadIdx.x % 32; k < p.dimensions; k += 32)
	{
		double		yk[kColumns];

#pragma unroll
		for (int c = 0; c < kColumns; c++)
			yk[c] = y[c][k];
#pragma unroll
		for (int r = 0; r < kRows; r++)
		{
			double		xk = x[r][k];

#pragma unroll
			for (int c = 0; c < kColumns; c++)
				sums[r * kColumns + c] =
					exact_add<kMetric>(sums[r * kColumns + c], xk, yk[c]);
		}
	}
	return exact_fold<kRows * kColumns>(sums);
}

/* The distance of rows at these places, if they are there. */
template <FastedMetric kMetric>
__device__ __forceinline__ double
distance_of(const Fp64Params &p, uint32_t i, uint32_t j, double sum)
{
	if constexpr (kMetric == FASTED_METRIC_COSINE)
		return exact_cosine(sum, p.a.square(min(i, p.a.rows - 1)),
							p.b.square(min(j, p.b.rows - 1)));
	else
		return __dsqrt_rn(sum);
}

template <FastedMetric kMetric>
__global__ void
__launch_bounds__(kWarps * 32)
fp64_kernel(const __grid_constant__ Fp64Params p)
{
	__shared__ Work work;
	__shared__ bool has_work;
	uint32_t	warp = threadIdx.x / 32;
	uint32_t	lane = threadIdx.x % 32;
	CandidateWriter writer;

	for (;;)
	{
		uint32_t	tile_m;
		uint32_t	tile_n;

		__syncthreads();
		if (threadIdx.x == 0)
			has_work = take_work(p.candidates, &work);
		__syncthreads();
		if (!has_work)
			break;
		if (!p.order.locate(work.item, &tile_m, &tile_n))
			continue;
		if (work.warp != kAllWarps && work.warp != warp)
			continue;

		for (uint32_t step = work.resume; step < kStepsInAll; step++)
		{
			uint32_t	row = tile_m * kTile + warp * kWarpRows
				+ step / kStepsAcross * kRows;
			uint32_t	column = tile_n * kTile + step % kStepsAcross * kColumns;

			if (row >= p.a.rows || column >= p.b.rows)
				continue;

			uint32_t	i = row + lane / kColumns;
			uint32_t	j = column + lane % kColumns;
			double		dist = distance_of<kMetric>(p, i, j, step_sums<kMetric>(p, row, column));
			bool		hit = dist <= p.eps && i < p.a.rows && j < p.b.rows
				&& (!p.order.triangle || i < j);
			uint32_t	hits = __ballot_sync(0xffffffff, hit);

			if (hits == 0)
				continue;
			if (!writer.reserve(p.candidates, __popc(hits)))
			{
				writer.give_up(p.candidates, work.item, warp, step);
				break;
			}

			uint32_t	slot = writer.take(__popc(hits))
				+ __popc(hits & ((1u << lane) - 1));

			if (hit)
				p.candidates.pairs[slot] = make_uint2(i, j);
		}
	}
	writer.close(p.candidates);
}

}								/* namespace */

void
launch_filter_fp64(const Fp64Params &params, const Device &device,
				   cudaStream_t stream)
{
	auto		kernel = params.a.squares != nullptr ? fp64_kernel<FASTED_METRIC_COSINE>
		: fp64_kernel<FASTED_METRIC_L2>;

	kernel<<<device.multiprocessors * 2, kWarps * 32, 0, stream>>>(params);
	check_launch("launching the FP64 filter");
}

}								/* namespace fasted */
