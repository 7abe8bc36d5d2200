/*-------------------------------------------------------------------------
 *
 * join_plan.c
 *	  From the path to a plan: the scan tuple, and the clauses in their order.
 *
 * The scan tuple is an outer row followed by an inner one; all expressions are
 * evaluated on it, those of one side with the other's columns null.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join_node/join_node.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "rewrite/rewriteManip.h"

/* --- what a plan holds */

void
WriteJoinPlan(const JoinPlan *plan, CustomScan *scan)
{
	List	   *numbers = list_make3_int(plan->type, plan->form, plan->strict);

	numbers = lappend_int(numbers, plan->outer_columns);
	numbers = lappend_int(numbers, list_length(plan->join_quals));
	numbers = lappend_int(numbers, plan->distance_qual);
	scan->custom_private = list_make1(numbers);
	scan->custom_exprs = list_concat(list_concat(list_make3(plan->outer, plan->inner, plan->radius),
												 plan->join_quals), plan->other_quals);
	scan->methods = &fasted_join_methods;
}

JoinPlan
ReadJoinPlan(const CustomScan *scan)
{
	List	   *numbers = linitial(scan->custom_private);
	int			quals = list_nth_int(numbers, 4);
	JoinPlan	plan;

	plan.type = (JoinType) linitial_int(numbers);
	plan.form = (DistanceForm) lsecond_int(numbers);
	plan.strict = lthird_int(numbers);
	plan.outer_columns = list_nth_int(numbers, 3);
	plan.distance_qual = list_nth_int(numbers, 5);
	plan.outer = linitial(scan->custom_exprs);
	plan.inner = lsecond(scan->custom_exprs);
	plan.radius = lthird(scan->custom_exprs);
	plan.join_quals = list_truncate(list_copy_tail(scan->custom_exprs, 3), quals);
	plan.other_quals = list_copy_tail(scan->custom_exprs, 3 + quals);
	return plan;
}

/* --- clauses */

typedef struct QualOrder
{
	PlannerInfo *root;
	RestrictInfo *rinfo;
	Index		level;
	Cost		cost;
	int			number;
} QualOrder;

/* By security level, then by cost: as a nested loop's are (order_qual_clauses). */
static int
CompareQuals(const void *x, const void *y)
{
	const QualOrder *a = x;
	const QualOrder *b = y;

	if (a->level != b->level)
		return a->level < b->level ? -1 : 1;
	if (a->cost != b->cost)
		return a->cost < b->cost ? -1 : 1;
	return a->number - b->number;
}

/* The clauses of the join itself, or those above it, as RestrictInfos in their order. */
static List *
OrderedQuals(PlannerInfo *root, List *restrictlist, Relids join_relids, JoinType type, bool above)
{
	QualOrder  *quals = palloc(list_length(restrictlist) * sizeof(QualOrder) + 1);
	int			count = 0;
	List	   *ordered = NIL;
	ListCell   *cell;

	foreach(cell, restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);
		QualCost	cost;

		if ((IS_OUTER_JOIN(type) && RINFO_IS_PUSHED_DOWN(rinfo, join_relids)) != above)
			continue;
		cost_qual_eval_node(&cost, (Node *) rinfo, root);
		quals[count] = (QualOrder) {root, rinfo, rinfo->security_level, cost.per_tuple, count};
		/* a leakproof clause may come early, if it is cheap */
		if (rinfo->leakproof && cost.per_tuple < 10 * cpu_operator_cost)
			quals[count].level = 0;
		count++;
	}
	qsort(quals, count, sizeof(QualOrder), CompareQuals);
	for (int i = 0; i < count; i++)
		ordered = lappend(ordered, quals[i].rinfo);
	return ordered;
}

/*
 * An expression with the inner side's columns as they are above the join, where
 * that makes nulls of them: PostgreSQL 16 tells the two apart.
 */
static Node *
AboveJoin(Node *node, RelOptInfo *inner, const SpecialJoinInfo *sjinfo)
{
#if PG_VERSION_NUM >= 160000
	if (sjinfo != NULL && sjinfo->ojrelid != 0)
		return add_nulling_relids(copyObject(node), inner->relids,
								  bms_make_singleton(sjinfo->ojrelid));
#endif
	return copyObject(node);
}

/* --- the plan */

static List *
AddColumns(List *scan_tlist, List *columns, RelOptInfo *inner, const SpecialJoinInfo *sjinfo)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);
		Node	   *expr = inner != NULL ? AboveJoin((Node *) entry->expr, inner, sjinfo)
			: copyObject((Node *) entry->expr);

		scan_tlist = lappend(scan_tlist, makeTargetEntry((Expr *) expr,
														 list_length(scan_tlist) + 1, NULL, false));
	}
	return scan_tlist;
}

Plan *
PlanJoinNode(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			 List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	DistanceClause *clause = linitial(path->custom_private);
	JoinType	type = (JoinType) intVal(lsecond(path->custom_private));
	List	   *restrictlist = lthird(path->custom_private);
	SpecialJoinInfo *sjinfo = lfourth(path->custom_private);
	RelOptInfo *inner = ((Path *) lsecond(path->custom_paths))->parent;
	Plan	   *outer_plan = linitial(custom_plans);
	Plan	   *inner_plan = lsecond(custom_plans);
	JoinPlan	plan = {.type = type,.form = clause->form,.strict = clause->strict};
	ListCell   *cell;

	if (!IS_OUTER_JOIN(type))
		sjinfo = NULL;
	scan->scan.plan.targetlist = tlist;
	scan->custom_plans = custom_plans;
	scan->custom_scan_tlist = AddColumns(NIL, outer_plan->targetlist, NULL, NULL);
	plan.outer_columns = list_length(scan->custom_scan_tlist);
	scan->custom_scan_tlist = AddColumns(scan->custom_scan_tlist, inner_plan->targetlist,
										 inner, sjinfo);
	foreach(cell, OrderedQuals(root, restrictlist, rel->relids, type, false))
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo == clause->rinfo)
			plan.distance_qual = list_length(plan.join_quals);
		plan.join_quals = lappend(plan.join_quals,
								  AboveJoin((Node *) rinfo->clause, inner, sjinfo));
	}
	foreach(cell, OrderedQuals(root, restrictlist, rel->relids, type, true))
		plan.other_quals = lappend(plan.other_quals,
								   copyObject(lfirst_node(RestrictInfo, cell)->clause));
	plan.outer = copyObject(clause->outer);
	plan.inner = (Expr *) AboveJoin((Node *) clause->inner, inner, sjinfo);
	plan.radius = copyObject(clause->radius);
	scan->flags = path->flags;
	WriteJoinPlan(&plan, scan);
	return &scan->scan.plan;
}
