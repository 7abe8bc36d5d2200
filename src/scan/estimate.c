/*-------------------------------------------------------------------------
 *
 * estimate.c
 *	  From statistics to the planner's numbers of rows and costs.
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
#include "base/guc.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "rows/source.h"
#include "scan/call_plan.h"
#include "scan/estimate.h"
#include "scan/self_join.h"
#include "scan/source_planning.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(fasted_self_join_support);

/* What is assumed where nothing is known. */
#define DEFAULT_ROWS 10000.0
#define DEFAULT_NEIGHBOURS 10.0

/* The parts of a call that estimates need; relation is zero if not known now. */
typedef struct Problem
{
	Oid			relation;
	AttrNumber	column;
	FastedMetric metric;
	double		eps;			/* negative: not known, or not the metric */
	bool		ordered;
	bool		self_pairs;
	double		rows;
	double		pages;
	double		dimensions;
	double		partitions;		/* only rows of one meet */
} Problem;

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
AddSize(Problem *problem, Relation rel)
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
		problem->rows += tuples;
		problem->pages += pages;
	}
	else if (rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
		problem->rows += rel->rd_rel->reltuples >= 0 ? rel->rd_rel->reltuples : DEFAULT_ROWS;
}

/* Adds up a table with its children, if any; the table itself is locked. */
static void
AddTableSize(Problem *problem)
{
	List	   *relids = find_all_inheritors(problem->relation, AccessShareLock, NULL);
	ListCell   *cell;

	foreach(cell, relids)
	{
		Relation	rel = try_relation_open(lfirst_oid(cell), NoLock);

		if (rel == NULL)
			continue;
		AddSize(problem, rel);
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
FindSize(Problem *problem, char kind)
{
	switch (kind)
	{
		case RELKIND_RELATION:
		case RELKIND_MATVIEW:
		case RELKIND_PARTITIONED_TABLE:
		case RELKIND_FOREIGN_TABLE:
			AddTableSize(problem);
			problem->rows *= 1.0 - NullVectors(problem->relation, problem->column);
			break;
		case '\0':
			problem->relation = InvalidOid; /* gone, perhaps just now */
			/* FALLTHROUGH */
		default:
			problem->rows = DEFAULT_ROWS;
			break;
	}
	problem->rows = clamp_row_est(problem->rows);
	problem->dimensions = KnownDimensions(problem->relation, problem->column);
	if (problem->dimensions <= 0)
		problem->dimensions = DEFAULT_DIMENSIONS;
}

/* What is read, by the numbers of two arguments. */
static Problem
FindRelation(PlannerInfo *root, List *args, int relation_number, int column_number)
{
	Const	   *relation = ConstantArgument(root, args, relation_number);
	Const	   *column = ConstantArgument(root, args, column_number);
	Problem		problem = {.rows = 0, .eps = -1.0,.partitions = 1.0};
	char		kind = '\0';

	if (relation != NULL && column != NULL)
	{
		problem.relation = DatumGetObjectId(relation->constvalue);
		kind = LockRelation(problem.relation);
		problem.column = get_attnum(problem.relation,
									NameStr(*DatumGetName(column->constvalue)));
	}
	FindSize(&problem, kind);
	return problem;
}

/* How many partitions argument n, a column, makes of the rows. */
static double
CountPartitions(PlannerInfo *root, List *args, int n, const Problem *problem)
{
	Const	   *column = n < list_length(args) ? ConstantArgument(root, args, n) : NULL;

	if (column == NULL || !OidIsValid(problem->relation))
		return 1.0;
	return EstimateGroups(problem->relation,
						  get_attnum(problem->relation, NameStr(*DatumGetName(column->constvalue))),
						  problem->rows);
}

/* What the first arguments say, those of every function that joins by an eps. */
static Problem
FindSource(PlannerInfo *root, List *args)
{
	Const	   *eps = ConstantArgument(root, args, SELF_JOIN_EPS);
	Problem		problem = FindRelation(root, args, SELF_JOIN_RELATION, SELF_JOIN_COLUMN);

	if (eps != NULL)
		problem.eps = DatumGetFloat8(eps->constvalue);
	return problem;
}

static Problem
FindProblem(PlannerInfo *root, List *all_args, int first)
{
	List	   *args = list_copy_tail(all_args, first);
	Const	   *ordered = ConstantArgument(root, args, SELF_JOIN_ORDERED);
	Const	   *self_pairs = ConstantArgument(root, args, SELF_JOIN_SELF_PAIRS);
	Const	   *metric = ConstantArgument(root, args, SELF_JOIN_METRIC);
	Problem		problem = FindSource(root, args);

	problem.partitions = CountPartitions(root, args, SELF_JOIN_PARTITION_BY, &problem);
	problem.ordered = ordered != NULL && DatumGetBool(ordered->constvalue);
	problem.self_pairs = self_pairs != NULL && DatumGetBool(self_pairs->constvalue);
	if (metric == NULL || !FindMetric(DatumGetTextPP(metric->constvalue), &problem.metric))
		problem.eps = -1.0;
	return problem;
}

static double
EstimatePairs(const Problem *problem)
{
	double		all = problem->rows * (problem->rows - 1.0) / 2.0;
	double		share = -1.0;
	double		pairs;

	if (problem->eps >= 0.0)
		share = ShareWithin(problem->relation, problem->column, true, problem->metric, problem->eps);
	all /= problem->partitions;
	pairs = share >= 0.0 ? all * share : problem->rows * DEFAULT_NEIGHBOURS / 2.0;
	pairs = Min(pairs, all);
	if (problem->ordered)
		pairs *= 2.0;
	if (problem->self_pairs)
		pairs += problem->rows;
	return clamp_row_est(pairs);
}

static Cost
ReadCost(const Problem *problem)
{
	return problem->pages * seq_page_cost + problem->rows * cpu_tuple_cost +
		problem->rows * problem->dimensions * cpu_operator_cost / 16.0;
}

static Cost
ComputeCost(const Problem *problem)
{
	return 2.0 * problem->rows * problem->rows / problem->partitions * problem->dimensions *
		cpu_operator_cost / FLOP_PER_OPERATOR;
}

/*
 * Rows come while the engine computes, after everything was read.  Each costs
 * less than a row of a table, and what is done with it is shared by workers.
 */
void
CostScan(PlannerInfo *root, RelOptInfo *rel, const FuncExpr *call, int first, Path *path)
{
	Problem		problem = FindProblem(root, call->args, first);
	double		share = ShareOfCall(path);
	QualCost	quals;

	cost_qual_eval(&quals, rel->baserestrictinfo, root);
	path->rows = clamp_row_est(path->rows * share);
	path->startup_cost = ReadCost(&problem) + quals.startup + path->pathtarget->cost.startup;
	path->total_cost = path->startup_cost + ComputeCost(&problem) +
		rel->tuples * (0.5 * cpu_tuple_cost + quals.per_tuple * share) +
		path->rows * path->pathtarget->cost.per_tuple;
}

void
EstimateRowFunction(PlannerInfo *root, List *args, double *rows, Cost *cost)
{
	Problem		problem = FindSource(root, args);

	problem.partitions = CountPartitions(root, args, list_length(args) - 1, &problem);
	*rows = problem.rows;
	*cost = ReadCost(&problem) + ComputeCost(&problem) + problem.rows * cpu_tuple_cost;
}

/* What the rows of a side take, with so many neighbours each. */
static double
BytesOfSide(const Problem *side, double neighbors)
{
	return side->rows * (side->dimensions * sizeof(float) + neighbors * sizeof(FastedNeighbor));
}

/*
 * After how large a part of the work the first rows come: that of an outer panel
 * where memory is too small for all rows, or all of it.  Inner panels take a fifth of it.
 */
static double
FirstPart(const Problem *a, const Problem *b, double k)
{
	double		limit = fasted_setting_memory_limit * 1024.0;
	double		bytes = BytesOfSide(a, k);

	if (bytes + (a->relation == b->relation ? 0.0 : BytesOfSide(b, 0.0)) <= limit)
		return 1.0;
	return 1.0 / ceil(bytes / (0.8 * limit));
}

/* Each row of a has k neighbours where b has as many; how far "max_distance" reaches is not known. */
NearestEstimate
EstimateNearest(PlannerInfo *root, List *args)
{
	Problem		a = FindRelation(root, args, NEAREST_A, NEAREST_A_COLUMN);
	Problem		b = FindRelation(root, args, NEAREST_B, NEAREST_B_COLUMN);
	Const	   *count = ConstantArgument(root, args, NEAREST_K);
	double		k = count != NULL ? DatumGetInt32(count->constvalue) : DEFAULT_NEIGHBOURS;
	double		partitions = CountPartitions(root, args, NEAREST_PARTITION_BY, &a);
	NearestEstimate estimate;

	estimate.rows = clamp_row_est(a.rows * Min(k, Max(1.0, b.rows / partitions)));
	estimate.read_cost = ReadCost(&a) + (a.relation == b.relation ? 0.0 : ReadCost(&b));
	estimate.compute_cost = 2.0 * a.rows * b.rows / partitions * a.dimensions *
		cpu_operator_cost / FLOP_PER_OPERATOR;
	estimate.first_cost = estimate.compute_cost *
		FirstPart(&a, &b, Min(k, b.rows));
	return estimate;
}

/* Support function of both forms: the planner's first question loads us. */
Datum
fasted_self_join_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	Problem		problem;

	if (IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *simplify = (SupportRequestSimplify *) request;
		List	   *args = simplify->fcall->args;
		int			first = list_length(args) - SELF_JOIN_NARGS;

		if (simplify->root != NULL && first >= 0)
			ConsiderSource(simplify->root, list_nth(args, first + SELF_JOIN_RELATION),
						   list_nth(args, first + SELF_JOIN_COLUMN));
		PG_RETURN_POINTER(NULL);	/* the call stays as it is */
	}
	if (IsA(request, SupportRequestRows))
	{
		SupportRequestRows *rows = (SupportRequestRows *) request;
		List	   *args = IsA(rows->node, FuncExpr) ? ((FuncExpr *) rows->node)->args : NIL;

		if (list_length(args) < SELF_JOIN_NARGS)
			PG_RETURN_POINTER(NULL);
		problem = FindProblem(rows->root, args, list_length(args) - SELF_JOIN_NARGS);
		rows->rows = EstimatePairs(&problem);
		PG_RETURN_POINTER(request);
	}
	if (IsA(request, SupportRequestCost))
	{
		SupportRequestCost *cost = (SupportRequestCost *) request;
		List	   *args = (cost->node != NULL && IsA(cost->node, FuncExpr)) ?
			((FuncExpr *) cost->node)->args : NIL;

		if (list_length(args) < SELF_JOIN_NARGS)
			PG_RETURN_POINTER(NULL);
		problem = FindProblem(cost->root, args, list_length(args) - SELF_JOIN_NARGS);
		cost->startup = 0.0;
		cost->per_tuple = ReadCost(&problem) + ComputeCost(&problem);
		PG_RETURN_POINTER(request);
	}
	PG_RETURN_POINTER(NULL);
}
