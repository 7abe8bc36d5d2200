/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  Some rows, evenly spread over all of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_SAMPLE_H
#define FASTED_CUDA_SAMPLE_H

#include "device/device_memory.h"
#include "engine/spread_row.h"
#include "rows/row_table.h"

namespace fasted
{

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
