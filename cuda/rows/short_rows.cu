/*-------------------------------------------------------------------------
 *
 * short_rows.cu
 *	  Short rows, a piece at a time, and how far they are off.
 *
 *-------------------------------------------------------------------------
 */
#include "rows/short_rows.h"

#include "device/check.h"
#include "engine/filter_bound.h"

namespace fasted
{

namespace
{

constexpr uint32_t kThreads = 256;
constexpr uint32_t kLeastRows = 64;
constexpr uint32_t kMostSampled = 4096;

uint32_t
numbers_in(size_t bytes)
{
	size_t		fit = std::min<size_t>(bytes / sizeof(float), 1u << 30);

	return (uint32_t) std::max<size_t>(fit / kMostWidth, kLeastRows) * kMostWidth;
}

/* Rows of the least width are the most. */
uint32_t
rows_in(uint32_t numbers)
{
	return numbers / kShortWidths[0];
}

__global__ void
chunk_kernel(const float *values, const float **chunk)
{
	*chunk = values;
}

/* rho is in the scale of the quantised rows, moved in that of the projection. */
__global__ void
add_moved_kernel(const float *moved, uint32_t rows, const Int8Scale *scale, RowNorm *norms)
{
	uint32_t	i = blockIdx.x * kThreads + threadIdx.x;

	if (i < rows)
		norms[i].rho = (norms[i].rho + (double) scale->scale * (double) moved[i])
			* (1.0 + 8 * FASTED_U64);
}

}								/* namespace */

ShortRows::ShortRows(Budget &budget, size_t most_bytes, cudaStream_t stream)
	: room_(numbers_in(most_bytes))
{
	const char *doing = "allocating room for rows to prune by";

	values_.allocate(budget, room_, doing);
	moved_.allocate(budget, rows_in(room_), doing);
	chunk_.allocate(budget, 1, doing);
	chunk_kernel<<<1, 1, 0, stream>>>(values_.get(), chunk_.get());
	check_launch("preparing room for rows to prune by");
}

size_t
ShortRows::bytes(size_t most_bytes)
{
	uint32_t	numbers = numbers_in(most_bytes);

	return Budget::rounded(numbers * sizeof(float))
		+ Budget::rounded(rows_in(numbers) * sizeof(float)) + Budget::rounded(sizeof(float *));
}

SpreadRows
ShortRows::sample(const SpreadRows &all, const Projection &projection, uint32_t width,
				  cudaStream_t stream)
{
	SpreadRows	rows = all.at_most(std::min(room_ / width, kMostSampled));

	launch_project(rows, projection.view(), width, values_.get(), moved_.get(), stream);
	return SpreadRows(table(rows.count(), width));
}

void
launch_add_moved(const float *moved, uint32_t rows, const Int8Transform &transform,
				 RowNorm *norms, cudaStream_t stream)
{
	if (rows == 0)
		return;
	add_moved_kernel<<<(rows + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
		moved, rows, transform.scale(), norms);
	check_launch("adding up how far rows were moved");
}

double
short_stretch(const Projection &projection)
{
	return fasted_prune_stretch(projection.eta);
}

double
short_reach(double eps, const Projection &projection, uint32_t dimensions)
{
	return fasted_eps_upper(eps, projection.scale, dimensions)
		* short_stretch(projection) * (1.0 + 4 * FASTED_U64);
}

}								/* namespace fasted */
