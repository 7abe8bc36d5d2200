/*-------------------------------------------------------------------------
 *
 * cpu_prune_test.c
 *	  Which levels a join has: by a sample of its tiles.
 *
 * Costs are in bytes of a tile's row, which take about as long to multiply whatever the
 * filter: one an INT8 number, two in 16 bits, four in FP32.  Nothing here depends on time
 * or threads, so that the same rows have the same levels.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "cpu_prune.h"

/* Rows of tiles that are looked at: one in so many, within limits. */
#define TESTED_PART 256
#define TESTED_LEAST 4
#define TESTED_MOST 32

/* What a tile costs beside them. */
#define TILE_COST 12.0

/* A recheck takes as long as so many bytes of pairs. */
#define RECHECK_DIMENSION_COST 48.0
#define RECHECK_COST 8192.0

/* Pruning must promise this part of the whole cost. */
#define WORTH 0.9

#define SEQUENCES (1U << FASTED_PRUNE_LEVELS)

static double
cost_at(const CpuKernel *kernel, uint32_t dimensions, bool int8)
{
	return TILE_COST + sizeof(uint32_t) * (int8 ? cpu_int8_words(kernel, dimensions) : dimensions);
}

double
cpu_level_cost(const FastedContext *context, uint32_t level)
{
	return cost_at(context->kernel, LEVEL_WORDS(level), context->may_use_int8);
}

/* Of a tile at all dimensions. */
double
cpu_full_cost(const FastedJoin *join)
{
	return cost_at(join->context->kernel, join->context->options.dimensions, join->int8);
}

/* Of one candidate. */
double
cpu_recheck_cost(const FastedContext *context)
{
	const CpuKernel *kernel = context->kernel;

	return (RECHECK_COST + RECHECK_DIMENSION_COST * context->options.dimensions)
		/ (kernel->tile_rows * kernel->tile_cols);
}

/* What a tile costs with these levels, where so many pairs are left after each. */
static double
tile_cost(const FastedJoin *join, uint32_t levels, const uint32_t *hits)
{
	double		full = cpu_full_cost(join);
	double		recheck = cpu_recheck_cost(join->context);
	double		cost = 0.0;
	double		left = 0.0;

	for (uint32_t level = 0; level < FASTED_PRUNE_LEVELS; level++)
	{
		double		next = cpu_level_cost(join->context, level);

		if ((levels & 1U << level) == 0)
			continue;
		if (cost > 0.0 && left <= next)
			return cost + left;
		cost += next;
		left = hits[level] * recheck;
	}
	return cost + (left < full ? left : full);
}

/* Tests one tile at all levels. */
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

/* Adds what the tiles of one row of tiles cost, by each sequence; how many they are. */
static size_t
test_row(Worker *worker, size_t row, double *costs)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->context->kernel;
	size_t		first = join->self ? row / kernel->tile_cols * kernel->tile_cols : 0;
	size_t		tiles = 0;

	for (size_t col = first; col < join->col_set->rows.rows; col += kernel->tile_cols)
	{
		uint32_t	hits[FASTED_PRUNE_LEVELS] = {0};

		if (tiles++ % 64 == 0)
			cpu_rest_if_alone(join->context, cpu_now());
		if (cpu_stopping(join->context))
			break;
		test_tile(worker, row, col, hits);
		for (uint32_t levels = 1; levels < 1U << join->projection->levels; levels++)
			costs[levels] += tile_cost(join, levels, hits);
	}
	return tiles;
}

/* The levels, as bits; none: tiles are tested at all dimensions at once. */
uint32_t
cpu_choose_levels(Worker *worker)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->context->kernel;
	uint32_t	rows = (uint32_t) (join->row_set->rows.rows / kernel->tile_rows);
	uint32_t	tested = rows / TESTED_PART;
	double		costs[SEQUENCES] = {0};
	uint32_t	best = 0;
	size_t		tiles = 0;

	if (tested < TESTED_LEAST)
		tested = TESTED_LEAST;
	if (tested > TESTED_MOST)
		tested = TESTED_MOST;
	if (tested > rows)
		tested = rows;
	for (uint32_t i = 0; i < tested && !cpu_stopping(join->context); i++)
		tiles += test_row(worker, (size_t) fasted_spread_row(i, tested, rows) * kernel->tile_rows,
						  costs);
	costs[0] = WORTH * cpu_full_cost(join) * tiles;
	for (uint32_t levels = 1; levels < 1U << join->projection->levels; levels++)
	{
		if (costs[levels] < costs[best])
			best = levels;
	}
	return best;
}
