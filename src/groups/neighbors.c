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
	uint32	   *counts;			/* by row number */
} Neighbors;

static void
BeginCounts(Grouping *grouping, const GroupRows *rows)
{
	((Neighbors *) grouping)->counts =
		MemoryContextAllocExtended(CurrentMemoryContext, (Size) rows->count * sizeof(uint32),
								   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

static void
CountPairs(Grouping *grouping, const FastedPair *pairs, size_t npairs)
{
	uint32	   *counts = ((Neighbors *) grouping)->counts;

	for (size_t i = 0; i < npairs; i++)
	{
		counts[pairs[i].a]++;
		counts[pairs[i].b]++;
	}
}

static void
FinishCounts(Grouping *grouping)
{
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
		.base = {.begin = BeginCounts,.take = CountPairs,.finish = FinishCounts,.result = SetCount}
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
