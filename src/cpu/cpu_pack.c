/*-------------------------------------------------------------------------
 *
 * cpu_pack.c
 *	  Centre, scale; packed rows and thresholds in FP32.
 *
 * The filter works on (x - centre) * scale.  Any centre is correct; a
 * good one makes norms small, and with them the error terms.  It is the mean
 * of the middle half of some rows, coordinate by coordinate: a mean that a few
 * huge rows do not move.
 *
 * The scale is a power of two that brings typical rows to about 1, far from
 * underflow on one side and overflow on the other.  A row too large for it,
 * or not finite, is "wild": packed as zeros, with a threshold that makes it a
 * candidate of every row.  The recheck decides.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "../engine/filter_bound.h"
#include "../engine/spread_row.h"
#include "cpu_join.h"

/* Coordinates that are claimed at once while the centre is computed. */
#define CENTRE_STEP 64

/* Slivers that are claimed at once while rows are packed. */
#define PACK_CLAIM 4

/*
 * The largest squared norm of a packed row that is not wild.  Inner products
 * and thresholds are at most that, well within FP32.
 */
#define NORM2_LIMIT 0x1p120

/*
 * How many rows of slot A to look at: of so many coordinates together, but for
 * some rows at least, and at most as many as asked for or there are.
 */
uint32_t
cpu_sample_count(const FastedJoin *join, uint32_t coordinates, uint32_t least,
				 uint32_t most)
{
	uint32_t	count = coordinates / join->problem.dimensions;

	if (count < least)
		count = least;
	if (count > most)
		count = most;
	if (count > join->slot_a->rows.rows)
		count = (uint32_t) join->slot_a->rows.rows;
	return count;
}

/* One of count rows that are spread over all of them. */
const float *
cpu_sample_row(const RowStore *rows, uint32_t s, uint32_t count)
{
	return row_store_row(rows, fasted_spread_row(s, count, (uint32_t) rows->rows));
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

/* The centre, and how far from it the sampled rows reach. */
void
cpu_centre(Worker *worker)
{
	FastedJoin *join = worker->join;
	const RowStore *rows = &join->slot_a->rows;
	uint32_t	d = join->problem.dimensions;
	uint32_t	count = cpu_sample_count(join, 0, SAMPLE_ROWS, SAMPLE_ROWS);
	double		peak[SAMPLE_ROWS] = {0};
	uint64_t	first;

	while ((first = cpu_claim(join) * CENTRE_STEP) < d && !cpu_stopping(join))
	{
		uint32_t	end = d - first < CENTRE_STEP ? d : first + CENTRE_STEP;

		cpu_rest_if_alone(join, cpu_now());
		for (uint32_t k = first; k < end; k++)
		{
			uint32_t	finite = 0;

			for (uint32_t s = 0; s < count; s++)
			{
				float		x = cpu_sample_row(rows, s, count)[k];

				if (isfinite(x))
					worker->sample[finite++] = x;
			}
			join->centre[k] = finite > 0
				? middle_mean(worker->sample, finite) : 0.0f;
			for (uint32_t s = 0; s < count; s++)
			{
				double		v = fabs((double) cpu_sample_row(rows, s, count)[k]
									 - join->centre[k]);

				if (isfinite(v) && v > peak[s])
					peak[s] = v;
			}
		}
	}

	pthread_mutex_lock(&join->lock);
	for (uint32_t s = 0; s < count; s++)
		join->sample_peak[s] = fmax(join->sample_peak[s], peak[s]);
	pthread_mutex_unlock(&join->lock);
}

/*
 * The power of two that brings the median of the samples' largest coordinates
 * to [1, 2).  Samples equal to the centre say nothing; when all are, eps is
 * the only length we know.
 */
void
cpu_choose_scale(FastedJoin *join)
{
	float		peaks[SAMPLE_ROWS];
	uint32_t	count = 0;
	double		typical;

	for (uint32_t s = 0; s < SAMPLE_ROWS; s++)
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
		typical = join->problem.eps;
	if (!(typical > 0x1p-149))
		typical = count > 0 ? 0x1p-149 : 1.0;
	if (!(typical < 0x1p129))
		typical = 0x1p129;

	join->scale = ldexp(1.0, -ilogb(typical));
	join->eps_upper = fasted_eps_upper(join->problem.eps, join->scale,
									   join->problem.dimensions);
}

/* Packs one sliver in FP32; a missing row, NULL, is padding. */
static void
pack_fp32(FastedJoin *join, const Slot *slot, size_t sliver,
		  const float *const *rows)
{
	const CpuKernel *kernel = join->kernel;
	uint32_t	d = join->problem.dimensions;
	double		gamma = fasted_gamma32(d, 2);
	double		alpha = fasted_alpha32(d);
	double		slack = fasted_sum_slack(d);
	PackSliver	job = {
		.centre = join->centre,
		.scale = join->scale,
		.layout = &slot->layout,
		.sliver = sliver,
		.packed = slot->packed,
		.stop = &join->stop,
	};
	float	   *threshold = (float *) slot->threshold + sliver * kernel->width;
	bool		wild[FASTED_MAX_WIDTH] = {false};
	bool		again = false;

	memcpy(job.rows, rows, sizeof(job.rows));
	kernel->pack(&job);

	for (uint32_t r = 0; r < kernel->width; r++)
	{
		/* false for NaN as well, which is what a row with one comes to */
		if (job.norm2[r] <= NORM2_LIMIT && job.error2[r] <= NORM2_LIMIT)
			continue;
		wild[r] = again = true;
		job.rows[r] = NULL;
	}
	if (again)
		kernel->pack(&job);

	for (uint32_t r = 0; r < kernel->width; r++)
	{
		double		norm2 = job.norm2[r];
		float		t = -INFINITY;

		if (rows[r] == NULL)
			t = INFINITY;
		else if (!wild[r])
			t = fasted_threshold(norm2 * (1.0 - slack), norm2 * (1.0 + slack),
								 fasted_rho(job.error2[r], norm2, d),
								 join->eps_upper, gamma, alpha);
		threshold[r] = t;
	}
}

/* Rows from the end of the set on are padding. */
static void
pack_sliver_of(Worker *worker, const Slot *slot, size_t sliver)
{
	FastedJoin *join = worker->join;
	uint32_t	width = join->kernel->width;
	const float *rows[FASTED_MAX_WIDTH] = {NULL};

	for (uint32_t r = 0; r < width && sliver * width + r < slot->rows.rows; r++)
		rows[r] = row_store_row(&slot->rows, sliver * width + r);
	if (slot->layout.int8)
		cpu_int8_pack(worker, slot, sliver, rows);
	else
		pack_fp32(join, slot, sliver, rows);
}

/* The packed rows of the slot that came last. */
void
cpu_pack(Worker *worker)
{
	FastedJoin *join = worker->join;
	Slot	   *slot = join->slot_b;
	size_t		slivers = slot->layout.padded_rows / join->kernel->width;
	uint64_t	first;

	while ((first = cpu_claim(join) * PACK_CLAIM) < slivers)
	{
		cpu_rest_if_alone(join, cpu_now());
		for (uint64_t s = first; s < first + PACK_CLAIM && s < slivers; s++)
		{
			if (cpu_stopping(join))
				return;
			pack_sliver_of(worker, slot, s);
		}
	}
}
