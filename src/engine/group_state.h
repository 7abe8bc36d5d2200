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
	FastedContext *context;		/* NULL: it could not be opened */
	bool		takes_part;		/* false: it could not be opened, or has too little memory */
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
} Spread;

struct GroupSet
{
	Group	   *group;
	GroupSet   *next;			/* of the group */
	FastedSet  *sets[FASTED_GROUP_MOST];
	bool		staged;			/* the caller has a device's staging buffer */
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
	int			active;			/* members that take part */
	bool		joined;			/* a join has been opened of rows that are there */
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

/* The first device that takes part.  There is one unless the group has failed. */
extern int	group_first(const Group *group);

/*
 * Takes the status of a member's call.  Returns true unless it is a failure; then the group
 * has failed, with an error that names the device.
 */
extern bool group_check(Group *group, int member, FastedStatus status);

/* A failure of the group's own. */
extern FastedStatus group_fail(Group *group, FastedStatus status, const char *text);

/* Returns whether this device takes part. */
static inline bool
group_has(const Group *group, int member)
{
	return group->members[member].takes_part;
}

/* Spread sets: spread_set.c. */
extern FastedStatus spread_open(GroupSet *set, const FastedSetOptions *options);
extern FastedStatus spread_over(GroupSet *set, uint64_t rows);
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
extern void group_join_close(FastedJoin *join);

/* Neighbours: group_nearest.c. */
extern FastedStatus group_nearest(FastedJoin *join, uint64_t first_row, size_t nrows,
								  uint32_t *lengths, FastedNeighbor *neighbors);
extern uint64_t group_list_rows(const FastedContext *context, uint64_t rows, uint32_t k);

/* Adds the join at work to the group's own sums. */
extern void group_join_stats(const GroupJoin *join, FastedStats *stats);

#endif							/* FASTED_GROUP_STATE_H */
