/*-------------------------------------------------------------------------
 *
 * quantise.h
 *	  From rows as staged (FP32) to rows in FP16, or in FP32 about a centre, and
 *	  their thresholds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_QUANTISE_H
#define FASTED_CUDA_QUANTISE_H

#include <cuda_fp16.h>

#include "device/device_memory.h"
#include "rows/quantised.h"
#include "rows/row_table.h"
#include "rows/spread_rows.h"

namespace fasted
{

/*
 * What a row's threshold is made of for any eps: the squared norm of its quantised
 * form, as computed, and rho, how far quantising moved it at most (filter_bound.h).
 */
struct alignas(16) RowNorm
{
	double		norm2;			/* negative: the row has no pairs */
	double		rho;
};

__host__ __device__ constexpr RowNorm
row_without_pairs()
{
	return {-1.0, 0.0};
}

/*
 * How every row of a set is transformed before it is rounded to FP16 or FP32:
 * subtract the centre, multiply by 2^exponent.  Found from a sample.  It need not
 * fit: a row that it fits badly, or that overflows, is clamped, and the distance
 * that this moved it is in its threshold.
 */
class Transform
{
public:
	void		allocate(Budget &budget, uint32_t dimensions);
	void		find(const SpreadRows &rows, cudaStream_t stream);

	static size_t bytes(uint32_t dimensions);

	const float *centre() const { return centre_.get(); }
	const int  *exponent() const { return exponent_.get(); }

private:
	DeviceArray<float> centre_;
	DeviceArray<int> exponent_; /* [0]: of the scale; [1]: of typical raw rows */
	DeviceArray<int> row_exponents_;
	DeviceArray<uint32_t> histogram_;
};

/* Quantises rows for the certified filters, in FP16 or in FP32. */
void launch_quantise(const RowTable &rows, const Transform &transform, Precision precision,
					 void *values, RowNorm *norms, cudaStream_t stream);

/* The relative error of a computed product of two rows against that of their norms. */
double product_error(uint32_t dimensions, Precision precision);

/* Thresholds are FP32 in 32 bits; those beyond the rows are +inf. */
void launch_thresholds(const RowNorm *norms, uint32_t rows, uint32_t dimensions,
					   const Transform &transform, Precision precision, double eps,
					   uint32_t *thresholds, cudaStream_t stream);

/*
 * The paper's own: FP16 as the rows are, and s_i, the sum of squares rounded
 * toward zero (its step 1).  *overflow becomes 1 when a value does not fit.
 */
void launch_quantise_paper(const RowTable &rows, uint32_t row_bytes,
						   __half *values, uint32_t *norms, uint32_t *overflow,
						   cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_QUANTISE_H */
