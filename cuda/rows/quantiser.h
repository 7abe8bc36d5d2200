/*-------------------------------------------------------------------------
 *
 * quantiser.h
 *	  The rows of a join in the form that its filter reads, whichever that is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_QUANTISER_H
#define FASTED_CUDA_QUANTISER_H

#include "device/device_memory.h"
#include "filter/filter.h"
#include "rows/quantise.h"
#include "rows/quantise_int8.h"
#include "rows/row_order.h"

namespace fasted
{

constexpr Precision
precision_of(Criterion criterion)
{
	return criterion == Criterion::kInt8 ? Precision::kInt8 : Precision::kFp16;
}

class Quantiser
{
public:
	static size_t bytes(uint32_t dimensions)
	{
		return Transform::bytes(dimensions) + Int8Transform::bytes(dimensions);
	}

	void allocate(Budget &budget, uint32_t dimensions)
	{
		fp16_.allocate(budget, dimensions);
		int8_.allocate(budget, dimensions);
	}

	/* Finds a transform, from the first rows that it is given. */
	void find(Precision precision, const RowTable &rows, cudaStream_t stream)
	{
		bool	   &found = precision == Precision::kInt8 ? found_int8_ : found_fp16_;

		if (!found && precision == Precision::kInt8)
			int8_.find(rows, stream);
		else if (!found)
			fp16_.find(rows, stream);
		found = true;
	}

	/*
	 * Quantises rows, in the order of their thresholds if there is room for one;
	 * that is known only after they have been quantised once.
	 */
	void quantise(Criterion criterion, RowTable rows, double eps, const QuantisedRoom &room,
				  cudaStream_t stream)
	{
		Precision	precision = precision_of(criterion);

		find(precision, rows, stream);
		write(precision, rows, eps, room, stream);
		if (room.order != nullptr)
		{
			room.order->sort(room.thresholds, rows.rows, precision, stream);
			rows.order = room.order->get();
			write(precision, rows, eps, room, stream);
		}
		launch_minima(room.thresholds, rows.rows, precision, room.minima, stream);
	}

private:
	void write(Precision precision, const RowTable &rows, double eps,
			   const QuantisedRoom &room, cudaStream_t stream)
	{
		uint32_t	bytes = row_bytes(rows.dimensions, precision);

		if (precision == Precision::kInt8)
			launch_quantise_int8(rows, int8_, eps, bytes, (int8_t *) room.values,
								 room.thresholds, stream);
		else
			launch_quantise(rows, fp16_, eps, bytes, (__half *) room.values,
							room.thresholds, stream);
	}

	Transform	fp16_;
	Int8Transform int8_;
	bool		found_fp16_ = false;
	bool		found_int8_ = false;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_QUANTISER_H */
