/*-------------------------------------------------------------------------
 *
 * sample.cu
 *	  Gathers a sample of the rows.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/row_store.h"

namespace fasted
{

namespace
{

constexpr uint32_t kShift = 12;
constexpr uint32_t kMostRows = 1u << kShift;
constexpr size_t kMostBytes = 32u << 20;
constexpr int kThreads = 256;

/* One block a sampled row. */
__global__ void
gather_kernel(const SpreadRows rows, float *values, const float **chunks, double *squares)
{
	uint32_t	floats = (rows.doubles() ? 2 : 1) * rows.dimensions();
	const float *from = rows.doubles() ? (const float *) rows.doubles_row(blockIdx.x)
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

/* An even number, for two sets: at least two. */
uint32_t
RowSample::most_rows(uint32_t dimensions)
{
	size_t		fit = kMostBytes / (dimensions * sizeof(float)) / 2 * 2;

	return fit == 0 ? 2 : fit < kMostRows ? (uint32_t) fit : kMostRows;
}

size_t
RowSample::bytes(uint32_t dimensions, bool doubles)
{
	return Budget::rounded(most_rows(dimensions) * (size_t) dimensions
						   * (doubles ? sizeof(double) : sizeof(float)))
		+ Budget::rounded(2 * sizeof(const float *))
		+ Budget::rounded(most_rows(dimensions) * sizeof(double));
}

void
RowSample::allocate(Budget &budget, uint32_t dimensions, bool doubles)
{
	const char *doing = "allocating room for a sample of the rows";

	dimensions_ = dimensions;
	doubles_ = doubles;
	values_.allocate(budget, most_rows(dimensions) * (size_t) dimensions * (doubles ? 2 : 1), doing);
	chunks_.allocate(budget, 2, doing);
	squares_.allocate(budget, most_rows(dimensions), doing);
}

void
RowSample::take(const SpreadRows &all, cudaStream_t stream)
{
	SpreadRows	rows = all.at_most(most_rows(dimensions_));

	rows_[0] = rows.from_a;
	rows_[1] = rows.from_b;
	has_squares_ = rows.a.squares != nullptr;
	if (rows.count() == 0)
		return;
	gather_kernel<<<rows.count(), kThreads, 0, stream>>>(rows, values_.get(), chunks_.get(),
														  squares_.get());
	check_launch("sampling rows");
}

RowTable
RowSample::table(int side) const
{
	RowTable	table = {chunks_.get() + side, kShift, dimensions_, rows_[side]};

	table.doubles = doubles_;
	if (has_squares_)
		table.squares = squares_.get() + (side == 0 ? 0 : rows_[0]);
	return table;
}

}								/* namespace fasted */
