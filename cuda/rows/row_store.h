/*-------------------------------------------------------------------------
 *
 * row_store.h
 *	  Rows on the device as they were staged, in chunks; and a sample of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_ROW_STORE_H
#define FASTED_CUDA_ROW_STORE_H

#include <vector>

#include "device/device.h"
#include "rows/row_table.h"

namespace fasted
{

/* Chunks have 2^shift rows. */
struct ChunkShape
{
	uint32_t	dimensions = 0;
	uint32_t	shift = 0;
	bool		doubles = false;

	size_t rows() const { return (size_t) 1 << shift; }
	uint32_t row_floats() const { return (doubles ? 2 : 1) * dimensions; }
	size_t row_bytes() const { return row_floats() * sizeof(float); }
	size_t bytes() const { return Budget::rounded(rows() * row_bytes()); }

	/* All that RowStore allocates for this many rows. */
	size_t bytes_for(uint64_t count) const
	{
		uint64_t	chunks = (count + rows() - 1) / rows();

		return chunks * bytes() + Budget::rounded(chunks * sizeof(float *));
	}
};

class RowStore
{
public:
	explicit RowStore(const ChunkShape &shape) : shape_(shape) {}

	/* Room for this many rows; what cudaMalloc says if there is none. */
	cudaError_t try_grow(Budget &budget, uint64_t count)
	{
		while (chunks_.size() * shape_.rows() < count)
		{
			DeviceArray<float> chunk;
			cudaError_t error = chunk.try_allocate(budget, shape_.rows() * shape_.row_floats());

			if (error != cudaSuccess)
				return error;
			chunks_.push_back(std::move(chunk));
		}
		return cudaSuccess;
	}

	/* Where a row lies, and how many rows lie in one piece from there on. */
	float *at(uint64_t row, uint64_t *together) const
	{
		uint64_t	within = row & (shape_.rows() - 1);

		*together = shape_.rows() - within;
		return chunks_[row >> shape_.shift].get() + within * shape_.row_floats();
	}

	/*
	 * No more chunks for now: tells kernels where they lie, those of this stream and
	 * those that wait for it.
	 */
	void finish(Budget &budget, cudaStream_t stream)
	{
		if (table_.size() == chunks_.size())
			return;
		pointers_.clear();
		for (const DeviceArray<float> &chunk : chunks_)
			pointers_.push_back(chunk.get());
		table_.release();
		table_.allocate(budget, chunks_.size(), "allocating the table of rows");

		/* cudaMemcpy may return before its copy is seen by other streams */
		check_cuda(cudaMemcpyAsync(table_.get(), pointers_.data(),
								   chunks_.size() * sizeof(float *),
								   cudaMemcpyHostToDevice, stream),
				   "copying the table of rows");
	}

	RowTable table() const
	{
		RowTable	table = {table_.get(), shape_.shift, shape_.dimensions, rows};

		table.doubles = shape_.doubles;
		return table;
	}

	uint32_t	rows = 0;

private:
	ChunkShape	shape_;
	std::vector<DeviceArray<float>> chunks_;
	std::vector<const float *> pointers_;	/* for table_'s copy to read */
	DeviceArray<const float *> table_;
};

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

#endif							/* FASTED_CUDA_ROW_STORE_H */
