/*-------------------------------------------------------------------------
 *
 * projection.cu
 *	  Projection of rows to few dimensions, and a bound of its error: (P' w, |w - P P' w|) in FP32,
 *	  where w = s (x - c).
 *
 * A block processes 64 rows with all of their dimensions, so a row's residual norm is known in
 * the block that has its products.  Sums are FP32, of pieces of 64 terms each; norms are summed
 * in FP64.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/filter_bound.h"
#include "rows/form.h"

namespace fasted
{

namespace
{

constexpr int kThreads = 256;
constexpr int kRows = 64;		/* rows per block */
constexpr int kDepth = 32;		/* dimensions per step */
constexpr int kRowsEach = 4;	/* rows per thread; a block has 16 x 16 threads */
constexpr int kPad = 4;			/* avoids bank conflicts between rows of the tile */
static_assert(FASTED_PRUNE_PIECE % kDepth == 0, "a piece is a whole number of steps");

/* Limit of the squared norm, the same as on the CPU; a longer row is a candidate with every row. */
constexpr double kNorm2Limit = 0x1p120;

/* Four values of a row from k on; zeros beyond the last. */
template <bool kVector>
__device__ __forceinline__ float4
load_four(const float *from, uint32_t k, uint32_t dimensions)
{
	if constexpr (kVector)
		return k < dimensions ? __ldg((const float4 *) &from[k]) : make_float4(0, 0, 0, 0);
	else
		return make_float4(k < dimensions ? __ldg(&from[k]) : 0.0f,
						   k + 1 < dimensions ? __ldg(&from[k + 1]) : 0.0f,
						   k + 2 < dimensions ? __ldg(&from[k + 2]) : 0.0f,
						   k + 3 < dimensions ? __ldg(&from[k + 3]) : 0.0f);
}

/*
 * Registers for the next tile, loaded one step ahead: 8 values of one row per thread, and an equal
 * share of the directions.
 */
template <int kWidth, bool kVector>
struct Prefetch
{
	static constexpr int kFours = kDepth * kWidth / 4 / kThreads;

	float4		row[2];
	float4		centre[2];
	float4		directions[kFours];

	__device__ __forceinline__ void
	load(const float *from, const ProjectionView &p, uint32_t begin, uint32_t dimensions)
	{
#pragma unroll
		for (int i = 0; i < 2; i++)
		{
			uint32_t	k = begin + threadIdx.x % 4 * 4 + i * 16;

			row[i] = from != nullptr ? load_four<kVector>(from, k, dimensions)
				: make_float4(0, 0, 0, 0);
			centre[i] = from != nullptr ? load_four<kVector>(p.centre, k, dimensions)
				: make_float4(0, 0, 0, 0);
		}
#pragma unroll
		for (int i = 0; i < kFours; i++)
		{
			uint32_t	place = threadIdx.x + i * kThreads;
			uint32_t	k = begin + place / (kWidth / 4);

			directions[i] = k < dimensions
				? __ldg((const float4 *) &p.directions[(size_t) k * kMostWidth + place % (kWidth / 4) * 4])
				: make_float4(0, 0, 0, 0);
		}
	}

	/*
	 * Stores the tile in shared memory, with rows as images; returns the sum of squares of this
	 * thread's values.
	 */
	__device__ __forceinline__ double
	store(float scale, float (&rows)[kDepth][kRows + kPad], float (&columns)[kDepth][kWidth]) const
	{
		double		square = 0;

#pragma unroll
		for (int i = 0; i < 2; i++)
		{
			const float x[4] = {row[i].x, row[i].y, row[i].z, row[i].w};
			const float c[4] = {centre[i].x, centre[i].y, centre[i].z, centre[i].w};

#pragma unroll
			for (int l = 0; l < 4; l++)
			{
				float		q = __fmul_rn(__fsub_rn(x[l], c[l]), scale);

				rows[threadIdx.x % 4 * 4 + i * 16 + l][threadIdx.x / 4] = q;
				square = fma((double) q, (double) q, square);
			}
		}
#pragma unroll
		for (int i = 0; i < kFours; i++)
		{
			uint32_t	place = threadIdx.x + i * kThreads;

			*(float4 *) &columns[place / (kWidth / 4)][place % (kWidth / 4) * 4] = directions[i];
		}
		return square;
	}
};

/*
 * A row's residual, and in *errors the bound of its projected row's error, from FP64 sums of
 * squares.
 */
__device__ __forceinline__ float
residual_of(double norm2, double projected2, const ProjectionView &p, uint32_t directions,
			uint32_t dimensions, float *errors)
{
	double		slack = fasted_sum_slack(dimensions + kMostWidth);
	double		norm = sqrt(norm2) * (1.0 + slack);
	double		error = fasted_prune_product_error(fasted_prune_gamma_fp32(dimensions), norm,
												   sqrt(projected2) * (1.0 + slack), p.eta,
												   directions, dimensions);
	double		residual = sqrt(fmax(0.0, norm2 - projected2));

	*errors = __double2float_ru(fasted_prune_moved(
		fasted_prune_image_error(norm, dimensions), p.eta, error,
		fasted_prune_residual_error(norm2, projected2, residual, error, p.eta,
									dimensions + kMostWidth)));
	return (float) residual;
}

/* The part of the images and of the directions that one step multiplies, in shared memory. */
template <int kWidth>
struct Tile
{
	float		rows[kDepth][kRows + kPad];
	float		columns[kDepth][kWidth];
};

/*
 * A thread's products.  Let r = threadIdx.x / 16 * 4 and c = threadIdx.x % 16 * 4.  The thread
 * multiplies rows r to r + 3 of the block with columns c to c + 3 and, if there are 128 columns,
 * also with columns c + 64 to c + 67.
 */
template <int kWidth>
struct Products
{
	static constexpr int kColumns = kWidth / 16;

	float		sums[kRowsEach][kColumns] = {};
	float		piece[kRowsEach][kColumns] = {};	/* current piece, not yet added to sums */

	__device__ __forceinline__ void
	add_step(const Tile<kWidth> &tile)
	{
#pragma unroll 8
		for (int k = 0; k < kDepth; k++)
		{
			float4		x = *(const float4 *) &tile.rows[k][threadIdx.x / 16 * kRowsEach];
			const float xs[4] = {x.x, x.y, x.z, x.w};

#pragma unroll
			for (int half = 0; half < kColumns / 4; half++)
			{
				float4		y = *(const float4 *) &tile.columns[k][half * 64 + threadIdx.x % 16 * 4];
				const float ys[4] = {y.x, y.y, y.z, y.w};

#pragma unroll
				for (int i = 0; i < kRowsEach; i++)
				{
#pragma unroll
					for (int j = 0; j < 4; j++)
						piece[i][half * 4 + j] = fmaf(xs[i], ys[j], piece[i][half * 4 + j]);
				}
			}
		}
	}

	__device__ __forceinline__ void
	end_piece()
	{
#pragma unroll
		for (int i = 0; i < kRowsEach; i++)
		{
#pragma unroll
			for (int j = 0; j < kColumns; j++)
			{
				sums[i][j] = __fadd_rn(sums[i][j], piece[i][j]);
				piece[i][j] = 0;
			}
		}
	}

	/* Sum of squares of row i over the 16 threads that have it, without the last column. */
	__device__ __forceinline__ double
	square(int i)
	{
		double		square = 0;

		if (threadIdx.x % 16 == 15)
			sums[i][kColumns - 1] = 0;
#pragma unroll
		for (int j = 0; j < kColumns; j++)
			square = fma((double) sums[i][j], (double) sums[i][j], square);
		for (int o = 8; o > 0; o /= 2)
			square += __shfl_xor_sync(0xffffffff, square, o);
		return square;
	}

	__device__ __forceinline__ void
	store(int i, bool out_of_range, float *to) const
	{
#pragma unroll
		for (int half = 0; half < kColumns / 4; half++)
		{
			const float *z = &sums[i][half * 4];

			*(float4 *) &to[half * 64 + threadIdx.x % 16 * 4] = out_of_range
				? make_float4(0, 0, 0, 0) : make_float4(z[0], z[1], z[2], z[3]);
		}
	}
};

/* Projects rows, see launch_project. The last column is the residual. 256 threads for 64 rows. */
template <int kWidth, bool kVector, class Source>
__global__ void __launch_bounds__(kThreads)
project_kernel(const Source source, uint32_t count, uint32_t dimensions, const ProjectionView p,
			   float *to, float *errors)
{
	__shared__ __align__(16) Tile<kWidth> tile;
	__shared__ double norms2[kRows];
	uint32_t	loaded = blockIdx.x * kRows + threadIdx.x / 4;
	const float *from = loaded < count ? source.row(loaded) : nullptr;
	double		square = 0;
	Products<kWidth> products;
	Prefetch<kWidth, kVector> prefetch;

	prefetch.load(from, p, 0, dimensions);
	for (uint32_t begin = 0; begin < dimensions; begin += kDepth)
	{
		square += prefetch.store(p.scale, tile.rows, tile.columns);
		__syncthreads();
		if (begin + kDepth < dimensions)
			prefetch.load(from, p, begin + kDepth, dimensions);
		products.add_step(tile);
		__syncthreads();
		if ((begin + kDepth) % FASTED_PRUNE_PIECE == 0 || begin + kDepth >= dimensions)
			products.end_piece();
	}

	/* each row was loaded by four threads */
	square += __shfl_xor_sync(0xffffffff, square, 1);
	square += __shfl_xor_sync(0xffffffff, square, 2);
	if (threadIdx.x % 4 == 0)
		norms2[threadIdx.x / 4] = square;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < kRowsEach; i++)
	{
		uint32_t	row = threadIdx.x / 16 * kRowsEach + i;
		uint32_t	number = blockIdx.x * kRows + row;
		double		norm2 = norms2[row];
		bool		out_of_range = !(norm2 <= kNorm2Limit);
		double		projected2 = products.square(i);
		float		off = INFINITY;

		if (number >= count)
			continue;
		if (threadIdx.x % 16 == 15)
		{
			if (!out_of_range)
				products.sums[i][products.kColumns - 1] =
					residual_of(norm2, projected2, p, min(p.count, kWidth - 1), dimensions, &off);
			errors[number] = off;
		}
		products.store(i, out_of_range, &to[(size_t) number * kWidth]);
	}
}

constexpr uint32_t kLeastRows = 64;
constexpr uint32_t kMostSampled = 4096;

uint32_t
numbers_in(size_t bytes)
{
	size_t		fit = std::min<size_t>(bytes / sizeof(float), 1u << 30);

	return (uint32_t) std::max<size_t>(fit / kMostWidth, kLeastRows) * kMostWidth;
}

/* Stores the address of the buffer as the only chunk; one thread. */
__global__ void
chunk_kernel(const float *values, const float **chunk)
{
	*chunk = values;
}

/*
 * Adds errors[], which is in the scale of the projection, to rho, which is in that of the quantized
 * rows; one thread per row.
 */
__global__ void
add_errors_kernel(const float *errors, uint32_t rows, const Int8Scale *scale, RowNorm *norms)
{
	uint32_t	i = blockIdx.x * kThreads + threadIdx.x;

	if (i < rows)
		norms[i].rho = (norms[i].rho + (double) scale->scale * (double) errors[i])
			* (1.0 + 8 * FASTED_U64);
}

}								/* namespace */

Projection::Projection(Budget &budget, uint32_t dimensions)
{
	const char *doing = "allocating device memory for the projection";

	centre_.allocate(budget, dimensions, doing);
	directions_.allocate(budget, (size_t) dimensions * kMostWidth, doing);
}

template <class Source>
void
launch_project(const Source &rows, const ProjectionView &projection, uint32_t width, float *to,
			   float *errors, cudaStream_t stream)
{
	uint32_t	count = rows.count();
	bool		vector = rows.dimensions() % 4 == 0;
	auto		kernel = width == 64
		? (vector ? project_kernel<64, true, Source> : project_kernel<64, false, Source>)
		: (vector ? project_kernel<128, true, Source> : project_kernel<128, false, Source>);

	if (count == 0)
		return;
	kernel<<<(count + kRows - 1) / kRows, kThreads, 0, stream>>>(rows, count, rows.dimensions(),
																  projection, to, errors);
	check_launch("projecting rows");
}

template void launch_project(const RowPiece &, const ProjectionView &, uint32_t, float *, float *,
							 cudaStream_t);
template void launch_project(const SampledRows &, const ProjectionView &, uint32_t, float *,
							 float *, cudaStream_t);

ProjectedRows::ProjectedRows(Budget &budget, size_t most_bytes, cudaStream_t stream)
	: room_(numbers_in(most_bytes))
{
	const char *doing = "allocating device memory for projected rows";

	values_.allocate(budget, room_, doing);
	/* the smallest width gives the largest number of rows */
	errors_.allocate(budget, room_ / kProjectedWidths[0], doing);
	chunk_.allocate(budget, 1, doing);
	if (budget.counts_only)
		return;
	chunk_kernel<<<1, 1, 0, stream>>>(values_.get(), chunk_.get());
	check_launch("preparing the buffer for projected rows");
}

SampledRows
ProjectedRows::sample(const SampledRows &all, const Projection &projection, uint32_t width,
				  cudaStream_t stream)
{
	SampledRows	rows = all.at_most(std::min(room_ / width, kMostSampled));

	launch_project(rows, projection.view(), width, values_.get(), errors_.get(), stream);
	return SampledRows(table(rows.count(), width));
}

void
launch_add_errors(const float *errors, uint32_t rows, const Int8Transform &transform,
				 RowNorm *norms, cudaStream_t stream)
{
	if (rows == 0)
		return;
	add_errors_kernel<<<(rows + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
		errors, rows, transform.scale(), norms);
	check_launch("computing projection errors of rows");
}

}								/* namespace fasted */
