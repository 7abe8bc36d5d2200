/*-------------------------------------------------------------------------
 *
 * nearest_plan.c
 *	  Which calls the node serves, and its path and plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nearest/nearest_node.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "scan/call_plan.h"
#include "scan/estimate.h"
#include "session/guc.h"

static set_rel_pathlist_hook_type previous_hook = NULL;

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
	plan.columns = lsecond(scan->custom_private);
	return plan;
}

/* NULL: the node does not serve what is there. */
static FuncExpr *
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

/* Rows come while the engine computes, after everything was read. */
static CustomPath *
MakeNearestPath(PlannerInfo *root, RelOptInfo *rel, FuncExpr *call, int first)
{
	CustomPath *path = MakeCallPath(rel, root, &path_methods);
	NearestEstimate estimate = EstimateNearest(root, list_copy_tail(call->args, first));

	CostCallPath(root, rel, &path->path, estimate.read_cost,
				 estimate.read_cost + estimate.compute_cost);
	path->custom_private = list_make2(call, list_make1_int(first));
	return path;
}

static void
OfferNearest(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	FuncExpr   *call;
	int			first;

	if (previous_hook != NULL)
		previous_hook(root, rel, rti, rte);
	if (rte->rtekind != RTE_FUNCTION || IS_DUMMY_REL(rel))
		return;
	call = ServedNearest(root, rel, rte, &first);
	if (call == NULL)
		return;

	/* Not in competition with the function scan, but instead of it. */
	rel->pathlist = NIL;
	add_path(rel, (Path *) MakeNearestPath(root, rel, call, first));
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
	RegisterCustomScanMethods(&nearest_scan_methods);
	previous_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = OfferNearest;
}
