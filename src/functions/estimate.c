/*-------------------------------------------------------------------------
 *
 * estimate.c
 *	  Row and cost estimates for the planner, and the support functions.
 *
 * All estimates are based on the size of the table and on the ANALYZE statistics of the
 * vector column.  This file raises no errors for invalid arguments, which the call itself
 * reports at run time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "distance/distance.h"
#include "functions/function.h"
#include "lib/ilist.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "rows/reader.h"
#include "utils/lsyscache.h"

/* Assumed if nothing is known. */
#define DEFAULT_ROWS 10000.0
#define DEFAULT_NEIGHBOURS 10.0

/* A relation that the call reads. */
typedef struct Side
{
	Oid			relation;		/* InvalidOid: not known at plan time */
	AttrNumber	column;
	double		rows;
	double		dimensions;
	Cost		read;			/* of reading all rows */
} Side;

/* Returns argument n if it is, or can be estimated as, a constant that is not null; or NULL. */
static Const *
ConstantArgument(PlannerInfo *root, List *args, int n)
{
	Node	   *node = list_nth(args, n);

	if (root != NULL)
		node = estimate_expression_value(root, node);
	return (IsA(node, Const) && !((Const *) node)->constisnull) ? (Const *) node : NULL;
}

/* Returns the side whose relation and vector column are given by these arguments. */
static Side
FindSide(PlannerInfo *root, List *args, const SourceArguments *source)
{
	Const	   *relation = ConstantArgument(root, args, source->relation);
	Const	   *column = ConstantArgument(root, args, source->vector_column);
	Side		side = {.rows = DEFAULT_ROWS,.dimensions = 0.0};

	if (relation != NULL && column != NULL &&
		EstimateSource(DatumGetObjectId(relation->constvalue),
					   NameStr(*DatumGetName(column->constvalue)), &side.rows, &side.read))
	{
		side.relation = DatumGetObjectId(relation->constvalue);
		side.column = get_attnum(side.relation, NameStr(*DatumGetName(column->constvalue)));
		side.dimensions = KnownDimensions(side.relation, side.column);
	}
	side.rows = clamp_row_est(side.rows);
	if (side.dimensions <= 0)
		side.dimensions = DEFAULT_DIMENSIONS;
	side.read += side.rows * side.dimensions * cpu_operator_cost / 16.0;
	return side;
}

/* Estimates the number of partitions of the last argument, partition_by; 1 if it is null. */
static double
CountPartitions(PlannerInfo *root, List *args, const Side *side)
{
	Const	   *column = ConstantArgument(root, args, list_length(args) - 1);

	if (column == NULL || !OidIsValid(side->relation))
		return 1.0;
	return EstimateGroups(side->relation,
						  get_attnum(side->relation, NameStr(*DatumGetName(column->constvalue))),
						  side->rows);
}

/* Cost of comparing all rows of a with those rows of b that are in the same partition. */
static Cost
ComputeCost(const Side *a, const Side *b, double partitions)
{
	return 2.0 * a->rows * b->rows / partitions * a->dimensions *
		cpu_operator_cost / FLOP_PER_OPERATOR;
}

static bool
IsTrue(PlannerInfo *root, List *args, int n)
{
	Const	   *argument = ConstantArgument(root, args, n);

	return argument != NULL && DatumGetBool(argument->constvalue);
}

/* Estimates the number of rows of a self-join. */
static double
EstimatePairs(PlannerInfo *root, List *args, const Side *side, double partitions)
{
	Const	   *eps = ConstantArgument(root, args, SELF_JOIN_EPS);
	Const	   *metric_name = ConstantArgument(root, args, SELF_JOIN_METRIC);
	double		all = side->rows * (side->rows - 1.0) / 2.0;
	double		share = -1.0;
	FastedMetric metric;
	double		pairs;

	if (eps != NULL && metric_name != NULL &&
		FindMetric(DatumGetTextPP(metric_name->constvalue), &metric) &&
		DatumGetFloat8(eps->constvalue) >= LeastDistance(metric))
		share = ShareWithin(side->relation, side->column, true, metric,
							DatumGetFloat8(eps->constvalue));
	all /= partitions;
	pairs = share >= 0.0 ? all * share : side->rows * DEFAULT_NEIGHBOURS / 2.0;
	pairs = Min(pairs, all);
	if (IsTrue(root, args, SELF_JOIN_ORDERED))
		pairs *= 2.0;
	if (IsTrue(root, args, SELF_JOIN_SELF_PAIRS))
		pairs += side->rows;
	return clamp_row_est(pairs);
}

/*
 * Each row of a is assumed to have k neighbors, or all rows of its partition of b if these are
 * fewer.  max_distance is ignored, since its selectivity is not known.
 */
static double
EstimateNeighbors(PlannerInfo *root, List *args, const Side *a, const Side *b, double partitions)
{
	Const	   *count = ConstantArgument(root, args, NEAREST_K);
	double		k = count != NULL ? DatumGetInt32(count->constvalue) : DEFAULT_NEIGHBOURS;

	return clamp_row_est(a->rows * Min(k, Max(1.0, b->rows / partitions)));
}

/*
 * A self-join returns pairs while the engine computes: its startup cost is that of reading all rows, and
 * a result row costs less than a row of a table.  Other functions return rows after the computation; a
 * clustering function returns one for each source row, or about one.
 */
static FunctionEstimate
Estimate(PlannerInfo *root, const FunctionDescriptor *function, List *args)
{
	Side		a = FindSide(root, args, &function->sources[0]);
	Side		b = function->nsources == 2 ? FindSide(root, args, &function->sources[1]) : a;
	double		partitions = CountPartitions(root, args, &a);
	FunctionEstimate estimate = {.rows = a.rows,.per_row = cpu_tuple_cost};

	estimate.total = a.read + (a.relation == b.relation ? 0.0 : b.read) + ComputeCost(&a, &b, partitions);
	if (function->nsources == 2)
		estimate.rows = EstimateNeighbors(root, args, &a, &b, partitions);
	else if (function->takes_bounds)
	{
		estimate.rows = EstimatePairs(root, args, &a, partitions);
		estimate.startup = a.read;
		estimate.per_row = 0.5 * cpu_tuple_cost;
		return estimate;
	}
	else
		estimate.total += a.rows * cpu_tuple_cost;
	estimate.startup = estimate.total;
	return estimate;
}

/* --- estimates of a call are remembered, because the planner asks for them several times */

typedef struct KnownEstimate
{
	dlist_node	node;
	const PlannerGlobal *statement;
	const FunctionDescriptor *function;
	List	   *args;
	FunctionEstimate estimate;
	MemoryContextCallback callback;
} KnownEstimate;

static dlist_head known_estimates = DLIST_STATIC_INIT(known_estimates);

/* Called when the memory of the planner is released. */
static void
Forget(void *known)
{
	dlist_delete(&((KnownEstimate *) known)->node);
}

FunctionEstimate
EstimateCall(PlannerInfo *root, const FunctionDescriptor *function, List *args)
{
	FunctionEstimate estimate;
	KnownEstimate *known;
	dlist_iter	iter;

	dlist_foreach(iter, &known_estimates)
	{
		known = dlist_container(KnownEstimate, node, iter.cur);
		if (root != NULL && known->statement == root->glob &&
			strcmp(known->function->node_name, function->node_name) == 0 && equal(known->args, args))
			return known->estimate;
	}
	estimate = Estimate(root, function, args);
	if (root == NULL)
		return estimate;
	known = palloc0(sizeof(KnownEstimate));
	known->statement = root->glob;
	known->function = function;
	known->args = copyObject(args);
	known->estimate = estimate;
	known->callback = (MemoryContextCallback) {.func = Forget,.arg = known};
	dlist_push_head(&known_estimates, &known->node);
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &known->callback);
	return estimate;
}

/* --- effects of a call's sources on the plan of the query */

/*
 * Disables parallel plans for the whole statement.  Relations of outer queries may have
 * consider_parallel set already, but no paths yet: a subquery is planned when its relation's
 * size is estimated.
 */
static void
ForbidParallelPlans(PlannerInfo *root)
{
	root->glob->parallelModeOK = false;
	for (; root != NULL; root = root->parent_root)
	{
		for (int i = 1; root->simple_rel_array != NULL && i < root->simple_rel_array_size; i++)
			if (root->simple_rel_array[i] != NULL)
				root->simple_rel_array[i]->consider_parallel = false;
	}
}

/*
 * The function reads its source while the query runs.  If that would run functions that are not
 * parallel safe, or if the source is not known, the query must not use workers.  Also adds
 * the relations that are read to the plan's dependencies.  Then a cached plan is invalidated when
 * one of them changes, such as a view or a policy.
 */
static void
ConsiderSource(PlannerInfo *root, List *args, const SourceArguments *source)
{
	const Const *relation = ConstantArgument(NULL, args, source->relation);
	const Const *column = ConstantArgument(NULL, args, source->vector_column);
	SourceFacts facts = {0};

	if (relation != NULL && column != NULL &&
		FindSourceFacts(DatumGetObjectId(relation->constvalue),
						NameStr(*DatumGetName(column->constvalue)), &facts))
	{
		root->glob->relationOids = list_concat_unique_oid(root->glob->relationOids, facts.relations);
		root->glob->dependsOnRole |= facts.by_role;
	}
	if (root->glob->parallelModeOK && !facts.parallel_safe)
		ForbidParallelPlans(root);
}

/* --- planner support functions; the first request loads the library, which sets the hooks */

/* Returns the arguments of a call without id_type; NIL if it is not a call of such a function. */
static List *
ArgumentsOf(Node *node, const FunctionDescriptor *function)
{
	Oid			key_type;
	List	   *args = (node != NULL && IsA(node, FuncExpr)) ?
		CallArguments((FuncExpr *) node, &key_type) : NIL;

	return list_length(args) >= function->nargs ? args : NIL;
}

/*
 * Answers a planner support request.  function: the called function, or the one with the fewest
 * arguments of those that share the support function.
 */
static Node *
Support(Node *request, const FunctionDescriptor *function)
{
	List	   *args;

	if (IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *simplify = (SupportRequestSimplify *) request;

		args = ArgumentsOf((Node *) simplify->fcall, function);
		for (int i = 0; simplify->root != NULL && args != NIL && i < function->nsources; i++)
			ConsiderSource(simplify->root, args, &function->sources[i]);
		return NULL;			/* do not replace the call */
	}
	if (IsA(request, SupportRequestRows))
	{
		SupportRequestRows *rows = (SupportRequestRows *) request;

		args = ArgumentsOf(rows->node, function);
		if (args == NIL)
			return NULL;
		rows->rows = EstimateCall(rows->root, function, args).rows;
		return request;
	}
	if (IsA(request, SupportRequestCost))
	{
		SupportRequestCost *cost = (SupportRequestCost *) request;

		args = ArgumentsOf(cost->node, function);
		if (args == NIL)
			return NULL;
		cost->startup = 0.0;
		cost->per_tuple = EstimateCall(cost->root, function, args).total;
		return request;
	}
	return NULL;
}

#define SUPPORT_FUNCTION(name, function) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		PG_RETURN_POINTER(Support((Node *) PG_GETARG_POINTER(0), &function)); \
	}

SUPPORT_FUNCTION(fasted_self_join_support, self_join_function)
SUPPORT_FUNCTION(fasted_knn_join_support, nearest_function)
SUPPORT_FUNCTION(fasted_clustering_support, neighbors_function)
