/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  How far a join is: for pg_stat_fasted_progress, the process title, the log.
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
	const char *relation;		/* then NULL */
	ProgressPhase phase;
	instr_time	begun;
	instr_time	shown;			/* last: in the view */
	instr_time	logged;
	bool		title_changed;

	/* What is shown are the numbers of a part: those of the parts before it, and what is
	 * expected of all, are here. */
	bool		in_parts;
	ProgressNumbers whole;
	char		title[256];		/* what the process title said before */
} Progress;

/* The relation's name must live as long. */
extern void ProgressBegin(Progress *progress, Oid relid, const char *relation);

/* Of a progress in parts: the part is over, whose numbers these were. */
extern void ProgressAddPart(Progress *progress, uint64 rows_read, uint64 pairs);

/* Is it time to show new numbers?  Cheap: one look at the clock. */
extern bool ProgressIsDue(const Progress *progress);
extern void ProgressShow(Progress *progress, ProgressPhase phase, const ProgressNumbers *numbers);

/* May be called twice, and after errors. */
extern void ProgressEnd(Progress *progress);

#endif							/* FASTED_PROGRESS_H */
