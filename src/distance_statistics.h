/*-------------------------------------------------------------------------
 *
 * distance_statistics.h
 *	  What ANALYZE knows about a column of vectors, and about their distances.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_DISTANCE_STATISTICS_H
#define FASTED_DISTANCE_STATISTICS_H

#include "access/attnum.h"

/* The share of rows without a vector, zero when not known. */
extern double NullVectors(Oid relid, AttrNumber column);

/* The number of dimensions; zero: not known. */
extern double KnownDimensions(Oid relid, AttrNumber column);

/*
 * The share of all pairs of rows that are within eps of each other, estimated
 * from the vectors in the column's statistics; negative: not known, since there
 * are none, or since the current user may not see them.
 */
extern double ShareWithin(Oid relid, AttrNumber column, double eps);

#endif							/* FASTED_DISTANCE_STATISTICS_H */
