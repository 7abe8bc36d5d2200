/*-------------------------------------------------------------------------
 *
 * cpu_form.c
 *	  Forms: the centre and the scale of packed rows.
 *
 * The filter works on (x - centre) * scale.  Any centre is correct; a
 * good one makes norms small, and with them the error terms.  It is the mean
 * of the middle half of some rows, coordinate by coordinate: a mean that a few
 * huge rows do not move.
 *
 * The scale is a power of two that brings typical rows to about 1, far from
 * underflow on one side and overflow on the other.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdlib.h>

#include "cpu_join.h"

/* Coordinates that are claimed at once while the centre is computed. */
#define CENTRE_STEP 64

Form *
cpu_form_new(FastedContext *context)
{
	size_t		bytes = context->options.dimensions * sizeof(float);
	Form	   *form = calloc(1, sizeof(*form));

	if (form == NULL)
		return NULL;
	form->scale = 1.0;
	form->centre = fasted_cpu_map(bytes, &context->memory);
	if (context->may_use_int8)
		form->int8_centre = fasted_cpu_map(bytes, &context->memory);
	if (form->centre == NULL || (context->may_use_int8 && form->int8_centre == NULL))
	{
		cpu_form_drop(context, cpu_form_hold(form));
		return NULL;
	}
	return form;
}

Form *
cpu_form_hold(Form *form)
{
	if (form != NULL)
		form->holders++;
	return form;
}

void
cpu_form_drop(FastedContext *context, Form *form)
{
	size_t		bytes = context->options.dimensions * sizeof(float);

	if (form == NULL || --form->holders > 0)
		return;
	fasted_cpu_unmap(form->centre, bytes, &context->memory);
	fasted_cpu_unmap(form->int8_centre, bytes, &context->memory);
	free(form);
}

/*
 * Rows to look at: of so many coordinates together, but for some rows at least,
 * and at most as many as asked for or there are.  Of two sets half of each.
 */
Sample
cpu_take_sample(const FastedJoin *join, uint32_t coordinates, uint32_t least, uint32_t most)
{
	uint32_t	count = coordinates / join->context->options.dimensions;
	Sample		sample = {.rows = {&join->sets[0]->rows, &join->sets[1]->rows}};

	if (count < least)
		count = least;
	if (count > most)
		count = most;
	if (!join->self)
		count = (count + 1) / 2;
	for (int i = 0; i < (join->self ? 1 : 2); i++)
		sample.counts[i] = count < sample.rows[i]->rows ? count
			: (uint32_t) sample.rows[i]->rows;
	return sample;
}

/* The mean of the middle half of some values, which this sorts. */
static float
middle_mean(float *values, uint32_t count)
{
	uint32_t	skip = count / 4;
	double		sum = 0.0;

	for (uint32_t i = 1; i < count; i++)
	{
		float		value = values[i];
		uint32_t	j = i;

		for (; j > 0 && values[j - 1] > value; j--)
			values[j] = values[j - 1];
		values[j] = value;
	}
	for (uint32_t i = skip; i < count - skip; i++)
		sum += values[i];
	return (float) (sum / (count - 2 * skip));
}

/*
 * The centre's coordinate k, and how far from it the sampled rows, times scales, reach
 * there.
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

static uint32_t
centre_rows(const FastedJoin *join)
{
	uint64_t	rows = join->sets[0]->rows.rows + (join->self ? 0 : join->sets[1]->rows.rows);

	rows /= CENTRE_SHARE;
	return rows < CENTRE_ROWS_LEAST ? CENTRE_ROWS_LEAST : rows > CENTRE_ROWS ? CENTRE_ROWS : (uint32_t) rows;
}

/* The centre of the form to be found. */
void
cpu_find_centre(Worker *worker)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	uint32_t	d = context->options.dimensions;
	uint32_t	rows = centre_rows(join);
	Sample		sample = cpu_take_sample(join, 0, rows, rows);
	double		scales[CENTRE_ROWS] = {0};
	double		peak[CENTRE_ROWS] = {0};
	uint64_t	first;

	for (uint32_t s = 0; s < cpu_sample_size(&sample) && !cpu_stopping(context); s++)
		scales[s] = cpu_row_scale(worker, cpu_stored_sample_row(&sample, s));
	while ((first = cpu_claim(context) * CENTRE_STEP) < d && !cpu_stopping(context))
	{
		uint32_t	end = d - first < CENTRE_STEP ? d : first + CENTRE_STEP;

		cpu_rest_if_alone(context, cpu_now());
		for (uint32_t k = first; k < end; k++)
			find_coordinate(worker, &sample, scales, k, peak);
	}

	pthread_mutex_lock(&context->lock);
	for (uint32_t s = 0; s < cpu_sample_size(&sample); s++)
		join->sample_peak[s] = fmax(join->sample_peak[s], peak[s]);
	pthread_mutex_unlock(&context->lock);
}

/*
 * The power of two that brings the median of the samples' largest coordinates
 * to [1, 2).  Samples equal to the centre say nothing; when all are, eps is
 * the only length we know, or that of directions.
 */
void
cpu_find_scale(FastedJoin *join)
{
	float		peaks[CENTRE_ROWS];
	uint32_t	count = 0;
	double		typical;

	for (uint32_t s = 0; s < CENTRE_ROWS; s++)
	{
		/* halved: the difference of two floats may exceed FLT_MAX */
		float		half = (float) (join->sample_peak[s] / 2);

		if (half > 0.0f)
			peaks[count++] = half;
	}
	if (count > 0)
	{
		(void) middle_mean(peaks, count);
		typical = 2.0 * peaks[count / 2];
	}
	else
		typical = cpu_is_cosine(join->context) ? 1.0 : join->problem.eps;
	if (!(typical > 0x1p-149))
		typical = count > 0 ? 0x1p-149 : 1.0;
	if (!(typical < 0x1p129))
		typical = 0x1p129;

	join->found->scale = ldexp(1.0, -ilogb(typical));
}
