/*-------------------------------------------------------------------------
 *
 * sample.cu
 *	  Gathers a sample of the rows.
 *
 *-------------------------------------------------------------------------
 */
#include "device/check.h"
#include "rows/sample.h"

namespace fasted
{

namespace
{

constexpr uint32_t kShift = 12;
constexpr uint32_t kMostRows = 1u << kShift;
constexpr size_t kMostBytes = 32u << 20;
constexpr int kThreads = 256;

/* Rows of a sample, if there are so many; at least one. */
uint32_t
most_rows(uint32_t dimensions)
{
	size_t		fit = kMostBytes / (dimensions * sizeof(float));

	return fit == 0 ? 1 : fit < kMostRows ? (uint32_t) fit : kMostRows;
}

/* One block a sampled row. */
__global__ void
gather_kernel(const RowTable rows, uint32_t sampled, float *values, const float **chunk)
{
	const float *from = rows.row(fasted_spread_row(blockIdx.x, sampled, rows.rows));
	float	   *to = values + (size_t) blockIdx.x * rows.dimensions;

	if (blockIdx.x == 0 && threadIdx.x == 0)
		*chunk = values;
	for (uint32_t k = threadIdx.x; k < rows.dimensions; k += kThreads)
		to[k] = from[k];
}

}								/* namespace */

size_t
RowSample::bytes(uint32_t dimensions)
{
	return Budget::rounded(most_rows(dimensions) * (size_t) dimensions * sizeof(float))
		+ Budget::rounded(sizeof(const float *));
}

void
RowSample::take(Budget &budget, const RowTable &rows, cudaStream_t stream)
{
	const char *doing = "allocating room for a sample of the rows";

	dimensions_ = rows.dimensions;
	rows_ = std::min(rows.rows, most_rows(rows.dimensions));
	values_.allocate(budget, std::max(rows_, 1u) * (size_t) dimensions_, doing);
	chunks_.allocate(budget, 1, doing);
	if (rows_ == 0)
		return;
	gather_kernel<<<rows_, kThreads, 0, stream>>>(rows, rows_, values_.get(), chunks_.get());
	check_launch("sampling rows");
}

RowTable
RowSample::table() const
{
	return RowTable{chunks_.get(), kShift, dimensions_, rows_};
}

}								/* namespace fasted */
