/*-------------------------------------------------------------------------
 *
 * nearest_explain.c
 *	  What EXPLAIN says about the node; told in doc/plans.md.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "citus/cluster.h"
#include "nearest/nearest_node.h"
#include "scan/call_explain.h"
#include "scan/scan_explain.h"

/* An argument that may be left out. */
static void
ExplainOptional(const char *label, const ShownCall *shown, int n, ExplainState *es)
{
	if (!IsNullArgument(shown, n))
		ExplainText(label, ArgumentText(shown, n), es);
}

/* Of one relation with itself there is one to show. */
static void
ExplainRelations(const ShownCall *shown, ExplainState *es)
{
	ShownSource a = {
		"Relation", "Vector Column", "Key Column", NEAREST_A, NEAREST_A_COLUMN, NEAREST_A_ID, -1
	};
	ShownSource b = {
		"Neighbor Relation", "Neighbor Vector Column", "Neighbor Key Column",
		NEAREST_B, NEAREST_B_COLUMN, NEAREST_B_ID, -1
	};
	bool		one = AreSameArguments(shown, NEAREST_A, NEAREST_B) &&
		AreSameArguments(shown, NEAREST_A_COLUMN, NEAREST_B_COLUMN);

	if (one)
		a.other_id = NEAREST_B_ID;
	ExplainSource(shown, &a, es);
	if (!one)
		ExplainSource(shown, &b, es);
}

static void
ExplainTimes(const NearestTotals *totals, ExplainState *es)
{
	ExplainPropertyFloat("Read Time", "ms", 1000.0 * totals->read_seconds, 3, es);
	ExplainPropertyFloat("Wait Time", "ms", 1000.0 * totals->wait_seconds, 3, es);
}

void
ExplainNearest(CustomScanState *node, List *ancestors, ExplainState *es)
{
	NearestScan *scan = (NearestScan *) node;
	const NearestPlan *plan = &scan->plan;
	NearestTotals totals = NearestTotalsUntilNow(scan);
	ShownCall	shown = ShowCall(node, plan->call, plan->first, NEAREST_A_ID, NEAREST_METRIC,
								 ancestors, es);

	ExplainFunction(&shown, es);
	ExplainRelations(&shown, es);
	ExplainText("Neighbors", ArgumentText(&shown, NEAREST_K), es);
	ExplainOptional("Max Distance", &shown, NEAREST_MAX_DISTANCE, es);
	ExplainOptional("Partition Column", &shown, NEAREST_PARTITION_BY, es);
	ExplainMetric(&shown, es);
	if (plan->count)
		ExplainText("Aggregate", "count(*)", es);
	ExplainEngine(&totals.stats, es);
	if (!es->analyze || scan->runs == 0)
		return;
	if (!IsNullArgument(&shown, NEAREST_PARTITION_BY))
		ExplainPropertyUInteger("Partitions", NULL, totals.partitions, es);
	ExplainWork(&totals.stats, scan->runs, es);
	ExplainShares(totals.shares, es);
	if (es->timing)
	{
		ExplainMachine(&totals.stats, es);
		ExplainTimes(&totals, es);
	}
}
