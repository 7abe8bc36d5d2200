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
#include "block_ring.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "scan_state.h"

/* So long the dealer gives every block away, before it takes one itself. */
#define DEAL_SECONDS 0.02

Size
EstimateSharedScan(CustomScanState *node, ParallelContext *pcxt)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	return BlockRingSize(list_length(scan->plan.columns), pcxt->nworkers + 1);
}

/*
 * The leader deals, unless it takes no part in plans: a plan that was made
 * before that was set may still be in use.
 */
void
InitializeSharedScan(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	scan->ring = shared;
	scan->dealer = parallel_leader_participation;
	scan->ring_block = -1;
	BlockRingInit(scan->ring, list_length(scan->plan.columns), pcxt->nworkers + 1, scan->dealer);
}

void
ReinitializeSharedScan(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	scan->dealer = parallel_leader_participation;
	scan->ring_block = -1;
	BlockRingReset(scan->ring, scan->dealer);
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
 * Nobody asks for more rows here; the shared memory is about to go.  Without it
 * this says nothing: it is also called when a cursor pauses.
 */
void
LeaveSharedScan(CustomScanState *node)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	if (scan->ring == NULL)
		return;
	if (scan->dealer)
		BlockRingFinish(scan->ring);
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
	BlockRing  *ring = scan->ring;
	instr_time	begin;

	INSTR_TIME_SET_CURRENT(begin);
	for (;;)
	{
		bool		full;
		int			number = BlockRingTakeAny(ring, &full);

		if (full)
			return number;
		if (scan->over || !ProduceBlock(scan, BlockRingBlock(ring, number)))
		{
			BlockRingRelease(ring, number);
			BlockRingFinish(ring);
			return BlockRingTakeFull(ring);
		}
		if (SecondsSince(begin) > DEAL_SECONDS)
			return number;
		BlockRingPublish(ring, number);
	}
}

bool
NextSharedBlock(SelfJoinScan *scan)
{
	BlockRing  *ring = scan->ring;

	if (scan->ring_block >= 0)
		BlockRingRelease(ring, scan->ring_block);
	scan->ring_block = -1;
	scan->block = NULL;

	if (!scan->dealer && BlockRingClaim(ring))
		scan->dealer = true;
	if (scan->dealer)
	{
		BlockRingEnter(ring);
		scan->ring_block = DealBlocks(scan);
		BlockRingLeave(ring);
	}
	else
		scan->ring_block = BlockRingWait(ring);

	if (scan->ring_block < 0)
	{
		/* whoever deals is the last to go */
		if (scan->dealer && !scan->over)
			elog(ERROR, "fasted scan ended before its rows");
		return false;
	}
	scan->block = BlockRingBlock(ring, scan->ring_block);
	scan->next_row = 0;
	return true;
}
