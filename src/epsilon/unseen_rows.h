/*-------------------------------------------------------------------------
 *
 * unseen_rows.h
 *	  How many rows a sample may miss, all of them, by chance.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_UNSEEN_ROWS_H
#define FASTED_UNSEEN_ROWS_H

#include <math.h>

/* The logarithm of the probability that a sample of so many of all rows has none of these. */
static inline double
fasted_log_missed(double rows, double total, double unseen)
{
	return (lgamma(total - rows + 1.0) - lgamma(total - rows - unseen + 1.0)) -
		(lgamma(total + 1.0) - lgamma(total - unseen + 1.0));
}

/*
 * The most rows that a sample misses with at least this probability.  By halves: they may
 * be a large part of thousands of millions.
 */
static inline double
fasted_unseen_rows(double rows, double total, double probability)
{
	double		low = 0.0;
	double		high = total - rows + 1.0;

	while (high - low > 1.0)
	{
		double		middle = floor((low + high) / 2.0);

		if (fasted_log_missed(rows, total, middle) >= log(probability))
			low = middle;
		else
			high = middle;
	}
	return low;
}

#endif							/* FASTED_UNSEEN_ROWS_H */
