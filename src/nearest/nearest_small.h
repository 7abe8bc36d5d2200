/*-------------------------------------------------------------------------
 *
 * nearest_small.h
 *	  A group of few rows, whose neighbours are found here, sooner than an engine starts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_NEAREST_SMALL_H
#define FASTED_NEAREST_SMALL_H

#include "nearest/nearest.h"

/* At most so many rows on each side: then engines take longer to start than this to end. */
#define SMALL_GROUP_ROWS 64

typedef struct SmallGroup SmallGroup;

/* Allocates in the current memory context; one is enough for all groups. */
extern SmallGroup *SmallGroupCreate(const NearestProblem *problem);
extern void SmallGroupReset(SmallGroup *group);

/* Takes up to SMALL_GROUP_ROWS rows of a side. */
extern RowSink *SmallGroupSink(SmallGroup *group, int side);

/* All rows are there: may neighbours be found?  An engine's join reports what is not alike. */
extern bool SmallGroupIsAlike(const SmallGroup *group);

/* Instead, gives a side's rows to another sink, as long as that has room. */
extern void SmallGroupPush(const SmallGroup *group, int side, RowSink *sink);

/* Orders the ids; an error, if two are the same. */
extern void SmallGroupFinish(SmallGroup *group);
extern KeySet *SmallGroupKeys(const SmallGroup *group, int side);

/* After that, as JoinNearest; valid until the next call. */
extern const FastedNeighbor *SmallGroupNearest(SmallGroup *group, uint64 row, uint32 *length);

/* Adds its rows and pairs. */
extern void SmallGroupAddTo(const SmallGroup *group, FastedStats *stats);

#endif							/* FASTED_NEAREST_SMALL_H */
