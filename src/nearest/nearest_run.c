/*-------------------------------------------------------------------------
 *
 * nearest_run.c
 *	  From arguments to rows, by way of one join, or of one for each group.
 *
 * A join ends when its last row was taken, so that the engine's memory does not wait for
 * the end of the query.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nearest/nearest_groups.h"
#include "nearest/nearest_run.h"
#include "portability/instr_time.h"
#include "scan/scan_explain.h"
#include "session/interrupts.h"
#include "utils/memutils.h"

/* Rows of a between two looks for interrupts. */
#define ROWS_PER_CHECK 64

struct NearestRun
{
	MemoryContext context;
	NearestArgs args;
	NearestSources sources;
	NearestGroups *groups;		/* NULL: all rows are one group */
	Join	   *join;			/* NULL: none is at work */
	bool		divided;		/* over workers of a cluster, who send pairs */
	SmallGroup *small;			/* the group at hand, if it has no join; else NULL */
	const KeySet *a;			/* its ids */
	const KeySet *b;

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
AddTotals(NearestTotals *totals, const Join *join)
{
	FastedStats stats;
	double		read_seconds;
	uint64		host_bytes = totals->stats.host_bytes;

	if (JoinStatistics(join, &stats, &read_seconds))
	{
		totals->stats = SumStatistics(&totals->stats, &stats);
		totals->stats.host_bytes = Max(host_bytes, stats.host_bytes);
		totals->joins++;
	}
	totals->shares = JoinShares(join);
	totals->read_seconds += read_seconds;
}

static void
SetJoin(NearestRun *run, Join *join)
{
	run->join = join;
	run->a = JoinKeysOf(join, 0);
	run->b = JoinKeysOf(join, 1);
	run->row = run->end = 0;
	run->divided = JoinIsDivided(join);
}

/* A group without a join: all of its rows have their neighbours. */
static void
SetSmallGroup(NearestRun *run, SmallGroup *small)
{
	run->small = small;
	run->a = SmallGroupKeys(small, 0);
	run->b = SmallGroupKeys(small, 1);
	run->row = 0;
	run->end = run->a->count;
	SmallGroupAddTo(small, &run->totals.stats);
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
	NearestProblem problem = {
		.a = run->sources.a,.b = run->sources.b,.metric = run->args.metric,
		.k = run->args.k,.most = run->args.max_distance
	};

	if (run->args.within != NULL)
		run->groups = NearestGroupsBegin(&problem);
	else
		SetJoin(run, JoinBeginNearest(&problem));
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

/* False: there is none. */
static bool
NextGroup(NearestRun *run)
{
	Join	   *join = NULL;
	SmallGroup *small = NULL;

	run->small = NULL;
	if (run->groups == NULL || !NearestGroupsNext(run->groups, &join, &small))
		return false;
	if (join != NULL)
		SetJoin(run, join);
	else
		SetSmallGroup(run, small);
	return true;
}

/* There is a row of a to look at; false: there are no more at all. */
static bool
FindRow(NearestRun *run)
{
	while (run->row == run->end)
	{
		if (run->join != NULL && NextRange(run))
			continue;
		if (run->join != NULL)
			FinishJoin(run);
		if (!NextGroup(run))
			return false;
	}
	return true;
}

static const FastedNeighbor *
Nearest(NearestRun *run, uint64 row, uint32 *length)
{
	const FastedNeighbor *list;

	if (run->small == NULL)
		return JoinNearest(run->join, row, length);
	list = SmallGroupNearest(run->small, row, length);
	run->totals.stats.pairs += *length;
	return list;
}

static bool
NextList(NearestRun *run)
{
	MemoryContext old = MemoryContextSwitchTo(run->context);
	bool		more;

	do
	{
		more = FindRow(run);
		if (!more)
			break;
		if (run->row % ROWS_PER_CHECK == 0)
			CheckJoinInterrupts();
		run->list = Nearest(run, run->row++, &run->nlist);
		run->next = 0;
	} while (run->nlist == 0);
	MemoryContextSwitchTo(old);
	return more;
}

/* --- rows of a divided join */

static bool
NextPairs(NearestRun *run)
{
	MemoryContext old = MemoryContextSwitchTo(run->context);
	instr_time	begin;
	bool		more;

	INSTR_TIME_SET_CURRENT(begin);
	more = JoinNext(run->join, &run->pairs, &run->npairs);
	AddSeconds(&run->totals.wait_seconds, begin);
	if (more)
		run->rank = JoinFirstRank(run->join);
	else
	{
		FinishJoin(run);
		run->npairs = 0;
	}
	MemoryContextSwitchTo(old);
	return more;
}

static bool
NextDividedRow(NearestRun *run, Datum *values)
{
	const FastedPair *pair;

	if (run->npairs == 0 && (run->join == NULL || !NextPairs(run)))
		return false;
	pair = run->pairs++;
	values[0] = run->a->values[pair->a];
	values[1] = run->b->values[pair->b];
	values[2] = Float8GetDatum(pair->dist);
	values[3] = Int32GetDatum((int32) run->rank);
	if (--run->npairs > 0)
		run->rank = pair[1].a == pair[0].a ? run->rank + 1 : 1;
	return true;
}

/* --- the run */

bool
NearestRunNext(NearestRun *run, Datum *values)
{
	const FastedNeighbor *neighbor;

	if (run->divided)
		return NextDividedRow(run, values);
	if (run->next == run->nlist && !NextList(run))
		return false;
	neighbor = &run->list[run->next++];
	values[0] = run->a->values[run->row - 1];
	values[1] = run->b->values[neighbor->row];
	values[2] = Float8GetDatum(neighbor->dist);
	values[3] = Int32GetDatum((int32) run->next);
	return true;
}

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
	if (run->groups != NULL)
		totals.groups = NearestGroupsCount(run->groups);
	return totals;
}

void
NearestRunEnd(NearestRun *run)
{
	if (run->join != NULL)
		FinishJoin(run);
	if (run->groups != NULL)
		NearestGroupsEnd(run->groups);
	run->groups = NULL;
}
