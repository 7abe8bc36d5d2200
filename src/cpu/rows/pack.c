/*-------------------------------------------------------------------------
 *
 * pack.c
 *	  Packs rows and computes their thresholds, in FP32 and integers; packs INT16 rows.
 *
 * A row that is too large for the form's scale, or not finite, is out of range.  It is packed as
 * zeros, with a threshold that makes it a candidate of every row.  The recheck decides.
 *
 * Candidates of the INT8 filter are compared as INT16 rows before they are rechecked
 * (filter/recheck.c): doc/internals/bound-int8.md, section 10.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "../../engine/filter_bound.h"
#include "filter_row.h"
#include "pack.h"

/* The spread of inner products if most rows are packed without error; and limits of others. */
#define LOSSLESS_SPREAD 0x1p-10
#define SPREAD_LEAST 0x1p-20
#define SPREAD_MOST 0.25

/* Returns the row's bound job->moved[r] in the scale of packed rows, rounded up. */
static inline double
cpu_moved(const PackJob *job, uint32_t r, double scale)
{
	return job->moved[r] * scale * (1.0 + DBL_EPSILON);
}

double
cpu_reach(const FastedContext *context, double eps)
{
	return context->cosine
		? fasted_direction_reach(eps, context->options.dimensions) : eps;
}

double
cpu_eps_upper(const FastedJoin *join, const Form *form, bool int8, double eps)
{
	return fasted_eps_upper(cpu_reach(join->context, eps), cpu_form_scale(form, int8),
							join->context->options.dimensions);
}

PackJob
cpu_pack_job(const FastedJoin *join, const Form *form, bool int8, double eps, PackedRows *to)
{
	return (PackJob) {
		.context = join->context,.form = form,.eps = eps,
		.eps_upper = cpu_eps_upper(join, form, int8, eps),
		.spread = cpu_product_spread(join->context, form, int8, eps),.to = to
	};
}

/* --- the share of a row in the squared distance of the packed rows of a pair */

double
cpu_product_spread(const FastedContext *context, const Form *form, bool int8, double eps)
{
	double		large = form->large_square;
	double		distance2 = 2.0 * fmin(fmax(large + eps, large / 16), large);
	double		errors = sqrt(context->padded / 3.0) / (double) form->transform.scale;

	if (!int8)
		return fasted_gamma32(context->options.dimensions, 2);
	if (form->transform.lossless)
		return LOSSLESS_SPREAD;
	return fmin(fmax(errors / sqrt(distance2), SPREAD_LEAST), SPREAD_MOST);
}

double
cpu_product_half(const FastedContext *context, const Form *form, const PackedRows *rows,
				 size_t row, double eps, double spread, bool int16)
{
	double		factor = int16 ? (double) form->int16_factor : 1.0;
	double		scale = cpu_form_scale(form, rows->layout.int8) * factor;
	double		reach2 = fasted_product_reach2(rows->squares[row], eps, context->options.dimensions);

	return fasted_product_half(reach2 * (scale * scale),
							   (int16 ? rows->fine.terms : rows->terms)[row].rho, spread / factor);
}

/* Returns the share of a row, or of its INT16 row. */
static double
half_of(const PackJob *job, size_t row, bool int16)
{
	if (job->context->product)
		return cpu_product_half(job->context, job->form, job->to, row, job->eps, job->spread, int16);
	return int16 ? fasted_reach_half(job->to->fine.terms[row].rho,
									 job->eps_upper * (double) job->form->int16_factor)
		: fasted_reach_half(job->to->terms[row].rho, job->eps_upper);
}

/* --- FP32 */

/* Computes the thresholds of one sliver from its rows' terms. */
static void
set_thresholds(const PackJob *job, uint32_t width, size_t sliver)
{
	const PackedRows *to = job->to;
	uint32_t	d = to->layout.words;
	double		gamma = fasted_gamma32(d, 2);
	double		alpha = fasted_alpha32(d);
	double		slack = fasted_sum_slack(d);

	for (size_t row = sliver * width; row < (sliver + 1) * width; row++)
	{
		const RowTerms *terms = &to->terms[row];

		((float *) to->threshold)[row] = !row_has_pairs(terms) ? INFINITY
			: fasted_threshold(terms->norm2 * (1.0 - slack), terms->norm2 * (1.0 + slack),
							   half_of(job, row, false), gamma, alpha);
	}
}

static void
pack_fp32(Worker *worker, const PackJob *job, size_t sliver)
{
	FastedContext *context = worker->context;
	const CpuKernel *kernel = context->kernel;
	uint32_t	d = job->to->layout.words;
	PackSliver	pack = {
		.centre = job->form->centre,
		.scale = job->form->scale,
		.layout = &job->to->layout,
		.sliver = sliver,
		.packed = job->to->packed,
		.stop = &context->stop,
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
			terms[r].rho = fasted_rho(pack.error2[r], pack.norm2[r], d) + cpu_moved(job, r, job->form->scale);
		}
	}
	set_thresholds(job, kernel->width, sliver);
}

/* --- INT16 rows */

bool
cpu_has_int16(const FastedJoin *join, const Form *form)
{
	return join->int16_pays && form->int16_factor > 0.0f && !join->nearest;
}

static void
set_int16_threshold(const PackJob *job, size_t row)
{
	const Int16Rows *fine = &job->to->fine;

	fine->threshold[row] = fasted_threshold_int16(fine->terms[row].norm2, half_of(job, row, true));
}

/* Packs row r of the sliver as an INT16 row. worker->image holds its image. */
static void
pack_int16_row(Worker *worker, const PackJob *job, size_t row, uint32_t r)
{
	uint32_t	padded = worker->context->padded;
	RowTerms   *terms = &job->to->fine.terms[row];
	Int8Sums	sums;

	worker->context->kernel->int8->round_int16(worker->image, job->form->int16_factor, padded,
											  job->to->fine.values + row * padded, &sums);
	terms->norm2 = sums.norm2;
	terms->rho = fasted_rho_clamped(sums.rounding2, sums.error2, sums.norm2, padded)
		+ cpu_moved(job, r, (double) job->form->transform.scale * job->form->int16_factor);
	set_int16_threshold(job, row);
}

/* --- integers */

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

/* Copies `depth` words of row r into a slice of its sliver, `together` adjacent words at a time. */
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
interleave(const Int8Kernel *int8, const PackedRows *to, uint32_t width, size_t sliver,
		   uint32_t r, const int8_t *values)
{
	const PackLayout *layout = &to->layout;

	for (uint32_t first = 0; first < layout->words; first += layout->slice)
	{
		uint32_t	depth = slice_depth(layout, first);
		size_t		offset = pack_offset(layout, width, sliver, first);

		copy_words((uint32_t *) to->as_b.packed + offset, width, r, int8->b_words,
				   values + 4 * first, depth, 0);
		if (to->as_a.packed == to->as_b.packed)
			continue;
		copy_words((uint32_t *) to->as_a.packed + offset, width, r, int8->a_words,
				   values + 4 * first, depth, int8->a_flip);
	}
}

/*
 * Sets a row's thresholds.  If the rows of a are flipped, b's threshold is larger by `more`: the
 * 128 added to each byte of a, times the sum of the row's bytes.
 */
static void
set_threshold(const PackJob *job, size_t row, uint32_t more)
{
	const PackedRows *to = job->to;
	int32_t		threshold = FASTED_INT8_PADDING;

	if (row_has_pairs(&to->terms[row]))
		threshold = fasted_threshold_int(to->terms[row].norm2, half_of(job, row, false));
	((int32_t *) to->as_a.threshold)[row] = threshold;
	((uint32_t *) to->as_b.threshold)[row] = (uint32_t) threshold + more;
}

/* Recomputes the integer thresholds of one sliver for another eps. */
static void
set_int8_thresholds(const PackJob *job, uint32_t width, size_t sliver)
{
	const uint32_t *threshold_a = job->to->as_a.threshold;
	const uint32_t *threshold_b = job->to->as_b.threshold;

	for (size_t row = sliver * width; row < (sliver + 1) * width; row++)
	{
		set_threshold(job, row, threshold_b[row] - threshold_a[row]);
		if (job->to->fine.values != NULL)
			set_int16_threshold(job, row);
	}
}

static void
pack_int8(Worker *worker, const PackJob *job, size_t sliver)
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
		interleave(int8, job->to, width, sliver, r, values);
		set_threshold(job, row, extra * (uint32_t) sums.sum);
	}
}

/* --- slivers and sets */

void
cpu_pack_sliver(Worker *worker, const PackJob *job, size_t sliver)
{
	if (job->to->layout.int8)
		pack_int8(worker, job, sliver);
	else
		pack_fp32(worker, job, sliver);
}

void
cpu_set_thresholds(Worker *worker, const PackJob *job, size_t sliver)
{
	uint32_t	width = worker->context->kernel->width;

	if (job->to->layout.int8)
		set_int8_thresholds(job, width, sliver);
	else
		set_thresholds(job, width, sliver);
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
	PackJob		job = cpu_pack_job(join, join->form, join->int8, join->problem.eps, &set->packed);

	if (join->packing[i] != PACK_ROWS)
	{
		cpu_set_thresholds(worker, &job, sliver);
		return;
	}
	for (size_t place = sliver * width; place < (sliver + 1) * width && place < set->rows.rows; place++)
		cpu_load_row(worker, &job, place, cpu_stored_row(set, place));
	cpu_pack_sliver(worker, &job, sliver);
}

bool
cpu_begin_packing(FastedJoin *join)
{
	FastedContext *context = join->context;

	join->laid_out = true;
	for (int i = 0; i < join->nsets; i++)
	{
		FastedSet  *set = join->sets[i];

		join->packing[i] = PACK_ROWS;
		if (set->form == join->form && set->packed.layout.int8 == join->int8)
			join->packing[i] = set->eps == join->problem.eps ? PACKED_ALREADY : PACK_THRESHOLDS;
		if (join->level_packing[i] == PACK_ROWS)
			join->packing[i] = PACK_ROWS;	/* the rows' order has changed */
		if (join->packing[i] == PACK_ROWS)
		{
			cpu_packed_lay_out(context, &set->packed, set->rows.rows,
							   context->bits ? join->form->folded : context->options.dimensions,
							   join->int8);
			/* INT16 rows, if any, are stored behind the packed rows */
			set->packed.fine.values = NULL;
			if (join->int8 && cpu_has_int16(join, join->form))
				set->packed.fine.values = (int16_t *)
					((char *) set->packed.packed + set->packed.layout.padded_rows
					 * cpu_int8_row_bytes(context->kernel, context->options.dimensions));
		}
	}
	snprintf(context->stats.filter, sizeof(context->stats.filter), "%s",
			 context->bits ? "bits" : !join->int8 ? "fp32" : context->kernel->int8->bytes == 2 ? "int16" : "int8");
	if (context->bits)
		context->stats.filter_dimensions = join->form->folded < cpu_filter_words(context)
			? 32 * join->form->folded : 0;
	join->fine = join->row_set->packed.fine.values != NULL && join->col_set->packed.fine.values != NULL &&
		!join->nearest;
	return join->packing[0] != PACKED_ALREADY || join->packing[1] != PACKED_ALREADY;
}
