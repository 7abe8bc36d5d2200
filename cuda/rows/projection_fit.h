/*-------------------------------------------------------------------------
 *
 * projection_fit.h
 *	  A projection is found: leading directions of a sample of rows.
 *
 * Subspace iteration from random signs, V = W' X, W = X V'.  V is made orthonormal in the
 * order of its rows, so that the first 63 of them are what an iteration of so many would
 * have found.  Any directions are right; how far they are from orthonormal is measured
 * in the end (eta).  Sums are in a fixed order: the same rows give the same projection.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PROJECTION_FIT_H
#define FASTED_CUDA_PROJECTION_FIT_H

#include <vector>

#include "device/device_memory.h"
#include "rows/projection.h"
#include "rows/quantise.h"

namespace fasted
{

class ProjectionFit
{
public:
	/* A sample as large as that, but of some rows. */
	ProjectionFit(Budget &budget, uint32_t dimensions, size_t most_bytes);

	/* What it allocates. */
	static size_t bytes(uint32_t dimensions, size_t most_bytes);

	uint32_t most_rows() const { return most_rows_; }

	/*
	 * False: there are no directions, for all rows are the same.  Waits for the device,
	 * some milliseconds.
	 */
	bool		find(const SpreadRows &rows, Projection *to, cudaStream_t stream);

private:
	static uint32_t rows_in(size_t bytes, uint32_t dimensions);
	void		find_centre(const SpreadRows &rows, Projection *to, cudaStream_t stream);
	void		gram(cudaStream_t stream);
	void		orthonormalise(cudaStream_t stream);
	double		measure_eta(cudaStream_t stream);

	uint32_t	dimensions_;
	uint32_t	most_rows_;
	uint32_t	count_ = 0;		/* directions in hand */
	double		farthest_ = 0;	/* rows further than that from the centre are left out */
	Transform	mean_;
	DeviceArray<double> norms_; /* of the sampled rows about the centre */
	DeviceArray<float> x_;		/* [row][dimension] */
	DeviceArray<float> w_;		/* [row][direction] */
	DeviceArray<float> v_[2];	/* [direction][dimension] */
	DeviceArray<double> gram_;	/* V V', or what makes V orthonormal */
	std::vector<double> host_gram_;
	std::vector<double> host_turn_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_PROJECTION_FIT_H */
