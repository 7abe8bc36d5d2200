/*-------------------------------------------------------------------------
 *
 * group_join.h
 *	  A join of a group of devices: its slices, or the parts of a spread set.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUP_JOIN_H
#define FASTED_GROUP_JOIN_H

#include "group_state.h"

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

/* What becomes of the join of two parts of a spread set, or of one with the other set. */
typedef enum TaskState
{
	TASK_NONE = 0,				/* no rows, or the other way round */
	TASK_OPEN,
	TASK_TAKEN,
	TASK_OVER
} TaskState;

typedef struct Tasks
{
	GroupSet   *set;			/* the spread one */
	bool		self;			/* it is joined with itself */
	uint8_t		state[SPREAD_MOST][SPREAD_MOST];	/* of parts i <= j; unless self of i and 0 */
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

/*
 * Parts of spread sets (spread_join.c).  tasks_open: false: out of memory.
 */
extern bool tasks_open(GroupJoin *join);
extern void tasks_close(GroupJoin *join);

/* The next task for a device without one; false: there is none now. */
extern bool task_take(GroupJoin *join, int m);

/* Its two sets on that device, and their groups, when its guest is there: see spread_fill_guest. */
extern FastedStatus task_sides(GroupJoin *join, int m, FastedProblem *problem, FastedSet **sides);

/* It is done: counts are added, then it is over. */
extern FastedStatus task_add_counts(GroupJoin *join, int m);
extern void task_end(GroupJoin *join, int m);

#endif							/* FASTED_GROUP_JOIN_H */
