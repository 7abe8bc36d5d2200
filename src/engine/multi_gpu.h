/*-------------------------------------------------------------------------
 *
 * multi_gpu.h
 *	  A group of devices, its sets and its joins, for the files that make it up.
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
	FastedStatus status;		/* of the last call in a thread of its own: open or seal */
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

/*
 * Slices of a join, whatever the number of devices: other processes, which have
 * slices of their own, may have fewer.  A device takes several in a row, the fewer the
 * fewer are left; up to GROUP_FEW_SLICES where another device may have to do them again.
 */
#define GROUP_SLICES 1024
#define GROUP_FEW_SLICES 32

/* What a device is at. */
typedef struct Turn
{
	bool		busy;			/* it has slices */
	bool		at_work;	/* on them: join is of them */
	bool		aside;			/* its rows are in another order: it has no slices */
	uint32_t	slice;			/* the first one */
	uint32_t	width;			/* so many */
	FastedStatus begin;			/* what their beginning came to */
	double		since;			/* when it began with them, milliseconds */
	FastedJoin *join;			/* of these slices or the last ones; NULL: there were none */
	FastedStats begun;			/* the device's sums when it began */
	bool		further;		/* its next slice goes on from the last one */
	bool		has_counts;		/* of its slices, which have not been added yet */

	/* Of a spread set: its parts i and j, and the groups of rows there. */
	int			i;
	int			j;
	FastedRowGroup *groups;
} Turn;

/* Slices that a device gave back. */
typedef struct SliceRest
{
	uint32_t	slice;
	uint32_t	width;
} SliceRest;

/* Joins of two parts of a spread set, or of one part with the other set. */
typedef struct Tasks
{
	GroupSet   *set;			/* the spread one */
	bool		self;			/* it is joined with itself */
	bool		open[SPREAD_MOST][SPREAD_MOST]; /* of parts i <= j, unless self of i and 0: not begun */
} Tasks;

/* Neighbours, once they are asked for. */
typedef struct GroupLists
{
	int			members[FASTED_GROUP_MOST]; /* that have some */
	int			nmembers;		/* 0: they have not been asked for yet */
	bool		on_host;		/* lists are merged there, when they are handed out */
	uint64_t	window;			/* rows that one member has the merged lists of */
	bool	   *merged;			/* of each window: they are there */
} GroupLists;

struct GroupJoin
{
	Group	   *group;
	FastedProblem problem;
	GroupSet   *a;
	GroupSet   *b;
	uint32_t	slices;
	bool		begun;			/* devices have begun, all at once */
	bool		ordered;		/* a device has begun with one */
	uint64_t	order;			/* of its rows */
	Turn		turns[FASTED_GROUP_MOST];
	int			look_first;		/* at this device */
	double		turned;			/* when slices began last: milliseconds */
	double		slice_ms;		/* what one took a device; 0: that is not known yet */
	uint32_t	next_slice;		/* that nobody had yet */
	uint32_t	finished;
	SliceRest	rests[FASTED_GROUP_MOST];
	int			nrests;
	uint64_t	pairs;			/* of finished slices, or handed out */
	Tasks	   *tasks;			/* of a spread set; NULL: there are slices */
	uint64_t	rows[2];
	uint32_t   *counts[2];		/* of devices that have been asked */
	uint32_t   *device_counts[2];	/* of one that is being asked */
	GroupLists	lists;
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

/*
 * One more step in copying the guest of a device.  FASTED_OK: it is there; FASTED_AGAIN;
 * or a failure of that device.
 */
extern FastedStatus spread_fill_guest(GroupSet *set, int member);

/* Joins: multi_gpu_join.c. */
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

#endif							/* FASTED_MULTI_GPU_H */
