/*-------------------------------------------------------------------------
 *
 * filter_row.h
 *	  Filter rows: the rows that are packed or sampled in place of the input rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_FILTER_ROW_H
#define FASTED_CPU_FILTER_ROW_H

#include "../state/worker.h"

/* Returns coordinate k of an input row. */
static inline double
cpu_coordinate(const FastedContext *context, const float *row, uint32_t k)
{
	return context->doubles ? ((const double *) row)[k] : (double) row[k];
}

/* Returns x.x of an input row. */
extern double cpu_square_of(const Worker *worker, const float *row);

/* Returns a bound of the Euclidean distance between the filter row and the stored row. */
extern double cpu_row_moved(const FastedContext *context, const float *row);

/*
 * Returns the filter row, which may be written to `to`; NULL if the row can have no pairs.  For
 * the cosine distance it is the direction.  *square is set to x.x, for the cosine distance and the
 * inner product.
 */
extern const float *cpu_filter_row(const Worker *worker, const float *row, float *to,
								   double *square);

#endif							/* FASTED_CPU_FILTER_ROW_H */
