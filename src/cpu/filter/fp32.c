/*-------------------------------------------------------------------------
 *
 * fp32.c
 *	  The filter for numbers in FP32.
 *
 * A row that is too large for the encoding's scale, or not finite, is out of range.  It is packed as
 * zeros, with a threshold that makes it a candidate of every row.  The recheck decides.
 *
 * doc/internals/bound.md proves that no pair is lost.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../../engine/filter_bound.h"
#include "../rows/pack.h"
#include "choice.h"
#include "filters.h"
#include "near_thresholds.h"
#include "strip.h"

/* --- packed rows */

static double
product_spread(const FastedContext *context, const Encoding *encoding, double eps)
{
	(void) encoding;
	(void) eps;
	/* the errors of rows are smaller than those of their products */
	return fasted_gamma32(context->options.dimensions, 2);
}

static uint32_t
threshold(const PackedRows *packed, size_t place, double half)
{
	const RowTerms *terms = &packed->terms[place];
	float		value = INFINITY;
	uint32_t	word;

	if (row_has_pairs(terms))
		value = fasted_threshold(terms->norm2 * (1.0 - packed->slack), terms->norm2 * (1.0 + packed->slack),
								 half, packed->gamma, packed->alpha);
	memcpy(&word, &value, sizeof(word));
	return word;
}

static void
pack(Worker *worker, const PackJob *job, size_t sliver)
{
	FastedContext *context = worker->context;
	const CpuKernel *kernel = context->kernel;
	uint32_t	d = job->to->layout.words;
	PackSliver	pack = {
		.centre = job->encoding->centre,
		.scale = job->encoding->scale,
		.layout = &job->to->layout,
		.sliver = sliver,
		.packed = job->to->as_b.packed,
		.stop = &context->threads.stop,
	};
	RowTerms   *terms = job->to->terms + sliver * kernel->width;
	uint32_t	out_of_range;

	memcpy(pack.rows, job->rows, sizeof(pack.rows));
	out_of_range = cpu_pack_in_range(kernel, &pack);
	for (uint32_t r = 0; r < kernel->width; r++)
	{
		if (job->rows[r] == NULL)
			terms[r] = row_without_pairs();
		else if (out_of_range >> r & 1)
			terms[r] = (RowTerms) {.norm2 = 0.0,.rho = INFINITY};
		else
		{
			terms[r].norm2 = pack.norm2[r];
			terms[r].rho = fasted_rho(pack.error2[r], pack.norm2[r], d)
				+ cpu_moved(job, r, job->encoding->scale);
		}
	}
	cpu_set_thresholds(job, kernel->width, sliver);
}

static double
cost(const FastedContext *context, uint32_t dimensions)
{
	return (TILE_COST + sizeof(float) * dimensions) * cpu_integer_speed(context);
}

const CpuFilter cpu_filter_fp32 = {
	.name = "fp32",
	.pack = pack,
	.threshold = threshold,
	.pack_set = cpu_pack_set_sliver,
	.product_spread = product_spread,
	.cost = cost,
	.near_thresholds = cpu_near_thresholds_of_numbers,
	.prepare_choice = cpu_prepare_choice_of_numbers,
};
