/*-------------------------------------------------------------------------
 *
 * staging.h
 *	  Small page-locked buffers through which rows go to the device.
 *
 * The caller fills one while others are on their way.  Sets share them; one that is
 * being filled belongs to its set.  Other devices may read it, too.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_STAGING_H
#define FASTED_CUDA_STAGING_H

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "device/device_memory.h"

namespace fasted
{

/*
 * What a context reads of other contexts' buffers: an event for each buffer.  They are
 * its device's, and go with the context, whose stream has come to rest then.
 */
class Reading
{
public:
	Event &event_of(const void *buffer) { return events_[buffer]; }

	/* An error is that device's own: its next call tells. */
	void wait(const void *buffer)
	{
		auto		found = events_.find(buffer);

		if (found != events_.end() && !found->second.settle())
			(void) cudaGetLastError();
	}
	bool done(const void *buffer)
	{
		auto		found = events_.find(buffer);

		return found == events_.end() || found->second.is_over();
	}
	void end() { events_.clear(); }

private:
	std::map<const void *, Event> events_;
};

/* Other contexts that read a buffer. */
class Readers
{
public:
	/* The last copy in this stream is from here. */
	void note(const std::shared_ptr<Reading> &reading, cudaStream_t stream)
	{
		reading->event_of(this).record(stream);
		if (std::find(readings_.begin(), readings_.end(), reading) == readings_.end())
			readings_.push_back(reading);
	}
	bool done() const
	{
		for (const std::shared_ptr<Reading> &reading : readings_)
		{
			if (!reading->done(this))
				return false;
		}
		return true;
	}
	void wait()
	{
		for (const std::shared_ptr<Reading> &reading : readings_)
			reading->wait(this);
		readings_.clear();
	}

private:
	std::vector<std::shared_ptr<Reading>> readings_;
};

struct StagingBuffer
{
	PinnedArray<float> rows;
	Event		sent;
	Readers		readers;
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
		if (others < kBuffers && (first == nullptr || !first->sent.done("copying rows")
								  || !first->readers.done()))
		{
			buffers_.emplace_back(new StagingBuffer);
			first = buffers_.back().get();
			first->rows.allocate(rows_ * row_floats_, "allocating staging buffers");
		}
		first->sent.wait("copying rows to the device");
		first->readers.wait();
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
