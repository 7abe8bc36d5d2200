/*-------------------------------------------------------------------------
 *
 * device.h
 *	  Wrappers for CUDA: errors, choice of a device, memory, streams and events.
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
#include <mutex>
#include <type_traits>
#include <utility>

#include "engine/engine.h"

namespace fasted
{

/*
 * Error handling.
 *
 * Code in cuda/ reports an error by throwing a Failure.  engine.cu catches all exceptions
 * and returns a status and a message to the caller of the library.
 */

constexpr size_t kTextBytes = 1000;	/* size of an error message */

struct Failure
{
	FastedStatus status;
	bool		sticky;			/* the CUDA context is lost */
	char		text[kTextBytes];	/* message, and possibly a hint on a second line */
};

/* Returns whether the process cannot use the device any more after this error. */
inline bool
is_sticky(cudaError_t error)
{
	switch ((int) error)
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
			/* errors that older toolkits do not define */
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

/* A sticky error has destroyed the CUDA context on one of the GPUs used by this process. */
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

/* Returns a hint for the user, or an empty string. */
inline const char *
hint_for(cudaError_t error)
{
	if (error == cudaErrorMemoryAllocation)
		return "Reduce fasted.gpu_memory_limit, or try again when other processes use less GPU memory.";
	if (error == cudaErrorInsufficientDriver)
		return "Install a newer NVIDIA driver.";
	if (error == cudaErrorNoKernelImageForDevice)
		return "Build the CUDA library for this GPU's compute capability.";
	/*
	 * The driver returns the same error in two cases: another process uses the GPU exclusively;
	 * or this process lost its context on one GPU, and cannot create one on any GPU.
	 */
	if (error == cudaErrorDevicesUnavailable && !context_was_lost)
		return "Another process uses the GPU in exclusive mode.";
	if (error == cudaErrorDevicesUnavailable || is_sticky(error))
		return "Start a new session, because this process cannot use GPUs after this error.";
	return "";
}

/*
 * Throws a Failure unless error is cudaSuccess.  The message ends with "while <doing>", and with
 * the number of bytes unless that is zero.
 */
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
	snprintf(failure.text, sizeof(failure.text), "CUDA reported %s (%s) while %s%s.%s%s",
			 cudaGetErrorName(error), cudaGetErrorString(error), doing, amount,
			 hint[0] ? "\n" : "", hint);
	throw failure;
}

/* Checks for an error of a kernel launch. */
inline void
check_launch(const char *kernel)
{
	check_cuda(cudaGetLastError(), kernel);
}

/* Allows a kernel to use more dynamic shared memory than the default limit. */
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

/* Copies between the host and the device, and waits until the copy is complete. */
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
 * Returns the device to use: the first usable device in the list (device_list.h), or of all
 * devices if the list is empty.  Fails if there is none, or if a name in the list does not match
 * exactly one device.
 */
Device		find_device(const char *names = nullptr);

/*
 * Writes the UUIDs of the device that find_device returns, and of identical devices, to list.
 * Returns their number, at most `most`.
 */
int			list_same_model(const char *names, char (*list)[FASTED_DEVICE_NAME], int most);

/*
 * Describes the device with this ordinal, usable or not, in a text of at most size bytes.
 * Creates no context on it.  Returns false if there is no such device.
 */
bool		describe_device(int ordinal, char *text, size_t size);

/* While this mutex is locked, no CUDA context is destroyed. */
inline std::mutex devices_mutex;

/*
 * An engine context uses a device from begin_use to end_use.  If idle_timeout is not 0, a background
 * thread destroys all CUDA contexts this many milliseconds after the last end_use.  note_lost
 * records that a sticky error occurred, so that the process cannot use the device any more.  After
 * that, the last call of end_use destroys the CUDA context, with all memory on the device.
 * find_device checks whether a new context can be created.
 */
void		begin_use(int ordinal, int idle_timeout);
void		note_lost(int ordinal);
void		end_use(int ordinal);

/*
 * Has the background thread create a CUDA context on the device that find_device returns.  Returns
 * true if there is a CUDA context, or it could not be created.  The caller has locked the mutex.
 */
bool		warm_device(const char *names, int idle_timeout);

/* Ends the background thread.  Later calls may start it again. */
void		stop_background();

/* Enables direct copies (peer access) from the other device to this one, if supported. */
void		see_memory_of(int ordinal, int other);

/*
 * A pool of page-locked (pinned) host memory, which is reused by later contexts.
 *
 * Locking and unlocking pages takes about 0.5 ms per MB, but a statement may take only 10 ms.
 * The pool of a process holds at most kPinnedKept bytes.
 */

constexpr size_t kPinnedKept = (size_t) 16 << 20;

/* Returns the size to allocate for this many bytes; there are few sizes, to make reuse likely. */
size_t		pinned_size(size_t bytes);

/* Takes memory of this size (see pinned_size) from the pool; null if there is none. */
void	   *take_pinned(int device, size_t size);

/*
 * Returns memory, which the device must not use any more, to the pool.  Returns false if the pool
 * is full; the caller must then free the memory.
 */
bool		keep_pinned(int device, void *memory, size_t size);

/* Frees the pool of a device. */
void		forget_pinned(int device);

/*
 * Owners of device memory, pinned memory, streams and events.
 *
 * All device memory that a context allocates is counted against its budget.  It is allocated with
 * cudaMalloc, because managed memory could exceed the memory of the device, which would harm other
 * users of the device.
 */

struct Budget
{
	size_t		limit = 0;
	size_t		used = 0;
	size_t		peak = 0;
	bool		counts_only = false;	/* only add up sizes, do not allocate (see bytes_of) */

	size_t left() const { return limit > used ? limit - used : 0; }

	/* Rounds up to a multiple of 512, the granularity of cudaMalloc. */
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

	/* Frees the old array and allocates a new one.  Returns the status of cudaMalloc. */
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

	/* Ensures a capacity of count elements.  If the array has to grow, it loses its data. */
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

/*
 * Returns the number of bytes of device memory that T(budget, args...) allocates; or, if T has no
 * such constructor, T::allocate(budget, args...).
 */
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
 * An array in page-locked host memory.  Allocation is slow (0.35 s per GiB), so arrays should be
 * small, and their memory is reused.  The device must not use an array that is released.
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
				 "Could not allocate %zu bytes of page-locked host memory while %s.",
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
	/* Returns whether all work before the last call of record is complete. */
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
