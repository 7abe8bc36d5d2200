/*-------------------------------------------------------------------------
 *
 * work_plan.h
 *	  Partition of a join into work items.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_WORK_PLAN_H
#define FASTED_CPU_WORK_PLAN_H

#include "../state/join.h"

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
	uint32_t	place = (uint32_t) (item + join->work.number) * GOLDEN_RATIO_STEP;

	return !join->work.interleaved ||
		(((uint64_t) place * join->problem.slices) >> 32) - join->problem.slice <= join->problem.more_slices;
}

/* Plans the threads, blocks and work items of a join.  Returns false if out of memory. */
extern bool cpu_plan_join(FastedJoin *join);

/*
 * Returns the number of the slice's work items.  For 10^8 rows, testing them one by one would take
 * seconds.
 */
extern uint64_t cpu_count_items(const FastedJoin *join);

#endif							/* FASTED_CPU_WORK_PLAN_H */
