/*-------------------------------------------------------------------------
 *
 * level_choice.c
 *	  Chooses the pruning levels of a join.
 *
 * A sample of tiles is tested.  Costs are in bytes per row of a tile, because multiplying a byte takes
 * about as long with any filter.  Nothing depends on time or threads, so that the same rows always get
 * the same levels.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../rows/levels.h"
#include "../rows/projection.h"
#include "level_choice.h"
#include "strip.h"

/* Rows of tiles that are tested: one in TESTED_PART, from TESTED_LEAST up to TESTED_MOST. */
#define TESTED_PART 256
#define TESTED_LEAST 4

/* Pruning must reduce the cost at least to this fraction. */
#define WORTH 0.9

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

bool
cpu_prepare_pruning(FastedJoin *join)
{
	FastedContext *context = join->context;

	for (int i = 0; i < join->nsets && !cpu_rows_may_move(join); i++)
	{
		if (join->sets[i]->levels.ordered)
			cpu_set_discard_packed(join->sets[i]);
	}
	if (!context->plan.may_prune || !cpu_rows_may_move(join) || !is_worth_it(join))
		return true;
	if (!cpu_reserve_orders(join))
		return false;
	join->pruning.projection = known_projection(join);
	if (join->pruning.projection != NULL)
	{
		join->pruning.projection->refcount++;
		join->pruning.state = PRUNING_PROJECTED;
		return true;
	}
	if (context->fit_buffer == NULL)
		context->fit_buffer = fasted_cpu_map(context->plan.fit_bytes, &context->memory);
	join->pruning.projection = cpu_projection_new(context);
	join->pruning.state = PRUNING_FIT;
	return context->fit_buffer != NULL && join->pruning.projection != NULL;
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

	for (uint32_t level = 0; level < join->pruning.projection->levels; level++)
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

		if (tiles++ % 64 == 0 && !cpu_may_continue(join->context))
			break;
		test_tile(worker, row, col, hits);
		for (uint32_t levels = 1; levels < 1U << join->pruning.projection->levels; levels++)
			sums[levels] += tile_cost(costs, levels, hits);
	}
	return tiles;
}

/* --- the phases */

void
cpu_fit_projection(Worker *worker)
{
	FastedJoin *join = worker->join;
	bool		forced = join->context->options.prune == FASTED_PRUNE_FORCE;

	join->pruning.state = (forced || cpu_fit_promises(worker, join->pruning.projection)) &&
		cpu_fit(worker, join->pruning.projection) ? PRUNING_PROJECTED : PRUNING_OFF;
}

bool
cpu_begin_projecting(FastedJoin *join)
{
	bool		projecting = false;

	for (int i = 0; i < join->nsets && join->pruning.state != PRUNING_OFF; i++)
	{
		SetLevels  *levels = &join->sets[i]->levels;

		join->pruning.packing[i] = PACK_ROWS;
		if (levels->projection == join->pruning.projection)
			join->pruning.packing[i] = levels->eps == join->choice.eps ? PACKED_ALREADY : PACK_THRESHOLDS;
		else
		{
			levels->ordered = false;
			projecting = true;
		}
	}
	return projecting;
}

bool
cpu_begin_levels(FastedJoin *join)
{
	for (int i = 0; i < join->nsets; i++)
	{
		FastedSet  *set = join->sets[i];

		if (join->pruning.packing[i] != PACK_ROWS)
			continue;
		set->levels.ordered = true;
		for (uint32_t level = 0; level < join->pruning.projection->levels; level++)
			cpu_packed_lay_out(join->context, &set->levels.packed[level], set->rows.rows,
							   LEVEL_WORDS(level), cpu_level_filter(join->context));
	}
	return join->pruning.state != PRUNING_OFF;
}

bool
cpu_begin_testing(FastedJoin *join)
{
	uint32_t	rows = (uint32_t) (join->row_set->rows.rows / join->context->kernel->tile_rows);

	if (join->pruning.state == PRUNING_OFF)
		return false;
	if (join->context->options.prune == FASTED_PRUNE_FORCE)
	{
		join->pruning.levels = (1U << join->pruning.projection->levels) - 1;
		join->pruning.state = PRUNING_LEVELED;
		return false;
	}
	join->pruning.tested_rows = cpu_clamp(rows / TESTED_PART, TESTED_LEAST, TESTED_MOST);
	if (join->pruning.tested_rows > rows)
		join->pruning.tested_rows = rows;
	return true;
}

void
cpu_test_levels(Worker *worker)
{
	FastedJoin *join = worker->join;
	uint32_t	tile_rows = join->context->kernel->tile_rows;
	uint32_t	rows = (uint32_t) (join->row_set->rows.rows / tile_rows);
	PruneCosts	costs = cpu_prune_costs(join);
	uint64_t	i;

	while ((i = cpu_next_item(join->context)) < join->pruning.tested_rows && !cpu_stopping(join->context))
	{
		uint32_t	row = fasted_sample_row((uint32_t) i, join->pruning.tested_rows, rows);

		join->pruning.tested_tiles[i] = test_row(worker, &costs, (size_t) row * tile_rows,
												 join->pruning.tested_costs[i]);
	}
}

void
cpu_choose_levels(FastedJoin *join)
{
	double		sums[PRUNE_SEQUENCES] = {0};
	double		full;

	if (join->pruning.tested_rows == 0)
		return;
	full = cpu_prune_costs(join).full;
	for (uint32_t i = 0; i < join->pruning.tested_rows; i++)
	{
		sums[0] += WORTH * full * join->pruning.tested_tiles[i];
		for (uint32_t levels = 1; levels < 1U << join->pruning.projection->levels; levels++)
			sums[levels] += join->pruning.tested_costs[i][levels];
	}
	for (uint32_t levels = 1; levels < 1U << join->pruning.projection->levels; levels++)
	{
		if (sums[levels] < sums[join->pruning.levels])
			join->pruning.levels = levels;
	}
	join->pruning.state = PRUNING_LEVELED;
}

void
cpu_keep_levels(FastedJoin *join)
{
	bool		laid_out = join->packed != ROWS_NOT_LAID_OUT;

	for (int i = 0; i < join->nsets; i++)
	{
		FastedSet  *set = join->sets[i];

		if (join->pruning.packing[i] == PACKED_ALREADY || (join->pruning.projection == NULL && laid_out))
			continue;
		if (join->pruning.state == PRUNING_LEVELED && (laid_out || join->pruning.packing[i] == PACK_THRESHOLDS))
		{
			if (join->pruning.packing[i] == PACK_ROWS)
			{
				cpu_projection_drop(join->context, set->levels.projection);
				set->levels.projection = join->pruning.projection;
				join->pruning.projection->refcount++;
			}
			set->levels.eps = join->choice.eps;
		}
		else if (join->pruning.packing[i] == PACK_ROWS)
			cpu_set_discard_packed(set);
		else
			set->levels.eps = NAN;
	}
	cpu_projection_drop(join->context, join->pruning.projection);
}
