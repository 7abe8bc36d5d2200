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
#include "block_ring.h"
#include "join.h"
#include "portability/instr_time.h"
#include "row_block.h"
#include "scan_node.h"
#include "self_join.h"

/* What EXPLAIN ANALYZE shows; sums over all runs of the node. */
typedef struct ScanTotals
{
	int			runs;
	FastedStats stats;			/* texts and sizes of the last run, sums of the rest */
	double		read_seconds;
	double		wait_seconds;	/* for the engine */
	double		output_seconds; /* making blocks of rows */
} ScanTotals;

typedef struct SelfJoinScan
{
	CustomScanState css;
	ScanPlan	plan;
	List	   *arg_states;
	List	   *bound_states;

	/* The run; all of it lives in the context. */
	MemoryContext context;
	Join	   *join;			/* NULL: not begun, or over */
	bool		over;
	SelfJoinArgs args;
	double		eps;			/* args.eps, or less for the sake of a condition */
	RowMaker   *maker;
	const FastedPair *pairs;	/* the engine's batch at work */
	size_t		npairs;
	uint32		next_self_pair;

	/* The block at work; NULL: none. */
	RowBlock   *block;
	uint32		next_row;
	RowBlock   *own_block;		/* where there are no workers */

	/* In a parallel plan. */
	BlockRing  *ring;			/* NULL: not in one */
	bool		dealer;			/* this process runs the engine */
	int			ring_block;		/* the number of the block at work; -1: none */

	bool		timed;			/* EXPLAIN ANALYZE wants times */
	ScanTotals	totals;
} SelfJoinScan;

/* scan_exec.c: fills the block with at least one row; false: there are none. */
extern bool ProduceBlock(SelfJoinScan *scan, RowBlock *block);

/* Adds the run at work to the totals. */
extern void AddScanTotals(SelfJoinScan *scan);

/* scan_parallel.c */
extern Size EstimateSharedScan(CustomScanState *node, ParallelContext *pcxt);
extern void InitializeSharedScan(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void ReinitializeSharedScan(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void InitializeSharedScanInWorker(CustomScanState *node, shm_toc *toc, void *shared);
extern void LeaveSharedScan(CustomScanState *node);
extern bool NextSharedBlock(SelfJoinScan *scan);

static inline double
SecondsSince(instr_time begin)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, begin);
	return INSTR_TIME_GET_DOUBLE(now);
}

#endif							/* FASTED_SCAN_STATE_H */
