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
#include "source.h"

typedef enum ProgressPhase
{
	PHASE_READING = 1,			/* rows go to the engine */
	PHASE_PREPARING,			/* keys are ordered, the engine starts */
	PHASE_JOINING				/* the engine computes, pairs come */
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
	const VectorSource *source;
	ProgressPhase phase;
	instr_time	begun;
	instr_time	shown;			/* last: in the view */
	instr_time	logged;
	bool		title_changed;
	char		title[256];		/* what the process title said before */
} Progress;

extern void ProgressBegin(Progress *progress, const VectorSource *source);

/* Is it time to show new numbers?  Cheap: one look at the clock. */
extern bool ProgressIsDue(const Progress *progress);
extern void ProgressShow(Progress *progress, ProgressPhase phase, const ProgressNumbers *numbers);

/* May be called twice, and after errors. */
extern void ProgressEnd(Progress *progress);

#endif							/* FASTED_PROGRESS_H */
