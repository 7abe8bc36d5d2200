/*-------------------------------------------------------------------------
 *
 * nearest_groups.h
 *	  Neighbours within groups: a join for each value that both relations have.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_NEAREST_GROUPS_H
#define FASTED_NEAREST_GROUPS_H

#include "nearest/nearest_small.h"

typedef struct NearestGroups NearestGroups;

/*
 * The problem's sources come in the order of their groups; it has no pusher.  Allocates
 * in the current memory context, with which it goes.
 */
extern NearestGroups *NearestGroupsBegin(const NearestProblem *problem);

/*
 * The next group: its join, in that context, or the group itself, if it is a small one, and
 * no join.  False: there is none.  The last one must be over.
 */
extern bool NearestGroupsNext(NearestGroups *groups, Join **join, SmallGroup **small);

/* The number of groups so far. */
extern uint64 NearestGroupsCount(const NearestGroups *groups);

/* Not after an error. */
extern void NearestGroupsEnd(NearestGroups *groups);

#endif							/* FASTED_NEAREST_GROUPS_H */
