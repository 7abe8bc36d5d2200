/*-------------------------------------------------------------------------
 *
 * join_clause.c
 *	  Recognizes distance clauses over fasted's and pgvector's functions, and ordering clauses;
 *	  estimates their selectivity.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "engine/metric_rules.h"
#include "join_node/join_plan.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "rows/source.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

/* --- distances */

/*
 * Returns the OID of the function that a function or operator call executes, and sets *args.
 * Returns InvalidOid if expr is not a call.
 */
static Oid
FunctionOf(Expr *expr, List **args)
{
	if (IsA(expr, FuncExpr))
	{
		*args = ((FuncExpr *) expr)->args;
		return ((FuncExpr *) expr)->funcid;
	}
	if (!IsA(expr, OpExpr))
		return InvalidOid;
	set_opfuncid((OpExpr *) expr);
	*args = ((OpExpr *) expr)->args;
	return ((OpExpr *) expr)->opfuncid;
}

static bool
IsOfBits(Oid type)
{
	return FormOfType(getBaseType(type)) == VECTOR_BIT;
}

/* Returns true if the expression is a constant of type double precision in this range. */
static bool
IsNumber(const Const *expr, double least, double greatest)
{
	return IsA(expr, Const) && !expr->constisnull && expr->consttype == FLOAT8OID &&
		DatumGetFloat8(expr->constvalue) >= least && DatumGetFloat8(expr->constvalue) <= greatest;
}

/*
 * Returns true if expr calls a function of two vectors of this kind that joins recognize, with nargs
 * arguments.  Sets the function and metric of *kind, and *args.
 */
static bool
Calls(Expr *expr, DistanceFunctionKind function, int nargs, DistanceKind *kind, List **args)
{
	Oid			funcid = FunctionOf(expr, args);
	const DistanceFunction *found = NULL;

	if (OidIsValid(funcid) && list_length(*args) == nargs)
		found = FindDistanceFunction(funcid, *args);
	if (found == NULL || found->kind != function)
		return false;
	kind->function = function;
	kind->metric = found->metric;
	return true;
}

static bool
IsDistance(Expr *expr, DistanceKind *kind, List **args)
{
	return Calls(expr, DISTANCE_FUNCTION, 2, kind, args) ||
		Calls(expr, PGVECTOR_DISTANCE, 2, kind, args);
}

/*
 * Returns true if expr calls a similarity function, or is 1 - d with a cosine or Jaccard distance d
 * of pgvector or fasted.
 */
static bool
IsSimilarity(Expr *expr, DistanceKind *kind, List **args)
{
	List	   *sides;

	if (Calls(expr, SIMILARITY_FUNCTION, 2, kind, args))
		return true;
	return FunctionOf(expr, &sides) == F_FLOAT8MI && IsNumber(linitial(sides), 1.0, 1.0) &&
		IsDistance(lsecond(sides), kind, args) &&
		fasted_metric_rules(kind->metric)->similarity_of_squares != NULL;
}

/*
 * Returns true if expr is -(a <#> b), (a <#> b) * -1, or inner_product(a, b) of pgvector.  Products of
 * double precision are excluded: their sum may be NaN, which exceeds every bound, and which engines
 * do not return.
 */
static bool
IsInnerProduct(Expr *expr, DistanceKind *kind, List **args)
{
	List	   *sides;
	Oid			function = FunctionOf(expr, &sides);

	if (Calls(expr, PGVECTOR_PRODUCT, 2, kind, args))
	{
		kind->function = PGVECTOR_DISTANCE;
		return true;
	}
	if (function == F_FLOAT8UM || (function == F_FLOAT8MUL && IsNumber(lsecond(sides), -1.0, -1.0)))
		expr = linitial(sides);
	else if (function == F_FLOAT8MUL && IsNumber(linitial(sides), -1.0, -1.0))
		expr = lsecond(sides);
	else
		return false;
	return IsDistance(expr, kind, args) && fasted_metric_rules(kind->metric)->negative_product &&
		exprType(linitial(*args)) != FLOAT8ARRAYOID && exprType(lsecond(*args)) != FLOAT8ARRAYOID;
}

/*
 * Returns true if expr is a Hamming distance divided by a constant, and the bound is constant.
 * Replaces the bound by the greatest distance whose quotient, rounded to FP64, is within it.
 */
static bool
IsFractionOfBits(Expr *expr, DistanceClause *clause, List **args)
{
	List	   *sides;
	double		bits;
	double		bound;
	double		distance;

	if (FunctionOf(expr, &sides) != F_FLOAT8DIV || !IsNumber(lsecond(sides), 1.0, 1e9) ||
		!IsNumber((Const *) clause->bound, 0.0, 1.0) ||
		!IsDistance(linitial(sides), &clause->kind, args) ||
		!fasted_metric_rules(clause->kind.metric)->is_count)
		return false;
	bits = DatumGetFloat8(((Const *) lsecond(sides))->constvalue);
	bound = DatumGetFloat8(((Const *) clause->bound)->constvalue);
	/* the product is rounded, so start above it */
	distance = floor(bits * bound) + 1.0;
	while (clause->kind.strict ? distance / bits >= bound : distance / bits > bound)
		distance -= 1.0;
	clause->kind.strict = false;
	clause->bound = (Expr *) makeConst(FLOAT8OID, -1, InvalidOid, sizeof(float8),
									   Float8GetDatum(distance), false, FLOAT8PASSBYVAL);
	return true;
}

/*
 * Returns true if expr compares a distance with an upper bound, or a similarity with a lower bound.
 * Sets *args to the vectors.
 */
static bool
IsComparison(Expr *expr, DistanceClause *clause, List **args)
{
	const OpExpr *order = (const OpExpr *) expr;
	Oid			family;
	int			strategy;
	Expr	   *less;
	Expr	   *more;
	bool		negated;

	if (!IsA(order, OpExpr) || list_length(order->args) != 2)
		return false;
	family = lookup_type_cache(FLOAT8OID, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	strategy = get_op_opfamily_strategy(order->opno, family);
	if (strategy == InvalidStrategy || strategy == BTEqualStrategyNumber)
		return false;
	less = list_nth(order->args, strategy > BTEqualStrategyNumber);
	more = list_nth(order->args, strategy < BTEqualStrategyNumber);
	clause->kind.strict = strategy == BTLessStrategyNumber || strategy == BTGreaterStrategyNumber;
	clause->kind.similarity = IsSimilarity(more, &clause->kind, args);
	negated = !clause->kind.similarity && IsInnerProduct(more, &clause->kind, args);
	clause->bound = clause->kind.similarity || negated ? less : more;
	if (exprType((Node *) clause->bound) == FLOAT4OID)
		clause->bound = (Expr *) makeFuncExpr(F_FLOAT8_FLOAT4, FLOAT8OID, list_make1(clause->bound),
											  InvalidOid, InvalidOid, COERCE_IMPLICIT_CAST);
	if (negated)
		clause->bound = (Expr *) makeFuncExpr(F_FLOAT8UM, FLOAT8OID, list_make1(clause->bound),
											  InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	return clause->kind.similarity || negated ||
		IsDistance(less, &clause->kind, args) || IsFractionOfBits(less, clause, args);
}

static bool
IsWithin(Expr *expr, DistanceClause *clause, List **args)
{
	Const	   *metric;
	FastedMetric found;

	if (!Calls(expr, WITHIN_FUNCTION, 4, &clause->kind, args))
		return false;
	metric = lfourth(*args);
	/* an invalid metric raises an error when rows are compared */
	if (!IsA(metric, Const) || metric->constisnull ||
		!FindMetric(DatumGetTextPP(metric->constvalue), &found) ||
		fasted_metric_rules(found)->of_bits != IsOfBits(exprType(linitial(*args))))
		return false;
	clause->kind.metric = found;
	clause->kind.strict = clause->kind.similarity = false;
	clause->bound = lthird(*args);
	return true;
}

static bool
IsOfSide(Expr *expr, Relids side)
{
	Relids		used = pull_varnos(NULL, (Node *) expr);

	return !bms_is_empty(used) && bms_is_subset(used, side) &&
		!contain_subplans((Node *) expr);
}

bool
RecognizeDistance(RestrictInfo *rinfo, DistanceClause *clause)
{
	Expr	   *expr = rinfo->clause;
	List	   *args;

	clause->rinfo = rinfo;
	if (IsA(expr, BooleanTest) && ((BooleanTest *) expr)->booltesttype == IS_TRUE)
		expr = ((BooleanTest *) expr)->arg;
	if (!IsWithin(expr, clause, &args) && !IsComparison(expr, clause, &args))
		return false;
	clause->written[0] = linitial(args);
	clause->written[1] = lsecond(args);
	return true;
}

/* Recognizes a distance clause between any relations. */
static bool
RecognizeDistanceClause(RestrictInfo *rinfo, DistanceClause *clause)
{
	Relids		used[2];

	if (!RecognizeDistance(rinfo, clause))
		return false;
	for (int i = 0; i < 2; i++)
		used[i] = pull_varnos(NULL, (Node *) clause->written[i]);
	return !bms_is_empty(used[0]) && !bms_is_empty(used[1]) && !bms_overlap(used[0], used[1]) &&
		bms_is_empty(pull_varnos(NULL, (Node *) clause->bound)) &&
		!contain_subplans((Node *) clause->bound);
}

/* Returns true if the engine can read the types of the vectors that the metric compares. */
static bool
AreReadable(const DistanceClause *clause)
{
	Oid			a = exprType((Node *) clause->vectors[0]);
	Oid			b = exprType((Node *) clause->vectors[1]);

	if (fasted_metric_rules(clause->kind.metric)->of_bits)
		return IsOfBits(a) && IsOfBits(b);
	return a == b && (a == FLOAT4ARRAYOID || a == FLOAT8ARRAYOID);
}

bool
MatchDistanceClause(RestrictInfo *rinfo, RelOptInfo *const rels[2], DistanceClause *clause)
{
	Expr	   *first;

	if (!RecognizeDistanceClause(rinfo, clause))
		return false;
	first = clause->written[0];
	if (!IsOfSide(first, rels[OUTER_SIDE]->relids))
	{
		clause->written[0] = clause->written[1];
		clause->written[1] = first;
	}
	for (int i = 0; i < 2; i++)
	{
		Oid			type = exprType((Node *) clause->written[i]);

		if (!IsOfSide(clause->written[i], rels[i]->relids))
			return false;
		/* the planner has already converted the arguments of fasted's functions, but not of operators */
		clause->vectors[i] = clause->written[i];
		if (clause->kind.function == PGVECTOR_DISTANCE && !fasted_metric_rules(clause->kind.metric)->of_bits)
			clause->vectors[i] = (Expr *) CastVector((Node *) clause->written[i], FLOAT4ARRAYOID);
		else if (type == FLOAT4ARRAYOID && exprType((Node *) clause->written[1 - i]) == FLOAT8ARRAYOID)
			clause->vectors[i] = (Expr *) CastVector((Node *) clause->written[i], FLOAT8ARRAYOID);
	}
	return AreReadable(clause);
}

bool
IsEngineDistance(const DistanceClause *clause, Expr *expr)
{
	DistanceKind kind;
	List	   *args;

	if (clause->kind.function == PGVECTOR_DISTANCE || !Calls(expr, DISTANCE_FUNCTION, 2, &kind, &args) ||
		kind.metric != clause->kind.metric)
		return false;
	return equal(args, list_make2(clause->written[0], clause->written[1])) ||
		equal(args, list_make2(clause->written[1], clause->written[0]));
}

/* --- ordering clauses */

/* Returns the column that the expression is, ignoring binary-compatible casts, or NULL. */
static const Var *
AsColumn(const Node *node)
{
	while (IsA(node, RelabelType))
		node = (const Node *) ((const RelabelType *) node)->arg;
	return IsA(node, Var) && ((const Var *) node)->varlevelsup == 0 ? (const Var *) node : NULL;
}

bool
IsRowOrder(PlannerInfo *root, const RestrictInfo *rinfo)
{
	const OpExpr *clause = (const OpExpr *) rinfo->clause;
	const Var  *left;
	const Var  *right;
	const RangeTblEntry *x;
	const RangeTblEntry *y;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
		return false;
	left = AsColumn(linitial(clause->args));
	right = AsColumn(lsecond(clause->args));
	if (left == NULL || right == NULL || left->varno == right->varno ||
		left->varattno != right->varattno || left->varattno <= 0)
		return false;
	x = planner_rt_fetch(left->varno, root);
	y = planner_rt_fetch(right->varno, root);
	return x->rtekind == RTE_RELATION && y->rtekind == RTE_RELATION && x->relid == y->relid &&
		OidIsValid(get_equality_op_for_ordering_op(clause->opno, NULL));
}

static bool
IsNeverNull(PlannerInfo *root, const RelOptInfo *rel, AttrNumber column)
{
#if PG_VERSION_NUM >= 170000
	return bms_is_member(column, rel->notnullattnums);
#else
	Relation	table = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	bool		found = TupleDescAttr(RelationGetDescr(table), column - 1)->attnotnull;

	table_close(table, NoLock);
	return found;
#endif
}

bool
IsTotalOrder(PlannerInfo *root, RelOptInfo *rel, const RestrictInfo *order)
{
	const OpExpr *clause = (const OpExpr *) order->clause;
	Var		   *column = copyObject(unconstify(Var *, AsColumn(linitial(clause->args))));
	Oid			equality = get_equality_op_for_ordering_op(clause->opno, NULL);

	column->varno = rel->relid;
	/* values that differ in an index differ by the clause, too, unless its collation ignores that */
	return (!OidIsValid(clause->inputcollid) || get_collation_isdeterministic(clause->inputcollid)) &&
		relation_has_unique_index_for(root, rel, NIL, list_make1(column),
									  list_make1_oid(equality)) &&
		IsNeverNull(root, rel, column->varattno);
}

/*
 * --- selectivity
 *
 * PostgreSQL assumes a selectivity of one third for every inequality, including those of a
 * distance.  Before PostgreSQL estimates join sizes, a hook therefore fills in the fields where it
 * caches a clause's selectivity.  The estimate then applies to all join methods and to all plan
 * nodes above.  norm_selec is the fraction of all pairs that match.  outer_selec is, for a semi or
 * anti join, the fraction of outer rows that have a match.
 */

static set_rel_pathlist_hook_type previous_hook = NULL;

/*
 * Returns the fraction of outer rows that have a match if the clause belongs to a semi or anti
 * join, assuming independently distributed rows.  Otherwise returns the given fraction of pairs
 * that match.
 */
static double
OuterSelectivity(PlannerInfo *root, const RestrictInfo *rinfo, double of_pairs)
{
	ListCell   *cell;

	foreach(cell, root->join_info_list)
	{
		const SpecialJoinInfo *join = lfirst(cell);
		Relids		right = bms_intersect(rinfo->clause_relids, join->syn_righthand);
		double		rows = 1.0;

		if ((join->jointype != JOIN_SEMI && join->jointype != JOIN_ANTI) || bms_is_empty(right) ||
			!bms_overlap(rinfo->clause_relids, join->syn_lefthand))
			continue;
		for (int i = -1; (i = bms_next_member(right, i)) >= 0;)
			if (root->simple_rel_array[i] != NULL)
				rows *= root->simple_rel_array[i]->rows;
		return -expm1(-of_pairs * rows);
	}
	return of_pairs;
}

static void
SetDistanceSelectivity(PlannerInfo *root, const DistanceClause *clause)
{
	Const	   *one = makeConst(FLOAT8OID, -1, InvalidOid, sizeof(float8), Float8GetDatum(1.0), false,
								FLOAT8PASSBYVAL);
	Expr	   *radius = clause->bound;

	if (clause->kind.similarity)
		radius = (Expr *) makeFuncExpr(F_FLOAT8MI, FLOAT8OID, list_make2(one, radius), InvalidOid,
									   InvalidOid, COERCE_EXPLICIT_CALL);
	clause->rinfo->norm_selec = EstimateSelectivity(root, (Node *) clause->written[0],
													(Node *) clause->written[1], (Node *) radius,
													clause->kind.metric);
	clause->rinfo->outer_selec = OuterSelectivity(root, clause->rinfo, clause->rinfo->norm_selec);
}

/* Sets the selectivity of ordering clauses between the same relations to one half. */
static void
SetOrderSelectivity(PlannerInfo *root, List *clauses, const RestrictInfo *distance)
{
	ListCell   *cell;

	foreach(cell, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo->norm_selec < 0.0 &&
			bms_equal(rinfo->required_relids, distance->required_relids) && IsRowOrder(root, rinfo))
			rinfo->norm_selec = 0.5;
	}
}

/*
 * Estimates the rows of a table again, if it has conditions on the distance from a vector that is no
 * column of another table: PostgreSQL has estimated the rows before the hook, and built paths.
 */
static void
EstimateTable(PlannerInfo *root, RelOptInfo *rel)
{
	double		rows = rel->rows;
	bool		any = false;
	List	   *paths = list_concat_copy(rel->pathlist, rel->partial_pathlist);
	DistanceClause clause;
	ListCell   *cell;

	foreach(cell, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo->pseudoconstant || !RecognizeDistance(rinfo, &clause))
			continue;
		SetDistanceSelectivity(root, &clause);
		any = true;
	}
	if (!any)
		return;
	set_baserel_size_estimates(root, rel);
	foreach(cell, rel->ppilist)
	{
		ParamPathInfo *info = lfirst(cell);

		info->ppi_rows = clamp_row_est(info->ppi_rows * rel->rows / rows);
	}
	foreach(cell, paths)
	{
		Path	   *path = lfirst(cell);

		path->rows = clamp_row_est(path->rows * rel->rows / rows);
	}
}

static void
EstimateClauses(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	DistanceClause clause;
	List	   *bounded = NIL;
	ListCell   *cell;

	if (previous_hook != NULL)
		previous_hook(root, rel, rti, rte);
	if (rte->rtekind == RTE_RELATION && !rte->inh && !IS_DUMMY_REL(rel) &&
		(rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW))
		EstimateTable(root, rel);
	foreach(cell, rel->joininfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);
		bool		rival = false;
		ListCell   *earlier;

		if (rinfo->norm_selec >= 0.0 || rinfo->pseudoconstant ||
			!RecognizeDistanceClause(rinfo, &clause))
			continue;
		foreach(earlier, bounded)
			rival = rival || bms_equal(lfirst(earlier), rinfo->required_relids);
		/* two bounds between the same relations are about as selective as one */
		if (rival)
			rinfo->norm_selec = rinfo->outer_selec = 1.0;
		else
			SetDistanceSelectivity(root, &clause);
		SetOrderSelectivity(root, rel->joininfo, rinfo);
		bounded = lappend(bounded, rinfo->required_relids);
	}
}

void
InstallJoinEstimates(void)
{
	previous_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = EstimateClauses;
}
