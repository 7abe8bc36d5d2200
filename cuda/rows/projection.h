/*-------------------------------------------------------------------------
 *
 * projection.h
 *	  Directions in which rows differ most, and rows as seen along them.
 *
 * A short row has `width` numbers: the products of a row's image w = s (x - c) with so
 * many directions but one, and the norm of what these leave of w.  Short rows are not
 * further apart than images, but for what filter_bound.h says: doc/bound-pruning.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PROJECTION_H
#define FASTED_CUDA_PROJECTION_H

#include "device/device_memory.h"
#include "rows/row_table.h"
#include "rows/spread_rows.h"

namespace fasted
{

/* Numbers of a short row: one of these. */
constexpr uint32_t kShortWidths[] = {64, 128};
constexpr uint32_t kMostWidth = 128;

/* What kernels read of a projection. */
struct ProjectionView
{
	const float *centre;		/* c: one number a dimension */
	const float *directions;	/* P': kMostWidth numbers a dimension, zeros beyond the last */
	float		scale;			/* s, a power of two */
	uint32_t	count;			/* directions, less than kMostWidth */
	double		eta;			/* bounds the Frobenius norm of P P' - I */
};

class Projection
{
public:
	Projection(Budget &budget, uint32_t dimensions);

	/* What it allocates. */
	static size_t bytes(uint32_t dimensions);

	ProjectionView view() const
	{
		return {centre_.get(), directions_.get(), scale, count, eta};
	}
	float	   *centre() const { return centre_.get(); }
	float	   *directions() const { return directions_.get(); }

	/* Of a view; the numbers of the rows that it was found from (Form::find). */
	float		scale = 1;
	uint32_t	count = 0;
	double		eta = 0;
	uint64_t	from_a = 0;
	uint64_t	from_b = 0;

private:
	DeviceArray<float> centre_;
	DeviceArray<float> directions_;
};

/*
 * Short rows of this width, of `count` rows from place `first` on: count x width numbers.
 * moved gets how far each may be from the short row of the exact image: infinity for a
 * row that is not finite, or too long, whose short row is zeros.
 */
void launch_project(const RowTable &rows, uint32_t first, uint32_t count,
					const ProjectionView &projection, uint32_t width, float *to, float *moved,
					cudaStream_t stream);
void launch_project(const SpreadRows &rows, const ProjectionView &projection, uint32_t width,
					float *to, float *moved, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_PROJECTION_H */
