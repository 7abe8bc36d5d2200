/*-------------------------------------------------------------------------
 *
 * path.c
 *	  Adds index paths for conditions on a distance, such as v <-> q < r.
 *
 * PostgreSQL finds an index for a condition only if the column itself is an operand.  For each condition
 * on a distance, a planner hook therefore makes another one, v <@ index_ball(q, r), that follows from it.
 * While PostgreSQL looks for index paths a second time, the relation has these conditions, too.  So they
 * are combined with other conditions, partial indexes, ORDER BY, bitmaps and joins like any others.  The
 * original condition remains, and the executor evaluates it on each row that a scan returns.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "index/access.h"
#include "index/path.h"
#include "join_node/join_plan.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "rows/source.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

static set_rel_pathlist_hook_type previous_hook = NULL;

/*
 * If the expression is a cast of a vector that changes no element, returns the vector, otherwise NULL.
 * Functions of fasted cast their arguments so.
 */
static Node *
WithoutCast(Node *node)
{
	const FuncExpr *call = (const FuncExpr *) node;

	if (IsA(node, RelabelType))
		return (Node *) ((RelabelType *) node)->arg;
	if (IsA(node, ArrayCoerceExpr) && exprType(node) == FLOAT8ARRAYOID &&
		getBaseType(exprType((Node *) ((ArrayCoerceExpr *) node)->arg)) == FLOAT4ARRAYOID)
		return (Node *) ((ArrayCoerceExpr *) node)->arg;
	return IsA(node, FuncExpr) && call->funcformat != COERCE_EXPLICIT_CALL &&
		call->funcresulttype == FLOAT4ARRAYOID && IsOfPgvector(ProcedureRelationId, call->funcid) ?
		linitial(call->args) : NULL;
}

/*
 * Returns the expression of the index's first column if it is the vector, without casts, and if the index
 * has this metric.  Otherwise returns NULL.
 */
static Node *
IndexedVector(IndexOptInfo *index, Node *vector, FastedMetric metric)
{
	Oid			type = index->opcintype[0];
	Oid			order = get_opfamily_member(index->opfamily[0], type, type, INDEX_ORDER_STRATEGY);
	const DistanceFunction *function;

	while (vector != NULL && !match_index_to_operand(vector, 0, index))
		vector = WithoutCast(vector);
	if (vector == NULL || !OidIsValid(order))
		return NULL;
	function = FindDistanceFunction(get_opcode(order), list_make2(vector, vector));
	return function != NULL && function->metric == metric ? vector : NULL;
}

static Expr *
MakeNumber(double number)
{
	return (Expr *) makeConst(FLOAT8OID, -1, InvalidOid, sizeof(float8), Float8GetDatum(number), false,
							  FLOAT8PASSBYVAL);
}

static Expr *
CallWithNumbers(Oid function, Expr *a, Expr *b)
{
	return (Expr *) makeFuncExpr(function, FLOAT8OID, list_make2(a, b), InvalidOid, InvalidOid,
								 COERCE_EXPLICIT_CALL);
}

/*
 * Returns the radius of the ball of a condition.  If 1 - d >= s, with rounding, then d is at most
 * 1 - s + 2^-53, and 1 - s is rounded by as much: magnitudes of distances are at most 2, and for other s,
 * all rows or none are in the result.
 */
static Expr *
RadiusOf(const DistanceClause *clause)
{
	if (!clause->kind.similarity)
		return clause->bound;
	return CallWithNumbers(F_FLOAT8PL, CallWithNumbers(F_FLOAT8MI, MakeNumber(1.0), clause->bound),
						   MakeNumber(0x1p-50));
}

/*
 * Returns the call index_ball(centre, radius of the clause, least valid radius or NaN).  The difference
 * 1 - d exceeds every bound if d is NaN.
 */
static Node *
BallOf(PlannerInfo *root, const DistanceClause *clause, Node *centre)
{
	const Oid	types[3] = {ANYELEMENTOID, FLOAT8OID, FLOAT8OID};
	/* users have no privilege on the schema, which a search by qualified name would require */
	Oid			function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("index_ball"),
										   PointerGetDatum(buildoidvector(types, lengthof(types))),
										   ObjectIdGetDatum(get_namespace_oid("fasted_internal", false)));
	double		least = clause->kind.function == WITHIN_FUNCTION ? LeastDistance(clause->kind.metric) :
		clause->kind.similarity && clause->kind.function != SIMILARITY_FUNCTION ? get_float8_nan() :
		-get_float8_infinity();

	if (!fasted_metric_rules(clause->kind.metric)->of_bits && getBaseType(exprType(centre)) != FLOAT8ARRAYOID)
		centre = CastVector(centre, FLOAT4ARRAYOID);
	return eval_const_expressions(root, (Node *) makeFuncExpr(function, get_func_rettype(function),
															  list_make3(centre, RadiusOf(clause), MakeNumber(least)),
															  InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL));
}

/* Returns true if the value of the expression does not depend on the relation's row. */
static bool
IsFixed(PlannerInfo *root, const RelOptInfo *rel, Node *expr)
{
	return !bms_is_member(rel->relid, pull_varnos(root, expr)) && !contain_volatile_functions(expr);
}

/*
 * Returns the condition v <@ ball that follows from rinfo, which a scan of the index can evaluate, or
 * NULL if rinfo is no condition on the distance of the index's vectors.
 */
static RestrictInfo *
IndexConditionOf(PlannerInfo *root, IndexOptInfo *index, RestrictInfo *rinfo)
{
	DistanceClause clause;
	Node	   *ball;
	Oid			within;
	RestrictInfo *condition;

	if (rinfo->pseudoconstant || !RecognizeDistance(rinfo, &clause) ||
		!IsFixed(root, index->rel, (Node *) clause.bound))
		return NULL;
	for (int i = 0; i < 2; i++)
	{
		Node	   *vector = IndexedVector(index, (Node *) clause.written[i], clause.kind.metric);

		if (vector == NULL || !IsFixed(root, index->rel, (Node *) clause.written[1 - i]))
			continue;
		ball = BallOf(root, &clause, (Node *) clause.written[1 - i]);
		within = get_opfamily_member(index->opfamily[0], ANYELEMENTOID, exprType(ball), INDEX_WITHIN_STRATEGY);
		if (!OidIsValid(within))
			return NULL;
		condition = makeNode(RestrictInfo);
		*condition = *rinfo;
		condition->clause = make_opclause(within, BOOLOID, false, (Expr *) vector, (Expr *) ball,
										  InvalidOid, InvalidOid);
		condition->left_relids = pull_varnos(root, vector);
		condition->right_relids = pull_varnos(root, ball);
		condition->leakproof = false;
		condition->scansel_cache = NIL;
		condition->eval_cost.startup = -1;
		return condition;
	}
	return NULL;
}

/* Returns the conditions on the index that follow from the clauses and are not in the list yet. */
static List *
IndexConditions(PlannerInfo *root, IndexOptInfo *index, List *clauses, List *conditions)
{
	ListCell   *cell;

	foreach(cell, clauses)
	{
		RestrictInfo *condition = IndexConditionOf(root, index, lfirst_node(RestrictInfo, cell));

		if (condition != NULL)
			conditions = list_append_unique(conditions, condition);
	}
	return conditions;
}

/*
 * Estimates the rows of parameterized paths again.  Conditions are the same restrictions as clauses, so that
 * they must not reduce the number of rows.  PostgreSQL assumes that a third of the rows satisfies a clause on
 * the distance.
 */
static void
CorrectParameterizations(PlannerInfo *root, RelOptInfo *rel, List *conditions)
{
	DistanceClause distance;
	ListCell   *cell;

	foreach(cell, rel->ppilist)
	{
		ParamPathInfo *info = lfirst(cell);
		List	   *others = NIL;
		double		share = 1.0;
		ListCell   *clause;

		info->ppi_clauses = list_difference_ptr(info->ppi_clauses, conditions);
		foreach(clause, info->ppi_clauses)
		{
			RestrictInfo *rinfo = lfirst_node(RestrictInfo, clause);

			if (rinfo->norm_selec >= 0.0 && RecognizeDistance(rinfo, &distance))
				share *= rinfo->norm_selec;
			else
				others = lappend(others, rinfo);
		}
		info->ppi_rows = clamp_row_est(share * get_parameterized_baserel_size(root, rel, others));
	}
	foreach(cell, rel->pathlist)
	{
		Path	   *path = lfirst(cell);

		if (path->param_info != NULL)
			path->rows = path->param_info->ppi_rows;
	}
}

/* set_rel_pathlist_hook */
static void
AddIndexPaths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	List	   *join_clauses = rel->joininfo;
	List	   *join_conditions = NIL;
	List	   *restrictions = NIL;	/* of each index, to be restored */
	bool		any = false;
	ListCell   *cell;
	ListCell   *saved;

	if (previous_hook != NULL)
		previous_hook(root, rel, rti, rte);
	if (rte->rtekind != RTE_RELATION || rte->inh || rte->tablesample != NULL || IS_DUMMY_REL(rel))
		return;
	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst(cell);
		List	   *conditions;

		restrictions = lappend(restrictions, index->indrestrictinfo);
		if (index->amcostestimate != IndexCostEstimate)
			continue;
		conditions = IndexConditions(root, index, index->indrestrictinfo, NIL);
		index->indrestrictinfo = list_concat_copy(index->indrestrictinfo, conditions);
		join_conditions = IndexConditions(root, index, join_clauses, join_conditions);
		any = any || conditions != NIL || join_conditions != NIL;
	}
	if (any)
	{
		rel->joininfo = list_concat_copy(join_clauses, join_conditions);
		create_index_paths(root, rel);
		rel->joininfo = join_clauses;
		CorrectParameterizations(root, rel, join_conditions);
	}
	forboth(cell, rel->indexlist, saved, restrictions)
		((IndexOptInfo *) lfirst(cell))->indrestrictinfo = lfirst(saved);
}

void
InstallIndexPaths(void)
{
	previous_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = AddIndexPaths;
}
