/*-------------------------------------------------------------------------
 *
 * outlet_scan.c
 *	  Rows of blocks, which in a parallel plan the leader deals.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "scan/outlet_scan.h"
#include "scan/row_stream.h"

/* So long the dealer gives every block away, before it takes one itself. */
#define DEAL_SECONDS 0.02

/* Blocks for each process: one at work, the rest in store. */
#define BLOCKS_EACH 8

static int
CountColumns(const OutletScan *scan)
{
	return scan->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts;
}

static int
CountBlocks(const ParallelContext *pcxt)
{
	return (pcxt->nworkers + 1) * BLOCKS_EACH;
}

static Size
BlockBytes(const OutletScan *scan)
{
	return offsetof(OutletBlock, values) + CountColumns(scan) * OUTLET_ROWS * sizeof(Datum);
}

Size
EstimateSharedOutlet(CustomScanState *node, ParallelContext *pcxt)
{
	OutletScan *scan = (OutletScan *) node;

	return BlockRingSize(CountBlocks(pcxt), BlockBytes(scan));
}

/*
 * The leader alone may produce blocks: a worker can read no temporary table.  Where
 * it takes no part in plans, which may have been set after this one was made, no
 * workers are launched, and then it does.
 */
static void
LeaderDeals(OutletScan *scan, ParallelContext *pcxt)
{
	if (!parallel_leader_participation)
		ReinitializeParallelWorkers(pcxt, 0);
	scan->dealer = true;
	scan->ring_block = -1;
}

void
InitializeSharedOutlet(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	OutletScan *scan = (OutletScan *) node;

	scan->ring = shared;
	LeaderDeals(scan, pcxt);
	BlockRingInit(scan->ring, CountBlocks(pcxt), BlockBytes(scan));
}

void
ReinitializeSharedOutlet(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	OutletScan *scan = (OutletScan *) node;

	scan->ring = shared;
	LeaderDeals(scan, pcxt);
	BlockRingReset(scan->ring);
}

void
InitializeSharedOutletInWorker(CustomScanState *node, shm_toc *toc, void *shared)
{
	OutletScan *scan = (OutletScan *) node;

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
	OutletScan *scan = (OutletScan *) node;

	scan->pause(scan);
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
DealBlocks(OutletScan *scan)
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
		if (scan->over || !scan->produce(scan, BlockRingData(ring, number)))
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
NextSharedBlock(OutletScan *scan)
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
NextBlock(OutletScan *scan)
{
	if (scan->ring != NULL)
		return NextSharedBlock(scan);
	scan->block = NULL;
	if (scan->over || !scan->produce(scan, scan->own_block))
		return false;
	scan->block = scan->own_block;
	scan->next_row = 0;
	return true;
}

/* The next row in the scan tuple's slot, or an empty slot. */
static pg_attribute_always_inline TupleTableSlot *
NextScanTuple(OutletScan *scan)
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
	return NextScanTuple((OutletScan *) state);
}

static TupleTableSlot *
NextCheckedRow(PlanState *state)
{
	OutletScan *scan = (OutletScan *) state;
	ExprContext *econtext = state->ps_ExprContext;

	for (;;)
	{
		TupleTableSlot *slot = NextScanTuple(scan);

		ResetExprContext(econtext);
		if (TupIsNull(slot))
			return state->ps_ProjInfo == NULL ? slot :
				ExecClearTuple(state->ps_ProjInfo->pi_state.resultslot);
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
	OutletScan *scan = (OutletScan *) state;
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (scan->over)
		return state->ps_ProjInfo == NULL ? slot :
			ExecClearTuple(state->ps_ProjInfo->pi_state.resultslot);
	slot->tts_values[0] = Int64GetDatum((int64) scan->count(scan));
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
BeginOutletScan(OutletScan *scan)
{
	PlanState  *state = &scan->css.ss.ps;
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	Assert(CountColumns(scan) <= OUTLET_COLUMNS);
	scan->own_block = palloc(sizeof(OutletBlock));
	memset(slot->tts_isnull, false, slot->tts_tupleDescriptor->natts * sizeof(bool));

	/* The executor need not come by way of ExecCustomScan. */
	if (scan->count != NULL)
		state->ExecProcNode = NextCount;
	else if (state->qual == NULL && state->ps_ProjInfo == NULL)
		state->ExecProcNode = NextPlainRow;
	else
		state->ExecProcNode = NextCheckedRow;
}

void
RestartOutletScan(OutletScan *scan)
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
