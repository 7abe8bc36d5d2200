/*-------------------------------------------------------------------------
 *
 * component_order.h
 *	  Moves the packed rows of large components together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_COMPONENT_ORDER_H
#define FASTED_CPU_COMPONENT_ORDER_H

#include "../state/worker.h"

/* Returns the component of the row at this place of set `side`. */
static inline uint32_t
cpu_component_at(const FastedJoin *join, int side, size_t place)
{
	return join->problem.components->component[side][cpu_row_at(join->sets[side], place)];
}

/*
 * Allocates the buffers of cpu_group_rows, unless rows must not be moved.  Returns false if out of
 * memory.
 */
extern bool cpu_reserve_grouping(FastedJoin *join);

/* Returns true if rows are to be moved. */
extern bool cpu_begin_grouping(FastedJoin *join);

/* Phase of a join: moves rows of a large component together; each set is one work item. */
extern void cpu_group_rows(Worker *worker);

/* Frees the buffers.  Sets whose rows were moved only in part have to be packed again. */
extern void cpu_end_grouping(FastedJoin *join);

#endif							/* FASTED_CPU_COMPONENT_ORDER_H */
