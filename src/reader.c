/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Rows in: reads keys and vectors through the planner and the executor.
 *
 * The query runs by SPI, but its tuples go to a DestReceiver of our own, so that
 * no copy of them piles up: row_taker.c.  With parallel workers most rows take
 * another way: parallel_reader.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "engine.h"
#include "executor/spi.h"
#include "executor/spi_priv.h"
#include "nodes/plannodes.h"
#include "parallel_plan.h"
#include "parallel_reader.h"
#include "reader.h"
#include "row_taker.h"
#include "utils/plancache.h"

/* The planner's guess at the number of rows. */
static uint64
PlannedRows(SPIPlanPtr plan)
{
	CachedPlan *cached;
	PlannedStmt *stmt = PlanOf(plan, &cached);
	double		rows;

	if (cached == NULL)
		return 0;
	rows = stmt->planTree->plan_rows;
	ReleaseCachedPlan(cached, plan->saved ? CurrentResourceOwner : NULL);
	return (rows < (double) FASTED_MAX_ROWS) ? (uint64) rows : FASTED_MAX_ROWS;
}

static void
ReadAlone(SPIPlanPtr plan, RowTaker *taker)
{
	SPIExecuteOptions options = {0};
	int			rc;

	/* Read-only: in the active snapshot, that of the calling query. */
	options.read_only = true;
	options.dest = &taker->base;
	rc = SPI_execute_plan_extended(plan, &options);
	if (rc < 0)
		elog(ERROR, "could not execute \"%s\": %s", taker->source->query,
			 SPI_result_code_string(rc));
}

/* A scan of a large table may else begin where another one is. */
static void
ReadInOrder(SPIPlanPtr plan, RowTaker *taker)
{
	int			nest_level = NewGUCNestLevel();

	SetForThisQuery("synchronize_seqscans", "off");
	ReadAlone(plan, taker);
	AtEOXact_GUC(true, nest_level);
}

void
ReadVectors(const VectorSource *source, RowSink *sink)
{
	RowTaker   *taker = CreateRowTaker(source, sink);
	SPIPlanPtr	plan;
	uint64		rows;

	SPI_connect();
	/* A cursor's plan would favour the first rows; we want all of them. */
	plan = SPI_prepare(source->query, 0, NULL);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", source->query,
			 SPI_result_code_string(SPI_result));
	rows = PlannedRows(plan);
	sink->expect_rows(sink, rows);
	if (sink->in_order)
		ReadInOrder(plan, taker);
	else if (!ReadInParallel(taker, rows))
		ReadAlone(plan, taker);
	SPI_finish();
	FreeRowTaker(taker);
}
