/*-------------------------------------------------------------------------
 *
 * check.h
 *	  Failures inside the engine, and the check around every CUDA call.
 *
 * Inside cuda/ a failure is a C++ exception, so that a function reads as what
 * it does when all goes well.  engine.cu catches every one of them: nothing
 * but a status and a text leaves the library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CHECK_H
#define FASTED_CUDA_CHECK_H

#include <cuda_runtime.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "engine/engine.h"

namespace fasted
{

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

[[noreturn]] inline void
fail(FastedStatus status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

[[noreturn]] inline void
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

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CHECK_H */
