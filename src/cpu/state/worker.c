/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  Errors of a context; statistics and pauses of its workers, and the division of rows among them.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "worker.h"

/* Slivers per work item. */
#define ITEM_SLIVERS 4

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
	atomic_store(&context->threads.rest_at, fasted_now() + ms * UINT64_C(1000000));
	if (context->threads.resting > 0)
		pthread_cond_broadcast(&context->threads.rest_cond);
}

bool
cpu_may_continue(FastedContext *context)
{
	if (fasted_now() < atomic_load_explicit(&context->threads.rest_at, memory_order_relaxed))
		return !cpu_stopping(context);
	pthread_mutex_lock(&context->threads.lock);
	context->threads.resting++;
	while (!cpu_stopping(context) && fasted_now() >= atomic_load(&context->threads.rest_at))
		pthread_cond_wait(&context->threads.rest_cond, &context->threads.lock);
	context->threads.resting--;
	pthread_mutex_unlock(&context->threads.lock);
	return !cpu_stopping(context);
}

void
cpu_report(Worker *worker, bool flush)
{
	FastedContext *context = worker->context;

	if (flush)
		worker->work.pairs += worker->block->npairs;
	pthread_mutex_lock(&context->threads.lock);
	fasted_add_stats(&context->stats, &worker->work);
	if (flush)
	{
		pair_pool_push(&context->pool, worker->block);
		worker->block = NULL;
		pthread_cond_signal(&context->threads.out_cond);
	}
	pthread_mutex_unlock(&context->threads.lock);
	memset(&worker->work, 0, sizeof(worker->work));
}

void
cpu_do_sets(Worker *worker, Packing least, void (*work) (Worker *worker, int set))
{
	const FastedJoin *join = worker->join;
	uint64_t	i;

	while ((i = cpu_next_item(worker->context)) < (uint64_t) join->nsets)
	{
		if (join->pruning.packing[i] >= least)
			work(worker, (int) i);
	}
}

void
cpu_do_slivers(Worker *worker, const Packing packing[2], Packing least,
			   void (*work) (Worker *worker, int set, size_t sliver))
{
	const FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	size_t		slivers[2] = {0, 0};
	uint64_t	first;

	for (int i = 0; i < join->nsets; i++)
	{
		if (packing[i] >= least)
			slivers[i] = cpu_whole_tiles(context, join->sets[i]->rows.rows) / context->kernel->width;
	}
	while ((first = cpu_next_item(context) * ITEM_SLIVERS) < slivers[0] + slivers[1])
	{
		(void) cpu_may_continue(context);
		for (uint64_t s = first; s < first + ITEM_SLIVERS && s < slivers[0] + slivers[1]; s++)
		{
			int			i = s >= slivers[0];

			if (cpu_stopping(context))
				return;
			work(worker, i, i == 0 ? s : s - slivers[0]);
		}
	}
}
