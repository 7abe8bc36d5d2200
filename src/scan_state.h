/*-------------------------------------------------------------------------
 *
 * scan_state.h
 *	  The scan node at run time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SCAN_STATE_H
#define FASTED_SCAN_STATE_H

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

	/* The block at work. */
	RowBlock   *block;
	uint32		next_row;

	bool		timed;			/* EXPLAIN ANALYZE wants times */
	ScanTotals	totals;
} SelfJoinScan;

/* Adds the run at work to the totals. */
extern void AddScanTotals(SelfJoinScan *scan);

#endif							/* FASTED_SCAN_STATE_H */
