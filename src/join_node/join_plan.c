/*-------------------------------------------------------------------------
 *
 * join_plan.c
 *	  From the path to a plan: the scan tuple, and the clauses in their order.
 *
 * The scan tuple is an outer row followed by an inner one; all expressions are
 * evaluated on it, those of one side with the other's columns null.  Behind them is
 * count(*), if that is all that is asked for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join_node/join_node.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "rewrite/rewriteManip.h"

/* --- what a plan holds */

/* Its numbers, as words of the size that a List of integers has. */
#define PLAN_WORDS (offsetof(JoinPlan, shared_columns) / sizeof(int))

static void
WriteJoinPlan(const JoinPlan *plan, CustomScan *scan)
{
	int			words[PLAN_WORDS];
	List	   *numbers = NIL;

	memcpy(words, plan, sizeof(words));
	for (Size i = 0; i < PLAN_WORDS; i++)
		numbers = lappend_int(numbers, words[i]);
	scan->custom_private = list_make5(numbers, plan->shared_columns, plan->outer_hashes,
									  plan->inner_hashes, plan->key_collations);
	scan->custom_exprs = list_make5(list_make3(plan->outer, plan->inner, plan->bound),
									list_make2(plan->outer_keys, plan->inner_keys),
									plan->join_quals, plan->other_quals, plan->one_time_quals);
	scan->methods = &fasted_join_methods;
}

JoinPlan
ReadJoinPlan(const CustomScan *scan)
{
	const List *vectors = linitial(scan->custom_exprs);
	const List *keys = lsecond(scan->custom_exprs);
	JoinPlan	plan;
	int			words[PLAN_WORDS];
	ListCell   *cell;

	foreach(cell, (List *) linitial(scan->custom_private))
		words[foreach_current_index(cell)] = lfirst_int(cell);
	memcpy(&plan, words, sizeof(words));
	plan.shared_columns = lsecond(scan->custom_private);
	plan.outer_hashes = lthird(scan->custom_private);
	plan.inner_hashes = lfourth(scan->custom_private);
	plan.key_collations = list_nth(scan->custom_private, 4);
	plan.outer = linitial(vectors);
	plan.inner = lsecond(vectors);
	plan.bound = lthird(vectors);
	plan.outer_keys = linitial(keys);
	plan.inner_keys = lsecond(keys);
	plan.join_quals = lthird(scan->custom_exprs);
	plan.other_quals = lfourth(scan->custom_exprs);
	plan.one_time_quals = list_nth(scan->custom_exprs, 4);
	return plan;
}

/* --- clauses */

/* A leakproof clause may come early, if it is cheap. */
static Index
LevelOf(const RestrictInfo *rinfo)
{
	return rinfo->leakproof && rinfo->eval_cost.per_tuple < 10 * cpu_operator_cost ? 0 :
		rinfo->security_level;
}

/*
 * RestrictInfos in their order of evaluation: by security level, then by cost, as a nested loop's
 * are (order_qual_clauses).
 */
static List *
OrderedQuals(PlannerInfo *root, List *clauses)
{
	List	   *ordered = NIL;
	QualCost	cost;
	ListCell   *cell;

	/* notes the cost of each */
	cost_qual_eval(&cost, clauses, root);
	foreach(cell, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);
		int			place = list_length(ordered);

		for (; place > 0; place--)
		{
			const RestrictInfo *before = list_nth(ordered, place - 1);

			if (LevelOf(before) < LevelOf(rinfo) ||
				(LevelOf(before) == LevelOf(rinfo) &&
				 before->eval_cost.per_tuple <= rinfo->eval_cost.per_tuple))
				break;
		}
		ordered = list_insert_nth(ordered, place, rinfo);
	}
	return ordered;
}

/*
 * An expression with the inner side's columns as they are above the join, where
 * that makes nulls of them: PostgreSQL 16 tells the two apart.
 */
static Node *
AboveJoin(Node *node, const JoinPathData *data)
{
#if PG_VERSION_NUM >= 160000
	if (data->nulling_join != 0)
		return add_nulling_relids(copyObject(node), data->inner->relids,
								  bms_make_singleton(data->nulling_join));
#endif
	return copyObject(node);
}

/* --- the scan tuple */

static List *
AddColumn(List *scan_tlist, Node *expr)
{
	return lappend(scan_tlist, makeTargetEntry((Expr *) expr, list_length(scan_tlist) + 1,
											   NULL, false));
}

/* Where the column is in a side's rows. */
static int
FindColumn(const void *column, List *tlist)
{
	TargetEntry *entry = tlist_member((Expr *) column, tlist);

	if (entry == NULL)
		elog(ERROR, "fasted reads a side of a join without a column of it");
	return entry->resno - 1;
}

/* --- the plan */

static void
AddQuals(PlannerInfo *root, const JoinPathData *data, JoinPlan *plan)
{
	ListCell   *cell;

	foreach(cell, OrderedQuals(root, data->quals))
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo == data->clause.rinfo)
			plan->distance_qual = list_length(plan->join_quals);
		if (rinfo == data->order.rinfo)
			plan->order_qual = list_length(plan->join_quals);
		if (plan->outer_quals == list_length(plan->join_quals) &&
			!bms_overlap(rinfo->clause_relids, data->inner->relids))
			plan->outer_quals++;
		plan->join_quals = lappend(plan->join_quals,
								   AboveJoin((Node *) rinfo->clause, data));
	}
	plan->other_quals = copyObject(extract_actual_clauses(OrderedQuals(root, data->above), false));
	plan->one_time_quals = copyObject(extract_actual_clauses(OrderedQuals(root, data->one_time), true));
}

static void
AddOrder(const JoinPathData *data, List *tlist, JoinPlan *plan)
{
	const RowOrder *order = &data->order;

	plan->order_qual = -1;
	if (order->rinfo == NULL)
		return;
	plan->order_operator = order->operator;
	plan->order_collation = order->collation;
	plan->order_swapped = (Index) order->left->varno != data->outer->relid;
	plan->order_column = FindColumn(plan->order_swapped ? order->right : order->left, tlist);
}

/* Where a side that leaves its vectors in the table has them, and their places. */
static void
AddLeftVector(const JoinPathData *data, int side, List *plans, JoinPlan *plan)
{
	int			read = plan->shared ? 0 : side;
	List	   *tlist = ((Plan *) list_nth(plans, read))->targetlist;
	Var		   *vector = data->left[read];

	plan->left_vector[side] = plan->left_place[side] = -1;
	if (vector == NULL)
		return;
	plan->left_vector[side] = FindColumn(vector, tlist);
	plan->left_place[side] = FindColumn(PlaceVar(vector->varno), tlist);
}

Plan *
PlanJoinNode(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			 List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	const JoinPathData *data = linitial(path->custom_private);
	const DistanceClause *clause = &data->clause;
	List	   *outer_tlist = ((Plan *) linitial(custom_plans))->targetlist;
	List	   *inner_columns = data->plan.shared ? data->inner->reltarget->exprs :
		get_tlist_exprs(((Plan *) lsecond(custom_plans))->targetlist, true);
	List	   *scan_tlist = NIL;
	JoinPlan	plan = data->plan;
	ListCell   *cell;

	foreach(cell, outer_tlist)
		scan_tlist = AddColumn(scan_tlist, copyObject((Node *) lfirst_node(TargetEntry, cell)->expr));
	plan.outer_columns = list_length(scan_tlist);
	foreach(cell, inner_columns)
	{
		scan_tlist = AddColumn(scan_tlist, AboveJoin(lfirst(cell), data));
		if (plan.shared)
			plan.shared_columns =
				lappend_int(plan.shared_columns,
							FindColumn(AsOuter(lfirst(cell), data->outer, data->inner), outer_tlist));
	}
	if (plan.count)
		scan_tlist = AddColumn(scan_tlist, copyObject((Node *) data->count));
	scan->custom_scan_tlist = scan_tlist;
	AddOrder(data, outer_tlist, &plan);
	for (int i = 0; i < 2; i++)
		AddLeftVector(data, i, custom_plans, &plan);
	AddQuals(root, data, &plan);
	plan.form = clause->form;
	plan.cosine = clause->cosine;
	plan.strict = clause->strict;
	plan.similarity = clause->similarity;
	plan.outer_keys = copyObject(plan.outer_keys);
	plan.inner_keys = (List *) AboveJoin((Node *) plan.inner_keys, data);
	plan.outer = copyObject(clause->outer);
	plan.inner = (Expr *) AboveJoin((Node *) clause->inner, data);
	plan.bound = copyObject(clause->bound);
	scan->scan.plan.targetlist = tlist;
	scan->custom_plans = custom_plans;
	scan->flags = path->flags;
	WriteJoinPlan(&plan, scan);
	return &scan->scan.plan;
}
