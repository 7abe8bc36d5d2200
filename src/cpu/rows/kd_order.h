/*-------------------------------------------------------------------------
 *
 * kd_order.h
 *	  Order of rows in which near rows are adjacent.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_KD_ORDER_H
#define FASTED_CPU_KD_ORDER_H

#include "../state/worker.h"

/*
 * Writes the order of projected rows to order[]: the row number at each place.  The buffer holds 8
 * bytes per row.  Returns false if the join is being closed.
 */
extern bool cpu_kd_order(Worker *worker, const Projection *projection, const float *projected,
						 size_t rows, void *buffer, uint32_t *order);

#endif							/* FASTED_CPU_KD_ORDER_H */
