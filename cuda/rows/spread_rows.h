/*-------------------------------------------------------------------------
 *
 * spread_rows.h
 *	  Some rows, evenly spread over one set of rows, or over two.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_SPREAD_ROWS_H
#define FASTED_CUDA_SPREAD_ROWS_H

#include <algorithm>

#include "engine/host_device.h"
#include "rows/row_table.h"

namespace fasted
{

struct SpreadRows
{
	RowTable	a;
	RowTable	b;
	uint32_t	from_a;			/* so many rows of it, then those of b */
	uint32_t	from_b;

	/* All rows of one set, or of two. */
	explicit SpreadRows(const RowTable &rows) : SpreadRows(rows, rows) { from_b = 0; }
	SpreadRows(const RowTable &a_, const RowTable &b_)
		: a(a_), b(b_), from_a(a_.rows), from_b(b_.rows)
	{
	}

	/* At most so many of them, two at least; half of that of each if there are two sets. */
	SpreadRows at_most(uint32_t most) const
	{
		SpreadRows	fewer = *this;

		if (from_b > 0)
			most /= 2;
		fewer.from_a = std::min(from_a, most);
		fewer.from_b = std::min(from_b, most);
		return fewer;
	}

#ifdef __CUDACC__
	__host__ __device__ uint32_t count() const { return from_a + from_b; }
	__host__ __device__ uint32_t dimensions() const { return a.dimensions; }

	__device__ __forceinline__ const float *
	row(uint32_t i) const
	{
		return i < from_a ? a.row(fasted_spread_row(i, from_a, a.rows))
			: b.row(fasted_spread_row(i - from_a, from_b, b.rows));
	}

	/* The same of rows of doubles. */
	__device__ __forceinline__ const double *
	doubles_row(uint32_t i) const
	{
		return i < from_a ? a.doubles_row(fasted_spread_row(i, from_a, a.rows))
			: b.doubles_row(fasted_spread_row(i - from_a, from_b, b.rows));
	}

	__host__ __device__ bool doubles() const { return a.doubles; }

	/* Its x.x, where the tables have that. */
	__device__ __forceinline__ double
	square(uint32_t i) const
	{
		return i < from_a ? a.square(fasted_spread_row(i, from_a, a.rows))
			: b.square(fasted_spread_row(i - from_a, from_b, b.rows));
	}
#endif
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_SPREAD_ROWS_H */
