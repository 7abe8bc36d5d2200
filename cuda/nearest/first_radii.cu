/*-------------------------------------------------------------------------
 *
 * first_radii.cu
 *	  Upper bounds of the rows' k-th distances, before any pair is rechecked.
 *
 * The products of quantised rows tell how far the rows may be apart at most.  The k-th
 * least of these bounds, over rows of b that are spread over all of them, is one of the
 * k-th distance: doc/bound-nearest.md, section 2.
 *
 *-------------------------------------------------------------------------
 */
#include <mma.h>

#include "device/check.h"
#include "nearest/near_task.h"

namespace fasted
{

namespace
{

constexpr int kBlock = 256;
constexpr uint32_t kWarps = kBlock / 32;
constexpr uint32_t kRows = 16;	/* of a block: one fragment */
constexpr uint32_t kStride = kLookColumns + 8;	/* of products in shared memory */
constexpr uint32_t kWarpColumns = kLookColumns / kWarps;
constexpr uint32_t kFragments = kWarpColumns / 16;
constexpr uint32_t kSharedBytes = kRows * kStride * sizeof(uint32_t);

/* Bounds are compared by so many of their bits; what is below is rounded up. */
constexpr int kLowestBit = 9;

/* A launch multiplies about so many bytes of rows: some 20 ms at worst. */
constexpr double kBytesALaunch = 2e9;

struct LookParams
{
	NearTask	task;
	const void *values_a;
	const void *values_b;
	uint32_t	row_bytes;
	uint32_t	first;
	uint32_t	end;
};

/* What tensor cores multiply. */
template <class Number> struct SumOf;
template <> struct SumOf<signed char> { using Type = int; };
template <> struct SumOf<__half> { using Type = float; };

/* Columns are 16 neighbouring rows of b here and there, all over it. */
__device__ __forceinline__ uint32_t
place_of(const LookParams &p, uint32_t column)
{
	return column / 16 * (p.task.rows_b / (kLookColumns / 16)) + column % 16;
}

/* The products of 16 rows with all columns, a share of these by each warp. */
template <class Number>
__device__ void
multiply(const LookParams &p, uint32_t place, uint32_t *products)
{
	namespace wmma = nvcuda::wmma;
	using Sum = typename SumOf<Number>::Type;
	uint32_t	numbers = p.row_bytes / sizeof(Number);
	uint32_t	column = threadIdx.x / 32 * kWarpColumns;
	const Number *a = (const Number *) p.values_a + (size_t) place * numbers;
	const Number *b = (const Number *) p.values_b;
	wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> sums[kFragments];

#pragma unroll
	for (uint32_t f = 0; f < kFragments; f++)
		wmma::fill_fragment(sums[f], (Sum) 0);
	for (uint32_t k = 0; k < numbers; k += 16)
	{
		wmma::fragment<wmma::matrix_a, 16, 16, 16, Number, wmma::row_major> x;

		wmma::load_matrix_sync(x, a + k, numbers);
#pragma unroll
		for (uint32_t f = 0; f < kFragments; f++)
		{
			wmma::fragment<wmma::matrix_b, 16, 16, 16, Number, wmma::col_major> y;

			wmma::load_matrix_sync(y, b + (size_t) place_of(p, column + f * 16) * numbers + k,
								   numbers);
			wmma::mma_sync(sums[f], x, y, sums[f]);
		}
	}
#pragma unroll
	for (uint32_t f = 0; f < kFragments; f++)
		wmma::store_matrix_sync((Sum *) products + column + f * 16, sums[f], kStride,
								wmma::mem_row_major);
}

/* The same of rows in FP32, in FP64, rounded down to FP32. */
template <>
__device__ void
multiply<float>(const LookParams &p, uint32_t place, uint32_t *products)
{
	uint32_t	numbers = p.row_bytes / sizeof(float);

	for (uint32_t i = threadIdx.x; i < kRows * kLookColumns; i += kBlock)
	{
		uint32_t	row = i / kLookColumns;
		uint32_t	column = i % kLookColumns;
		const float4 *x = (const float4 *) ((const float *) p.values_a
											+ (size_t) (place + row) * numbers);
		const float4 *y = (const float4 *) ((const float *) p.values_b
											+ (size_t) place_of(p, column) * numbers);
		double		sum = 0;

		for (uint32_t k = 0; k < numbers / 4; k++)
			sum += (double) x[k].x * y[k].x + (double) x[k].y * y[k].y
				+ (double) x[k].z * y[k].z + (double) x[k].w * y[k].w;
		products[row * kStride + column] = __float_as_uint(__double2float_rd(sum));
	}
}

/* How far a row of b may be from this one at most, but for what quantising moved that. */
__device__ __forceinline__ float
bound_of(const LookParams &p, const RowNorm &norm, uint32_t place, uint32_t column,
		 uint32_t product)
{
	const FormBound &form = p.task.form;
	uint32_t	other_place = place_of(p, column);
	RowNorm		other = p.task.norms_b[other_place];
	double		norms = norm.norm2 + other.norm2;
	double		g = form.precision == Precision::kInt8 ? (double) (int32_t) product
		: (double) __uint_as_float(product);
	double		square = norms - 2.0 * g;

	if (other.norm2 < 0 || !(other.rho <= DBL_MAX) || (p.task.self && other_place == place))
		return INFINITY;
	if (form.precision != Precision::kInt8)
		square += norms * (form.gamma + 2 * form.slack() + 16 * FASTED_U64) + 2.0 * form.alpha();
	return __double2float_ru((sqrt(fmax(square, 0.0)) + other.rho) * (1.0 + 16 * FASTED_U64));
}

/* The k-th least of the warp's numbers, none of them negative, or a little more. */
__device__ float
least_but(const float (&bounds)[kLookColumns / 32], uint32_t k)
{
	uint32_t	answer = 0;

	for (int bit = 30; bit >= kLowestBit; bit--)
	{
		/* are fewer than k below the numbers that have this bit? */
		uint32_t	middle = answer | 1u << bit;
		uint32_t	below = 0;

#pragma unroll
		for (uint32_t i = 0; i < kLookColumns / 32; i++)
			below += __float_as_uint(bounds[i]) < middle;
		if (__reduce_add_sync(0xffffffff, below) < k)
			answer = middle;
	}
	return __uint_as_float(answer | ((1u << kLowestBit) - 1));
}

/* An upper bound of the canonical distance of rows that are so far apart in the form's scale. */
__device__ __forceinline__ double
distance_bound(const FormBound &form, double apart)
{
	double		dist = apart / form.scale() * (1.0 + 8 * FASTED_U64);
	uint32_t	d = form.dimensions;

	if (!form.cosine)
		return dist * (1.0 + (d + 64.0) * FASTED_U64);

	/* how far fasted_direction_reach has rounding move directions, and the similarity */
	double		error = (d / 16.0 + 20.0) * FASTED_U64;

	dist += 4.0 * (FASTED_U32 + error);
	return fmin(2.0, 0.5 * dist * dist * (1.0 + 16 * FASTED_U64) + 2.0 * error);
}

template <class Number>
__global__ void
__launch_bounds__(kBlock)
look_kernel(const __grid_constant__ LookParams p)
{
	extern __shared__ uint32_t products[];
	uint32_t	lane = threadIdx.x % 32;
	/* the last block goes back, so that its rows are all there: once more is no harm */
	uint32_t	first = min(p.first + blockIdx.x * kRows, p.task.a.rows - kRows);

	multiply<Number>(p, first, products);
	__syncthreads();
	for (uint32_t row = threadIdx.x / 32; row < kRows; row += kWarps)
	{
		uint32_t	place = first + row;
		RowNorm		norm = p.task.norms_a[place];
		float		bounds[kLookColumns / 32];

#pragma unroll
		for (uint32_t i = 0; i < kLookColumns / 32; i++)
			bounds[i] = bound_of(p, norm, place, i * 32 + lane,
								 products[row * kStride + i * 32 + lane]);

		double		apart = (double) least_but(bounds, p.task.table.k) + norm.rho;

		if (lane == 0 && norm.norm2 >= 0 && apart <= FLT_MAX)
		{
			double	   *radius = &p.task.table.radii[p.task.a.number_at(place)];

			*radius = fmin(*radius, distance_bound(p.task.form, apart));
		}
	}
}

template <class Number>
void
launch_look(const LookParams &params, cudaStream_t stream)
{
	uint32_t	blocks = (params.end - params.first + kRows - 1) / kRows;

	/* more than a kernel gets unasked */
	check_cuda(cudaFuncSetAttribute(look_kernel<Number>, cudaFuncAttributeMaxDynamicSharedMemorySize,
									(int) kSharedBytes),
			   "asking for shared memory");
	look_kernel<Number><<<blocks, kBlock, kSharedBytes, stream>>>(params);
	check_launch("finding the rows' first radii");
}

}								/* namespace */

uint32_t
look_rows(uint32_t row_bytes)
{
	return (uint32_t) (kBytesALaunch / (row_bytes * 16.0)) / kRows * kRows + kRows;
}

void
launch_first_radii(const NearTask &task, const void *values_a, const void *values_b,
				   uint32_t first, uint32_t count, cudaStream_t stream)
{
	LookParams	params = {task, values_a, values_b,
		row_bytes(task.form.dimensions, task.form.precision), first, first + count};

	if (task.form.precision == Precision::kInt8)
		launch_look<signed char>(params, stream);
	else if (task.form.precision == Precision::kFp16)
		launch_look<__half>(params, stream);
	else
		launch_look<float>(params, stream);
}

}								/* namespace fasted */
