/*-------------------------------------------------------------------------
 *
 * output_queue.c
 *	  The output queue: blocks of rows, which the leader of a parallel plan shares with workers.
 *
 * In a parallel plan the leader runs the call and fills blocks.  Workers take blocks and execute
 * the nodes above this one: they aggregate, join, and check conditions.  Blocks hold Datums
 * rather than row numbers, since workers do not have the ids.  Hence only ids that are passed by
 * value can be shared.
 *
 * To avoid deadlocks, no process waits for a process that may wait for it.  A worker may be
 * blocked by a full tuple queue or at a barrier of a hash join.  So the leader never waits for
 * workers: it consumes blocks that no worker takes.  Workers wait for the leader only before it
 * has begun and while it fills blocks.  If the leader has executed other nodes for a while and
 * there is no full block, the worker's scan ends.  No row is lost, because the leader scans to the
 * end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "function_node/function_node.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"

/* Seconds for which the leader leaves all blocks to workers before it takes one itself. */
#define FILL_SECONDS 0.02

/* Blocks per process: one that it reads, and full ones that are waiting. */
#define BLOCKS_PER_PROCESS 8

/* Returns the number of columns of the blocks.  The scan tuple's last column may be the whole row. */
static inline int
CountColumns(const FunctionNode *scan)
{
	return scan->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts - (scan->row != NULL);
}

static int
CountBlocks(const ParallelContext *pcxt)
{
	return (pcxt->nworkers + 1) * BLOCKS_PER_PROCESS;
}

static Size
BlockBytes(const FunctionNode *scan)
{
	return offsetof(OutputBlock, values) + CountColumns(scan) * OUTPUT_ROWS * sizeof(Datum);
}

Size
EstimateSharedOutput(CustomScanState *node, ParallelContext *pcxt)
{
	FunctionNode *scan = (FunctionNode *) node;

	return BlockRingSize(CountBlocks(pcxt), BlockBytes(scan));
}

/*
 * Makes this process, the leader, fill the ring.  Workers could not, since they cannot read
 * temporary tables.  parallel_leader_participation may have been turned off since the query was
 * planned.  Then no workers are launched, so that the leader executes the plan alone.
 */
static void
AttachLeader(FunctionNode *scan, ParallelContext *pcxt, BlockRing *ring)
{
	if (!parallel_leader_participation)
		ReinitializeParallelWorkers(pcxt, 0);
	scan->ring = ring;
	scan->is_leader = true;
	scan->ring_block = -1;
}

void
InitializeSharedOutput(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	FunctionNode *scan = (FunctionNode *) node;

	AttachLeader(scan, pcxt, shared);
	BlockRingInit(scan->ring, CountBlocks(pcxt), BlockBytes(scan));
}

void
ReinitializeSharedOutput(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	AttachLeader((FunctionNode *) node, pcxt, shared);
	BlockRingReset(shared);
}

void
InitializeSharedOutputInWorker(CustomScanState *node, shm_toc *toc, void *shared)
{
	FunctionNode *scan = (FunctionNode *) node;

	scan->ring = shared;
	scan->is_leader = false;
	scan->ring_block = -1;
}

/*
 * ShutdownCustomScan.  No more rows are requested, at least for now: a cursor that pauses calls
 * this, too.  Pauses the run and detaches from the ring, whose shared memory is about to be freed.
 */
void
DetachSharedOutput(CustomScanState *node)
{
	FunctionNode *scan = (FunctionNode *) node;

	if (scan->run != NULL)
		PauseFunctionRun(scan->run);
	if (scan->ring == NULL)
		return;
	if (scan->is_leader)
		BlockRingFinish(scan->ring);
	scan->ring = NULL;
	scan->block = NULL;
}

/*
 * Fills and publishes blocks until none is empty, or until FILL_SECONDS have passed, so that the
 * nodes above get rows from time to time.  Then returns the number of a full block, which is the
 * leader's own.  Returns a negative number if there are no more blocks.
 */
static int
FillBlocks(FunctionNode *scan)
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
		if (SecondsSince(begin) > FILL_SECONDS)
			return number;
		BlockRingPublish(ring, number);
	}
}

/* Takes the next block of the ring.  Returns false if there are no more blocks. */
static bool
NextSharedBlock(FunctionNode *scan)
{
	BlockRing *ring = scan->ring;

	if (scan->ring_block >= 0)
		BlockRingRelease(ring, scan->ring_block);
	scan->ring_block = -1;
	scan->block = NULL;

	if (scan->is_leader)
	{
		BlockRingEnter(ring);
		scan->ring_block = FillBlocks(scan);
		BlockRingLeave(ring);
	}
	else
		scan->ring_block = BlockRingWaitFull(ring);

	if (scan->ring_block < 0)
	{
		/* the leader must return all rows */
		if (scan->is_leader && !scan->over)
			elog(ERROR, "fasted scan ended before its last row");
		return false;
	}
	scan->block = BlockRingData(ring, scan->ring_block);
	scan->next_row = 0;
	return true;
}

/* --- rows */

/* Makes the next block the current one.  Returns false if there are no more rows. */
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

/* Returns the scan tuple's slot with the next row, or empty if there are no more rows. */
static pg_attribute_always_inline TupleTableSlot *
NextScanTuple(FunctionNode *scan)
{
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
	uint32		row;

	if (unlikely(scan->block == NULL || scan->next_row == scan->block->nrows) &&
		!NextBlock(scan))
		return ExecClearTuple(slot);

	/* a node above may have materialized the slot */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	row = scan->next_row++;
	switch (CountColumns(scan))
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

/* ExecProcNode for a scan without conditions, projection and nullable columns. */
static TupleTableSlot *
NextPlainRow(PlanState *state)
{
	return NextScanTuple((FunctionNode *) state);
}

/* Sets the nulls of the current row, and the whole row if it is needed. */
static void
CompleteRow(const FunctionNode *scan, TupleTableSlot *slot)
{
	uint32		row = scan->next_row - 1;

	for (int i = 0; i < CountColumns(scan); i++)
		slot->tts_isnull[i] = scan->block->nulls[i][row];
	if (scan->row != NULL)
		AddWholeRow((FunctionNode *) scan, slot);
}

/* Like NextScanTuple, but with nulls and whole row, and rechecks by EvalPlanQual. */
static TupleTableSlot *
NextCompleteTuple(FunctionNode *scan)
{
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	if (scan->row != NULL && FetchRecheckedRow(scan, slot))
		return slot;
	slot = NextScanTuple(scan);
	if (scan->plan.function->nullable && !TupIsNull(slot))
		CompleteRow(scan, slot);
	return slot;
}

/* Returns the empty slot that ends the scan. */
static TupleTableSlot *
NoFurtherRow(PlanState *state, TupleTableSlot *slot)
{
	return state->ps_ProjInfo == NULL ? slot :
		ExecClearTuple(state->ps_ProjInfo->pi_state.resultslot);
}

/*
 * ExecProcNode for all other scans.  ExecScan cannot be used: if the node is in a subquery of an
 * UPDATE, ExecScan would apply an EvalPlanQual recheck of the updated table to this node.
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

/* ExecProcNode for count(*): returns one row. */
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
BeginOutput(FunctionNode *scan)
{
	PlanState  *state = &scan->css.ss.ps;
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	Assert(CountColumns(scan) <= OUTPUT_COLUMNS);
	scan->own_block = palloc0(sizeof(OutputBlock));
	memset(slot->tts_isnull, false, slot->tts_tupleDescriptor->natts * sizeof(bool));

	/* set ExecProcNode, to save the call of ExecCustomScan for each row */
	if (scan->plan.count)
		state->ExecProcNode = NextCount;
	else if (state->qual == NULL && state->ps_ProjInfo == NULL && !scan->plan.function->nullable)
		state->ExecProcNode = NextPlainRow;
	else
		state->ExecProcNode = NextCheckedRow;
}

void
RestartOutput(FunctionNode *scan)
{
	ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
	ExecScanReScan(&scan->css.ss);
	scan->block = NULL;
	scan->over = false;
}

TupleTableSlot *
NextOutputRow(CustomScanState *node)
{
	return node->ss.ps.ExecProcNode(&node->ss.ps);
}
