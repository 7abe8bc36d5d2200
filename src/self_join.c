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

#include <math.h>

#include "access/htup_details.h"
#include "arguments.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "interrupts.h"
#include "join.h"
#include "self_join.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(fasted_self_join);
PG_FUNCTION_INFO_V1(fasted_self_join_any);

/*
 * Where the tuples of a result go.  With ids of eight bytes every tuple looks
 * the same but for its three values: they are written into a tuple formed once,
 * which halves the cost of a row.
 */
typedef struct PairOutput
{
	Tuplestorestate *store;
	TupleDesc	desc;
	const KeySet *keys;
	TupleTableSlot *slot;		/* holds the tuple formed once; else NULL */
	Datum	   *slot_values;	/* its three values */
} PairOutput;

SelfJoinArgs
GetSelfJoinArgs(FunctionCallInfo fcinfo, int first)
{
	SelfJoinArgs args;

	RequireArgument(fcinfo, first + SELF_JOIN_RELATION, "fasted_self_join", "relation");
	RequireArgument(fcinfo, first + SELF_JOIN_COLUMN, "fasted_self_join", "column");
	RequireArgument(fcinfo, first + SELF_JOIN_EPS, "fasted_self_join", "eps");
	RequireArgument(fcinfo, first + SELF_JOIN_ORDERED, "fasted_self_join", "ordered");
	RequireArgument(fcinfo, first + SELF_JOIN_SELF_PAIRS, "fasted_self_join", "self_pairs");

	args.relation = PG_GETARG_OID(first + SELF_JOIN_RELATION);
	args.vector_column = NameStr(*PG_GETARG_NAME(first + SELF_JOIN_COLUMN));
	args.eps = PG_GETARG_FLOAT8(first + SELF_JOIN_EPS);
	args.id_column = PG_ARGISNULL(first + SELF_JOIN_ID_COLUMN) ? NULL :
		NameStr(*PG_GETARG_NAME(first + SELF_JOIN_ID_COLUMN));
	args.ordered = PG_GETARG_BOOL(first + SELF_JOIN_ORDERED);
	args.self_pairs = PG_GETARG_BOOL(first + SELF_JOIN_SELF_PAIRS);

	if (isnan(args.eps) || args.eps < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("eps must not be %s", isnan(args.eps) ? "NaN" : "negative"),
				 errhint("Use 0 to find exact duplicates, 'Infinity' to get all pairs.")));
	return args;
}

/* The tuple formed once, if ids and distances are eight bytes by value. */
static void
PrepareSlot(PairOutput *output)
{
	TupleTableSlot *zeros;
	MinimalTuple tuple;

	if (!FLOAT8PASSBYVAL || !output->keys->typbyval || output->keys->typlen != sizeof(Datum))
		return;
	zeros = MakeSingleTupleTableSlot(output->desc, &TTSOpsVirtual);
	memset(zeros->tts_values, 0, 3 * sizeof(Datum));
	memset(zeros->tts_isnull, false, 3 * sizeof(bool));
	ExecStoreVirtualTuple(zeros);
	tuple = ExecCopySlotMinimalTuple(zeros);
	ExecDropSingleTupleTableSlot(zeros);

	output->slot = MakeSingleTupleTableSlot(output->desc, &TTSOpsMinimalTuple);
	ExecStoreMinimalTuple(tuple, output->slot, false);
	output->slot_values = (Datum *) ((char *) tuple + tuple->t_hoff - MINIMAL_TUPLE_OFFSET);
}

static inline void
PutPair(const PairOutput *output, uint32 a, uint32 b, double dist)
{
	bool		nulls[3] = {false, false, false};
	Datum		values[3];

	values[0] = output->keys->values[a];
	values[1] = output->keys->values[b];
	values[2] = Float8GetDatum(dist);
	if (output->slot != NULL)
	{
		memcpy(output->slot_values, values, sizeof(values));
		tuplestore_puttupleslot(output->store, output->slot);
	}
	else
		tuplestore_putvalues(output->store, output->desc, values, nulls);
}

static void
PutPairs(const PairOutput *output, const FastedPair *pairs, size_t npairs, bool ordered)
{
	for (size_t i = 0; i < npairs; i++)
	{
		bool		below = KeyBelow(output->keys, pairs[i].a, pairs[i].b);
		uint32		low = below ? pairs[i].a : pairs[i].b;
		uint32		high = below ? pairs[i].b : pairs[i].a;

		PutPair(output, low, high, pairs[i].dist);
		if (ordered)
			PutPair(output, high, low, pairs[i].dist);
	}
}

static void
PutSelfPairs(const PairOutput *output)
{
	for (uint32 row = 0; row < output->keys->count; row++)
	{
		if (row % 1024 == 0)
			CheckJoinInterrupts();
		PutPair(output, row, row, 0.0);
	}
}

static void
SelfJoin(const SelfJoinArgs *args, Oid key_type, ReturnSetInfo *rsinfo)
{
	VectorSource *source = ResolveSource(args->relation, args->vector_column,
										 args->id_column, key_type);
	Join	   *join = JoinBegin(source, args->eps);
	PairOutput	output = {
		.store = rsinfo->setResult,
		.desc = rsinfo->setDesc,
		.keys = JoinKeys(join)
	};
	const FastedPair *pairs;
	size_t		npairs;

	PrepareSlot(&output);
	while (JoinNext(join, &pairs, &npairs))
		PutPairs(&output, pairs, npairs, args->ordered);
	if (args->self_pairs)
		PutSelfPairs(&output);
	if (output.slot != NULL)
		ExecDropSingleTupleTableSlot(output.slot);
	JoinEnd(join);
}

/* fasted_self_join(relation, column, eps, id_column, ordered, self_pairs) */
Datum
fasted_self_join(PG_FUNCTION_ARGS)
{
	SelfJoinArgs args = GetSelfJoinArgs(fcinfo, 0);

	InitMaterializedSRF(fcinfo, 0);
	SelfJoin(&args, INT8OID, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}

/* fasted_self_join(id_type, relation, column, eps, id_column, ordered, self_pairs) */
Datum
fasted_self_join_any(PG_FUNCTION_ARGS)
{
	SelfJoinArgs args = GetSelfJoinArgs(fcinfo, 1);
	Oid			key_type = get_fn_expr_argtype(fcinfo->flinfo, 0);

	if (!OidIsValid(key_type))
		elog(ERROR, "could not determine the type of the ids");
	InitMaterializedSRF(fcinfo, 0);
	SelfJoin(&args, key_type, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}
