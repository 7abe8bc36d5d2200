/*-------------------------------------------------------------------------
 *
 * directions.h
 *	  What the filter sees of rows where the distance is cosine: their directions.
 *
 * Rows stay as they were staged, for the recheck, with x.x of each in FP64.  Whoever
 * quantises rows, or looks at a sample, reads x / |x| in FP32 instead, a piece of the
 * rows at a time, so that there is no second copy of them.  That the filter then
 * loses no pair is proved in doc/bound-cosine.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_DIRECTIONS_H
#define FASTED_CUDA_DIRECTIONS_H

#include "device/device_memory.h"
#include "rows/quantise.h"
#include "rows/row_table.h"
#include "rows/spread_rows.h"

namespace fasted
{

/* Writes x.x of every row as staged, the canonical sum, to squares. */
void launch_squares(const RowTable &rows, double *squares, cudaStream_t stream);

/* Room for the directions of some rows; to be used in one stream only. */
class Directions
{
public:
	/* Pieces as large as that, if it is enough for two rows. */
	Directions(Budget &budget, uint32_t dimensions, size_t most_bytes);

	/* What it allocates. */
	static size_t bytes(uint32_t dimensions, size_t most_bytes);

	/* The directions of a sample; good until the next call. */
	SpreadRows	sample(const SpreadRows &rows, cudaStream_t stream);

	/*
	 * Calls quantise(piece, first) for one piece of the rows after the other, from
	 * their place `first` on, and marks those that have no direction.
	 */
	template <class Quantise>
	void for_pieces(const RowTable &rows, RowNorm *norms, cudaStream_t stream,
					const Quantise &quantise)
	{
		for (uint32_t first = 0; first < rows.rows; first += room_)
		{
			quantise(piece(rows, first, stream), first);
			mark(rows, first, norms, stream);
		}
	}

private:
	RowTable	piece(const RowTable &rows, uint32_t first, cudaStream_t stream);
	void		mark(const RowTable &rows, uint32_t first, RowNorm *norms, cudaStream_t stream);

	uint32_t	dimensions_;
	uint32_t	room_;			/* rows, an even number */
	DeviceArray<float> values_;
	DeviceArray<const float *> chunks_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_DIRECTIONS_H */
