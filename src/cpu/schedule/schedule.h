/*-------------------------------------------------------------------------
 *
 * schedule.h
 *	  Plans of memory (memory_plan.c) and of work (work_plan.c); threads and phases (threads.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_SCHEDULE_H
#define FASTED_CPU_SCHEDULE_H

#include "../state/worker.h"

/* --- the memory of a context */

/*
 * Returns how many workers, at least 1 and at most `workers`, fit into a quarter of the memory; `sums`
 * as for cpu_worker_bytes.
 */
extern int	cpu_limit_workers(const FastedContext *context, int workers, bool sums);

/* Plans the memory of a context.  None is for pruning if only sets too small for it fit into memory. */
extern void cpu_plan_memory(FastedContext *context);

/* FastedEngine.fits: returns whether sets with these numbers of rows fit into memory together. */
extern bool cpu_fits(const FastedContext *context, const uint64_t *rows, int nsets);

/* Returns how many rows without lists take as much memory as the lists of k neighbors of `rows` rows. */
extern uint64_t cpu_rows_for_lists(const FastedContext *context, uint64_t rows, uint32_t k);

/* Returns how many rows with lists of k neighbors fit into the memory of `rows` rows without lists. */
extern uint64_t cpu_rows_with_lists(const FastedContext *context, uint64_t rows, uint32_t k);

/* Returns the number of blocks of pairs for this many threads. */
extern size_t cpu_pool_blocks(int threads);

/* --- the work items of a join */

/*
 * Returns true if a work item belongs to the slice.  If rows are ordered, tiles near the diagonal
 * have most of the work.  So each slice gets work items distributed over the whole range: one of
 * any `slices` consecutive items, each time in another place.
 */
static inline bool
cpu_is_in_slice(const FastedJoin *join, uint64_t item)
{
	uint64_t	place = (item + item / join->problem.slices + join->work.number) % join->problem.slices;

	return !join->work.interleaved || place - join->problem.slice <= join->problem.more_slices;
}

/* Plans the threads, blocks and work items of a join.  Returns false if out of memory. */
extern bool cpu_plan_join(FastedJoin *join);

/* Returns the number of the slice's work items. */
extern uint64_t cpu_count_items(const FastedJoin *join);

/* --- threads, and the phases of a join */

/*
 * How long workers continue after the caller's last call, in milliseconds: after a call of pause, by
 * callers that return soon, such as loops in PL/pgSQL; and without one.
 */
#define PAUSE_MS 25
#define CALLER_AWAY_MS 1000

/*
 * Starts threads until there are nworkers, or as many as the system allows, but at least one.  `sums`:
 * each gets a buffer of sums even if rows have a single segment.
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

#endif							/* FASTED_CPU_SCHEDULE_H */
