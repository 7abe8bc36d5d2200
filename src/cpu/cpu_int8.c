/*-------------------------------------------------------------------------
 *
 * cpu_int8.c
 *	  The INT8 part of a form; packed rows and thresholds in INT8.
 *
 * The filter's inner products are exact, of rows that are centred, scaled, rotated
 * and rounded to bytes.  Rows of small integers are centred only, and then exact
 * themselves.  That no pair is lost, whatever the centre and the scale, is proved
 * in doc/bound-int8.md; here they are chosen such that few pairs too many are found.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/filter_bound.h"
#include "cpu_join.h"

/* Rows that show whether all are small integers. */
#define RANGE_ROWS 1024

/* But no more coordinates than so many, unless of these rows. */
#define SAMPLE_COORDINATES (1 << 20)
#define SAMPLE_ROWS_LEAST 32

/* One sampled row in this many may be an outlier: few are, and a sample may have twice as many. */
#define OUTLIERS 16

/* Scales far inside FP32, whatever the rows. */
#define SCALE_LIMIT 0x1p110

static double
limit_scale(double scale)
{
	return fmin(fmax(scale, 1.0 / SCALE_LIMIT), SCALE_LIMIT);
}

/* Widens low and high by the row; false when it is not of integers. */
static bool
add_to_range(const float *row, uint32_t dimensions, float *low, float *high)
{
	for (uint32_t k = 0; k < dimensions; k++)
	{
		float		x = row[k];

		/* false for NaN as well */
		if (!(fabsf(x) <= FASTED_INT8_LARGEST_INTEGER) || (float) (int32_t) x != x)
			return false;
		low[k] = fminf(low[k], x);
		high[k] = fmaxf(high[k], x);
	}
	return true;
}

/* Are the rows small integers?  If so, their centre. */
static bool
find_integers(Worker *worker, float *centre)
{
	FastedContext *context = worker->context;
	uint32_t	d = context->options.dimensions;
	Sample		sample = cpu_take_sample(worker->join, SAMPLE_COORDINATES, SAMPLE_ROWS_LEAST,
										 RANGE_ROWS);
	float	   *low = worker->image;
	float	   *high = worker->image + cpu_padded(context);

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

static int
compare_floats(const void *left, const void *right)
{
	float		x = *(const float *) left;
	float		y = *(const float *) right;

	return (x > y) - (x < y);
}

/* The largest coordinate; infinite for a row that is not finite. */
static float
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

/* Rows that a scale is from: a sample of the join's or, where that is NULL, others. */
typedef struct ScaleRows
{
	const Sample *sample;
	const float *const *rows;
	uint32_t	count;
} ScaleRows;

/* Row s of them; good until the next call. */
static const float *
scale_row(Worker *worker, const ScaleRows *rows, uint32_t s)
{
	return rows->sample != NULL ? cpu_sample_row(worker, rows->sample, s) : rows->rows[s];
}

/*
 * The largest coordinates of sampled rows' images, and that of a row which all but
 * outliers stay below.
 */
static float
find_peaks(Worker *worker, const Int8Transform *transform, const ScaleRows *rows, float *peaks)
{
	uint32_t	count = rows->count;
	float		sorted[FASTED_INT8_SCALE_ROWS];

	for (uint32_t s = 0; s < count; s++)
	{
		worker->context->kernel->int8->transform(transform, scale_row(worker, rows, s),
												 worker->image);
		sorted[s] = peaks[s] = peak_of(worker->image, transform->padded);
	}
	qsort(sorted, count, sizeof(float), compare_floats);
	return sorted[count - 1 - count / OUTLIERS];
}

/* Adds the squared errors of the row in image, rounded with each of the factors. */
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
 * The factor for images whose mean of the squared error is least, what clamping takes
 * included: it is no part of rho, but brings rows nearer to each other.
 */
static float
find_factor_int8(Worker *worker, const Int8Transform *transform, const ScaleRows *rows)
{
	FastedContext *context = worker->context;
	float		peaks[FASTED_INT8_SCALE_ROWS];
	float		factors[FASTED_INT8_SCALES];
	double		errors[FASTED_INT8_SCALES] = {0};
	float		typical;
	int			best = 0;

	typical = find_peaks(worker, transform, rows, peaks);
	if (!(typical > 0x1p-100f && typical < 0x1p100f))
		return 1.0f;

	factors[0] = 127.0f / typical;
	for (int i = 1; i < FASTED_INT8_SCALES; i++)
		factors[i] = factors[i - 1] * FASTED_INT8_SCALE_STEP;
	for (uint32_t s = 0; s < rows->count && !cpu_stopping(context); s++)
	{
		if (peaks[s] > typical)
			continue;			/* an outlier */
		context->kernel->int8->transform(transform, scale_row(worker, rows, s), worker->image);
		add_errors(worker, transform->padded, factors, errors);
	}
	for (int i = 1; i < FASTED_INT8_SCALES; i++)
	{
		if (errors[i] < errors[best])
			best = i;
	}
	return factors[best];
}

/* The norm of the image of a row that few of them exceed. */
static float
typical_norm(Worker *worker, const Int8Transform *transform, const ScaleRows *rows)
{
	uint32_t	count = rows->count;
	float		norms[FASTED_INT8_SCALE_ROWS];

	for (uint32_t s = 0; s < count; s++)
	{
		double		norm2 = 0.0;

		worker->context->kernel->int8->transform(transform, scale_row(worker, rows, s),
												 worker->image);
		for (uint32_t k = 0; k < transform->padded; k++)
			norm2 += (double) worker->image[k] * (double) worker->image[k];
		norms[s] = norm2 <= FLT_MAX ? (float) sqrt(norm2) : INFINITY;
	}
	qsort(norms, count, sizeof(float), compare_floats);
	return norms[count - 1 - count / OUTLIERS];
}

/*
 * The factor for images in 16 bits: so fine that rounding hardly matters, with room for
 * rows that are longer than typical ones.
 */
static float
find_factor_int16(Worker *worker, const Int8Transform *transform, const ScaleRows *rows)
{
	float		typical = typical_norm(worker, transform, rows);

	if (!(typical > 0x1p-100f && typical < 0x1p100f))
		return 1.0f;
	return sqrtf(FASTED_INT16_NORM2) / FASTED_INT16_ROOM / typical;
}

static float
find_factor(Worker *worker, const Int8Transform *transform, const ScaleRows *rows)
{
	return worker->context->kernel->int8->bytes == 2
		? find_factor_int16(worker, transform, rows) : find_factor_int8(worker, transform, rows);
}

/* Of these rows, FASTED_INT8_SCALE_ROWS at most, or none. */
float
cpu_int8_find_factor(Worker *worker, const Int8Transform *transform, const float *const *rows,
					 uint32_t count)
{
	ScaleRows	scale_rows = {.rows = rows,.count = count};

	return count > 0 ? find_factor(worker, transform, &scale_rows) : 1.0f;
}

/* Of a sample of the join's rows. */
static float
find_join_factor(Worker *worker, const Int8Transform *transform)
{
	Sample		sample = cpu_take_sample(worker->join, SAMPLE_COORDINATES, SAMPLE_ROWS_LEAST,
										 FASTED_INT8_SCALE_ROWS);
	ScaleRows	rows = {.sample = &sample,.count = cpu_sample_size(&sample)};

	return find_factor(worker, transform, &rows);
}

/* The same of fine rows, of fewer: all that it has to know is about how long they are. */
static float
find_fine_factor(Worker *worker, const Int8Transform *transform)
{
	Sample		sample = cpu_take_sample(worker->join, SAMPLE_COORDINATES / 16, SAMPLE_ROWS_LEAST,
										 FASTED_INT8_SCALE_ROWS);
	ScaleRows	rows = {.sample = &sample,.count = cpu_sample_size(&sample)};

	return cpu_fine_factor(typical_norm(worker, transform, &rows));
}

/* The centre and the scale of INT8 rows, from a sample; the form's own are there. */
void
cpu_int8_find_transform(Worker *worker, Form *form)
{
	FastedContext *context = worker->context;
	Int8Transform *transform = &form->transform;
	uint32_t	d = context->options.dimensions;

	transform->dimensions = d;
	transform->padded = cpu_padded(context);
	transform->centre = form->int8_centre;
	transform->lossless = find_integers(worker, form->int8_centre);
	transform->scale = 1.0f;
	if (!transform->lossless)
	{
		memcpy(form->int8_centre, form->centre, d * sizeof(float));
		transform->scale = (float) limit_scale(form->scale);
		transform->scale = (float) limit_scale((double) transform->scale
											   * find_join_factor(worker, transform));
	}
	form->fine_factor = 0.0f;
	if (!transform->lossless && context->may_use_fine)
		form->fine_factor = find_fine_factor(worker, transform);
	form->has_int8 = !cpu_stopping(context);
}

/* Are the integers, without rounding, the row? */
static bool
is_exact(const Int8Transform *transform, const float *row, const int8_t *values, uint32_t bytes)
{
	for (uint32_t k = 0; k < transform->dimensions; k++)
	{
		int16_t		value = values[k];

		if (bytes == sizeof(value))
			memcpy(&value, values + k * sizeof(value), sizeof(value));
		if (transform->centre[k] + (float) value != row[k])
			return false;
	}
	return true;
}

static RowTerms
terms_of(const Int8Transform *transform, const float *row, const int8_t *values,
		 uint32_t bytes, const Int8Sums *sums)
{
	RowTerms	terms = {.norm2 = sums->norm2};

	if (!transform->lossless || !is_exact(transform, row, values, bytes))
		terms.rho = fasted_rho_clamped(sums->rounding2, sums->error2, sums->norm2, transform->padded);
	return terms;
}

/* Lays `depth` words of row r into a slice of its sliver, so many of them together. */
static inline void
lay_words(uint32_t *out, uint32_t width, uint32_t r, uint32_t together, const int8_t *values,
		  uint32_t depth, uint32_t flip)
{
	for (uint32_t k = 0; k < depth; k += together)
	{
		for (uint32_t i = k; i < k + together; i++)
		{
			uint32_t	word;

			memcpy(&word, values + 4 * i, sizeof(word));
			out[(size_t) k * width + r * together + i - k] = word ^ flip;
		}
	}
}

/* Lays a row's words into its sliver, as a column and as a row of tiles. */
static void
interleave(const Int8Kernel *int8, const PackedRows *to, uint32_t width, size_t sliver,
		   uint32_t r, const int8_t *values)
{
	const PackLayout *layout = &to->layout;

	for (uint32_t first = 0; first < layout->words; first += layout->slice)
	{
		uint32_t	left = layout->words - first;
		uint32_t	depth = left < layout->slice ? left : layout->slice;
		size_t		offset = pack_offset(layout, width, sliver, first);

		lay_words((uint32_t *) to->as_b.packed + offset, width, r, int8->b_words,
				  values + 4 * first, depth, 0);
		if (to->as_a.packed == to->as_b.packed)
			continue;
		lay_words((uint32_t *) to->as_a.packed + offset, width, r, int8->a_words,
				  values + 4 * first, depth, int8->a_flip);
	}
}

/*
 * A row's thresholds.  That of b's side has more, if the rows of a are flipped: the
 * 128 added to each of their bytes, times the bytes of the row.
 */
static void
set_threshold(const PackJob *job, size_t row, uint32_t more)
{
	const PackedRows *to = job->to;
	int32_t		threshold = FASTED_INT8_PADDING;

	if (row_has_pairs(&to->terms[row]))
		threshold = fasted_threshold_int(to->terms[row].norm2, to->terms[row].rho,
										 job->eps_upper);
	((int32_t *) to->as_a.threshold)[row] = threshold;
	((uint32_t *) to->as_b.threshold)[row] = (uint32_t) threshold + more;
}

/* Thresholds of one sliver for another eps. */
void
cpu_int8_set_thresholds(const PackJob *job, uint32_t width, size_t sliver)
{
	const uint32_t *threshold_a = job->to->as_a.threshold;
	const uint32_t *threshold_b = job->to->as_b.threshold;

	for (size_t row = sliver * width; row < (sliver + 1) * width; row++)
		set_threshold(job, row, threshold_b[row] - threshold_a[row]);
	if (job->fine != NULL)
		cpu_fine_set_thresholds(job, sliver * width, (sliver + 1) * width);
}

void
cpu_int8_pack(Worker *worker, const PackJob *job, size_t sliver, const float *const *rows)
{
	FastedContext *context = worker->context;
	const Int8Transform *transform = &job->form->transform;
	const Int8Kernel *int8 = context->kernel->int8;
	uint32_t	width = context->kernel->width;
	uint32_t	padded = transform->padded;
	uint32_t	extra = int8->a_flip != 0 ? 128 : 0;
	int8_t	   *values = (int8_t *) (worker->image + padded);

	memset(values, 0, job->to->layout.words * sizeof(uint32_t));
	for (uint32_t r = 0; r < width; r++)
	{
		size_t		row = sliver * width + r;
		Int8Sums	sums = {0};

		if (cpu_stopping(context))
			return;
		if (rows[r] != NULL)
		{
			int8->transform(transform, rows[r], worker->image);
			int8->round(worker->image, 1.0f, padded, values, &sums);
			job->to->terms[row] = terms_of(transform, rows[r], values, int8->bytes, &sums);
			job->to->terms[row].rho += cpu_moved(job, r, (double) transform->scale);
			if (!(job->to->terms[row].rho <= DBL_MAX))
				job->to->terms[row].rho = INFINITY;
			if (job->fine != NULL)
				cpu_fine_pack_row(worker, job, row, r);
		}
		else
		{
			memset(values, 0, padded * int8->bytes);
			job->to->terms[row] = row_without_pairs();
		}
		interleave(int8, job->to, width, sliver, r, values);
		set_threshold(job, row, extra * (uint32_t) sums.sum);
	}
}
