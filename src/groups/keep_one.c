/*-------------------------------------------------------------------------
 *
 * keep_one.c
 *	  fasted_keep_one: which rows stay when near ones go.
 *
 * With a priority, the source has an order: keepers.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "groups/group_function.h"
#include "groups/keepers.h"
#include "rows/source.h"

PG_FUNCTION_INFO_V1(fasted_keep_one);
PG_FUNCTION_INFO_V1(fasted_keep_one_typed);

static Grouping *
PrepareKeepOne(FunctionCallInfo fcinfo, GroupArgs *args)
{
	int			priority_arg = args->first + GROUP_OWN;
	int			descending_arg = priority_arg + 1;

	RequireArgument(fcinfo, descending_arg, args->function->name, "descending");
	args->descending = PG_GETARG_BOOL(descending_arg);
	if (!PG_ARGISNULL(priority_arg))
		args->order_column = NameStr(*PG_GETARG_NAME(priority_arg));
	return KeepersCreate();
}

const GroupFunction group_keep_one = {
	.name = "fasted_keep_one",
	.plain = fasted_keep_one,
	.typed = fasted_keep_one_typed,
	.nown = 2,
	.own_labels = {"Priority Column", "Descending"},
	.ncolumns = 3,
	.columns = {InvalidOid, InvalidOid, FLOAT8OID},
	.prepare = PrepareKeepOne
};

/*
 * fasted_keep_one(relation, vector_column, eps, priority_column, descending, id_column,
 * metric)
 */
Datum
fasted_keep_one(PG_FUNCTION_ARGS)
{
	return RunGroupFunction(fcinfo, &group_keep_one, false);
}

/*
 * fasted_keep_one_typed(id_type, relation, vector_column, eps, priority_column,
 * descending, id_column, metric)
 */
Datum
fasted_keep_one_typed(PG_FUNCTION_ARGS)
{
	return RunGroupFunction(fcinfo, &group_keep_one, true);
}
