/*-------------------------------------------------------------------------
 *
 * cpu_plan.h
 *	  Memory and work are planned: cpu_plan.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_PLAN_H
#define FASTED_CPU_PLAN_H

#include "cpu_state.h"

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

/* False where memory runs out. */
extern bool cpu_plan_join(FastedJoin *join);
extern uint64_t cpu_claims_of(const FastedJoin *join);

#endif							/* FASTED_CPU_PLAN_H */
