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

#include "access/parallel.h"
#include "citus/citus_explain.h"
#include "executor/executor.h"
#include "join/join.h"
#include "nearest/nearest_node.h"
#include "scan/call_plan.h"
#include "scan/scan_explain.h"
#include "scan/scan_hold.h"
#include "utils/memutils.h"

static Node *CreateNearest(CustomScan *plan);
static void BeginNearest(CustomScanState *node, EState *estate, int eflags);
static void EndNearest(CustomScanState *node);
static void RescanNearest(CustomScanState *node);

const CustomScanMethods nearest_scan_methods = {
	.CustomName = NEAREST_NODE_NAME,
	.CreateCustomScanState = CreateNearest
};

static const CustomExecMethods exec_methods = {
	.CustomName = NEAREST_NODE_NAME,
	.BeginCustomScan = BeginNearest,
	.ExecCustomScan = NextOutletRow,
	.EndCustomScan = EndNearest,
	.ReScanCustomScan = RescanNearest,
	.EstimateDSMCustomScan = EstimateSharedOutlet,
	.InitializeDSMCustomScan = InitializeSharedOutlet,
	.ReInitializeDSMCustomScan = ReinitializeSharedOutlet,
	.InitializeWorkerCustomScan = InitializeSharedOutletInWorker,
	.ShutdownCustomScan = LeaveSharedOutlet,
	.ExplainCustomScan = ExplainNearest
};

/* --- the run */

static void
BeginRun(NearestScan *scan)
{
	LOCAL_FCINFO(fcinfo, NEAREST_NARGS + 1);
	MemoryContext old = MemoryContextSwitchTo(scan->context);
	NearestArgs args;

	EvaluateArguments(&scan->arguments, scan->out.css.ss.ps.ps_ExprContext, fcinfo);
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
	if (run.joins > 0)
		totals.stats = SumStatistics(&totals.stats, &run.stats);
	totals.joins += run.joins;
	totals.partitions += run.partitions;
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
	old = MemoryContextSwitchTo(scan->out.css.ss.ps.state->es_query_cxt);
	scan->totals.shares = CopyShares(scan->totals.shares);
	MemoryContextSwitchTo(old);
	NearestRunEnd(scan->run);
	scan->run = NULL;
	MemoryContextReset(scan->context);
}

/* As OutletScan has it. */
static bool
ProduceBlock(OutletScan *out, OutletBlock *block)
{
	NearestScan *scan = (NearestScan *) out;

	if (scan->run == NULL)
		BeginRun(scan);
	if (NearestRunFill(scan->run, scan->plan.columns, block))
		return true;
	out->over = true;
	EndRun(scan);
	return false;
}

static uint64
CountNeighbors(OutletScan *out)
{
	NearestScan *scan = (NearestScan *) out;
	uint64		count;

	BeginRun(scan);
	count = NearestRunCount(scan->run);
	EndRun(scan);
	return count;
}

static void
PauseRun(OutletScan *out)
{
	NearestScan *scan = (NearestScan *) out;

	if (scan->run != NULL)
		NearestRunPause(scan->run);
}

/* --- the node */

static Node *
CreateNearest(CustomScan *plan)
{
	NearestScan *scan = palloc0(sizeof(NearestScan));

	NodeSetTag(scan, T_CustomScanState);
	scan->out.css.methods = &exec_methods;
	scan->plan = ReadNearestPlan(plan);
	return (Node *) scan;
}

static List *
HoldBoth(const NearestScan *scan)
{
	PlanState  *state = (PlanState *) &scan->out.css.ss.ps;
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
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0 && !IsParallelWorker())
		scan->held_relations = HoldBoth(scan);
	scan->out.produce = ProduceBlock;
	scan->out.pause = PauseRun;
	if (scan->plan.count)
		scan->out.count = CountNeighbors;
	BeginOutletScan(&scan->out);
}

static void
RescanNearest(CustomScanState *node)
{
	NearestScan *scan = (NearestScan *) node;

	RestartOutletScan(&scan->out);
	EndRun(scan);
	(void) RescanArguments(&scan->arguments, &node->ss.ps);
}

static void
EndNearest(CustomScanState *node)
{
	NearestScan *scan = (NearestScan *) node;

	LeaveSharedOutlet(node);
	EndRun(scan);
	ReleaseRelations(scan->held_relations);
}
