/*-------------------------------------------------------------------------
 *
 * distance_statistics.h
 *	  What ANALYZE knows about a column of vectors, and about their distances.
 *
 * Only what the current user may see: what the planner estimates can be read in
 * EXPLAIN by whoever may call the function.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_DISTANCE_STATISTICS_H
#define FASTED_DISTANCE_STATISTICS_H

#include "access/attnum.h"
#include "access/htup.h"
#include "engine/engine.h"

/*
 * The row of pg_statistic, of the rows of a table's children too if these are wanted, for ReleaseSysCache.  NULL: there is none, or none that the
 * current user may see.  It is that user who reads the table later, within a view, too: the
 * function runs as its caller.
 */
extern HeapTuple ColumnStatistics(Oid relid, AttrNumber column, bool children);

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

#endif							/* FASTED_DISTANCE_STATISTICS_H */
