/*-------------------------------------------------------------------------
 *
 * directions.cu
 *	  Squared norms x.x of rows, their directions x / |x| or FP32 roundings, and samples of rows.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/filter_rows.h"
#include "rows/form.h"

namespace fasted
{

namespace
{

constexpr uint32_t kShift = 31; /* the whole buffer is one chunk */
constexpr uint32_t kMostSampled = 4096;
constexpr int kRowsPerBlock = 8;	/* one warp per row */
constexpr int kThreads = kRowsPerBlock * 32;

/*
 * x.x of each staged row in FP64; one warp per row.  Lane l accumulates partial sum l, as
 * engine/exact_distance.h defines it.
 */
__global__ void
squares_kernel(const RowTable rows, double *squares)
{
	uint32_t	i = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
	uint32_t	lane = threadIdx.x % 32;
	double		sum = 0;

	if (i >= rows.rows)
		return;

	const float *row = rows.doubles ? nullptr : rows.staged(i);
	const double *doubles = rows.doubles ? rows.staged<double>(i) : nullptr;

	for (uint32_t k = lane; k < rows.dimensions; k += 32)
	{
		double		x = row == nullptr ? doubles[k] : (double) row[k];

		sum = __fma_rn(x, x, sum);
	}
	for (int o = 16; o > 0; o /= 2)
		sum = __dadd_rn(sum, __shfl_xor_sync(0xffffffff, sum, o));
	if (lane == 0)
		squares[i] = sum;
}

/* Rounds a row of doubles to FP32. */
template <class Source>
__device__ void
round_row(const Source &rows, uint32_t i, float *to)
{
	const double *from = rows.template row<double>(i);

	for (uint32_t k = threadIdx.x % 32; k < rows.dimensions(); k += 32)
		to[k] = fasted_narrow(from[k]);
}

/* Normalizes a row to x / |x| in FP32; zeros for a row without a direction. */
template <class Source>
__device__ void
normalize_row(const Source &rows, uint32_t i, float *to)
{
	const float *from = rows.doubles() ? nullptr : rows.row(i);
	const double *doubles = rows.doubles() ? rows.template row<double>(i) : nullptr;
	double		square = rows.square(i);
	bool		has_direction = fasted_has_direction(square);
	double		scale = 1.0 / sqrt(square);

	for (uint32_t k = threadIdx.x % 32; k < rows.dimensions(); k += 32)
	{
		double		x = from == nullptr ? doubles[k] : (double) from[k];

		to[k] = has_direction ? (float) (x * scale) : 0.0f;
	}
}

/*
 * Writes directions (`cosine`) or rows rounded to FP32; one warp per row.  Rows of a second set
 * begin with row first_b, as chunk 1.
 */
template <class Source>
__global__ void
directions_kernel(const Source rows, bool cosine, uint32_t first_b, float *values,
				  const float **chunks)
{
	uint32_t	i = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;

	if (blockIdx.x == 0 && threadIdx.x == 0)
	{
		chunks[0] = values;
		chunks[1] = values + (size_t) first_b * rows.dimensions();
	}
	if (i >= rows.count())
		return;

	float	   *to = values + (size_t) i * rows.dimensions();

	if (cosine)
		normalize_row(rows, i, to);
	else
		round_row(rows, i, to);
}

/* Adds the error of rounding to FP32 to the rho of each row of doubles; one warp per row. */
__global__ void
rounding_error_kernel(const RowPiece rows, const FormBound form, RowNorm *norms)
{
	uint32_t	i = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
	double		error2 = 0;

	if (i >= rows.count())
		return;

	const double *row = rows.row<double>(i);

	for (uint32_t k = threadIdx.x % 32; k < rows.dimensions(); k += 32)
	{
		double		diff = row[k] - (double) fasted_narrow(row[k]);

		error2 += diff * diff;
	}
	error2 = warp_sum(error2);
	if (threadIdx.x % 32 == 0)
	{
		double		rho = (norms[i].rho + fasted_narrowed(error2, rows.dimensions())
						   * form.scale() * form.projected_reach(1.0, 0)) * (1.0 + 8 * FASTED_U64);

		norms[i].rho = rho <= DBL_MAX ? rho : INFINITY;
	}
}

/*
 * Inner products: replaces the rho of each row by its share of squared distances for eps = 0, which
 * accounts for rho; one thread per row.
 */
__global__ void
product_half_kernel(const RowTable rows, const FormBound form, RowNorm *norms)
{
	uint32_t	i = blockIdx.x * kThreads + threadIdx.x;

	if (i < rows.rows)
		norms[i].rho = fasted_product_half(
			fasted_product_reach2(rows.square(i), 0.0, rows.dimensions) * form.scale() * form.scale(),
			norms[i].rho, form.error_ratio());
}

/* Marks rows without a direction; one thread per row. */
__global__ void
mark_kernel(const RowPiece rows, RowNorm *norms)
{
	uint32_t	i = blockIdx.x * kThreads + threadIdx.x;

	if (i < rows.count() && !fasted_has_direction(rows.square(i)))
		norms[rows.first + i] = row_without_pairs();
}

uint32_t
blocks_for(uint32_t rows)
{
	return (rows + kRowsPerBlock - 1) / kRowsPerBlock;
}

/* Limits of a RowSample, in rows (log2) and bytes. */
constexpr uint32_t kSampleShift = 12;
constexpr size_t kMostBytes = 32u << 20;

/* Copies the sampled rows to a contiguous array; one block per row. */
__global__ void
gather_kernel(const SampledRows rows, float *values, const float **chunks, double *squares)
{
	uint32_t	floats = (rows.doubles() ? 2 : 1) * rows.dimensions();
	const float *from = rows.doubles() ? (const float *) rows.row<double>(blockIdx.x)
		: rows.row(blockIdx.x);
	float	   *to = values + (size_t) blockIdx.x * floats;

	if (blockIdx.x == 0 && threadIdx.x == 0)
	{
		chunks[0] = values;
		chunks[1] = values + (size_t) rows.from_a * floats;
	}
	if (rows.a.squares != nullptr && threadIdx.x == 0)
		squares[blockIdx.x] = rows.square(blockIdx.x);
	for (uint32_t k = threadIdx.x; k < floats; k += kThreads)
		to[k] = from[k];
}

}								/* namespace */

void
launch_squares(const RowTable &rows, double *squares, cudaStream_t stream)
{
	if (rows.rows == 0)
		return;
	if (is_of_bits(rows.metric))
	{
		launch_ones(rows, squares, stream);
		return;
	}
	squares_kernel<<<blocks_for(rows.rows), kThreads, 0, stream>>>(rows, squares);
	check_launch("computing squared norms of rows");
}

void
launch_product_halves(const RowTable &rows, const FormBound &form, RowNorm *norms,
					  cudaStream_t stream)
{
	product_half_kernel<<<(rows.rows + kThreads - 1) / kThreads, kThreads, 0, stream>>>(rows, form,
																					  norms);
	check_launch("computing bounds of inner products");
}

void
launch_add_narrowed(const RowPiece &rows, const FormBound &form, RowNorm *norms,
					cudaStream_t stream)
{
	if (rows.count() == 0)
		return;
	rounding_error_kernel<<<blocks_for(rows.count()), kThreads, 0, stream>>>(rows, form, norms);
	check_launch("computing rounding errors of rows");
}

Directions::Directions(Budget &budget, uint32_t dimensions, size_t most_bytes, bool cosine)
	: cosine_(cosine), dimensions_(dimensions),
	room_(rows_that_fit(most_bytes, dimensions, 2, 1u << 30))
{
	const char *doing = "allocating device memory for the directions of rows";

	values_.allocate(budget, (size_t) room_ * dimensions, doing);
	chunks_.allocate(budget, 2, doing);
}

SampledRows
Directions::sample(const SampledRows &all, cudaStream_t stream)
{
	SampledRows	rows = all.at_most(std::min(room_, kMostSampled));
	RowTable	a = {chunks_.get(), kShift, dimensions_, rows.from_a};
	RowTable	b = {chunks_.get() + 1, kShift, dimensions_, rows.from_b};

	directions_kernel<<<blocks_for(rows.count()), kThreads, 0, stream>>>(
		rows, cosine_, rows.from_a, values_.get(), chunks_.get());
	check_launch("sampling directions of rows");
	return rows.from_b > 0 ? SampledRows(a, b) : SampledRows(a);
}

RowTable
Directions::piece(const RowTable &rows, uint32_t first, cudaStream_t stream)
{
	RowPiece	piece = {rows, first, std::min(room_, rows.rows - first)};

	directions_kernel<<<blocks_for(piece.rows), kThreads, 0, stream>>>(
		piece, cosine_, 0, values_.get(), chunks_.get());
	check_launch("finding directions of rows");
	return {chunks_.get(), kShift, dimensions_, piece.rows};
}

void
Directions::mark(const RowTable &rows, uint32_t first, RowNorm *norms, cudaStream_t stream)
{
	RowPiece	piece = {rows, first, std::min(room_, rows.rows - first)};

	mark_kernel<<<(piece.rows + kThreads - 1) / kThreads, kThreads, 0, stream>>>(piece, norms);
	check_launch("finding rows without a direction");
}

/* Returns an even number, at least 2, since a sample may be of two sets. */
uint32_t
RowSample::most_rows(uint32_t dimensions)
{
	return rows_that_fit(kMostBytes, dimensions, 2, 1u << kSampleShift);
}

void
RowSample::allocate(Budget &budget, uint32_t dimensions, bool doubles)
{
	const char *doing = "allocating device memory for a sample of the rows";

	dimensions_ = dimensions;
	doubles_ = doubles;
	values_.allocate(budget, most_rows(dimensions) * (size_t) dimensions * (doubles ? 2 : 1), doing);
	chunks_.allocate(budget, 2, doing);
	squares_.allocate(budget, most_rows(dimensions), doing);
}

void
RowSample::take(const SampledRows &all, cudaStream_t stream)
{
	SampledRows	rows = all.at_most(most_rows(dimensions_));

	rows_[0] = rows.from_a;
	rows_[1] = rows.from_b;
	metric_ = rows.a.metric;
	if (rows.count() == 0)
		return;
	gather_kernel<<<rows.count(), kThreads, 0, stream>>>(rows, values_.get(), chunks_.get(),
														  squares_.get());
	check_launch("sampling rows");
}

RowTable
RowSample::table(int side) const
{
	RowTable	table = {chunks_.get() + side, kSampleShift, dimensions_, rows_[side]};

	table.doubles = doubles_;
	table.metric = metric_;
	if (has_squares(metric_))
		table.squares = squares_.get() + (side == 0 ? 0 : rows_[0]);
	return table;
}

}								/* namespace fasted */
