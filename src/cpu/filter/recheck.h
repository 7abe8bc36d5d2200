/*-------------------------------------------------------------------------
 *
 * recheck.h
 *	  Recheck of candidates by their canonical distance, and output of pairs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_RECHECK_H
#define FASTED_CPU_RECHECK_H

#include "../state/worker.h"

/* Returns the canonical distance of the rows x and y, at these places of a and b. */
static inline double
cpu_distance(const FastedContext *context, const PackedRows *a, const PackedRows *b, size_t row,
			 size_t col, const float *x, const float *y)
{
	const MetricRules *metric = context->metric;
	double		value = context->distance(x, y, context->length);

	if (metric->of_squares != NULL)
		return metric->of_squares(value, a->squares[row], b->squares[col]);
	return metric->negative_product ? 0.0 - value : value;
}

/* Appends one row's candidates in block `number` of the strip to the list. */
extern void cpu_list_row(Worker *worker, const Strip *strip, uint32_t row, uint32_t number);

/* Rechecks all candidates of the strip.  Returns false if the join is being closed. */
extern bool cpu_refine_strip(Worker *worker, const Strip *strip);

#endif							/* FASTED_CPU_RECHECK_H */
