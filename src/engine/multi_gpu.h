/*-------------------------------------------------------------------------
 *
 * multi_gpu.h
 *	  A group of devices, its sets and its joins, for multi_gpu.c and multi_gpu_join.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_MULTI_GPU_H
#define FASTED_MULTI_GPU_H

#include "engine.h"

/* No more devices work on one join. */
#define FASTED_GROUP_MOST 16

typedef struct Group Group;
typedef struct GroupSet GroupSet;
typedef struct GroupJoin GroupJoin;

/* A device. */
typedef struct Member
{
	FastedContext *context;		/* NULL: it could not be opened */
	bool		takes_part;		/* false: it could not be opened, or has too little memory */
	char		name[FASTED_DEVICE_NAME];
	uint64_t	slices;			/* that it finished */
	FastedStatus status;		/* of its last call by group_at_once */
} Member;

/* Parts of a spread set. */
#define SPREAD_MOST (FASTED_GROUP_MOST * FASTED_SPREAD_PARTS)

/* Rows of a set, on one device. */
typedef struct SetPart
{
	int			member;
	FastedSet  *set;			/* NULL: that device takes no part */
	uint64_t	first;			/* place in the whole set */
	uint64_t	rows;
} SetPart;

/* A part of another device, copied to this one for a while. */
typedef struct SpreadGuest
{
	FastedSet  *set;
	const SetPart *part;		/* NULL: none */
	uint64_t	have;			/* rows that have been copied; once all are, the set is sealed */
} SpreadGuest;

struct GroupSet
{
	Group	   *group;
	GroupSet   *next;			/* of the group */
	uint64_t	first_row;
	bool		spread;			/* each device has parts of its own; else one with all rows */
	int			each;			/* parts of a device, those of the first one first */
	uint64_t	part_rows;		/* of a part, at most */
	SetPart		parts[SPREAD_MOST];
	SpreadGuest guests[FASTED_GROUP_MOST];	/* of a spread set */
};

struct Group
{
	const FastedEngine *base;
	uint32_t	row_floats;
	Member		members[FASTED_GROUP_MOST];
	int			nmembers;
	int			active;			/* members that take part */
	bool		bound;			/* a join or a spread set was opened: all that take part are needed */
	GroupSet   *sets;
	GroupJoin  *join;			/* one at most */
	FastedStatus failed;		/* FASTED_OK: no call has failed */
	char		error[1024];

	/* Sums of joins that are closed. */
	uint64_t	pairs;
	uint64_t	units_done;
	uint64_t	units_total;
	uint64_t	order_hash;
};

static inline Group *
group_of(const FastedContext *context)
{
	return (Group *) (uintptr_t) context;
}

/* The first member from m on that takes part; nmembers if there is none. */
static inline int
next_member(const Group *group, int m)
{
	while (m < group->nmembers && !group->members[m].takes_part)
		m++;
	return m;
}

#define for_each_member(m, group) \
	for (int m = next_member(group, 0); m < (group)->nmembers; m = next_member(group, m + 1))

static inline int
parts_of(const GroupSet *set)
{
	return set->group->nmembers * set->each;
}

/* multi_gpu.c */

/* The group has failed. */
extern FastedStatus group_fail(Group *group, FastedStatus status, const char *format,...)
			__attribute__((format(printf, 3, 4)));

/*
 * Takes the status of a member's call.  Returns true unless it is a failure; then the group
 * has failed, with an error that names the device.
 */
extern bool group_check(Group *group, int member, FastedStatus status);

/*
 * Calls a function for all members, those too that take no part, each in a thread of its own, and
 * checks what it returned for those that take part.  Returns whether the group has failed.
 */
typedef FastedStatus (*MemberCall) (Group *group, int member, void *argument);
extern FastedStatus group_at_once(Group *group, MemberCall call, void *argument);

/* multi_gpu_join.c: functions of the engine, and what the join at work adds to the group's sums */
extern FastedStatus group_join_open(FastedContext *context, const FastedProblem *problem,
									FastedSet *a, FastedSet *b, FastedJoin **result);
extern FastedStatus group_next(FastedJoin *join, int timeout_ms, FastedBatch *batch);
extern void group_pause(FastedJoin *join);
extern FastedStatus group_counts(FastedJoin *join, int side, uint64_t first_row, size_t nrows,
								 uint32_t *counts);
extern FastedStatus group_nearest(FastedJoin *join, uint64_t first_row, size_t nrows,
								  uint32_t *lengths, FastedNeighbor *neighbors);
extern void group_join_close(FastedJoin *join);
extern void group_join_stats(const GroupJoin *join, FastedStats *stats);

#endif							/* FASTED_MULTI_GPU_H */
