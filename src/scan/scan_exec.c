/*-------------------------------------------------------------------------
 *
 * scan_exec.c
 *	  The scan node at run time: begin, next row, rescan, end.
 *
 * The join begins with the first row that is asked for, as a function is called
 * then: as the user and in the snapshot of that moment.  It ends with the last
 * row, so that the engine's memory does not wait for the end of the query.  On
 * an error the join goes with the memory context it hangs on (join.h).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "distribute/citus_explain.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "scan/call_plan.h"
#include "scan/scan_explain.h"
#include "scan/scan_hold.h"
#include "scan/scan_state.h"
#include "utils/memutils.h"

static Node *CreateScan(CustomScan *plan);
static void BeginScan(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *NextRowOfScan(CustomScanState *node);
static void EndScan(CustomScanState *node);
static void RescanScan(CustomScanState *node);

const CustomScanMethods fasted_scan_methods = {
	.CustomName = "FastedSelfJoin",
	.CreateCustomScanState = CreateScan
};

static const CustomExecMethods exec_methods = {
	.CustomName = "FastedSelfJoin",
	.BeginCustomScan = BeginScan,
	.ExecCustomScan = NextRowOfScan,
	.EndCustomScan = EndScan,
	.ReScanCustomScan = RescanScan,
	.EstimateDSMCustomScan = EstimateSharedScan,
	.InitializeDSMCustomScan = InitializeSharedScan,
	.ReInitializeDSMCustomScan = ReinitializeSharedScan,
	.InitializeWorkerCustomScan = InitializeSharedScanInWorker,
	.ShutdownCustomScan = LeaveSharedScan,
	.ExplainCustomScan = ExplainScan
};

/* --- the run: a join from its first row to its last */

/* The values of the arguments, checked as the function does it. */
static SelfJoinArgs
EvaluateSelfJoinArgs(SelfJoinScan *scan, ExprContext *econtext)
{
	LOCAL_FCINFO(fcinfo, SELF_JOIN_NARGS + 1);

	EvaluateArguments(&scan->arguments, econtext, fcinfo);
	return GetSelfJoinArgs(fcinfo, scan->plan.first);
}

static void
BeginRun(SelfJoinScan *scan)
{
	ExprContext *econtext = scan->css.ss.ps.ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(scan->context);
	RowRequest	request = {
		.args = EvaluateSelfJoinArgs(scan, econtext),
		.key_type = KeyTypeOfCall(scan->plan.call, scan->plan.first),
		.columns = scan->plan.columns,
		.count = scan->plan.count,
		.timed = scan->timed
	};

	request.filter = EvaluateConditions(&scan->plan.conditions, scan->bound_states, econtext);
	scan->stream = RowStreamBegin(&request);
	MemoryContextSwitchTo(old);
}

void
AddScanTotals(SelfJoinScan *scan)
{
	ScanTotals *totals = &scan->totals;
	FastedStats run;
	double		read_seconds;
	MemoryContext old;

	totals->runs++;
	if (JoinStatistics(scan->stream->join, &run, &read_seconds))
		totals->stats = SumStatistics(&totals->stats, &run);
	totals->read_seconds += read_seconds;
	totals->wait_seconds += scan->stream->wait_seconds;
	totals->output_seconds += scan->stream->output_seconds;
	old = MemoryContextSwitchTo(scan->css.ss.ps.state->es_query_cxt);
	totals->shares = JoinShares(scan->stream->join);
	MemoryContextSwitchTo(old);
}

/* Also when there are rows left. */
static void
EndRun(SelfJoinScan *scan)
{
	if (scan->stream == NULL)
		return;
	AddScanTotals(scan);
	RowStreamEnd(scan->stream);
	scan->stream = NULL;
	MemoryContextReset(scan->context);
}

bool
ProduceBlock(SelfJoinScan *scan, OutletBlock *block)
{
	if (scan->stream == NULL)
		BeginRun(scan);
	if (RowStreamNext(scan->stream, block))
		return true;
	scan->over = true;
	EndRun(scan);
	return false;
}

/* False: there are no more rows. */
static bool
NextBlock(SelfJoinScan *scan)
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

/* --- rows */

/* The next row in the scan tuple's slot, or an empty slot. */
static pg_attribute_always_inline TupleTableSlot *
NextScanTuple(SelfJoinScan *scan)
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
	return NextScanTuple((SelfJoinScan *) state);
}

static TupleTableSlot *
NextCheckedRow(PlanState *state)
{
	SelfJoinScan *scan = (SelfJoinScan *) state;
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
static uint64
CountAllRows(SelfJoinScan *scan)
{
	uint64		count;

	BeginRun(scan);
	count = RowStreamCount(scan->stream);
	EndRun(scan);
	return count;
}

static TupleTableSlot *
NextCount(PlanState *state)
{
	SelfJoinScan *scan = (SelfJoinScan *) state;
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (scan->over)
		return state->ps_ProjInfo == NULL ? slot :
			ExecClearTuple(state->ps_ProjInfo->pi_state.resultslot);
	slot->tts_values[0] = Int64GetDatum((int64) CountAllRows(scan));
	scan->over = true;
	ExecStoreVirtualTuple(slot);
	if (state->ps_ProjInfo == NULL)
		return slot;
	ResetExprContext(state->ps_ExprContext);
	state->ps_ExprContext->ecxt_scantuple = slot;
	return ExecProject(state->ps_ProjInfo);
}

/* --- the node */

static Node *
CreateScan(CustomScan *plan)
{
	SelfJoinScan *scan = palloc0(sizeof(SelfJoinScan));

	NodeSetTag(scan, T_CustomScanState);
	scan->css.methods = &exec_methods;
	scan->plan = ReadScanPlan(plan);
	return (Node *) scan;
}

static void
BeginScan(CustomScanState *node, EState *estate, int eflags)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;
	PlanState  *state = &node->ss.ps;
	Oid			relid;

	CheckExecutePrivilege(scan->plan.call->funcid);
	scan->arguments = BeginArguments(scan->plan.call, state);
	scan->bound_states = ExecInitExprList(scan->plan.conditions.dist_bounds, state);
	scan->context = AllocSetContextCreate(estate->es_query_cxt, "fasted scan",
										  ALLOCSET_DEFAULT_SIZES);
	relid = KnownRelation(scan->plan.call, scan->plan.first + SELF_JOIN_RELATION, state);
	RefuseCitusExplain(estate, eflags, relid);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0 && !IsParallelWorker())
		scan->held_relations = HoldRelations(relid);
	scan->own_block = palloc(sizeof(OutletBlock));
	scan->timed = (estate->es_instrument & INSTRUMENT_TIMER) != 0;
	memset(node->ss.ss_ScanTupleSlot->tts_isnull, false,
		   node->ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts * sizeof(bool));

	/* The executor need not come by way of ExecCustomScan. */
	if (scan->plan.count)
		state->ExecProcNode = NextCount;
	else if (state->qual == NULL && state->ps_ProjInfo == NULL)
		state->ExecProcNode = NextPlainRow;
	else
		state->ExecProcNode = NextCheckedRow;
}

static TupleTableSlot *
NextRowOfScan(CustomScanState *node)
{
	return node->ss.ps.ExecProcNode(&node->ss.ps);
}

static void
RescanScan(CustomScanState *node)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	ExecScanReScan(&node->ss);
	EndRun(scan);
	scan->block = NULL;
	scan->over = false;
}

static void
EndScan(CustomScanState *node)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	LeaveSharedScan(node);
	EndRun(scan);
	ReleaseRelations(scan->held_relations);
}
