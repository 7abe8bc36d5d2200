/*-------------------------------------------------------------------------
 *
 * nearest_run.c
 *	  From arguments to rows, by way of a join.
 *
 * A join ends when its last row was taken, so that the engine's memory does not wait for
 * the end of the query.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "nearest/nearest_run.h"
#include "portability/instr_time.h"
#include "scan/scan_explain.h"
#include "utils/memutils.h"

/* Rows of a between two looks for interrupts. */
#define ROWS_PER_CHECK 64

struct NearestRun
{
	MemoryContext context;
	NearestArgs args;
	NearestSources sources;
	VectorJoin *join;			/* NULL: none is at work */
	bool		divided;		/* over workers of a cluster, who send pairs */
	KeySet	   *a;				/* its ids */
	KeySet	   *b;
	const Datum *by_rank;		/* those of b; NULL: not known before the first list */

	uint64		row;			/* of a, the next one */
	uint64		end;			/* of those that have all of their neighbours */
	const FastedNeighbor *list; /* of the row before that */
	uint32		nlist;
	uint32		next;			/* in the list */

	/* Of a divided join instead: */
	const FastedPair *pairs;	/* those that were not handed on yet */
	size_t		npairs;
	uint32		rank;			/* of the first one of them */

	NearestTotals totals;		/* of the joins that are over */
};

/* --- joins */

static void
AddTotals(NearestTotals *totals, const VectorJoin *join)
{
	if (AddJoinStatistics(&totals->stats, &totals->read_seconds, join))
		totals->joins++;
	totals->shares = JoinShares(join);
	totals->partitions += join->npartitions;
}

static void
SetJoin(NearestRun *run, VectorJoin *join)
{
	run->join = join;
	run->a = join->keys[0];
	run->b = join->keys[1];
	run->by_rank = NULL;
	run->row = run->end = 0;
	run->divided = join->remote != NULL;
}

static void
FinishJoin(NearestRun *run)
{
	AddTotals(&run->totals, run->join);
	JoinEnd(run->join);
	run->join = NULL;
}

static void
BeginJoin(NearestRun *run)
{
	JoinRequest request = {
		.sources = {run->sources.a, run->sources.b},
		.problem = {
			.output = FASTED_OUTPUT_NEAREST,.k = run->args.k,.eps = run->args.max_distance
		}
	};

	SetJoin(run, JoinBegin(&request));
}

/* --- rows */

static void
AddSeconds(double *seconds, instr_time begin)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, begin);
	*seconds += INSTR_TIME_GET_DOUBLE(now);
}

/* More rows of a that have all of their neighbours; false: of this join there are none. */
static bool
NextRange(NearestRun *run)
{
	instr_time	begin;
	uint64		count;
	bool		more;

	INSTR_TIME_SET_CURRENT(begin);
	more = JoinNextRows(run->join, &run->row, &count);
	AddSeconds(&run->totals.wait_seconds, begin);
	run->end = run->row + (more ? count : 0);
	return more;
}

/* There is a row of a to look at; false: there are no more at all. */
static bool
FindRow(NearestRun *run)
{
	while (run->row == run->end)
	{
		if (run->join == NULL)
			return false;
		if (!NextRange(run))
			FinishJoin(run);
	}
	return true;
}

/* The next row of those that have all of their neighbours. */
static void
TakeRow(NearestRun *run)
{
	if (run->row % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();
	run->list = JoinNearest(run->join, run->row++, &run->nlist);
	run->next = 0;
}

/* Of those the next one with neighbours; false: there is none. */
static bool
NextListHere(NearestRun *run)
{
	while (run->row < run->end)
	{
		TakeRow(run);
		if (run->nlist > 0)
			return true;
	}
	return false;
}

/* The next row of all with neighbours; false: there is none. */
static bool
NextList(NearestRun *run)
{
	while (!NextListHere(run))
	{
		if (!FindRow(run))
			return false;
	}
	/* until then another engine may have taken over, and have read rows in another order */
	if (run->by_rank == NULL)
		run->by_rank = KeySetInOrder(run->b);
	return true;
}

static inline Datum
DistanceDatum(const FastedNeighbor *neighbor)
{
#ifdef USE_FLOAT8_BYVAL
	return Float8GetDatum(neighbor->dist);
#else
	return PointerGetDatum(&neighbor->dist);
#endif
}

/* A column of the next n rows, all of one row of a. */
static void
FillColumn(const NearestRun *run, int column, Datum *values, uint32 n)
{
	const FastedNeighbor *list = run->list + run->next;
	Datum		id = run->a->values[run->row - 1];

	for (uint32 i = 0; i < n; i++)
	{
		switch (column)
		{
			case 1:
				values[i] = id;
				break;
			case 2:
				values[i] = run->by_rank[list[i].row];
				break;
			case 3:
				values[i] = DistanceDatum(&list[i]);
				break;
			default:
				values[i] = Int32GetDatum((int32) (run->next + i + 1));
				break;
		}
	}
}

/* Of the list at hand as many rows as there is room for. */
static void
FillFromList(NearestRun *run, const List *columns, OutletBlock *block)
{
	uint32		n = Min(run->nlist - run->next, OUTLET_ROWS - block->nrows);
	ListCell   *cell;

	foreach(cell, columns)
		FillColumn(run, lfirst_int(cell), block->values[foreach_current_index(cell)] + block->nrows,
				   n);
	run->next += n;
	block->nrows += n;
}

/* --- rows of a divided join */

/* The next pairs of a message; false: there are no more. */
static bool
NextPairs(NearestRun *run)
{
	instr_time	begin;
	bool		more;

	if (run->join == NULL)
		return false;
	INSTR_TIME_SET_CURRENT(begin);
	more = JoinNext(run->join, &run->pairs, &run->npairs);
	AddSeconds(&run->totals.wait_seconds, begin);
	if (more)
		run->rank = run->join->first_rank;
	else
	{
		FinishJoin(run);
		run->npairs = 0;
	}
	return more;
}

static Datum
PairColumn(const NearestRun *run, int column, const FastedPair *pair)
{
	switch (column)
	{
		case 1:
			return run->a->values[pair->a];
		case 2:
			return run->b->values[pair->b];
		case 3:
#ifdef USE_FLOAT8_BYVAL
			return Float8GetDatum(pair->dist);
#else
			return PointerGetDatum(&pair->dist);
#endif
		default:
			return Int32GetDatum((int32) run->rank);
	}
}

/* As many rows as there are at hand, and room for. */
static bool
FillFromPairs(NearestRun *run, const List *columns, OutletBlock *block)
{
	ListCell   *cell;

	if (run->npairs == 0 && !NextPairs(run))
		return false;
	while (run->npairs > 0 && block->nrows < OUTLET_ROWS)
	{
		const FastedPair *pair = run->pairs++;

		foreach(cell, columns)
			block->values[foreach_current_index(cell)][block->nrows] =
				PairColumn(run, lfirst_int(cell), pair);
		block->nrows++;
		if (--run->npairs > 0)
			run->rank = pair[1].a == pair[0].a ? run->rank + 1 : 1;
	}
	return true;
}

/* --- rows */

/*
 * A block ends where the join does, for the ids go with it, and where rows would have to be
 * waited for.
 */
bool
NearestRunFill(NearestRun *run, const List *columns, OutletBlock *block)
{
	MemoryContext old = MemoryContextSwitchTo(run->context);

	block->nrows = 0;
	if (run->divided)
		(void) FillFromPairs(run, columns, block);
	while (!run->divided && block->nrows < OUTLET_ROWS)
	{
		if (run->next == run->nlist && !(block->nrows > 0 ? NextListHere(run) : NextList(run)))
			break;
		FillFromList(run, columns, block);
	}
	MemoryContextSwitchTo(old);
	return block->nrows > 0;
}

uint64
NearestRunCount(NearestRun *run)
{
	MemoryContext old = MemoryContextSwitchTo(run->context);
	uint64		count = 0;

	while (run->divided && NextPairs(run))
		count += run->npairs;
	while (!run->divided && FindRow(run))
	{
		TakeRow(run);
		count += run->nlist;
	}
	MemoryContextSwitchTo(old);
	return count;
}

void
NearestRunPause(NearestRun *run)
{
	if (run->join != NULL)
		JoinPause(run->join);
}

/* --- the run */

NearestRun *
NearestRunBegin(const NearestArgs *args)
{
	NearestRun *run = palloc0(sizeof(NearestRun));

	run->context = CurrentMemoryContext;
	run->args = *args;
	run->sources = ResolveNearestSources(args);
	BeginJoin(run);
	return run;
}

NearestTotals
NearestRunTotals(const NearestRun *run)
{
	NearestTotals totals = run->totals;

	if (run->join != NULL)
		AddTotals(&totals, run->join);
	return totals;
}

void
NearestRunEnd(NearestRun *run)
{
	if (run->join != NULL)
		FinishJoin(run);
}
