/*-------------------------------------------------------------------------
 *
 * threads.h
 *	  Threads, and the phases of a join.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_THREADS_H
#define FASTED_CPU_THREADS_H

#include "../state/worker.h"

/*
 * How long workers continue after the caller's last call, in milliseconds: after a call of pause,
 * which suits callers that return soon, such as loops in PL/pgSQL; and without one.
 */
#define PAUSE_MS 25
#define CALLER_AWAY_MS 1000

/*
 * Starts threads until there are nworkers, or as many as the system allows, but at least one.
 * With sums, each worker gets a buffer of sums even if rows have a single segment.
 */
extern FastedStatus cpu_reserve_workers(FastedContext *context, int nworkers, bool sums);

/* Returns the bytes per worker.  Sums are included if requested or needed for segments. */
extern uint64_t cpu_worker_bytes(const FastedContext *context, bool sums);

/* Ends all threads.  No join may be open. */
extern void cpu_end_workers(FastedContext *context);

/* Starts the first phase that the sets need. */
extern void cpu_begin_join(FastedJoin *join);

/* Stops a join, and waits until no worker is working on it. */
extern void cpu_stop_join(FastedJoin *join);

#endif							/* FASTED_CPU_THREADS_H */
