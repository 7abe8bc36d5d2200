/*-------------------------------------------------------------------------
 *
 * cpu_form.c
 *	  Filter rows, and forms: the centre, the scale and the integer transform.
 *
 * Input rows are stored unmodified.  To pack or sample a row, its filter row is requested here.
 * That is the row itself or, written to a worker's buffer, x / |x| in FP32 (cosine) or the row
 * rounded to FP32 (rows of doubles). doc/internals/bound.md, sections 7 and 9, proves that the
 * filter loses no pair.
 *
 * The filter uses (x - centre) * scale.  Any centre is correct.  A good centre makes norms small,
 * and with them the error terms.  For each coordinate it is the mean of the middle half of a
 * sample, which a few huge rows do not affect.
 *
 * The scale is a power of two that brings typical rows to about 1, far from underflow and
 * overflow.
 *
 * The integer filter computes exact inner products of rows that are centred, scaled, rotated and
 * rounded.  Rows of small integers are only centred, and therefore exact.
 * doc/internals/bound-int8.md proves that no pair is lost, for any centre and scale.  Here they are
 * chosen so that there are few false candidates.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <string.h>

#include "../engine/filter_bound.h"
#include "cpu_prepare.h"

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

/* --- filter rows */

static double
square_of(const Worker *worker, const float *row)
{
	const CpuKernel *kernel = worker->context->kernel;

	return (worker->context->doubles ? kernel->dot_double : kernel->dot)
		(row, row, worker->context->options.dimensions);
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

/* Returns a bound of the Euclidean distance between the filter row and the stored row. */
double
cpu_row_moved(const FastedContext *context, const float *row)
{
	const double *from = (const double *) row;
	uint32_t	d = context->options.dimensions;
	double		error2 = 0.0;

	if (!context->doubles || context->cosine)
		return 0.0;
	for (uint32_t k = 0; k < d; k++)
	{
		double		diff = from[k] - (double) fasted_narrow(from[k]);

		error2 += diff * diff;
	}
	return fasted_narrowed(error2, d);
}

/*
 * Returns the filter row, which may be written to `to`; NULL if the row can have no pairs.  For
 * the cosine distance it is the direction.  *square is set to x.x, for the cosine distance and the
 * inner product.
 */
const float *
cpu_filter_row(const Worker *worker, const float *row, float *to, double *square)
{
	uint32_t	d = worker->context->options.dimensions;
	double		scale;

	if (worker->context->cosine || worker->context->product)
		*square = square_of(worker, row);
	if (!worker->context->cosine)
		return worker->context->doubles ? write_narrowed(worker, row, to) : row;
	if (!fasted_has_direction(*square))
		return NULL;
	scale = 1.0 / sqrt(*square);
	for (uint32_t k = 0; k < d; k++)
		to[k] = (float) (cpu_coordinate(worker->context, row, k) * scale);
	return to;
}

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

/*
 * Chooses the size of a sample: rows with `coordinates` coordinates in total, but at least
 * `least` and at most `most` rows.  Of two sets, each gives half of the rows.
 */
Sample
cpu_take_sample(const FastedJoin *join, uint32_t coordinates, uint32_t least, uint32_t most)
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
	float	   *centre = worker->join->found->centre;
	uint32_t	count = cpu_sample_size(sample);
	uint32_t	finite = 0;

	for (uint32_t s = 0; s < count; s++)
	{
		float		x = (float) (cpu_coordinate(worker->context, cpu_stored_sample_row(sample, s), k)
									 * scales[s]);

		if (isfinite(x))
			worker->sample[finite++] = x;
	}
	centre[k] = finite > 0 ? middle_mean(worker->sample, finite) : 0.0f;
	for (uint32_t s = 0; s < count; s++)
	{
		double		v = fabs(cpu_coordinate(worker->context, cpu_stored_sample_row(sample, s), k)
								 * scales[s] - centre[k]);

		if (isfinite(v) && v > peak[s])
			peak[s] = v;
	}
}

/* Computes the centre of the new form. */
void
cpu_find_centre(Worker *worker)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	uint32_t	d = context->options.dimensions;
	uint32_t	rows = cpu_clamp(cpu_join_rows(join) / CENTRE_SHARE, CENTRE_ROWS_LEAST, CENTRE_ROWS);
	Sample		sample = cpu_take_sample(join, 0, rows, rows);
	double		scales[CENTRE_ROWS] = {0};
	double		peak[CENTRE_ROWS] = {0};
	uint64_t	first;

	for (uint32_t s = 0; s < cpu_sample_size(&sample) && !cpu_stopping(context); s++)
	{
		/* factor from the stored row to the filter row; NaN: no pairs */
		double		square = context->cosine
			? square_of(worker, cpu_stored_sample_row(&sample, s)) : 1.0;

		scales[s] = fasted_has_direction(square) ? 1.0 / sqrt(square) : NAN;
	}
	while ((first = cpu_next_item(context) * CENTRE_STEP) < d && !cpu_stopping(context))
	{
		uint32_t	end = d - first < CENTRE_STEP ? d : first + CENTRE_STEP;

		(void) cpu_may_continue(context);
		for (uint32_t k = first; k < end; k++)
			find_coordinate(worker, &sample, scales, k, peak);
	}

	pthread_mutex_lock(&context->lock);
	for (uint32_t s = 0; s < cpu_sample_size(&sample); s++)
		join->sample_peak[s] = fmax(join->sample_peak[s], peak[s]);
	pthread_mutex_unlock(&context->lock);
}

/*
 * Computes the scale: the power of two that brings the median of the sampled rows' largest
 * coordinates to [1, 2).  Rows equal to the centre are ignored.  If all are, the scale is based on
 * eps or, for the cosine distance, on 1.
 */
void
cpu_find_scale(FastedJoin *join)
{
	double		peaks[CENTRE_ROWS];
	uint32_t	count = 0;
	double		typical;

	for (uint32_t s = 0; s < CENTRE_ROWS; s++)
	{
		/* halve it: the difference of two floats may exceed FLT_MAX */
		float		half = (float) (join->sample_peak[s] / 2);

		if (half > 0.0f)
			peaks[count++] = half;
	}
	if (count > 0)
	{
		cpu_sort_doubles(peaks, count);
		typical = 2.0 * peaks[count / 2];
	}
	else
		typical = join->context->cosine ? 1.0 : join->problem.eps;
	if (!(typical > 0x1p-149))
		typical = count > 0 ? 0x1p-149 : 1.0;
	if (!(typical < 0x1p129))
		typical = 0x1p129;

	join->found->scale = ldexp(1.0, -ilogb(typical));
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
	Sample		sample = cpu_take_sample(worker->join, SAMPLE_COORDINATES, SAMPLE_ROWS_LEAST,
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
	return count / (context->product ? PRODUCT_OUTLIERS : OUTLIERS);
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

/*
 * Returns the factor for 16-bit images.  It is so large that rounding hardly matters, but leaves a
 * margin for rows longer than typical ones.
 */
static float
find_factor_int16(Worker *worker, const Int8Transform *transform, const Sample *sample)
{
	double		norms[FASTED_INT8_SCALE_ROWS];
	float		typical = find_sizes(worker, transform, sample, norm_of, norms);

	return is_usual(typical) ? sqrtf(FASTED_INT16_NORM2) / FASTED_INT16_ROOM / typical : 1.0f;
}

/* Returns the factor for a sample of at most FASTED_INT8_SCALE_ROWS rows, which may be empty. */
float
cpu_int8_find_factor(Worker *worker, const Int8Transform *transform, const Sample *sample)
{
	if (cpu_sample_size(sample) == 0)
		return 1.0f;
	return worker->context->kernel->int8->bytes == 2
		? find_factor_int16(worker, transform, sample) : find_factor_int8(worker, transform, sample);
}

/*
 * Returns the factor of INT16 rows; 0 if there is none.  A small sample suffices, because only the
 * typical norm matters.  It is a power of two, so that products with it are exact.  Typical rows
 * have norms below that of FASTED_INT16_ROW_NORM2.
 */
static float
find_int16_factor(Worker *worker, const Int8Transform *transform)
{
	Sample		sample = cpu_take_sample(worker->join, SAMPLE_COORDINATES / 16, SAMPLE_ROWS_LEAST,
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
		squares[s] = square_of(worker, cpu_stored_sample_row(sample, s));
	cpu_sort_doubles(squares, count);
	return count > 0 ? squares[count - 1 - outliers(worker->context, count)] : 0.0;
}

/*
 * Computes the centre and the scale of integer rows from a sample.  The form's FP32 centre and
 * scale must be known.
 */
void
cpu_int8_find_transform(Worker *worker, Form *form)
{
	FastedContext *context = worker->context;
	Int8Transform *transform = &form->transform;
	Sample		sample = cpu_take_sample(worker->join, SAMPLE_COORDINATES, SAMPLE_ROWS_LEAST,
										 FASTED_INT8_SCALE_ROWS);
	uint32_t	d = context->options.dimensions;

	transform->dimensions = d;
	transform->padded = context->padded;
	transform->centre = form->int8_centre;
	transform->lossless = find_integers(worker, form->int8_centre);
	transform->scale = 1.0f;
	if (!transform->lossless)
	{
		memcpy(form->int8_centre, form->centre, d * sizeof(float));
		transform->scale = (float) limit_scale(form->scale);
		transform->scale = (float) limit_scale((double) transform->scale
											   * cpu_int8_find_factor(worker, transform, &sample));
	}
	if (context->product)
		form->large_square = find_large_square(worker, &sample);
	form->int16_factor = 0.0f;
	if (!transform->lossless && context->may_use_int16)
		form->int16_factor = find_int16_factor(worker, transform);
	form->has_int8 = !cpu_stopping(context);
}
