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

#include "access/htup_details.h"
#include "rows/source.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
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

/* Raises an error if a required argument is null. */
static void
RequireArguments(const FunctionDescriptor *function, const NullableDatum *args)
{
	for (int i = 0; i < function->nargs; i++)
		if (function->arguments[i].required && args[i].isnull)
			ReportNullArgument(function->name, function->arguments[i].name);
}

FunctionCall
MakeFunctionCall(const FunctionDescriptor *function, const NullableDatum *args, Oid key_type)
{
	FunctionCall call = {
		.function = function,.args = args,.key_type = key_type,
		.filter = {.least = -HUGE_VAL,.most = HUGE_VAL,.below = true,.equal = true,.above = true}
	};

	RequireArguments(function, args);
	for (int i = 0; i < function->nsources; i++)
	{
		call.sources[i].relation = DatumGetObjectId(args[function->sources[i].relation].value);
		call.sources[i].vector_column = NameArgument(&call, function->sources[i].vector_column);
		call.sources[i].id_column = NameArgument(&call, function->sources[i].id_column);
	}
	call.metric = MetricFromText(DatumGetTextPP(args[function->metric].value));
	call.partition_by = NameArgument(&call, function->nargs - 1);
	if (function->eps >= 0 && args[function->eps].isnull)
		call.eps = NAN;
	else if (function->eps >= 0)
	{
		call.eps = DatumGetFloat8(args[function->eps].value);
		RequireDistance("eps", call.eps, call.metric);
	}
	for (int column = 1; column <= function->ncolumns; column++)
		call.columns = lappend_int(call.columns, column);
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
BeginFunctionRun(const FunctionCall *call)
{
	FunctionRun *run = palloc0(call->function->run_size);

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
	more = run->call.function->fill(run, block);
	MemoryContextSwitchTo(old);
	return more;
}

uint64
CountRows(FunctionRun *run)
{
	MemoryContext old = MemoryContextSwitchTo(run->context);
	uint64		count = run->call.function->count(run);

	MemoryContextSwitchTo(old);
	return count;
}

bool
NextPairs(FunctionRun *run, const FastedPair **pairs, size_t *npairs)
{
	instr_time	begin = RunClock(run);
	bool		more = JoinNext(run->join, pairs, npairs);

	AddSeconds(run, &run->totals.wait_seconds, begin);
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
	begin = RunClock(run);
	list = JoinNextList(run->join, true);
	AddSeconds(run, &run->totals.wait_seconds, begin);
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

/* Adds up statistics as AddJoinStatistics does. */
static FastedStats
SumStatistics(const FastedStats *sum, const FastedStats *run)
{
	FastedStats result = run->engine[0] != '\0' ? *run : *sum;

	result.rows = sum->rows + run->rows;
	result.dimensions = run->dimensions;
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

bool
AddJoinStatistics(FastedStats *sum, double *read_seconds, const VectorJoin *join)
{
	FastedStats stats;
	double		seconds;
	bool		ran = JoinStatistics(join, &stats, &seconds);

	*read_seconds += seconds;
	if (ran)
		*sum = SumStatistics(sum, &stats);
	return ran;
}

/* Adds a join to the totals. */
static void
AddJoin(FunctionTotals *totals, const VectorJoin *join)
{
	if (AddJoinStatistics(&totals->stats, &totals->read_seconds, join))
		totals->joins++;
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

/* Copies a list of JoinShare. */
static List *
CopyShares(List *shares)
{
	List	   *copies = NIL;
	ListCell   *cell;

	foreach(cell, shares)
	{
		JoinShare  *copy = palloc(sizeof(JoinShare));

		*copy = *(const JoinShare *) lfirst(cell);
		copy->name = pstrdup(copy->name);
		copies = lappend(copies, copy);
	}
	return copies;
}

/* The list of shares is copied, because the run's own list is freed with the run. */
FunctionTotals
AddRun(const FunctionTotals *totals, const FunctionRun *run)
{
	FunctionTotals sum = *totals;
	FunctionTotals more = run->totals;

	if (run->join != NULL)
		AddJoin(&more, run->join);
	sum.runs++;
	sum.joins += more.joins;
	if (more.joins > 0)
		sum.stats = SumStatistics(&totals->stats, &more.stats);
	sum.partitions += more.partitions;
	sum.read_seconds += more.read_seconds;
	sum.wait_seconds += more.wait_seconds;
	sum.output_seconds += more.output_seconds;
	sum.bytes = more.bytes;
	sum.spilled_pairs = more.spilled_pairs;
	sum.tree = more.tree;
	sum.tree_seconds += more.tree_seconds;
	sum.shares = CopyShares(more.shares);
	return sum;
}

/* --- rows stored as a function's result */

/*
 * The tuplestore for the result.  If all columns are 8-byte values passed by value, tuples differ
 * only in these values.  Then a single tuple is formed and its values are overwritten for each
 * row, which halves the cost of a row.
 */
typedef struct RowStore
{
	Tuplestorestate *store;
	TupleDesc	desc;
	TupleTableSlot *slot;		/* holds the single tuple; NULL if there is none */
	Datum	   *slot_values;	/* values within this tuple */
} RowStore;

/* Returns true if all columns are passed by value and have the size of a Datum. */
static bool
HasDatumColumns(TupleDesc desc)
{
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attbyval || TupleDescAttr(desc, i)->attlen != sizeof(Datum))
			return false;
	return true;
}

static void
PrepareSlot(RowStore *rows)
{
	TupleTableSlot *zeros;
	MinimalTuple tuple;

	if (!HasDatumColumns(rows->desc))
		return;
	zeros = MakeSingleTupleTableSlot(rows->desc, &TTSOpsVirtual);
	memset(zeros->tts_values, 0, rows->desc->natts * sizeof(Datum));
	memset(zeros->tts_isnull, false, rows->desc->natts * sizeof(bool));
	ExecStoreVirtualTuple(zeros);
	tuple = ExecCopySlotMinimalTuple(zeros);
	ExecDropSingleTupleTableSlot(zeros);

	rows->slot = MakeSingleTupleTableSlot(rows->desc, &TTSOpsMinimalTuple);
	ExecStoreMinimalTuple(tuple, rows->slot, false);
	rows->slot_values = (Datum *) ((char *) tuple + tuple->t_hoff - MINIMAL_TUPLE_OFFSET);
}

static void
StoreBlock(const RowStore *rows, const OutputBlock *block, bool nullable)
{
	bool		nulls[OUTPUT_COLUMNS] = {false};
	Datum		values[OUTPUT_COLUMNS];
	int			ncolumns = rows->desc->natts;
	Datum	   *row_values = rows->slot != NULL ? rows->slot_values : values;

	for (uint32 row = 0; row < block->nrows; row++)
	{
		for (int i = 0; i < ncolumns; i++)
			row_values[i] = block->values[i][row];
		if (rows->slot != NULL)
		{
			tuplestore_puttupleslot(rows->store, rows->slot);
			continue;
		}
		for (int i = 0; nullable && i < ncolumns; i++)
			nulls[i] = block->nulls[i][row];
		tuplestore_putvalues(rows->store, rows->desc, values, nulls);
	}
}

static void
StoreRows(const FunctionCall *call, ReturnSetInfo *rsinfo)
{
	RowStore	rows = {.store = rsinfo->setResult,.desc = rsinfo->setDesc};
	OutputBlock *block = palloc(sizeof(OutputBlock));
	FunctionRun *run = BeginFunctionRun(call);

	Assert(rows.desc->natts == call->function->ncolumns);
	PrepareSlot(&rows);
	while (FillRows(run, block))
		StoreBlock(&rows, block, call->function->nullable);
	if (rows.slot != NULL)
		ExecDropSingleTupleTableSlot(rows.slot);
	EndFunctionRun(run);
}

pg_noreturn static void
ReportIdTypeValue(void)
{
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
	if (id_type >= 0 && !fcinfo->args[id_type].isnull)
		ReportIdTypeValue();
	for (int n = 0; n < function->nargs; n++)
		args[n] = fcinfo->args[n == id_type ? function->nargs : n];
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
	Node	   *id_type;
	List	   *args;

	*key_type = INT8OID;
	if (n < 0)
		return call->args;
	id_type = list_nth(call->args, n);
	*key_type = exprType(id_type);
	if (IsA(id_type, Const) && !((Const *) id_type)->constisnull)
		ReportIdTypeValue();
	args = list_copy(call->args);
	lfirst(list_nth_cell(args, n)) = llast(args);
	return list_delete_last(args);
}
