/*-------------------------------------------------------------------------
 *
 * int8_transform.cu
 *	  The centre and the scale of INT8 rows, from a sample.
 *
 * Nothing here needs to be good for the filter to be right (doc/bound-int8.md):
 * it is as fast as this is good.
 *
 *-------------------------------------------------------------------------
 */
#include <cub/block/block_reduce.cuh>

#include "engine/filter_bound.h"
#include "rows/form.h"
#include "rows/rotation.cuh"

namespace fasted
{

namespace
{

/* Rows that show whether all are small integers; and that the scale is from. */
constexpr uint32_t kSampleRange = 4096;
constexpr uint32_t kSampleScale = 1024;

/* One sampled row in this many may be an outlier: it is clamped. */
constexpr uint32_t kOutliers = 32;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

/* Exponents -255 .. 255 and, at 0, zeros. */
constexpr int kBins = 512;
constexpr int kBinZero = 256;

/* Blocks of 32 dimensions x 8. */
__global__ void
range_kernel(const SpreadRows rows, float *centre, Int8Scale *scale)
{
	__shared__ float lows[8][32];
	__shared__ float highs[8][32];
	uint32_t	k = blockIdx.x * 32 + threadIdx.x;
	float		low = INFINITY;
	float		high = -INFINITY;

	for (uint32_t i = threadIdx.y; i < rows.count() && k < rows.dimensions(); i += 8)
	{
		float		x = rows.row(i)[k];
		bool		integer = x == rintf(x) && fabsf(x) <= FASTED_INT8_LARGEST_INTEGER;

		low = fminf(low, integer ? x : -INFINITY);
		high = fmaxf(high, x);
	}
	lows[threadIdx.y][threadIdx.x] = low;
	highs[threadIdx.y][threadIdx.x] = high;
	__syncthreads();
	if (threadIdx.y != 0 || k >= rows.dimensions())
		return;
	for (int y = 1; y < 8; y++)
	{
		low = fminf(low, lows[y][threadIdx.x]);
		high = fmaxf(high, highs[y][threadIdx.x]);
	}
	if (high - low <= 255)
		centre[k] = fasted_integer_centre(low, high);
	else
		scale->lossless = 0;
}

/* Rotates a sampled row, scaled by a power of two; emit as rotate_in_shared. */
template <typename Emit>
__device__ __forceinline__ void
rotate_sampled(const SpreadRows &rows, const float *centre, int exponent, float *places,
			   Emit emit)
{
	const float *row = rows.row(blockIdx.x);
	uint32_t	dimensions = rows.dimensions();

	rotate_in_shared(
		places, Rotation((dimensions + 31) / 32 * 32),
		[&](uint32_t k, float (&value)[4])
		{
			for (int i = 0; i < 4; i++)
				value[i] = k + i < dimensions
					? ldexpf(row[k + i] - centre[k + i], exponent) : 0.0f;
		},
		emit);
}

/* The largest coordinate of each sampled row; one block a row. */
__global__ void __launch_bounds__(kThreads)
largest_kernel(const SpreadRows rows, const float *centre, const int *exponent,
			   const Int8Scale *scale, float *largest)
{
	using BlockReduce = cub::BlockReduce<float, kThreads>;

	extern __shared__ float4 places[];
	__shared__ typename BlockReduce::TempStorage room;
	float		most = 0;

	if (scale->lossless)
		return;
	rotate_sampled(rows, centre, *exponent, (float *) places,
				   [&](uint32_t, const float (&value)[4])
				   {
					   for (int i = 0; i < 4; i++)
						   most = fmaxf(most, fabsf(value[i]) <= FLT_MAX
										? fabsf(value[i]) : INFINITY);
				   });

	most = BlockReduce(room).Reduce(most, [](float x, float y) { return fmaxf(x, y); });
	if (threadIdx.x == 0)
		largest[blockIdx.x] = most;
}

/*
 * The power of two that all but a few sampled rows stay below; 0 if these are
 * zeros.  One block of kBins threads.
 */
__global__ void
typical_kernel(const float *largest, uint32_t sampled, const Int8Scale *scale,
			   float *typical)
{
	__shared__ uint32_t counts[kBins];
	uint32_t	above = 0;
	int			bin = kBins - 1;

	if (scale->lossless)
		return;
	counts[threadIdx.x] = 0;
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < sampled; i += kBins)
	{
		float		most = largest[i];

		atomicAdd(&counts[most == 0 ? 0 : most > FLT_MAX ? kBins - 1
						  : ilogbf(most) + kBinZero], 1u);
	}
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	while (bin > 0 && above + counts[bin] <= sampled / kOutliers)
		above += counts[bin--];
	*typical = bin == 0 ? 0.0f : ldexpf(1.0f, min(bin - kBinZero + 1, 127));
}

/* A scale to try, for rows scaled by the power of two already. */
__device__ __forceinline__ float
tried_scale(float typical, int number)
{
	float		scale = 127.0f / typical;

	for (int i = 0; i < number; i++)
		scale *= FASTED_INT8_SCALE_STEP;
	return scale;
}

/*
 * The squared error of each sampled row with each scale, in units of the rows
 * before it; outliers, which no scale would fit, have none.  One block a row.
 */
__global__ void __launch_bounds__(kThreads)
errors_kernel(const SpreadRows rows, const float *centre, const int *exponent,
			  const Int8Scale *scale, const float *largest,
			  const float *typical, float *errors)
{
	extern __shared__ float4 places[];
	__shared__ float of_warp[kWarps][FASTED_INT8_SCALES];
	float		sums[FASTED_INT8_SCALES];
	float		scales[FASTED_INT8_SCALES];

	if (scale->lossless)
		return;
	if (!(largest[blockIdx.x] <= *typical) || *typical == 0)
	{
		if (threadIdx.x < FASTED_INT8_SCALES)
			errors[blockIdx.x * FASTED_INT8_SCALES + threadIdx.x] = 0;
		return;
	}
#pragma unroll
	for (int s = 0; s < FASTED_INT8_SCALES; s++)
	{
		sums[s] = 0;
		scales[s] = tried_scale(*typical, s);
	}
	rotate_sampled(rows, centre, *exponent, (float *) places,
				   [&](uint32_t, const float (&value)[4])
				   {
#pragma unroll
					   for (int s = 0; s < FASTED_INT8_SCALES; s++)
					   {
						   for (int i = 0; i < 4; i++)
						   {
							   float		v = value[i] * scales[s];
							   float		error = v - rintf(fminf(fmaxf(v, -128.0f), 127.0f));

							   sums[s] = fmaf(error, error, sums[s]);
						   }
					   }
				   });

#pragma unroll
	for (int s = 0; s < FASTED_INT8_SCALES; s++)
	{
		for (int o = 16; o > 0; o /= 2)
			sums[s] += __shfl_xor_sync(0xffffffff, sums[s], o);
		if (threadIdx.x % 32 == 0)
			of_warp[threadIdx.x / 32][s] = sums[s] / (scales[s] * scales[s]);
	}
	__syncthreads();
	if (threadIdx.x >= FASTED_INT8_SCALES)
		return;

	float		sum = 0;

	for (int w = 0; w < kWarps; w++)
		sum += of_warp[w][threadIdx.x];
	errors[blockIdx.x * FASTED_INT8_SCALES + threadIdx.x] = sum;
}

/*
 * The scale whose mean of the squared error is least.  Not of the error: the
 * number of rows within reach grows faster than the reach, so that a few rows
 * clipped badly cost more than all rows rounded a little better gain.  One block,
 * one warp a scale.
 */
__global__ void
choose_kernel(const float *errors, uint32_t sampled, const int *exponent,
			  const float *typical, Int8Scale *scale)
{
	__shared__ double sums[FASTED_INT8_SCALES];
	uint32_t	tried = threadIdx.x / 32;
	double		sum = 0;
	int			best = 0;

	if (scale->lossless || *typical == 0)
	{
		if (threadIdx.x == 0)
			scale->scale = 1;
		return;
	}
	for (uint32_t i = threadIdx.x % 32; i < sampled; i += 32)
		sum += errors[i * FASTED_INT8_SCALES + tried];
	for (int o = 16; o > 0; o /= 2)
		sum += __shfl_xor_sync(0xffffffff, sum, o);
	if (threadIdx.x % 32 == 0)
		sums[tried] = sum;
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	for (int s = 1; s < FASTED_INT8_SCALES; s++)
	{
		if (sums[s] < sums[best])
			best = s;
	}

	/* far inside FP32, whatever the rows */
	double		chosen = ldexp((double) tried_scale(*typical, best), *exponent);

	scale->scale = (float) fmin(fmax(chosen, 0x1p-110), 0x1p110);
}

/* The centre that the scale goes with. */
__global__ void
settle_kernel(const float *mean, const float *integers, const Int8Scale *scale,
			  uint32_t dimensions, float *centre)
{
	uint32_t	k = blockIdx.x * kThreads + threadIdx.x;

	if (k < dimensions)
		centre[k] = scale->lossless ? integers[k] : mean[k];
}

}								/* namespace */

size_t
Int8Transform::bytes(uint32_t dimensions)
{
	return Transform::bytes(dimensions)
		+ 2 * Budget::rounded(dimensions * sizeof(float))
		+ Budget::rounded(sizeof(Int8Scale))
		+ Budget::rounded(kSampleScale * sizeof(float)) + Budget::rounded(sizeof(float))
		+ Budget::rounded(kSampleScale * FASTED_INT8_SCALES * sizeof(float));
}

void
Int8Transform::allocate(Budget &budget, uint32_t dimensions)
{
	const char *doing = "allocating room for the scale of the rows";

	mean_.allocate(budget, dimensions);
	centre_.allocate(budget, dimensions, doing);
	integer_centre_.allocate(budget, dimensions, doing);
	scale_.allocate(budget, 1, doing);
	largest_.allocate(budget, kSampleScale, doing);
	typical_.allocate(budget, 1, doing);
	errors_.allocate(budget, kSampleScale * FASTED_INT8_SCALES, doing);
}

void
Int8Transform::find(const SpreadRows &rows, cudaStream_t stream)
{
	uint32_t	d = rows.dimensions();

	/* all bits set: lossless, unless range_kernel finds otherwise */
	check_cuda(cudaMemsetAsync(scale_.get(), 0xff, sizeof(Int8Scale), stream),
			   "preparing the scale of the rows");
	mean_.find(rows, stream);
	range_kernel<<<(d + 31) / 32, dim3(32, 8), 0, stream>>>(
		rows.at_most(kSampleRange), integer_centre_.get(), scale_.get());
	if (rows.count() > 0)
		find_scale(rows.at_most(kSampleScale), stream);
	settle_kernel<<<(d + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
		mean_.centre(), integer_centre_.get(), scale_.get(), d, centre_.get());
	check_launch("finding the centre and the scale of the rows");
}

void
Int8Transform::find_scale(const SpreadRows &rows, cudaStream_t stream)
{
	uint32_t	sampled = rows.count();
	int			bytes = (int) (Rotation((rows.dimensions() + 31) / 32 * 32).length
							   * sizeof(float));

	/* more than a kernel gets unasked */
	check_cuda(cudaFuncSetAttribute(largest_kernel,
									cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
			   "asking for shared memory");
	check_cuda(cudaFuncSetAttribute(errors_kernel,
									cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
			   "asking for shared memory");
	largest_kernel<<<sampled, kThreads, bytes, stream>>>(
		rows, mean_.centre(), mean_.exponent(), scale_.get(), largest_.get());
	typical_kernel<<<1, kBins, 0, stream>>>(
		largest_.get(), sampled, scale_.get(), typical_.get());
	errors_kernel<<<sampled, kThreads, bytes, stream>>>(
		rows, mean_.centre(), mean_.exponent(), scale_.get(), largest_.get(),
		typical_.get(), errors_.get());
	choose_kernel<<<1, FASTED_INT8_SCALES * 32, 0, stream>>>(
		errors_.get(), sampled, mean_.exponent(), typical_.get(), scale_.get());
}

}								/* namespace fasted */
