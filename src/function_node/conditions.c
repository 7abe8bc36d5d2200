/*-------------------------------------------------------------------------
 *
 * conditions.c
 *	  Recognises conditions on ids and distance, and evaluates them to a filter of pairs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "function_node/function_node.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* Returns the btree strategy of an operator on two values of the type, or InvalidStrategy. */
static int
Strategy(Oid operator, Oid type)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY);
	Oid			left;
	Oid			right;

	if (!OidIsValid(operator))
		return InvalidStrategy;
	op_input_types(operator, &left, &right);
	if (left != type || right != type)
		return InvalidStrategy;
	return get_op_opfamily_strategy(operator, entry->btree_opf);
}

static bool
IsColumn(const Node *node, Index relid, AttrNumber column)
{
	const Var  *var = (const Var *) node;

	return IsA(node, Var) && (Index) var->varno == relid && var->varattno == column &&
		var->varlevelsup == 0;
}

/* Returns true if the expression is a float8 that has the same value for all rows. */
static bool
IsBound(Node *node)
{
	return exprType(node) == FLOAT8OID && !contain_var_clause(node) &&
		!contain_volatile_functions(node);
}

/* Adds the clause to the conditions if it compares dist with a bound; otherwise returns false. */
static bool
TakeDistance(const OpExpr *clause, Index relid, PairConditions *conditions)
{
	Node	   *left = linitial(clause->args);
	Node	   *right = lsecond(clause->args);
	Node	   *bound;
	Oid			operator;

	if (IsColumn(left, relid, COLUMN_DIST) && IsBound(right))
	{
		bound = right;
		operator = clause->opno;
	}
	else if (IsColumn(right, relid, COLUMN_DIST) && IsBound(left))
	{
		bound = left;
		operator = get_commutator(clause->opno);
	}
	else
		return false;

	if (Strategy(operator, FLOAT8OID) == InvalidStrategy)
		return false;
	conditions->dist_operators = lappend_oid(conditions->dist_operators, operator);
	conditions->dist_bounds = lappend(conditions->dist_bounds, bound);
	return true;
}

/*
 * Adds the clause to the conditions if it compares id_a with id_b; otherwise returns false.  Ids
 * must be integers: only their order is sure to be the order in which the join compares keys.
 */
static bool
TakeIds(const OpExpr *clause, Index relid, PairConditions *conditions)
{
	Node	   *left = linitial(clause->args);
	Node	   *right = lsecond(clause->args);
	Oid			operator = InvalidOid;
	Oid			type = exprType(left);

	if (type != INT8OID && type != INT4OID && type != INT2OID)
		return false;
	if (IsColumn(left, relid, COLUMN_ID_A) && IsColumn(right, relid, COLUMN_ID_B))
		operator = clause->opno;
	else if (IsColumn(left, relid, COLUMN_ID_B) && IsColumn(right, relid, COLUMN_ID_A))
		operator = get_commutator(clause->opno);
	if (Strategy(operator, type) == InvalidStrategy)
		return false;
	conditions->id_operators = lappend_oid(conditions->id_operators, operator);
	return true;
}

List *
TakeConditions(List *clauses, Index relid, PairConditions *conditions)
{
	List	   *left = NIL;
	ListCell   *cell;

	memset(conditions, 0, sizeof(*conditions));
	foreach(cell, clauses)
	{
		Node	   *clause = lfirst(cell);

		if (!IsA(clause, OpExpr) || list_length(((OpExpr *) clause)->args) != 2 ||
			(!TakeDistance((OpExpr *) clause, relid, conditions) &&
			 !TakeIds((OpExpr *) clause, relid, conditions)))
			left = lappend(left, clause);
	}
	return left;
}

/*
 * Applies "dist <operator> bound" to the filter.  PostgreSQL sorts NaN above all other float8
 * values, and a distance is never NaN.  So every distance is below a bound of NaN.
 */
static void
NarrowDistance(PairFilter *filter, int strategy, double bound)
{
	double		least = -HUGE_VAL;
	double		most = HUGE_VAL;

	switch (strategy)
	{
		case BTLessStrategyNumber:
			least = bound == -HUGE_VAL ? HUGE_VAL : least;
			most = isnan(bound) ? HUGE_VAL : nextafter(bound, -HUGE_VAL);
			break;
		case BTLessEqualStrategyNumber:
			most = isnan(bound) ? HUGE_VAL : bound;
			break;
		case BTEqualStrategyNumber:
			least = isnan(bound) ? HUGE_VAL : bound;
			most = isnan(bound) ? -HUGE_VAL : bound;
			break;
		case BTGreaterEqualStrategyNumber:
			least = isnan(bound) ? HUGE_VAL : bound;
			most = isnan(bound) ? -HUGE_VAL : HUGE_VAL;
			break;
		case BTGreaterStrategyNumber:
			least = isnan(bound) ? HUGE_VAL : nextafter(bound, HUGE_VAL);
			most = (isnan(bound) || isinf(bound) == 1) ? -HUGE_VAL : HUGE_VAL;
			break;
	}
	filter->least = Max(filter->least, least);
	filter->most = Min(filter->most, most);
}

/* Applies a comparison of id_a with id_b to the filter. */
static void
NarrowOrder(PairFilter *filter, int strategy)
{
	filter->below &= strategy == BTLessStrategyNumber || strategy == BTLessEqualStrategyNumber;
	filter->above &= strategy == BTGreaterStrategyNumber || strategy == BTGreaterEqualStrategyNumber;
	filter->equal &= strategy == BTLessEqualStrategyNumber ||
		strategy == BTEqualStrategyNumber || strategy == BTGreaterEqualStrategyNumber;
}

PairFilter
EvaluateConditions(const PairConditions *conditions, List *bounds, ExprContext *econtext)
{
	PairFilter	filter = {.least = -HUGE_VAL, .most = HUGE_VAL,
	.below = true, .equal = true, .above = true};
	ListCell   *operator;
	ListCell   *bound;

	forboth(operator, conditions->dist_operators, bound, bounds)
	{
		bool		isnull;
		Datum		value = ExecEvalExpr((ExprState *) lfirst(bound), econtext, &isnull);

		if (isnull)
			filter.least = HUGE_VAL; /* a comparison with NULL is not true */
		else
			NarrowDistance(&filter, Strategy(lfirst_oid(operator), FLOAT8OID),
						   DatumGetFloat8(value));
	}
	foreach(operator, conditions->id_operators)
	{
		Oid			left;
		Oid			right;

		op_input_types(lfirst_oid(operator), &left, &right);
		NarrowOrder(&filter, Strategy(lfirst_oid(operator), left));
	}
	return filter;
}

char *
ConditionsText(const PairConditions *conditions, List *bound_texts)
{
	StringInfoData text;
	ListCell   *operator;
	ListCell   *bound;

	initStringInfo(&text);
	forboth(operator, conditions->dist_operators, bound, bound_texts)
		appendStringInfo(&text, "%sdist %s %s", text.len > 0 ? " AND " : "",
						 get_opname(lfirst_oid(operator)), (char *) lfirst(bound));
	foreach(operator, conditions->id_operators)
		appendStringInfo(&text, "%sid_a %s id_b", text.len > 0 ? " AND " : "",
						 get_opname(lfirst_oid(operator)));
	return text.len > 0 ? text.data : NULL;
}
