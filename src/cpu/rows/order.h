/*-------------------------------------------------------------------------
 *
 * order.h
 *	  Orders of rows: near rows adjacent (kd_order.c); rows of large components (component_order.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_ORDER_H
#define FASTED_CPU_ORDER_H

#include "../state/worker.h"

/* Returns the component of the row at this place of set `side`. */
static inline uint32_t
cpu_component_at(const FastedJoin *join, int side, size_t place)
{
	return join->problem.components->component[side][cpu_row_at(join->sets[side], place)];
}

/* Allocates the buffers of cpu_group_rows, unless rows must not be moved.  False if out of memory. */
extern bool cpu_reserve_grouping(FastedJoin *join);

/* Returns true if rows are to be moved. */
extern bool cpu_begin_grouping(FastedJoin *join);

/* Phase of a join: moves rows of a large component together; each set is one work item. */
extern void cpu_group_rows(Worker *worker);

/* Frees the buffers.  Sets whose rows were moved only in part have to be packed again. */
extern void cpu_end_grouping(FastedJoin *join);

/*
 * Writes the row number at each place to order[].  The buffer holds 8 bytes per row.  Returns false if
 * the join is being closed.
 */
extern bool cpu_kd_order(Worker *worker, const Projection *projection, const float *projected,
						 size_t rows, void *buffer, uint32_t *order);

#endif							/* FASTED_CPU_ORDER_H */
