/*-------------------------------------------------------------------------
 *
 * quantise.cu
 *	  Centring, scaling and rounding of rows, and the thresholds of engine/filter_bound.h.
 *
 *	  q = round(2^e (x - c)),  t = (|q|^2 - h(rho, eps)) / 2
 *
 * The proof that the thresholds lose no pair is in doc/internals/bound.md, sections 3 to 6, for rows
 * in FP16 and for rows in FP32 whose products are summed in FP64.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/form.h"

namespace fasted
{

namespace
{

/* Maximum number of sampled rows for the centre and the scale. */
constexpr uint32_t kSample = 4096;

/* Histogram bins: exponents -255 .. 255, and bin 0 for zero rows. */
constexpr int kBins = 512;
constexpr int kBinZero = 256;

/* The largest coordinate of typical rows is scaled to 2^7 .. 2^8; FP16 ends below 2^16. */
constexpr int kTypicalExponent = 7;
constexpr int kHeadroom = 8;

/* One sampled row in this many may be an outlier. */
constexpr uint32_t kOutliers = 1024;

constexpr float kLargestHalf = 65504.0f;

/* Maximum coordinate in FP32: no product of two rows then exceeds FP32's range. */
constexpr float kLargestSingle = 0x1p50f;

/*
 * Error of one mma or wgmma step of 16 dimensions, relative to the product of both rows' norms, in
 * units of 2^-24. The hardware reportedly sums at most 9 terms at a time (8 products and the
 * accumulator), twice per step.  It aligns the terms to the largest, truncates them at 24 bits, and
 * rounds each sum toward zero: 2 (9 + 2) = 22. Hopper, with 17 terms at 25 bits, has 10.5. The
 * bound is doubled for future GPUs.
 */
constexpr double kStepError = 44.0 / 16777216.0;
constexpr uint32_t kStepNumbers = kStepBytes / sizeof(__half);

/*
 * The same in FP64, per dimension.  If a step of 4 were as coarse as one in FP16, with 2^-52 for
 * each of 5 terms and twice for the sum, the error would be 3.5 2^-53. The bound is more than
 * double.
 */
constexpr double kErrorFp64 = 8 * FASTED_U64;

constexpr int kRowsPerBlock = 8;	/* one warp per row */
constexpr int kThresholdBlock = 256;
static_assert(kThresholdPad % kThresholdBlock == 0, "whole blocks of padding");

/* Counts the sampled rows by the exponent of their largest coordinate; one warp per row. */
__global__ void
exponents_kernel(const SampledRows rows, const float *centre, int *row_exponents,
				 uint32_t *histogram)
{
	uint32_t	i = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;

	if (i >= rows.count())
		return;

	const float *row = rows.row(i);
	double		largest = 0;

	for (uint32_t k = threadIdx.x % 32; k < rows.dimensions(); k += 32)
		largest = fmax(largest, fabs((double) row[k] - (centre ? centre[k] : 0.0)));
	largest = warp_max(largest);
	if (threadIdx.x % 32 == 0)
	{
		int			bin = 0;

		if (largest > 0)
			bin = isfinite(largest)
				? min(max(ilogb(largest) + kBinZero, 1), kBins - 1) : kBins - 1;
		row_exponents[i] = bin;
		atomicAdd(&histogram[bin], 1u);
	}
}

/*
 * The largest exponent of the sampled rows except for a few outliers; clears the histogram.  One
 * block of kBins threads.
 */
__global__ void
typical_kernel(uint32_t *histogram, uint32_t sampled, int *exponent, bool scale)
{
	__shared__ uint32_t counts[kBins];

	counts[threadIdx.x] = histogram[threadIdx.x];
	histogram[threadIdx.x] = 0;
	__syncthreads();
	if (threadIdx.x != 0)
		return;

	uint32_t	above = 0;
	int			bin = kBins - 1;

	while (bin > 0 && above + counts[bin] <= sampled / kOutliers)
		above += counts[bin--];
	if (!scale)
		exponent[1] = bin;
	else
		exponent[0] = bin == 0 ? 0 : kTypicalExponent - (bin - kBinZero);
}

/* Mean of the sampled rows except for outliers; blocks of 32 (dimensions) x 8 threads. */
__global__ void
centre_kernel(const SampledRows rows, const int *row_exponents, const int *exponent,
			  float *centre)
{
	__shared__ double sums[8][32];
	__shared__ uint32_t counts[8][32];
	uint32_t	k = blockIdx.x * 32 + threadIdx.x;
	double		sum = 0;
	uint32_t	count = 0;

	for (uint32_t i = threadIdx.y; i < rows.count() && k < rows.dimensions(); i += 8)
	{
		if (row_exponents[i] > exponent[1] + kHeadroom)
			continue;
		sum += rows.row(i)[k];
		count++;
	}
	sums[threadIdx.y][threadIdx.x] = sum;
	counts[threadIdx.y][threadIdx.x] = count;
	__syncthreads();
	if (threadIdx.y != 0 || k >= rows.dimensions())
		return;
	for (int y = 1; y < 8; y++)
	{
		sum += sums[y][threadIdx.x];
		count += counts[y][threadIdx.x];
	}

	double		mean = count > 0 ? sum / count : 0;

	centre[k] = isfinite(mean) ? (float) mean : 0;
}

/* Clamps a coordinate and rounds it to the type of quantized rows. */
__device__ __forceinline__ void
round_to(double value, __half *to)
{
	*to = __double2half(fmin(fmax(value, -(double) kLargestHalf), (double) kLargestHalf));
}

__device__ __forceinline__ void
round_to(double value, float *to)
{
	*to = (float) fmin(fmax(value, -(double) kLargestSingle), (double) kLargestSingle);
}

/*
 * Transforms and rounds rows to FP16 or FP32; `stride` is the row length in values.  One warp per
 * row.
 */
template <class Number>
__global__ void
quantise_kernel(const RowTable rows, const float *centre, const int *exponent,
				uint32_t stride, Number *values, RowNorm *norms)
{
	uint32_t	i = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
	uint32_t	lane = threadIdx.x % 32;

	if (i >= rows.rows)
		return;

	const float *row = rows.row(i);
	Number	   *out = values + (size_t) i * stride;
	double		scale = ldexp(1.0, *exponent);
	double		error2 = 0;
	double		norm2 = 0;

	for (uint32_t k = lane; k < stride; k += 32)
	{
		double		y = 0;

		if (k < rows.dimensions)
			y = ((double) row[k] - (double) centre[k]) * scale;

		Number		rounded;

		round_to(y, &rounded);

		double		q = (float) rounded;
		double		error = y - q;

		out[k] = rounded;
		error2 += error * error;
		norm2 += q * q;
	}
	error2 = warp_sum(error2);
	norm2 = warp_sum(norm2);
	if (lane == 0)
		norms[i] = {norm2, fasted_rho(error2, norm2, rows.dimensions)};
}

/* Computes thresholds; one thread per row or padding entry. */
__global__ void
thresholds_kernel(const RowNorm *norms, uint32_t rows, FormBound form, double eps,
				  uint32_t *thresholds)
{
	uint32_t	i = blockIdx.x * kThresholdBlock + threadIdx.x;

	if (i >= rows || form.has_no_pair(norms[i], eps))
	{
		thresholds[i] = form.padding();
		return;
	}

	RowNorm		norm = norms[i];

	/* Test builds omit a term of the bound, to show that the tests detect it. */
#ifdef FASTED_TEST_NO_GAMMA
	form.gamma = 0;
#endif
#ifdef FASTED_TEST_NO_RHO
	norm.rho = 0;
#endif
	thresholds[i] = form.threshold(norm.norm2, form.half(norm, eps));
}

uint32_t
blocks_for(uint32_t rows)
{
	return (rows + kRowsPerBlock - 1) / kRowsPerBlock;
}

}								/* namespace */

void
Transform::allocate(Budget &budget, uint32_t dimensions)
{
	const char *doing = "allocating device memory for the center of the rows";

	centre_.allocate(budget, dimensions, doing);
	exponent_.allocate(budget, 2, doing);
	row_exponents_.allocate(budget, kSample, doing);
	histogram_.allocate(budget, kBins, doing);
}

void
Transform::find(const SampledRows &all, cudaStream_t stream)
{
	SampledRows	rows = all.at_most(kSample);
	uint32_t	sampled = rows.count();
	uint32_t	blocks = blocks_for(sampled);

	check_cuda(cudaMemsetAsync(histogram_.get(), 0, kBins * sizeof(uint32_t), stream),
			   "clearing a histogram");
	exponents_kernel<<<blocks, kRowsPerBlock * 32, 0, stream>>>(
		rows, nullptr, row_exponents_.get(), histogram_.get());
	typical_kernel<<<1, kBins, 0, stream>>>(histogram_.get(), sampled, exponent_.get(), false);
	centre_kernel<<<(rows.dimensions() + 31) / 32, dim3(32, 8), 0, stream>>>(
		rows, row_exponents_.get(), exponent_.get(), centre_.get());
	exponents_kernel<<<blocks, kRowsPerBlock * 32, 0, stream>>>(
		rows, centre_.get(), row_exponents_.get(), histogram_.get());
	typical_kernel<<<1, kBins, 0, stream>>>(histogram_.get(), sampled, exponent_.get(), true);
	check_launch("finding the center and the scale of the rows");
}

void
launch_quantise(const RowTable &rows, const Transform &transform, Precision precision,
				void *values, RowNorm *norms, cudaStream_t stream)
{
	uint32_t	stride = row_bytes(rows.dimensions, precision) / element_bytes(precision);
	auto		quantise = [&](auto *to)
	{
		quantise_kernel<<<blocks_for(rows.rows), kRowsPerBlock * 32, 0, stream>>>(
			rows, transform.centre(), transform.exponent(), stride, to, norms);
		check_launch("quantizing rows");
	};

	if (precision == Precision::kFp32)
		quantise((float *) values);
	else
		quantise((__half *) values);
}

double
product_error(uint32_t dimensions, Precision precision)
{
	uint32_t	numbers = row_bytes(dimensions, precision) / element_bytes(precision);

	return precision == Precision::kInt8 ? 0
		: precision == Precision::kFp32 ? kErrorFp64 * numbers
		: kStepError * (numbers / kStepNumbers);
}

void
launch_thresholds(const RowNorm *norms, uint32_t rows, const FormBound &form, double eps,
				  uint32_t *thresholds, cudaStream_t stream)
{
	thresholds_kernel<<<padded_thresholds(rows) / kThresholdBlock, kThresholdBlock, 0, stream>>>(
		norms, rows, form, eps, thresholds);
	check_launch("computing thresholds of rows");
}

}								/* namespace fasted */
