/*-------------------------------------------------------------------------
 *
 * statistics.h
 *	  What ANALYZE knows about a column of vectors and their distances, and about the
 *	  rows that have equal values in a column.
 *
 * Only what the current user may see: what the planner estimates can be read in
 * EXPLAIN by whoever may call the function.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_STATISTICS_H
#define FASTED_STATISTICS_H

#include "access/attnum.h"
#include "engine/engine.h"
#include "utils/lsyscache.h"
#include "utils/sortsupport.h"

/* The share of rows without a vector, zero when not known. */
extern double NullVectors(Oid relid, AttrNumber column);

/* The number of dimensions, zero when not known; those of the type are no secret. */
extern double KnownDimensions(Oid relid, AttrNumber column);

/*
 * The share of all pairs of rows that are within eps of each other, estimated
 * from the vectors in the column's statistics; negative: not known, since there
 * are no statistics that hold vectors.  Rows of a table's children are among them, or not.
 */
extern double ShareWithin(Oid relid, AttrNumber column, bool children, FastedMetric metric,
						  double eps);

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

#endif							/* FASTED_STATISTICS_H */
