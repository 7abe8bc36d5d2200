/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  A copy of some rows, of one set or of two.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_SAMPLE_H
#define FASTED_CUDA_SAMPLE_H

#include "device/device_memory.h"
#include "rows/row_table.h"
#include "rows/spread_rows.h"

namespace fasted
{

/* The rows of each set in one piece; of all of them if they are few. */
class RowSample
{
public:
	static uint32_t most_rows(uint32_t dimensions);

	/* What allocate takes. */
	static size_t bytes(uint32_t dimensions, bool doubles = false);
	void		allocate(Budget &budget, uint32_t dimensions, bool doubles = false);

	void		take(const SpreadRows &rows, cudaStream_t stream);

	/* Of side 0 or 1.  Valid on the device once the stream has come here. */
	RowTable	table(int side) const;

private:
	DeviceArray<float> values_;
	DeviceArray<const float *> chunks_;
	DeviceArray<double> squares_;	/* those of the rows, where these have them */
	bool		has_squares_ = false;
	bool		doubles_ = false;
	uint32_t	dimensions_ = 0;
	uint32_t	rows_[2] = {0, 0};
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_SAMPLE_H */
