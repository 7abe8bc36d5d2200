/*-------------------------------------------------------------------------
 *
 * group_run.c
 *	  From arguments to rows in order of id, by way of a join.
 *
 * The pairs are taken as they come, and each function keeps what it needs of them.
 * The engine, with the vectors, is gone before the rest is computed: then a function
 * may need as much memory for pairs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "base/row_numbers.h"
#include "groups/group_run.h"
#include "join/join.h"
#include "utils/memutils.h"

/* Rows of the result between two looks for interrupts. */
#define ROWS_PER_CHECK 1024

static void
AddSeconds(double *seconds, instr_time begin)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, begin);
	*seconds += INSTR_TIME_GET_DOUBLE(now);
}

/* --- the join */

static VectorJoin *
BeginJoin(const GroupArgs *args, const Grouping *grouping)
{
	JoinRequest request = {
		.problem = {
			.eps = args->eps,.output = grouping->output,.core_pairs = grouping->core_pairs
		},
		.notices = true
	};
	VectorSource *source = ResolveSource(args->relation, args->vector_column, args->id_column,
										 args->key_type, args->metric, args->function->name);

	/* each row with a vector is in the result, a zero vector without neighbours */
	source->skip_zeros = false;
	if (args->order_column != NULL)
		OrderSource(source, args->order_column, args->descending);
	if (args->partition_by != NULL)
		GroupSource(source, args->partition_by);
	request.sources[0] = source;
	return JoinBegin(&request);
}

static const uint32 *
RowsById(const KeySet *keys)
{
	return keys->rank == NULL ? NULL : RowsOfNumbers(keys->rank, keys->count);
}

static bool
NextPairs(GroupRun *run, VectorJoin *join, const FastedPair **pairs, size_t *npairs)
{
	instr_time	begin;
	bool		more;

	INSTR_TIME_SET_CURRENT(begin);
	more = JoinNext(join, pairs, npairs);
	AddSeconds(&run->wait_seconds, begin);
	return more;
}

static void
NoteRows(GroupRun *run, const VectorJoin *join)
{
	run->rows.keys = join->keys[0];
	run->rows.count = run->rows.keys->count;
	run->rows.by_id = RowsById(run->rows.keys);
	run->rows.order = join->order;
}

static void
RankRows(GroupRun *run, VectorJoin *join)
{
	if (join->output != FASTED_OUTPUT_KEEPERS)
		return;
	NoteRows(run, join);
	JoinRank(join, run->grouping->rank(run->grouping, &run->rows));
}

/* Until the first batch the CPU may take over, and read the rows in another order. */
static void
TakePairs(GroupRun *run, VectorJoin *join)
{
	const FastedPair *pairs;
	size_t		npairs;
	bool		more = NextPairs(run, join, &pairs, &npairs);
	instr_time	begin;

	NoteRows(run, join);
	run->grouping->reduced = join->output != FASTED_OUTPUT_PAIRS;
	run->grouping->begin(run->grouping, &run->rows);
	while (more)
	{
		INSTR_TIME_SET_CURRENT(begin);
		run->grouping->take(run->grouping, pairs, npairs);
		AddSeconds(&run->group_seconds, begin);
		more = NextPairs(run, join, &pairs, &npairs);
	}
	if (join->counts != NULL)
		run->grouping->count(run->grouping, join->counts);
	run->npairs = JoinPairs(join);
}

/* The ids are still wanted. */
static void
EndJoin(GroupRun *run, VectorJoin *join)
{
	run->joined = JoinStatistics(join, &run->stats, &run->read_seconds);
	run->shares = JoinShares(join);
	MemoryContextSetParent(run->rows.keys->context, CurrentMemoryContext);
	JoinEnd(join);
}

/* --- what comes after it */

static void
EndProgress(void *arg)
{
	ProgressEnd(&((GroupRun *) arg)->progress);
}

static void
ShowGrouping(GroupRun *run)
{
	const VectorSource *source = run->rows.keys->source;
	ProgressNumbers numbers = {
		.rows_read = run->rows.count,.rows_expected = run->rows.count,.pairs = run->npairs
	};

	CleanupRegister(&run->cleanup, EndProgress, run);
	ProgressBegin(&run->progress, source->relid);
	ProgressShow(&run->progress, PROGRESS_GROUPING, &numbers);
}

static void
Finish(GroupRun *run)
{
	instr_time	begin;
	double		seconds = 0.0;

	ShowGrouping(run);
	INSTR_TIME_SET_CURRENT(begin);
	if (run->grouping->finish != NULL)
		run->grouping->finish(run->grouping);
	AddSeconds(&seconds, begin);
	ProgressEnd(&run->progress);
	run->group_seconds += seconds;
	run->bytes = MemoryContextMemAllocated(CurrentMemoryContext, true) + run->grouping->pair_bytes;
	ereport(DEBUG1,
			(errmsg_internal("fasted: grouped %u rows by " UINT64_FORMAT " pairs, after the last of them in %.3f s",
							 run->rows.count, run->npairs, seconds)));
}

GroupRun *
GroupRunBegin(const GroupArgs *args, Grouping *grouping)
{
	GroupRun   *run = palloc0(sizeof(GroupRun));
	VectorJoin *join;

	run->grouping = grouping;
	join = BeginJoin(args, grouping);
	RankRows(run, join);
	TakePairs(run, join);
	EndJoin(run, join);
	Finish(run);
	return run;
}

/* --- rows */

bool
GroupRunNext(GroupRun *run, Datum *values, bool *nulls)
{
	uint32		row;

	if (run->next == run->rows.count)
		return false;
	if (run->next % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();
	row = RowById(&run->rows, run->next++);
	memset(nulls, false, GROUP_MOST_COLUMNS * sizeof(bool));
	values[0] = run->rows.keys->values[row];
	run->grouping->result(run->grouping, row, values, nulls);
	return true;
}

void
GroupRunRewind(GroupRun *run)
{
	run->next = 0;
}
