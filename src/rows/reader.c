/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Runs the query of a source, with or without parallel workers.
 *
 * The query's tuples go to a DestReceiver of our own, so that no copy of them piles
 * up: row_taker.c.  With parallel workers most rows take another way:
 * intake_node.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "rows/intake_node.h"
#include "rows/parallel_plan.h"
#include "rows/reader.h"
#include "rows/row_taker.h"
#include "rows/source_query.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* A scan of a large table may else begin where another one is. */
static void
ReadInOrder(PlannedStmt *plan, RowTaker *taker)
{
	int			nest_level = NewGUCNestLevel();

	SetForThisQuery("synchronize_seqscans", "off");
	RunPlan(taker->source, plan, &taker->base);
	AtEOXact_GUC(true, nest_level);
}

/* False: workers may not read, or don't pay, and nothing was read. */
static bool
ReadInParallel(RowTaker *taker, uint64 rows)
{
	int			nest_level = NewGUCNestLevel();
	PlannedStmt *plan = PlanParallelRead(taker->source, rows);

	if (plan != NULL)
	{
		AddIntakeNode(plan);
		RunIntakePlan(plan, taker);
		taker->sink->read_by_workers(taker->sink, taker->ring_workers, taker->ring_rows);
	}
	AtEOXact_GUC(true, nest_level);
	return plan != NULL;
}

void
ReadVectors(const VectorSource *source, RowSink *sink)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted reading",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RowTaker   *taker = CreateRowTaker(source, sink);
	PlannedStmt *plan = PlanSource(source);
	uint64		rows = PlannedRows(plan);

	sink->expect_rows(sink, rows);
	if (sink->in_order)
		ReadInOrder(plan, taker);
	else if (source->reader != NULL && source->reader(source, taker))
		 /* all have come */ ;
	else if (RowsComeInOrder(source) || source->group_column != NULL || !ReadInParallel(taker, rows))
		RunPlan(source, plan, &taker->base);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
