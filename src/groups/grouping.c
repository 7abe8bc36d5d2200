/*-------------------------------------------------------------------------
 *
 * grouping.c
 *	  From arguments to rows in order of id, by way of a join.
 *
 * The pairs are taken as they come, and each function keeps what it needs of them.
 * The engine, with the vectors, is gone before the rest is computed: then a function
 * may need as much memory for pairs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "groups/grouping.h"
#include "portability/instr_time.h"
#include "session/arguments.h"
#include "session/interrupts.h"
#include "session/progress.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

/* Columns of a result: an id and at most three. */
#define MOST_COLUMNS 4

typedef struct GroupRun
{
	Grouping   *grouping;
	GroupRows	rows;
	uint64		npairs;
	instr_time	begun;			/* when pairs had come */
	Progress	progress;
	MemoryContextCallback callback;
} GroupRun;

GroupArgs
GetGroupArgs(FunctionCallInfo fcinfo, const char *function, bool typed)
{
	GroupArgs	args = {.function = function,.first = typed ? 1 : 0};
	int			id_column = fcinfo->nargs - 1;

	RequireArgument(fcinfo, args.first + GROUP_RELATION, function, "relation");
	RequireArgument(fcinfo, args.first + GROUP_COLUMN, function, "vector_column");
	RequireArgument(fcinfo, args.first + GROUP_EPS, function, "eps");

	args.relation = PG_GETARG_OID(args.first + GROUP_RELATION);
	args.vector_column = NameStr(*PG_GETARG_NAME(args.first + GROUP_COLUMN));
	args.eps = PG_GETARG_FLOAT8(args.first + GROUP_EPS);
	if (!PG_ARGISNULL(id_column))
		args.id_column = NameStr(*PG_GETARG_NAME(id_column));
	args.key_type = typed ? get_fn_expr_argtype(fcinfo->flinfo, 0) : INT8OID;
	if (!OidIsValid(args.key_type))
		elog(ERROR, "could not determine the type of the ids");
	RequireDistance(args.eps);
	return args;
}

/* --- the join */

static Join *
BeginJoin(const GroupArgs *args, FastedOutput output)
{
	VectorSource *source = ResolveSource(args->relation, args->vector_column, args->id_column,
										 args->key_type, args->function);

	if (args->order_column != NULL)
		OrderSource(source, args->order_column, args->descending);
	return JoinBegin(source, FASTED_METRIC_L2, args->eps, output);
}

static const uint32 *
RowsById(const KeySet *keys)
{
	uint32	   *rows;

	if (keys->rank == NULL)
		return NULL;
	rows = MemoryContextAllocHuge(CurrentMemoryContext, (Size) keys->count * sizeof(uint32));
	for (uint32 i = 0; i < keys->count; i++)
	{
		if (i % GROUP_STRIDE == 0)
			CheckJoinInterrupts();
		rows[keys->rank[i]] = i;
	}
	return rows;
}

/* Until the first batch the CPU may take over, and read the rows in another order. */
static void
TakePairs(GroupRun *run, Join *join)
{
	const FastedPair *pairs;
	size_t		npairs;
	bool		more = JoinNext(join, &pairs, &npairs);

	run->rows.keys = JoinKeys(join);
	run->rows.count = run->rows.keys->count;
	run->rows.by_id = RowsById(run->rows.keys);
	run->grouping->begin(run->grouping, &run->rows);
	while (more)
	{
		run->grouping->take(run->grouping, pairs, npairs);
		run->npairs += npairs;
		more = JoinNext(join, &pairs, &npairs);
	}
	if (run->grouping->count != NULL && run->rows.count > 0)
	{
		run->grouping->count(run->grouping, JoinCounts(join));
		run->npairs = JoinPairs(join);
	}
	/* the ids are still wanted */
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

	INSTR_TIME_SET_CURRENT(run->begun);
	run->callback.func = EndProgress;
	run->callback.arg = run;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &run->callback);
	ProgressBegin(&run->progress, source->relid, source->relation);
	ProgressShow(&run->progress, PROGRESS_GROUPING, &numbers);
}

static void
StoreRows(GroupRun *run, ReturnSetInfo *rsinfo)
{
	const GroupRows *rows = &run->rows;

	Assert(rsinfo->setDesc->natts <= MOST_COLUMNS);
	for (uint32 i = 0; i < rows->count; i++)
	{
		uint32		row = RowById(rows, i);
		Datum		values[MOST_COLUMNS] = {rows->keys->values[row]};
		bool		nulls[MOST_COLUMNS] = {false};

		if (i % 1024 == 0)
			CheckJoinInterrupts();
		run->grouping->result(run->grouping, row, values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

static void
LogGrouping(const GroupRun *run)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, run->begun);
	ereport(DEBUG1,
			(errmsg_internal("fasted: grouped %u rows by " UINT64_FORMAT " pairs, after the last of them in %.3f s",
							 run->rows.count, run->npairs, INSTR_TIME_GET_DOUBLE(now))));
}

void
RunGrouping(FunctionCallInfo fcinfo, const GroupArgs *args, Grouping *grouping)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext context;
	MemoryContext old;
	GroupRun   *run;

	InitMaterializedSRF(fcinfo, 0);
	context = AllocSetContextCreate(CurrentMemoryContext, "fasted groups", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	run = palloc0(sizeof(GroupRun));
	run->grouping = grouping;
	TakePairs(run, BeginJoin(args, grouping->count != NULL ? FASTED_OUTPUT_COUNTS : FASTED_OUTPUT_PAIRS));
	ShowGrouping(run);
	if (grouping->finish != NULL)
		grouping->finish(grouping);
	StoreRows(run, rsinfo);
	LogGrouping(run);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
