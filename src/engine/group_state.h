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
	FastedContext *ghost;		/* of a lost one, whose room was in use; or NULL */
	char		name[FASTED_DEVICE_NAME];
	uint64_t	slices;			/* that it finished */
} Member;

/* So many parts of a spread set are on each device. */
#define SPREAD_PARTS 4
#define SPREAD_MOST (FASTED_GROUP_MOST * SPREAD_PARTS)

/* Some rows of a spread set, on one device. */
typedef struct SpreadPart
{
	int			member;
	FastedSet  *set;
	uint64_t	first;			/* place in the spread set */
	uint64_t	rows;
} SpreadPart;

/* A part of another device, copied to this one for a while. */
typedef struct SpreadGuest
{
	FastedSet  *set;
	int			part;			/* -1: none */
	bool		begun;			/* its set is that part's */
	bool		sealed;			/* all rows are there */
	uint64_t	have;
} SpreadGuest;

typedef struct Spread
{
	uint64_t	part_room;		/* rows of a part, at most */
	uint64_t	part_rows;		/* of all but the last */
	int			nparts;
	SpreadPart	parts[SPREAD_MOST];
	SpreadGuest guests[FASTED_GROUP_MOST];
	float	   *no_room;		/* for rows whose device was lost; NULL: not yet */
} Spread;

struct GroupSet
{
	Group	   *group;
	GroupSet   *next;			/* of the group */
	FastedSet  *sets[FASTED_GROUP_MOST];
	bool		staged;			/* the caller has room of a device's */
	int			stager;			/* which one's */
	uint64_t	first_row;
	uint64_t	rows;
	uint32_t	lists;			/* members that have neighbours of its rows, a bit each */
	Spread	   *spread;			/* NULL: all devices have all rows, in sets */
};

struct Group
{
	const FastedEngine *base;
	uint32_t	row_floats;
	Member		members[FASTED_GROUP_MOST];
	int			nmembers;
	int			alive;
	uint32_t	failing;		/* members that have failed and are not lost yet, a bit each */
	GroupSet   *sets;
	GroupJoin  *join;			/* one at most */
	FastedStatus failed;		/* of the last device; FASTED_OK: one is left */
	char		error[1024];	/* the last loss, or what failed here */

	/* What devices that are lost, and joins that are over, came to. */
	uint64_t	pairs;
	uint64_t	candidates;
	uint64_t	units_done;
	uint64_t	units_total;
	uint64_t	order_hash;
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

/* The same of calls of several members at once, which have a bit each in members. */
extern void group_survive(Group *group, uint32_t members, const FastedStatus *statuses);

/* A failure of the group's own. */
extern FastedStatus group_fail(Group *group, FastedStatus status, const char *text);

/* Is this device left? */
static inline bool
group_has(const Group *group, int member)
{
	return group->members[member].context != NULL;
}

/* Spread sets: spread_set.c. */
extern FastedStatus spread_open(GroupSet *set, const FastedSetOptions *options);
extern FastedStatus spread_over(GroupSet *set, uint64_t rows, uint64_t *takes);
extern FastedStatus spread_stage(GroupSet *set, float **rows, size_t *capacity);
extern FastedStatus spread_commit(GroupSet *set, size_t nrows);
extern FastedStatus spread_seal(GroupSet *set);
extern void spread_close(GroupSet *set);
extern bool spread_fits(const Group *group, const uint64_t *rows, int nsets);

/*
 * One more step in copying the guest of a device.  FASTED_OK: it is there; FASTED_AGAIN;
 * or a failure of that device.
 */
extern FastedStatus spread_fill_guest(GroupSet *set, int member);

/* Joins: group_join.c. */
extern FastedStatus group_join_open(FastedContext *context, const FastedProblem *problem,
									FastedSet *a, FastedSet *b, FastedJoin **result);
extern FastedStatus group_next(FastedJoin *join, int timeout_ms, FastedBatch *batch);
extern void group_pause(FastedJoin *join);
extern FastedStatus group_counts(FastedJoin *join, int side, uint64_t first_row, size_t nrows,
								 uint32_t *counts);
extern bool group_left_out(const FastedJoin *join, uint32_t i, FastedBlock *block);
extern void group_join_close(FastedJoin *join);

/* Neighbours: group_nearest.c. */
extern FastedStatus group_nearest(FastedJoin *join, uint64_t first_row, size_t nrows,
								  uint32_t *lengths, FastedNeighbor *neighbors);
extern uint64_t group_list_rows(const FastedContext *context, uint64_t rows, uint32_t k);

/* The join at work: a member is gone, and what it did of its slice is not counted. */
extern void group_join_lose(GroupJoin *join, int member);

/* Adds the join at work to the group's own sums. */
extern void group_join_stats(const GroupJoin *join, FastedStats *stats);

#endif							/* FASTED_GROUP_STATE_H */
