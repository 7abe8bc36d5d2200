/*-------------------------------------------------------------------------
 *
 * filter_row.h
 *	  Filter rows: the rows that are packed or sampled in place of the input rows; and samples of rows.
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

/* --- samples */

/* A sample: counts[i] rows of set i, evenly distributed over it; or an array of given rows. */
typedef struct Sample
{
	const RowStore *rows[2];
	uint32_t	counts[2];
	const float *const *given;	/* counts[0] filter rows; or NULL */
} Sample;

/* Returns sampled row s of `count` rows, evenly distributed over these rows. */
static inline const float *
cpu_sampled_row(const RowStore *rows, uint32_t s, uint32_t count)
{
	return row_store_row(rows, fasted_sample_row(s, count, (uint32_t) rows->rows));
}

/* Returns the number of rows of a sample. */
static inline uint32_t
cpu_sample_size(const Sample *sample)
{
	return sample->counts[0] + sample->counts[1];
}

/* Returns the input row of sampled row s.  The sample must be of sets. */
static inline const float *
cpu_stored_sample_row(const Sample *sample, uint32_t s)
{
	return s < sample->counts[0] ? cpu_sampled_row(sample->rows[0], s, sample->counts[0])
		: cpu_sampled_row(sample->rows[1], s - sample->counts[0], sample->counts[1]);
}

/*
 * Chooses the size of a sample: rows with `coordinates` coordinates in total, but at least
 * `least` and at most `most` rows.  Of two sets, each gives half of the rows.
 */
extern Sample cpu_choose_sample(const FastedJoin *join, uint32_t coordinates, uint32_t least,
							  uint32_t most);

/* Sorts numbers in ascending order.  None may be NaN. */
extern void cpu_sort_doubles(double *values, size_t count);

#endif							/* FASTED_CPU_FILTER_ROW_H */
