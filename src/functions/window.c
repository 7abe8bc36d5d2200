/*-------------------------------------------------------------------------
 *
 * window.c
 *	  Window functions: clusters, rows to keep and numbers of neighbors for the rows of any query.
 *
 *	  fasted_dbscan(vector, eps, min_points, metric)	as fasted_cluster
 *	  fasted_components(vector, eps, metric)			as fasted_cluster with min_points 1
 *	  fasted_keep(id, vector, eps, metric)				as fasted_keep_one
 *	  fasted_neighbor_count(vector, eps, metric)		as fasted_neighbors
 *
 * At the first row of a partition the function in FROM (clustering.h) is run over all of its rows,
 * whose ids are their numbers, from 1 on, in the window's order.  Vectors go from the executor's
 * tuplestore into the engine one by one; what comes out of it is kept for the rows that follow.
 * Rows without a vector take no part.  eps, min_points and metric are those of the first row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "functions/clustering.h"
#include "nodes/execnodes.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "windowapi.h"

typedef struct WindowFunction
{
	const char *name;
	const FunctionDescriptor *function;
	int			vector;			/* numbers of arguments; negative: there is none */
	int			eps;
	int			min_points;
	int			metric;
	int			column;			/* of the function in FROM: the result */
} WindowFunction;

/* The rows of a partition, on their way into the engine. */
typedef struct PartitionRows
{
	RowPusher	pusher;
	WindowObject window;
	int			argument;		/* the vector */
	int64		count;
	ExprState  *cast;			/* to an array, of the value in econtext; NULL: it is one */
	ExprContext *econtext;
} PartitionRows;

/* What there is of a partition, in its memory; zeros at first. */
typedef struct Partition
{
	FunctionRun *run;			/* of the function in FROM; NULL before the first row */
	OutletBlock *block;			/* its rows: number and result */
	uint32		next;			/* of the block */

	/* Of fasted_keep: the ids of the rows that are kept, by number. */
	NullableDatum *ids;
	int16		id_length;
	bool		id_by_value;
} Partition;

/*
 * PostgreSQL does not tell a window function its frame.  This is how its WindowObject has begun in
 * all of its versions.
 */
typedef struct WindowObjectHead
{
	NodeTag		type;
	WindowAggState *winstate;
} WindowObjectHead;

static void
RequireDefaultFrame(WindowObject window, const char *name)
{
	const WindowAggState *state = ((const WindowObjectHead *) window)->winstate;

	if ((state->frameOptions & ~(FRAMEOPTION_NONDEFAULT | FRAMEOPTION_BETWEEN)) != FRAMEOPTION_DEFAULTS)
		ereport(ERROR,
				(errcode(ERRCODE_WINDOWING_ERROR),
				 errmsg("window function %s takes no frame clause", name),
				 errdetail("It compares each row with all rows of its partition."),
				 errhint("Remove ROWS, RANGE, GROUPS and EXCLUDE from its window.")));
}

/* --- rows in */

/* In the memory of the caller, for this row only. */
static Datum
VectorOfRow(const PartitionRows *rows, int64 row, bool *isnull)
{
	bool		out;
	Datum		vector = WinGetFuncArgInPartition(rows->window, rows->argument, row,
												  WINDOW_SEEK_HEAD, false, isnull, &out);

	if (*isnull || rows->cast == NULL)
		return vector;
	rows->econtext->caseValue_datum = vector;
	rows->econtext->caseValue_isNull = false;
	return ExecEvalExpr(rows->cast, rows->econtext, isnull);
}

static void
PushPartition(RowPusher *pusher, VectorJoin *join)
{
	PartitionRows *rows = (PartitionRows *) pusher;
	RowTaker   *taker = palloc0(sizeof(RowTaker));
	MemoryContext values = AllocSetContextCreate(CurrentMemoryContext, "fasted values",
												 ALLOCSET_SMALL_SIZES);

	taker->source = join->request.sources[0];
	taker->sink = JoinSink(join, 0);
	taker->row_context = AllocSetContextCreate(CurrentMemoryContext, "fasted row",
											   ALLOCSET_SMALL_SIZES);
	taker->sink->expect_rows(taker->sink, rows->count);
	for (int64 row = 0; row < rows->count && !taker->stopped; row++)
	{
		MemoryContext old = MemoryContextSwitchTo(values);
		bool		isnull;
		Datum		vector = VectorOfRow(rows, row, &isnull);

		MemoryContextSwitchTo(old);
		if (isnull && row % 64 == 0)
			CheckJoinInterrupts();
		if (!isnull)
			TakeSourceRow(taker, Int64GetDatum(row + 1), false, vector, false);
		MemoryContextReset(values);
	}
	MemoryContextDelete(taker->row_context);
	MemoryContextDelete(values);
}

/* What makes an array of a value of the vector's type; NULL: it is one. */
static void
PrepareCast(PartitionRows *rows, Oid type, Oid array)
{
	CaseTestExpr *value = makeNode(CaseTestExpr);

	if (getBaseType(type) == array)
		return;
	value->typeId = type;
	value->typeMod = -1;
	value->collation = get_typcollation(type);
	rows->econtext = CreateStandaloneExprContext();
	rows->cast = ExecInitExpr((Expr *) coerce_to_target_type(NULL, (Node *) value, type, array, -1,
															 COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1),
							  NULL);
}

/* --- a partition */

static Datum
RequiredArgument(const WindowFunction *window, WindowObject object, int n, const char *name)
{
	bool		isnull;
	Datum		value = WinGetFuncArgCurrent(object, n, &isnull);

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" of %s must not be null", name, window->name)));
	return value;
}

/* In the current memory context, all of it. */
static FunctionRun *
RunPartition(FunctionCallInfo fcinfo, const WindowFunction *window)
{
	WindowObject object = PG_WINDOW_OBJECT();
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, window->vector);
	NullableDatum *args = palloc0(FUNCTION_MOST_ARGS * sizeof(NullableDatum));
	PartitionRows *rows = palloc0(sizeof(PartitionRows));
	FunctionCall call = {
		.function = window->function,.args = args,.key_type = INT8OID,
		.columns = list_make2_int(1, window->column),.pusher = &rows->pusher
	};
	FunctionRun *run;

	RequireDefaultFrame(object, window->name);
	call.eps = DatumGetFloat8(RequiredArgument(window, object, window->eps, "eps"));
	RequireDistance(call.eps);
	call.metric = MetricFromText(DatumGetTextPP(RequiredArgument(window, object, window->metric, "metric")));
	call.rows = ResolveValues(type, call.metric, window->name);
	/* fasted_keep_one has the window's order for priority: arguments that are null or false */
	args[CLUSTERING_OWN].isnull = window->min_points < 0 && window->function == &keep_one_function;
	args[CLUSTERING_OWN].value = window->min_points < 0 ? Int32GetDatum(1) :
		RequiredArgument(window, object, window->min_points, "min_points");

	rows->pusher.push = PushPartition;
	rows->window = object;
	rows->argument = window->vector;
	rows->count = WinGetPartitionRowCount(object);
	if (rows->count > PG_INT32_MAX)
		ReportManyRows(NULL);
	call.few_rows = rows->count <= SMALL_JOIN_ROWS ? rows->count : 0;
	PrepareCast(rows, type, VectorFormType(call.rows->form));
	run = BeginFunctionRun(&call);
	if (rows->econtext != NULL)
		FreeExprContext(rows->econtext, true);
	return run;
}

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
	partition->block = palloc(sizeof(OutletBlock));
	partition->block->nrows = 0;
	partition->run = RunPartition(fcinfo, window);
	MemoryContextSwitchTo(old);
	return partition;
}

/* The result of the row with this number; false: it has no vector.  Rows come in their order. */
static bool
ResultOfRow(Partition *partition, int64 number, NullableDatum *result)
{
	OutletBlock *block = partition->block;

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
	result->value = block->values[1][partition->next];
	result->isnull = block->nulls[1][partition->next];
	return DatumGetInt64(block->values[0][partition->next]) == number;
}

static Datum
WindowResult(FunctionCallInfo fcinfo, const WindowFunction *window)
{
	NullableDatum result;

	if (!ResultOfRow(CurrentPartition(fcinfo, window),
					 WinGetCurrentPosition(PG_WINDOW_OBJECT()) + 1, &result) || result.isnull)
		PG_RETURN_NULL();
	return result.value;
}

/* --- the functions */

PG_FUNCTION_INFO_V1(fasted_dbscan);
PG_FUNCTION_INFO_V1(fasted_components);
PG_FUNCTION_INFO_V1(fasted_neighbor_count);
PG_FUNCTION_INFO_V1(fasted_keep);

Datum
fasted_dbscan(PG_FUNCTION_ARGS)
{
	static const WindowFunction window = {"fasted_dbscan", &cluster_function, 0, 1, 2, 3, 2};

	return WindowResult(fcinfo, &window);
}

Datum
fasted_components(PG_FUNCTION_ARGS)
{
	static const WindowFunction window = {"fasted_components", &cluster_function, 0, 1, -1, 2, 2};

	return WindowResult(fcinfo, &window);
}

Datum
fasted_neighbor_count(PG_FUNCTION_ARGS)
{
	static const WindowFunction window = {"fasted_neighbor_count", &neighbors_function, 0, 1, -1, 2, 2};

	return WindowResult(fcinfo, &window);
}

static NullableDatum *
IdsOfPartition(Partition *partition, FunctionCallInfo fcinfo)
{
	if (partition->ids == NULL)
	{
		get_typlenbyval(get_fn_expr_argtype(fcinfo->flinfo, 0), &partition->id_length,
						&partition->id_by_value);
		partition->ids = MemoryContextAllocHuge(partition->run->context, sizeof(NullableDatum) *
												(WinGetPartitionRowCount(PG_WINDOW_OBJECT()) + 1));
	}
	return partition->ids;
}

/* The current row's. */
static NullableDatum
CopyId(const Partition *partition, WindowObject window)
{
	NullableDatum id;
	MemoryContext old;

	id.value = WinGetFuncArgCurrent(window, 0, &id.isnull);
	old = MemoryContextSwitchTo(partition->run->context);
	if (!id.isnull)
		id.value = datumCopy(id.value, partition->id_by_value, partition->id_length);
	MemoryContextSwitchTo(old);
	return id;
}

/* The row that is kept comes before those that it stands for: its id is known when they come. */
Datum
fasted_keep(PG_FUNCTION_ARGS)
{
	static const WindowFunction window = {"fasted_keep", &keep_one_function, 1, 2, -1, 3, 2};
	WindowObject object = PG_WINDOW_OBJECT();
	Partition  *partition = CurrentPartition(fcinfo, &window);
	int64		number = WinGetCurrentPosition(object) + 1;
	NullableDatum result;
	NullableDatum *id;

	if (!ResultOfRow(partition, number, &result))
		PG_RETURN_NULL();
	id = &IdsOfPartition(partition, fcinfo)[DatumGetInt64(result.value)];
	if (DatumGetInt64(result.value) == number)
		*id = CopyId(partition, object);
	if (id->isnull)
		PG_RETURN_NULL();
	return id->value;
}
