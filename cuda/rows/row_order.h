/*-------------------------------------------------------------------------
 *
 * row_order.h
 *	  In which order rows are quantised: that of their thresholds for eps = 0.
 *
 * Rows that are in groups (row_labels.h) stay with their group.  A tile's rows then have nearly the same threshold, and so have its columns:
 * the filter compares all products of a thread with a few numbers, not each with
 * two of its own (epilogue.cuh).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_ROW_ORDER_H
#define FASTED_CUDA_ROW_ORDER_H

#include "device/device_memory.h"
#include "rows/quantised.h"

namespace fasted
{

/* The least threshold of every 64 columns: four numbers for a tile's 256. */
constexpr uint32_t kMinimaColumns = 64;

/* Rows that spreading leaves together: those that have one least threshold. */
constexpr uint32_t kStretch = kMinimaColumns;

class RowOrder
{
public:
	static size_t bytes(uint64_t rows);

	/* Room for the order of this many rows, and for sorting them. */
	void		allocate(Budget &budget, uint64_t rows);
	void		release();

	/* Sorts rows, as many as were allocated or fewer, by their thresholds. */
	void		sort(const uint32_t *thresholds, uint32_t rows, Precision precision,
					 cudaStream_t stream);

	/* Sorts them further by their labels (row_labels.h), which are below 2^bits. */
	void		sort_by_label(const uint32_t *labels, int bits, uint32_t rows,
							  cudaStream_t stream);

	/*
	 * Then shuffles stretches of kStretch rows, so that any number of rows from the first
	 * one on are about as all rows are.
	 */
	void		spread(uint32_t rows, cudaStream_t stream);

	/* After sort: room for a key of each place, less than 2^31, and sorts by these again. */
	uint32_t   *keys() { return keys_[0].get(); }
	const uint32_t *sorted_keys() const { return sorted_keys_; }
	void		sort_again(uint32_t rows, cudaStream_t stream);

	/* Which row is at each place; null before sort. */
	const uint32_t *get() const { return order_; }

private:
	DeviceArray<uint32_t> keys_[2];
	DeviceArray<uint32_t> rows_[2];
	DeviceArray<uint8_t> room_;
	uint32_t   *order_ = nullptr;
	const uint32_t *sorted_keys_ = nullptr;	/* of the last sort_again */
};

constexpr uint32_t
minima_of(uint64_t rows)
{
	return padded_thresholds(rows) / kMinimaColumns;
}

void launch_minima(const uint32_t *thresholds, uint32_t rows, Precision precision,
				   uint32_t *minima, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_ROW_ORDER_H */
