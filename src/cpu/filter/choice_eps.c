/*-------------------------------------------------------------------------
 *
 * choice_eps.c
 *	  Estimates the distance of nearest neighbors, for which a join chooses its filter.
 *
 *-------------------------------------------------------------------------
 */
#include "../../engine/filter_bound.h"
#include "../rows/sample.h"
#include "choice_eps.h"
#include "recheck.h"

/* Rows sampled to estimate the distance of neighbours, and the rows each is compared with. */
#define EPS_ROWS 64
#define EPS_OTHERS 256

/* Returns the distance of two input rows; NaN if a row has no direction. */
static double
distance_of(const FastedContext *context, const float *x, const float *y)
{
	/* the squares of these samples are not used */
	const Recheck recheck = cpu_recheck(context, &context->samples[0], &context->samples[0]);
	uint32_t	d = context->length;
	double		xx;
	double		yy;

	if (recheck.of_squares == NULL)
		return cpu_distance(&recheck, recheck.rows(x, y, d), 0, 0);
	xx = recheck.rows(x, x, d);
	yy = recheck.rows(y, y, d);
	if (!fasted_has_direction(xx) || !fasted_has_direction(yy))
		return NAN;
	return recheck.of_squares(recheck.rows(x, y, d), xx, yy);
}

/*
 * Returns the row's bound, if it has a finite one.  Otherwise estimates the distance of its k-th
 * neighbour from a sample; NaN if that is not possible.
 */
static double
radius_by_sample(Worker *worker, uint32_t number)
{
	const FastedJoin *join = worker->join;
	const float *row = row_store_row(&join->sets[0]->rows, number);
	FastedSpan	span = cpu_rows_met(join, 0, number);
	uint32_t	all = span.end - span.first;
	uint32_t	others = all < EPS_OTHERS ? all : EPS_OTHERS;
	double	   *distances = worker->near.reach;
	uint32_t	count = 0;
	uint64_t	place;

	if (join->problem.components != NULL && isfinite(join->problem.components->bound[number]))
		return join->problem.components->bound[number];
	for (uint32_t s = 0; s < others; s++)
	{
		const float *other = row_store_row(&join->sets[1]->rows,
										   span.first + fasted_sample_row(s, others, all));
		double		dist = other == row ? NAN : distance_of(worker->context, row, other);

		if (!isnan(dist))
			distances[count++] = dist;
	}
	if (count == 0)
		return NAN;
	cpu_sort_doubles(distances, count);
	place = (uint64_t) join->problem.k * others / all;
	return distances[place < count ? place : count - 1];
}

void
cpu_find_choice_eps(Worker *worker)
{
	FastedJoin *join = worker->join;
	const RowStore *rows = &join->sets[0]->rows;
	uint32_t	nrows = rows->rows < EPS_ROWS ? (uint32_t) rows->rows : EPS_ROWS;
	double		radii[EPS_ROWS];
	uint32_t	count = 0;

	for (uint32_t s = 0; s < nrows && !cpu_stopping(worker->context); s++)
	{
		double		radius = radius_by_sample(worker, fasted_sample_row(s, nrows,
																		(uint32_t) rows->rows));

		if (!isnan(radius))
			radii[count++] = radius;
	}
	if (count == 0)
		return;
	cpu_sort_doubles(radii, count);
	join->choice.eps = fmin(join->problem.eps, join->context->metric->negative_product ? radii[count / 2]
							: fmax(radii[count / 2], 0.0));
}
