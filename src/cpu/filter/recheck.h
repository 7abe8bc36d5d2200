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

/*
 * Functions that recheck candidates.  A function of the two input rows computes a value; the first
 * row may be widened to FP64.  The distance is that value, or is computed from it and the rows'
 * squares.
 */
typedef struct Recheck
{
	bool		negative;		/* the distance is the negative value */
	RowFunction rows;
	RowFunction wide;			/* NULL: rows of doubles are not widened */
	/*
	 * The distance, from the value and the squares of both rows; NULL: the value is the distance, or
	 * its negative.
	 */
	double		(*of_squares) (double value, double xx, double yy);
	const double *squares_a;
	const double *squares_b;
} Recheck;

/* Returns the functions that recheck the rows of a and b.  Only the squares of these rows are used. */
static inline Recheck
cpu_recheck(const FastedContext *context, const PackedRows *a, const PackedRows *b)
{
	return (Recheck) {
		.negative = context->metric->negative_product,.rows = context->distance,
		.wide = context->distance_wide,.of_squares = context->metric->of_squares,
		.squares_a = a->squares,.squares_b = b->squares
	};
}

/* Returns the canonical distance of the rows at these places, from their recheck value. */
static inline double
cpu_distance(const Recheck *recheck, double number, size_t row, size_t col)
{
	if (recheck->of_squares == NULL)
		return recheck->negative ? 0.0 - number : number;
	return recheck->of_squares(number, recheck->squares_a[row], recheck->squares_b[col]);
}

/* Appends one row's candidates in block `number` of the strip to the list. */
extern void cpu_list_row(Worker *worker, const Strip *strip, uint32_t row, uint32_t number);

/* Rechecks all candidates of the strip.  Returns false if the join is being closed. */
extern bool cpu_refine_strip(Worker *worker, const Strip *strip);

/* Passes the block being filled to the caller's queue. */
extern void cpu_flush_block(Worker *worker);

#endif							/* FASTED_CPU_RECHECK_H */
