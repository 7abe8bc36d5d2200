/*-------------------------------------------------------------------------
 *
 * cpu_pack.c
 *	  Packed rows and thresholds in FP32 and integers; fine rows.
 *
 * A row too large for the form's scale, or not finite, is "wild": packed as zeros,
 * with a threshold that makes it a candidate of every row.  The recheck decides.
 *
 * Fine rows are in INT16: candidates of INT8 are compared in these before they are
 * rechecked (cpu_recheck.c).  doc/bound-int8.md, section 10.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "../engine/filter_bound.h"
#include "cpu_prepare.h"

/* Slivers that are claimed at once while rows are packed. */
#define PACK_CLAIM 4

/* The same in the scale of packed rows, no less. */
static inline double
cpu_moved(const PackJob *job, uint32_t r, double scale)
{
	return job->moved == NULL ? 0.0 : job->moved[r] * scale * (1.0 + DBL_EPSILON);
}

double
cpu_reach(const FastedContext *context, double eps)
{
	return cpu_is_cosine(context)
		? fasted_direction_reach(eps, context->options.dimensions) : eps;
}

double
cpu_eps_upper(const FastedJoin *join, const Form *form, bool int8, double eps)
{
	return fasted_eps_upper(cpu_reach(join->context, eps),
							int8 ? (double) form->transform.scale : form->scale,
							join->context->options.dimensions);
}

/* --- FP32 */

/* Thresholds of one sliver, from its rows' terms. */
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
							   terms->rho, job->eps_upper, gamma, alpha);
	}
}

static void
pack_fp32(Worker *worker, const PackJob *job, size_t sliver, const float *const *rows)
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
	bool		again = false;

	memcpy(pack.rows, rows, sizeof(pack.rows));
	kernel->pack(&pack);

	for (uint32_t r = 0; r < kernel->width; r++)
	{
		if (rows[r] == NULL)
		{
			terms[r] = row_without_pairs();
			continue;
		}
		if (!cpu_is_wild(&pack, r))
		{
			terms[r].norm2 = pack.norm2[r];
			terms[r].rho = fasted_rho(pack.error2[r], pack.norm2[r], d) + cpu_moved(job, r, job->form->scale);
			continue;
		}
		terms[r] = (RowTerms) {.norm2 = 0.0,.rho = INFINITY};
		pack.rows[r] = NULL;
		again = true;
	}
	if (again)
		kernel->pack(&pack);
	set_thresholds(job, kernel->width, sliver);
}

/* --- fine rows */

/* Are rows of this form to have fine ones, if their filter is INT8? */
bool
cpu_has_fine(const FastedJoin *join, const Form *form)
{
	return join->fine_pays && form->fine_factor > 0.0f && !cpu_finds_nearest(join);
}

/* Where a set's fine rows will be, if it is to have any: behind its packed rows. */
static void
cpu_fine_lay_out(const FastedJoin *join, FastedSet *set)
{
	const PackLayout *layout = &set->packed.layout;

	set->fine.values = NULL;
	if (join->int8 && cpu_has_fine(join, join->form))
		set->fine.values = (int16_t *) ((char *) set->packed.packed + layout->padded_rows
										* cpu_int8_row_bytes(join->context->kernel,
															 join->context->options.dimensions));
}

static double
fine_eps_upper(const PackJob *job)
{
	return job->eps_upper * (double) job->form->fine_factor;
}

/* Row r of the sliver, whose image the worker has. */
static void
cpu_fine_pack_row(Worker *worker, const PackJob *job, size_t row, uint32_t r)
{
	const Int8Kernel *int8 = worker->context->kernel->int8;
	uint32_t	padded = cpu_padded(worker->context);
	RowTerms   *terms = &job->fine->terms[row];
	int16_t    *values = (int16_t *) (uintptr_t) job->fine->values + row * padded;
	Int8Sums	sums;

	int8->round_fine(worker->image, job->form->fine_factor, padded, values, &sums);
	terms->norm2 = sums.norm2;
	terms->rho = fasted_rho_clamped(sums.rounding2, sums.error2, sums.norm2, padded)
		+ cpu_moved(job, r, (double) job->form->transform.scale * job->form->fine_factor);
	job->fine->threshold[row] = fasted_threshold_fine(terms->norm2, terms->rho,
													  fine_eps_upper(job));
}

/* Thresholds of these rows for another eps. */
static void
cpu_fine_set_thresholds(const PackJob *job, size_t first, size_t end)
{
	for (size_t row = first; row < end; row++)
		job->fine->threshold[row] = fasted_threshold_fine(job->fine->terms[row].norm2,
														  job->fine->terms[row].rho,
														  fine_eps_upper(job));
}

/* --- integers */

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
static void
cpu_int8_set_thresholds(const PackJob *job, uint32_t width, size_t sliver)
{
	const uint32_t *threshold_a = job->to->as_a.threshold;
	const uint32_t *threshold_b = job->to->as_b.threshold;

	for (size_t row = sliver * width; row < (sliver + 1) * width; row++)
		set_threshold(job, row, threshold_b[row] - threshold_a[row]);
	if (job->fine != NULL)
		cpu_fine_set_thresholds(job, sliver * width, (sliver + 1) * width);
}

static void
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

/* --- slivers and sets */

void
cpu_pack_sliver(Worker *worker, const PackJob *job, size_t sliver, const float *const *rows)
{
	if (job->to->layout.int8)
		cpu_int8_pack(worker, job, sliver, rows);
	else
		pack_fp32(worker, job, sliver, rows);
}

/* Thresholds of one sliver for another eps. */
void
cpu_set_thresholds(Worker *worker, const PackJob *job, size_t sliver)
{
	uint32_t	width = worker->context->kernel->width;

	if (job->to->layout.int8)
		cpu_int8_set_thresholds(job, width, sliver);
	else
		set_thresholds(job, width, sliver);
}

/* One sliver of a set, or its thresholds.  Rows from the end of the set on are padding. */
static void
pack_set_sliver(Worker *worker, FastedSet *set, Packing packing, size_t sliver)
{
	FastedJoin *join = worker->join;
	uint32_t	width = join->context->kernel->width;
	const float *rows[FASTED_MAX_WIDTH] = {NULL};
	double		moved[FASTED_MAX_WIDTH] = {0};
	PackJob		job = {.form = join->form,.eps_upper = join->eps_upper,.to = &set->packed,
	.moved = moved,.fine = set->fine.values != NULL ? &set->fine : NULL};

	if (packing == PACK_ROWS)
	{
		for (uint32_t r = 0; r < width && sliver * width + r < set->rows.rows; r++)
		{
			size_t		place = sliver * width + r;

			const float *row = row_store_row(&set->rows, cpu_row_at(set, place));

			rows[r] = cpu_row_to_pack(worker, &set->packed, place, row);
			moved[r] = cpu_row_moved(worker->context, row);
		}
		cpu_pack_sliver(worker, &job, sliver, rows);
	}
	else
		cpu_set_thresholds(worker, &job, sliver);
}

/* What is to be done, once form and filter are known; with the lock held. */
void
cpu_begin_packing(FastedJoin *join)
{
	atomic_store(&join->context->int8, join->int8);
	join->laid_out = true;
	join->eps_upper = cpu_eps_upper(join, join->form, join->int8, join->problem.eps);
	for (int i = 0; i < (join->self ? 1 : 2); i++)
	{
		FastedSet  *set = join->sets[i];

		join->packing[i] = PACK_ROWS;
		if (set->form == join->form && set->packed.layout.int8 == join->int8)
			join->packing[i] = set->eps == join->problem.eps ? PACKED_ALREADY : PACK_THRESHOLDS;
		if (join->level_packing[i] == PACK_ROWS)
			join->packing[i] = PACK_ROWS;	/* the rows' order is new */
		if (join->packing[i] == PACK_ROWS)
		{
			cpu_packed_lay_out(join->context, &set->packed, set->rows.rows,
							   join->context->options.dimensions, join->int8);
			cpu_fine_lay_out(join, set);
		}
	}
	join->fine = join->row_set->fine.values != NULL && join->col_set->fine.values != NULL &&
		!cpu_finds_nearest(join);
}

/* Slivers of set a, then of set b. */
void
cpu_pack(Worker *worker)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	size_t		slivers[2] = {0, 0};
	uint64_t	first;

	for (int i = 0; i < 2; i++)
	{
		if (join->packing[i] != PACKED_ALREADY)
			slivers[i] = join->sets[i]->packed.layout.padded_rows / context->kernel->width;
	}
	while ((first = cpu_claim(context) * PACK_CLAIM) < slivers[0] + slivers[1])
	{
		cpu_rest_if_alone(context);
		for (uint64_t s = first; s < first + PACK_CLAIM && s < slivers[0] + slivers[1]; s++)
		{
			int			i = s >= slivers[0];

			if (cpu_stopping(context))
				return;
			pack_set_sliver(worker, join->sets[i], join->packing[i], i == 0 ? s : s - slivers[0]);
		}
	}
}
