/*-------------------------------------------------------------------------
 *
 * scan_plan.c
 *	  Which calls the scan node serves, and its path and plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "base/guc.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "scan/call_plan.h"
#include "scan/estimate.h"
#include "scan/scan_node.h"
#include "scan/self_join.h"

static Plan *PlanScan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
					  List *tlist, List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = "FastedSelfJoin",
	.PlanCustomPath = PlanScan
};

/* --- what a plan holds */

void
WriteScanPlan(const ScanPlan *plan, CustomScan *scan)
{
	/* Written to a worker and read back, a number without a point is an Integer. */
	char	   *pairs = psprintf("%.1f", plan->estimated_pairs);

	scan->custom_exprs = lcons(plan->call, list_copy(plan->conditions.dist_bounds));
	scan->custom_private = list_make5(list_make2_int(plan->first, plan->count),
									  plan->columns,
									  plan->conditions.dist_operators,
									  plan->conditions.id_operators,
									  makeFloat(pairs));
	scan->methods = &fasted_scan_methods;
}

ScanPlan
ReadScanPlan(const CustomScan *scan)
{
	ScanPlan	plan;
	List	   *numbers = linitial(scan->custom_private);

	plan.call = castNode(FuncExpr, linitial(scan->custom_exprs));
	plan.first = linitial_int(numbers);
	plan.count = lsecond_int(numbers);
	plan.columns = lsecond(scan->custom_private);
	plan.conditions.dist_bounds = list_copy_tail(scan->custom_exprs, 1);
	plan.conditions.dist_operators = lthird(scan->custom_private);
	plan.conditions.id_operators = lfourth(scan->custom_private);
	plan.estimated_pairs = floatVal(list_nth(scan->custom_private, 4));
	return plan;
}

/* --- which calls */

/* first: the position of argument "relation". */
static bool
IsSelfJoin(Oid funcid, int *first)
{
	PGFunction	function = CalledFunction(funcid);

	*first = function == fasted_self_join_typed ? 1 : 0;
	return *first == 1 || function == fasted_self_join;
}

FuncExpr *
ServedCall(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, int *first)
{
	FuncExpr   *call = fasted_setting_scan_node ? CallInFrom(rte) : NULL;
	Oid			types[3] = {InvalidOid, InvalidOid, FLOAT8OID};

	if (call == NULL || !IsSelfJoin(call->funcid, first) ||
		list_length(call->args) != SELF_JOIN_NARGS + *first)
		return NULL;
	types[0] = types[1] = KeyTypeOfCall(call, *first);
	return UsesPlainColumns(root, rel, types, lengthof(types)) ? call : NULL;
}

/* --- path */

static CustomPath *
MakeScanPath(PlannerInfo *root, RelOptInfo *rel, FuncExpr *call, int first, int workers)
{
	CustomPath *path = MakeCallPath(rel, root, &path_methods, workers);

	CostScan(root, rel, call, first, &path->path);
	path->custom_private = list_make2(call, makeInteger(first));
	return path;
}

static void
OfferParallelScan(PlannerInfo *root, RelOptInfo *rel, FuncExpr *call, int first)
{
	int			workers = WorkersOfCall(root, rel, call, first, 3);

	if (workers == 0)
		return;
	add_partial_path(rel, (Path *) MakeScanPath(root, rel, call, first, workers));
}

static CustomPath *
OfferScan(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	int			first;
	FuncExpr   *call = ServedCall(root, rel, rte, &first);

	if (call == NULL)
		return NULL;
	OfferParallelScan(root, rel, call, first);
	return MakeScanPath(root, rel, call, first, 0);
}

/* --- plan */

static Plan *
PlanScan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
		 List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *quals = extract_actual_clauses(clauses, false);
	ScanPlan	plan = {0};

	plan.call = linitial_node(FuncExpr, path->custom_private);
	plan.first = intVal(lsecond(path->custom_private));
	scan->scan.plan.qual = TakeConditions(quals, rel->relid, &plan.conditions);
	plan.columns = PlanCallColumns(scan, rel, path->path.pathtarget, tlist);
	plan.estimated_pairs = rel->tuples;
	scan->flags = path->flags;
	WriteScanPlan(&plan, scan);
	return &scan->scan.plan;
}

void
InstallScanNode(void)
{
	InstallCallNode(&fasted_scan_methods, OfferScan);
	InstallCountPlanner();
}
