/*-------------------------------------------------------------------------
 *
 * row_store.h
 *	  One set of rows on the device: as staged, and quantised.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_ROW_STORE_H
#define FASTED_CUDA_ROW_STORE_H

#include <vector>

#include "device/device_memory.h"
#include "filter/filter.h"
#include "rows/row_order.h"
#include "rows/row_table.h"

namespace fasted
{

/* What a row takes on the device. */
struct RowShape
{
	uint32_t	dimensions = 0;
	uint32_t	row_bytes = 0;	/* of a quantised row, at most; 0: there are none */
	uint32_t	shift = 0;		/* 2^shift rows a chunk */

	size_t chunk_rows() const { return (size_t) 1 << shift; }
	size_t chunk_bytes() const
	{
		return Budget::rounded(chunk_rows() * dimensions * sizeof(float));
	}

	/* All that RowStore allocates for this many rows. */
	size_t bytes(uint64_t rows) const
	{
		uint64_t	chunks = (rows + chunk_rows() - 1) / chunk_rows();
		size_t		sum = chunks * chunk_bytes() + Budget::rounded(chunks * sizeof(float *));

		if (row_bytes > 0)
			sum += Budget::rounded(rows * row_bytes)
				+ Budget::rounded(padded_thresholds(rows) * sizeof(uint32_t))
				+ Budget::rounded(minima_of(rows) * sizeof(uint32_t)) + RowOrder::bytes(rows);
		return sum;
	}
};

class RowStore
{
public:
	void set_shape(const RowShape &shape) { shape_ = shape; }

	/* Room for this many rows; what cudaMalloc says if there is none. */
	cudaError_t try_grow(Budget &budget, uint64_t rows)
	{
		while (chunks_.size() * shape_.chunk_rows() < rows)
		{
			DeviceArray<float> chunk;
			cudaError_t error = chunk.try_allocate(budget,
												   shape_.chunk_rows() * shape_.dimensions);

			if (error != cudaSuccess)
				return error;
			chunks_.push_back(std::move(chunk));
		}
		return cudaSuccess;
	}

	/* Where a row lies, and how many rows lie in one piece from there on. */
	float *at(uint64_t row, uint64_t *together) const
	{
		uint64_t	within = row & (shape_.chunk_rows() - 1);

		*together = shape_.chunk_rows() - within;
		return chunks_[row >> shape_.shift].get() + within * shape_.dimensions;
	}

	/*
	 * No more chunks: allocates what kernels need beside the rows, those of this
	 * stream and those that wait for it.
	 */
	void finish(Budget &budget, uint64_t rows, cudaStream_t stream)
	{
		pointers_.clear();
		for (const DeviceArray<float> &chunk : chunks_)
			pointers_.push_back(chunk.get());
		table_.allocate(budget, chunks_.size(), "allocating the table of rows");

		/* cudaMemcpy may return before its copy is seen by other streams */
		check_cuda(cudaMemcpyAsync(table_.get(), pointers_.data(),
								   chunks_.size() * sizeof(float *),
								   cudaMemcpyHostToDevice, stream),
				   "copying the table of rows");
		if (shape_.row_bytes > 0)
		{
			values_.allocate(budget, rows * shape_.row_bytes,
							 "allocating device memory for the quantised rows");
			thresholds_.allocate(budget, padded_thresholds(rows),
								 "allocating device memory for the thresholds");
			minima_.allocate(budget, minima_of(rows),
							 "allocating device memory for the thresholds");
			order_.allocate(budget, rows);
		}
	}

	void clear()
	{
		chunks_.clear();
		table_.release();
		values_.release();
		thresholds_.release();
		minima_.release();
		order_.release();
		rows = 0;
	}

	/* The rows as they were staged. */
	RowTable table() const
	{
		return {table_.get(), shape_.shift, shape_.dimensions, rows};
	}

	/* What a filter and the recheck read. */
	JoinSide side() const
	{
		RowTable	ordered = table();

		ordered.order = order_.get();
		return {ordered, {values_.get(), thresholds_.get(), minima_.get(), rows}, first_row};
	}

	/* Where a quantiser writes. */
	QuantisedRoom room()
	{
		return {values_.get(), thresholds_.get(), minima_.get(), &order_};
	}

	uint64_t	first_row = 0;	/* the global number of the first */
	uint32_t	rows = 0;

private:
	RowShape	shape_;
	std::vector<DeviceArray<float>> chunks_;
	std::vector<const float *> pointers_;	/* for table_'s copy to read */
	DeviceArray<const float *> table_;
	DeviceArray<uint8_t> values_;
	DeviceArray<uint32_t> thresholds_;
	DeviceArray<uint32_t> minima_;
	RowOrder	order_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_ROW_STORE_H */
