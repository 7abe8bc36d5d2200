/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  fasted_cluster: which rows belong together.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groups/dbscan.h"
#include "session/arguments.h"

PG_FUNCTION_INFO_V1(fasted_cluster);
PG_FUNCTION_INFO_V1(fasted_cluster_typed);

static Datum
FindClusters(FunctionCallInfo fcinfo, bool typed)
{
	GroupArgs	args = GetGroupArgs(fcinfo, "fasted_cluster", typed);
	int			min_points_arg = args.first + GROUP_OWN;
	int32		min_points;
	Dbscan		dbscan;

	RequireArgument(fcinfo, min_points_arg, args.function, "min_points");
	min_points = PG_GETARG_INT32(min_points_arg);
	if (min_points < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("min_points must be at least 1"),
				 errhint("A row counts itself: 1 connects rows by their pairs, and leaves no noise.")));
	DbscanInit(&dbscan, min_points);
	RunGrouping(fcinfo, &args, &dbscan.base);
	return (Datum) 0;
}

/* fasted_cluster(relation, vector_column, eps, min_points, id_column) */
Datum
fasted_cluster(PG_FUNCTION_ARGS)
{
	return FindClusters(fcinfo, false);
}

/* fasted_cluster_typed(id_type, relation, vector_column, eps, min_points, id_column) */
Datum
fasted_cluster_typed(PG_FUNCTION_ARGS)
{
	return FindClusters(fcinfo, true);
}
