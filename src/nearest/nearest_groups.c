/*-------------------------------------------------------------------------
 *
 * nearest_groups.c
 *	  Both relations are read side by side, a group at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nearest/nearest_groups.h"
#include "read/group_reader.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"
#include "utils/typcache.h"

struct NearestGroups
{
	RowPusher	base;			/* of the rows of the group at hand */
	NearestProblem problem;
	GroupReader *a;
	GroupReader *b;				/* NULL: a's rows alone */
	SortSupportData order;
	uint64		count;
	Progress	progress;		/* of all groups */
	MemoryContextCallback callback;
};

static void
EndProgress(void *arg)
{
	ProgressEnd(&((NearestGroups *) arg)->progress);
}

static void
PushGroup(RowPusher *pusher, Join *join)
{
	NearestGroups *groups = (NearestGroups *) pusher;

	GroupReaderRead(groups->a, JoinSink(join, 0));
	if (groups->b != NULL)
		GroupReaderRead(groups->b, JoinSink(join, 1));
}

static void
BeginReading(NearestGroups *groups)
{
	const NearestProblem *problem = &groups->problem;

	groups->a = GroupReaderBegin(problem->a);
	groups->progress.whole.rows_expected = GroupReaderExpected(groups->a);
	if (problem->b == NULL)
		return;
	groups->b = GroupReaderBegin(problem->b);
	groups->progress.whole.rows_expected += GroupReaderExpected(groups->b);
	groups->order.ssup_cxt = CurrentMemoryContext;
	groups->order.ssup_collation = problem->a->group_collation;
	PrepareSortSupportFromOrderingOp(lookup_type_cache(problem->a->group_type,
													   TYPECACHE_LT_OPR)->lt_opr,
									 &groups->order);
}

NearestGroups *
NearestGroupsBegin(const NearestProblem *problem)
{
	NearestGroups *groups = palloc0(sizeof(NearestGroups));

	groups->base.push = PushGroup;
	groups->problem = *problem;
	groups->problem.pusher = &groups->base;
	groups->problem.progress = &groups->progress;
	ProgressBegin(&groups->progress, problem->a->relid, problem->a->relation);
	groups->callback.func = EndProgress;
	groups->callback.arg = groups;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &groups->callback);
	groups->progress.in_parts = true;
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

Join *
NearestGroupsNext(NearestGroups *groups)
{
	Join	   *join;

	if (!FindGroup(groups))
		return NULL;
	join = JoinBeginNearest(&groups->problem);
	groups->count++;
	return join;
}

uint64
NearestGroupsCount(const NearestGroups *groups)
{
	return groups->count;
}

void
NearestGroupsEnd(NearestGroups *groups)
{
	ProgressEnd(&groups->progress);
	GroupReaderEnd(groups->a);
	if (groups->b != NULL)
		GroupReaderEnd(groups->b);
}
