/*-------------------------------------------------------------------------
 *
 * cpu_direction.c
 *	  What the filter sees of a row: its direction, by cosine; floats, of doubles.
 *
 * Rows stay as they came.  Whoever packs or samples one asks for it here, and gets
 * the row itself or, in a place of the worker's, x / |x| in FP32 (by cosine) or the row
 * rounded to FP32 (doubles).  That the filter then loses no pair is proved in
 * doc/bound-cosine.md and doc/bound-double.md.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "../engine/filter_bound.h"
#include "cpu_join.h"

static double
square_of(const Worker *worker, const float *row)
{
	const FastedContext *context = worker->context;

	if (cpu_has_doubles(context))
		return context->kernel->dot_double((const double *) row, (const double *) row,
										   context->options.dimensions);
	return context->kernel->dot(row, row, context->options.dimensions);
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

/* How far the filter's row is from the stored one, by the Euclidean distance. */
double
cpu_row_moved(const FastedContext *context, const float *row)
{
	const double *from = (const double *) row;
	uint32_t	d = context->options.dimensions;
	double		error2 = 0.0;

	if (!cpu_has_doubles(context) || cpu_is_cosine(context))
		return 0.0;
	for (uint32_t k = 0; k < d; k++)
	{
		double		diff = from[k] - (double) fasted_narrow(from[k]);

		error2 += diff * diff;
	}
	return fasted_narrowed(error2, d);
}

/* The row's direction; zeros where it has none.  The square is the row's x.x. */
static const float *
write_direction(const Worker *worker, const float *row, double square, float *direction)
{
	uint32_t	d = worker->context->options.dimensions;
	double		scale = 1.0 / sqrt(square);

	if (!fasted_has_direction(square))
		memset(direction, 0, d * sizeof(float));
	else
	{
		for (uint32_t k = 0; k < d; k++)
			direction[k] = (float) (cpu_coordinate(worker->context, row, k) * scale);
	}
	return direction;
}

/* What the filter sees of a row, perhaps written to `to`; NULL: it has no pairs. */
const float *
cpu_filter_row(const Worker *worker, const float *row, float *to)
{
	double		square;

	if (!cpu_is_cosine(worker->context))
		return cpu_has_doubles(worker->context) ? write_narrowed(worker, row, to) : row;
	square = square_of(worker, row);
	return fasted_has_direction(square) ? write_direction(worker, row, square, to) : NULL;
}

/*
 * The row at this place of those to be packed: what is packed for it, NULL for a row
 * that has no pairs.  Keeps its x.x for the recheck.
 */
const float *
cpu_row_to_pack(Worker *worker, const PackedRows *to, size_t place, const float *row)
{
	float	   *room = cpu_direction_room(worker, place % worker->context->kernel->width);
	double		square;

	if (!cpu_is_cosine(worker->context))
		return cpu_filter_row(worker, row, room);
	square = to->squares[place] = square_of(worker, row);
	if (!fasted_has_direction(square))
		return NULL;
	return write_direction(worker, row, square, room);
}

/* Row s of a sample as the filter sees it; good until the next call. */
const float *
cpu_sample_row(Worker *worker, const Sample *sample, uint32_t s)
{
	const float *row = cpu_stored_sample_row(sample, s);

	return cpu_is_cosine(worker->context)
		? write_direction(worker, row, square_of(worker, row), worker->directions)
		: cpu_filter_row(worker, row, worker->directions);
}

/* The factor by which a stored row becomes what the filter sees; NaN: it has no pairs. */
double
cpu_row_scale(const Worker *worker, const float *row)
{
	double		square;

	if (!cpu_is_cosine(worker->context))
		return 1.0;
	square = square_of(worker, row);
	return fasted_has_direction(square) ? 1.0 / sqrt(square) : NAN;
}
