/*-------------------------------------------------------------------------
 *
 * outlet.c
 *	  Rows of blocks, which in a parallel plan the leader deals.
 *
 * In a parallel plan the leader fills blocks and deals them to the workers, who do
 * what stands above the node: aggregate, join, check conditions.  Rows in blocks are
 * values, not row numbers, so that workers need no ids; that is why only ids that are
 * passed by value are dealt.
 *
 * Nobody may wait for a process that may wait for him: a worker may be stuck
 * before a full tuple queue or at a barrier of a hash join.  So the leader never
 * waits for workers: what nobody takes, it consumes itself.  And workers wait for
 * the leader only before it has begun, and while it is at its work.  When it has
 * been away for a while and left no block, they go: a worker that goes early
 * loses no row, for the leader stays to the end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "function_node/function_node.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"

/* So long the dealer gives every block away, before it takes one itself. */
#define DEAL_SECONDS 0.02

/* Blocks for each process: one at work, the rest in store. */
#define BLOCKS_EACH 8

static int
CountColumns(const FunctionNode *scan)
{
	return scan->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts;
}

static int
CountBlocks(const ParallelContext *pcxt)
{
	return (pcxt->nworkers + 1) * BLOCKS_EACH;
}

static Size
BlockBytes(const FunctionNode *scan)
{
	return offsetof(OutletBlock, values) + CountColumns(scan) * OUTLET_ROWS * sizeof(Datum);
}

Size
EstimateSharedOutlet(CustomScanState *node, ParallelContext *pcxt)
{
	FunctionNode *scan = (FunctionNode *) node;

	return BlockRingSize(CountBlocks(pcxt), BlockBytes(scan));
}

/*
 * The leader alone may fill blocks: a worker can read no temporary table.  Where
 * it takes no part in plans, which may have been set after this one was made, no
 * workers are launched, and then it does.
 */
static void
LeaderDeals(FunctionNode *scan, ParallelContext *pcxt, BlockRing *ring)
{
	if (!parallel_leader_participation)
		ReinitializeParallelWorkers(pcxt, 0);
	scan->ring = ring;
	scan->dealer = true;
	scan->ring_block = -1;
}

void
InitializeSharedOutlet(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	FunctionNode *scan = (FunctionNode *) node;

	LeaderDeals(scan, pcxt, shared);
	BlockRingInit(scan->ring, CountBlocks(pcxt), BlockBytes(scan));
}

void
ReinitializeSharedOutlet(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	LeaderDeals((FunctionNode *) node, pcxt, shared);
	BlockRingReset(shared);
}

void
InitializeSharedOutletInWorker(CustomScanState *node, shm_toc *toc, void *shared)
{
	FunctionNode *scan = (FunctionNode *) node;

	scan->ring = shared;
	scan->dealer = false;
	scan->ring_block = -1;
}

/*
 * Nobody asks for more rows here, or not for now: this is also called when a
 * cursor pauses.  Shared memory, where there is some, is about to go.
 */
void
LeaveSharedOutlet(CustomScanState *node)
{
	FunctionNode *scan = (FunctionNode *) node;

	if (scan->run != NULL)
		PauseFunctionRun(scan->run);
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
DealBlocks(FunctionNode *scan)
{
	BlockRing *ring = scan->ring;
	instr_time	begin;

	INSTR_TIME_SET_CURRENT(begin);
	for (;;)
	{
		bool		full;
		int			number = BlockRingTakeAny(ring, &full);

		if (full)
			return number;
		if (scan->over || !ProduceBlock(scan, BlockRingData(ring, number)))
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

static bool
NextSharedBlock(FunctionNode *scan)
{
	BlockRing *ring = scan->ring;

	if (scan->ring_block >= 0)
		BlockRingRelease(ring, scan->ring_block);
	scan->ring_block = -1;
	scan->block = NULL;

	if (scan->dealer)
	{
		BlockRingEnter(ring);
		scan->ring_block = DealBlocks(scan);
		BlockRingLeave(ring);
	}
	else
		scan->ring_block = BlockRingWaitFull(ring);

	if (scan->ring_block < 0)
	{
		/* whoever deals is the last to go */
		if (scan->dealer && !scan->over)
			elog(ERROR, "fasted scan ended before its rows");
		return false;
	}
	scan->block = BlockRingData(ring, scan->ring_block);
	scan->next_row = 0;
	return true;
}

/* --- rows */

/* False: there are no more rows. */
static bool
NextBlock(FunctionNode *scan)
{
	if (scan->ring != NULL)
		return NextSharedBlock(scan);
	scan->block = NULL;
	if (scan->over || !ProduceBlock(scan, scan->own_block))
		return false;
	scan->block = scan->own_block;
	scan->next_row = 0;
	return true;
}

/* The next row in the scan tuple's slot, or an empty slot. */
static pg_attribute_always_inline TupleTableSlot *
NextScanTuple(FunctionNode *scan)
{
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
	uint32		row;

	if (unlikely(scan->block == NULL || scan->next_row == scan->block->nrows) &&
		!NextBlock(scan))
		return ExecClearTuple(slot);

	/* Somebody above may have made it a copy of its own. */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	row = scan->next_row++;
	switch (slot->tts_tupleDescriptor->natts)
	{
		case 4:
			slot->tts_values[3] = scan->block->values[3][row];
			/* FALLTHROUGH */
		case 3:
			slot->tts_values[2] = scan->block->values[2][row];
			/* FALLTHROUGH */
		case 2:
			slot->tts_values[1] = scan->block->values[1][row];
			/* FALLTHROUGH */
		case 1:
			slot->tts_values[0] = scan->block->values[0][row];
			/* FALLTHROUGH */
		default:
			break;
	}
	slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	return slot;
}

/* Where nothing is left to check or to compute. */
static TupleTableSlot *
NextPlainRow(PlanState *state)
{
	return NextScanTuple((FunctionNode *) state);
}

/* What a row has beside values: nulls, and itself as a whole. */
static void
CompleteRow(const FunctionNode *scan, TupleTableSlot *slot)
{
	uint32		row = scan->next_row - 1;

	for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++)
		slot->tts_isnull[i] = scan->block->nulls[i][row];
	if (scan->row != NULL)
		AddWholeRow((FunctionNode *) scan, slot);
}

static TupleTableSlot *
NextCompleteTuple(FunctionNode *scan)
{
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	if (scan->row != NULL && LooksAgain(scan, slot))
		return slot;
	slot = NextScanTuple(scan);
	if (scan->plan.function->nullable && !TupIsNull(slot))
		CompleteRow(scan, slot);
	return slot;
}

static TupleTableSlot *
NoFurtherRow(PlanState *state, TupleTableSlot *slot)
{
	return state->ps_ProjInfo == NULL ? slot :
		ExecClearTuple(state->ps_ProjInfo->pi_state.resultslot);
}

/*
 * ExecScan would take the node for one that stands for a table whose row is being
 * looked at again, where it is in a subquery of an UPDATE that had to wait.
 */
static TupleTableSlot *
NextCheckedRow(PlanState *state)
{
	FunctionNode *scan = (FunctionNode *) state;
	ExprContext *econtext = state->ps_ExprContext;

	for (;;)
	{
		TupleTableSlot *slot = NextCompleteTuple(scan);

		ResetExprContext(econtext);
		if (TupIsNull(slot))
			return NoFurtherRow(state, slot);
		econtext->ecxt_scantuple = slot;
		if (state->qual == NULL || ExecQual(state->qual, econtext))
			return state->ps_ProjInfo == NULL ? slot : ExecProject(state->ps_ProjInfo);
		InstrCountFiltered1(state, 1);
		CHECK_FOR_INTERRUPTS();
	}
}

/* The one row of SELECT count(*). */
static TupleTableSlot *
NextCount(PlanState *state)
{
	FunctionNode *scan = (FunctionNode *) state;
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (scan->over)
		return NoFurtherRow(state, slot);
	slot->tts_values[0] = Int64GetDatum((int64) CountScan(scan));
	scan->over = true;
	ExecStoreVirtualTuple(slot);
	if (state->ps_ProjInfo == NULL)
		return slot;
	ResetExprContext(state->ps_ExprContext);
	state->ps_ExprContext->ecxt_scantuple = slot;
	return ExecProject(state->ps_ProjInfo);
}

/* --- the node */

void
BeginOutlet(FunctionNode *scan)
{
	PlanState  *state = &scan->css.ss.ps;
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	Assert(CountColumns(scan) <= OUTLET_COLUMNS);
	scan->own_block = palloc0(sizeof(OutletBlock));
	memset(slot->tts_isnull, false, slot->tts_tupleDescriptor->natts * sizeof(bool));

	/* The executor need not come by way of ExecCustomScan. */
	if (scan->plan.count)
		state->ExecProcNode = NextCount;
	else if (state->qual == NULL && state->ps_ProjInfo == NULL && !scan->plan.function->nullable)
		state->ExecProcNode = NextPlainRow;
	else
		state->ExecProcNode = NextCheckedRow;
}

void
RestartOutlet(FunctionNode *scan)
{
	ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
	ExecScanReScan(&scan->css.ss);
	scan->block = NULL;
	scan->over = false;
}

TupleTableSlot *
NextOutletRow(CustomScanState *node)
{
	return node->ss.ps.ExecProcNode(&node->ss.ps);
}
