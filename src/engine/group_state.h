/*-------------------------------------------------------------------------
 *
 * group_state.h
 *	  A group of devices and its members, for the files that make it up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUP_STATE_H
#define FASTED_GROUP_STATE_H

#include "device_group.h"

typedef struct Group Group;
typedef struct GroupSet GroupSet;
typedef struct GroupJoin GroupJoin;

/* A device. */
typedef struct Member
{
	FastedContext *context;		/* NULL: lost */
	char		name[FASTED_DEVICE_NAME];
	uint64_t	slices;			/* that it finished */
} Member;

struct GroupSet
{
	Group	   *group;
	GroupSet   *next;			/* of the group */
	FastedSet  *sets[FASTED_GROUP_MOST];
	float	   *room;			/* what stage gives; NULL: nothing yet */
	uint64_t	rows;
};

struct Group
{
	const FastedEngine *base;
	uint32_t	row_floats;
	Member		members[FASTED_GROUP_MOST];
	int			nmembers;
	int			alive;
	GroupSet   *sets;
	GroupJoin  *join;			/* one at most */
	FastedStatus failed;		/* of the last device; FASTED_OK: one is left */
	char		error[1024];	/* the last loss, or what failed here */

	/* What devices that are lost, and joins that are over, came to. */
	uint64_t	pairs;
	uint64_t	candidates;
	uint64_t	units_done;
	uint64_t	units_total;
};

static inline Group *
group_of(const FastedContext *context)
{
	return (Group *) (uintptr_t) context;
}

/* The first device that is left; there is one unless the group has failed. */
extern int	group_first(const Group *group);

/*
 * What a call of a member's came to: true, unless it failed.  Then the device is lost,
 * and what it was at is left to the others.
 */
extern bool group_survives(Group *group, int member, FastedStatus status);

/* A failure of the group's own. */
extern FastedStatus group_fail(Group *group, FastedStatus status, const char *text);

/* Joins: group_join.c. */
extern FastedStatus group_join_open(FastedContext *context, const FastedProblem *problem,
									FastedSet *a, FastedSet *b, FastedJoin **result);
extern FastedStatus group_next(FastedJoin *join, int timeout_ms, FastedBatch *batch);
extern void group_pause(FastedJoin *join);
extern FastedStatus group_counts(FastedJoin *join, int side, uint64_t first_row, size_t nrows,
								 uint32_t *counts);
extern void group_join_close(FastedJoin *join);

/* The join at work: a member is gone, and what it did of its slice is not counted. */
extern void group_join_lose(GroupJoin *join, int member);

/* Adds the join at work to the group's own sums. */
extern void group_join_stats(const GroupJoin *join, FastedStats *stats);

#endif							/* FASTED_GROUP_STATE_H */
