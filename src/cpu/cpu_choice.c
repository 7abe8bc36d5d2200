/*-------------------------------------------------------------------------
 *
 * cpu_choice.c
 *	  Which form and which filter a join has.
 *
 * INT8 multiplies four times as fast, and finds more pairs that turn out to be too
 * far apart.  So may a form that was found for other rows.  A sample of the rows
 * that are to be joined tells how many.
 *
 * A form that the larger set has is kept where it is good enough: to pack the
 * larger set costs more.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "cpu_filter.h"
#include "cpu_phases.h"
#include "cpu_recheck.h"

/* Fewer pairs of rows than this are joined before a choice pays: 4096 rows. */
#define CHOICE_AREA (0.5 * 4096 * 4095)

/*
 * Rows for each of which so many candidates in vain are expected are worth packing
 * once more; and one in this many of all pairs.
 */
#define WORTH_CANDIDATES 2.0
#define WORTH_SHARE 2

/*
 * INT8 pays while at most one pair in so many is a candidate in vain: to recheck it
 * takes as long as INT8 saves for these.  It saves about 11 ps a pair and dimension,
 * and a recheck takes 40 ns and 0.25 ns a dimension, on a Xeon of 2023.  Where fine rows
 * are to tell what is in vain, that takes 18 ns and 15 ps a dimension, on an EPYC; half
 * as much again is for what other processors are slower at.
 */
static uint64_t
pairs_a_recheck(uint32_t dimensions, bool fine)
{
	return fine ? 2 + 2400 / dimensions : 24 + 4096 / dimensions;
}

/* Whose form is tried: the set with more rows, or with a form at all. */
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

/* Memory for a form and for samples. */
static bool
reserve_trial(FastedJoin *join)
{
	FastedContext *context = join->context;
	int			samples = !join->trial && !join->choosing ? 0 : join->self ? 1 : 2;

	join->found = cpu_form_hold(cpu_form_new(context));
	for (int i = 0; i < samples; i++)
	{
		if (!cpu_packed_reserve(context, &context->samples[i], context->sample_rows,
								cpu_packed_row_bytes(context)) ||
			!cpu_squares_reserve(context, &context->samples[i]))
			return false;
	}
	return join->found != NULL;
}

/* What the sets have, and what there is to decide; false: memory ran out. */
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
	if (cpu_finds_nearest(join))
		join->choice_key = -(double) join->problem.k;
	open = join->choosing && larger->chosen_eps != join->choice_key;
	join->common = have_common_form(join);
	join->tried = cpu_form_hold(larger->form);
	join->trial = join->tried != NULL && (open || !join->common);
	join->try_int8 = open || has_int8;
	if (join->tried == NULL || join->trial)
		return reserve_trial(join);
	/* no sample is looked at: an earlier join's says how far neighbours are */
	if (cpu_finds_nearest(join) && join->sets[0]->levels.eps < join->choice_eps)
		join->choice_eps = join->sets[0]->levels.eps;
	join->form = join->tried;
	join->int8 = has_int8;
	return true;
}

/* How many rows of a set are looked at. */
static uint32_t
sampled_rows(const FastedSet *set)
{
	uint32_t	most = set->context->sample_rows;

	return set->rows.rows < most ? (uint32_t) set->rows.rows : most;
}

/* Packs some rows that are spread over the set, in room of their own. */
static void
pack_sample(Worker *worker, const FastedSet *set, PackJob *job, bool int8)
{
	FastedContext *context = worker->context;
	uint32_t	width = context->kernel->width;
	uint32_t	count = sampled_rows(set);

	cpu_packed_lay_out(context, job->to, count, context->options.dimensions, int8);
	for (size_t sliver = 0; sliver * width < job->to->layout.padded_rows; sliver++)
	{
		const float *rows[FASTED_MAX_WIDTH] = {NULL};
		double		moved[FASTED_MAX_WIDTH] = {0};

		if (cpu_stopping(context))
			return;
		for (uint32_t r = 0; r < width && sliver * width + r < count; r++)
		{
			size_t		number = sliver * width + r;

			const float *row = cpu_spread_row(&set->rows, (uint32_t) number, count);

			rows[r] = cpu_row_to_pack(worker, job->to, number, row);
			moved[r] = cpu_row_moved(context, row);
		}
		job->moved = moved;
		cpu_pack_sliver(worker, job, sliver, rows);
	}
}

/* Candidates of the sample, by the hit map, and how many of them are pairs. */
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
		const float *x = cpu_spread_row(&join->row_set->rows, row, count_a);

		worker->listed = 0;
		cpu_list_row(worker, strip, row, 0);
		for (uint32_t c = 0; c < worker->listed; c++)
		{
			uint32_t	col = worker->list[c].col;
			const float *y = cpu_spread_row(&join->col_set->rows, col, count_b);
			double		value = cpu_recheck_rows(&recheck, x, y, context->options.dimensions);

			*pairs += cpu_distance(&recheck, value, row, col) <= join->choice_eps;
		}
		*candidates += worker->listed;
	}
	worker->listed = 0;
}

/*
 * Do so many candidates of a sample, of so many pairs of rows, say that fine rows pay?
 */
static bool
cpu_fine_may_pay(const FastedJoin *join, uint64_t candidates, uint64_t pairs, uint64_t area)
{
	double		vain = (double) (candidates - pairs);
	double		rows = (double) join->row_set->rows.rows
		+ (join->self ? 0.0 : (double) join->col_set->rows.rows);

	return vain * WORTH_SHARE >= (double) pairs &&
		vain / (double) area * cpu_join_area(join) >= WORTH_CANDIDATES * rows;
}

/* Joins a sample in this form by this filter; whether few enough candidates are in vain. */
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
	PackJob		job = {.form = form,.eps_upper = cpu_eps_upper(join, form, int8, join->choice_eps)};
	uint64_t	candidates = 0;
	uint64_t	pairs = 0;

	job.to = &samples[0];
	pack_sample(worker, join->row_set, &job, int8);
	job.to = &samples[1];
	if (!join->self)
		pack_sample(worker, join->col_set, &job, int8);
	cpu_filter_strip(worker, &samples[0], &samples[join->self ? 0 : 1], &strip);
	count_sample(worker, &strip, &candidates, &pairs);
	if (int8)
		join->fine_pays = cpu_fine_may_pay(join, candidates, pairs, area);
	if (int8 && context->options.filter == FASTED_FILTER_AUTO)
	{
		atomic_fetch_add(&context->sampled_candidates, candidates);
		atomic_fetch_add(&context->sampled_pairs, pairs);
		atomic_store(&context->filter_sampled, true);
	}
	return (candidates - pairs) *
		pairs_a_recheck(context->options.dimensions, int8 && cpu_has_fine(join, form)) <= area;
}

/* Takes the larger set's form if it is good. */
void
cpu_try_form(Worker *worker)
{
	FastedJoin *join = worker->join;

	if (cpu_claim(join->context) != 0)
		return;					/* another thread's work */
	if (cpu_finds_nearest(join))
		cpu_find_choice_eps(worker);
	if (join->try_int8 && !join->tried->has_int8)
		cpu_int8_find_transform(worker, join->tried);
	if (cpu_stopping(join->context) || !form_is_good(worker, join->tried, join->try_int8))
		return;
	join->form = join->tried;
	join->int8 = join->try_int8;
}

/*
 * The form that was found, or in FP32 the one that was tried: it may have been too
 * bad for INT8 only.
 */
void
cpu_choose_filter(Worker *worker)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	bool		forced = context->may_use_int8 && context->options.filter == FASTED_FILTER_INT8;

	if (cpu_claim(context) != 0)
		return;					/* another thread's work */
	if (cpu_finds_nearest(join) && (join->choosing || join->pruning || join->tried != NULL))
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

/* What a join leaves in one of its sets. */
static void
keep_form(const FastedJoin *join, FastedSet *set, Packing packing)
{
	if (packing == PACK_ROWS)
	{
		cpu_form_drop(join->context, set->form);
		set->form = join->packed ? cpu_form_hold(join->form) : NULL;
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

/* At the end of a join, however it ended. */
void
cpu_keep_forms(FastedJoin *join)
{
	for (int i = 0; i < (join->self ? 1 : 2) && join->laid_out; i++)
		keep_form(join, join->sets[i], join->packing[i]);
	cpu_form_drop(join->context, join->tried);
	cpu_form_drop(join->context, join->found);
}
