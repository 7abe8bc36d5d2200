/*-------------------------------------------------------------------------
 *
 * estimate.c
 *	  From statistics to the planner's numbers of rows and costs; the support functions.
 *
 * All of it comes from the catalogs: the size of the table and what ANALYZE
 * found out about the vector column.  Nothing here raises an error of its own,
 * for the arguments may be wrong in ways that only the call itself reports.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "rows/source.h"
#include "base/guc.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "functions/function.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "rows/reader.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* What is assumed where nothing is known. */
#define DEFAULT_ROWS 10000.0
#define DEFAULT_NEIGHBOURS 10.0

/* A relation that is read. */
typedef struct Side
{
	Oid			relation;		/* zero: not known now */
	AttrNumber	column;
	double		rows;
	double		pages;
	double		dimensions;
} Side;

/* The argument as a constant of the moment; NULL: it has no value yet. */
static Const *
ConstantArgument(PlannerInfo *root, List *args, int n)
{
	Node	   *node = list_nth(args, n);

	if (root != NULL)
		node = estimate_expression_value(root, node);
	return (IsA(node, Const) && !((Const *) node)->constisnull) ? (Const *) node : NULL;
}

static void
AddSize(Side *side, Relation rel)
{
	BlockNumber pages;
	double		tuples;
	double		all_visible;

	/* that such a one can't be read is for the call to say */
	if (RecoveryInProgress() && !RelationIsPermanent(rel))
		return;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind))
	{
		estimate_rel_size(rel, NULL, &pages, &tuples, &all_visible);
		side->rows += tuples;
		side->pages += pages;
	}
	else if (rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
		side->rows += rel->rd_rel->reltuples >= 0 ? rel->rd_rel->reltuples : DEFAULT_ROWS;
}

/* Adds up a table with its children, if any; the table itself is locked. */
static void
AddTableSize(Side *side)
{
	List	   *relids = find_all_inheritors(side->relation, AccessShareLock, NULL);
	ListCell   *cell;

	foreach(cell, relids)
	{
		Relation	rel = try_relation_open(lfirst_oid(cell), NoLock);

		if (rel == NULL)
			continue;
		AddSize(side, rel);
		relation_close(rel, NoLock);
	}
}

/*
 * Locks the relation as a plain SELECT does before it is planned, whatever the
 * rights of the user, and until the end of the transaction.  Returns its kind, or
 * zero if there is none.
 */
static char
LockRelation(Oid relid)
{
	Relation	rel = OidIsValid(relid) ? try_relation_open(relid, AccessShareLock) : NULL;
	char		kind;

	if (rel == NULL)
		return '\0';
	kind = rel->rd_rel->relkind;
	relation_close(rel, NoLock);
	return kind;
}

static void
FindSize(Side *side, char kind)
{
	switch (kind)
	{
		case RELKIND_RELATION:
		case RELKIND_MATVIEW:
		case RELKIND_PARTITIONED_TABLE:
		case RELKIND_FOREIGN_TABLE:
			AddTableSize(side);
			side->rows *= 1.0 - NullVectors(side->relation, side->column);
			break;
		case '\0':
			side->relation = InvalidOid; /* gone, perhaps just now */
			/* FALLTHROUGH */
		default:
			side->rows = DEFAULT_ROWS;
			break;
	}
	side->rows = clamp_row_est(side->rows);
	side->dimensions = KnownDimensions(side->relation, side->column);
	if (side->dimensions <= 0)
		side->dimensions = DEFAULT_DIMENSIONS;
}

/* What is read, by the numbers of two arguments. */
static Side
FindSide(PlannerInfo *root, List *args, int relation_number, int column_number)
{
	Const	   *relation = ConstantArgument(root, args, relation_number);
	Const	   *column = ConstantArgument(root, args, column_number);
	Side		side = {0};
	char		kind = '\0';

	if (relation != NULL && column != NULL)
	{
		side.relation = DatumGetObjectId(relation->constvalue);
		kind = LockRelation(side.relation);
		side.column = get_attnum(side.relation, NameStr(*DatumGetName(column->constvalue)));
	}
	FindSize(&side, kind);
	return side;
}

/* How many partitions the last argument, a column, makes of the rows. */
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

static Cost
ReadCost(const Side *side)
{
	return side->pages * seq_page_cost + side->rows * cpu_tuple_cost +
		side->rows * side->dimensions * cpu_operator_cost / 16.0;
}

/* Only rows of one partition meet. */
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

static double
EstimatePairs(PlannerInfo *root, List *args, const Side *side, double partitions)
{
	Const	   *eps = ConstantArgument(root, args, SELF_JOIN_EPS);
	Const	   *metric_name = ConstantArgument(root, args, SELF_JOIN_METRIC);
	double		all = side->rows * (side->rows - 1.0) / 2.0;
	double		share = -1.0;
	FastedMetric metric;
	double		pairs;

	if (eps != NULL && DatumGetFloat8(eps->constvalue) >= 0.0 && metric_name != NULL &&
		FindMetric(DatumGetTextPP(metric_name->constvalue), &metric))
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
 * Rows come while the engine computes, after everything was read.  Each costs
 * less than a row of a table, and what is done with it is shared by workers.
 */
FunctionEstimate
EstimateSelfJoin(PlannerInfo *root, List *args)
{
	Side		side = FindSide(root, args, SELF_JOIN_RELATION, SELF_JOIN_COLUMN);
	double		partitions = CountPartitions(root, args, &side);
	FunctionEstimate estimate;

	estimate.rows = EstimatePairs(root, args, &side, partitions);
	estimate.startup = ReadCost(&side);
	estimate.total = estimate.startup + ComputeCost(&side, &side, partitions);
	estimate.per_row = 0.5 * cpu_tuple_cost;
	return estimate;
}

/*
 * A row for each row of the source, when everything is done.  The first arguments are those of
 * a self-join.
 */
FunctionEstimate
EstimateClustering(PlannerInfo *root, List *args)
{
	Side		side = FindSide(root, args, SELF_JOIN_RELATION, SELF_JOIN_COLUMN);
	double		partitions = CountPartitions(root, args, &side);
	FunctionEstimate estimate;

	estimate.rows = side.rows;
	estimate.total = ReadCost(&side) + ComputeCost(&side, &side, partitions) +
		side.rows * cpu_tuple_cost;
	estimate.startup = estimate.total;
	estimate.per_row = cpu_tuple_cost;
	return estimate;
}

/* What the rows of a side take, with so many neighbours each. */
static double
BytesOfSide(const Side *side, double neighbors)
{
	return side->rows * (side->dimensions * sizeof(float) + neighbors * sizeof(FastedNeighbor));
}

/*
 * After how large a part of the work the first rows come: that of an outer panel
 * where memory is too small for all rows, or all of it.  Inner panels take a fifth of it.
 */
static double
FirstPart(const Side *a, const Side *b, double k)
{
	double		limit = fasted_setting_memory_limit * 1024.0;
	double		bytes = BytesOfSide(a, k);

	if (bytes + (a->relation == b->relation ? 0.0 : BytesOfSide(b, 0.0)) <= limit)
		return 1.0;
	return 1.0 / ceil(bytes / (0.8 * limit));
}

/*
 * Each row of a has k neighbours where b has as many; how far "max_distance" reaches is not
 * known.  Rows come when the engine is through with some, after everything was read: mostly
 * with all.
 */
FunctionEstimate
EstimateNearest(PlannerInfo *root, List *args)
{
	Side		a = FindSide(root, args, NEAREST_A, NEAREST_A_COLUMN);
	Side		b = FindSide(root, args, NEAREST_B, NEAREST_B_COLUMN);
	Const	   *count = ConstantArgument(root, args, NEAREST_K);
	double		k = count != NULL ? DatumGetInt32(count->constvalue) : DEFAULT_NEIGHBOURS;
	double		partitions = CountPartitions(root, args, &a);
	Cost		read = ReadCost(&a) + (a.relation == b.relation ? 0.0 : ReadCost(&b));
	Cost		compute = ComputeCost(&a, &b, partitions);
	FunctionEstimate estimate;

	estimate.rows = clamp_row_est(a.rows * Min(k, Max(1.0, b.rows / partitions)));
	estimate.startup = read + compute * FirstPart(&a, &b, Min(k, b.rows));
	estimate.total = read + compute;
	estimate.per_row = cpu_tuple_cost;
	return estimate;
}

/* --- what the source of a join means for the plan around it */

/*
 * Relations of the queries around this one may count on workers already; none of
 * them has a path yet, for a subquery is planned when its relation is sized.
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
 * The function reads its source while the plan around it runs.  If that calls what
 * is not parallel safe, or if it is not known what is read, the whole plan does
 * without workers.  And the plan depends on the relations that are read: it is made
 * anew when one of them changes, a view or a policy, for example.
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

/* --- support functions: the planner's first question loads the library */

/* The arguments of a call behind id_type; NIL: it is no such call. */
static List *
ArgumentsOf(Node *node, const FunctionDescriptor *function)
{
	List	   *args = (node != NULL && IsA(node, FuncExpr)) ? ((FuncExpr *) node)->args : NIL;

	/* behind a relation comes a name; behind id_type, of whatever type, a relation */
	if (list_length(args) > 1 && exprType(lsecond(args)) != NAMEOID)
		args = list_copy_tail(args, 1);
	return list_length(args) >= function->nargs ? args : NIL;
}

/* function: that of the call, or the one with the fewest arguments of those with this support. */
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
		return NULL;			/* the call stays as it is */
	}
	if (IsA(request, SupportRequestRows))
	{
		SupportRequestRows *rows = (SupportRequestRows *) request;

		args = ArgumentsOf(rows->node, function);
		if (args == NIL)
			return NULL;
		rows->rows = function->estimate(rows->root, args).rows;
		return request;
	}
	if (IsA(request, SupportRequestCost))
	{
		SupportRequestCost *cost = (SupportRequestCost *) request;

		args = ArgumentsOf(cost->node, function);
		if (args == NIL)
			return NULL;
		cost->startup = 0.0;
		cost->per_tuple = function->estimate(cost->root, args).total;
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
SUPPORT_FUNCTION(fasted_groups_support, neighbors_function)
