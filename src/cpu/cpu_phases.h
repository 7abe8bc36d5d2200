/*-------------------------------------------------------------------------
 *
 * cpu_phases.h
 *	  A join's memory and work are planned, and its phases: cpu_plan.c, cpu_workers.c, and
 *	  those that look at samples, cpu_choice.c and cpu_nearest.c.
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
extern void cpu_test_levels(Worker *worker);
extern void cpu_keep_levels(FastedJoin *join);

/* cpu_nearest.c */
extern void cpu_find_radii(Worker *worker);

/* --- cpu_plan.c: memory, and how a join is cut into work */

/* The golden ratio's share of 2^32. */
#define SPREAD_STEP UINT32_C(2654435769)

/*
 * Where rows may be in an order, near ones together, tiles on the diagonal have most of
 * the work, so a slice has claims here and there: multiples of the golden ratio fall evenly
 * into all slices, whichever numbers the diagonal's are.
 */
static inline bool
cpu_is_in_slice(const FastedJoin *join, uint64_t claim)
{
	uint32_t	place = (uint32_t) (claim + join->number) * SPREAD_STEP;

	return !join->spread ||
		(((uint64_t) place * join->problem.slices) >> 32) - join->problem.slice <= join->problem.more_slices;
}

extern void cpu_plan_memory(FastedContext *context);
extern bool cpu_fits(const FastedContext *context, const uint64_t *rows, int nsets);
extern uint64_t cpu_list_rows(const FastedContext *context, uint64_t rows, uint32_t k);
extern uint64_t cpu_rows_with_lists(const FastedContext *context, uint64_t rows, uint32_t k);
extern size_t cpu_pool_blocks(int threads);

extern bool cpu_plan_join(FastedJoin *join);
extern uint64_t cpu_claims_of(const FastedJoin *join);

/* --- cpu_workers.c: threads */

/*
 * How long workers go on after the caller's last call: after pause, which is long
 * enough for callers that come in quick turns, such as the loops of PL/pgSQL; and
 * without it, where nobody told us that pairs are not wanted for now.
 */
#define PAUSE_MS 25
#define CALLER_AWAY_MS 1000

extern FastedStatus cpu_reserve_workers(FastedContext *context, int nworkers, bool sums);
extern uint64_t cpu_worker_bytes(const FastedContext *context, bool sums);
extern void cpu_end_workers(FastedContext *context);
extern void cpu_begin_join(FastedJoin *join);
extern void cpu_stop_join(FastedJoin *join);

#endif							/* FASTED_CPU_PHASES_H */
