/*-------------------------------------------------------------------------
 *
 * join_clause.c
 *	  Takes clauses apart, knows our functions and pgvector's, and how selective they are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/dependency.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "distance/distance.h"
#include "join_node/join_node.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "rows/source.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* --- distances */

/* A call of a function or an operator, written either way. */
static bool
IsCall(Expr *expr, Oid *funcid, List **args)
{
	if (IsA(expr, FuncExpr))
	{
		*funcid = ((FuncExpr *) expr)->funcid;
		*args = ((FuncExpr *) expr)->args;
		return true;
	}
	if (IsA(expr, OpExpr))
	{
		*funcid = ((OpExpr *) expr)->opfuncid;
		if (!OidIsValid(*funcid))
			*funcid = get_opcode(((OpExpr *) expr)->opno);
		*args = ((OpExpr *) expr)->args;
		return true;
	}
	return false;
}

static bool
IsNamed(Oid funcid, const char *name)
{
	char	   *found = get_func_name(funcid);

	return found != NULL && strcmp(found, name) == 0;
}

/* One of our own functions, which has another address where settings of its own are put before it. */
static bool
IsOurs(Oid funcid, const char *name, PGFunction function)
{
	FmgrInfo	found;

	if (!IsNamed(funcid, name))
		return false;
	fmgr_info(funcid, &found);
	return found.fn_addr == function;
}

/* One of pgvector's own, of a type of its own that has a cast to real[]. */
static bool
IsForeignDistance(Oid funcid, List *args, const char *name)
{
	Oid			extension = get_extension_oid("vector", true);
	Oid			type = exprType(linitial(args));
	Oid			cast;

	return OidIsValid(extension) && IsNamed(funcid, name) &&
		getExtensionOfObject(ProcedureRelationId, funcid) == extension &&
		getExtensionOfObject(TypeRelationId, type) == extension &&
		exprType(lsecond(args)) == type &&
		find_coercion_pathway(FLOAT4ARRAYOID, type, COERCION_EXPLICIT, &cast) == COERCION_PATH_FUNC &&
		func_volatile(cast) == PROVOLATILE_IMMUTABLE;
}

/* A distance of ours, or of another one's: its arguments. */
static bool
IsDistance(Expr *expr, DistanceClause *clause, List **args)
{
	Oid			funcid;

	if (!IsCall(expr, &funcid, args) || list_length(*args) != 2)
		return false;
	clause->form = FORM_DISTANCE;
	clause->cosine = IsOurs(funcid, "fasted_cosine_distance", fasted_cosine_distance);
	if (clause->cosine || IsOurs(funcid, "fasted_distance", fasted_distance))
		return true;
	clause->form = FORM_FOREIGN;
	clause->cosine = IsForeignDistance(funcid, *args, "cosine_distance");
	return clause->cosine || IsForeignDistance(funcid, *args, "l2_distance");
}

/* Is it a number below another one, or at most that? */
static bool
IsOrder(Expr *expr, Expr **less, Expr **more, bool *strict)
{
	OpExpr	   *order = (OpExpr *) expr;
	Oid			family;
	int			strategy;

	if (!IsA(order, OpExpr) || list_length(order->args) != 2)
		return false;
	family = lookup_type_cache(FLOAT8OID, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	strategy = get_op_opfamily_strategy(order->opno, family);
	*strict = strategy == BTLessStrategyNumber || strategy == BTGreaterStrategyNumber;
	*less = strategy < BTEqualStrategyNumber ? linitial(order->args) : lsecond(order->args);
	*more = strategy < BTEqualStrategyNumber ? lsecond(order->args) : linitial(order->args);
	return strategy != InvalidStrategy && strategy != BTEqualStrategyNumber;
}

static Expr *
AsDouble(Expr *number)
{
	if (exprType((Node *) number) != FLOAT4OID)
		return number;
	return (Expr *) makeFuncExpr(F_FLOAT8_FLOAT4, FLOAT8OID, list_make1(number), InvalidOid, InvalidOid,
								 COERCE_IMPLICIT_CAST);
}

/* Is it 1 - (a <=> b), pgvector's similarity, or the same of our cosine distance? */
static bool
IsSimilarity(Expr *expr, DistanceClause *clause, List **args)
{
	Oid			funcid;
	List	   *sides;
	Const	   *one;

	if (!IsCall(expr, &funcid, &sides) || funcid != F_FLOAT8MI)
		return false;
	one = linitial(sides);
	return IsA(one, Const) && !one->constisnull && DatumGetFloat8(one->constvalue) == 1.0 &&
		IsDistance(lsecond(sides), clause, args) && clause->cosine;
}

/* Is it distance < x, x < similarity, or the like?  Then args are the vectors. */
static bool
IsComparison(Expr *expr, DistanceClause *clause, List **args)
{
	Expr	   *less;
	Expr	   *more;

	if (!IsOrder(expr, &less, &more, &clause->strict))
		return false;
	clause->similarity = IsSimilarity(more, clause, args);
	clause->bound = AsDouble(clause->similarity ? less : more);
	return clause->similarity || IsDistance(less, clause, args);
}

static bool
IsWithin(Expr *expr, DistanceClause *clause, List **args)
{
	Oid			funcid;
	Const	   *metric;
	FastedMetric found;

	if (!IsA(expr, FuncExpr) || !IsCall(expr, &funcid, args) || list_length(*args) != 4 ||
		!IsOurs(funcid, "fasted_within", fasted_within))
		return false;
	metric = lfourth(*args);
	if (!IsA(metric, Const) || metric->constisnull)
		return false;
	/* another one is an error, once there are rows to compare */
	if (!FindMetric(DatumGetTextPP(metric->constvalue), &found))
		return false;
	clause->cosine = found == FASTED_METRIC_COSINE;
	clause->form = FORM_WITHIN;
	clause->strict = clause->similarity = false;
	clause->bound = lthird(*args);
	return true;
}

/*
 * Does the function not accept every value?  These do: a cast of an element, or pgvector's cast to
 * real[]; and sums and differences, which bounds are made of: only an overflow would raise an error.
 */
static bool
MayFail(Oid function, void *context)
{
	Oid			extension;

	switch (function)
	{
		case F_FLOAT4_INT2:
		case F_FLOAT4_INT4:
		case F_FLOAT4_INT8:
		case F_FLOAT8_INT2:
		case F_FLOAT8_INT4:
		case F_FLOAT8_INT8:
		case F_FLOAT8_FLOAT4:
		case F_FLOAT8PL:
		case F_FLOAT8MI:
			return false;
	}
	extension = get_extension_oid("vector", true);
	return get_func_rettype(function) != FLOAT4ARRAYOID || !OidIsValid(extension) ||
		getExtensionOfObject(ProcedureRelationId, function) != extension;
}

bool
MayRaise(Node *expr, void *context)
{
	if (expr == NULL)
		return false;
	switch (nodeTag(expr))
	{
		case T_Var:
		case T_Const:
		case T_Param:
		case T_CaseTestExpr:
		case T_RelabelType:
		case T_ArrayCoerceExpr:
		case T_List:
			break;
		case T_FuncExpr:
		case T_OpExpr:
			if (check_functions_in_node(expr, MayFail, context))
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(expr, MayRaise, context);
}

/* A vector as real[], or as double precision[] if it is that. */
static Expr *
AsArray(Expr *vector)
{
	Oid			type = exprType((Node *) vector);

	if (getBaseType(type) == FLOAT4ARRAYOID || getBaseType(type) == FLOAT8ARRAYOID)
		return vector;
	return (Expr *) coerce_to_target_type(NULL, (Node *) copyObject(vector), type, FLOAT4ARRAYOID, -1,
										  COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
}

static bool
IsOfSide(Expr *expr, Relids side)
{
	Relids		used = pull_varnos(NULL, (Node *) expr);

	return !bms_is_empty(used) && bms_is_subset(used, side) &&
		!contain_subplans((Node *) expr);
}

/* Is it a distance clause?  Which side the vectors are of is not asked: outer and inner stay NULL. */
static bool
RecognizeDistanceClause(RestrictInfo *rinfo, DistanceClause *clause)
{
	List	   *args;

	clause->rinfo = rinfo;
	clause->outer = clause->inner = NULL;
	if (!IsWithin(rinfo->clause, clause, &args) && !IsComparison(rinfo->clause, clause, &args))
		return false;
	clause->first = linitial(args);
	clause->second = lsecond(args);
	return bms_is_empty(pull_varnos(NULL, (Node *) clause->bound)) &&
		!contain_subplans((Node *) clause->bound);
}

bool
MatchDistanceClause(RestrictInfo *rinfo, Relids outer, Relids inner, DistanceClause *clause)
{
	bool		swapped;

	if (!RecognizeDistanceClause(rinfo, clause))
		return false;
	swapped = !IsOfSide(clause->first, outer);
	if (!IsOfSide(swapped ? clause->second : clause->first, outer) ||
		!IsOfSide(swapped ? clause->first : clause->second, inner))
		return false;
	clause->outer = AsArray(swapped ? clause->second : clause->first);
	clause->inner = AsArray(swapped ? clause->first : clause->second);
	return clause->outer != NULL && clause->inner != NULL;
}

/* --- equalities and orders */

bool
AddGroupKey(RestrictInfo *rinfo, JoinPathData *data)
{
	OpExpr	   *clause = (OpExpr *) rinfo->clause;
	JoinPlan   *plan = &data->plan;
	Expr	   *outer;
	Expr	   *inner;
	Oid			left;
	Oid			right;
	bool		swapped = !bms_is_subset(rinfo->left_relids, data->outer->relids);

	if (!rinfo->can_join || !OidIsValid(rinfo->hashjoinoperator) || !IsA(clause, OpExpr) ||
		list_length(clause->args) != 2 || !op_strict(rinfo->hashjoinoperator) ||
		!get_op_hash_functions(rinfo->hashjoinoperator, &left, &right) ||
		!bms_is_subset(swapped ? rinfo->right_relids : rinfo->left_relids, data->outer->relids) ||
		!bms_is_subset(swapped ? rinfo->left_relids : rinfo->right_relids, data->inner->relids))
		return false;
	outer = swapped ? lsecond(clause->args) : linitial(clause->args);
	inner = swapped ? linitial(clause->args) : lsecond(clause->args);
	/* shared rows have one key each */
	if (plan->shared && !equal(outer, AsOuter((Node *) inner, data->outer, data->inner)))
		return false;
	plan->outer_keys = lappend(plan->outer_keys, outer);
	plan->inner_keys = lappend(plan->inner_keys, inner);
	plan->outer_hashes = lappend_oid(plan->outer_hashes, swapped ? right : left);
	plan->inner_hashes = lappend_oid(plan->inner_hashes, swapped ? left : right);
	plan->key_collations = lappend_oid(plan->key_collations, clause->inputcollid);
	return true;
}

/* A column, perhaps with another name of its type. */
static Var *
AsColumn(Node *node)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return IsA(node, Var) && ((Var *) node)->varlevelsup == 0 ? (Var *) node : NULL;
}

static bool
AreOneColumn(PlannerInfo *root, const Var *a, const Var *b)
{
	RangeTblEntry *x = planner_rt_fetch(a->varno, root);
	RangeTblEntry *y = planner_rt_fetch(b->varno, root);

	return a->varno != b->varno && a->varattno == b->varattno && a->varattno > 0 &&
		x->rtekind == RTE_RELATION && y->rtekind == RTE_RELATION && x->relid == y->relid;
}

bool
RecognizeRowOrder(PlannerInfo *root, RestrictInfo *rinfo, RowOrder *order)
{
	OpExpr	   *clause = (OpExpr *) rinfo->clause;
	Var		   *left;
	Var		   *right;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
		return false;
	left = AsColumn(linitial(clause->args));
	right = AsColumn(lsecond(clause->args));
	if (left == NULL || right == NULL || !AreOneColumn(root, left, right) ||
		!OidIsValid(get_equality_op_for_ordering_op(clause->opno, NULL)))
		return false;
	*order = (RowOrder) {.rinfo = rinfo,.left = left,.right = right,
		.operator = clause->opno,.collation = clause->inputcollid};
	return true;
}

static bool
IsNeverNull(PlannerInfo *root, const RelOptInfo *rel, AttrNumber column)
{
#if PG_VERSION_NUM >= 170000
	return bms_is_member(column, rel->notnullattnums);
#else
	Oid			table = planner_rt_fetch(rel->relid, root)->relid;
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(table), Int16GetDatum(column));
	bool		found = HeapTupleIsValid(tuple) && ((Form_pg_attribute) GETSTRUCT(tuple))->attnotnull;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return found;
#endif
}

/* Of all rows, now and not only at the end of a transaction, by the order's own equality. */
static bool
MakesUnique(const IndexOptInfo *index, const RowOrder *order)
{
	return index->unique && index->immediate && !index->hypothetical &&
		index->indpred == NIL && index->nkeycolumns == 1 &&
		index->indexkeys[0] == order->left->varattno &&
		index->indexcollations[0] == order->collation &&
		op_in_opfamily(order->operator, index->opfamily[0]);
}

bool
IsTotalOrder(PlannerInfo *root, const RelOptInfo *rel, const RowOrder *order)
{
	ListCell   *cell;

	if (!IsNeverNull(root, rel, order->left->varattno))
		return false;
	foreach(cell, rel->indexlist)
		if (MakesUnique(lfirst(cell), order))
			return true;
	return false;
}

/*
 * --- selectivity
 *
 * PostgreSQL assumes a third of all pairs for each inequality, a distance's too.  So
 * before it sizes joins we fill in the places where it keeps a clause's selectivity
 * once it is known: then all joins have it, by whatever method, and what is above.
 * norm_selec is the share of all pairs; outer_selec, in a semi or anti join, that of
 * the outer rows that have a match.
 */

static set_rel_pathlist_hook_type previous_hook = NULL;

/* The semi or anti join whose condition the clause is; NULL: none. */
static SpecialJoinInfo *
FindSemiJoin(PlannerInfo *root, const RestrictInfo *rinfo)
{
	ListCell   *cell;

	foreach(cell, root->join_info_list)
	{
		SpecialJoinInfo *join = lfirst(cell);

		if ((join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI) &&
			bms_overlap(rinfo->clause_relids, join->syn_lefthand) &&
			bms_overlap(rinfo->clause_relids, join->syn_righthand))
			return join;
	}
	return NULL;
}

/* The rows of the relations among these that the clause is about. */
static double
RowsOf(PlannerInfo *root, const RestrictInfo *rinfo, Relids relids)
{
	double		rows = 1.0;

	for (int i = -1; (i = bms_next_member(relids, i)) >= 0;)
		if (bms_is_member(i, rinfo->clause_relids) && root->simple_rel_array[i] != NULL)
			rows *= root->simple_rel_array[i]->rows;
	return rows;
}

/* The distance up to which pairs satisfy the clause: the bound, or 1 minus that of a similarity. */
static Expr *
RadiusOf(const DistanceClause *clause)
{
	Const	   *one;

	if (!clause->similarity)
		return clause->bound;
	one = makeConst(FLOAT8OID, -1, InvalidOid, sizeof(float8), Float8GetDatum(1.0), false, FLOAT8PASSBYVAL);
	return (Expr *) makeFuncExpr(F_FLOAT8MI, FLOAT8OID, list_make2(one, clause->bound), InvalidOid,
								 InvalidOid, COERCE_EXPLICIT_CALL);
}

static void
SetDistanceSelectivity(PlannerInfo *root, const DistanceClause *clause)
{
	double		share = EstimateShare(root, (Node *) clause->first, (Node *) clause->second,
									  (Node *) RadiusOf(clause),
									  clause->cosine ? FASTED_METRIC_COSINE : FASTED_METRIC_L2);
	SpecialJoinInfo *semi = FindSemiJoin(root, clause->rinfo);

	clause->rinfo->norm_selec = clause->rinfo->outer_selec = share;
	/* of rows that lie anywhere, so many have a match */
	if (semi != NULL)
		clause->rinfo->outer_selec =
			-expm1(-share * RowsOf(root, clause->rinfo, semi->syn_righthand));
}

/* Is there an earlier clause of the same relations that bounds a distance? */
static bool
HasRival(List *clauses, const RestrictInfo *rinfo)
{
	DistanceClause other;
	ListCell   *cell;

	foreach(cell, clauses)
	{
		RestrictInfo *earlier = lfirst_node(RestrictInfo, cell);

		if (earlier == rinfo)
			break;
		if (bms_equal(earlier->required_relids, rinfo->required_relids) &&
			RecognizeDistanceClause(earlier, &other))
			return true;
	}
	return false;
}

/* a.x < b.x beside a distance: of each pair one way round. */
static void
SetOrderSelectivity(PlannerInfo *root, List *clauses, const RestrictInfo *distance)
{
	RowOrder	order;
	ListCell   *cell;

	foreach(cell, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo->norm_selec < 0.0 &&
			bms_equal(rinfo->required_relids, distance->required_relids) &&
			RecognizeRowOrder(root, rinfo, &order))
			rinfo->norm_selec = 0.5;
	}
}

static void
EstimateClauses(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	DistanceClause clause;
	ListCell   *cell;

	if (previous_hook != NULL)
		previous_hook(root, rel, rti, rte);
	foreach(cell, rel->joininfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo->norm_selec >= 0.0 || rinfo->pseudoconstant ||
			!RecognizeDistanceClause(rinfo, &clause))
			continue;
		/* what two bounds leave is about what one of them does */
		if (HasRival(rel->joininfo, rinfo))
			rinfo->norm_selec = rinfo->outer_selec = 1.0;
		else
			SetDistanceSelectivity(root, &clause);
		SetOrderSelectivity(root, rel->joininfo, rinfo);
	}
}

void
InstallJoinEstimates(void)
{
	previous_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = EstimateClauses;
}
