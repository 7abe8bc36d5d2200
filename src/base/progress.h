/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  How far a join is, for the view pg_stat_fasted_progress.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PROGRESS_H
#define FASTED_PROGRESS_H

#include "portability/instr_time.h"

typedef enum ProgressPhase
{
	PROGRESS_READING = 1,			/* rows go to the engine */
	PROGRESS_PREPARING,			/* keys are ordered, the engine starts */
	PROGRESS_JOINING,				/* the engine computes, pairs come */
	PROGRESS_GROUPING			/* all pairs have come, rows are grouped by them */
} ProgressPhase;

typedef struct ProgressNumbers
{
	uint64		rows_read;
	uint64		rows_expected;	/* by the planner's estimate */
	uint64		units_done;
	uint64		units_total;
	uint64		pairs;
} ProgressNumbers;

typedef struct Progress
{
	Oid			relid;			/* what is joined; invalid: no one relation */
	ProgressPhase phase;
	instr_time	shown;			/* when the view was last brought up to date */
} Progress;

/* relid: what is joined, InvalidOid if it is no one relation.  The view finds its name. */
extern void ProgressBegin(Progress *progress, Oid relid);

/* Is it time to show new numbers?  Cheap: one look at the clock. */
extern bool ProgressIsDue(const Progress *progress);
extern void ProgressShow(Progress *progress, ProgressPhase phase, const ProgressNumbers *numbers);

/* May be called twice, and after errors. */
extern void ProgressEnd(Progress *progress);

#endif							/* FASTED_PROGRESS_H */
