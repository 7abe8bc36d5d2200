/*-------------------------------------------------------------------------
 *
 * cpu_pack.c
 *	  Packed rows and thresholds in FP32.
 *
 * A row too large for the form's scale, or not finite, is "wild": packed as zeros,
 * with a threshold that makes it a candidate of every row.  The recheck decides.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "../engine/filter_bound.h"
#include "cpu_join.h"

/* Slivers that are claimed at once while rows are packed. */
#define PACK_CLAIM 4

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
		cpu_rest_if_alone(context, cpu_now());
		for (uint64_t s = first; s < first + PACK_CLAIM && s < slivers[0] + slivers[1]; s++)
		{
			int			i = s >= slivers[0];

			if (cpu_stopping(context))
				return;
			pack_set_sliver(worker, join->sets[i], join->packing[i], i == 0 ? s : s - slivers[0]);
		}
	}
}
