/*-------------------------------------------------------------------------
 *
 * nearest_run.h
 *	  One call from its arguments to its rows.
 *
 * What the node hands on and what the function stores come from here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_NEAREST_RUN_H
#define FASTED_NEAREST_RUN_H

#include "nearest/nearest.h"
#include "scan/outlet_block.h"

typedef struct NearestRun NearestRun;

/* What EXPLAIN ANALYZE shows: of all joins so far. */
typedef struct NearestTotals
{
	uint64		joins;			/* that an engine computed */
	FastedStats stats;			/* SumStatistics */
	uint64		partitions;
	double		read_seconds;
	double		wait_seconds;	/* for the engine */
	List	   *shares;			/* of servers, in the last join: JoinShares */
} NearestTotals;

/*
 * Reads and starts the engine.  Allocates in the current memory context, with which it goes, on error too.
 */
extern NearestRun *NearestRunBegin(const NearestArgs *args);

/*
 * Fills the block with at least one row, with these columns (from 1); false: there are no
 * more.  Values by reference are valid until the next call.
 */
extern bool NearestRunFill(NearestRun *run, const List *columns, OutletBlock *block);

/* Instead, the number of rows. */
extern uint64 NearestRunCount(NearestRun *run);

/* Nobody asks for more rows for now. */
extern void NearestRunPause(NearestRun *run);

extern NearestTotals NearestRunTotals(const NearestRun *run);

/* Also when there are rows left; not after an error. */
extern void NearestRunEnd(NearestRun *run);

#endif							/* FASTED_NEAREST_RUN_H */
