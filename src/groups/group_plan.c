/*-------------------------------------------------------------------------
 *
 * group_plan.c
 *	  Which calls the node serves, and its path and plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/guc.h"
#include "groups/group_node.h"
#include "scan/call_plan.h"
#include "scan/estimate.h"

static const GroupFunction *const functions[] = {
	&group_neighbors, &group_cluster, &group_keep_one
};

/* A call that the node serves. */
typedef struct GroupCall
{
	FuncExpr   *call;
	int			function;		/* number of it in the list above */
	int			first;
} GroupCall;

static Plan *PlanGroups(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
						List *tlist, List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = GROUP_NODE_NAME,
	.PlanCustomPath = PlanGroups
};

/* --- what a plan holds */

GroupPlan
ReadGroupPlan(const CustomScan *scan)
{
	const List *numbers = linitial(scan->custom_private);
	GroupPlan	plan;

	plan.call = linitial_node(FuncExpr, scan->custom_exprs);
	plan.function = functions[linitial_int(numbers)];
	plan.first = lsecond_int(numbers);
	plan.columns = lsecond(scan->custom_private);
	return plan;
}

/* --- which calls */

static bool
FindFunction(Oid funcid, GroupCall *found)
{
	PGFunction	address = CalledFunction(funcid);

	for (int i = 0; i < (int) lengthof(functions); i++)
	{
		if (address != functions[i]->plain && address != functions[i]->typed)
			continue;
		found->function = i;
		found->first = address == functions[i]->typed ? 1 : 0;
		return true;
	}
	return false;
}

static bool
HasPlainColumns(PlannerInfo *root, RelOptInfo *rel, const GroupCall *found)
{
	const GroupFunction *function = functions[found->function];
	Oid			key_type = KeyTypeOfCall(found->call, found->first);
	Oid			types[GROUP_MOST_COLUMNS];

	for (int i = 0; i < function->ncolumns; i++)
		types[i] = OidIsValid(function->columns[i]) ? function->columns[i] : key_type;
	return UsesPlainColumnsOrRow(root, rel, types, function->ncolumns);
}

static bool
IsServed(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, GroupCall *found)
{
	found->call = fasted_setting_scan_node ? CallInFrom(rte) : NULL;
	return found->call != NULL && FindFunction(found->call->funcid, found) &&
		list_length(found->call->args) == GroupArgCount(functions[found->function]) + found->first &&
		HasPlainColumns(root, rel, found);
}

/* --- path */

/* Rows come when everything is done. */
static CustomPath *
OfferGroups(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	GroupCall	found;
	CustomPath *path;
	double		rows;
	Cost		cost;

	if (!IsServed(root, rel, rte, &found))
		return NULL;
	path = MakeCallPath(rel, root, &path_methods, 0);
	EstimateRowFunction(root, list_copy_tail(found.call->args, found.first), &rows, &cost);
	CostCallPath(root, rel, &path->path, cost, cost);
	path->custom_private = list_make2(found.call, list_make2_int(found.function, found.first));
	return path;
}

/* --- plan */

static Plan *
PlanGroups(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
		   List *tlist, List *clauses, List *custom_plans)
{
	Plan	   *plan = PlanCall(&group_scan_methods, rel, path, tlist, clauses);

	PlanCallRow(root, (CustomScan *) plan, rel);
	return plan;
}

void
InstallGroupNode(void)
{
	InstallCallNode(&group_scan_methods, OfferGroups);
}
