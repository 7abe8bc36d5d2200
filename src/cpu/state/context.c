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
	atomic_store(&context->rest_at, cpu_now() + ms * UINT64_C(1000000));
	if (context->resting > 0)
		pthread_cond_broadcast(&context->rest_cond);
}

bool
cpu_may_continue(FastedContext *context)
{
	if (cpu_now() < atomic_load_explicit(&context->rest_at, memory_order_relaxed))
		return !cpu_stopping(context);
	pthread_mutex_lock(&context->lock);
	context->resting++;
	while (!cpu_stopping(context) && cpu_now() >= atomic_load(&context->rest_at))
		pthread_cond_wait(&context->rest_cond, &context->lock);
	context->resting--;
	pthread_mutex_unlock(&context->lock);
	return !cpu_stopping(context);
}
