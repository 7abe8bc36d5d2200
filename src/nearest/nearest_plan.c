/*-------------------------------------------------------------------------
 *
 * nearest_plan.c
 *	  Which calls the node serves, and its path and plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/guc.h"
#include "catalog/pg_type.h"
#include "nearest/nearest_node.h"
#include "optimizer/pathnode.h"
#include "scan/call_plan.h"
#include "scan/estimate.h"

static Plan *PlanNearest(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
						 List *tlist, List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = NEAREST_NODE_NAME,
	.PlanCustomPath = PlanNearest
};

NearestPlan
ReadNearestPlan(const CustomScan *scan)
{
	NearestPlan plan;

	plan.call = linitial_node(FuncExpr, scan->custom_exprs);
	plan.first = linitial_int(linitial(scan->custom_private));
	plan.count = list_length(linitial(scan->custom_private)) > 1;
	plan.columns = lsecond(scan->custom_private);
	return plan;
}

/* NULL: the node does not serve what is there. */
FuncExpr *
ServedNearest(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte, int *first)
{
	FuncExpr   *call = fasted_setting_scan_node ? CallInFrom(rte) : NULL;
	PGFunction	function = call != NULL ? CalledFunction(call->funcid) : NULL;
	Oid			types[NEAREST_NCOLUMNS] = {InvalidOid, InvalidOid, FLOAT8OID, INT4OID};

	if (function != fasted_knn_join && function != fasted_knn_join_typed)
		return NULL;
	*first = function == fasted_knn_join_typed ? 1 : 0;
	if (list_length(call->args) != NEAREST_NARGS + *first)
		return NULL;
	types[0] = types[1] = KeyTypeOfCall(call, *first);
	return UsesPlainColumns(root, rel, types, NEAREST_NCOLUMNS) ? call : NULL;
}

/* Rows come when the engine is through with some, after everything was read: mostly with all. */
void
CostNearestPath(PlannerInfo *root, RelOptInfo *rel, const FuncExpr *call, int first, Path *path)
{
	NearestEstimate estimate = EstimateNearest(root, list_copy_tail(call->args, first));

	CostCallPath(root, rel, path, estimate.read_cost + estimate.first_cost,
				 estimate.read_cost + estimate.compute_cost);
}

static CustomPath *
MakeNearestPath(PlannerInfo *root, RelOptInfo *rel, FuncExpr *call, int first, int workers)
{
	CustomPath *path = MakeCallPath(rel, root, &path_methods, workers);

	CostNearestPath(root, rel, call, first, &path->path);
	path->custom_private = list_make2(call, list_make1_int(first));
	return path;
}

static CustomPath *
OfferNearest(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	int			first;
	FuncExpr   *call = ServedNearest(root, rel, rte, &first);
	int			workers;

	if (call == NULL)
		return NULL;
	workers = WorkersOfCall(root, rel, call, first, NEAREST_NCOLUMNS);
	if (workers > 0)
		add_partial_path(rel, (Path *) MakeNearestPath(root, rel, call, first, workers));
	return MakeNearestPath(root, rel, call, first, 0);
}

static Plan *
PlanNearest(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
			List *tlist, List *clauses, List *custom_plans)
{
	return PlanCall(&nearest_scan_methods, rel, path, tlist, clauses);
}

void
InstallNearestNode(void)
{
	InstallCallNode(&nearest_scan_methods, OfferNearest);
	InstallNearestCount();
}
