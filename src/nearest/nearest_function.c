/*-------------------------------------------------------------------------
 *
 * nearest_function.c
 *	  The SQL functions fasted_knn_join: arguments in, tuples out.
 *
 * Here the whole result goes into a tuplestore.  In a FROM clause the planner mostly
 * puts a node in the function's place, which streams: nearest_node.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nearest/nearest_run.h"
#include "rows/source.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(fasted_knn_join);
PG_FUNCTION_INFO_V1(fasted_knn_join_typed);

static void
RequireArguments(FunctionCallInfo fcinfo, int first)
{
	static const struct
	{
		int			number;
		const char *name;
	}			required[] = {
		{NEAREST_A, "a"}, {NEAREST_A_COLUMN, "a_column"}, {NEAREST_B, "b"},
		{NEAREST_B_COLUMN, "b_column"}, {NEAREST_K, "k"}, {NEAREST_METRIC, "metric"}
	};

	for (int i = 0; i < (int) lengthof(required); i++)
		RequireArgument(fcinfo, first + required[i].number, "fasted_knn_join", required[i].name);
}

static uint32
GetCount(FunctionCallInfo fcinfo, int n)
{
	int32		k = PG_GETARG_INT32(n);

	if (k < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("k must be at least 1"),
				 errdetail("It is %d.", k)));
	return (uint32) k;
}

/* NULL: as far as any. */
static double
GetMaxDistance(FunctionCallInfo fcinfo, int n)
{
	double		distance = PG_ARGISNULL(n) ? INFINITY : PG_GETARG_FLOAT8(n);

	if (isnan(distance) || distance < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_distance must not be %s", isnan(distance) ? "NaN" : "negative"),
				 errhint("Leave it out, or make it NULL, for neighbours at any distance.")));
	return distance;
}

static char *
GetName(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : NameStr(*PG_GETARG_NAME(n));
}

NearestArgs
GetNearestArgs(FunctionCallInfo fcinfo, int first, Oid key_type)
{
	NearestArgs args = {.key_type = key_type};

	RequireArguments(fcinfo, first);
	args.a.relation = PG_GETARG_OID(first + NEAREST_A);
	args.a.vector_column = GetName(fcinfo, first + NEAREST_A_COLUMN);
	args.a.id_column = GetName(fcinfo, first + NEAREST_A_ID);
	args.b.relation = PG_GETARG_OID(first + NEAREST_B);
	args.b.vector_column = GetName(fcinfo, first + NEAREST_B_COLUMN);
	args.b.id_column = GetName(fcinfo, first + NEAREST_B_ID);
	args.k = GetCount(fcinfo, first + NEAREST_K);
	args.metric = MetricFromText(PG_GETARG_TEXT_PP(first + NEAREST_METRIC));
	args.max_distance = GetMaxDistance(fcinfo, first + NEAREST_MAX_DISTANCE);
	args.partition_by = GetName(fcinfo, first + NEAREST_PARTITION_BY);
	return args;
}

static void
StoreBlock(ReturnSetInfo *rsinfo, const OutletBlock *block)
{
	Datum		values[NEAREST_NCOLUMNS];
	bool		nulls[NEAREST_NCOLUMNS] = {false};

	for (uint32 row = 0; row < block->nrows; row++)
	{
		for (int i = 0; i < NEAREST_NCOLUMNS; i++)
			values[i] = block->values[i][row];
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

static Datum
StoreNearest(FunctionCallInfo fcinfo, int first, Oid key_type)
{
	List	   *columns = list_make4_int(1, 2, 3, 4);
	OutletBlock *block = palloc(sizeof(OutletBlock));
	NearestArgs args = GetNearestArgs(fcinfo, first, key_type);
	NearestRun *run;

	InitMaterializedSRF(fcinfo, 0);
	run = NearestRunBegin(&args);
	while (NearestRunFill(run, columns, block))
		StoreBlock((ReturnSetInfo *) fcinfo->resultinfo, block);
	NearestRunEnd(run);
	return (Datum) 0;
}

/* fasted_knn_join(a, a_column, b, b_column, k, a_id, b_id, metric, max_distance, partition_by) */
Datum
fasted_knn_join(PG_FUNCTION_ARGS)
{
	return StoreNearest(fcinfo, 0, INT8OID);
}

/* fasted_knn_join_typed(id_type, a, a_column, b, b_column, k, ...) */
Datum
fasted_knn_join_typed(PG_FUNCTION_ARGS)
{
	Oid			key_type = get_fn_expr_argtype(fcinfo->flinfo, 0);

	if (!OidIsValid(key_type))
		elog(ERROR, "could not determine the type of the ids");
	return StoreNearest(fcinfo, 1, key_type);
}
