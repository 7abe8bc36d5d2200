/*-------------------------------------------------------------------------
 *
 * scan_state.h
 *	  The scan node at run time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SCAN_STATE_H
#define FASTED_SCAN_STATE_H

#include "access/parallel.h"
#include "scan/call_exec.h"
#include "scan/outlet_ring.h"
#include "scan/row_stream.h"
#include "scan/scan_node.h"

/* What EXPLAIN ANALYZE shows; sums over all runs of the node. */
typedef struct ScanTotals
{
	int			runs;
	FastedStats stats;			/* texts and sizes of the last run, sums of the rest */
	double		read_seconds;
	double		wait_seconds;	/* for the engine */
	double		output_seconds; /* making blocks of rows */
	List	   *shares;			/* of the last run: JoinShares */
} ScanTotals;

typedef struct SelfJoinScan
{
	CustomScanState css;
	ScanPlan	plan;
	CallArguments arguments;
	List	   *bound_states;

	List	   *held_relations; /* from begin to end */

	/* The run; all of it lives in the context. */
	MemoryContext context;
	RowStream  *stream;			/* NULL: not begun, or over */
	bool		over;

	/* The block at work; NULL: none. */
	OutletBlock *block;
	uint32		next_row;
	OutletBlock *own_block;		/* where there are no workers */

	/* In a parallel plan. */
	OutletRing *ring;			/* NULL: not in one */
	bool		dealer;			/* this process runs the engine */
	int			ring_block;		/* the number of the block at work; -1: none */

	bool		timed;			/* EXPLAIN ANALYZE wants times */
	ScanTotals	totals;
} SelfJoinScan;

/* scan_exec.c: fills the block with at least one row; false: there are none. */
extern bool ProduceBlock(SelfJoinScan *scan, OutletBlock *block);

/* Adds the run at work to the totals. */
extern void AddScanTotals(SelfJoinScan *scan);

/* scan_parallel.c */
extern Size EstimateSharedScan(CustomScanState *node, ParallelContext *pcxt);
extern void InitializeSharedScan(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void ReinitializeSharedScan(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void InitializeSharedScanInWorker(CustomScanState *node, shm_toc *toc, void *shared);
extern void LeaveSharedScan(CustomScanState *node);
extern bool NextSharedBlock(SelfJoinScan *scan);

#endif							/* FASTED_SCAN_STATE_H */
