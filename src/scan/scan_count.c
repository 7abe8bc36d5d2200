/*-------------------------------------------------------------------------
 *
 * scan_count.c
 *	  SELECT count(*) FROM fasted_self_join(...) without a row being formed.
 *
 * When that is all there is (no other aggregate, no grouping, no condition that
 * only the executor can check), the node takes the place of the aggregate too,
 * and adds up what the engine says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "scan/count_query.h"
#include "scan/estimate.h"
#include "scan/scan_node.h"

static create_upper_paths_hook_type previous_hook = NULL;

static Plan *PlanCount(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
					   List *tlist, List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = "FastedSelfJoin",
	.PlanCustomPath = PlanCount
};

/* The conditions of the relation, if the node itself can check all of them. */
static bool
AllConditionsTaken(RelOptInfo *rel, PairConditions *conditions)
{
	ListCell   *cell;
	List	   *clauses = extract_actual_clauses(rel->baserestrictinfo, false);

	foreach(cell, rel->baserestrictinfo)
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return false;
	return TakeConditions(clauses, rel->relid, conditions) == NIL;
}

static void
OfferCount(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
		   RelOptInfo *output, void *extra)
{
	Aggref	   *count;
	FuncExpr   *call;
	int			first;
	PairConditions conditions;
	CustomPath *path;

	if (previous_hook != NULL)
		previous_hook(root, stage, input, output, extra);
	if (stage != UPPERREL_GROUP_AGG || input->reloptkind != RELOPT_BASEREL ||
		IS_DUMMY_REL(input) || !bms_is_empty(input->lateral_relids))
		return;
	count = OnlyCount(root);
	if (count == NULL)
		return;
	call = ServedCall(root, input, planner_rt_fetch(input->relid, root), &first);
	if (call == NULL || !AllConditionsTaken(input, &conditions))
		return;

	path = MakeCountPath(root, output, &path_methods);
	CostScan(root, input, call, first, &path->path);
	path->custom_private = list_make4(call, makeInteger(first), count, input);
	OfferCountPath(output, path);
}

static Plan *
PlanCount(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
		  List *tlist, List *clauses, List *custom_plans)
{
	RelOptInfo *input = lfourth(path->custom_private);
	CustomScan *scan = MakeCountScan(path, lthird_node(Aggref, path->custom_private), input, tlist);
	ScanPlan	plan = {0};

	plan.call = linitial_node(FuncExpr, path->custom_private);
	plan.first = intVal(lsecond(path->custom_private));
	plan.count = true;
	plan.estimated_pairs = input->tuples;
	(void) AllConditionsTaken(input, &plan.conditions);

	WriteScanPlan(&plan, scan);
	return &scan->scan.plan;
}

void
InstallCountPlanner(void)
{
	previous_hook = create_upper_paths_hook;
	create_upper_paths_hook = OfferCount;
}
