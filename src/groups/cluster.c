/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  fasted_cluster: which rows belong together.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "groups/dbscan.h"
#include "groups/group_function.h"
#include "rows/source.h"

PG_FUNCTION_INFO_V1(fasted_cluster);
PG_FUNCTION_INFO_V1(fasted_cluster_typed);

static Grouping *
PrepareCluster(FunctionCallInfo fcinfo, GroupArgs *args)
{
	int			min_points_arg = args->first + GROUP_OWN;
	int32		min_points;

	RequireArgument(fcinfo, min_points_arg, args->function->name, "min_points");
	min_points = PG_GETARG_INT32(min_points_arg);
	if (min_points < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("min_points must be at least 1"),
				 errhint("A row counts itself: 1 connects rows by their pairs, and leaves no noise.")));
	return DbscanCreate(min_points);
}

const GroupFunction group_cluster = {
	.name = "fasted_cluster",
	.plain = fasted_cluster,
	.typed = fasted_cluster_typed,
	.nown = 1,
	.own_labels = {"Min Points"},
	.ncolumns = 3,
	.columns = {InvalidOid, INT4OID, BOOLOID},
	.prepare = PrepareCluster
};

/* fasted_cluster(relation, vector_column, eps, min_points, id_column, metric) */
Datum
fasted_cluster(PG_FUNCTION_ARGS)
{
	return RunGroupFunction(fcinfo, &group_cluster, false);
}

/* fasted_cluster_typed(id_type, relation, vector_column, eps, min_points, id_column, metric) */
Datum
fasted_cluster_typed(PG_FUNCTION_ARGS)
{
	return RunGroupFunction(fcinfo, &group_cluster, true);
}
