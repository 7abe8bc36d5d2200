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

/* How many groups a column makes of so many rows; a guess where nothing is known. */
extern double EstimateGroups(Oid relid, AttrNumber column, double rows);

#endif							/* FASTED_STATISTICS_H */
