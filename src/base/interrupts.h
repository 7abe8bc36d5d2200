/*-------------------------------------------------------------------------
 *
 * interrupts.h
 *	  Cancellation during long computations.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INTERRUPTS_H
#define FASTED_INTERRUPTS_H

/* How long we may stay away from CheckJoinInterrupts. */
#define JOIN_POLL_MS 20

/*
 * CHECK_FOR_INTERRUPTS, and every now and then a look whether the postmaster and
 * the client are still there.  Cheap enough for every batch of rows.
 */
extern void CheckJoinInterrupts(void);

#endif							/* FASTED_INTERRUPTS_H */
