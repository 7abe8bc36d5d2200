/*-------------------------------------------------------------------------
 *
 * group_explain.c
 *	  What EXPLAIN says about the node; told in doc/plans.md.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "catalog/pg_type.h"
#include "citus/cluster.h"
#include "groups/group_node.h"
#include "scan/call_explain.h"
#include "scan/scan_explain.h"

/* NULL and false go without saying. */
static bool
GoesWithoutSaying(const Const *argument)
{
	return IsA(argument, Const) &&
		(argument->constisnull ||
		 (argument->consttype == BOOLOID && !DatumGetBool(argument->constvalue)));
}

static void
ExplainOwnArguments(const GroupPlan *plan, const ShownCall *shown, ExplainState *es)
{
	for (int i = 0; i < plan->function->nown; i++)
		if (!GoesWithoutSaying(list_nth(plan->call->args, plan->first + GROUP_OWN + i)))
			ExplainText(plan->function->own_labels[i], ArgumentText(shown, GROUP_OWN + i), es);
}

static void
ExplainTimes(const GroupTotals *totals, ExplainState *es)
{
	ExplainPropertyInteger("Group Memory", "kB", totals->bytes / 1024, es);
	ExplainPropertyFloat("Read Time", "ms", 1000.0 * totals->read_seconds, 3, es);
	ExplainPropertyFloat("Wait Time", "ms", 1000.0 * totals->wait_seconds, 3, es);
	ExplainPropertyFloat("Group Time", "ms", 1000.0 * totals->group_seconds, 3, es);
	ExplainFilterRate(&totals->stats, totals->runs, es);
}

void
ExplainGroups(CustomScanState *node, List *ancestors, ExplainState *es)
{
	GroupScan  *scan = (GroupScan *) node;
	const GroupPlan *plan = &scan->plan;
	const GroupTotals *totals = &scan->totals;
	ShownCall	shown = ShowCall(node, plan->call, plan->first, GroupIdColumn(plan->function),
								 GroupMetric(plan->function), ancestors, es);

	ExplainCall(&shown, es);
	ExplainOwnArguments(plan, &shown, es);
	if (!IsNullArgument(&shown, GroupPartitionBy(plan->function)))
		ExplainText("Partition Column", ArgumentText(&shown, GroupPartitionBy(plan->function)), es);
	ExplainEngine(&totals->stats, es);
	ExplainPrecision(es);
	if (!es->analyze || totals->runs == 0)
		return;
	ExplainWork(&totals->stats, totals->runs, es);
	ExplainShares(totals->shares, es);
	if (totals->filed_pairs > 0)
		ExplainPropertyUInteger("Pairs Filed", NULL, totals->filed_pairs, es);
	if (es->timing)
	{
		ExplainMachine(&totals->stats, es);
		ExplainTimes(totals, es);
	}
}
