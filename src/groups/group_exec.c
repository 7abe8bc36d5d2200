/*-------------------------------------------------------------------------
 *
 * group_exec.c
 *	  The node at run time: begin, next row, rescan, end.
 *
 * Everything is done when the first row is asked for, as a function is called then:
 * as the user and in the snapshot of that moment.  What is kept of each row stays
 * until the node ends, or an argument changes, so that a subquery that looks rows up
 * again and again reads and joins once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "citus/citus_explain.h"
#include "executor/executor.h"
#include "groups/group_node.h"
#include "join/join.h"
#include "miscadmin.h"
#include "scan/call_plan.h"
#include "scan/scan_explain.h"
#include "scan/scan_hold.h"
#include "utils/memutils.h"

static Node *CreateGroups(CustomScan *plan);
static void BeginGroups(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *NextRow(CustomScanState *node);
static void EndGroups(CustomScanState *node);
static void RescanGroups(CustomScanState *node);

const CustomScanMethods group_scan_methods = {
	.CustomName = GROUP_NODE_NAME,
	.CreateCustomScanState = CreateGroups
};

static const CustomExecMethods exec_methods = {
	.CustomName = GROUP_NODE_NAME,
	.BeginCustomScan = BeginGroups,
	.ExecCustomScan = NextRow,
	.EndCustomScan = EndGroups,
	.ReScanCustomScan = RescanGroups,
	.ExplainCustomScan = ExplainGroups
};

/* --- the run */

static void
AddTotals(GroupScan *scan)
{
	GroupTotals *totals = &scan->totals;
	const GroupRun *run = scan->run;
	MemoryContext old;

	totals->runs++;
	if (run->joined)
		totals->stats = SumStatistics(&totals->stats, &run->stats);
	totals->read_seconds += run->read_seconds;
	totals->wait_seconds += run->wait_seconds;
	totals->group_seconds += run->group_seconds;
	totals->bytes = run->bytes;
	totals->filed_pairs = run->grouping->filed_pairs;
	/* a run that is over takes its own along */
	old = MemoryContextSwitchTo(scan->css.ss.ps.state->es_query_cxt);
	totals->shares = CopyShares(run->shares);
	MemoryContextSwitchTo(old);
}

static void
BeginRun(GroupScan *scan)
{
	LOCAL_FCINFO(fcinfo, GROUP_MOST_ARGS);
	MemoryContext old = MemoryContextSwitchTo(scan->context);
	GroupArgs	args;

	EvaluateArguments(&scan->arguments, scan->css.ss.ps.ps_ExprContext, fcinfo);
	args = GetGroupArgs(fcinfo, scan->plan.function, scan->plan.first,
						KeyTypeOfCall(scan->plan.call, scan->plan.first));
	scan->run = GroupRunBegin(&args, scan->plan.function->prepare(fcinfo, &args));
	AddTotals(scan);
	MemoryContextSwitchTo(old);
}

static void
EndRun(GroupScan *scan)
{
	scan->run = NULL;
	MemoryContextReset(scan->context);
}

/* --- rows */

/* The next row in the scan tuple's slot, or an empty slot. */
static TupleTableSlot *
NextScanTuple(CustomScanState *node)
{
	GroupScan  *scan = (GroupScan *) node;
	TupleTableSlot *slot = ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
	Datum		values[GROUP_MOST_COLUMNS];
	bool		nulls[GROUP_MOST_COLUMNS];
	ListCell   *cell;
	int			n = 0;

	if (LooksAgain(node, &scan->row, slot))
		return slot;
	if (scan->run == NULL)
		BeginRun(scan);
	if (!GroupRunNext(scan->run, values, nulls))
		return slot;
	foreach(cell, scan->plan.columns)
	{
		int			column = lfirst_int(cell);

		slot->tts_values[n] = column > 0 ? values[column - 1] : MakeCallRow(&scan->row, values, nulls);
		slot->tts_isnull[n++] = column > 0 && nulls[column - 1];
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
CreateGroups(CustomScan *plan)
{
	GroupScan  *scan = palloc0(sizeof(GroupScan));

	NodeSetTag(scan, T_CustomScanState);
	scan->css.methods = &exec_methods;
	scan->plan = ReadGroupPlan(plan);
	return (Node *) scan;
}

static void
BeginGroups(CustomScanState *node, EState *estate, int eflags)
{
	GroupScan  *scan = (GroupScan *) node;
	PlanState  *state = &node->ss.ps;
	Oid			relid;

	CheckExecutePrivilege(scan->plan.call->funcid);
	scan->arguments = BeginArguments(scan->plan.call, state);
	scan->row = BeginCallRow(node, scan->plan.columns);
	scan->context = AllocSetContextCreate(estate->es_query_cxt, "fasted groups",
										  ALLOCSET_DEFAULT_SIZES);
	relid = KnownRelation(scan->plan.call, scan->plan.first + GROUP_RELATION, state);
	RefuseCitusExplain(estate, eflags, relid);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		scan->held_relations = HoldRelations(relid);
}

static void
RescanGroups(CustomScanState *node)
{
	GroupScan  *scan = (GroupScan *) node;

	ExecScanReScan(&node->ss);
	if (scan->run == NULL)
		return;
	if (RescanArguments(&scan->arguments, &node->ss.ps))
		EndRun(scan);
	else
		GroupRunRewind(scan->run);
}

static void
EndGroups(CustomScanState *node)
{
	GroupScan  *scan = (GroupScan *) node;

	EndRun(scan);
	ReleaseRelations(scan->held_relations);
}
