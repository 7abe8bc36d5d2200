/*-------------------------------------------------------------------------
 *
 * form_bound.h
 *	  What turns a distance into a threshold of quantised rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FORM_BOUND_H
#define FASTED_CUDA_FORM_BOUND_H

#include "engine/filter_bound.h"
#include "rows/quantise_int8.h"
#include "rows/quantised.h"

namespace fasted
{

/* Of a Form, which owns what the pointers point at. */
struct FormBound
{
	Precision	precision;
	uint32_t	dimensions;
	bool		cosine;
	const int  *exponent;		/* of the scale; INT8: unused */
	const Int8Scale *int8;
	double		gamma;			/* relative error of a product */
	double		short_scale = 0;	/* short rows: of the projection; 0: rows are not short */
	double		short_stretch = 1;	/* by what distances of short rows may be larger */

#ifdef __CUDACC__
	__device__ __forceinline__ double
	scale() const
	{
		return precision == Precision::kInt8 ? (double) int8->scale : ldexp(1.0, *exponent);
	}

	/* How far a row within this canonical distance is at most, in the form's scale. */
	__device__ __forceinline__ double
	reach(double dist) const
	{
		double		eps = cosine ? fasted_direction_reach(dist, dimensions) : dist;

		if (short_scale > 0)
			eps = fasted_eps_upper(eps, short_scale, dimensions) * short_stretch
				* (1.0 + 4 * FASTED_U64);
		return fasted_eps_upper(eps, scale(), dimensions);
	}

	/* Absolute error of a product, and relative one of a norm. */
	__device__ __forceinline__ double
	alpha() const
	{
		return precision == Precision::kInt8 ? 0.0 : dimensions * (double) FLT_MIN;
	}

	__device__ __forceinline__ double
	slack() const
	{
		return precision == Precision::kInt8 ? 0.0 : fasted_sum_slack(dimensions);
	}

	/* The threshold norm2 / 2 - reach^2 / 4, less what rounding may take. */
	__device__ __forceinline__ uint32_t
	threshold(double norm2, double reach) const
	{
		if (precision == Precision::kInt8)
			return (uint32_t) fasted_threshold_int(norm2, 0.0, reach);
		return __float_as_uint(fasted_threshold(norm2 * (1.0 - slack()), norm2 * (1.0 + slack()),
												0.0, reach, gamma, alpha()));
	}

	/* What no product reaches. */
	__device__ __forceinline__ uint32_t
	padding() const
	{
		return precision == Precision::kInt8 ? (uint32_t) kInt8Padding : __float_as_uint(INFINITY);
	}
#endif
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FORM_BOUND_H */
