/*-------------------------------------------------------------------------
 *
 * nearest_exec.c
 *	  The node at run time: begin, next row, rescan, end.
 *
 * The run begins with the first row that is asked for, as a function is called then: as
 * the user and in the snapshot of that moment.  It ends with the last row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "distribute/citus_explain.h"
#include "distribute/remote_join.h"
#include "executor/executor.h"
#include "nearest/nearest_node.h"
#include "scan/call_plan.h"
#include "scan/scan_explain.h"
#include "scan/scan_hold.h"
#include "utils/memutils.h"

static Node *CreateNearest(CustomScan *plan);
static void BeginNearest(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *NextRow(CustomScanState *node);
static void EndNearest(CustomScanState *node);
static void RescanNearest(CustomScanState *node);

const CustomScanMethods nearest_scan_methods = {
	.CustomName = NEAREST_NODE_NAME,
	.CreateCustomScanState = CreateNearest
};

static const CustomExecMethods exec_methods = {
	.CustomName = NEAREST_NODE_NAME,
	.BeginCustomScan = BeginNearest,
	.ExecCustomScan = NextRow,
	.EndCustomScan = EndNearest,
	.ReScanCustomScan = RescanNearest,
	.ExplainCustomScan = ExplainNearest
};

/* --- the run */

static void
BeginRun(NearestScan *scan)
{
	LOCAL_FCINFO(fcinfo, NEAREST_NARGS + 1);
	MemoryContext old = MemoryContextSwitchTo(scan->context);
	NearestArgs args;

	EvaluateArguments(&scan->arguments, scan->css.ss.ps.ps_ExprContext, fcinfo);
	args = GetNearestArgs(fcinfo, scan->plan.first,
						  KeyTypeOfCall(scan->plan.call, scan->plan.first));
	scan->run = NearestRunBegin(&args);
	MemoryContextSwitchTo(old);
	scan->runs++;
}

NearestTotals
NearestTotalsUntilNow(const NearestScan *scan)
{
	NearestTotals totals = scan->totals;
	NearestTotals run;

	if (scan->run == NULL)
		return totals;
	run = NearestRunTotals(scan->run);
	if (run.joins + run.groups > 0)
		totals.stats = SumStatistics(&totals.stats, &run.stats);
	totals.joins += run.joins;
	totals.groups += run.groups;
	totals.read_seconds += run.read_seconds;
	totals.wait_seconds += run.wait_seconds;
	totals.shares = run.shares;
	return totals;
}

/* Also when there are rows left. */
static void
EndRun(NearestScan *scan)
{
	MemoryContext old;

	if (scan->run == NULL)
		return;
	scan->totals = NearestTotalsUntilNow(scan);
	/* a run that is over takes its own along */
	old = MemoryContextSwitchTo(scan->css.ss.ps.state->es_query_cxt);
	scan->totals.shares = CopyShares(scan->totals.shares);
	MemoryContextSwitchTo(old);
	NearestRunEnd(scan->run);
	scan->run = NULL;
	MemoryContextReset(scan->context);
}

/* --- rows */

/* The next row in the scan tuple's slot, or an empty slot. */
static TupleTableSlot *
NextScanTuple(CustomScanState *node)
{
	NearestScan *scan = (NearestScan *) node;
	TupleTableSlot *slot = ExecClearTuple(node->ss.ss_ScanTupleSlot);
	Datum		values[NEAREST_NCOLUMNS];
	ListCell   *cell;
	int			n = 0;

	if (scan->over)
		return slot;
	if (scan->run == NULL)
		BeginRun(scan);
	if (!NearestRunNext(scan->run, values))
	{
		scan->over = true;
		EndRun(scan);
		return slot;
	}
	foreach(cell, scan->plan.columns)
	{
		slot->tts_values[n] = values[lfirst_int(cell) - 1];
		slot->tts_isnull[n++] = false;
	}
	return ExecStoreVirtualTuple(slot);
}

static TupleTableSlot *
NextRow(CustomScanState *node)
{
	return NextCallRow(node, NextScanTuple);
}

/* --- the node */

static Node *
CreateNearest(CustomScan *plan)
{
	NearestScan *scan = palloc0(sizeof(NearestScan));

	NodeSetTag(scan, T_CustomScanState);
	scan->css.methods = &exec_methods;
	scan->plan = ReadNearestPlan(plan);
	return (Node *) scan;
}

static List *
HoldBoth(const NearestScan *scan)
{
	PlanState  *state = (PlanState *) &scan->css.ss.ps;
	const FuncExpr *call = scan->plan.call;
	Oid			a = KnownRelation(call, scan->plan.first + NEAREST_A, state);
	Oid			b = KnownRelation(call, scan->plan.first + NEAREST_B, state);
	List	   *held = HoldRelations(a);

	return a == b ? held : list_concat(held, HoldRelations(b));
}

static void
BeginNearest(CustomScanState *node, EState *estate, int eflags)
{
	NearestScan *scan = (NearestScan *) node;

	CheckExecutePrivilege(scan->plan.call->funcid);
	scan->arguments = BeginArguments(scan->plan.call, &node->ss.ps);
	scan->context = AllocSetContextCreate(estate->es_query_cxt, "fasted nearest",
										  ALLOCSET_DEFAULT_SIZES);
	for (int side = NEAREST_A; side <= NEAREST_B; side += NEAREST_B - NEAREST_A)
		RefuseCitusExplain(estate, eflags, KnownRelation(scan->plan.call, scan->plan.first + side,
														 &node->ss.ps));
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		scan->held_relations = HoldBoth(scan);
}

static void
RescanNearest(CustomScanState *node)
{
	NearestScan *scan = (NearestScan *) node;

	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	ExecScanReScan(&node->ss);
	EndRun(scan);
	scan->over = false;
}

static void
EndNearest(CustomScanState *node)
{
	NearestScan *scan = (NearestScan *) node;

	EndRun(scan);
	ReleaseRelations(scan->held_relations);
}
