/*-------------------------------------------------------------------------
 *
 * scan_state.h
 *	  The scan node at run time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SCAN_STATE_H
#define FASTED_SCAN_STATE_H

#include "scan/call_exec.h"
#include "scan/outlet_scan.h"
#include "scan/row_stream.h"
#include "scan/scan_node.h"

/* What EXPLAIN ANALYZE shows; sums over all runs of the node. */
typedef struct ScanTotals
{
	int			runs;
	FastedStats stats;			/* SumStatistics */
	double		read_seconds;
	double		wait_seconds;	/* for the engine */
	double		output_seconds; /* making blocks of rows */
	List	   *shares;			/* of the last run: JoinShares */
} ScanTotals;

typedef struct SelfJoinScan
{
	OutletScan	out;
	ScanPlan	plan;
	CallArguments arguments;
	List	   *bound_states;

	List	   *held_relations; /* from begin to end */

	/* The run; all of it lives in the context. */
	MemoryContext context;
	RowStream  *stream;			/* NULL: not begun, or over */

	bool		timed;			/* EXPLAIN ANALYZE wants times */
	ScanTotals	totals;			/* of the runs that are over */
} SelfJoinScan;

/* The totals of all runs, including the one at work.  Allocates in the current memory context. */
extern ScanTotals ScanTotalsUntilNow(const SelfJoinScan *scan);

#endif							/* FASTED_SCAN_STATE_H */
