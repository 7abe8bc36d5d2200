/*-------------------------------------------------------------------------
 *
 * small_join.h
 *	  Few rows compared in the calling process: an engine takes longer to begin.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SMALL_JOIN_H
#define FASTED_SMALL_JOIN_H

#include "engine/engine.h"

/* An engine is not begun for so few pairs of rows, if their vectors are not long. */
#define SMALL_JOIN_PAIRS 4096
#define SMALL_JOIN_FLOATS (256 * 1024)

/* Rows one behind the other, as engines have them. */
typedef struct SmallJoin
{
	FastedMetric metric;
	FastedElement element;
	uint32_t	dimensions;
	double		eps;
	const float *a;
	const float *b;				/* NULL: a itself, of whose pairs each comes once, with a < b */
} SmallJoin;

/*
 * The pairs of a group that are within eps, by the canonical distance, in the order of their
 * rows.  There must be room for all pairs of the group.  Returns the number of pairs.  The
 * pairs of a group of one row a, sorted by distance, are its nearest neighbours.
 */
extern size_t SmallJoinPairs(const SmallJoin *join, const FastedRowGroup *group, FastedPair *pairs);

#endif							/* FASTED_SMALL_JOIN_H */
