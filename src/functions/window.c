/*-------------------------------------------------------------------------
 *
 * window.c
 *	  Window functions: clusters, representatives and numbers of neighbors for any query's rows.
 *
 *	  fasted_dbscan(vector, eps, min_samples, metric)	as fasted_cluster
 *	  fasted_keep(vector, eps, id, metric)				as fasted_keep_one
 *	  fasted_neighbor_count(vector, eps, metric)		as fasted_neighbors
 *	  fasted_hdbscan_cluster(vector, min_cluster_size, ...)	as fasted_hdbscan
 *
 * Each of them runs the clustering function named above (clustering.h) over all rows of a window
 * partition, when it is called for the partition's first row.  The ids of that run are the rows'
 * numbers in the window's order, from 1 on.  Vectors are read one by one from the executor's
 * tuplestore.  The results are stored until they are returned for the following rows.  Rows
 * without a vector are skipped; their result is null, or for fasted_keep their own id.  The other
 * arguments are evaluated for the first row only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "functions/clustering.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "windowapi.h"

/*
 * A window function.  Its vector is argument 0; others are given by their numbers.  Its result is the second
 * column of the clustering function, or a composite value of all columns after the first.
 */
typedef struct WindowFunction
{
	const FunctionDescriptor *function; /* the clustering function that it runs */
	int			args[FUNCTION_MAX_ARGS];	/* by argument of `function`; 0: none, it is null or false */
	bool		composite;
} WindowFunction;

/* State of a window partition, in its local memory, which is zero at first. */
typedef struct Partition
{
	FunctionRun *run;			/* run of the clustering function; NULL before the first row */
	OutputBlock *block;			/* its rows, with the row number as the first column */
	uint32		next;			/* next row of the block */
	TupleDesc	desc;			/* of a composite result */

	/* fasted_keep only: the ids of representatives, by row number. */
	NullableDatum *ids;
	int16		id_length;
	bool		id_by_value;
} Partition;

/*
 * PostgreSQL's API does not give a window function access to its frame clause.  The struct behind
 * WindowObject is private, but begins with these fields in all supported versions.
 */
typedef struct WindowObjectHead
{
	NodeTag		type;
	WindowAggState *winstate;
} WindowObjectHead;

/* Raises an error if the window has a frame clause other than the default. */
static void
RequireDefaultFrame(WindowObject window, const char *name)
{
	const WindowAggState *state = ((const WindowObjectHead *) window)->winstate;

	if ((state->frameOptions & ~(FRAMEOPTION_NONDEFAULT | FRAMEOPTION_BETWEEN)) != FRAMEOPTION_DEFAULTS)
		ereport(ERROR,
				(errcode(ERRCODE_WINDOWING_ERROR),
				 errmsg("window function %s takes no frame clause", name),
				 errdetail("The function compares each row with all rows of its partition."),
				 errhint("Remove ROWS, RANGE, GROUPS and EXCLUDE from the window definition.")));
}

/* --- reading the rows of a partition */

/*
 * Passes all rows of a partition that have a vector to the sink, in their order.  type: that of the
 * function's vectors.
 */
static void
PushPartition(WindowObject window, int64 count, Oid type, const VectorSource *source, RowSink *sink)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted reading",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext values = AllocSetContextCreate(context, "fasted values", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RowTaker   *taker = RowTakerCreate(source, sink);
	TupleDesc	columns = CreateTemplateTupleDesc(2);
	TupleTableSlot *slot;

	TupleDescInitEntry(columns, KEY_COLUMN + 1, NULL, INT8OID, -1, 0);
	TupleDescInitEntry(columns, VECTOR_COLUMN + 1, NULL, type, -1, 0);
	slot = MakeSingleTupleTableSlot(columns, &TTSOpsVirtual);
	sink->expect_rows(sink, count);
	for (int64 row = 0; row < count && !taker->stopped; row++)
	{
		bool		out;

		if (row % 64 == 0)
			CheckJoinInterrupts();
		ExecClearTuple(slot);
		MemoryContextReset(values);
		MemoryContextSwitchTo(values);
		slot->tts_isnull[KEY_COLUMN] = false;
		slot->tts_values[KEY_COLUMN] = Int64GetDatum(row + 1);
		slot->tts_values[VECTOR_COLUMN] =
			WinGetFuncArgInPartition(window, 0, row, WINDOW_SEEK_HEAD, false,
									 &slot->tts_isnull[VECTOR_COLUMN], &out);
		MemoryContextSwitchTo(context);
		(void) TakeSlotInBatch(taker, ExecStoreVirtualTuple(slot));
	}
	(void) TakeBatch(taker);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* --- the run of a partition */

/*
 * Sets the arguments of the clustering function from those of the current row.  Error: a required
 * argument is null.
 */
static void
SetArguments(const WindowFunction *window, WindowObject object, NullableDatum *args)
{
	const FunctionDescriptor *function = window->function;

	for (int n = 0; n < function->nargs; n++)
	{
		args[n] = (NullableDatum) {.isnull = true};
		if (window->args[n] == 0)
			continue;
		args[n].value = WinGetFuncArgCurrent(object, window->args[n], &args[n].isnull);
		if (args[n].isnull && function->arguments[n].required)
			ReportNullArgument(function->window, function->arguments[n].name);
	}
}

/* Checks the arguments, begins the partition's run and gives it the rows, in the current memory context. */
static FunctionRun *
RunPartition(FunctionCallInfo fcinfo, const WindowFunction *window)
{
	WindowObject object = PG_WINDOW_OBJECT();
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	NullableDatum *args = palloc0(FUNCTION_MAX_ARGS * sizeof(NullableDatum));
	FunctionCall call;
	FunctionRun *run;

	RequireDefaultFrame(object, window->function->window);
	SetArguments(window, object, args);
	call = MakeFunctionCall(window->function, args, INT8OID);
	call.most_rows = WinGetPartitionRowCount(object);
	call.rows = ResolveValues(type, call.metric, window->function->window);
	if (call.most_rows > PG_INT32_MAX)
		ReportManyRows(NULL);
	run = BeginFunctionRun(&call, NULL);
	do
		PushPartition(object, call.most_rows, type, call.rows, JoinSink(run->join, 0));
	while (!StartClustering((Clustering *) run));
	return run;
}

/* Returns the state of the current partition, whose run begins with the first call. */
static Partition *
CurrentPartition(FunctionCallInfo fcinfo, const WindowFunction *window)
{
	Partition  *partition = WinGetPartitionLocalMemory(PG_WINDOW_OBJECT(), sizeof(Partition));
	MemoryContext context;
	MemoryContext old;

	if (partition->run != NULL)
		return partition;
	context = AllocSetContextCreate(GetMemoryChunkContext(partition), "fasted partition",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	partition->block = palloc(sizeof(OutputBlock));
	partition->block->nrows = 0;
	if (window->composite)
	{
		(void) get_call_result_type(fcinfo, NULL, &partition->desc);
		partition->desc = BlessTupleDesc(partition->desc);
	}
	partition->run = RunPartition(fcinfo, window);
	MemoryContextSwitchTo(old);
	return partition;
}

/*
 * Turns to the row with this number.  Returns false if it has no vector.  To be called in the order
 * of rows.
 */
static bool
FindResult(Partition *partition, int64 number)
{
	OutputBlock *block = partition->block;

	for (;; partition->next++)
	{
		if (partition->next >= block->nrows)
		{
			partition->next = 0;
			if (!FillRows(partition->run, block))
				return false;
		}
		if (DatumGetInt64(block->values[0][partition->next]) >= number)
			break;
	}
	return DatumGetInt64(block->values[0][partition->next]) == number;
}

/* Returns a column of the row that FindResult found. */
static NullableDatum
ResultColumn(const Partition *partition, int column)
{
	return (NullableDatum) {
		.value = partition->block->values[column][partition->next],
		.isnull = partition->block->nulls[column][partition->next]
	};
}

/* Returns the columns of that row after the first, as a composite value. */
static Datum
CompositeResult(const Partition *partition)
{
	Datum		values[OUTPUT_COLUMNS];
	bool		nulls[OUTPUT_COLUMNS];

	for (int i = 0; i < partition->desc->natts; i++)
	{
		NullableDatum column = ResultColumn(partition, i + 1);

		values[i] = column.value;
		nulls[i] = column.isnull;
	}
	return HeapTupleGetDatum(heap_form_tuple(partition->desc, values, nulls));
}

/* Returns the current row's result: null if it has no vector, or if the result is null. */
static Datum
WindowResult(FunctionCallInfo fcinfo, const WindowFunction *window)
{
	Partition  *partition = CurrentPartition(fcinfo, window);
	NullableDatum result;

	if (!FindResult(partition, WinGetCurrentPosition(PG_WINDOW_OBJECT()) + 1))
		PG_RETURN_NULL();
	if (window->composite)
		return CompositeResult(partition);
	result = ResultColumn(partition, 1);
	if (result.isnull)
		PG_RETURN_NULL();
	return result.value;
}

/* --- the functions */

/* A SQL function and its WindowFunction. */
#define WINDOW_FUNCTION(sql_name, ...) \
	PG_FUNCTION_INFO_V1(sql_name); \
	Datum \
	sql_name(PG_FUNCTION_ARGS) \
	{ \
		static const WindowFunction window = {__VA_ARGS__}; \
 \
		return WindowResult(fcinfo, &window); \
	}

/* The arguments of a clustering function with this number of own arguments. */
#define EPS_AND_METRIC(eps, metric, own_arguments) \
	[CLUSTERING_EPS] = eps, [CLUSTERING_AFTER_EPS + (own_arguments)] = metric

WINDOW_FUNCTION(fasted_dbscan,.function = &cluster_function,
				.args = {EPS_AND_METRIC(1, 3, 1), [CLUSTERING_AFTER_EPS] = 2})
WINDOW_FUNCTION(fasted_neighbor_count,.function = &neighbors_function,
				.args = {EPS_AND_METRIC(1, 2, 0)})
WINDOW_FUNCTION(fasted_hdbscan_cluster,.function = &hdbscan_function,.composite = true,
				.args = {0, 0, 1, 2, 3, 4, 5, 6, 7})

/* Number of the argument id of fasted_keep. */
#define KEEP_ID 2

/* Sets the id of a representative, the current row; the first call allocates the array of ids. */
static void
KeepId(Partition *partition, FunctionCallInfo fcinfo, int64 number)
{
	WindowObject window = PG_WINDOW_OBJECT();
	NullableDatum id;
	MemoryContext old;

	id.value = WinGetFuncArgCurrent(window, KEEP_ID, &id.isnull);
	old = MemoryContextSwitchTo(partition->run->context);
	if (partition->ids == NULL)
	{
		get_typlenbyval(get_fn_expr_argtype(fcinfo->flinfo, KEEP_ID), &partition->id_length,
						&partition->id_by_value);
		partition->ids = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(NullableDatum) *
												(WinGetPartitionRowCount(window) + 1));
	}
	if (!id.isnull)
		id.value = datumCopy(id.value, partition->id_by_value, partition->id_length);
	MemoryContextSwitchTo(old);
	partition->ids[number] = id;
}

PG_FUNCTION_INFO_V1(fasted_keep);

/*
 * A representative precedes the rows that it represents, so its id has been stored before.  A row
 * without a vector is like no other row, so it represents itself.
 */
Datum
fasted_keep(PG_FUNCTION_ARGS)
{
	/* priority_column is null, since row numbers are the priority */
	static const WindowFunction window = {
		.function = &keep_one_function,.args = {EPS_AND_METRIC(1, 3, 2)}
	};
	WindowObject object = PG_WINDOW_OBJECT();
	Partition  *partition = CurrentPartition(fcinfo, &window);
	int64		number = WinGetCurrentPosition(object) + 1;
	int64		kept;
	NullableDatum *id;

	if (!FindResult(partition, number))
		return WinGetFuncArgCurrent(object, KEEP_ID, &fcinfo->isnull);
	kept = DatumGetInt64(ResultColumn(partition, 1).value);
	if (kept == number)
		KeepId(partition, fcinfo, number);
	id = &partition->ids[kept];
	if (id->isnull)
		PG_RETURN_NULL();
	return id->value;
}
