/*-------------------------------------------------------------------------
 *
 * nearest.c
 *	  fasted_knn_join: the k nearest rows of one relation for each row of another.
 *
 * Rows are read in any order, also by parallel workers.  Then the rows of b are ranked by their
 * ids; of rows at the same distance the engine prefers those with lower ranks.  The neighbours
 * of a row of a are returned as soon as all of them are known.
 *
 * The join ends when its last row has been fetched, so that the engine's memory is released
 * before the query ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "functions/function.h"
#include "utils/builtins.h"

typedef struct NearestRun
{
	FunctionRun base;
	KeySet	   *a;				/* ids of a */
	KeySet	   *b;				/* ids of b */
	const Datum *by_rank;		/* ids of b by rank; NULL before the first list */
	const NeighborList *list;	/* neighbours of a row of a; NULL before the first list */
	uint32		next;			/* next neighbour in the list */
} NearestRun;

/* --- the relations of a call: found, and checked against each other */

static VectorSource *
Resolve(const FunctionCall *call, int n, const char *id_column)
{
	VectorSource *source = ResolveCallSource(call, n, id_column);

	if (call->partition_by != NULL)
		PartitionSource(source, call->partition_by);
	return source;
}

/*
 * Raises an error unless the partition columns have the same type and collation.  A single equality
 * operator must compare the values of both relations.
 */
static void
RequireSamePartitions(const char *column, const VectorSource *a, const VectorSource *b)
{
	if (a->partition_type != b->partition_type)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" has different types in \"%s\" and \"%s\"",
						column, a->relation, b->relation),
				 errdetail("The types are %s and %s.", format_type_be(a->partition_type),
						   format_type_be(b->partition_type)),
				 errhint("Create a view that casts one of the columns, and join the view.")));
	if (a->partition_collation != b->partition_collation)
		ereport(ERROR,
				(errcode(ERRCODE_COLLATION_MISMATCH),
				 errmsg("column \"%s\" has different collations in \"%s\" and \"%s\"",
						column, a->relation, b->relation),
				 errhint("Create a view that applies COLLATE to one of the columns, and join the view.")));
}

/* Resolves the source of a join of one relation with itself, for which one id column suffices. */
static VectorSource *
ResolveOne(const FunctionCall *call)
{
	const char *a_id = call->sources[0].id_column;
	const char *b_id = call->sources[1].id_column;

	if (a_id == NULL)
		a_id = b_id;
	if (b_id != NULL && strcmp(a_id, b_id) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"a_id\" and \"b_id\" must be the same column if a relation is joined with itself"),
				 errdetail("The columns are \"%s\" and \"%s\".", a_id, b_id),
				 errhint("To get other columns, join the result with the relation.")));
	return Resolve(call, 0, a_id);
}

/* Sets the sources of a and b.  The source of b is NULL if both are the same vector column. */
static void
ResolveSources(const FunctionCall *call, JoinRequest *request)
{
	const CallSource *sources = call->sources;
	VectorSource *a;
	VectorSource *b;

	if (sources[0].relation == sources[1].relation &&
		strcmp(sources[0].vector_column, sources[1].vector_column) == 0)
	{
		request->sources[0] = ResolveOne(call);
		return;
	}
	request->sources[0] = a = Resolve(call, 0, sources[0].id_column);
	request->sources[1] = b = Resolve(call, 1, sources[1].id_column);
	ShareElement(a, b);
	if (call->partition_by != NULL)
		RequireSamePartitions(call->partition_by, a, b);
}

/* --- the join */

/* Returns max_distance, or infinity if the argument is null. */
static double
GetMaxDistance(const FunctionCall *call)
{
	const NullableDatum *argument = &call->args[NEAREST_MAX_DISTANCE];
	double		distance = argument->isnull ? INFINITY : DatumGetFloat8(argument->value);

	RequireDistance("max_distance", distance, call->metric);
	return distance;
}

static void
BeginNearest(FunctionRun *base)
{
	NearestRun *run = (NearestRun *) base;
	JoinRequest request = {.problem.output = FASTED_OUTPUT_NEAREST};

	request.problem.k = (uint32) IntegerArgument(&base->call, NEAREST_K, 1, 0);
	request.problem.eps = GetMaxDistance(&base->call);
	ResolveSources(&base->call, &request);
	base->join = JoinBegin(&request);
	run->a = base->join->keys[0];
	run->b = base->join->keys[1];
}

/* --- rows */

/*
 * Turns to the next row with neighbours that have not been returned, and waits for it if wait is
 * true.  Returns false if there is none, and ends the join if there will be none.
 */
static bool
FindNeighbors(NearestRun *run, bool wait)
{
	while (run->list == NULL || run->next == run->list->length)
	{
		run->list = run->base.join == NULL ? NULL : NextList(&run->base, wait);
		run->next = 0;
		if (run->list != NULL)
			continue;
		if (wait && run->base.join != NULL)
			FinishJoin(&run->base);
		return false;
	}
	/* sorted only now, when the engine computes */
	if (run->by_rank == NULL)
		run->by_rank = KeySetInOrder(run->b);
	return true;
}

/* Adds neighbours from the current list until the list ends or the block is full. */
static void
FillFromList(NearestRun *run, OutputBlock *block)
{
	uint32		n = Min(run->list->length - run->next, OUTPUT_ROWS - block->nrows);

	for (uint32 i = 0; i < n; i++)
	{
		const FastedNeighbor *neighbor = &run->list->neighbors[run->next++];
		uint32		row = block->nrows++;

		block->values[COLUMN_ID_A - 1][row] = run->a->values[run->list->row];
		block->values[COLUMN_ID_B - 1][row] = run->by_rank[neighbor->row];
		block->values[COLUMN_DIST - 1][row] = DistanceDatum(&neighbor->dist);
		block->values[COLUMN_RANK - 1][row] = Int32GetDatum((int32) (run->list->first_rank + run->next - 1));
	}
}

/* --- the run */

/*
 * Fills a block.  The block ends early if the engine would have to be waited for.  It also ends
 * with the join, which owns the ids: an ended join returns no more rows.
 */
static bool
FillNearest(FunctionRun *base, OutputBlock *block)
{
	NearestRun *run = (NearestRun *) base;

	while (block->nrows < OUTPUT_ROWS && FindNeighbors(run, block->nrows == 0))
		FillFromList(run, block);
	return block->nrows > 0;
}

static uint64
CountNearest(FunctionRun *base)
{
	const NeighborList *list;
	uint64		count = 0;

	while ((list = NextList(base, true)) != NULL)
		count += list->length;
	FinishJoin(base);
	return count;
}

const FunctionDescriptor nearest_function = {
	.name = "fasted_knn_join",
	.node_name = "FastedNearest",
	.nargs = NEAREST_NARGS,
	.arguments = {
		[NEAREST_A] = {"a", true, "Relation"},
		[NEAREST_A_COLUMN] = {"a_column", true, "Vector Column"},
		[NEAREST_B] = {"b", true, "Neighbor Relation"},
		[NEAREST_B_COLUMN] = {"b_column", true, "Neighbor Vector Column"},
		[NEAREST_K] = {"k", true, "Neighbors"},
		[NEAREST_METRIC] = {"metric", true, "Metric"},
		[NEAREST_MAX_DISTANCE] = {"max_distance", false, "Max Distance"},
		[NEAREST_A_ID] = {"a_id", false, "Key Column"},
		[NEAREST_B_ID] = {"b_id", false, "Neighbor Key Column"},
		[NEAREST_PARTITION_BY] = {"partition_by", false, "Partition Column"}
	},
	.nsources = 2,
	.sources = {
		{NEAREST_A, NEAREST_A_COLUMN, NEAREST_A_ID},
		{NEAREST_B, NEAREST_B_COLUMN, NEAREST_B_ID}
	},
	.metric = NEAREST_METRIC,
	.ncolumns = 4,
	.columns = {InvalidOid, InvalidOid, FLOAT8OID, INT4OID},
	.parallel = true,
	.run_size = sizeof(NearestRun),
	.begin = BeginNearest,
	.fill = FillNearest,
	.count = CountNearest
};
