/*-------------------------------------------------------------------------
 *
 * short_rows.h
 *	  Room for short rows (projection.h): whoever quantises them reads a piece at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_SHORT_ROWS_H
#define FASTED_CUDA_SHORT_ROWS_H

#include "device/device_memory.h"
#include "rows/projection.h"
#include "rows/quantise.h"
#include "rows/quantise_int8.h"

namespace fasted
{

/* To be used in one stream only. */
class ShortRows
{
public:
	/* Pieces as large as that, if it is enough for a few rows. */
	ShortRows(Budget &budget, size_t most_bytes, cudaStream_t stream);

	/* What it allocates. */
	static size_t bytes(size_t most_bytes);

	/* The short rows of a sample, of as many rows as there is room for; good until the next call. */
	SpreadRows	sample(const SpreadRows &rows, const Projection &projection, uint32_t width,
					   cudaStream_t stream);

	/*
	 * Calls quantise(piece, first, moved) for one piece of short rows after the other, from
	 * their place `first` on; moved as launch_project has it.
	 */
	template <class Quantise>
	void for_pieces(const RowTable &rows, const Projection &projection, uint32_t width,
					cudaStream_t stream, const Quantise &quantise)
	{
		uint32_t	most = room_ / width;

		for (uint32_t first = 0; first < rows.rows; first += most)
		{
			uint32_t	count = std::min(most, rows.rows - first);

			launch_project(rows, first, count, projection.view(), width, values_.get(),
						   moved_.get(), stream);
			quantise(table(count, width), first, moved_.get());
		}
	}

private:
	RowTable table(uint32_t count, uint32_t width) const
	{
		return {chunk_.get(), 31, width, count};
	}

	uint32_t	room_;			/* numbers */
	DeviceArray<float> values_;
	DeviceArray<float> moved_;
	DeviceArray<const float *> chunk_;
};

/* Adds how far short rows were off before they were quantised to what their norms say. */
void launch_add_moved(const float *moved, uint32_t rows, const Int8Transform &transform,
					  RowNorm *norms, cudaStream_t stream);

/* By what factor distances of short rows may be larger, beside the scale. */
double short_stretch(const Projection &projection);

/* For thresholds of short rows: what takes the place of eps. */
double short_reach(double eps, const Projection &projection, uint32_t dimensions);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_SHORT_ROWS_H */
