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

void
WriteJoinPlan(const JoinPlan *plan, CustomScan *scan)
{
	List	   *numbers = list_make3_int(plan->type, plan->form, plan->strict);
	List	   *order = list_make3_int(plan->order_column, plan->order_swapped, plan->order_qual);

	numbers = lappend_int(numbers, plan->outer_columns);
	numbers = lappend_int(numbers, list_length(plan->join_quals));
	numbers = lappend_int(numbers, plan->distance_qual);
	numbers = lappend_int(numbers, plan->shared);
	numbers = lappend_int(numbers, plan->cosine);
	numbers = lappend_int(numbers, list_length(plan->outer_keys));
	for (int i = 0; i < 2; i++)
	{
		numbers = lappend_int(numbers, plan->left_vector[i]);
		numbers = lappend_int(numbers, plan->left_place[i]);
	}
	numbers = lappend_int(numbers, plan->count);
	numbers = lappend_int(numbers, plan->distance_decides);
	numbers = lappend_int(numbers, plan->similarity);
	numbers = lappend_int(numbers, plan->outer_quals);
	numbers = lappend_int(numbers, plan->may_raise);
	numbers = lappend_int(numbers, list_length(plan->one_time_quals));
	scan->custom_private = list_make5(numbers, plan->shared_columns, plan->outer_hashes,
									  plan->inner_hashes, plan->key_collations);
	scan->custom_private = lappend(scan->custom_private, order);
	scan->custom_private = lappend(scan->custom_private,
								   list_make2_oid(plan->order_operator, plan->order_collation));
	scan->custom_exprs = list_make3(plan->outer, plan->inner, plan->bound);
	scan->custom_exprs = list_concat(scan->custom_exprs, plan->outer_keys);
	scan->custom_exprs = list_concat(scan->custom_exprs, plan->inner_keys);
	scan->custom_exprs = list_concat(scan->custom_exprs, plan->join_quals);
	scan->custom_exprs = list_concat(scan->custom_exprs, plan->one_time_quals);
	scan->custom_exprs = list_concat(scan->custom_exprs, plan->other_quals);
	scan->methods = &fasted_join_methods;
}

/* So many of a list, from the first on. */
static List *
Sublist(const List *list, int first, int count)
{
	return list_truncate(list_copy_tail(list, first), count);
}

static void
ReadOrder(JoinPlan *plan, const List *numbers, const List *oids)
{
	plan->order_column = linitial_int(numbers);
	plan->order_swapped = lsecond_int(numbers);
	plan->order_qual = lthird_int(numbers);
	plan->order_operator = linitial_oid(oids);
	plan->order_collation = lsecond_oid(oids);
}

JoinPlan
ReadJoinPlan(const CustomScan *scan)
{
	List	   *numbers = linitial(scan->custom_private);
	int			quals = list_nth_int(numbers, 4);
	int			keys = list_nth_int(numbers, 8);
	int			one_time = list_nth_int(numbers, 18);
	JoinPlan	plan;

	plan.type = (JoinType) linitial_int(numbers);
	plan.form = (DistanceForm) lsecond_int(numbers);
	plan.strict = lthird_int(numbers);
	plan.outer_columns = list_nth_int(numbers, 3);
	plan.distance_qual = list_nth_int(numbers, 5);
	plan.shared = list_nth_int(numbers, 6);
	plan.cosine = list_nth_int(numbers, 7);
	for (int i = 0; i < 2; i++)
	{
		plan.left_vector[i] = list_nth_int(numbers, 9 + 2 * i);
		plan.left_place[i] = list_nth_int(numbers, 10 + 2 * i);
	}
	plan.count = list_nth_int(numbers, 13);
	plan.distance_decides = list_nth_int(numbers, 14);
	plan.similarity = list_nth_int(numbers, 15);
	plan.outer_quals = list_nth_int(numbers, 16);
	plan.may_raise = list_nth_int(numbers, 17);
	ReadOrder(&plan, list_nth(scan->custom_private, 5), list_nth(scan->custom_private, 6));
	plan.shared_columns = lsecond(scan->custom_private);
	plan.outer = linitial(scan->custom_exprs);
	plan.inner = lsecond(scan->custom_exprs);
	plan.bound = lthird(scan->custom_exprs);
	plan.outer_keys = Sublist(scan->custom_exprs, 3, keys);
	plan.inner_keys = Sublist(scan->custom_exprs, 3 + keys, keys);
	plan.outer_hashes = lthird(scan->custom_private);
	plan.inner_hashes = lfourth(scan->custom_private);
	plan.key_collations = list_nth(scan->custom_private, 4);
	plan.join_quals = Sublist(scan->custom_exprs, 3 + 2 * keys, quals);
	plan.one_time_quals = Sublist(scan->custom_exprs, 3 + 2 * keys + quals, one_time);
	plan.other_quals = list_copy_tail(scan->custom_exprs, 3 + 2 * keys + quals + one_time);
	return plan;
}

/* --- clauses */

typedef struct QualOrder
{
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
		quals[count] = (QualOrder) {rinfo, rinfo->security_level, cost.per_tuple, count};
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

/* The inner side's columns, and where they are in shared rows. */
static List *
AddInnerColumns(List *scan_tlist, const JoinPathData *data,
				List *columns, List *shared_tlist, List **shared_columns)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		scan_tlist = AddColumn(scan_tlist, AboveJoin(lfirst(cell), data));
		if (data->shared)
		{
			Node	   *outer = AsOuter(lfirst(cell), data->outer, data->inner);
			TargetEntry *entry = tlist_member((Expr *) outer, shared_tlist);

			if (entry == NULL)
				elog(ERROR, "fasted shares a row without a column of it");
			*shared_columns = lappend_int(*shared_columns, entry->resno - 1);
		}
	}
	return scan_tlist;
}

static List *
ExpressionsOf(List *tlist)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, tlist)
		result = lappend(result, lfirst_node(TargetEntry, cell)->expr);
	return result;
}

/* --- the plan */

static void
AddQuals(PlannerInfo *root, RelOptInfo *rel, const JoinPathData *data,
		 JoinPlan *plan)
{
	ListCell   *cell;

	foreach(cell, OrderedQuals(root, data->restrictlist, rel->relids, data->type, false))
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
	foreach(cell, OrderedQuals(root, data->restrictlist, rel->relids, data->type, true))
		plan->other_quals = lappend(plan->other_quals,
									copyObject(lfirst_node(RestrictInfo, cell)->clause));
	foreach(cell, OrderedQuals(root, data->one_time, rel->relids, JOIN_INNER, false))
		plan->one_time_quals = lappend(plan->one_time_quals,
									   copyObject(lfirst_node(RestrictInfo, cell)->clause));
}

static void
AddKeys(const JoinPathData *data, JoinPlan *plan)
{
	ListCell   *cell;

	foreach(cell, data->keys)
	{
		const GroupKey *key = lfirst(cell);

		plan->outer_keys = lappend(plan->outer_keys, copyObject(key->outer));
		plan->inner_keys = lappend(plan->inner_keys, AboveJoin((Node *) key->inner, data));
		plan->outer_hashes = lappend_oid(plan->outer_hashes, key->outer_hash);
		plan->inner_hashes = lappend_oid(plan->inner_hashes, key->inner_hash);
		plan->key_collations = lappend_oid(plan->key_collations, key->collation);
	}
}

/* Where the column is in a side's rows. */
static int
FindColumn(const Var *column, List *tlist)
{
	TargetEntry *entry = tlist_member((Expr *) column, tlist);

	if (entry == NULL)
		elog(ERROR, "fasted reads a side of a join without a column of it");
	return entry->resno - 1;
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
AddLeftVector(const JoinPathData *data, int side, List *tlist, JoinPlan *plan)
{
	const RelOptInfo *rel = side == 0 ? data->outer : data->inner;
	const Var  *vector = (Var *) data->clause.first;

	plan->left_vector[side] = plan->left_place[side] = -1;
	if (!data->left[side] || (data->shared && side > 0))
		return;
	if (!IsA(vector, Var) || (Index) vector->varno != rel->relid)
		vector = (Var *) data->clause.second;
	plan->left_vector[side] = FindColumn(vector, tlist);
	plan->left_place[side] = FindColumn(PlaceVar(rel->relid), tlist);
}

Plan *
PlanJoinNode(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			 List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	const JoinPathData *data = linitial(path->custom_private);
	const DistanceClause *clause = &data->clause;
	List	   *outer_tlist = ((Plan *) linitial(custom_plans))->targetlist;
	List	   *inner_columns = data->shared ? data->inner->reltarget->exprs :
		ExpressionsOf(((Plan *) lsecond(custom_plans))->targetlist);
	List	   *scan_tlist = NIL;
	JoinPlan	plan = {.type = data->type,.form = clause->form,.cosine = clause->cosine,
		.strict = clause->strict,.similarity = clause->similarity,.shared = data->shared,.count = data->count != NULL,
	.distance_decides = data->distance_decides,.may_raise = data->may_raise};
	ListCell   *cell;

	foreach(cell, outer_tlist)
		scan_tlist = AddColumn(scan_tlist, copyObject((Node *) lfirst_node(TargetEntry, cell)->expr));
	plan.outer_columns = list_length(scan_tlist);
	scan->custom_scan_tlist = AddInnerColumns(scan_tlist, data, inner_columns, outer_tlist,
											  &plan.shared_columns);
	if (plan.count)
		scan->custom_scan_tlist = AddColumn(scan->custom_scan_tlist, copyObject((Node *) data->count));
	AddOrder(data, outer_tlist, &plan);
	for (int i = 0; i < 2; i++)
		AddLeftVector(data, i, ((Plan *) list_nth(custom_plans, data->shared ? 0 : i))->targetlist, &plan);
	AddQuals(root, rel, data, &plan);
	AddKeys(data, &plan);
	plan.outer = copyObject(clause->outer);
	plan.inner = (Expr *) AboveJoin((Node *) clause->inner, data);
	plan.bound = copyObject(clause->bound);
	scan->scan.plan.targetlist = tlist;
	scan->custom_plans = custom_plans;
	scan->flags = path->flags;
	WriteJoinPlan(&plan, scan);
	return &scan->scan.plan;
}
