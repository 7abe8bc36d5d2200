/*-------------------------------------------------------------------------
 *
 * staging.h
 *	  Small page-locked buffers through which rows go to the device.
 *
 * The caller fills one while others are on their way.  Sets share them; one that is
 * being filled belongs to its set.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_STAGING_H
#define FASTED_CUDA_STAGING_H

#include <memory>
#include <vector>

#include "device/device_memory.h"

namespace fasted
{

struct StagingBuffer
{
	PinnedArray<float> rows;
	Event		sent;
	bool		held = false;	/* by a set */
	uint64_t	turn = 0;		/* when it was given back */
};

class Staging
{
public:
	void set_size(uint64_t rows, uint32_t row_floats)
	{
		rows_ = rows;
		row_floats_ = row_floats;
	}

	uint64_t rows() const { return rows_; }

	/* Waits for the one that was sent first, unless a further one may be made. */
	StagingBuffer *take()
	{
		StagingBuffer *first = nullptr;
		int			others = 0;

		for (const std::unique_ptr<StagingBuffer> &buffer : buffers_)
		{
			if (buffer->held)
				continue;
			others++;
			if (first == nullptr || buffer->turn < first->turn)
				first = buffer.get();
		}
		if (others < kBuffers && (first == nullptr || !first->sent.done("copying rows")))
		{
			buffers_.emplace_back(new StagingBuffer);
			first = buffers_.back().get();
			first->rows.allocate(rows_ * row_floats_, "allocating staging buffers");
		}
		first->sent.wait("copying rows to the device");
		first->held = true;
		return first;
	}

	void give_back(StagingBuffer *buffer)
	{
		buffer->held = false;
		buffer->turn = ++turns_;
	}

	size_t bytes() const { return buffers_.size() * rows_ * row_floats_ * sizeof(float); }

private:
	static constexpr int kBuffers = 3;

	uint64_t	rows_ = 0;
	uint32_t	row_floats_ = 0;
	uint64_t	turns_ = 0;
	std::vector<std::unique_ptr<StagingBuffer>> buffers_;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_STAGING_H */
