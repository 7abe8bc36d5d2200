/*-------------------------------------------------------------------------
 *
 * cpu_phases.h
 *	  Planning of a join's memory and work, and the phases of a join: cpu_plan.c, cpu_workers.c,
 *	  cpu_choice.c, cpu_nearest.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_PHASES_H
#define FASTED_CPU_PHASES_H

#include "cpu_state.h"

/* cpu_choice.c */
extern bool cpu_prepare_choice(FastedJoin *join);
extern void cpu_try_form(Worker *worker);
extern void cpu_choose_filter(Worker *worker);
extern void cpu_keep_forms(FastedJoin *join);
extern bool cpu_prepare_pruning(FastedJoin *join);
extern void cpu_fit_projection(Worker *worker);
extern bool cpu_begin_projecting(FastedJoin *join);
extern bool cpu_begin_levels(FastedJoin *join);
extern bool cpu_begin_testing(FastedJoin *join);
extern void cpu_test_levels(Worker *worker);
extern void cpu_choose_levels(FastedJoin *join);
extern void cpu_keep_levels(FastedJoin *join);

/* cpu_nearest.c */
extern void cpu_find_radii(Worker *worker);

/* --- cpu_plan.c: memory, and how a join is cut into work */

/* 2^32 divided by the golden ratio. */
#define GOLDEN_RATIO_STEP UINT32_C(2654435769)

/*
 * Returns true if a work item belongs to the slice.  If rows are ordered, tiles near the diagonal
 * have most of the work.  So each slice gets work items distributed over the whole range:
 * multiples of the golden ratio are distributed evenly over the slices.
 */
static inline bool
cpu_is_in_slice(const FastedJoin *join, uint64_t item)
{
	uint32_t	place = (uint32_t) (item + join->number) * GOLDEN_RATIO_STEP;

	return !join->interleaved ||
		(((uint64_t) place * join->problem.slices) >> 32) - join->problem.slice <= join->problem.more_slices;
}

extern void cpu_plan_memory(FastedContext *context);
extern bool cpu_fits(const FastedContext *context, const uint64_t *rows, int nsets);
extern uint64_t cpu_rows_for_lists(const FastedContext *context, uint64_t rows, uint32_t k);
extern uint64_t cpu_rows_with_lists(const FastedContext *context, uint64_t rows, uint32_t k);
extern size_t cpu_pool_blocks(int threads);

extern bool cpu_plan_join(FastedJoin *join);
extern uint64_t cpu_count_items(const FastedJoin *join);

/* --- cpu_workers.c: threads */

/*
 * How long workers continue after the caller's last call, in milliseconds: after a call of pause,
 * which suits callers that return soon, such as loops in PL/pgSQL; and without one.
 */
#define PAUSE_MS 25
#define CALLER_AWAY_MS 1000

extern FastedStatus cpu_reserve_workers(FastedContext *context, int nworkers, bool sums);
extern uint64_t cpu_worker_bytes(const FastedContext *context, bool sums);
extern void cpu_end_workers(FastedContext *context);
extern void cpu_begin_join(FastedJoin *join);
extern void cpu_stop_join(FastedJoin *join);

#endif							/* FASTED_CPU_PHASES_H */
