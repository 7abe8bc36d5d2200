/*-------------------------------------------------------------------------
 *
 * interrupts.h
 *	  Cancellation and progress of long computations; cleanup of resources that PostgreSQL does
 *	  not manage: threads, engine memory, file descriptors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INTERRUPTS_H
#define FASTED_INTERRUPTS_H

#include "lib/ilist.h"
#include "portability/instr_time.h"
#include "utils/palloc.h"
#include "utils/resowner.h"

/* Returns the seconds that have passed since begin. */
static inline double
SecondsSince(instr_time begin)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, begin);
	return INSTR_TIME_GET_DOUBLE(now);
}

/* Maximum time between two calls of CheckJoinInterrupts. */
#define JOIN_POLL_MS 20

/*
 * Like CHECK_FOR_INTERRUPTS, but also checks from time to time that the postmaster and the client
 * still exist.  Cheap enough for every batch of rows.
 */
extern void CheckJoinInterrupts(void);

/* Rows, or pairs, between two checks for interrupts: about a millisecond, even with random access. */
#define CHECKED_ROWS (64 * 1024)

/* Checks for interrupts in a loop over rows or pairs, from time to time.  i: number of the iteration. */
static inline void
CheckEveryRows(uint32 i)
{
	if (i % CHECKED_ROWS == 0)
		CheckJoinInterrupts();
}

typedef struct Cleanup
{
	void		(*clean) (void *arg);
	void	   *arg;
	ResourceOwner owner;		/* NULL: the owner has been released, or there was none */
	dlist_node	node;			/* in the list of cleanups with an owner */
	MemoryContextCallback callback;
} Cleanup;

/*
 * Arranges for clean(arg) to be called when the current memory context is reset or deleted, or
 * earlier, when the current resource owner is released after an error.  (If a cursor fails in a
 * subtransaction, its portal keeps its memory until it is closed.)  So clean may be
 * called twice.  It must not raise errors, nor allocate or free memory of PostgreSQL.  The
 * Cleanup itself must be allocated in the current memory context.
 */
extern void CleanupRegister(Cleanup *cleanup, void (*clean) (void *arg), void *arg);

/* --- progress of a join, for the view pg_stat_fasted_progress */

typedef enum ProgressPhase
{
	PROGRESS_READING = 1,			/* rows are pushed to the engine */
	PROGRESS_PREPARING,			/* the engine starts */
	PROGRESS_JOINING,				/* the engine computes and returns pairs */
	PROGRESS_SPANNING_TREE,		/* the rounds of a minimum spanning tree, and their searches */
	PROGRESS_CLUSTERING			/* all pairs were returned, rows are clustered */
} ProgressPhase;

typedef struct ProgressNumbers
{
	uint64		rows_read;
	uint64		rows_expected;	/* estimate of the planner */
	uint64		units_done;
	uint64		units_total;
	uint64		pairs;
} ProgressNumbers;

typedef struct Progress
{
	Oid			relid;			/* joined relation; InvalidOid if there are several */
	instr_time	shown;			/* when the view was last updated */
} Progress;

/* IsDue: the view should be updated; it reads the clock once.  End may be called twice, and after errors. */
extern void ProgressBegin(Progress *progress, Oid relid);
extern bool ProgressIsDue(const Progress *progress);
extern void ProgressShow(Progress *progress, ProgressPhase phase, const ProgressNumbers *numbers);
extern void ProgressEnd(Progress *progress);

#endif							/* FASTED_INTERRUPTS_H */
