/*-------------------------------------------------------------------------
 *
 * scan_parallel.c
 *	  The scan node in a parallel plan.
 *
 * The leader runs the engine and deals the rows it finds, in blocks, to the
 * workers, who do what stands above the node in the plan: aggregate, join, check
 * conditions.  Rows in blocks are values, not row numbers, so that workers need
 * no ids; that is why only ids that are passed by value are dealt.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "scan/outlet_ring.h"
#include "scan/scan_state.h"

/* So long the dealer gives every block away, before it takes one itself. */
#define DEAL_SECONDS 0.02

Size
EstimateSharedScan(CustomScanState *node, ParallelContext *pcxt)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	return OutletRingSize(list_length(scan->plan.columns), pcxt->nworkers + 1);
}

/*
 * The leader alone may run the join: a worker can read no temporary table.  Where
 * it takes no part in plans, which may have been set after this one was made, no
 * workers are launched, and then it does.
 */
static void
LeaderDeals(SelfJoinScan *scan, ParallelContext *pcxt)
{
	if (!parallel_leader_participation)
		ReinitializeParallelWorkers(pcxt, 0);
	scan->dealer = true;
	scan->ring_block = -1;
}

void
InitializeSharedScan(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	scan->ring = shared;
	LeaderDeals(scan, pcxt);
	OutletRingInit(scan->ring, list_length(scan->plan.columns), pcxt->nworkers + 1);
}

void
ReinitializeSharedScan(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	scan->ring = shared;
	LeaderDeals(scan, pcxt);
	OutletRingReset(scan->ring);
}

void
InitializeSharedScanInWorker(CustomScanState *node, shm_toc *toc, void *shared)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	scan->ring = shared;
	scan->dealer = false;
	scan->ring_block = -1;
}

/*
 * Nobody asks for more rows here, or not for now: this is also called when a
 * cursor pauses.  Shared memory, where there is some, is about to go.
 */
void
LeaveSharedScan(CustomScanState *node)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	if (scan->stream != NULL)
		JoinPause(scan->stream->join);
	if (scan->ring == NULL)
		return;
	if (scan->dealer)
		OutletRingFinish(scan->ring);
	scan->ring = NULL;
	scan->block = NULL;
}

/*
 * Deals blocks until none is free; then, or when that has taken a while, since
 * those above the leader's node want to see a row now and then, keeps one.
 */
static int
DealBlocks(SelfJoinScan *scan)
{
	OutletRing *ring = scan->ring;
	instr_time	begin;

	INSTR_TIME_SET_CURRENT(begin);
	for (;;)
	{
		bool		full;
		int			number = OutletRingTakeAny(ring, &full);

		if (full)
			return number;
		if (scan->over || !ProduceBlock(scan, OutletRingBlock(ring, number)))
		{
			OutletRingRelease(ring, number);
			OutletRingFinish(ring);
			return OutletRingTakeFull(ring);
		}
		if (SecondsSince(begin) > DEAL_SECONDS)
			return number;
		OutletRingPublish(ring, number);
	}
}

bool
NextSharedBlock(SelfJoinScan *scan)
{
	OutletRing *ring = scan->ring;

	if (scan->ring_block >= 0)
		OutletRingRelease(ring, scan->ring_block);
	scan->ring_block = -1;
	scan->block = NULL;

	if (scan->dealer)
	{
		OutletRingEnter(ring);
		scan->ring_block = DealBlocks(scan);
		OutletRingLeave(ring);
	}
	else
		scan->ring_block = OutletRingWait(ring);

	if (scan->ring_block < 0)
	{
		/* whoever deals is the last to go */
		if (scan->dealer && !scan->over)
			elog(ERROR, "fasted scan ended before its rows");
		return false;
	}
	scan->block = OutletRingBlock(ring, scan->ring_block);
	scan->next_row = 0;
	return true;
}
