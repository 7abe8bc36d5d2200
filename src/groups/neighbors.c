/*-------------------------------------------------------------------------
 *
 * neighbors.c
 *	  fasted_neighbors: how many neighbours each row has.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groups/grouping.h"
#include "utils/memutils.h"

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
	neighbors->counts = MemoryContextAllocHuge(CurrentMemoryContext,
											   (Size) rows->count * sizeof(uint32));
}

/* The engine counted: no pair came here. */
static void
KeepCounts(Grouping *grouping, const uint32 *counts)
{
	Neighbors  *neighbors = (Neighbors *) grouping;

	memcpy(neighbors->counts, counts, (Size) neighbors->rows * sizeof(uint32));
}

static void
SetCount(Grouping *grouping, uint32 row, Datum *values, bool *nulls)
{
	values[1] = Int64GetDatum((int64) ((Neighbors *) grouping)->counts[row]);
}

static Datum
FindNeighbors(FunctionCallInfo fcinfo, bool typed)
{
	GroupArgs	args = GetGroupArgs(fcinfo, "fasted_neighbors", typed);
	Neighbors	neighbors = {
		.base = {.begin = BeginCounts,.count = KeepCounts,.result = SetCount}
	};

	RunGrouping(fcinfo, &args, &neighbors.base);
	return (Datum) 0;
}

/* fasted_neighbors(relation, vector_column, eps, id_column) */
Datum
fasted_neighbors(PG_FUNCTION_ARGS)
{
	return FindNeighbors(fcinfo, false);
}

/* fasted_neighbors_typed(id_type, relation, vector_column, eps, id_column) */
Datum
fasted_neighbors_typed(PG_FUNCTION_ARGS)
{
	return FindNeighbors(fcinfo, true);
}
