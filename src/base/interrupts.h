/*-------------------------------------------------------------------------
 *
 * interrupts.h
 *	  Cancellation and progress of long computations, and the end of what PostgreSQL does not
 *	  know: threads, memory of an engine, descriptors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INTERRUPTS_H
#define FASTED_INTERRUPTS_H

#include "lib/ilist.h"
#include "portability/instr_time.h"
#include "utils/palloc.h"
#include "utils/resowner.h"

/* The time that has passed since then. */
static inline double
SecondsSince(instr_time begin)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, begin);
	return INSTR_TIME_GET_DOUBLE(now);
}

/* How long we may stay away from CheckJoinInterrupts. */
#define JOIN_POLL_MS 20

/*
 * CHECK_FOR_INTERRUPTS, and every now and then a look whether the postmaster and
 * the client are still there.  Cheap enough for every batch of rows.
 */
extern void CheckJoinInterrupts(void);

typedef struct Cleanup
{
	void		(*clean) (void *arg);
	void	   *arg;
	ResourceOwner owner;		/* NULL: it has cleaned, or the owner is gone */
	dlist_node	node;			/* among those with an owner */
	MemoryContextCallback callback;
} Cleanup;

/*
 * Calls clean when the current memory context goes, and before that when the current
 * resource owner is released by an error: the portal of a cursor keeps its memory when it
 * fails in a subtransaction, until it is closed.  So it may be called twice, must not raise
 * an error, and leaves PostgreSQL's memory alone.  The cleanup lives in that context.
 */
extern void CleanupRegister(Cleanup *cleanup, void (*clean) (void *arg), void *arg);

/* --- how far a join is, for the view pg_stat_fasted_progress */

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
	instr_time	shown;			/* when the view was last brought up to date */
} Progress;

/* relid: what is joined, InvalidOid if it is no one relation.  The view finds its name. */
extern void ProgressBegin(Progress *progress, Oid relid);

/* Is it time to show new numbers?  Cheap: one look at the clock. */
extern bool ProgressIsDue(const Progress *progress);
extern void ProgressShow(Progress *progress, ProgressPhase phase, const ProgressNumbers *numbers);

/* May be called twice, and after errors. */
extern void ProgressEnd(Progress *progress);

#endif							/* FASTED_INTERRUPTS_H */
