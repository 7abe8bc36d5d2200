/*-------------------------------------------------------------------------
 *
 * cpu_groups.h
 *	  Joins in which only rows of one group meet.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_GROUPS_H
#define FASTED_CPU_GROUPS_H

#include "cpu_state.h"

/* How many columns a row meets, in the mean. */
extern double cpu_group_columns(const FastedJoin *join);

/* Rows of a block, a multiple of step, that groups are worth. */
extern uint32_t cpu_group_block(const FastedJoin *join, uint32_t step);
extern bool cpu_plan_strips(FastedJoin *join);
extern void cpu_forget_strips(FastedJoin *join);
extern bool cpu_locate_group_strip(const FastedJoin *join, uint64_t claim, Strip *strip);
extern void cpu_keep_group(Worker *worker, const Strip *strip, uint32_t row, uint32_t first);

#endif							/* FASTED_CPU_GROUPS_H */
