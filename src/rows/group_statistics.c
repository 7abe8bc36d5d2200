/*-------------------------------------------------------------------------
 *
 * group_statistics.c
 *	  How many groups a column makes of its table's rows, and how large they are.
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

GroupStatistics *
ReadGroupStatistics(Oid relid, AttrNumber column, double rows)
{
	GroupStatistics *statistics = palloc0(sizeof(GroupStatistics));
	HeapTuple	tuple = ColumnStatistics(relid, column, true);
	double		rest = 1.0;

	statistics->groups = DEFAULT_NUM_DISTINCT;
	if (HeapTupleIsValid(tuple))
	{
		const FormData_pg_statistic *form = (Form_pg_statistic) GETSTRUCT(tuple);

		statistics->groups = CountGroups(form, rows);
		rest -= form->stanullfrac;
		(void) get_attstatsslot(&statistics->common, tuple, STATISTIC_KIND_MCV, InvalidOid,
								ATTSTATSSLOT_VALUES | ATTSTATSSLOT_NUMBERS);
		ReleaseSysCache(tuple);
	}
	statistics->groups = Max(1.0, Min(statistics->groups, rows));
	for (int i = 0; i < statistics->common.nnumbers; i++)
		rest -= statistics->common.numbers[i];
	statistics->share = Max(rest, 0.0) / Max(1.0, statistics->groups - statistics->common.nvalues);
	return statistics;
}

double
ShareOfGroup(const GroupStatistics *statistics, Datum value, Oid type, SortSupport order)
{
	const AttStatsSlot *common = &statistics->common;

	if (common->nvalues == 0 || getBaseType(common->valuetype) != type)
		return statistics->share;
	for (int i = 0; i < common->nvalues; i++)
		if (ApplySortComparator(value, false, common->values[i], false, order) == 0)
			return common->numbers[i];
	return statistics->share;
}
