/*-------------------------------------------------------------------------
 *
 * directions.h
 *	  What the filter sees of rows where the distance is cosine: their directions; and
 *	  of rows of doubles: floats.
 *
 * Rows stay as they were staged, for the recheck, with x.x of each in FP64.  Whoever
 * quantises rows, or looks at a sample, reads x / |x| in FP32 instead, or x rounded to
 * FP32, a piece of the rows at a time, so that there is no second copy of them.  That
 * the filter then loses no pair is proved in doc/bound-cosine.md and bound-double.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_DIRECTIONS_H
#define FASTED_CUDA_DIRECTIONS_H

#include "device/device_memory.h"
#include "rows/form_bound.h"
#include "rows/quantise.h"
#include "rows/row_table.h"
#include "rows/spread_rows.h"

namespace fasted
{

/* Writes x.x of every row as staged, the canonical sum, to squares. */
void launch_squares(const RowTable &rows, double *squares, cudaStream_t stream);

/*
 * Adds how far rounding to FP32 moved rows of doubles to what their norms say, for `count`
 * rows from place `first` on, whose norms these are; in the scale of the form, times factor.
 */
void launch_add_narrowed(const RowTable &rows, uint32_t first, uint32_t count,
						 const FormBound &form, double factor, RowNorm *norms,
						 cudaStream_t stream);

/* Room for the directions of some rows, or for rounded ones; to be used in one stream only. */
class Directions
{
public:
	/* Pieces as large as that, if it is enough for two rows. */
	Directions(Budget &budget, uint32_t dimensions, size_t most_bytes, bool cosine);

	bool is_cosine() const { return cosine_; }

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
			if (cosine_)
				mark(rows, first, norms, stream);
		}
	}

private:
	RowTable	piece(const RowTable &rows, uint32_t first, cudaStream_t stream);
	void		mark(const RowTable &rows, uint32_t first, RowNorm *norms, cudaStream_t stream);

	bool		cosine_;		/* directions; else rounded rows */
	uint32_t	dimensions_;
	uint32_t	room_;			/* rows, an even number */
	DeviceArray<float> values_;
	DeviceArray<const float *> chunks_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_DIRECTIONS_H */
