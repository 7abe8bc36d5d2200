/*-------------------------------------------------------------------------
 *
 * row_table.h
 *	  Where the rows as staged (FP32 or FP64) lie: in chunks of 2^shift rows.
 *
 * The number of rows is not known while they arrive, and a chunk more is
 * cheaper than moving what is there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_ROW_TABLE_H
#define FASTED_CUDA_ROW_TABLE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/host_device.h"

namespace fasted
{

struct RowTable
{
	const float *const *chunks;
	uint32_t	shift;
	uint32_t	dimensions;
	uint32_t	rows;
	const uint32_t *order = nullptr;	/* which row is at each place; null: the same */
	const double *squares = nullptr;	/* cosine: x.x of each row as staged */
	bool		doubles = false;	/* rows are of doubles, each in the place of two floats */

#ifdef __CUDACC__
	/* Which of the rows as staged is at this place. */
	__device__ __forceinline__ uint32_t
	number_at(uint32_t place) const
	{
		return order == nullptr ? place : order[place];
	}

	/* A row as staged, of floats or of doubles: as it is. */
	template <class Number>
	__device__ __forceinline__ const Number *
	staged(uint32_t number) const
	{
		uint32_t	within = number & ((1u << shift) - 1);

		return (const Number *) chunks[number >> shift] + (size_t) within * dimensions;
	}

	__device__ __forceinline__ const float *
	staged_row(uint32_t number) const
	{
		return staged<float>(number);
	}

	/* The same of rows of doubles. */
	__device__ __forceinline__ const double *
	staged_doubles(uint32_t number) const
	{
		return staged<double>(number);
	}

	/* x.x of the row at this place. */
	__device__ __forceinline__ double
	square(uint32_t place) const
	{
		return squares[number_at(place)];
	}

	/* The row at this place, of floats or of doubles. */
	__device__ __forceinline__ const double *
	doubles_row(uint32_t place) const
	{
		return staged_doubles(number_at(place));
	}

	__device__ __forceinline__ const float *
	row(uint32_t place) const
	{
		return staged_row(number_at(place));
	}
#endif
};

/*
 * Some rows, evenly spread over one set of rows, or over two.
 */

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

#endif							/* FASTED_CUDA_ROW_TABLE_H */
