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

#include <cstddef>
#include <cstdint>

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

}								/* namespace fasted */

#endif							/* FASTED_CUDA_ROW_TABLE_H */
