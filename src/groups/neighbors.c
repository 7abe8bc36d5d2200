/*-------------------------------------------------------------------------
 *
 * neighbors.c
 *	  fasted_neighbors: how many neighbours each row has.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/row_numbers.h"
#include "catalog/pg_type.h"
#include "groups/group_function.h"

PG_FUNCTION_INFO_V1(fasted_neighbors);
PG_FUNCTION_INFO_V1(fasted_neighbors_typed);

typedef struct Neighbors
{
	Grouping	base;
	uint32		rows;
	uint32	   *counts;			/* by row number */
} Neighbors;

static void
BeginCounts(Grouping *grouping, const GroupRows *rows)
{
	Neighbors  *neighbors = (Neighbors *) grouping;

	neighbors->rows = rows->count;
	neighbors->counts = AllocRowNumbers(rows->count);
}

/* The engine counted: no pair came here. */
static void
KeepCounts(Grouping *grouping, const uint32 *counts)
{
	Neighbors  *neighbors = (Neighbors *) grouping;

	CopyRowNumbers(neighbors->counts, counts, neighbors->rows);
}

static void
SetCount(Grouping *grouping, uint32 row, Datum *values, bool *nulls)
{
	values[1] = Int64GetDatum((int64) ((Neighbors *) grouping)->counts[row]);
}

static Grouping *
PrepareNeighbors(FunctionCallInfo fcinfo, GroupArgs *args)
{
	Neighbors  *neighbors = palloc0(sizeof(Neighbors));

	neighbors->base.begin = BeginCounts;
	neighbors->base.count = KeepCounts;
	neighbors->base.result = SetCount;
	neighbors->base.output = FASTED_OUTPUT_COUNTS;
	return &neighbors->base;
}

const GroupFunction group_neighbors = {
	.name = "fasted_neighbors",
	.plain = fasted_neighbors,
	.typed = fasted_neighbors_typed,
	.ncolumns = 2,
	.columns = {InvalidOid, INT8OID},
	.prepare = PrepareNeighbors
};

/* fasted_neighbors(relation, vector_column, eps, id_column, metric) */
Datum
fasted_neighbors(PG_FUNCTION_ARGS)
{
	return RunGroupFunction(fcinfo, &group_neighbors, false);
}

/* fasted_neighbors_typed(id_type, relation, vector_column, eps, id_column, metric) */
Datum
fasted_neighbors_typed(PG_FUNCTION_ARGS)
{
	return RunGroupFunction(fcinfo, &group_neighbors, true);
}
