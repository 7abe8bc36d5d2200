/*-------------------------------------------------------------------------
 *
 * group_statistics.h
 *	  What ANALYZE knows about the rows that have equal values in a column.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUP_STATISTICS_H
#define FASTED_GROUP_STATISTICS_H

#include "access/attnum.h"
#include "utils/lsyscache.h"
#include "utils/sortsupport.h"

typedef struct GroupStatistics
{
	double		groups;			/* how many there are; a guess where nothing is known */
	double		share;			/* of all rows: that of each group that is not common */
	AttStatsSlot common;		/* the largest groups, and their shares */
} GroupStatistics;

/* Of so many rows.  Allocates in the current memory context. */
extern GroupStatistics *ReadGroupStatistics(Oid relid, AttrNumber column, double rows);

/* The share of all rows that are in a group, by its value of this base type. */
extern double ShareOfGroup(const GroupStatistics *statistics, Datum value, Oid type,
						   SortSupport order);

#endif							/* FASTED_GROUP_STATISTICS_H */
