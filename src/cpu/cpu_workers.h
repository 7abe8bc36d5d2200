/*-------------------------------------------------------------------------
 *
 * cpu_workers.h
 *	  Threads and the phases of a join: cpu_workers.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_WORKERS_H
#define FASTED_CPU_WORKERS_H

#include "cpu_state.h"

/*
 * How long workers go on after the caller's last call: after pause, which is long
 * enough for callers that come in quick turns, such as the loops of PL/pgSQL; and
 * without it, where nobody told us that pairs are not wanted for now.
 */
#define PAUSE_MS 25
#define CALLER_AWAY_MS 1000

extern FastedStatus cpu_reserve_workers(FastedContext *context, int nworkers);
extern bool cpu_reserve_sums(FastedContext *context);
extern void cpu_end_workers(FastedContext *context);
extern void cpu_begin_join(FastedJoin *join);
extern void cpu_stop_join(FastedJoin *join);

#endif							/* FASTED_CPU_WORKERS_H */
