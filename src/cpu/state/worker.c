/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  Statistics of workers, and the division of rows among them.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "worker.h"

/* Slivers per work item. */
#define ITEM_SLIVERS 4

void
cpu_add_work_stats(Worker *worker)
{
	fasted_add_stats(&worker->context->stats, &worker->work);
	memset(&worker->work, 0, sizeof(worker->work));
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
