/*-------------------------------------------------------------------------
 *
 * group_function.c
 *	  Arguments that all have, and rows stored as a function's result.
 *
 * In a FROM clause the planner mostly puts a node in the function's place, whose
 * rows are not stored: group_node.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "groups/group_function.h"
#include "groups/group_run.h"
#include "rows/source.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

GroupArgs
GetGroupArgs(FunctionCallInfo fcinfo, const GroupFunction *function, int first, Oid key_type)
{
	GroupArgs	args = {.function = function,.first = first,.key_type = key_type};
	int			id_column = first + GroupIdColumn(function);
	int			metric = first + GroupMetric(function);

	RequireArgument(fcinfo, first + GROUP_RELATION, function->name, "relation");
	RequireArgument(fcinfo, first + GROUP_COLUMN, function->name, "vector_column");
	RequireArgument(fcinfo, first + GROUP_EPS, function->name, "eps");
	RequireArgument(fcinfo, metric, function->name, "metric");

	args.relation = PG_GETARG_OID(first + GROUP_RELATION);
	args.vector_column = NameStr(*PG_GETARG_NAME(first + GROUP_COLUMN));
	args.eps = PG_GETARG_FLOAT8(first + GROUP_EPS);
	args.metric = MetricFromText(PG_GETARG_TEXT_PP(metric));
	if (!PG_ARGISNULL(id_column))
		args.id_column = NameStr(*PG_GETARG_NAME(id_column));
	if (!PG_ARGISNULL(first + GroupPartitionBy(function)))
		args.partition_by = NameStr(*PG_GETARG_NAME(first + GroupPartitionBy(function)));
	RequireDistance(args.eps);
	return args;
}

static void
StoreRows(GroupRun *run, ReturnSetInfo *rsinfo)
{
	Datum		values[GROUP_MOST_COLUMNS];
	bool		nulls[GROUP_MOST_COLUMNS];

	Assert(rsinfo->setDesc->natts <= GROUP_MOST_COLUMNS);
	while (GroupRunNext(run, values, nulls))
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
RunGroupFunction(FunctionCallInfo fcinfo, const GroupFunction *function, bool typed)
{
	Oid			key_type = typed ? get_fn_expr_argtype(fcinfo->flinfo, 0) : INT8OID;
	MemoryContext context;
	MemoryContext old;
	GroupArgs	args;
	Grouping   *grouping;

	if (!OidIsValid(key_type))
		elog(ERROR, "could not determine the type of the ids");
	args = GetGroupArgs(fcinfo, function, typed ? 1 : 0, key_type);
	grouping = function->prepare(fcinfo, &args);
	InitMaterializedSRF(fcinfo, 0);
	context = AllocSetContextCreate(CurrentMemoryContext, "fasted groups", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	StoreRows(GroupRunBegin(&args, grouping), (ReturnSetInfo *) fcinfo->resultinfo);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return (Datum) 0;
}
