/*-------------------------------------------------------------------------
 *
 * self_join.c
 *	  The SQL functions fasted_self_join: arguments in, tuples out.
 *
 * Here the whole result goes into a tuplestore.  In a FROM clause the planner
 * mostly puts a scan node in the function's place, which streams: scan_node.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "rows/source.h"
#include "scan/row_stream.h"
#include "scan/scan_node.h"
#include "scan/self_join.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(fasted_self_join);
PG_FUNCTION_INFO_V1(fasted_self_join_typed);

/*
 * Where the rows of a result go.  With ids of eight bytes every tuple looks the same
 * but for its three values: they are written into a tuple formed once, which halves
 * the cost of a row.
 */
typedef struct RowStore
{
	Tuplestorestate *store;
	TupleDesc	desc;
	TupleTableSlot *slot;		/* holds the tuple formed once; else NULL */
	Datum	   *slot_values;	/* its three values */
} RowStore;

SelfJoinArgs
GetSelfJoinArgs(FunctionCallInfo fcinfo, int first)
{
	SelfJoinArgs args;

	RequireArgument(fcinfo, first + SELF_JOIN_RELATION, "fasted_self_join", "relation");
	RequireArgument(fcinfo, first + SELF_JOIN_COLUMN, "fasted_self_join", "vector_column");
	RequireArgument(fcinfo, first + SELF_JOIN_EPS, "fasted_self_join", "eps");
	RequireArgument(fcinfo, first + SELF_JOIN_ORDERED, "fasted_self_join", "ordered");
	RequireArgument(fcinfo, first + SELF_JOIN_SELF_PAIRS, "fasted_self_join", "self_pairs");
	RequireArgument(fcinfo, first + SELF_JOIN_METRIC, "fasted_self_join", "metric");

	args.relation = PG_GETARG_OID(first + SELF_JOIN_RELATION);
	args.vector_column = NameStr(*PG_GETARG_NAME(first + SELF_JOIN_COLUMN));
	args.eps = PG_GETARG_FLOAT8(first + SELF_JOIN_EPS);
	args.id_column = PG_ARGISNULL(first + SELF_JOIN_ID_COLUMN) ? NULL :
		NameStr(*PG_GETARG_NAME(first + SELF_JOIN_ID_COLUMN));
	args.ordered = PG_GETARG_BOOL(first + SELF_JOIN_ORDERED);
	args.self_pairs = PG_GETARG_BOOL(first + SELF_JOIN_SELF_PAIRS);
	args.metric = MetricFromText(PG_GETARG_TEXT_PP(first + SELF_JOIN_METRIC));
	args.partition_by = PG_ARGISNULL(first + SELF_JOIN_PARTITION_BY) ? NULL :
		NameStr(*PG_GETARG_NAME(first + SELF_JOIN_PARTITION_BY));

	RequireDistance(args.eps);
	return args;
}

/* The tuple formed once, if ids and distances are eight bytes by value. */
static void
PrepareSlot(RowStore *rows)
{
	Form_pg_attribute id = TupleDescAttr(rows->desc, 0);
	TupleTableSlot *zeros;
	MinimalTuple tuple;

	if (!FLOAT8PASSBYVAL || !id->attbyval || id->attlen != sizeof(Datum))
		return;
	zeros = MakeSingleTupleTableSlot(rows->desc, &TTSOpsVirtual);
	memset(zeros->tts_values, 0, 3 * sizeof(Datum));
	memset(zeros->tts_isnull, false, 3 * sizeof(bool));
	ExecStoreVirtualTuple(zeros);
	tuple = ExecCopySlotMinimalTuple(zeros);
	ExecDropSingleTupleTableSlot(zeros);

	rows->slot = MakeSingleTupleTableSlot(rows->desc, &TTSOpsMinimalTuple);
	ExecStoreMinimalTuple(tuple, rows->slot, false);
	rows->slot_values = (Datum *) ((char *) tuple + tuple->t_hoff - MINIMAL_TUPLE_OFFSET);
}

static void
StoreBlock(const RowStore *rows, const OutletBlock *block)
{
	bool		nulls[3] = {false, false, false};

	for (uint32 row = 0; row < block->nrows; row++)
	{
		Datum		values[3] = {block->values[0][row], block->values[1][row], block->values[2][row]};

		if (rows->slot != NULL)
		{
			memcpy(rows->slot_values, values, sizeof(values));
			tuplestore_puttupleslot(rows->store, rows->slot);
		}
		else
			tuplestore_putvalues(rows->store, rows->desc, values, nulls);
	}
}

static void
SelfJoin(const SelfJoinArgs *args, Oid key_type, ReturnSetInfo *rsinfo)
{
	RowRequest	request = RequestAllRows(args, key_type);
	RowStream  *stream = RowStreamBegin(&request);
	OutletBlock *block = palloc(sizeof(OutletBlock));
	RowStore	rows = {.store = rsinfo->setResult,.desc = rsinfo->setDesc};

	PrepareSlot(&rows);
	while (RowStreamNext(stream, block))
		StoreBlock(&rows, block);
	if (rows.slot != NULL)
		ExecDropSingleTupleTableSlot(rows.slot);
	RowStreamEnd(stream);
}

/* fasted_self_join(relation, vector_column, eps, id_column, ordered, self_pairs, metric, partition_by) */
Datum
fasted_self_join(PG_FUNCTION_ARGS)
{
	SelfJoinArgs args = GetSelfJoinArgs(fcinfo, 0);

	InitMaterializedSRF(fcinfo, 0);
	SelfJoin(&args, INT8OID, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}

/*
 * fasted_self_join_typed(id_type, relation, vector_column, eps, id_column, ordered,
 * self_pairs, metric, partition_by)
 */
Datum
fasted_self_join_typed(PG_FUNCTION_ARGS)
{
	SelfJoinArgs args = GetSelfJoinArgs(fcinfo, 1);
	Oid			key_type = get_fn_expr_argtype(fcinfo->flinfo, 0);

	if (!OidIsValid(key_type))
		elog(ERROR, "could not determine the type of the ids");
	InitMaterializedSRF(fcinfo, 0);
	SelfJoin(&args, key_type, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}
