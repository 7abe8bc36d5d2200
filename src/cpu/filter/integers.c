/*-------------------------------------------------------------------------
 *
 * integers.c
 *	  The filter for numbers in INT8, or in INT16 on CPUs without products of INT8.
 *
 * Rows that are out of range or not finite have the error bound infinity, so that they are candidates
 * of every row.  Candidates of the INT8 filter may be compared as INT16 rows, too (recheck.c).
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <string.h>

#include "../../engine/filter_bound.h"
#include "../rows/pack.h"
#include "choice.h"
#include "filters.h"
#include "near_thresholds.h"
#include "strip.h"

/* The spread of inner products if most rows are packed without error; and limits of others. */
#define LOSSLESS_SPREAD 0x1p-10
#define SPREAD_LEAST 0x1p-20
#define SPREAD_MOST 0.25

/*
 * The spread is the ratio of the packing errors of two rows to their distance.  The distance is that of
 * two large rows with this inner product, within limits.
 */
static double
product_spread(const FastedContext *context, const Encoding *encoding, double eps)
{
	double		large = encoding->large_square;
	double		distance2 = 2.0 * fmin(fmax(large + eps, large / 16), large);
	double		errors = sqrt(context->padded / 3.0) / (double) encoding->transform.scale;

	if (encoding->transform.lossless)
		return LOSSLESS_SPREAD;
	return fmin(fmax(errors / sqrt(distance2), SPREAD_LEAST), SPREAD_MOST);
}

/* --- INT16 rows */

/* Packs row r of the sliver as an INT16 row. worker->image holds its image. */
static void
pack_int16_row(Worker *worker, const PackJob *job, size_t row, uint32_t r)
{
	uint32_t	padded = worker->context->padded;
	RowTerms   *terms = &job->to->fine.terms[row];
	Int8Sums	sums;

	worker->context->kernel->int8->round_int16(worker->image, job->encoding->int16_factor, padded,
											  job->to->fine.values + row * padded, &sums);
	terms->norm2 = sums.norm2;
	terms->rho = fasted_rho_clamped(sums.rounding2, sums.error2, sums.norm2, padded)
		+ cpu_moved(job, r, (double) job->encoding->transform.scale * job->encoding->int16_factor);
	cpu_set_int16_threshold(job, row);
}

/* --- packed rows */

/* Returns true if the integers represent the row without rounding. */
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

/* Copies `depth` words of row r into a segment of its sliver, `together` adjacent words at a time. */
static inline void
copy_words(uint32_t *out, uint32_t width, uint32_t r, uint32_t together, const int8_t *values,
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

/* Copies a row's words into its sliver, for columns and for rows of tiles. */
static void
interleave(const TileProduct *product, const PackedRows *to, uint32_t width, size_t sliver,
		   uint32_t r, const int8_t *values)
{
	const PackLayout *layout = &to->layout;

	for (uint32_t first = 0; first < layout->words; first += layout->segment)
	{
		uint32_t	depth = segment_words(layout, first);
		size_t		offset = pack_offset(layout, width, sliver, first);

		copy_words((uint32_t *) to->as_b.packed + offset, width, r, product->b_words,
				   values + 4 * first, depth, 0);
		if (to->as_a.packed == to->as_b.packed)
			continue;
		copy_words((uint32_t *) to->as_a.packed + offset, width, r, product->a_words,
				   values + 4 * first, depth, product->a_flip);
	}
}

static uint32_t
threshold(const PackedRows *packed, size_t place, double half)
{
	const RowTerms *terms = &packed->terms[place];

	return (uint32_t) (row_has_pairs(terms) ? fasted_threshold_int(terms->norm2, half) : FASTED_INT8_PADDING);
}

static void
pack(Worker *worker, const PackJob *job, size_t sliver)
{
	FastedContext *context = worker->context;
	const Int8Transform *transform = &job->encoding->transform;
	const Int8Kernel *int8 = context->kernel->int8;
	uint32_t	width = context->kernel->width;
	uint32_t	padded = transform->padded;
	uint32_t	extra = int8->product.a_flip != 0 ? 128 : 0;
	int8_t	   *values = (int8_t *) (worker->image + padded);

	memset(values, 0, job->to->layout.words * sizeof(uint32_t));
	for (uint32_t r = 0; r < width; r++)
	{
		size_t		row = sliver * width + r;
		Int8Sums	sums = {0};

		if (cpu_stopping(context))
			return;
		if (job->rows[r] != NULL)
		{
			int8->transform(transform, job->rows[r], worker->image);
			int8->round(worker->image, 1.0f, padded, values, &sums);
			job->to->terms[row] = terms_of(transform, job->rows[r], values, int8->bytes, &sums);
			job->to->terms[row].rho += cpu_moved(job, r, (double) transform->scale);
			if (!(job->to->terms[row].rho <= DBL_MAX))
				job->to->terms[row].rho = INFINITY;
			if (job->to->fine.values != NULL)
				pack_int16_row(worker, job, row, r);
		}
		else
		{
			memset(values, 0, padded * int8->bytes);
			job->to->terms[row] = row_without_pairs();
		}
		interleave(&int8->product, job->to, width, sliver, r, values);
		cpu_set_threshold(job, row, extra * (uint32_t) sums.sum);
	}
}

static double
cost(const FastedContext *context, uint32_t dimensions)
{
	return TILE_COST * cpu_integer_speed(context)
		+ sizeof(uint32_t) * cpu_int8_words(context->kernel, dimensions);
}

const CpuFilter cpu_filter_integers = {
	.integer_sums = true,
	.transforms = true,
	.pack = pack,
	.threshold = threshold,
	.pack_set = cpu_pack_set_sliver,
	.product_spread = product_spread,
	.cost = cost,
	.near_thresholds = cpu_near_thresholds_of_numbers,
	.prepare_choice = cpu_prepare_choice_of_numbers,
};
