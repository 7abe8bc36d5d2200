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
#include "optimizer/optimizer.h"
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

	path = MakeCountPath(root, output, &path_methods);
	CostNearestPath(root, input, call, first, &path->path);
	path->custom_private = list_make4(call, list_make2_int(first, true), count, input);
	OfferCountPath(output, path);
}

static Plan *
PlanCount(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
		  List *tlist, List *clauses, List *custom_plans)
{
	RelOptInfo *input = lfourth(path->custom_private);
	CustomScan *scan = MakeCountScan(path, lthird_node(Aggref, path->custom_private), input, tlist);

	scan->custom_exprs = list_make1(linitial(path->custom_private));
	scan->custom_private = list_make2(lsecond(path->custom_private), NIL);
	scan->methods = &nearest_scan_methods;
	return &scan->scan.plan;
}

void
InstallNearestCount(void)
{
	previous_hook = create_upper_paths_hook;
	create_upper_paths_hook = OfferCount;
}
