/*-------------------------------------------------------------------------
 *
 * function.c
 *	  The SQL functions: their arguments, their runs, and storage of their results.
 *
 * A called function stores its whole result.  In a FROM clause, the planner usually replaces the
 * call by a plan node (function_node/), which returns rows as soon as they are computed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "rows/source.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "functions/function.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

/* --- arguments */

char *
NameArgument(const FunctionCall *call, int n)
{
	return call->args[n].isnull ? NULL : NameStr(*DatumGetName(call->args[n].value));
}

int32
IntegerArgument(const FunctionCall *call, int n, int32 least, int32 otherwise)
{
	int32		value = DatumGetInt32(call->args[n].value);

	if (call->args[n].isnull)
		return otherwise;
	if (value < least)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be at least %d", call->function->arguments[n].name, least),
				 errdetail("The value is %d.", value)));
	return value;
}

void
RequireArguments(const FunctionDescriptor *function, const NullableDatum *args)
{
	for (int i = 0; i < function->nargs; i++)
		if (function->arguments[i].required && args[i].isnull)
			ReportNullArgument(function->name, function->arguments[i].name);
}

FunctionCall
MakeFunctionCall(const FunctionDescriptor *function, const NullableDatum *args, Oid key_type)
{
	FunctionCall call = {.function = function,.args = args,.key_type = key_type,.ids = true};

	for (int i = 0; i < function->nsources; i++)
	{
		call.sources[i].relation = DatumGetObjectId(args[function->sources[i].relation].value);
		call.sources[i].vector_column = NameArgument(&call, function->sources[i].vector_column);
		call.sources[i].id_column = NameArgument(&call, function->sources[i].id_column);
	}
	call.metric = MetricFromText(DatumGetTextPP(args[function->metric].value));
	call.partition_by = NameArgument(&call, function->nargs - 1);
	if (function->eps > 0 && args[function->eps].isnull)
		call.eps = NAN;
	else if (function->eps > 0)
	{
		call.eps = DatumGetFloat8(args[function->eps].value);
		RequireDistance("eps", call.eps, call.metric);
	}
	return call;
}

VectorSource *
ResolveCallSource(const FunctionCall *call, int n, const char *id_column)
{
	const FunctionDescriptor *function = call->function;
	const CallSource *source = &call->sources[n];

	return ResolveSource(source->relation, source->vector_column, id_column,
						 function->arguments[function->sources[n].id_column].name,
						 call->key_type, call->metric, function->name, function->window);
}

/* --- runs */

FunctionRun *
BeginFunctionRun(const FunctionCall *call, const FunctionTotals *before)
{
	FunctionRun *run = palloc0(call->function->run_size);

	if (before != NULL)
		run->totals = *before;
	run->totals.runs++;
	run->totals.bytes = run->totals.spilled_pairs = 0;
	run->totals.tree = (TreeStats) {0};
	run->totals.shares = NIL;
	run->call = *call;
	run->context = CurrentMemoryContext;
	call->function->begin(run);
	return run;
}

bool
FillRows(FunctionRun *run, OutputBlock *block)
{
	MemoryContext old = MemoryContextSwitchTo(run->context);
	bool		more;

	block->nrows = 0;
	if (run->call.count)
	{
		block->values[0][block->nrows++] = Int64GetDatum((int64) run->call.function->count(run));
		more = true;
	}
	else
		more = run->call.function->fill(run, block);
	MemoryContextSwitchTo(old);
	return more;
}

bool
NextPairs(FunctionRun *run, const FastedPair **pairs, size_t *npairs)
{
	instr_time	begin = RunClock();
	bool		more = JoinNext(run->join, pairs, npairs);

	run->totals.wait_seconds += SecondsSince(begin);
	if (!more)
		*npairs = 0;
	return more;
}

const NeighborList *
NextList(FunctionRun *run, bool wait)
{
	const NeighborList *list = JoinNextList(run->join, false);
	instr_time	begin;

	if (list != NULL || !wait)
		return list;
	begin = RunClock();
	list = JoinNextList(run->join, true);
	run->totals.wait_seconds += SecondsSince(begin);
	return list;
}

void
PauseFunctionRun(FunctionRun *run)
{
	if (run->join != NULL)
		JoinPause(run->join);
}

void
EndFunctionRun(FunctionRun *run)
{
	if (run->join != NULL)
		FinishJoin(run);
}

/* --- statistics */

/* Adds up the statistics of joins that had an engine, as AddJoinStatistics does. */
static FastedStats
SumStatistics(const FastedStats *sum, const FastedStats *run)
{
	FastedStats result = *run;

	result.rows = sum->rows + run->rows;
	result.candidates = sum->candidates + run->candidates;
	result.pairs = sum->pairs + run->pairs;
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		result.pruned_tiles[level] = sum->pruned_tiles[level] + run->pruned_tiles[level];
	result.full_tiles = sum->full_tiles + run->full_tiles;
	result.panels = Max(sum->panels, run->panels);
	result.host_bytes = Max(sum->host_bytes, run->host_bytes);
	result.device_bytes = Max(sum->device_bytes, run->device_bytes);
	result.prepare_seconds = sum->prepare_seconds + run->prepare_seconds;
	result.filter_seconds = sum->filter_seconds + run->filter_seconds;
	result.refine_seconds = sum->refine_seconds + run->refine_seconds;
	result.device_seconds = sum->device_seconds + run->device_seconds;
	return result;
}

void
AddJoinStatistics(FastedStats *sum, const VectorJoin *join)
{
	FastedStats stats = JoinStatistics(join);

	if (stats.engine[0] != '\0')
		*sum = SumStatistics(sum, &stats);
}

/* Adds a join to the totals. */
static void
AddJoin(FunctionTotals *totals, const VectorJoin *join)
{
	AddJoinStatistics(&totals->stats, join);
	totals->read_seconds += join->read_seconds;
	totals->shares = JoinShares(join);
	totals->partitions += join->npartitions;
}

void
FinishJoin(FunctionRun *run)
{
	AddJoin(&run->totals, run->join);
	JoinEnd(run->join);
	run->join = NULL;
}

FunctionTotals
RunTotals(const FunctionRun *run)
{
	FunctionTotals totals = run->totals;

	if (run->join != NULL)
		AddJoin(&totals, run->join);
	totals.shares = copyObject(totals.shares);	/* the run's list is freed with the run */
	return totals;
}

/* --- rows stored as a function's result */

static void
StoreRows(const FunctionCall *call, const ReturnSetInfo *rsinfo)
{
	OutputBlock *block = palloc0(sizeof(OutputBlock));
	FunctionRun *run = BeginFunctionRun(call, NULL);

	while (FillRows(run, block))
		for (uint32 row = 0; row < block->nrows; row++)
		{
			Datum		values[OUTPUT_COLUMNS];
			bool		nulls[OUTPUT_COLUMNS];

			for (int i = 0; i < call->function->ncolumns; i++)
			{
				values[i] = block->values[i][row];
				nulls[i] = block->nulls[i][row];
			}
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	EndFunctionRun(run);
}

void
RequireNullIdType(bool isnull)
{
	if (isnull)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("id_type must be NULL"),
			 errdetail("Only its type is used, as that of the ids."),
			 errhint("Write it by name, such as id_type => NULL::text, and other arguments by their names.")));
}

/* Stores the result of a call. */
static Datum
StoreFunction(FunctionCallInfo fcinfo, const FunctionDescriptor *function)
{
	int			id_type = FindIdType(fcinfo->flinfo->fn_oid);
	Oid			key_type = id_type < 0 ? INT8OID : get_fn_expr_argtype(fcinfo->flinfo, id_type);
	NullableDatum args[FUNCTION_MAX_ARGS];
	MemoryContext context;
	MemoryContext old;
	FunctionCall call;

	if (!OidIsValid(key_type))
		elog(ERROR, "could not determine the type of the ids");
	RequireNullIdType(id_type < 0 || fcinfo->args[id_type].isnull);
	for (int n = 0; n < function->nargs; n++)
		args[n] = fcinfo->args[n == id_type ? function->nargs : n];
	RequireArguments(function, args);
	call = MakeFunctionCall(function, args, key_type);
	InitMaterializedSRF(fcinfo, 0);
	context = AllocSetContextCreate(CurrentMemoryContext, "fasted function", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	StoreRows(&call, (ReturnSetInfo *) fcinfo->resultinfo);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return (Datum) 0;
}

/* --- the functions, both forms of each */

#define SQL_FUNCTION(name, function) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		return StoreFunction(fcinfo, &function); \
	}

SQL_FUNCTION(fasted_self_join, self_join_function)
SQL_FUNCTION(fasted_knn_join, nearest_function)
SQL_FUNCTION(fasted_neighbors, neighbors_function)
SQL_FUNCTION(fasted_cluster, cluster_function)
SQL_FUNCTION(fasted_keep_one, keep_one_function)
SQL_FUNCTION(fasted_spanning_tree, spanning_tree_function)
SQL_FUNCTION(fasted_hdbscan, hdbscan_function)

static const struct
{
	const FunctionDescriptor *function;
	PGFunction	address;
}			functions[FUNCTIONS] =
{
	{&self_join_function, fasted_self_join},
	{&nearest_function, fasted_knn_join},
	{&neighbors_function, fasted_neighbors},
	{&cluster_function, fasted_cluster},
	{&keep_one_function, fasted_keep_one},
	{&spanning_tree_function, fasted_spanning_tree},
	{&hdbscan_function, fasted_hdbscan}
};

const FunctionDescriptor *
NumberedFunction(int number)
{
	return functions[number].function;
}

int
FindFunction(PGFunction address)
{
	for (int number = 0; number < FUNCTIONS; number++)
		if (address == functions[number].address)
			return number;
	return -1;
}

int
FindIdType(Oid funcid)
{
	Oid		   *types;
	int			nargs;

	(void) get_func_signature(funcid, &types, &nargs);
	for (int n = 0; n < nargs; n++)
		if (types[n] == ANYCOMPATIBLEOID)
			return n;
	return -1;
}

List *
CallArguments(const FuncExpr *call, Oid *key_type)
{
	int			n = FindIdType(call->funcid);
	List	   *args;

	*key_type = INT8OID;
	if (n < 0)
		return call->args;
	*key_type = exprType(list_nth(call->args, n));
	args = list_copy(call->args);
	lfirst(list_nth_cell(args, n)) = llast(args);
	return list_delete_last(args);
}
