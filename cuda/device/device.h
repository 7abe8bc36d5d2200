/*-------------------------------------------------------------------------
 *
 * device.h
 *	  A GPU: failures of calls, which one a context uses, memory, streams and events.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_DEVICE_H
#define FASTED_CUDA_DEVICE_H

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "engine/engine.h"

namespace fasted
{

/*
 * Failures inside the engine, and the check around every CUDA call.
 *
 * Inside cuda/ a failure is a C++ exception, so that a function reads as what
 * it does when all goes well.  engine.cu catches every one of them: nothing
 * but a status and a text leaves the library.
 */

constexpr size_t kTextBytes = 1000;	/* of a failure */

struct Failure
{
	FastedStatus status;
	bool		sticky;			/* the CUDA context is lost */
	char		text[kTextBytes];
};

/* After these errors no call of this process reaches the device any more. */
inline bool
is_sticky(cudaError_t error)
{
	switch (error)
	{
		case cudaErrorIllegalAddress:
		case cudaErrorLaunchTimeout:
		case cudaErrorAssert:
		case cudaErrorHardwareStackError:
		case cudaErrorIllegalInstruction:
		case cudaErrorMisalignedAddress:
		case cudaErrorInvalidAddressSpace:
		case cudaErrorInvalidPc:
		case cudaErrorLaunchFailure:
		case cudaErrorECCUncorrectable:
		case cudaErrorUnknown:
			return true;
		default:
			break;
	}
	/* those that older toolkits have no names for */
	switch ((int) error)
	{
		case 220:				/* cudaErrorNvlinkUncorrectable */
		case 226:				/* cudaErrorContained */
		case 721:				/* cudaErrorTensorMemoryLeak */
		case 810:				/* cudaErrorMpsClientTerminated */
		case 911:				/* cudaErrorExternalDevice */
			return true;
		default:
			return false;
	}
}

/* A sticky error has ended CUDA's context on one of this process's GPUs. */
inline std::atomic<bool> context_was_lost{false};

[[noreturn]] __attribute__((format(printf, 2, 3))) inline void
fail(FastedStatus status, const char *format, ...)
{
	Failure		failure = {status, false, ""};
	va_list		args;

	va_start(args, format);
	vsnprintf(failure.text, sizeof(failure.text), format, args);
	va_end(args);
	throw failure;
}

/* What the reader of the message can do about it. */
inline const char *
hint_for(cudaError_t error)
{
	if (error == cudaErrorMemoryAllocation)
		return "Lower the limit on GPU memory, or let other users of the GPU finish.";
	if (error == cudaErrorInsufficientDriver)
		return "Install a newer NVIDIA driver.";
	if (error == cudaErrorNoKernelImageForDevice)
		return "Build the CUDA library for this GPU's compute capability.";
	/*
	 * The driver answers the same in both cases: a process that lost its context on
	 * one GPU gets no new context on any GPU.
	 */
	if (error == cudaErrorDevicesUnavailable && !context_was_lost)
		return "Another process holds the GPU in exclusive mode.";
	if (error == cudaErrorDevicesUnavailable || is_sticky(error))
		return "The GPU dropped this process's work; use a new session.";
	return "";
}

/* Throws unless error is cudaSuccess.  "doing" completes "while ...". */
inline void
check_cuda(cudaError_t error, const char *doing, size_t bytes = 0)
{
	if (error == cudaSuccess)
		return;
	(void) cudaGetLastError();	/* a failed call must not spoil the next one */

	Failure		failure;
	const char *hint = hint_for(error);
	char		amount[48] = "";

	failure.sticky = is_sticky(error);
	failure.status = (error == cudaErrorMemoryAllocation)
		? FASTED_OUT_OF_DEVICE_MEMORY
		: (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice)
		? FASTED_NO_DEVICE : FASTED_DEVICE_FAILED;
	if (bytes > 0)
		snprintf(amount, sizeof(amount), " (%.1f MiB)", bytes / 1048576.0);
	snprintf(failure.text, sizeof(failure.text), "%s (%s) while %s%s%s%s",
			 cudaGetErrorName(error), cudaGetErrorString(error), doing, amount,
			 hint[0] ? ". " : "", hint);
	throw failure;
}

/* After a kernel launch. */
inline void
check_launch(const char *kernel)
{
	check_cuda(cudaGetLastError(), kernel);
}

/* Lets a kernel have more dynamic shared memory than one gets unasked. */
template <class Kernel>
void
allow_shared_memory(Kernel kernel, size_t bytes)
{
	check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
									(int) bytes),
			   "asking for shared memory");
}

/* Copies `count` elements in the order of the stream. */
template <class T>
void
copy_async(T *to, const T *from, size_t count, cudaMemcpyKind kind, cudaStream_t stream,
		   const char *doing)
{
	check_cuda(cudaMemcpyAsync(to, from, count * sizeof(T), kind, stream), doing);
}

/* Copies between the host and the device, and waits until the stream has come so far. */
template <class T>
void
copy_and_wait(T *to, const T *from, size_t count, cudaMemcpyKind kind, cudaStream_t stream,
			  const char *doing)
{
	copy_async(to, from, count, kind, stream, doing);
	check_cuda(cudaStreamSynchronize(stream), doing);
}

struct Device
{
	int			ordinal;
	int			capability;		/* 90 for 9.0 */
	int			multiprocessors;
	int			shared_per_multiprocessor;
	char		name[96];
};

/*
 * The device of a context: the first one that is capable of those that are
 * named (device_list.h), in their order, or of all.  Fails where there is none,
 * and where one of the names is nobody's.
 */
Device		find_device(const char *names = nullptr);

/* That one and those like it, by their UUIDs; how many. */
int			list_alike(const char *names, char (*list)[FASTED_DEVICE_NAME], int most);

/*
 * Describes the device with this ordinal, usable or not, in a text of at most size bytes.
 * Creates no context on it.  Returns false if there is no such device.
 */
bool		describe_device(int ordinal, char *text, size_t size);

/*
 * A context uses a device from begin_use to end_use.  After an error of the device
 * (note_lost) no call of this process reaches it any more.  The last one gives
 * CUDA's own context up, and with it all memory on the device; find_device says whether
 * a new one can be had.
 */
void		begin_use(int ordinal);
void		note_lost(int ordinal);
void		end_use(int ordinal);

/* From here on copies to this device read the other one's memory directly, if they can. */
void		see_memory_of(int ordinal, int other);

/*
 * Page-locked host memory that outlives a context, for the next one.
 *
 * To lock pages and to unlock them takes half a millisecond a megabyte, of a
 * statement that may take ten.  A process keeps no more than kPinnedKept of them.
 */

constexpr size_t kPinnedKept = (size_t) 16 << 20;

/* The size that is allocated for so many bytes: few sizes, which fit again. */
size_t		pinned_size(size_t bytes);

/* Memory of a device's context, of a size that pinned_size gave; null: there is none. */
void	   *take_pinned(int device, size_t size);

/* Keeps it, for nothing on the device uses it any more; false: free it. */
bool		keep_pinned(int device, void *memory, size_t size);

/* The device's context went, and all its memory with it. */
void		forget_pinned(int device);

/*
 * Owners of device memory, pinned memory, streams and events.
 *
 * Every byte of device memory that a context takes is counted against its budget.
 * Plain cudaMalloc only: managed memory would let it take more than the device
 * has, to the harm of everybody else on it.
 */

struct Budget
{
	size_t		limit = 0;
	size_t		used = 0;
	size_t		peak = 0;
	bool		counts_only = false;	/* nothing is allocated: bytes_of */

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

	/* Instead of what there was.  The status of cudaMalloc, for callers that can do with less. */
	cudaError_t try_allocate(Budget &budget, size_t count)
	{
		size_t		bytes = Budget::rounded(count * sizeof(T));
		void	   *address = nullptr;
		cudaError_t error;

		release();
		error = budget.counts_only ? cudaSuccess : cudaMalloc(&address, bytes);
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

	/* Room for so many, whose contents are lost if there is less. */
	void make_room(Budget &budget, size_t count, const char *doing)
	{
		if (count_ < count)
			allocate(budget, count, doing);
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

/* Device memory that T takes when it is made with, or allocates for, these arguments. */
template <class T, class... Args>
size_t
bytes_of(const Args &...args)
{
	Budget		budget;

	budget.counts_only = true;
	if constexpr (std::is_constructible_v<T, Budget &, Args...>)
		T(budget, args...);
	else
		T().allocate(budget, args...);
	return budget.used;
}

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

#endif							/* FASTED_CUDA_DEVICE_H */
