/*-------------------------------------------------------------------------
 *
 * quantise_int8.h
 *	  From rows as staged (FP32) to INT8 rows and their integer thresholds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_QUANTISE_INT8_H
#define FASTED_CUDA_QUANTISE_INT8_H

#include "device/device_memory.h"
#include "engine/filter_bound.h"
#include "rows/quantise.h"
#include "rows/row_table.h"

namespace fasted
{

/* Up to here INT32 sums cannot overflow, whatever the rows. */
constexpr uint32_t kMostDimensionsInt8 = FASTED_INT8_MOST_DIMENSIONS;

/*
 * Thresholds n are INT32.  A pair (x, y) is a candidate if p - n_y >= n_x, where
 * p is the exact product: this difference never overflows, n_x + n_y may.
 */
constexpr int32_t kInt8Every = FASTED_INT8_EVERY;		/* passes with every row */
constexpr int32_t kInt8Padding = FASTED_INT8_PADDING;	/* passes with none */

/* What the quantising kernel reads besides the centre. */
struct Int8Scale
{
	float		scale;
	uint32_t	lossless;		/* integers within a byte: no rotation, scale 1 */
};

/*
 * How every row of a set is transformed before it is rounded to INT8: subtract
 * the centre, scale, rotate.  The rotation spreads a row's norm evenly over its
 * coordinates, so that one scale fits all of them.  Rows of small integers (8-bit
 * data) are not rotated: they fit as they are, and lose nothing.
 *
 * Found from a sample, on the device.  It need not fit: coordinates beyond a byte are
 * clamped, of all rows alike, which brings no two further apart.
 */
class Int8Transform
{
public:
	void		allocate(Budget &budget, uint32_t dimensions);

	/* Asynchronous: nothing comes back to the host. */
	void		find(const SpreadRows &rows, cudaStream_t stream);

	static size_t bytes(uint32_t dimensions);

	const float *centre() const { return centre_.get(); }
	const Int8Scale *scale() const { return scale_.get(); }

private:
	void		find_scale(const SpreadRows &rows, cudaStream_t stream);

	Transform	mean_;			/* the mean, and the size of typical rows */
	DeviceArray<float> centre_;
	DeviceArray<float> integer_centre_;
	DeviceArray<Int8Scale> scale_;
	DeviceArray<float> largest_;	/* rotated coordinate, of each sampled row */
	DeviceArray<float> typical_;	/* the same, of all but outliers */
	DeviceArray<float> errors_; /* of each sampled row with each scale tried */
};

/*
 * Quantises rows for the certified filter.  row_bytes is the number of dimensions
 * rounded up to kStepBytes; values has room for rows x row_bytes.  Norms have the rho of
 * fasted_rho_clamped.
 */
void launch_quantise_int8(const RowTable &rows, const Int8Transform &transform,
						  uint32_t row_bytes, int8_t *values, RowNorm *norms,
						  cudaStream_t stream);

/* There is room for padded_thresholds(rows); beyond rows they are kInt8Padding. */
void launch_thresholds_int8(const RowNorm *norms, uint32_t rows, uint32_t dimensions,
							const Int8Transform &transform, double eps,
							uint32_t *thresholds, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_QUANTISE_INT8_H */
