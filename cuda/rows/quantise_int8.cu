/*-------------------------------------------------------------------------
 *
 * quantise_int8.cu
 *	  INT8 rows: the centre and the scale, rotation and rounding: q = clamp(round(s R (x - c))).
 *
 * One warp quantizes a row if its coordinates fit in registers, otherwise one block with shared
 * memory.  All arithmetic is FP32, and the thresholds account for its errors.  The proof that
 * they lose no pair is in doc/internals/bound-int8.md.
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

/*
 * The centre and the scale are found from a sample.  Their quality affects only the speed of the
 * filter, not its correctness (doc/internals/bound-int8.md).
 */

/* Maximum number of sampled rows to detect small integers, and to find the scale. */
constexpr uint32_t kSampleRange = 4096;
constexpr uint32_t kSampleScale = 1024;

/* One sampled row in this many may be an outlier, which is clamped. */
constexpr uint32_t kOutliers = 32;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

/* Histogram bins: exponents -255 .. 255, and bin 0 for zeros. */
constexpr int kBins = 512;
constexpr int kBinZero = 256;

/*
 * Checks whether all sampled rows are small integers, and finds the integer centre.  Blocks of 32
 * (dimensions) x 8 threads.
 */
__global__ void
range_kernel(const SampledRows rows, float *centre, Int8Scale *scale)
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

/* Rotates the sampled row of this block, scaled by 2^exponent; for `emit` see rotate_in_shared. */
template <typename Emit>
__device__ __forceinline__ void
rotate_sampled(const SampledRows &rows, const float *centre, int exponent, float *places,
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

/* The largest rotated coordinate of each sampled row; one block per row. */
__global__ void __launch_bounds__(kThreads)
largest_kernel(const SampledRows rows, const float *centre, const int *exponent,
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
 * The power of two that bounds largest[] except for a few outliers; 0 if these values are zero.
 * One block of kBins threads.
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

/* Candidate scale `number`, for rows already scaled by 2^exponent. */
__device__ __forceinline__ float
tried_scale(float typical, int number)
{
	float		scale = 127.0f / typical;

	for (int i = 0; i < number; i++)
		scale *= FASTED_INT8_SCALE_STEP;
	return scale;
}

/*
 * The squared error of each sampled row with each candidate scale, in units of the rotated rows
 * before this scale.  The error of outliers, which no scale fits, is 0. One block per row.
 */
__global__ void __launch_bounds__(kThreads)
errors_kernel(const SampledRows rows, const float *centre, const int *exponent,
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
		sums[s] = warp_sum(sums[s]);
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
 * Chooses the scale with the least mean squared error.  The mean error would be worse, because the
 * number of rows within reach grows faster than the reach.  A few badly clipped rows therefore cost
 * more than slightly better rounding of all rows gains.  One block, one warp per scale.
 */
__global__ void
choose_scale_kernel(const float *errors, uint32_t sampled, const int *exponent,
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
	sum = warp_sum(sum);
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

	/* well within the range of FP32 for any rows */
	double		chosen = ldexp((double) tried_scale(*typical, best), *exponent);

	scale->scale = (float) fmin(fmax(chosen, 0x1p-110), 0x1p110);
}

/* Chooses the centre that belongs to the scale; one thread per dimension. */
__global__ void
choose_centre_kernel(const float *mean, const float *integers, const Int8Scale *scale,
			  uint32_t dimensions, float *centre)
{
	uint32_t	k = blockIdx.x * kThreads + threadIdx.x;

	if (k < dimensions)
		centre[k] = scale->lossless ? integers[k] : mean[k];
}

constexpr int kRowsPerBlock = 4;	/* one warp per row */

/* Minimum row length for one block per row. */
constexpr uint32_t kLongRow = 4096;
constexpr uint32_t kMostThreads = 1024;

/* Arguments of the quantization kernels. */
struct QuantiseArguments
{
	RowTable	rows;
	const float *centre;
	const Int8Scale *scale;
	uint32_t	row_bytes;
	int8_t	   *values;
	RowNorm	   *norms;
};

/*
 * Loads C coordinates from k on (a multiple of C); zeros beyond the last.  Every lane loads
 * something: without a branch, loads need not wait for one another.
 */
template <int C, bool Vector>
__device__ __forceinline__ void
load_floats(const float *from, uint32_t k, uint32_t dimensions, float (&to)[C])
{
	if constexpr (Vector)
	{
		float4		four = __ldg((const float4 *) &from[k < dimensions ? k : 0]);

		static_assert(C == 4, "a vector is four coordinates");
		to[0] = four.x;
		to[1] = four.y;
		to[2] = four.z;
		to[3] = four.w;
#pragma unroll
		for (int i = 0; i < C; i++)
			to[i] = k < dimensions ? to[i] : 0.0f;
	}
	else
	{
#pragma unroll
		for (int i = 0; i < C; i++)
		{
			float		one = __ldg(&from[k + i < dimensions ? k + i : 0]);

			to[i] = k + i < dimensions ? one : 0.0f;
		}
	}
}

/* Returns true if the row can be read as float4. */
__device__ __forceinline__ bool
is_aligned(const float *row, uint32_t dimensions)
{
	return dimensions % 4 == 0 && (uintptr_t) row % 16 == 0;
}

__device__ __forceinline__ float
clamped(float value)
{
	return fminf(fmaxf(value, -128.0f), 127.0f);
}

/*
 * Adding this rounds a small value to the nearest integer, which is then in the low bits of the
 * sum, in two's complement.
 */
constexpr float kRounder = 12582912.0f; /* 1.5 * 2^23 */

/* The low bytes of four words. */
__device__ __forceinline__ uint32_t
packed(const uint32_t (&word)[4])
{
	return __byte_perm(__byte_perm(word[0], word[1], 0x0040),
					   __byte_perm(word[2], word[3], 0x0040), 0x5410);
}

/* The sums of a row that fasted_rho_clamped needs, or a thread's part of them. */
struct RowSums
{
	float		rounding2 = 0;	/* squared error of rounding after clamping */
	float		error2 = 0;		/* squared error of clamping and rounding */
	int32_t		norm2 = 0;
};

/* Stores a thread's coordinates of a row and accumulates its part of the sums. */
struct Writer
{
	int8_t	   *out;
	RowSums		sums;

	__device__ explicit Writer(int8_t *out_) : out(out_) {}

	/* Rounds and stores C coordinates from k on; q receives the rounded values. */
	template <int C>
	__device__ __forceinline__ void
	put(uint32_t k, const float (&value)[C], float (&q)[C])
	{
		uint32_t	word[4] = {0, 0, 0, 0};

#pragma unroll
		for (int i = 0; i < C; i++)
		{
			float		within = clamped(value[i]);
			float		rounded = __fadd_rn(within, kRounder);
			float		rounding;
			float		error;

			word[i] = __float_as_uint(rounded);
			q[i] = __fsub_rn(rounded, kRounder);
			rounding = __fsub_rn(within, q[i]);
			error = __fsub_rn(value[i], q[i]);
			sums.rounding2 = fmaf(rounding, rounding, sums.rounding2);
			sums.error2 = fmaf(error, error, sums.error2);
		}
		if constexpr (C == 1)
		{
			out[k] = (int8_t) word[0];
			sums.norm2 += (int32_t) q[0] * (int32_t) q[0];
		}
		else
		{
			uint32_t	four = packed(word);

			*(uint32_t *) &out[k] = four;
			sums.norm2 = __dp4a((int32_t) four, (int32_t) four, sums.norm2);
		}
	}
};

/* Loads a row's coordinates, centred and scaled. */
template <int C, bool Vector>
struct Source
{
	const float *row;
	const float *centre;
	uint32_t	dimensions;
	float		scale;

	__device__ __forceinline__ void
	load(uint32_t k, float (&value)[C]) const
	{
		float		x[C];
		float		c[C];

		load_floats<C, Vector>(row, k, dimensions, x);
		load_floats<C, Vector>(centre, k, dimensions, c);
#pragma unroll
		for (int i = 0; i < C; i++)
			value[i] = __fmul_rn(__fsub_rn(x[i], c[i]), scale);
	}
};

/*
 * Quantizes small integers, without scale or rotation.  Returns true if this thread's coordinates
 * are exact.
 */
__device__ __forceinline__ bool
put_lossless(const QuantiseArguments &job, const float *row, uint32_t thread, uint32_t threads,
			 Writer &writer)
{
	uint32_t	dimensions = job.rows.dimensions;
	bool		exact = true;

	for (uint32_t k = thread * 4; k < job.row_bytes; k += threads * 4)
	{
		float		x[4];
		float		c[4];
		float		value[4];
		float		q[4];

		if (is_aligned(row, dimensions))
		{
			load_floats<4, true>(row, k, dimensions, x);
			load_floats<4, true>(job.centre, k, dimensions, c);
		}
		else
		{
			load_floats<4, false>(row, k, dimensions, x);
			load_floats<4, false>(job.centre, k, dimensions, c);
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
			value[i] = __fsub_rn(x[i], c[i]);
		writer.put(k, value, q);

		/* the centre is an integer too, and this sum is exact */
#pragma unroll
		for (int i = 0; i < 4; i++)
			exact = exact && __fadd_rn(c[i], q[i]) == x[i];
	}
	return exact;
}

/* The norm and rho of a row, from its sums. */
__device__ __forceinline__ RowNorm
norm_of(const QuantiseArguments &job, bool exact, const RowSums &sums)
{
	return {(double) sums.norm2, exact ? 0.0
		: fasted_rho_clamped(sums.rounding2, sums.error2, sums.norm2, job.row_bytes)};
}

__device__ __forceinline__ RowSums
warp_sums(const RowSums &mine)
{
	return {warp_sum(mine.rounding2), warp_sum(mine.error2),
		__reduce_add_sync(0xffffffff, mine.norm2)};
}

template <int C, int P, bool Vector>
__device__ __forceinline__ void
put_rotated(const QuantiseArguments &job, const float *row, float scale, Writer &writer)
{
	Source<C, Vector> source = {row, job.centre, job.rows.dimensions, scale};

	rotate_in_registers<C, P>(
		job.row_bytes - 32 * C * P,
		[&](uint32_t k, float (&value)[C]) { source.load(k, value); },
		[&](uint32_t k, const float (&value)[C])
		{
			float		q[C];

			writer.put(k, value, q);
		});
}

/* Quantizes rows of 32 C P to 64 C P - 1 coordinates; one warp per row. */
template <int C, int P>
__global__ void __launch_bounds__(kRowsPerBlock * 32, P >= 16 ? 3 : 5)
quantise_registers_kernel(const QuantiseArguments job)
{
	uint32_t	number = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
	uint32_t	lane = threadIdx.x % 32;

	if (number >= job.rows.rows)
		return;

	const float *row = job.rows.row(number);
	Int8Scale	scale = *job.scale;
	Writer		writer(job.values + (size_t) number * job.row_bytes);
	bool		exact = false;

	if (scale.lossless)
		exact = put_lossless(job, row, lane, 32, writer);
	else if (C == 4 && is_aligned(row, job.rows.dimensions))
		put_rotated<C, P, C == 4>(job, row, scale.scale, writer);
	else
		put_rotated<C, P, false>(job, row, scale.scale, writer);

	RowSums		sums = warp_sums(writer.sums);

	exact = __all_sync(0xffffffff, exact);
	if (lane == 0)
		job.norms[number] = norm_of(job, exact, sums);
}

/* Sums over the block, returned to its first warp. */
__device__ RowSums
block_sums(const RowSums &mine)
{
	__shared__ float rounding[32];
	__shared__ float errors[32];
	__shared__ int32_t norms[32];
	uint32_t	warp = threadIdx.x / 32;
	uint32_t	lane = threadIdx.x % 32;
	RowSums		sums = warp_sums(mine);

	if (lane == 0)
	{
		rounding[warp] = sums.rounding2;
		errors[warp] = sums.error2;
		norms[warp] = sums.norm2;
	}
	__syncthreads();
	if (warp != 0)
		return sums;

	bool		there = lane < blockDim.x / 32;

	return warp_sums({there ? rounding[lane] : 0.0f, there ? errors[lane] : 0.0f,
		there ? norms[lane] : 0});
}

/* Quantizes rows of any length; one block per row. */
__global__ void __launch_bounds__(kMostThreads)
quantise_shared_kernel(const QuantiseArguments job)
{
	extern __shared__ float4 places[];
	uint32_t	number = blockIdx.x;

	const float *row = job.rows.row(number);
	Int8Scale	scale = *job.scale;
	Writer		writer(job.values + (size_t) number * job.row_bytes);
	bool		exact = false;

	if (scale.lossless)
		exact = put_lossless(job, row, threadIdx.x, blockDim.x, writer);
	else
	{
		Source<4, false> source = {row, job.centre, job.rows.dimensions, scale.scale};

		rotate_in_shared(
			(float *) places, Rotation(job.row_bytes),
			[&](uint32_t k, float (&value)[4]) { source.load(k, value); },
			[&](uint32_t k, const float (&value)[4])
			{
				float		q[4];

				writer.put(k, value, q);
			});
	}

	exact = __syncthreads_and(exact);

	RowSums		sums = block_sums(writer.sums);

	if (threadIdx.x == 0)
		job.norms[number] = norm_of(job, exact, sums);
}

template <int C, int P>
void
launch_registers(const QuantiseArguments &job, cudaStream_t stream)
{
	uint32_t	blocks = (job.rows.rows + kRowsPerBlock - 1) / kRowsPerBlock;

	quantise_registers_kernel<C, P><<<blocks, kRowsPerBlock * 32, 0, stream>>>(job);
}

void
launch_shared(const QuantiseArguments &job, cudaStream_t stream)
{
	uint32_t	length = fasted_rotation_length(job.row_bytes);
	size_t		bytes = length * sizeof(float);

	allow_shared_memory(quantise_shared_kernel, bytes);
	quantise_shared_kernel<<<job.rows.rows, length / 8 < kMostThreads ? length / 8 : kMostThreads,
							 bytes, stream>>>(job);
}

}								/* namespace */

void
Int8Transform::allocate(Budget &budget, uint32_t dimensions)
{
	const char *doing = "allocating device memory for the scale of the rows";

	mean_.allocate(budget, dimensions);
	centre_.allocate(budget, dimensions, doing);
	integer_centre_.allocate(budget, dimensions, doing);
	scale_.allocate(budget, 1, doing);
	largest_.allocate(budget, kSampleScale, doing);
	typical_.allocate(budget, 1, doing);
	errors_.allocate(budget, kSampleScale * FASTED_INT8_SCALES, doing);
}

void
Int8Transform::find(const SampledRows &rows, cudaStream_t stream)
{
	uint32_t	d = rows.dimensions();

	/* all bits set: lossless, unless range_kernel clears it */
	check_cuda(cudaMemsetAsync(scale_.get(), 0xff, sizeof(Int8Scale), stream),
			   "preparing the scale of the rows");
	mean_.find(rows, stream);
	range_kernel<<<(d + 31) / 32, dim3(32, 8), 0, stream>>>(
		rows.at_most(kSampleRange), integer_centre_.get(), scale_.get());
	if (rows.count() > 0)
		find_scale(rows.at_most(kSampleScale), stream);
	choose_centre_kernel<<<(d + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
		mean_.centre(), integer_centre_.get(), scale_.get(), d, centre_.get());
	check_launch("finding the center and the scale of the rows");
}

void
Int8Transform::find_scale(const SampledRows &rows, cudaStream_t stream)
{
	uint32_t	sampled = rows.count();
	size_t		bytes = Rotation((rows.dimensions() + 31) / 32 * 32).length * sizeof(float);

	allow_shared_memory(largest_kernel, bytes);
	allow_shared_memory(errors_kernel, bytes);
	largest_kernel<<<sampled, kThreads, bytes, stream>>>(
		rows, mean_.centre(), mean_.exponent(), scale_.get(), largest_.get());
	typical_kernel<<<1, kBins, 0, stream>>>(
		largest_.get(), sampled, scale_.get(), typical_.get());
	errors_kernel<<<sampled, kThreads, bytes, stream>>>(
		rows, mean_.centre(), mean_.exponent(), scale_.get(), largest_.get(),
		typical_.get(), errors_.get());
	choose_scale_kernel<<<1, FASTED_INT8_SCALES * 32, 0, stream>>>(
		errors_.get(), sampled, mean_.exponent(), typical_.get(), scale_.get());
}

void
launch_quantise_int8(const RowTable &rows, const Int8Transform &transform, uint32_t row_bytes,
					 int8_t *values, RowNorm *norms, cudaStream_t stream)
{
	QuantiseArguments job = {rows, transform.centre(), transform.scale(), row_bytes, values, norms};

	if (row_bytes >= kLongRow)
		launch_shared(job, stream);
	else if (row_bytes >= 2048)
		launch_registers<4, 16>(job, stream);
	else if (row_bytes >= 1024)
		launch_registers<4, 8>(job, stream);
	else if (row_bytes >= 512)
		launch_registers<4, 4>(job, stream);
	else if (row_bytes >= 256)
		launch_registers<4, 2>(job, stream);
	else if (row_bytes >= 128)
		launch_registers<4, 1>(job, stream);
	else if (row_bytes >= 64)
		launch_registers<1, 2>(job, stream);
	else
		launch_registers<1, 1>(job, stream);
	check_launch("quantizing rows");
}

}								/* namespace fasted */
