/*-------------------------------------------------------------------------
 *
 * device_memory.h
 *	  Owners of device memory, pinned memory, streams and events.
 *
 * Every byte of device memory that a context takes is counted against its budget.
 * Plain cudaMalloc only: managed memory would let it take more than the device
 * has, to the harm of everybody else on it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_DEVICE_MEMORY_H
#define FASTED_CUDA_DEVICE_MEMORY_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "device/check.h"
#include "device/pinned_pool.h"

namespace fasted
{

struct Budget
{
	size_t		limit = 0;
	size_t		used = 0;
	size_t		peak = 0;

	size_t left() const { return limit > used ? limit - used : 0; }

	/* cudaMalloc hands out multiples of this. */
	static size_t rounded(size_t bytes) { return (bytes + 511) / 512 * 512; }
};

/* An array on the device; empty until allocated. */
template <typename T>
class DeviceArray
{
public:
	DeviceArray() = default;
	DeviceArray(const DeviceArray &) = delete;
	DeviceArray &operator=(const DeviceArray &) = delete;
	DeviceArray(DeviceArray &&other) noexcept { swap(other); }
	DeviceArray &operator=(DeviceArray &&other) noexcept
	{
		swap(other);
		return *this;
	}
	~DeviceArray() { release(); }

	/* The status of cudaMalloc, for callers that can do with less. */
	cudaError_t try_allocate(Budget &budget, size_t count)
	{
		size_t		bytes = Budget::rounded(count * sizeof(T));
		void	   *address = nullptr;
		cudaError_t error = cudaMalloc(&address, bytes);

		release();
		if (error != cudaSuccess)
		{
			(void) cudaGetLastError();
			return error;
		}
		data_ = static_cast<T *>(address);
		count_ = count;
		bytes_ = bytes;
		budget_ = &budget;
		budget.used += bytes;
		budget.peak = std::max(budget.peak, budget.used);
		return cudaSuccess;
	}

	void allocate(Budget &budget, size_t count, const char *doing)
	{
		check_cuda(try_allocate(budget, count), doing, count * sizeof(T));
	}

	void release()
	{
		if (data_ == nullptr)
			return;
		(void) cudaFree(data_);
		budget_->used -= bytes_;
		data_ = nullptr;
		count_ = bytes_ = 0;
	}

	T		   *get() const { return data_; }
	size_t		size() const { return count_; }
	explicit operator bool() const { return data_ != nullptr; }

private:
	void swap(DeviceArray &other)
	{
		std::swap(data_, other.data_);
		std::swap(count_, other.count_);
		std::swap(bytes_, other.bytes_);
		std::swap(budget_, other.budget_);
	}

	T		   *data_ = nullptr;
	size_t		count_ = 0;
	size_t		bytes_ = 0;
	Budget	   *budget_ = nullptr;
};

/*
 * Page-locked host memory.  Slow to make (0.35 s a GiB): small, and reused, so
 * nothing on the device may use it any more when it is released.
 */
template <typename T>
class PinnedArray
{
public:
	PinnedArray() = default;
	PinnedArray(const PinnedArray &) = delete;
	PinnedArray &operator=(const PinnedArray &) = delete;
	~PinnedArray() { release(); }

	void allocate(size_t count, const char *doing)
	{
		size_t		bytes = pinned_size(count * sizeof(T));
		int			device = 0;

		check_cuda(cudaGetDevice(&device), doing);

		void	   *address = take_pinned(device, bytes);
		cudaError_t error = address != nullptr ? cudaSuccess
			: cudaHostAlloc(&address, bytes, cudaHostAllocDefault);

		release();
		if (error == cudaErrorMemoryAllocation)
		{
			(void) cudaGetLastError();
			fail(FASTED_OUT_OF_MEMORY,
				 "out of page-locked host memory (%zu bytes) while %s",
				 count * sizeof(T), doing);
		}
		check_cuda(error, doing);
		data_ = static_cast<T *>(address);
		count_ = count;
		device_ = device;
	}

	void release()
	{
		if (data_ != nullptr && !keep_pinned(device_, data_, pinned_size(count_ * sizeof(T))))
			(void) cudaFreeHost(data_);
		data_ = nullptr;
		count_ = 0;
	}

	T		   *get() const { return data_; }
	size_t		size() const { return count_; }

private:
	T		   *data_ = nullptr;
	size_t		count_ = 0;
	int			device_ = 0;
};

class Stream
{
public:
	Stream() = default;
	Stream(const Stream &) = delete;
	Stream &operator=(const Stream &) = delete;
	~Stream()
	{
		if (stream_ != nullptr)
			(void) cudaStreamDestroy(stream_);
	}
	void create()
	{
		check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
				   "creating a stream");
	}
	operator cudaStream_t() const { return stream_; }

private:
	cudaStream_t stream_ = nullptr;
};

class Event
{
public:
	Event() = default;
	Event(const Event &) = delete;
	Event &operator=(const Event &) = delete;
	~Event()
	{
		if (event_ != nullptr)
			(void) cudaEventDestroy(event_);
	}
	void record(cudaStream_t stream)
	{
		if (event_ == nullptr)
			check_cuda(cudaEventCreate(&event_), "creating an event");
		check_cuda(cudaEventRecord(event_, stream), "recording an event");
		recorded_ = true;
	}
	/* Has everything before the last record been done? */
	bool done(const char *doing) const
	{
		if (!recorded_)
			return true;
		cudaError_t error = cudaEventQuery(event_);

		if (error == cudaErrorNotReady)
		{
			(void) cudaGetLastError();
			return false;
		}
		check_cuda(error, doing);
		return true;
	}
	void wait(const char *doing) const
	{
		if (recorded_)
			check_cuda(cudaEventSynchronize(event_), doing);
	}
	/* The same of another device's event, which may have failed: that is over, too. */
	bool is_over() const
	{
		cudaError_t error = recorded_ ? cudaEventQuery(event_) : cudaSuccess;

		if (error != cudaSuccess)
			(void) cudaGetLastError();
		return error != cudaErrorNotReady;
	}
	bool settle() const { return !recorded_ || cudaEventSynchronize(event_) == cudaSuccess; }
	double seconds_since(const Event &begin) const
	{
		float		ms = 0;

		check_cuda(cudaEventElapsedTime(&ms, begin.event_, event_),
				   "reading an event's time");
		return ms * 1e-3;
	}
	operator cudaEvent_t() const { return event_; }

private:
	cudaEvent_t event_ = nullptr;
	bool		recorded_ = false;
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_DEVICE_MEMORY_H */
