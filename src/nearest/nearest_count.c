/*-------------------------------------------------------------------------
 *
 * nearest_count.c
 *	  SELECT count(*) FROM fasted_knn_join(...) without a row being formed.
 *
 * When that is all there is, the node takes the place of the aggregate too, and adds up
 * how many neighbours rows have.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nearest/nearest_node.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "scan/count_query.h"

static create_upper_paths_hook_type previous_hook = NULL;

static Plan *PlanCount(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
					   List *tlist, List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = NEAREST_NODE_NAME,
	.PlanCustomPath = PlanCount
};

static void
OfferCount(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
		   RelOptInfo *output, void *extra)
{
	Aggref	   *count;
	FuncExpr   *call;
	int			first;
	CustomPath *path;

	if (previous_hook != NULL)
		previous_hook(root, stage, input, output, extra);
	if (stage != UPPERREL_GROUP_AGG || input->reloptkind != RELOPT_BASEREL ||
		input->rtekind != RTE_FUNCTION || IS_DUMMY_REL(input) ||
		!bms_is_empty(input->lateral_relids) || input->baserestrictinfo != NIL)
		return;
	count = OnlyCount(root);
	if (count == NULL)
		return;
	call = ServedNearest(root, input, planner_rt_fetch(input->relid, root), &first);
	if (call == NULL)
		return;

	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = output;
	path->path.pathtarget = root->upper_targets[UPPERREL_GROUP_AGG];
	CostNearestPath(root, input, call, first, &path->path);
	path->path.rows = 1;
	path->path.startup_cost = path->path.total_cost;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = list_make4(call, list_make2_int(first, true), count, input);
	path->methods = &path_methods;

	output->pathlist = NIL;
	output->partial_pathlist = NIL;
	add_path(output, &path->path);
}

/* The scan tuple is the aggregate, and the target list computes with it. */
static Plan *
PlanCount(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
		  List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	Aggref	   *count = lthird_node(Aggref, path->custom_private);
	RelOptInfo *input = lfourth(path->custom_private);

	scan->scan.plan.targetlist = tlist;
	scan->custom_scan_tlist = list_make1(makeTargetEntry((Expr *) copyObject(count),
														 1, NULL, false));
	scan->custom_relids = input->relids;
	scan->custom_exprs = list_make1(linitial(path->custom_private));
	scan->custom_private = list_make2(lsecond(path->custom_private), NIL);
	scan->flags = path->flags;
	scan->methods = &nearest_scan_methods;
	return &scan->scan.plan;
}

void
InstallNearestCount(void)
{
	previous_hook = create_upper_paths_hook;
	create_upper_paths_hook = OfferCount;
}
