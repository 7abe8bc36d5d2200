/*-------------------------------------------------------------------------
 *
 * group_statistics.c
 *	  How many groups a column makes of its table's rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "rows/distance_statistics.h"
#include "rows/group_statistics.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

/* pg_statistic counts distinct values, or has minus their number for each row. */
static double
CountGroups(const FormData_pg_statistic *form, double rows)
{
	double		distinct = form->stadistinct;

	if (distinct < 0.0)
		return -distinct * rows;
	return distinct > 0.0 ? distinct : DEFAULT_NUM_DISTINCT;
}

double
EstimateGroups(Oid relid, AttrNumber column, double rows)
{
	HeapTuple	tuple = ColumnStatistics(relid, column, true);
	double		groups = DEFAULT_NUM_DISTINCT;

	if (HeapTupleIsValid(tuple))
	{
		groups = CountGroups((Form_pg_statistic) GETSTRUCT(tuple), rows);
		ReleaseSysCache(tuple);
	}
	return Max(1.0, Min(groups, rows));
}
