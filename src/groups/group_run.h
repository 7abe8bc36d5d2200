/*-------------------------------------------------------------------------
 *
 * group_run.h
 *	  One call from its arguments to its rows, in order of id.
 *
 * What the node hands on and what the function stores come from here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUP_RUN_H
#define FASTED_GROUP_RUN_H

#include "base/interrupts.h"
#include "groups/group_function.h"
#include "portability/instr_time.h"

typedef struct GroupRun
{
	Grouping   *grouping;
	GroupRows	rows;
	uint32		next;			/* the place, by id, of the next row */
	uint64		npairs;

	Progress	progress;		/* while rows are grouped */
	Cleanup		cleanup;

	/* For EXPLAIN. */
	bool		joined;			/* an engine ran */
	FastedStats stats;			/* of it */
	List	   *shares;			/* of servers: JoinShares */
	double		read_seconds;
	double		wait_seconds;	/* for the engine */
	double		group_seconds;	/* what was made of the pairs */
	uint64		bytes;			/* beside the engine's: rows, ids, pairs */
} GroupRun;

/*
 * Reads, joins and groups.  Allocates in the current memory context, with which it
 * goes, on error too.
 */
extern GroupRun *GroupRunBegin(const GroupArgs *args, Grouping *grouping);

/*
 * The next row's id and what the function says of it; false: there are no more.
 * Values by reference live as long as the run.
 */
extern bool GroupRunNext(GroupRun *run, Datum *values, bool *nulls);

/* The first row is the next one again. */
extern void GroupRunRewind(GroupRun *run);

#endif							/* FASTED_GROUP_RUN_H */
