/*-------------------------------------------------------------------------
 *
 * keepers.c
 *	  All pairs, sorted by the later row, then one pass over them in order.
 *
 * When the pairs of a later row come, each earlier row has been settled, since
 * its own pairs with still earlier rows came before.  That needs no rounds, so a long
 * chain of rows (a walk in the order of time) costs no more than others.
 *
 * Each pair keeps its distance, in 16 bytes altogether.  Without it 8 would do, but
 * then the vectors would have to stay in memory until rows are dropped, in place of
 * the pairs, or be read once more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "base/row_numbers.h"
#include "groups/keepers.h"
#include "groups/pair_store.h"
#include "groups/row_ranks.h"
#include "utils/memutils.h"

static void
FindRanks(Keepers *keepers, const GroupRows *rows)
{
	const VectorSource *source = rows->keys->source;

	if (source->order_column == NULL)
	{
		keepers->rank = rows->keys->rank;
		keepers->row_of_rank = rows->by_id;
	}
	else if (rows->order != NULL)
	{
		keepers->rank = rows->order;
		keepers->row_of_rank = RowsOfNumbers(rows->order, rows->count);
	}
	else if (!RowsComeInOrder(source))
	{
		RowRanks	ranks = ReadRowRanks(rows);

		keepers->rank = ranks.rank;
		keepers->row_of_rank = ranks.row;
	}
}

/* For the engine, which then hands out few pairs. */
static const uint32 *
Rank(Grouping *grouping, const GroupRows *rows)
{
	Keepers    *keepers = (Keepers *) grouping;

	FindRanks(keepers, rows);
	keepers->ranked = true;
	return keepers->rank;
}

static void
Begin(Grouping *grouping, const GroupRows *rows)
{
	Keepers    *keepers = (Keepers *) grouping;

	keepers->rows = rows;
	/* where another engine took over, the rows may have come in another order */
	if (!keepers->ranked || !grouping->reduced)
		FindRanks(keepers, rows);
	PairStoreInit(&keepers->store, 2);
	keepers->scratch = PairMemoryCreate();
}

/* Sorts the pairs in memory; returns where they are. */
static const FastedPair *
SortPairs(Keepers *keepers)
{
	PairStore  *store = &keepers->store;

	if (keepers->scratch->room < store->count)
	{
		PairMemoryGrow(keepers->scratch, store->count);
		/* pairs go there in no order: all of it would be made between two looks for interrupts */
		PairMemoryTouch(keepers->scratch);
	}
	keepers->base.pair_bytes = PairMemoryBytes(store->memory) + PairMemoryBytes(keepers->scratch);
	return SortBySecond(store->memory->pairs, keepers->scratch->pairs, store->count,
						keepers->rows->count);
}

static void
WriteRun(Keepers *keepers)
{
	PairStoreWrite(&keepers->store, SortPairs(keepers), keepers->store.count);
	keepers->store.count = 0;
}

static void
Take(Grouping *grouping, const FastedPair *pairs, size_t npairs)
{
	Keepers    *keepers = (Keepers *) grouping;
	const uint32 *rank = keepers->rank;

	for (size_t i = 0; i < npairs; i++)
	{
		uint32		a = rank == NULL ? pairs[i].a : rank[pairs[i].a];
		uint32		b = rank == NULL ? pairs[i].b : rank[pairs[i].b];
		FastedPair	pair = {.a = Min(a, b),.b = Max(a, b),.dist = pairs[i].dist};

		if (PairStoreIsFull(&keepers->store))
			WriteRun(keepers);
		PairStoreAdd(&keepers->store, pair);
	}
}

/* --- all pairs have come */

/* Pairs in order of b: whether a is kept is known. */
static void
UsePairs(Keepers *keepers, const FastedPair *pairs, size_t npairs)
{
	uint32	   *keeper = keepers->keeper;
	double	   *dist = keepers->dist;

	for (size_t i = 0; i < npairs; i++)
	{
		uint32		a = pairs[i].a;
		uint32		b = pairs[i].b;

		if (keeper[a] == a &&
			(keeper[b] == b || pairs[i].dist < dist[b] ||
			 (pairs[i].dist == dist[b] && a < keeper[b])))
		{
			keeper[b] = a;
			dist[b] = pairs[i].dist;
		}
	}
}

static void
UseMemory(Keepers *keepers)
{
	const FastedPair *pairs = SortPairs(keepers);
	size_t		count = keepers->store.count;

	for (size_t first = 0; first < count; first += GROUP_STRIDE)
	{
		CheckJoinInterrupts();
		UsePairs(keepers, pairs + first, Min(GROUP_STRIDE, count - first));
	}
}

static void
UseFile(Keepers *keepers)
{
	PairStore  *store = &keepers->store;
	size_t		run_pairs = store->most;
	const FastedPair *pairs;
	PairMerge  *merge;
	size_t		npairs;
	size_t		unchecked = 0;

	if (store->count > 0)
		WriteRun(keepers);
	keepers->base.filed_pairs = store->filed;
	PairMemoryFree(store->memory);
	PairMemoryFree(keepers->scratch);
	merge = PairMergeBegin(store, run_pairs);
	while ((npairs = PairMergeNext(merge, &pairs)) > 0)
	{
		UsePairs(keepers, pairs, npairs);
		unchecked += npairs;
		if (unchecked >= GROUP_STRIDE)
		{
			CheckJoinInterrupts();
			unchecked = 0;
		}
	}
	PairMergeEnd(merge);
}

static void
Finish(Grouping *grouping)
{
	Keepers    *keepers = (Keepers *) grouping;
	uint32		nrows = keepers->rows->count;

	keepers->keeper = OwnRowNumbers(nrows);
	keepers->dist = MemoryContextAllocHuge(CurrentMemoryContext, (Size) nrows * sizeof(double));

	if (keepers->store.filed > 0)
		UseFile(keepers);
	else if (keepers->store.count > 0)
		UseMemory(keepers);
	PairStoreEnd(&keepers->store);
	PairMemoryFree(keepers->scratch);
}

static void
Result(Grouping *grouping, uint32 row, Datum *values, bool *nulls)
{
	Keepers    *keepers = (Keepers *) grouping;
	uint32		rank = keepers->rank == NULL ? row : keepers->rank[row];
	uint32		keeper = keepers->keeper[rank];
	uint32		kept = keepers->rank == NULL ? keeper : keepers->row_of_rank[keeper];

	values[1] = keepers->rows->keys->values[kept];
	values[2] = Float8GetDatum(kept == row ? 0.0 : keepers->dist[rank]);
}

Grouping *
KeepersCreate(void)
{
	Keepers    *keepers = palloc0(sizeof(Keepers));

	keepers->base.output = FASTED_OUTPUT_KEEPERS;
	keepers->base.rank = Rank;
	keepers->base.begin = Begin;
	keepers->base.take = Take;
	keepers->base.finish = Finish;
	keepers->base.result = Result;
	return &keepers->base;
}
