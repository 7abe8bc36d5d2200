/*-------------------------------------------------------------------------
 *
 * choice.c
 *	  Chooses the form and the filter of a join.
 *
 * INT8 multiplies four times as fast as FP32, but finds more false candidates: pairs that turn
 * out to be too far apart.  A form that was computed for other rows may increase their number, too.
 * The number is estimated by joining a sample of the rows.
 *
 * The larger set's form is retained if it is good enough, because packing the larger set costs
 * more.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../rows/encoding.h"
#include "../rows/pack.h"
#include "../rows/sample.h"
#include "bits.h"
#include "choice.h"
#include "choice_eps.h"
#include "recheck.h"
#include "strip.h"

/* A sample is tested only if at least this many pairs are compared: a self-join of 4096 rows. */
#define CHOICE_AREA (0.5 * 4096 * 4095)

/*
 * INT16 rows pay if at least this many false candidates per row are expected, and if false
 * candidates are at least half as many as true pairs.
 */
#define WORTH_CANDIDATES 2.0
#define WORTH_SHARE 2

/*
 * Returns the least number of compared pairs per false candidate with which INT8 pays off.
 *
 * INT8 saves about 11 ps per pair and dimension.  A recheck takes 40 ns and 0.25 ns per dimension,
 * on a Xeon of 2023.  With INT16 rows a false candidate takes 18 ns and 15 ps per dimension, on an
 * EPYC.  The latter result has a margin of one half for other CPUs.
 */
static uint64_t
pairs_per_recheck(uint32_t dimensions, bool fine)
{
	return fine ? 2 + 2400 / dimensions : 24 + 4096 / dimensions;
}

/* Returns the set whose form is tested: the larger one; of equal sets, one that has a form. */
static const FastedSet *
larger_set(const FastedJoin *join)
{
	const FastedSet *a = join->sets[0];
	const FastedSet *b = join->sets[1];

	if (a->rows.rows != b->rows.rows)
		return a->rows.rows > b->rows.rows ? a : b;
	return a->form != NULL ? a : b;
}

static bool
have_common_form(const FastedJoin *join)
{
	const FastedSet *a = join->sets[0];
	const FastedSet *b = join->sets[1];

	if (a->form == NULL)
		return false;
	return join->self ? a->suits_itself
		: a->form == b->form && a->packed.layout.int8 == b->packed.layout.int8;
}

/* Allocates a form and the samples.  Returns false if out of memory. */
static bool
reserve_trial(FastedJoin *join)
{
	FastedContext *context = join->context;
	int			samples = !join->trial && !join->choosing ? 0 : join->nsets;

	join->found = cpu_form_new(context);
	for (int i = 0; i < samples; i++)
	{
		if (!cpu_packed_reserve(context, &context->samples[i], context->sample_rows, FULL_STAGE))
			return false;
	}
	return join->found != NULL;
}

bool
cpu_prepare_choice(FastedJoin *join)
{
	const FastedContext *context = join->context;
	const FastedSet *larger = larger_set(join);
	bool		has_int8 = larger->form != NULL && larger->packed.layout.int8;
	bool		open;

	join->choosing = context->may_use_int8 &&
		context->options.filter == FASTED_FILTER_AUTO && cpu_join_area(join) >= CHOICE_AREA;
	join->choice_eps = join->choice_key = join->problem.eps;
	if (join->nearest)
		join->choice_key = -(double) join->problem.k;
	if (context->bits)
		join->choosing = true;
	open = join->choosing && larger->chosen_eps != join->choice_key;
	join->common = have_common_form(join);
	join->tried = larger->form;
	if (join->tried != NULL)
		join->tried->refcount++;
	if (context->bits)
	{
		join->form = !open && join->common ? join->tried : NULL;
		return cpu_prepare_bits(join, cpu_rows_may_move(join));
	}
	join->trial = join->tried != NULL && (open || !join->common);
	join->try_int8 = open || has_int8;
	if (join->tried == NULL || join->trial)
		return reserve_trial(join);
	/* no sample is tested: use the estimate of an earlier join */
	if (join->nearest && join->sets[0]->levels.eps < join->choice_eps)
		join->choice_eps = join->sets[0]->levels.eps;
	join->form = join->tried;
	join->int8 = has_int8;
	return true;
}

/* Returns the number of sampled rows of a set. */
static uint32_t
sampled_rows(const FastedSet *set)
{
	return cpu_clamp(set->rows.rows, 0, set->context->sample_rows);
}

/* Packs a sample of the set's rows into its own buffer. */
static void
pack_sample(Worker *worker, const FastedSet *set, const PackJob *sample, bool int8)
{
	FastedContext *context = worker->context;
	uint32_t	width = context->kernel->width;
	uint32_t	count = sampled_rows(set);

	cpu_packed_lay_out(context, sample->to, count, context->options.dimensions, int8);
	for (size_t sliver = 0; sliver * width < sample->to->layout.padded_rows; sliver++)
	{
		PackJob		job = *sample;

		if (cpu_stopping(context))
			return;
		for (size_t place = sliver * width; place < (sliver + 1) * width && place < count; place++)
			cpu_load_row(worker, &job, place, cpu_sampled_row(&set->rows, (uint32_t) place, count));
		cpu_pack_sliver(worker, &job, sliver);
	}
}

/* Counts the candidates in the sample's hit map, and those that are pairs. */
static void
count_sample(Worker *worker, const Strip *strip, uint64_t *candidates, uint64_t *pairs)
{
	FastedJoin *join = worker->join;
	const FastedContext *context = join->context;
	Recheck		recheck = cpu_recheck(context, &context->samples[0],
									  &context->samples[join->self ? 0 : 1]);
	uint32_t	count_a = strip->rows_a;
	uint32_t	count_b = sampled_rows(join->col_set);

	for (uint32_t row = 0; row < count_a && !cpu_stopping(context); row++)
	{
		const float *x = cpu_sampled_row(&join->row_set->rows, row, count_a);

		worker->listed = 0;
		cpu_list_row(worker, strip, row, 0);
		for (uint32_t c = 0; c < worker->listed; c++)
		{
			uint32_t	col = worker->list[c].col;
			const float *y = cpu_sampled_row(&join->col_set->rows, col, count_b);
			double		value = recheck.rows(x, y, context->options.dimensions);

			*pairs += cpu_distance(&recheck, value, row, col) <= join->choice_eps;
		}
		*candidates += worker->listed;
	}
	worker->listed = 0;
}

/* Returns true if a sample of `area` pairs of rows indicates that INT16 rows pay. */
static bool
cpu_int16_may_pay(const FastedJoin *join, uint64_t candidates, uint64_t pairs, uint64_t area)
{
	double		vain = (double) (candidates - pairs);
	double		rows = (double) cpu_join_rows(join);

	return vain * WORTH_SHARE >= (double) pairs &&
		vain / (double) area * cpu_join_area(join) >= WORTH_CANDIDATES * rows;
}

/* Joins a sample with a form and a filter.  Returns true if it has few enough false candidates. */
static bool
form_is_good(Worker *worker, const Form *form, bool int8)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	PackedRows *samples = context->samples;
	uint64_t	rows = sampled_rows(join->row_set);
	uint64_t	cols = sampled_rows(join->col_set);
	uint64_t	area = join->self ? rows * (rows - 1) / 2 : rows * cols;
	Strip		strip = {.rows_a = (uint32_t) rows,.block_rows = context->sample_rows,
	.blocks = 1,.diagonal = join->self};
	PackJob		job = cpu_pack_job(join, form, int8, join->choice_eps, &samples[0]);
	uint64_t	candidates = 0;
	uint64_t	pairs = 0;

	pack_sample(worker, join->row_set, &job, int8);
	job.to = &samples[1];
	if (!join->self)
		pack_sample(worker, join->col_set, &job, int8);
	cpu_filter_strip(worker, &samples[0], &samples[join->self ? 0 : 1], &strip, false);
	count_sample(worker, &strip, &candidates, &pairs);
	if (int8)
		join->int16_pays = cpu_int16_may_pay(join, candidates, pairs, area);
	if (int8 && context->options.filter == FASTED_FILTER_AUTO)
	{
		pthread_mutex_lock(&context->lock);
		context->stats.sampled_candidates += candidates;
		context->stats.sampled_pairs += pairs;
		context->stats.filter_sampled = true;
		pthread_mutex_unlock(&context->lock);
	}
	return (candidates - pairs) *
		pairs_per_recheck(context->options.dimensions, int8 && cpu_has_int16(join, form)) <= area;
}

void
cpu_try_form(Worker *worker)
{
	FastedJoin *join = worker->join;

	if (join->nearest)
		cpu_find_choice_eps(worker);
	if (join->try_int8 && !join->tried->has_int8)
		cpu_int8_find_transform(worker, join->tried);
	if (cpu_stopping(join->context) || !form_is_good(worker, join->tried, join->try_int8))
		return;
	join->form = join->tried;
	join->int8 = join->try_int8;
}

void
cpu_choose_filter(Worker *worker)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	bool		forced = context->may_use_int8 && context->options.filter == FASTED_FILTER_INT8;

	if (join->nearest && (join->choosing || join->pruning || join->tried != NULL))
		cpu_find_choice_eps(worker);
	if (forced || join->choosing)
		cpu_int8_find_transform(worker, join->found);
	join->form = join->found;
	if (cpu_stopping(context))
		return;
	join->int8 = forced || (join->choosing && form_is_good(worker, join->found, true));
	if (!join->int8 && join->tried != NULL &&
		(join->common || form_is_good(worker, join->tried, false)))
		join->form = join->tried;
}

/* Records the form and the choice of a join in one of its sets. */
static void
keep_form(const FastedJoin *join, FastedSet *set, Packing packing)
{
	if (packing == PACK_ROWS)
	{
		cpu_form_drop(join->context, set->form);
		set->form = join->packed ? join->form : NULL;
		if (join->packed)
			join->form->refcount++;
		set->chosen_eps = NAN;
		set->suits_itself = false;
	}
	if (packing != PACKED_ALREADY)
		set->eps = join->packed ? join->problem.eps : NAN;
	if (join->packed && join->self)
		set->suits_itself = true;
	if (join->packed && join->choosing)
		set->chosen_eps = join->choice_key;
}

void
cpu_keep_forms(FastedJoin *join)
{
	for (int i = 0; i < join->nsets && join->laid_out; i++)
		keep_form(join, join->sets[i], join->packing[i]);
	cpu_form_drop(join->context, join->tried);
	cpu_form_drop(join->context, join->found);
}
