/*-------------------------------------------------------------------------
 *
 * keep_one.c
 *	  fasted_keep_one: which rows stay when near ones go.
 *
 * With a priority, the source is read in its order, so that a row's number is its rank.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groups/keepers.h"
#include "session/arguments.h"

PG_FUNCTION_INFO_V1(fasted_keep_one);
PG_FUNCTION_INFO_V1(fasted_keep_one_typed);

static Datum
FindKeepers(FunctionCallInfo fcinfo, bool typed)
{
	GroupArgs	args = GetGroupArgs(fcinfo, "fasted_keep_one", typed);
	int			priority_arg = args.first + GROUP_OWN;
	int			descending_arg = priority_arg + 1;
	Keepers		keepers;

	RequireArgument(fcinfo, descending_arg, args.function, "descending");
	args.descending = PG_GETARG_BOOL(descending_arg);
	if (!PG_ARGISNULL(priority_arg))
		args.order_column = NameStr(*PG_GETARG_NAME(priority_arg));
	KeepersInit(&keepers, args.order_column != NULL);
	RunGrouping(fcinfo, &args, &keepers.base);
	return (Datum) 0;
}

/* fasted_keep_one(relation, vector_column, eps, priority_column, descending, id_column) */
Datum
fasted_keep_one(PG_FUNCTION_ARGS)
{
	return FindKeepers(fcinfo, false);
}

/*
 * fasted_keep_one_typed(id_type, relation, vector_column, eps, priority_column,
 * descending, id_column)
 */
Datum
fasted_keep_one_typed(PG_FUNCTION_ARGS)
{
	return FindKeepers(fcinfo, true);
}
