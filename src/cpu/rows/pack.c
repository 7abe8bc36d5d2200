/*-------------------------------------------------------------------------
 *
 * pack.c
 *	  Packs rows of numbers, with thresholds for an eps, by the filter of a join.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "../../engine/filter_bound.h"
#include "filter_row.h"
#include "pack.h"

double
cpu_reach(const FastedContext *context, double eps)
{
	return context->metric->has_direction
		? fasted_direction_reach(eps, context->options.dimensions) : eps;
}

double
cpu_eps_upper(const FastedJoin *join, const Encoding *encoding, const CpuFilter *filter,
			  double eps)
{
	return fasted_eps_upper(cpu_reach(join->context, eps), cpu_scale(filter, encoding),
							join->context->options.dimensions);
}

PackJob
cpu_pack_job(const FastedJoin *join, const Encoding *encoding, const CpuFilter *filter, double eps,
			 PackedRows *to)
{
	return (PackJob) {
		.context = join->context,.encoding = encoding,.eps = eps,
		.eps_upper = cpu_eps_upper(join, encoding, filter, eps),
		.spread = cpu_product_spread(join, encoding, filter, eps),.to = to
	};
}

/* --- the part of a row in the squared distance of the packed rows of a pair */

double
cpu_product_spread(const FastedJoin *join, const Encoding *encoding, const CpuFilter *filter,
				   double eps)
{
	return join->context->metric->negative_product
		? filter->product_spread(join->context, encoding, eps) : 0.0;
}

double
cpu_product_half(const FastedContext *context, const Encoding *encoding, const PackedRows *rows,
				 size_t row, double eps, double spread, bool int16)
{
	double		factor = int16 ? (double) encoding->int16_factor : 1.0;
	double		scale = cpu_scale(rows->filter, encoding) * factor;
	double		reach2 = fasted_product_reach2(rows->squares[row], eps, context->options.dimensions);

	return fasted_product_half(reach2 * (scale * scale),
							   (int16 ? rows->fine.terms : rows->terms)[row].rho, spread / factor);
}

double
cpu_half_of(const PackJob *job, size_t row, bool int16)
{
	if (job->context->metric->negative_product)
		return cpu_product_half(job->context, job->encoding, job->to, row, job->eps, job->spread, int16);
	return int16 ? fasted_reach_half(job->to->fine.terms[row].rho,
									 job->eps_upper * (double) job->encoding->int16_factor)
		: fasted_reach_half(job->to->terms[row].rho, job->eps_upper);
}

/* --- thresholds */

void
cpu_set_int16_threshold(const PackJob *job, size_t row)
{
	const Int16Rows *fine = &job->to->fine;

	fine->threshold[row] = fasted_threshold_int16(fine->terms[row].norm2, cpu_half_of(job, row, true));
}

void
cpu_set_threshold(const PackJob *job, size_t row, uint32_t flip_sum)
{
	const PackedRows *to = job->to;
	uint32_t	threshold = to->filter->threshold(to, row, cpu_half_of(job, row, false));

	((uint32_t *) to->as_a.threshold)[row] = threshold;
	((uint32_t *) to->as_b.threshold)[row] = threshold + flip_sum;
}

void
cpu_set_thresholds(const PackJob *job, uint32_t width, size_t sliver)
{
	for (size_t row = sliver * width; row < (sliver + 1) * width; row++)
	{
		cpu_set_threshold(job, row, cpu_flip_sum(job->to, row));
		if (job->to->fine.values != NULL)
			cpu_set_int16_threshold(job, row);
	}
}

/* --- slivers and sets */

bool
cpu_has_int16(const FastedJoin *join, const Encoding *encoding, const CpuFilter *filter)
{
	return filter->transforms && join->choice.int16_pays && encoding->int16_factor > 0.0f && !join->nearest;
}

void
cpu_load_row(Worker *worker, PackJob *job, size_t place, const float *row)
{
	uint32_t	r = (uint32_t) (place % worker->context->kernel->width);

	job->rows[r] = cpu_filter_row(worker, row, cpu_direction_buffer(worker, r),
								  job->to->squares != NULL ? &job->to->squares[place] : NULL);
	job->moved[r] = cpu_row_moved(worker->context, row);
}

void
cpu_pack_set_sliver(Worker *worker, int i, size_t sliver)
{
	FastedJoin *join = worker->join;
	FastedSet  *set = join->sets[i];
	uint32_t	width = join->context->kernel->width;
	PackJob		job = cpu_pack_job(join, join->encoding, join->filter, join->problem.eps, &set->packed);

	if (join->packing[i] != PACK_ROWS)
	{
		cpu_set_thresholds(&job, width, sliver);
		return;
	}
	for (size_t place = sliver * width; place < (sliver + 1) * width && place < set->rows.rows; place++)
		cpu_load_row(worker, &job, place, cpu_stored_row(set, place));
	job.to->filter->pack(worker, &job, sliver);
}

bool
cpu_begin_packing(FastedJoin *join)
{
	FastedContext *context = join->context;

	join->packed = ROWS_LAID_OUT;
	for (int i = 0; i < join->nsets; i++)
	{
		FastedSet  *set = join->sets[i];

		join->packing[i] = PACK_ROWS;
		if (set->encoding == join->encoding && set->packed.filter == join->filter)
			join->packing[i] = set->eps == join->problem.eps ? PACKED_ALREADY : PACK_THRESHOLDS;
		if (join->pruning.packing[i] == PACK_ROWS)
			join->packing[i] = PACK_ROWS;	/* the rows' order has changed */
		if (join->packing[i] == PACK_ROWS)
		{
			cpu_packed_lay_out(context, &set->packed, set->rows.rows,
							   join->encoding->folded > 0 ? join->encoding->folded
							   : context->options.dimensions, join->filter);
			/* INT16 rows, if any, are stored behind the packed rows */
			set->packed.fine.values = NULL;
			if (cpu_has_int16(join, join->encoding, join->filter))
				set->packed.fine.values = (int16_t *)
					((char *) set->packed.as_b.packed + set->packed.layout.padded_rows
					 * cpu_int8_row_bytes(context->kernel, context->options.dimensions));
		}
	}
	snprintf(context->stats.filter, sizeof(context->stats.filter), "%s",
			 join->filter->name != NULL ? join->filter->name : context->kernel->int8->name);
	if (join->encoding->folded > 0)
		context->stats.filter_dimensions = join->encoding->folded < cpu_filter_words(context)
			? 32 * join->encoding->folded : 0;
	join->fine = join->row_set->packed.fine.values != NULL && join->col_set->packed.fine.values != NULL &&
		!join->nearest;
	return join->packing[0] != PACKED_ALREADY || join->packing[1] != PACKED_ALREADY;
}
