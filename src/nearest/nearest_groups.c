/*-------------------------------------------------------------------------
 *
 * nearest_groups.c
 *	  Both relations are read side by side, a group at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "join/engines.h"
#include "nearest/nearest_groups.h"
#include "rows/group_reader.h"
#include "rows/source.h"
#include "rows/statistics.h"

struct NearestGroups
{
	RowPusher	base;			/* of the rows of the group at hand */
	NearestProblem problem;
	GroupReader *a;
	GroupReader *b;				/* NULL: a's rows alone */
	SmallGroup *small;			/* the first rows of the group at hand */
	bool		pushed;			/* its rows were given to an engine */
	GroupStatistics *statistics[2];
	SortSupportData order;
	uint64		count;
	Progress	progress;		/* of all groups */
	EngineSpare spare;			/* between groups */
	Cleanup		cleanup;
};

static void
CloseAll(void *arg)
{
	NearestGroups *groups = arg;

	EngineSpareClose(&groups->spare);
	ProgressEnd(&groups->progress);
}

/*
 * The first rows, and then the others.  When a GPU has failed, which may be seen when the
 * other side's last rows are sent off, they are asked for once more: then all are read again.
 */
static void
PushSide(NearestGroups *groups, int side, Join *join)
{
	GroupReader **reader = side == 0 ? &groups->a : &groups->b;
	RowSink    *sink = JoinSink(join, side);

	if (JoinHasFailed(join))
		return;
	if (groups->pushed)
		*reader = GroupReaderAgain(*reader);
	else
		SmallGroupPush(groups->small, side, sink);
	GroupReaderRead(*reader, sink, PG_UINT64_MAX);
}

static void
PushGroup(RowPusher *pusher, Join *join)
{
	NearestGroups *groups = (NearestGroups *) pusher;

	PushSide(groups, 0, join);
	if (groups->b != NULL)
		PushSide(groups, 1, join);
	groups->pushed = true;
}

/* Is the whole group a small one? */
static bool
ReadSmallGroup(NearestGroups *groups)
{
	bool		whole;

	SmallGroupReset(groups->small);
	whole = GroupReaderRead(groups->a, SmallGroupSink(groups->small, 0), SMALL_GROUP_ROWS);
	if (groups->b != NULL)
		whole &= GroupReaderRead(groups->b, SmallGroupSink(groups->small, 1), SMALL_GROUP_ROWS);
	return whole && SmallGroupIsAlike(groups->small);
}

static GroupReader *
BeginSide(NearestGroups *groups, int side, const VectorSource *source)
{
	GroupReader *reader = GroupReaderBegin(source);
	uint64		rows = GroupReaderExpected(reader);

	groups->progress.whole.rows_expected += rows;
	groups->statistics[side] = ReadGroupStatistics(source->relid,
												   get_attnum(source->relid, source->group_column),
												   rows);
	return reader;
}

static void
BeginReading(NearestGroups *groups)
{
	const NearestProblem *problem = &groups->problem;

	groups->a = BeginSide(groups, 0, problem->a);
	if (problem->b != NULL)
		groups->b = BeginSide(groups, 1, problem->b);
	PrepareTypeOrder(problem->a->group_type, problem->a->group_collation, CurrentMemoryContext, &groups->order);
}

/* The rows of a side in the group at hand, by statistics; those that are there say more. */
static double
ExpectedRows(NearestGroups *groups, int side)
{
	GroupReader *reader = side == 0 ? groups->a : groups->b;
	double		share = ShareOfGroup(groups->statistics[side], GroupReaderValue(groups->a),
									 groups->problem.a->group_type, &groups->order);

	return Max(share * GroupReaderExpected(reader), SmallGroupKeys(groups->small, side)->count);
}

static double
ExpectedPairs(NearestGroups *groups)
{
	double		rows = ExpectedRows(groups, 0);

	return rows * (groups->b != NULL ? ExpectedRows(groups, 1) : rows);
}

/* Also where no group is worth one: an engine that can't is an error. */
static void
RequireEngine(void)
{
	JoinOptions options = OptionsFromSettings();

	options.nearest = true;
	(void) ChooseEngine(&options, 0.0, 1);
}

NearestGroups *
NearestGroupsBegin(const NearestProblem *problem)
{
	NearestGroups *groups = palloc0(sizeof(NearestGroups));

	RequireEngine();
	groups->base.push = PushGroup;
	groups->problem = *problem;
	groups->problem.pusher = &groups->base;
	groups->problem.progress = &groups->progress;
	groups->problem.spare = &groups->spare;
	ProgressBegin(&groups->progress, problem->a->relid);
	CleanupRegister(&groups->cleanup, CloseAll, groups);
	groups->progress.in_parts = true;
	groups->small = SmallGroupCreate(problem);
	BeginReading(groups);
	return groups;
}

/* Goes to the next group that both have. */
static bool
FindGroup(NearestGroups *groups)
{
	int			order = 0;

	if (!GroupReaderNext(groups->a) || (groups->b != NULL && !GroupReaderNext(groups->b)))
		return false;
	while (groups->b != NULL)
	{
		order = ApplySortComparator(GroupReaderValue(groups->a), false,
									GroupReaderValue(groups->b), false, &groups->order);
		if (order == 0)
			break;
		if (!GroupReaderNext(order < 0 ? groups->a : groups->b))
			return false;
	}
	return true;
}

/* What a join does of itself. */
static void
ShowSmallGroup(NearestGroups *groups)
{
	FastedStats stats = {0};
	ProgressNumbers none = {0};

	SmallGroupAddTo(groups->small, &stats);
	ProgressAddPart(&groups->progress, stats.rows, 0);
	if (ProgressIsDue(&groups->progress))
		ProgressShow(&groups->progress, PROGRESS_JOINING, &none);
}

bool
NearestGroupsNext(NearestGroups *groups, Join **join, SmallGroup **small)
{
	*join = NULL;
	*small = NULL;
	if (!FindGroup(groups))
		return false;
	CheckJoinInterrupts();
	groups->count++;
	if (ReadSmallGroup(groups))
	{
		SmallGroupFinish(groups->small);
		ShowSmallGroup(groups);
		*small = groups->small;
	}
	else
	{
		groups->problem.row_pairs = ExpectedPairs(groups);
		groups->pushed = false;
		*join = JoinBeginNearest(&groups->problem);
	}
	return true;
}

uint64
NearestGroupsCount(const NearestGroups *groups)
{
	return groups->count;
}

void
NearestGroupsEnd(NearestGroups *groups)
{
	EngineSpareClose(&groups->spare);
	ProgressEnd(&groups->progress);
	GroupReaderEnd(groups->a);
	if (groups->b != NULL)
		GroupReaderEnd(groups->b);
}
