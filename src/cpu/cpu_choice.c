/*-------------------------------------------------------------------------
 *
 * cpu_choice.c
 *	  Chooses the form and the filter of a join, and its pruning levels.
 *
 * INT8 multiplies four times as fast as FP32, but finds more false candidates: pairs that turn
 * out to be too far apart.  A form that was computed for other rows may increase their number, too.
 * The number is estimated by joining a sample of the rows.
 *
 * The larger set's form is retained if it is good enough, because packing the larger set costs
 * more.
 *
 * The pruning levels are chosen by testing a sample of tiles.  Costs are in bytes per row of a
 * tile: one per INT8 component, two in 16 bits, four in FP32.  Multiplying a byte takes about as
 * long with any filter.  Nothing here depends on time or threads, so that the same rows always get
 * the same levels.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "cpu_bits.h"
#include "cpu_filter.h"
#include "cpu_phases.h"

/* A sample is tested only if at least this many pairs are compared: a self-join of 4096 rows. */
#define CHOICE_AREA (0.5 * 4096 * 4095)

/*
 * INT16 rows pay if at least this many false candidates per row are expected, and if false
 * candidates are at least half as many as true pairs.
 */
#define WORTH_CANDIDATES 2.0
#define WORTH_SHARE 2

/* Rows of tiles that are tested: one in TESTED_PART, from TESTED_LEAST up to TESTED_MOST. */
#define TESTED_PART 256
#define TESTED_LEAST 4

/* Pruning must reduce the cost at least to this fraction. */
#define WORTH 0.9

/* --- form and filter */

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

/*
 * Returns true if rows may be reordered.  Slices must be the same on every machine, but the order
 * depends on the kernel's rounding.  Rows of a partition must be adjacent.  Otherwise rows stay in
 * input order, or return to it.
 */
static bool
rows_may_move(const FastedJoin *join)
{
	return (join->problem.slices == 1 || join->problem.identical_kernels) && join->problem.partitions == NULL;
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

/*
 * Determines which forms the sets have, and what has to be decided.  Returns false if out of
 * memory.
 */
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
		return cpu_prepare_bits(join, rows_may_move(join));
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

/* Tests the larger set's form, and chooses it if it is good. */
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

/*
 * Chooses the filter, and the new form.  With FP32 the tested form may still be chosen: it may
 * have been bad for INT8 only.
 */
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

/* Called at the end of every join, also of an unfinished one. */
void
cpu_keep_forms(FastedJoin *join)
{
	for (int i = 0; i < join->nsets && join->laid_out; i++)
		keep_form(join, join->sets[i], join->packing[i]);
	cpu_form_drop(join->context, join->tried);
	cpu_form_drop(join->context, join->found);
}

/* --- pruning */

/* Returns whether pruning may pay.  With components, set b may have level rows already. */
static bool
is_worth_it(const FastedJoin *join)
{
	double		rows = (double) cpu_join_rows(join);

	if (join->problem.components != NULL && join->sets[1]->levels.projection != NULL)
		rows -= (double) join->sets[1]->rows.rows;
	return join->context->options.prune == FASTED_PRUNE_FORCE ||
		cpu_join_area(join) >= PRUNED_PAIRS_PER_ROW * (rows - 1.0);
}

/* Returns the projection that one of the sets has, preferably the larger set; or NULL. */
static Projection *
known_projection(const FastedJoin *join)
{
	const SetLevels *a = &join->sets[0]->levels;
	const SetLevels *b = &join->sets[1]->levels;
	bool		second = a->projection == NULL ||
		(b->projection != NULL && join->sets[1]->rows.rows > join->sets[0]->rows.rows);

	return second ? b->projection : a->projection;
}

/*
 * Decides whether pruning may pay, allocates its memory, and finds the sets' projection.  Returns
 * false if out of memory.
 */
bool
cpu_prepare_pruning(FastedJoin *join)
{
	FastedContext *context = join->context;

	for (int i = 0; i < join->nsets && !rows_may_move(join); i++)
	{
		if (join->sets[i]->levels.ordered)
			cpu_set_forget_form(join->sets[i]);
	}
	join->pruning = context->may_prune && rows_may_move(join) && is_worth_it(join);
	if (!join->pruning)
		return true;
	for (int i = 0; i < join->nsets; i++)
	{
		if (!cpu_levels_reserve(context, &join->sets[i]->levels, join->sets[i]->rows.rows))
			return false;
	}
	join->projection = known_projection(join);
	if (join->projection != NULL)
	{
		join->projection->refcount++;
		return true;
	}
	if (context->fit_buffer == NULL)
		context->fit_buffer = fasted_cpu_map(context->fit_bytes, &context->memory);
	join->projection = cpu_projection_new(context);
	join->fitting = true;
	return context->fit_buffer != NULL && join->projection != NULL;
}

/* --- which levels */

/* Returns the cost of a tile with these levels; hits are the pairs left after each level. */
static double
tile_cost(const PruneCosts *costs, uint32_t levels, const uint32_t *hits)
{
	double		cost = 0.0;
	double		left = 0.0;

	for (uint32_t level = 0; level < FASTED_PRUNE_LEVELS; level++)
	{
		if ((levels & 1U << level) == 0)
			continue;
		if (cost > 0.0 && left <= costs->level[level])
			return cost + left;
		cost += costs->level[level];
		left = hits[level] * costs->recheck;
	}
	return cost + (left < costs->full ? left : costs->full);
}

/* Counts the hits of one tile at every level. */
static void
test_tile(Worker *worker, size_t row, size_t col, uint32_t *hits)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->context->kernel;
	Tile		tile = {.row = row,.col = col,.hits = worker->hits,.hit_stride = FASTED_HIT_BYTES};

	for (uint32_t level = 0; level < join->projection->levels; level++)
	{
		memset(worker->hits, 0, kernel->tile_rows * FASTED_HIT_BYTES);
		cpu_sweep_tile(worker, &join->row_set->levels.packed[level],
					   &join->col_set->levels.packed[level], &tile);
		hits[level] = cpu_count_hits(kernel, &tile);
		if (hits[level] == 0)
			return;
	}
}

/* Adds the costs of one row of tiles, for each set of levels.  Returns the number of tiles. */
static size_t
test_row(Worker *worker, const PruneCosts *costs, size_t row, double *sums)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->context->kernel;
	size_t		first = join->self ? row / kernel->tile_cols * kernel->tile_cols : 0;
	size_t		tiles = 0;

	for (size_t col = first; col < join->col_set->rows.rows; col += kernel->tile_cols)
	{
		uint32_t	hits[FASTED_PRUNE_LEVELS] = {0};

		if (tiles++ % 64 == 0)
			if (!cpu_may_continue(join->context))
			break;
		test_tile(worker, row, col, hits);
		for (uint32_t levels = 1; levels < 1U << join->projection->levels; levels++)
			sums[levels] += tile_cost(costs, levels, hits);
	}
	return tiles;
}

/* --- the phases; the lock is held when a phase begins */

/* Computes a projection, or disables pruning if it would not help. */
void
cpu_fit_projection(Worker *worker)
{
	FastedJoin *join = worker->join;
	bool		forced = join->context->options.prune == FASTED_PRUNE_FORCE;

	join->pruning = (forced || cpu_fit_promises(worker, join->projection)) &&
		cpu_fit(worker, join->projection);
}

/* Determines what the sets need for the projection.  Returns true if rows have to be projected. */
bool
cpu_begin_projecting(FastedJoin *join)
{
	bool		projecting = false;

	for (int i = 0; i < join->nsets && join->pruning; i++)
	{
		SetLevels  *levels = &join->sets[i]->levels;

		join->level_packing[i] = PACK_ROWS;
		if (levels->projection == join->projection)
			join->level_packing[i] = levels->eps == join->choice_eps ? PACKED_ALREADY : PACK_THRESHOLDS;
		else
		{
			levels->ordered = false;
			projecting = true;
		}
	}
	return projecting;
}

/* Marks the sets as ordered and lays out their level rows.  Returns true if pruning is enabled. */
bool
cpu_begin_levels(FastedJoin *join)
{
	for (int i = 0; i < join->nsets; i++)
	{
		FastedSet  *set = join->sets[i];

		if (join->level_packing[i] != PACK_ROWS)
			continue;
		set->levels.ordered = true;
		for (uint32_t level = 0; level < join->projection->levels; level++)
			cpu_packed_lay_out(join->context, &set->levels.packed[level], set->rows.rows,
							   LEVEL_WORDS(level), join->context->may_use_int8);
	}
	return join->pruning;
}

/*
 * Determines which rows of tiles are tested.  Returns false if there is nothing to test, because
 * the join is not pruned, or at all levels.
 */
bool
cpu_begin_testing(FastedJoin *join)
{
	uint32_t	rows = (uint32_t) (join->row_set->rows.rows / join->context->kernel->tile_rows);

	if (!join->pruning)
		return false;
	if (join->context->options.prune == FASTED_PRUNE_FORCE)
	{
		join->levels = (1U << join->projection->levels) - 1;
		join->leveled = true;
		return false;
	}
	join->tested_rows = cpu_clamp(rows / TESTED_PART, TESTED_LEAST, TESTED_MOST);
	if (join->tested_rows > rows)
		join->tested_rows = rows;
	return true;
}

/* Tests rows of tiles; each is one work item. */
void
cpu_test_levels(Worker *worker)
{
	FastedJoin *join = worker->join;
	uint32_t	tile_rows = join->context->kernel->tile_rows;
	uint32_t	rows = (uint32_t) (join->row_set->rows.rows / tile_rows);
	PruneCosts	costs = cpu_prune_costs(join);
	uint64_t	i;

	while ((i = cpu_next_item(join->context)) < join->tested_rows && !cpu_stopping(join->context))
	{
		uint32_t	row = fasted_sample_row((uint32_t) i, join->tested_rows, rows);

		join->tested_tiles[i] = test_row(worker, &costs, (size_t) row * tile_rows, join->tested_costs[i]);
	}
}

/* Chooses the levels by the costs of the tested tiles.  0: test tiles at all dimensions at once. */
void
cpu_choose_levels(FastedJoin *join)
{
	double		sums[PRUNE_SEQUENCES] = {0};
	double		full;

	if (join->tested_rows == 0)
		return;
	full = cpu_prune_costs(join).full;
	for (uint32_t i = 0; i < join->tested_rows; i++)
	{
		sums[0] += WORTH * full * join->tested_tiles[i];
		for (uint32_t levels = 1; levels < 1U << join->projection->levels; levels++)
			sums[levels] += join->tested_costs[i][levels];
	}
	for (uint32_t levels = 1; levels < 1U << join->projection->levels; levels++)
	{
		if (sums[levels] < sums[join->levels])
			join->levels = levels;
	}
	join->leveled = true;
}

/*
 * Records the join's levels in its sets.  Called at the end of every join, also of an unfinished
 * one.  If the projection of a set was not completed, its order and packed rows are discarded.
 */
void
cpu_keep_levels(FastedJoin *join)
{
	for (int i = 0; i < join->nsets; i++)
	{
		FastedSet  *set = join->sets[i];

		if (join->level_packing[i] == PACKED_ALREADY || (join->context->bits && join->laid_out))
			continue;
		if (join->leveled && (join->laid_out || join->level_packing[i] == PACK_THRESHOLDS))
		{
			if (join->level_packing[i] == PACK_ROWS)
			{
				cpu_projection_drop(join->context, set->levels.projection);
				set->levels.projection = join->projection;
				join->projection->refcount++;
			}
			set->levels.eps = join->choice_eps;
		}
		else if (join->level_packing[i] == PACK_ROWS)
			cpu_set_forget_form(set);
		else
			set->levels.eps = NAN;
	}
	cpu_projection_drop(join->context, join->projection);
}
