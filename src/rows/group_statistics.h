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

/* How many groups a column makes of so many rows; a guess where nothing is known. */
extern double EstimateGroups(Oid relid, AttrNumber column, double rows);

#endif							/* FASTED_GROUP_STATISTICS_H */
