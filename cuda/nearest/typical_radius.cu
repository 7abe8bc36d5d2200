/*-------------------------------------------------------------------------
 *
 * typical_radius.cu
 *	  How far about the k-th neighbour of a row is, to choose a filter by.
 *
 * Nothing here needs to be right.
 *
 *-------------------------------------------------------------------------
 */
#include <cub/block/block_radix_sort.cuh>

#include <cmath>
#include <vector>

#include "device/device.h"
#include "engine/host_device.h"
#include "nearest/near_task.h"

namespace fasted
{

namespace
{

constexpr int kBlock = 256;
constexpr int kEach = 8;
constexpr uint32_t kOthers = kBlock * kEach;
constexpr uint32_t kFarther = 4;	/* times the rank */

/* The distance of two rows, about; NaN: they have none. */
__device__ float
distance_of(const RowTable &a, uint32_t row, const RowTable &b, uint32_t other)
{
	double		sum = 0;

	for (uint32_t k = 0; k < a.dimensions; k++)
	{
		double		x = a.doubles ? a.staged_doubles(row)[k] : (double) a.staged_row(row)[k];
		double		y = b.doubles ? b.staged_doubles(other)[k] : (double) b.staged_row(other)[k];
		double		diff = x - y;

		sum += a.squares != nullptr ? x * y : diff * diff;
	}
	if (a.squares != nullptr)
		return (float) fmax(0.0, 1.0 - sum / sqrt(a.squares[row] * b.squares[other]));
	return (float) sqrt(sum);
}

/* One block a row. */
__global__ void
__launch_bounds__(kBlock)
radius_kernel(const RowTable a, const RowTable b, bool self, uint2 ranks, uint32_t rows,
			  uint32_t others, float *radii)
{
	using Sort = cub::BlockRadixSort<float, kBlock, kEach>;
	__shared__ typename Sort::TempStorage room;
	uint32_t	row = fasted_spread_row(blockIdx.x, rows, a.rows);
	float		dist[kEach];

	for (int i = 0; i < kEach; i++)
	{
		uint32_t	number = i * kBlock + threadIdx.x;
		uint32_t	other = number < others ? fasted_spread_row(number, others, b.rows) : 0;

		dist[i] = INFINITY;
		if (number < others && !(self && other == row))
			dist[i] = distance_of(a, row, b, other);
		if (isnan(dist[i]))
			dist[i] = INFINITY;
	}
	Sort(room).Sort(dist);
	for (int i = 0; i < kEach; i++)
	{
		if (threadIdx.x * kEach + i + 1 == ranks.x)
			radii[blockIdx.x] = dist[i];
		if (threadIdx.x * kEach + i + 1 == ranks.y)
			radii[rows + blockIdx.x] = dist[i];
	}
}

/* The one in the middle. */
double
median(float *begin, uint32_t count)
{
	std::nth_element(begin, begin + count / 2, begin + count);
	return begin[count / 2];
}

}								/* namespace */

/*
 * The sample may have less than one row in the place of k: how distances grow with
 * ranks tells how far that one were, at least half as far as the nearest that there is.
 */
double
find_typical_radius(const RowTable &a, const RowTable &b, bool self, uint32_t k, float *room,
					cudaStream_t stream)
{
	uint32_t	rows = std::min(a.rows, kSampledRadii);
	uint32_t	others = std::min(b.rows, kOthers);
	double		rank = std::min((double) k * others / b.rows, (double) others);
	uint32_t	near = std::max(1u, (uint32_t) std::ceil(rank));
	uint32_t	far = std::min(near * kFarther, others);
	std::vector<float> radii(2 * rows);

	radius_kernel<<<rows, kBlock, 0, stream>>>(a, b, self, make_uint2(near, far), rows, others,
											   room);
	check_launch("looking for neighbors in a sample");
	check_cuda(cudaMemcpyAsync(radii.data(), room, 2 * rows * sizeof(float),
							   cudaMemcpyDeviceToHost, stream),
			   "reading a sample");
	check_cuda(cudaStreamSynchronize(stream), "reading a sample");

	double		radius = median(radii.data(), rows);
	double		farther = median(radii.data() + rows, rows);

	if (!std::isfinite(radius))
		return NAN;
	if (radius > 0 && std::isfinite(farther) && farther > radius && far > near && rank < near)
		radius *= std::max(0.5, std::pow(rank / near, std::log(farther / radius)
										 / std::log((double) far / near)));
	return radius;
}

}								/* namespace fasted */
