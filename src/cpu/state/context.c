/*-------------------------------------------------------------------------
 *
 * context.c
 *	  Errors of a context, and pauses of its workers.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>

#include "../kernels/processors.h"
#include "context.h"

FastedStatus
cpu_fail(FastedContext *context, FastedStatus status, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(context->error, sizeof(context->error), format, args);
	va_end(args);
	return status;
}

void
cpu_rest_after(FastedContext *context, uint64_t ms)
{
	atomic_store(&context->threads.rest_at, cpu_now() + ms * UINT64_C(1000000));
	if (context->threads.resting > 0)
		pthread_cond_broadcast(&context->threads.rest_cond);
}

bool
cpu_may_continue(FastedContext *context)
{
	if (cpu_now() < atomic_load_explicit(&context->threads.rest_at, memory_order_relaxed))
		return !cpu_stopping(context);
	pthread_mutex_lock(&context->threads.lock);
	context->threads.resting++;
	while (!cpu_stopping(context) && cpu_now() >= atomic_load(&context->threads.rest_at))
		pthread_cond_wait(&context->threads.rest_cond, &context->threads.lock);
	context->threads.resting--;
	pthread_mutex_unlock(&context->threads.lock);
	return !cpu_stopping(context);
}
