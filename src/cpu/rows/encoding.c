/*-------------------------------------------------------------------------
 *
 * encoding.c
 *	  Encodings: the centre, the scale and the integer transform.
 *
 * The filter uses (x - centre) * scale.  Any centre and scale are correct (doc/internals/bound-int8.md);
 * good ones make norms and error terms small.  The centre is the mean of the middle half of a sample,
 * for each coordinate; a few huge rows do not affect it.  The scale is a power of two that brings typical
 * rows to about 1.
 *
 * The integer filter computes exact inner products of rows that are centred, scaled, rotated and
 * rounded.  Rows of small integers are only centred, and therefore exact.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <string.h>

#include "../../engine/filter_bound.h"
#include "encoding.h"

/* Coordinates per work item while the centre is computed. */
#define CENTRE_STEP 64

/* Rows sampled to check whether all are small integers. */
#define RANGE_ROWS 1024

/* Largest number of sampled coordinates, and least number of sampled rows. */
#define SAMPLE_COORDINATES (1 << 20)
#define SAMPLE_ROWS_LEAST 32

/*
 * One sampled row in this many may be an outlier.  Fewer are expected; a sample may have twice as
 * many.  For inner products there are fewer, because most pairs are of large rows.
 */
#define OUTLIERS 16
#define PRODUCT_OUTLIERS 64

/* Scales are limited to well within the range of FP32. */
#define SCALE_LIMIT 0x1p110

/* Coordinates of a typical row are not clamped up to this multiple of their root mean square. */
#define INT16_ROOM 4.0

/* Returns filter row s of a sample.  It is valid until the next call. */
static const float *
cpu_sample_row(Worker *worker, const Sample *sample, uint32_t s)
{
	const float *row;
	double		square;

	if (sample->given != NULL)
		return sample->given[s];
	row = cpu_filter_row(worker, cpu_stored_sample_row(sample, s), worker->directions, &square);
	if (row == NULL)
		row = memset(worker->directions, 0, worker->context->options.dimensions * sizeof(float));
	return row;
}

/* --- the centre and the scale */

/* Returns the mean of the middle half of some values.  Sorts the values. */
static float
middle_mean(double *values, uint32_t count)
{
	uint32_t	skip = count / 4;
	double		sum = 0.0;

	cpu_sort_doubles(values, count);
	for (uint32_t i = skip; i < count - skip; i++)
		sum += values[i];
	return (float) (sum / (count - 2 * skip));
}

/*
 * Computes coordinate k of the centre.  Raises peak[s] to the distance of sampled row s, times its
 * scale, from the centre in this coordinate.
 */
static void
find_coordinate(Worker *worker, const Sample *sample, const double *scales, uint32_t k,
				double *peak)
{
	float	   *centre = worker->join->choice.new_encoding->centre;
	uint32_t	count = cpu_sample_size(sample);
	double		x[CENTRE_ROWS];
	double		sorted[CENTRE_ROWS];
	uint32_t	finite = 0;

	for (uint32_t s = 0; s < count; s++)
	{
		x[s] = cpu_coordinate(worker->context, cpu_stored_sample_row(sample, s), k) * scales[s];
		if (isfinite((float) x[s]))
			sorted[finite++] = (float) x[s];
	}
	centre[k] = finite > 0 ? middle_mean(sorted, finite) : 0.0f;
	for (uint32_t s = 0; s < count; s++)
	{
		double		v = fabs(x[s] - centre[k]);

		if (isfinite(v) && v > peak[s])
			peak[s] = v;
	}
}

void
cpu_find_centre(Worker *worker)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	uint32_t	d = context->options.dimensions;
	uint32_t	rows = cpu_clamp(cpu_join_rows(join) / CENTRE_SHARE, CENTRE_ROWS_LEAST, CENTRE_ROWS);
	Sample		sample = cpu_choose_sample(join, 0, rows, rows);
	double		scales[CENTRE_ROWS] = {0};
	double		peak[CENTRE_ROWS] = {0};
	uint64_t	first;

	for (uint32_t s = 0; s < cpu_sample_size(&sample) && !cpu_stopping(context); s++)
	{
		/* factor from the stored row to the filter row; NaN: no pairs */
		double		square = context->metric->has_direction
			? cpu_square_of(worker, cpu_stored_sample_row(&sample, s)) : 1.0;

		scales[s] = fasted_has_direction(square) ? 1.0 / sqrt(square) : NAN;
	}
	while ((first = cpu_next_item(context) * CENTRE_STEP) < d && !cpu_stopping(context))
	{
		uint32_t	end = d - first < CENTRE_STEP ? d : first + CENTRE_STEP;

		(void) cpu_may_continue(context);
		for (uint32_t k = first; k < end; k++)
			find_coordinate(worker, &sample, scales, k, peak);
	}

	pthread_mutex_lock(&context->threads.lock);
	for (uint32_t s = 0; s < cpu_sample_size(&sample); s++)
		join->choice.sample_peak[s] = fmax(join->choice.sample_peak[s], peak[s]);
	pthread_mutex_unlock(&context->threads.lock);
}

void
cpu_find_scale(FastedJoin *join)
{
	double		peaks[CENTRE_ROWS];
	uint32_t	count = 0;
	double		typical;

	for (uint32_t s = 0; s < CENTRE_ROWS; s++)
	{
		/* halve it: the difference of two floats may exceed FLT_MAX */
		float		half = (float) (join->choice.sample_peak[s] / 2);

		if (half > 0.0f)
			peaks[count++] = half;
	}
	cpu_sort_doubles(peaks, count);
	typical = count > 0 ? 2.0 * peaks[count / 2]
		: join->context->metric->has_direction ? 1.0 : join->problem.eps;
	if (!(typical > 0x1p-149))
		typical = count > 0 ? 0x1p-149 : 1.0;
	if (!(typical < 0x1p129))
		typical = 0x1p129;
	join->choice.new_encoding->scale = ldexp(1.0, -ilogb(typical));
}

/* --- integers */

static double
limit_scale(double scale)
{
	return fmin(fmax(scale, 1.0 / SCALE_LIMIT), SCALE_LIMIT);
}

/* Extends the ranges low and high by a row.  Returns false if it is not of small integers. */
static bool
add_to_range(const float *row, uint32_t dimensions, float *low, float *high)
{
	for (uint32_t k = 0; k < dimensions; k++)
	{
		float		x = row[k];

		/* also false for NaN */
		if (!(fabsf(x) <= FASTED_INT8_LARGEST_INTEGER) || (float) (int32_t) x != x)
			return false;
		low[k] = fminf(low[k], x);
		high[k] = fmaxf(high[k], x);
	}
	return true;
}

/* Returns true if the sampled rows are small integers, and computes their centre. */
static bool
find_integers(Worker *worker, float *centre)
{
	FastedContext *context = worker->context;
	uint32_t	d = context->options.dimensions;
	Sample		sample = cpu_choose_sample(worker->join, SAMPLE_COORDINATES, SAMPLE_ROWS_LEAST,
										 RANGE_ROWS);
	float	   *low = worker->image;
	float	   *high = worker->image + context->padded;

	for (uint32_t k = 0; k < d; k++)
	{
		low[k] = INFINITY;
		high[k] = -INFINITY;
	}
	for (uint32_t s = 0; s < cpu_sample_size(&sample) && !cpu_stopping(context); s++)
	{
		if (!add_to_range(cpu_sample_row(worker, &sample, s), d, low, high))
			return false;
	}
	for (uint32_t k = 0; k < d; k++)
	{
		if (high[k] - low[k] > 255.0f)
			return false;
		centre[k] = fasted_integer_centre(low[k], high[k]);
	}
	return true;
}

/* Returns the largest absolute coordinate; infinity if the row is not finite. */
static double
peak_of(const float *image, uint32_t padded)
{
	float		peak = 0.0f;

	for (uint32_t k = 0; k < padded; k++)
	{
		float		size = fabsf(image[k]);

		if (!(size <= FLT_MAX))
			return INFINITY;
		peak = fmaxf(peak, size);
	}
	return peak;
}

/* Returns the norm of an image, in FP32; infinity if the row is not finite. */
static double
norm_of(const float *image, uint32_t padded)
{
	double		norm2 = 0.0;

	for (uint32_t k = 0; k < padded; k++)
		norm2 += (double) image[k] * (double) image[k];
	return norm2 <= FLT_MAX ? (float) sqrt(norm2) : INFINITY;
}

/* Returns the number of outliers in a sample. */
static uint32_t
outliers(const FastedContext *context, uint32_t count)
{
	return count / (context->metric->negative_product ? PRODUCT_OUTLIERS : OUTLIERS);
}

/*
 * Computes the sizes of the sampled rows' images, by size_of.  Returns their largest value,
 * outliers excluded.
 */
static float
find_sizes(Worker *worker, const Int8Transform *transform, const Sample *sample,
		   double (*size_of) (const float *image, uint32_t padded), double *sizes)
{
	uint32_t	count = cpu_sample_size(sample);
	double		sorted[FASTED_INT8_SCALE_ROWS];

	for (uint32_t s = 0; s < count; s++)
	{
		worker->context->kernel->int8->transform(transform, cpu_sample_row(worker, sample, s),
												 worker->image);
		sorted[s] = sizes[s] = size_of(worker->image, transform->padded);
	}
	cpu_sort_doubles(sorted, count);
	return (float) sorted[count - 1 - outliers(worker->context, count)];
}

static bool
is_usual(float typical)
{
	return typical > 0x1p-100f && typical < 0x1p100f;
}

/* Adds the squared errors of the row in worker->image, rounded with each of the factors. */
static void
add_errors(Worker *worker, uint32_t padded, const float *factors, double *errors)
{
	int8_t	   *values = (int8_t *) (worker->image + padded);

	for (int i = 0; i < FASTED_INT8_SCALES; i++)
	{
		Int8Sums	sums;

		worker->context->kernel->int8->round(worker->image, factors[i], padded, values, &sums);
		errors[i] += (double) sums.error2 / ((double) factors[i] * factors[i]);
	}
}

/*
 * Returns the factor with the least mean squared error, clamping included.  Errors of clamping are
 * no part of rho, but they bring rows nearer to each other.
 */
static float
find_factor_int8(Worker *worker, const Int8Transform *transform, const Sample *sample)
{
	FastedContext *context = worker->context;
	double		peaks[FASTED_INT8_SCALE_ROWS];
	float		factors[FASTED_INT8_SCALES];
	double		errors[FASTED_INT8_SCALES] = {0};
	float		typical = find_sizes(worker, transform, sample, peak_of, peaks);
	int			best = 0;

	if (!is_usual(typical))
		return 1.0f;

	factors[0] = 127.0f / typical;
	for (int i = 1; i < FASTED_INT8_SCALES; i++)
		factors[i] = factors[i - 1] * FASTED_INT8_SCALE_STEP;
	for (uint32_t s = 0; s < cpu_sample_size(sample) && !cpu_stopping(context); s++)
	{
		if (peaks[s] > typical)
			continue;			/* ignore outliers */
		context->kernel->int8->transform(transform, cpu_sample_row(worker, sample, s), worker->image);
		add_errors(worker, transform->padded, factors, errors);
	}
	for (int i = 1; i < FASTED_INT8_SCALES; i++)
	{
		if (errors[i] < errors[best])
			best = i;
	}
	return factors[best];
}

float
cpu_int8_find_factor(Worker *worker, const Int8Transform *transform, const Sample *sample)
{
	double		norms[FASTED_INT8_SCALE_ROWS];
	float		typical;

	if (cpu_sample_size(sample) == 0)
		return 1.0f;
	if (worker->context->kernel->int8->bytes == 1)
		return find_factor_int8(worker, transform, sample);
	/* so large that rounding hardly matters, but with a margin for rows longer than typical ones */
	typical = find_sizes(worker, transform, sample, norm_of, norms);
	return is_usual(typical) ? sqrtf(FASTED_INT16_NORM2) / FASTED_INT16_ROOM / typical : 1.0f;
}

/*
 * Returns the factor of INT16 rows; 0 if there is none.  A small sample suffices, because only the
 * typical norm matters.  It is a power of two, so that products with it are exact.  Typical rows
 * have norms below that of FASTED_INT16_ROW_NORM2.
 */
static float
find_int16_factor(Worker *worker, const Int8Transform *transform)
{
	Sample		sample = cpu_choose_sample(worker->join, SAMPLE_COORDINATES / 16, SAMPLE_ROWS_LEAST,
										 FASTED_INT8_SCALE_ROWS);
	double		norms[FASTED_INT8_SCALE_ROWS];
	float		typical = find_sizes(worker, transform, &sample, norm_of, norms);
	int			exponent;

	if (!is_usual(typical))
		return 0.0f;
	frexp(sqrt((double) FASTED_INT16_ROW_NORM2) / INT16_ROOM / (double) typical, &exponent);
	return (float) ldexp(1.0, exponent - 1);
}

/* Returns x.x of a large row of a sample, outliers excluded. */
static double
find_large_square(const Worker *worker, const Sample *sample)
{
	double		squares[FASTED_INT8_SCALE_ROWS];
	uint32_t	count = cpu_sample_size(sample);

	for (uint32_t s = 0; s < count; s++)
		squares[s] = cpu_square_of(worker, cpu_stored_sample_row(sample, s));
	cpu_sort_doubles(squares, count);
	return count > 0 ? squares[count - 1 - outliers(worker->context, count)] : 0.0;
}

void
cpu_int8_find_transform(Worker *worker, Encoding *encoding)
{
	FastedContext *context = worker->context;
	Int8Transform *transform = &encoding->transform;
	Sample		sample = cpu_choose_sample(worker->join, SAMPLE_COORDINATES, SAMPLE_ROWS_LEAST,
										 FASTED_INT8_SCALE_ROWS);
	uint32_t	d = context->options.dimensions;

	transform->dimensions = d;
	transform->padded = context->padded;
	transform->centre = encoding->int8_centre;
	transform->lossless = find_integers(worker, encoding->int8_centre);
	transform->scale = 1.0f;
	if (!transform->lossless)
	{
		memcpy(encoding->int8_centre, encoding->centre, d * sizeof(float));
		transform->scale = (float) limit_scale(encoding->scale);
		transform->scale = (float) limit_scale((double) transform->scale
											   * cpu_int8_find_factor(worker, transform, &sample));
	}
	if (context->metric->negative_product)
		encoding->large_square = find_large_square(worker, &sample);
	encoding->int16_factor = 0.0f;
	if (!transform->lossless && context->plan.may_use_int16)
		encoding->int16_factor = find_int16_factor(worker, transform);
	encoding->has_int8 = !cpu_stopping(context);
}
