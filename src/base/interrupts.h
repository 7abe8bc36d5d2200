/*-------------------------------------------------------------------------
 *
 * interrupts.h
 *	  Cancellation of long computations, and the end of what PostgreSQL does not know:
 *	  threads, memory of an engine, descriptors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INTERRUPTS_H
#define FASTED_INTERRUPTS_H

#include "lib/ilist.h"
#include "utils/palloc.h"
#include "utils/resowner.h"

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

#endif							/* FASTED_INTERRUPTS_H */
