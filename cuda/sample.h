/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  Some rows, evenly spread over all of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_SAMPLE_H
#define FASTED_CUDA_SAMPLE_H

#include "device_memory.h"
#include "row_table.h"

namespace fasted
{

#ifdef __CUDACC__
/*
 * The number of sampled row i of `sampled`, out of rows: one in each of equal
 * stretches, at a place that differs from one to the next, or data that repeat
 * would show always the same side.  The same in every run.
 */
__device__ __forceinline__ uint32_t
spread_row(uint32_t i, uint32_t sampled, uint32_t rows)
{
	uint32_t	first = (uint32_t) ((uint64_t) i * rows / sampled);
	uint32_t	next = (uint32_t) ((uint64_t) (i + 1) * rows / sampled);
	uint32_t	hash = (i + 1) * 0x9e3779b1u;

	hash = (hash ^ hash >> 15) * 0x85ebca77u;
	hash ^= hash >> 13;
	return first + (uint32_t) ((uint64_t) hash * (next - first) >> 32);
}
#endif

/* A copy of some rows, in one piece; of all of them if they are few. */
class RowSample
{
public:
	/* What take() allocates at most. */
	static size_t bytes(uint32_t dimensions);

	void		take(Budget &budget, const RowTable &rows, cudaStream_t stream);

	/* Valid on the device once the stream has come here. */
	RowTable	table() const;

private:
	DeviceArray<float> values_;
	DeviceArray<const float *> chunks_;
	uint32_t	dimensions_ = 0;
	uint32_t	rows_ = 0;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_SAMPLE_H */
