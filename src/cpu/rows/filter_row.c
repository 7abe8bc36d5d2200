/*-------------------------------------------------------------------------
 *
 * filter_row.c
 *	  Filter rows: the rows that are packed or sampled in place of the input rows; and samples of rows.
 *
 * Input rows are stored unmodified.  To pack or sample a row, its filter row is requested here.
 * That is the row itself or, written to a worker's buffer, x / |x| in FP32 (cosine) or the row
 * rounded to FP32 (rows of doubles).  doc/internals/bound.md, sections 7 and 9, proves that the filter
 * loses no pair.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdlib.h>

#include "../../engine/filter_bound.h"
#include "filter_row.h"

double
cpu_square_of(const Worker *worker, const float *row)
{
	return worker->context->dot(row, row, worker->context->options.dimensions);
}

static const float *
write_narrowed(const Worker *worker, const float *row, float *to)
{
	const double *from = (const double *) row;
	uint32_t	d = worker->context->options.dimensions;

	for (uint32_t k = 0; k < d; k++)
		to[k] = fasted_narrow(from[k]);
	return to;
}

double
cpu_row_moved(const FastedContext *context, const float *row)
{
	const double *from = (const double *) row;
	uint32_t	d = context->options.dimensions;
	double		error2 = 0.0;

	if (!context->doubles || context->metric->has_direction)
		return 0.0;
	for (uint32_t k = 0; k < d; k++)
	{
		double		diff = from[k] - (double) fasted_narrow(from[k]);

		error2 += diff * diff;
	}
	return fasted_narrowed(error2, d);
}

const float *
cpu_filter_row(const Worker *worker, const float *row, float *to, double *square)
{
	uint32_t	d = worker->context->options.dimensions;
	double		scale;

	if (worker->context->metric->of_product)
		*square = cpu_square_of(worker, row);
	if (!worker->context->metric->has_direction)
		return worker->context->doubles ? write_narrowed(worker, row, to) : row;
	if (!fasted_has_direction(*square))
		return NULL;
	scale = 1.0 / sqrt(*square);
	for (uint32_t k = 0; k < d; k++)
		to[k] = (float) (cpu_coordinate(worker->context, row, k) * scale);
	return to;
}

/* --- samples */

Sample
cpu_choose_sample(const FastedJoin *join, uint32_t coordinates, uint32_t least, uint32_t most)
{
	uint32_t	count = cpu_clamp(coordinates / join->context->options.dimensions, least, most);
	Sample		sample = {.rows = {&join->sets[0]->rows, &join->sets[1]->rows}};

	if (!join->self)
		count = (count + 1) / 2;
	for (int i = 0; i < join->nsets; i++)
		sample.counts[i] = count < sample.rows[i]->rows ? count
			: (uint32_t) sample.rows[i]->rows;
	return sample;
}

static int
compare_doubles(const void *left, const void *right)
{
	double		x = *(const double *) left;
	double		y = *(const double *) right;

	return (x > y) - (x < y);
}

void
cpu_sort_doubles(double *values, size_t count)
{
	qsort(values, count, sizeof(double), compare_doubles);
}
