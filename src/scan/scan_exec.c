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
#include "citus/cluster.h"
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
static void EndScan(CustomScanState *node);
static void RescanScan(CustomScanState *node);

const CustomScanMethods fasted_scan_methods = {
	.CustomName = "FastedSelfJoin",
	.CreateCustomScanState = CreateScan
};

static const CustomExecMethods exec_methods = {
	.CustomName = "FastedSelfJoin",
	.BeginCustomScan = BeginScan,
	.ExecCustomScan = NextOutletRow,
	.EndCustomScan = EndScan,
	.ReScanCustomScan = RescanScan,
	.EstimateDSMCustomScan = EstimateSharedOutlet,
	.InitializeDSMCustomScan = InitializeSharedOutlet,
	.ReInitializeDSMCustomScan = ReinitializeSharedOutlet,
	.InitializeWorkerCustomScan = InitializeSharedOutletInWorker,
	.ShutdownCustomScan = LeaveSharedOutlet,
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
	ExprContext *econtext = scan->out.css.ss.ps.ps_ExprContext;
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

ScanTotals
ScanTotalsUntilNow(const SelfJoinScan *scan)
{
	ScanTotals	totals = scan->totals;
	const RowStream *stream = scan->stream;

	if (stream == NULL)
		return totals;
	totals.runs++;
	(void) AddJoinStatistics(&totals.stats, &totals.read_seconds, stream->join);
	totals.wait_seconds += stream->wait_seconds;
	totals.output_seconds += stream->output_seconds;
	totals.shares = JoinShares(stream->join);
	return totals;
}

/* Also when there are rows left. */
static void
EndRun(SelfJoinScan *scan)
{
	MemoryContext old;

	if (scan->stream == NULL)
		return;
	old = MemoryContextSwitchTo(scan->out.css.ss.ps.state->es_query_cxt);
	scan->totals = ScanTotalsUntilNow(scan);
	MemoryContextSwitchTo(old);
	RowStreamEnd(scan->stream);
	scan->stream = NULL;
	MemoryContextReset(scan->context);
}

/* As OutletScan has it. */
static bool
ProduceBlock(OutletScan *out, OutletBlock *block)
{
	SelfJoinScan *scan = (SelfJoinScan *) out;

	if (scan->stream == NULL)
		BeginRun(scan);
	if (RowStreamNext(scan->stream, block))
		return true;
	scan->out.over = true;
	EndRun(scan);
	return false;
}

static void
PauseRun(OutletScan *out)
{
	SelfJoinScan *scan = (SelfJoinScan *) out;

	if (scan->stream != NULL)
		JoinPause(scan->stream->join);
}

/* As OutletScan has it. */
static uint64
CountAllRows(OutletScan *out)
{
	SelfJoinScan *scan = (SelfJoinScan *) out;
	uint64		count;

	BeginRun(scan);
	count = RowStreamCount(scan->stream);
	EndRun(scan);
	return count;
}

/* --- the node */

static Node *
CreateScan(CustomScan *plan)
{
	SelfJoinScan *scan = palloc0(sizeof(SelfJoinScan));

	NodeSetTag(scan, T_CustomScanState);
	scan->out.css.methods = &exec_methods;
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
	scan->timed = (estate->es_instrument & INSTRUMENT_TIMER) != 0;
	scan->out.produce = ProduceBlock;
	scan->out.pause = PauseRun;
	if (scan->plan.count)
		scan->out.count = CountAllRows;
	BeginOutletScan(&scan->out);
}

static void
RescanScan(CustomScanState *node)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	RestartOutletScan(&scan->out);
	EndRun(scan);
	(void) RescanArguments(&scan->arguments, &node->ss.ps);
}

static void
EndScan(CustomScanState *node)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;

	LeaveSharedOutlet(node);
	EndRun(scan);
	ReleaseRelations(scan->held_relations);
}
